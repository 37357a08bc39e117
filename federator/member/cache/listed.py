"""Whether what a process watches has been listed, or is known not to come; and the slices that come
with the watch of another kind."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from federator.kube import errors
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector
from federator.member.cache.rows import NativeRow, SliceRow


def listed_or_withheld(store: Store[Any], reflector: Reflector[Any]) -> bool:
    """Listed, or known not to be served, or not shown to this process: its rights may be those of a
    release that did not know the kind."""
    return listed_or_absent(store, reflector) or isinstance(reflector.trouble, errors.Denied)


def listed_or_absent(store: Store[Any], reflector: Reflector[Any]) -> bool:
    """Listed, or known not to be served at all."""
    return store.synced or isinstance(reflector.trouble, errors.NotFound)


class Slices(Protocol):
    """What is read of the slices of one kind."""

    @property
    def synced(self) -> bool: ...
    @property
    def resource_version(self) -> str: ...
    def get(self, key: Key) -> SliceRow | None: ...
    def items(self) -> Mapping[Key, SliceRow]: ...


class Carried:
    """The slices among the objects of a native kind, read from the watch of that kind: a second
    watch would decode and keep each of them twice. Filled by the listener of the store."""

    def __init__(self, natives: Store[NativeRow]) -> None:
        self._natives = natives
        self._rows: dict[Key, SliceRow] = {}

    @property
    def synced(self) -> bool:
        """Whether a whole list has been read."""
        return self._natives.synced

    @property
    def resource_version(self) -> str:
        """The newest version that has been seen."""
        return self._natives.resource_version

    def get(self, key: Key) -> SliceRow | None:
        return self._rows.get(key)

    def items(self) -> Mapping[Key, SliceRow]:
        """All slices as of now; later changes are seen."""
        return MappingProxyType(self._rows)

    def change(self, key: Key, row: SliceRow | None) -> None:
        """Sets a slice, or removes it with None."""
        if row is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
