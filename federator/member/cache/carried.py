"""The slices among the objects of a native kind, read from the watch of that kind: a second watch
would decode and keep each of them twice."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from federator.kube.store import Key, Store
from federator.member.cache.rows import NativeRow, SliceRow


class Slices(Protocol):
    """What is read of the slices of one kind."""

    @property
    def synced(self) -> bool: ...
    @property
    def resource_version(self) -> str: ...
    def get(self, key: Key) -> SliceRow | None: ...
    def items(self) -> Mapping[Key, SliceRow]: ...


class Carried:
    """Filled by the listener of the store that it reads from."""

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
        """The slice, or None."""
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
