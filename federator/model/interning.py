"""Interning: one copy of texts and hashable frozen values that many rows have in common.

A hub keeps several rows for each of a hundred thousand workloads, and most contain the same names,
uids, shapes and figures. Every table here is bounded or lives only as long as it is used, whatever
a server sends.
"""

import sys
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

_remembered = lru_cache(maxsize=8192, typed=True)(lambda value: value)
_listed = lru_cache(maxsize=32768, typed=True)(lambda value: value)

NOTHING: Mapping[str, int] = MappingProxyType({})


def text(value: str) -> str:
    """The interned copy of this text; it lives as long as it is referenced."""
    return sys.intern(value)


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """The interned copy of this tuple of texts."""
    interned = tuple(map(sys.intern, values))
    return value(interned) if interned else ()


def value(interned: T) -> T:
    """An interned equal value, shared by all callers while it is among the last few thousand
    requested."""
    kept: T = _remembered(interned)
    return kept


def listed(interned: T) -> T:
    """The same for values that several lists of the same objects have in common. Such lists are
    read side by side, so each object appears in all of them within a few thousand others."""
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
