"""One copy of what many rows say alike: texts, and frozen values that can be hashed.

A hub keeps some rows per workload and there are a hundred thousand workloads; the same names, uids, shapes and figures
stand in most of them. Everything here is bounded or lives only as long as it is used, whatever a server sends.
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
    """The one copy of this text; it lives as long as anybody holds it."""
    return sys.intern(value)


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """The one copy of this row of texts, each of them shared too."""
    interned = tuple(map(sys.intern, values))
    return value(interned) if interned else ()


def value(interned: T) -> T:
    """A value equal to this one, the same for all who ask while it is among the last few thousand asked for."""
    kept: T = _remembered(interned)
    return kept


def listed(interned: T) -> T:
    """The same for what several lists of the same objects have in common, one by one: they are read side by side, and
    each object comes in all of them within a few thousand others."""
    kept: T = _listed(interned)
    return kept


def counters(interned: Mapping[str, int]) -> Mapping[str, int]:
    """The one read-only copy of a table of figures."""
    return _counters(tuple(interned.items())) if interned else NOTHING


@lru_cache(maxsize=8192)
def _counters(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return MappingProxyType({sys.intern(name): count for name, count in items})
