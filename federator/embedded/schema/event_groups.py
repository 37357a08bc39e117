"""Events: one storage behind two resources, core/v1 and events.k8s.io/v1, as on a real server.

They are kept as core/v1 events, which is how the stand-in controllers write them. Readers and
writers of the REST layer turn a resource into its `home` before they ask the store, and objects
with `inward` and `outward`. The other group only has other names for the same fields, so conversion
is renaming.
"""

from typing import Final, TypeVar

from federator.embedded.schema import builtins
from federator.embedded.storage import refusals
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject, Revision
from federator.embedded.storage.store import Store

_Found = TypeVar("_Found", Revision, Revision | None)
_EVENTS: Final = ("", "events")
_LATER_EVENTS: Final = ("events.k8s.io", "events")
_LATER_VERSION: Final = "events.k8s.io/v1"
_LATER_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_REPORTER: Final = {"reportingComponent": "", "reportingInstance": ""}
"""Always there in core/v1, left out when empty in the other group."""
_CORE_NAMES: Final = {later: core for core, later in _LATER_NAMES.items()}


def home(info: ResourceInfo) -> ResourceInfo:
    """The resource under which the store keeps objects of `info`."""
    return builtins.info(*_EVENTS) if info.key == _LATER_EVENTS else info


def core_event(event: JsonObject) -> JsonObject:
    """An event of either group as core/v1 has it; shares everything below."""
    if event.get("apiVersion") != _LATER_VERSION:
        return event
    return {
        **_REPORTER,
        **{_CORE_NAMES.get(field, field): value for field, value in event.items()},
        "apiVersion": "v1",
    }


def inward(info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """An object of `info` as the store keeps it."""
    return core_event(obj) if info.key == _LATER_EVENTS else obj


def outward(info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """A stored object as `info` shows it: with its apiVersion, and its names of fields."""
    if obj["apiVersion"] == info.api_version:
        return obj
    if info.key != _LATER_EVENTS:
        return {**obj, "apiVersion": info.api_version}
    kept = {field: value for field, value in obj.items() if value or field not in _REPORTER}
    return {
        **{_LATER_NAMES.get(field, field): value for field, value in kept.items()},
        "apiVersion": info.api_version,
    }


def selected(info: ResourceInfo, path: str) -> str:
    """Where the value of a field selector of `info` lies in a stored object."""
    if info.key != _LATER_EVENTS:
        return path
    field, dot, rest = path.partition(".")
    return _CORE_NAMES.get(field, field) + dot + rest


def get(store: Store, info: ResourceInfo, namespace: str, name: str) -> Revision | None:
    """`store.get`, as `info` shows it."""
    return _outward(info, store.get(home(info), namespace, name))


def create(store: Store, info: ResourceInfo, obj: JsonObject, *, dry_run: bool = False) -> Revision:
    """`store.create` of an object of `info`; returns it as `info` shows it."""
    resource, metadata = home(info), obj["metadata"]
    if (
        resource is not info
        and store.get(resource, metadata["namespace"], metadata["name"]) is not None
    ):
        raise refusals.already_exists(info.group, info.plural, metadata["name"])
    return _outward(info, store.create(resource, inward(info, obj), dry_run=dry_run))


def update(
    store: Store,
    info: ResourceInfo,
    obj: JsonObject,
    *,
    same_generation: bool = False,
    dry_run: bool = False,
) -> Revision:
    """`store.update` by an object of `info`; returns it as `info` shows it."""
    kept = inward(info, obj)
    return _outward(
        info, store.update(home(info), kept, same_generation=same_generation, dry_run=dry_run)
    )


def _outward(info: ResourceInfo, revision: _Found) -> _Found:
    if revision is None or info.key != _LATER_EVENTS:
        return revision
    return Revision(outward(info, revision.obj), revision.number)
