"""Answers of a real API server (tests/controlplane/record.py), and the schema layer of the embedded
one asked the same.

Functions are called directly, in the order the REST layer calls them: no store, no loop.
"""

import functools
import json
from pathlib import Path
from typing import Any

from federator.embedded.apply import ownership, patches
from federator.embedded.catalogue import crds, natives
from federator.embedded.rest import validation
from federator.embedded.schema import builtins, defaults, pruning
from federator.embedded.storage import refusals
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.validation import service_addresses

FOLDER = Path(__file__).parent / "recorded"
NOW = "2026-11-21T12:00:00Z"
ADDRESS = "10.0.0.10"
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "generation")

Step = dict[str, Any]


class Refused(Exception):
    """The message a request was refused with."""


def stories(name: str) -> list[dict[str, Any]]:
    """The stories of one file: a name and its steps."""
    loaded: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return loaded


@functools.cache
def widget() -> ResourceInfo:
    """The custom resource of the recordings."""
    info = builtins.info("apiextensions.k8s.io", "customresourcedefinitions")
    crd = pruning.prune(json.loads((FOLDER / "widgets.json").read_text()), info).obj
    defaults.fill(crd, info)
    return crds.resource_infos(crd)[0]


def addressed(path: str) -> tuple[ResourceInfo, str | None, bool]:
    """(resource, namespace, whether the request is Strict) of a recorded path."""
    place, _, query = path.partition("?")
    parts = place.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    info = widget() if group == "recorded.example" else builtins.info(group, rest[0])
    return info, namespace, "fieldValidation=Strict" in query


def _query(path: str, name: str) -> str:
    pairs = dict(pair.split("=") for pair in path.partition("?")[2].split("&"))
    return pairs.get(name, "")


def perform(step: Step, live: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object a request leads to. Raises `Refused`."""
    try:
        return _perform(step, live)
    except (pruning.Undecodable, ownership.Untypable, patches.BadPatch) as error:
        raise Refused(str(error)) from None


def _perform(step: Step, live: dict[str, Any] | None) -> dict[str, Any]:
    info, namespace, strict = addressed(step["path"])
    manager = _query(step["path"], "fieldManager")
    body = pruning.copy_json(step["body"])
    if "apply" in step.get("type", ""):
        force = _query(step["path"], "force") == "true"
        merged = ownership.apply(live, body, manager, force, info, NOW)
        if merged.conflicts:
            raise Refused(ownership.conflict_message(merged.conflicts))
        if merged.obj is live:
            return merged.obj
        fresh = pruning.prune(merged.obj, info).obj
        defaults.fill(fresh, info)
    else:
        fresh = _decoded(_patched(step, body, live, info), info, namespace, strict)
        if live is not None:
            fresh["metadata"].update(
                {key: live["metadata"][key] for key in VOLATILE if key in live["metadata"]}
            )
        fields = ownership.track(live, fresh, manager, info, NOW)
        fresh["metadata"].pop("managedFields", None)
        if fields:
            fresh["metadata"]["managedFields"] = fields
    return _stored(fresh, live, info)


def _patched(step: Step, body: Any, live: dict[str, Any] | None, info: ResourceInfo) -> Any:
    if live is None or step["method"] == "PUT":
        return body
    kind = step["type"]
    if "strategic" in kind:
        return patches.strategic(live, body, info.node)
    return patches.merge(live, body) if "merge" in kind else patches.json_patch(live, body)


def _decoded(body: Any, info: ResourceInfo, namespace: str | None, strict: bool) -> dict[str, Any]:
    body.setdefault("apiVersion", info.api_version)
    body.setdefault("kind", info.kind)
    pruned = pruning.prune(body, info)
    if pruned.unknown and strict:
        why = pruning.strict_error(pruned.unknown)
        raise Refused(
            f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}: {why}'
        )
    if namespace is not None:
        pruned.obj["metadata"].setdefault("namespace", namespace)
    defaults.fill(pruned.obj, info)
    return pruned.obj


def _stored(
    fresh: dict[str, Any], live: dict[str, Any] | None, info: ResourceInfo
) -> dict[str, Any]:
    if live is None:
        fresh["metadata"]["uid"] = "the-uid"
        natives.prepare_create(fresh, info, uid="the-uid")
    else:
        natives.prepare_update(fresh, live, info)
    if info.key == ("", "services"):
        service_addresses.allocate(fresh, lambda: ADDRESS, lambda: 30000)
    errors = validation.check(fresh, live, info)
    if errors:
        name = fresh["metadata"].get("name", "")
        raise Refused(refusals.invalid(info.group, info.kind, name, errors).message)
    return fresh


def settled(value: Any) -> Any:
    """A value without what differs from run to run, as the recordings are."""
    if isinstance(value, list):
        return [settled(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("fieldsType") == "FieldsV1":
        return {**value, "time": "2026-01-01T00:00:00Z"} if "time" in value else value
    return {key: settled(child) for key, child in value.items() if key not in VOLATILE}


def by_writer(obj: dict[str, Any]) -> dict[str, Any]:
    """The object with its managers in an order that does not depend on the time of day."""
    entries = obj["metadata"].get("managedFields") or []
    ordered = sorted(entries, key=lambda entry: (entry["operation"], entry["manager"]))
    meta = {**obj["metadata"], "managedFields": ordered} if ordered else obj["metadata"]
    return {**obj, "metadata": meta}
