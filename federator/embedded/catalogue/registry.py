"""Which resources one embedded server serves now: the builtins plus what its
CustomResourceDefinitions declare.

Follows the CRDs in the store by itself. Read by routing, discovery, OpenAPI and the stand-in
controllers; `edition` rises with every change so that documents made from it can be cached.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

from federator.embedded.catalogue import crds
from federator.embedded.schema import builtins
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import DELETED, Event, JsonObject
from federator.embedded.storage.store import Store

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {"alpha": 0, "beta": 1, None: 2}
Groups = Mapping[str, Mapping[str, Sequence[ResourceInfo]]]
ByPath = dict[tuple[str, str, str], ResourceInfo]
ByPair = dict[tuple[str, str], ResourceInfo]


def version_rank(version: str) -> tuple[int, int, int, int]:
    """Sorts versions as Kubernetes prefers them, best last: v1alpha1 < v1beta1 < v1 < v2; unknown
    forms are worst."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, 0)
    return (1, _STABILITY[match[2]], int(match[1]), int(match[3] or 0))


class Registry:
    """The served resources of one server, by path, by kind and by group."""

    def __init__(self, store: Store) -> None:
        self.edition = 0
        """Rises whenever the set of served resources changes."""
        self.crd = builtins.info("apiextensions.k8s.io", "customresourcedefinitions")
        self._store = store
        self._custom: dict[str, list[ResourceInfo]] = {}
        self._by_path: ByPath = {}
        self._by_key: ByPair = {}
        self._by_kind: ByPair = {}
        self._groups: Groups | None = None
        """Until the next change, once somebody has asked."""
        self._rebuild()
        store.subscribe(self.crd, self._on_crd)

    def find(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        """What `/apis/GROUP/VERSION/PLURAL` names."""
        return self._by_path.get((group, version, plural))

    def get(self, group: str, plural: str) -> ResourceInfo:
        """The stored version of a resource. Raises KeyError when it is not served."""
        return self._by_key[(group, plural)]

    def for_kind(self, api_version: str, kind: str) -> ResourceInfo | None:
        """The resource of objects with this `apiVersion` and `kind`."""
        return self._by_kind.get((api_version, kind))

    def all(self) -> Iterable[ResourceInfo]:
        """Every served (resource, version): builtins in their order, then custom ones by name of
        their definition."""
        return self._by_path.values()

    def stored(self) -> list[ResourceInfo]:
        """One info per kind of object that can exist in the store."""
        return [info for info in self._by_key.values() if info.is_stored]

    def groups(self) -> Groups:
        """group -> version -> resources; versions best first, groups in the order of a real
        server's discovery.
        """
        if self._groups is None:
            self._groups = _grouped(self._by_path.values())
        return self._groups

    def _on_crd(self, event: Event) -> None:
        name = event.key[1]
        previous = event.previous
        if (
            event.type is not DELETED
            and previous is not None
            and _same_service(previous.obj, event.current.obj)
        ):
            return
        if event.type is DELETED or not crds.is_established(event.current.obj):
            if self._custom.pop(name, None) is None:
                return
        else:
            served_before = name in self._custom
            self._custom[name] = infos = crds.resource_infos(event.current.obj)
            if infos and not served_before:
                self._store.open(infos[0])
        self._rebuild()

    def _rebuild(self) -> None:
        self.edition += 1
        self._groups = None
        by_path, by_kind, by_key = _builtin_tables()
        self._by_path, self._by_kind, self._by_key = dict(by_path), dict(by_kind), dict(by_key)
        for name in sorted(self._custom):
            _add(self._custom[name], self._by_path, self._by_kind, self._by_key)


@functools.cache
def _builtin_tables() -> tuple[ByPath, ByPair, ByPair]:
    """By path, by kind and by key. Copied for each server, which has its own beside them."""
    tables: tuple[ByPath, ByPair, ByPair] = {}, {}, {}
    _add(builtins.resource_infos(), *tables)
    return tables


def _add(infos: Iterable[ResourceInfo], by_path: ByPath, by_kind: ByPair, by_key: ByPair) -> None:
    for info in infos:
        by_path[info.group, info.version, info.plural] = info
        by_kind[info.api_version, info.kind] = info
        if info.storage or info.key not in by_key:
            by_key[info.key] = info


def _grouped(infos: Iterable[ResourceInfo]) -> Groups:
    by_group: dict[str, dict[str, list[ResourceInfo]]] = {}
    for info in infos:
        by_group.setdefault(info.group, {}).setdefault(info.version, []).append(info)
    return {
        group: dict(sorted(versions.items(), key=lambda item: version_rank(item[0]), reverse=True))
        for group, versions in sorted(
            by_group.items(), key=lambda item: builtins.group_rank(item[0])
        )
    }


def _same_service(old: JsonObject, new: JsonObject) -> bool:
    return old["spec"] == new["spec"] and crds.is_established(old) == crds.is_established(new)
