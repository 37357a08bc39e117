"""POST and PUT: from a request's body to a stored object, through the same gates in the same order
as a real server.

decode -> identity (kind, name, namespace) -> prune -> defaults -> strategy -> validation ->
ownership -> store. PATCH and the sub-resources make their own object and join at `admit`. Stored
objects are never changed; every step works on a fresh tree.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from federator.embedded.apply import ownership
from federator.embedded.auth import escalation, identities
from federator.embedded.catalogue import crds, natives
from federator.embedded.rest import bodies, options, validation, views
from federator.embedded.rest.context import Context
from federator.embedded.rest.options import WriteOptions
from federator.embedded.schema import defaults, event_groups, pruning
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Target
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject, Revision

NAMESPACES = ("", "namespaces")
_SERVICES = ("", "services")
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_RBAC = "rbac.authorization.k8s.io"
CREATED_BY_UPDATES = frozenset(
    {
        ("", "events"),
        ("events.k8s.io", "events"),
        ("", "services"),
        ("", "endpoints"),
        ("", "limitranges"),
        ("coordination.k8s.io", "leases"),
        *(
            (_RBAC, plural)
            for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        ),
    }
)
"""Resources that a PUT creates when they are not there (their registries allow it)."""
_VERSIONED_UPDATES = frozenset(
    {("coordination.k8s.io", "leases"), ("policy", "poddisruptionbudgets")}
)
"""Builtins that refuse a PUT without a resourceVersion, as custom resources do."""
_NEVER_NEW_GENERATION = frozenset({("scheduling.k8s.io", "priorityclasses")})
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def create(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """POST to a collection: 201 with the stored object."""
    return _written(ctx, request, target, "CreateOptions", _created)


def _written(
    ctx: Context, request: ApiRequest, target: Target, kind: str, store: Callable[..., Answer]
) -> Answer:
    opts = options.write_options(request, kind)
    fresh, warnings = _given(request, target, opts)
    with warning(warnings):
        identities.check_names(fresh, target)
        return store(ctx, request, target, fresh, opts, warnings=warnings)


def _given(
    request: ApiRequest, target: Target, opts: WriteOptions
) -> tuple[JsonObject, tuple[str, ...]]:
    """The object of the body, decoded, and what there is to warn of."""
    if target.info.key == _DEFINITIONS:
        return _definition(request, target.info, opts)
    return _read(request, target.info, opts)


def _read(
    request: ApiRequest, info: ResourceInfo, opts: WriteOptions
) -> tuple[JsonObject, tuple[str, ...]]:
    given = bodies.read_object(request, info)
    identities.check_kind(given, info, request.body, opts.field_validation)
    looked_at = opts.field_validation != "Ignore"
    return decode(given, info, opts, bodies.duplicates(request, given) if looked_at else [])


_READ: dict[tuple[bytes, str, str], tuple[JsonObject, tuple[str, ...]]] = {}
"""Definitions by body, content type and field validation: hundreds of clusters of one process are
given the same few large ones. Emptied when outgrown."""
_READ_LIMIT: Final = 256


def _definition(
    request: ApiRequest, info: ResourceInfo, opts: WriteOptions
) -> tuple[JsonObject, tuple[str, ...]]:
    """Returns a decoded CustomResourceDefinition that refers to the process-wide schemas."""
    key = (request.body, bodies.media_type(request), opts.field_validation)
    known = _READ.get(key)
    if known is None:
        fresh, warnings = _read(request, info, opts)
        defaults.fill(fresh, info)
        crds.share_schemas(fresh)
        if len(_READ) >= _READ_LIMIT:
            _READ.clear()
        known = _READ[key] = fresh, warnings
    return crds.copied(known[0]), known[1]


def _created(
    ctx: Context,
    request: ApiRequest,
    target: Target,
    fresh: JsonObject,
    opts: WriteOptions,
    *,
    warnings: tuple[str, ...],
) -> Answer:
    revision = create_object(ctx, target, fresh, opts)
    warnings += warnings_about(ctx, revision.obj, None, target.info)
    return shown(ctx, request, target.info, revision, status=201, warnings=warnings)


@contextlib.contextmanager
def warning(warnings: tuple[str, ...]) -> Iterator[None]:
    """Lets a refusal within the block carry the warnings about the body, as a real server sends
    them."""
    try:
        yield
    except refusals.Refusal as refusal:
        refusal.warnings = (*warnings, *refusal.warnings)
        raise


def create_object(
    ctx: Context, target: Target, fresh: JsonObject, opts: WriteOptions, *, applied: bool = False
) -> Revision:
    """Stores a decoded new object. `applied`: its managedFields are already those of an apply."""
    info = target.info
    metadata = fresh.setdefault("metadata", {})
    metadata.pop("namespace", None)
    if target.namespace is not None:
        metadata["namespace"] = target.namespace
    has_version = bool(metadata.get("resourceVersion")) and not applied
    _check_namespace(ctx, info, metadata)
    escalation.check(ctx.authorizer, opts.caller, target, fresh, None)
    for field in (*_SYSTEM_FIELDS, "resourceVersion", "selfLink"):
        metadata.pop(field, None)
    metadata["uid"] = ctx.store.new_uid()
    metadata["creationTimestamp"] = ctx.clock.rfc3339()
    defaults.fill(fresh, info)
    # What strategies generate has no owner, so ownership is written down before they run.
    if not applied:
        _own(None, fresh, ctx, info, opts)
    # A name that is drawn comes after defaults, so that what they make of a name (a label) has no
    # owner then.
    _name(ctx, metadata)
    natives.prepare_create(fresh, info, uid=metadata["uid"])
    if info.key == _SERVICES:
        ctx.addresses.give(fresh, None, dry_run=opts.dry_run)
    _refuse_errors(info, metadata["name"], validation.check(fresh, None, info), fresh["kind"])
    with warning(tuple(validation.warnings(fresh, None, info))):
        validation.admit(fresh, None, info, ctx.labels_of(metadata.get("namespace", "")))
        # A trial does not come as far as the storage, which is what minds.
        if has_version and not opts.dry_run:
            raise refusals.Refusal(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        _announce(ctx, fresh, opts)
        return _stored(ctx, info, fresh, opts)


def _announce(ctx: Context, fresh: JsonObject, opts: WriteOptions) -> None:
    for hook in () if opts.dry_run else ctx.before_write:
        hook(fresh)


def _stored(ctx: Context, info: ResourceInfo, fresh: JsonObject, opts: WriteOptions) -> Revision:
    if info.key == ctx.registry.crd.key:
        fresh["status"] = crds.established_status(fresh, ctx.clock.rfc3339())
    try:
        return event_groups.create(ctx.store, info, fresh, dry_run=opts.dry_run)
    except refusals.Refusal as refusal:
        metadata = fresh["metadata"]
        there = event_groups.get(ctx.store, info, metadata.get("namespace", ""), metadata["name"])
        if there is not None and "deletionTimestamp" in there.obj["metadata"]:
            refusal.message = f"object is being deleted: {refusal.message}"
        raise


def replace(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """PUT of one object (or of its status): 200 with the stored object."""
    return _written(ctx, request, target, "UpdateOptions", _replaced)


def _replaced(
    ctx: Context,
    request: ApiRequest,
    target: Target,
    fresh: JsonObject,
    opts: WriteOptions,
    *,
    warnings: tuple[str, ...],
) -> Answer:
    info, metadata = target.info, fresh["metadata"]
    old = event_groups.get(ctx.store, info, target.space, target.name)
    if old is None:
        if info.key not in CREATED_BY_UPDATES:
            raise refusals.not_found(info.group, info.plural, target.name)
        _check_uid(info, target, metadata, "")
        metadata.pop("resourceVersion", None)
        return _created(ctx, request, target, fresh, opts, warnings=warnings)
    version = metadata.get("resourceVersion")
    if not version and (not info.is_builtin or info.key in _VERSIONED_UPDATES):
        where, why = "metadata.resourceVersion", "must be specified for an update"
        error = field_errors.invalid(where, 0, why)
        raise refusals.invalid(info.group, info.plural, target.name, [error])
    _check_uid(info, target, metadata, old.obj["metadata"]["uid"])
    revision = update_object(ctx, target, old, fresh, opts)
    if not target.subresource:
        warnings += warnings_about(ctx, revision.obj, old.obj, info)
    return shown(ctx, request, info, revision, warnings=warnings)


def update_object(
    ctx: Context,
    target: Target,
    old: Revision,
    fresh: JsonObject,
    opts: WriteOptions,
    *,
    applied: bool = False,
) -> Revision:
    """Stores a decoded new state of an existing object, or of its status when the target says
    so."""
    info, before = target.info, old.obj["metadata"]
    metadata = fresh["metadata"]
    if target.namespace is None:
        metadata.pop("namespace", None)
    escalation.check(ctx.authorizer, opts.caller, target, fresh, old.obj)
    version = metadata.get("resourceVersion") or None
    if version is not None and version != before["resourceVersion"]:
        raise refusals.conflict(info.group, info.plural, target.name, refusals.MODIFIED)
    _keep_system_fields(metadata, before)
    status = target.subresource == "status"
    # Defaults first: what the strategies take from the stored object is shared with it and must not
    # be written to.
    defaults.fill(fresh, info)
    if not applied:
        _own(old.obj, fresh, ctx, info, opts, subresource=target.subresource)
    if status:
        natives.prepare_status(fresh, old.obj, info)
    else:
        natives.prepare_update(fresh, old.obj, info)
        if info.key == _SERVICES:
            ctx.addresses.give(fresh, old.obj, dry_run=opts.dry_run)
    _refuse_errors(
        info, target.name, validation.check(fresh, old.obj, info, target.subresource), fresh["kind"]
    )
    if not target.subresource:
        validation.admit(fresh, old.obj, info, ctx.labels_of(target.space))
        _announce(ctx, fresh, opts)
    if info.key == ctx.registry.crd.key and not status:
        fresh["status"] = crds.established_status(fresh, ctx.clock.rfc3339())
    same = status or info.key in _NEVER_NEW_GENERATION
    return event_groups.update(ctx.store, info, fresh, same_generation=same, dry_run=opts.dry_run)


def warnings_about(
    ctx: Context, obj: JsonObject, old: JsonObject | None, info: ResourceInfo
) -> tuple[str, ...]:
    """What there is to warn of about an object that was written."""
    pods: list[JsonObject] = []
    if info.key == NAMESPACES:
        pods = [
            pod.obj
            for pod in ctx.store.items(ctx.registry.get("", "pods"), obj["metadata"]["name"])
        ]
    labels = ctx.labels_of(obj["metadata"].get("namespace", ""))
    texts = validation.warnings(obj, old, info)
    return (*texts, *validation.security_warnings(obj, old, info, labels, pods))


def decode(
    given: JsonObject, info: ResourceInfo, opts: WriteOptions, duplicates: list[str]
) -> tuple[JsonObject, tuple[str, ...]]:
    """A fresh object with only the fields its schema knows, and the warnings about the others.

    Raises `Refusal` 400 for a wrong type, and for unknown or duplicate fields under Strict.
    """
    given.setdefault("apiVersion", info.api_version)
    given.setdefault("kind", info.kind)
    try:
        pruned = pruning.prune(given, info)
    except pruning.Undecodable as error:
        raise refusals.bad_request(str(error)) from None
    sent = given.get("metadata")
    if isinstance(sent, dict) and sent.get("managedFields") == []:
        # An empty list says nothing about a custom resource.
        pruned.obj["metadata"].pop("managedFields", None)
        if info.is_builtin:
            # Pruning drops empty lists, but this one is a wish: forget all owners.
            pruned.obj["metadata"]["managedFields"] = []
    if opts.field_validation == "Ignore" or not (pruned.unknown or duplicates):
        return pruned.obj, ()
    if opts.field_validation == "Strict":
        why = pruning.strict_error(pruned.unknown, duplicates)
        head = f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}'
        raise refusals.bad_request(f"{head}: {why}")
    return pruned.obj, (
        *(f'unknown field "{field}"' for field in pruned.unknown),
        *(f'duplicate field "{field}"' for field in duplicates),
    )


def shown(
    ctx: Context,
    request: ApiRequest,
    info: ResourceInfo,
    revision: Revision,
    *,
    status: int = 200,
    warnings: tuple[str, ...] = (),
) -> Answer:
    """The answer that shows a written object."""
    body = views.view(request, info, ctx.clock.now).single(revision)
    return Answer(status=status, body=body, warnings=warnings)


def _name(ctx: Context, metadata: JsonObject) -> None:
    if metadata.get("name"):
        return
    base = metadata.get("generateName")
    # Validation says that there is none, among what else it finds.
    metadata["name"] = ctx.generated_name(base) if base else ""


def _check_namespace(ctx: Context, info: ResourceInfo, metadata: JsonObject) -> None:
    """The NamespaceLifecycle admission plugin: content needs a namespace that lives."""
    if not info.namespaced:
        return
    namespace = metadata["namespace"]
    stored = ctx.store.get(ctx.registry.get(*NAMESPACES), "", namespace)
    if stored is None:
        raise refusals.not_found(*NAMESPACES, namespace)
    if "deletionTimestamp" in stored.obj["metadata"]:
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        refusal = refusals.forbidden(info.group, info.plural, metadata.get("name", ""), why)
        text = f"namespace {namespace} is being terminated"
        error = field_errors.FieldError("metadata.namespace", "NamespaceTerminating", text)
        refusal.details = {**(refusal.details or {}), "causes": [error.cause()]}
        raise refusal


def _check_uid(info: ResourceInfo, target: Target, metadata: JsonObject, ours: str) -> None:
    uid = metadata.get("uid")
    if uid and uid != ours:
        raise refusals.uid_mismatch(
            info.group, info.plural, target.space, target.name, wanted=uid, actual=ours
        )


def _keep_system_fields(metadata: JsonObject, before: JsonObject) -> None:
    """What only the server writes comes from the stored object; a uid that differs is left for
    validation to refuse."""
    metadata.pop("selfLink", None)
    if not metadata.get("uid"):
        metadata["uid"] = before["uid"]
    for field in _SYSTEM_FIELDS[1:]:
        if field == "deletionTimestamp" and field not in before:
            # Left for validation to refuse: only the server sets it.
            continue
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    if "managedFields" not in metadata and "managedFields" in before:
        metadata["managedFields"] = before["managedFields"]
    metadata["resourceVersion"] = before["resourceVersion"]


def _own(
    old: JsonObject | None,
    fresh: JsonObject,
    ctx: Context,
    info: ResourceInfo,
    opts: WriteOptions,
    *,
    subresource: str = "",
) -> None:
    """Records the manager of each field. An object without owned fields stays so until the first
    apply."""
    if (
        old is not None
        and not old["metadata"].get("managedFields")
        and not fresh["metadata"].get("managedFields")
    ):
        fresh["metadata"].pop("managedFields", None)
        return
    # The manager of a scale request is recorded without a time, as on a real server.
    now = "" if subresource == "scale" else ctx.clock.rfc3339()
    fields: list[Any] = ownership.track(old, fresh, opts.manager, info, now, subresource)
    if fields:
        fresh["metadata"]["managedFields"] = fields
    else:
        fresh["metadata"].pop("managedFields", None)


def _refuse_errors(
    info: ResourceInfo, name: str, errors: list[validation.FieldError], kind: str = ""
) -> None:
    if errors:
        info = event_groups.home(info)
        # A custom resource that calls itself something else is refused under that name.
        raise refusals.invalid(info.group, kind or info.kind, name, errors)
