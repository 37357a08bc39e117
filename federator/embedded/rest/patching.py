"""PATCH: JSON merge, JSON patch, strategic merge and server-side apply of objects and of their
status.

A patch makes a new state out of the stored one; from there on it is an update like any other. There
is one writer at a time in this process, so a patch never has to be tried again.
"""

from dataclasses import replace
from typing import Any

import msgspec

from federator.embedded.apply import ownership, patches
from federator.embedded.apply.strategic import go_map
from federator.embedded.auth import identities
from federator.embedded.rest import bodies, options, reading, writing
from federator.embedded.rest.context import Context
from federator.embedded.rest.options import WriteOptions
from federator.embedded.schema import event_groups
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Target
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def patch(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """PATCH of one object, or of its status."""
    info, media = target.info, bodies.media_type(request)
    accepted = (JSON_PATCH, MERGE, APPLY) + ((STRATEGIC,) if info.is_builtin else ())
    if media not in accepted:
        if media == STRATEGIC:
            raise refusals.unsupported_media(accepted)
        raise refusals.Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    opts = options.write_options(request, "PatchOptions", applies=media == APPLY)
    value = bodies.read_patch(request, media)
    if media == APPLY:
        document = bodies.patch_document(request, media, value)
        return _apply(ctx, request, target, document, opts)
    old = reading.existing(ctx.store, target)
    document = bodies.patch_document(request, media, value)
    patched = patched_tree(old.obj, document, media, info)
    same_kind = isinstance(patched, dict) and patched.get("kind") == info.kind
    if same_kind:
        identities.check_kind(patched, info, b"")
    fresh, warnings = _decode(patched, document, media, info, opts)
    with writing.warning(warnings):
        if same_kind:
            identities.check_names(fresh, target)
        revision = writing.update_object(ctx, target, old, fresh, opts)
    if not target.subresource:
        warnings += writing.warnings_about(ctx, revision.obj, old.obj, info)
    return writing.shown(ctx, request, info, revision, warnings=warnings)


def patched_tree(old: JsonObject, document: Any, media: str, info: ResourceInfo) -> JsonObject:
    """The stored object with the patch applied; shares what the patch left alone. Raises `Refusal`
    400 or 422."""
    try:
        if media == MERGE:
            merged: JsonObject = patches.merge(old, document)
            return merged
        if media == JSON_PATCH:
            edited: JsonObject = patches.json_patch(old, document)
            return edited
        return patches.strategic(old, document, info.node)
    except patches.BadPatch as error:
        details: dict[str, Any] | None = {} if error.status == 422 else None
        raise refusals.Refusal(error.status, error.reason, str(error), details) from None


def _decode(
    patched: JsonObject, document: Any, media: str, info: ResourceInfo, opts: WriteOptions
) -> tuple[JsonObject, tuple[str, ...]]:
    """Decodes what a patch made. Trouble is reported as about the patch, not about a body."""
    strict = opts.field_validation == "Strict"
    from_server = replace(opts, field_validation="Warn") if strict else opts
    try:
        fresh, warnings = writing.decode(patched, info, from_server, [])
    except refusals.Refusal as refusal:
        raise about_patch(patched, document, media, refusal.message) from None
    if warnings and strict:
        raise about_patch(patched, document, media, "strict decoding error: " + ", ".join(warnings))
    return fresh, warnings


def about_patch(patched: Any, document: Any, media: str, why: str) -> refusals.Refusal:
    """422: what a patch made cannot be decoded."""
    shown = go_map(document) if media == STRATEGIC else msgspec.json.encode(patched).decode()
    return refusals.invalid("", "", "", [field_errors.invalid("patch", shown, why)])


def _apply(
    ctx: Context, request: ApiRequest, target: Target, document: JsonObject, opts: WriteOptions
) -> Answer:
    """Server-side apply: merges by ownership; creates what is not there (201)."""
    info = target.info
    live = event_groups.get(ctx.store, info, target.space, target.name)
    if live is None and target.subresource and info.key not in writing.CREATED_BY_UPDATES:
        raise refusals.not_found(info.group, info.plural, target.name)
    _check_applied(document, target)
    now = ctx.clock.rfc3339()
    try:
        merged = ownership.apply(
            None if live is None else live.obj,
            document,
            opts.manager,
            opts.force,
            info,
            now,
            target.subresource,
        )
    except ownership.Untypable as error:
        raise refusals.Refusal(500, "", str(error)) from None
    if merged.conflicts:
        raise owned_by_others(merged.conflicts)
    if live is not None and merged.obj is live.obj:
        return writing.shown(ctx, request, info, live)
    lenient = replace(opts, field_validation="Ignore")
    fresh = _converted(merged.obj, document, target, lenient)
    identities.check_names({"metadata": dict(fresh.get("metadata") or {})}, target)
    if live is None:
        uid = (document.get("metadata") or {}).get("uid")
        if uid:
            why = (
                f"uid mismatch: the provided object specified uid {uid}, and no existing object"
                " was found"
            )
            raise refusals.conflict(info.group, info.plural, target.name, why)
        revision = writing.create_object(ctx, target, fresh, opts, applied=True)
        warnings = writing.warnings_about(ctx, revision.obj, None, info)
        return writing.shown(ctx, request, info, revision, status=201, warnings=warnings)
    revision = writing.update_object(ctx, target, live, fresh, opts, applied=True)
    warnings = (
        () if target.subresource else writing.warnings_about(ctx, revision.obj, live.obj, info)
    )
    return writing.shown(ctx, request, info, revision, warnings=warnings)


def _converted(
    merged: JsonObject, document: JsonObject, target: Target, opts: WriteOptions
) -> JsonObject:
    """What an apply made, decoded. Raises `Refusal` 500 for values that their type cannot hold."""
    info = target.info
    try:
        fresh, _ = writing.decode(merged, info, opts, [])
    except refusals.Refusal as refusal:
        kind = f"{info.api_version if info.group else '/' + info.version}, Kind={info.kind}"
        namespace = (document.get("metadata") or {}).get("namespace", "")
        why = refusal.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
        if why.startswith("illegal base64"):
            why = f"error decoding from json: {why}"
        raise refusals.Refusal(
            500,
            "",
            f"failed to convert new object ({namespace}/{target.name}; {kind}) to proper version:"
            " unable to convert "
            f"unstructured object to {kind}: {why}",
        ) from None
    return fresh


def _check_applied(document: JsonObject, target: Target) -> None:
    api_version, kind = document.get("apiVersion") or "", document.get("kind") or ""
    if api_version.count("/") > 1:
        api_version = kind = ""
    wanted = (target.info.api_version, target.info.kind)
    if not api_version or kind != wanted[1] or api_version != wanted[0]:
        group, _, version = api_version.rpartition("/")
        raise refusals.bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        return
    if metadata.get("managedFields") is not None:
        raise refusals.bad_request("metadata.managedFields must be nil")
    metadata.pop("managedFields", None)
    identities.check_kind({"apiVersion": api_version, "kind": kind}, target.info, b"")


def owned_by_others(conflicts: list[field_errors.FieldError]) -> refusals.Refusal:
    """409: what is applied belongs to other managers."""
    causes = [conflict.cause() for conflict in conflicts]
    message = ownership.conflict_message(conflicts)
    return refusals.Refusal(409, "Conflict", message, {"causes": causes})
