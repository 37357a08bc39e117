"""Interning: one copy of texts and hashable frozen values that many rows have in common.

A hub keeps several rows for each of a hundred thousand workloads, and most contain the same names,
uids, shapes and figures. Every table here is bounded or lives only as long as it is used, whatever
a server sends.
"""

import sys
from array import array
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

T = TypeVar("T", bound=Hashable)

_remembered = lru_cache(maxsize=8192, typed=True)(lambda value: value)
_listed = lru_cache(maxsize=4096, typed=True)(lambda value: value)

NOTHING: Mapping[str, int] = MappingProxyType({})


def text(value: str) -> str:
    """The interned copy of this text; it lives as long as it is referenced."""
    return sys.intern(value)


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """The interned copy of this tuple of texts."""
    interned = tuple(map(sys.intern, values))
    return value(interned) if interned else ()


class Pool:
    """One copy of each value that is in use; those that nobody else has any more go when it would
    grow. The keys of a hundred thousand objects are read in several long lists, so far apart that
    no cache of the last ones would do."""

    __slots__ = ("_mask", "_slots", "_values")

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._make_room(8)

    def __len__(self) -> int:
        return len(self._values)

    def own(self, interned: T) -> T:
        """The copy that is equal to this one."""
        slots, values, mask = self._slots, self._values, self._mask
        at = hash(interned) & mask
        while (row := slots[at]) >= 0:
            there: T = values[row]
            if there is interned or there == interned:
                return there
            at = (at + 1) & mask
        slots[at] = len(values)
        values.append(interned)
        if 3 * len(values) > 2 * mask:
            self._forget()
        return interned

    def _forget(self) -> None:
        """Drops what is in no use, and makes room for as many again as are left."""
        self._values = [kept for kept in self._values if sys.getrefcount(kept) > _UNUSED]
        size = 8
        while 2 * len(self._values) >= size:
            size *= 2
        self._make_room(size)

    def _make_room(self, size: int) -> None:
        slots, mask = array("i", (-1,)) * size, size - 1
        for row, there in enumerate(self._values):
            at = hash(there) & mask
            while slots[at] >= 0:
                at = (at + 1) & mask
            slots[at] = row
        self._slots, self._mask = slots, mask


_UNUSED: Final = 3
"""References to a value that only a pool has, while it looks: its list, the loop, the count."""
_keys = Pool()
_uids = Pool()


def key(interned: T) -> T:
    """The one copy of the key of an object."""
    return _keys.own(interned)


def uid(value: str) -> str:
    """The one copy of the uid of an object. `sys.intern` takes three times the memory of a pool."""
    return _uids.own(value)


def packed_uid(uid: str) -> bytes:
    """The 16 bytes of a uid as API servers write it; b"" for any other text. The text takes 85."""
    if len(uid) != 36 or uid[8:24:5] != "----":
        return b""
    try:
        made = bytes.fromhex(uid.replace("-", ""))  # white space makes it shorter
    except ValueError:
        return b""
    return made if len(made) == 16 and uid.lower() == uid else b""


def uid_text(packed: bytes) -> str:
    """The uid of these bytes."""
    digits = packed.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def value(interned: T) -> T:
    """An interned equal value, shared by all callers while it is among the last few thousand
    requested."""
    kept: T = _remembered(interned)
    return kept


def listed(interned: T) -> T:
    """The same for what one object says several times, as a decision its seq: a table of its own,
    that thousands of such values do not push the others out."""
    kept: T = _listed(interned)
    return kept


def labels(interned: Mapping[str, str]) -> Mapping[str, str]:
    """The interned copy of a table of labels: those of one team or generator are often alike. It
    must not be changed."""
    return _labels(tuple(interned.items()))


@lru_cache(maxsize=8192)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {sys.intern(name): sys.intern(label) for name, label in items}


def counters(interned: Mapping[str, int]) -> Mapping[str, int]:
    """The interned read-only copy of a table of counts."""
    return _counters(tuple(interned.items())) if interned else NOTHING


@lru_cache(maxsize=8192)
def _counters(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return MappingProxyType({sys.intern(name): count for name, count in items})
