"""The properties of clusters that policies may ask for: one row of `PROPERTIES` each.

`PROPERTIES` and `PREFIXES` are all that required terms, sorters and CEL expressions know. A new
property is one row: its name, the kind of its values, and the function that reads it of a cluster.
Amounts are exact: nano-units, as in `model.kubernetes.quantity`.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federator.model.errors import FieldError
from federator.model.fleet import ClusterView, NodeRow
from federator.model.kubernetes import quantity, selectors
from federator.model.kubernetes.quantity import NANO
from federator.model.resources import CPU, GPU, MEMORY

Value = str | int
"""A text, or a number in nano-units."""


class Kind(StrEnum):
    """What the values of a property are, and so how they compare."""

    TEXT = "text"
    """In and NotIn compare texts; Gt and Lt compare the quantities that the texts are."""
    NUMBER = "number"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class Property:
    """One row: how it is read of a cluster; None where the cluster does not have it."""

    read: Callable[[ClusterView], Value | None]
    kind: Kind
    about: str
    """For the reference."""
    reported: bool = False
    """It is read from the capacity report."""


def _amount(resource: str, *, free: bool, of_node: bool) -> Callable[[ClusterView], int | None]:
    unit = NANO // 1000 if resource == CPU else NANO

    def amount(row: NodeRow) -> int:
        return (row.free if free else row.allocatable)[resource]

    def read(view: ClusterView) -> int | None:
        if view.capacity is None:
            return None
        rows = view.capacity.rows
        if of_node:
            return max((amount(row) for row in rows if row.count), default=0) * unit
        return sum(amount(row) * row.count for row in rows) * unit

    return read


def _nodes(view: ClusterView) -> int | None:
    return None if view.capacity is None else sum(row.count for row in view.capacity.rows) * NANO


def _free_share(view: ClusterView) -> int | None:
    """The free part of CPU or memory, whichever is scarcer, from 0 to 1."""
    shares = []
    for resource in (CPU, MEMORY):
        total = _amount(resource, free=False, of_node=False)(view)
        free = _amount(resource, free=True, of_node=False)(view)
        if total and free is not None:
            shares.append(NANO * max(free, 0) // total)
    return min(shares, default=None)


def _price(view: ClusterView) -> int | None:
    return number(view.stated.price)


def _success(view: ClusterView) -> int | None:
    return None if view.success_permille is None else view.success_permille * (NANO // 1000)


def _created(view: ClusterView) -> int | None:
    return int(view.stated.created_s) * NANO if view.stated.created_s > 0 else None


_RESOURCES: Final = {"cpu": (CPU, "cores"), "memory": (MEMORY, "bytes"), "gpu": (GPU, "GPUs")}
_FIELDS: Final = {
    "free": (True, False, "free on all nodes"),
    "total": (False, False, "allocatable on all nodes"),
    "nodeFree": (True, True, "the most that is free on one node"),
    "nodeTotal": (False, True, "the most that one node has"),
}

PROPERTIES: Final[Mapping[str, Property]] = {
    "name": Property(lambda view: view.name, Kind.TEXT, "The name of the cluster."),
    "version": Property(
        lambda view: view.stated.version or None,
        Kind.VERSION,
        "The version of its API server, compared as a semantic version: v1.36.2.",
    ),
    "price": Property(_price, Kind.NUMBER, "`spec.pricePerHour` of the MemberCluster."),
    "created": Property(
        _created, Kind.NUMBER, "When the MemberCluster was created, in seconds since 1970."
    ),
    "successRate": Property(
        _success,
        Kind.NUMBER,
        "The share of workloads that start and end well there, from 0 to 1 in steps of 0.05.",
        reported=True,
    ),
    "nodes": Property(_nodes, Kind.NUMBER, "The number of its nodes.", reported=True),
    "freeShare": Property(
        _free_share,
        Kind.NUMBER,
        "The free part of CPU or memory, whichever is scarcer: from 0 (full) to 1 (empty).",
        reported=True,
    ),
    **{
        f"{name}.{field}": Property(
            _amount(resource, free=free, of_node=of_node),
            Kind.NUMBER,
            f"{unit[:1].upper()}{unit[1:]}: {about}.",
            reported=True,
        )
        for name, (resource, unit) in _RESOURCES.items()
        for field, (free, of_node, about) in _FIELDS.items()
    },
}
"""Name -> property. `PREFIXES` are those with names that operators choose."""

PREFIXES: Final[Mapping[str, tuple[Callable[[ClusterView], Mapping[str, str]], str]]] = {
    "labels": (lambda view: view.labels, "A label of the MemberCluster."),
    "properties": (lambda view: view.stated.properties, "`spec.properties` of the MemberCluster."),
}
"""First part of a name -> (the texts by the rest of it, what it is)."""


@functools.lru_cache(maxsize=4096)
def find(name: str) -> Property | None:
    """The property of this name; None where there is none."""
    if name in PROPERTIES:
        return PROPERTIES[name]
    prefix, _, key = name.partition(".")
    if prefix not in PREFIXES or selectors.check_label_key(key) is not None:
        return None
    texts, about = PREFIXES[prefix]
    return Property(lambda view: texts(view).get(key), Kind.TEXT, about)


def names() -> list[str]:
    return [*PROPERTIES, *(f"{prefix}.KEY" for prefix in PREFIXES)]


def number(text: str) -> int | None:
    """A quantity in nano-units; None for a text that is none."""
    try:
        return quantity.parse(text).nanos
    except FieldError:
        return None


_VERSION: Final = re.compile(
    r"v?(0|[1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,5})(?:\.(0|[1-9][0-9]{0,5}))?"
    r"(?:-([0-9A-Za-z.-]{1,128}))?(?:\+[0-9A-Za-z.-]{1,128})?",
    re.ASCII,
)
Version = tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]
"""Sorts as semantic versions do: a pre-release is before its release, and build metadata does not
count."""


def version(text: str) -> Version | None:
    """`v1.36.2` and `1.36` (its patch is 0), with a pre-release or without; None for a text that is
    no version."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    major, minor, patch = (int(part or 0) for part in match.group(1, 2, 3))
    parts = (match[4] or "").split(".") if match[4] else []
    before = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return major, minor, patch, int(not before), before


def shown(property_: Property, value: Value) -> str:
    """A value as people write it."""
    return str(quantity.Quantity(value)) if isinstance(value, int) else value


def figure(name: str, view: ClusterView) -> float:
    """The value as a number to sort by; NaN where the cluster has none. Of a text, the quantity
    that it is."""
    row = find(name)
    value = row.read(view) if row is not None else None
    if isinstance(value, str):
        value = number(value)
    return float("nan") if value is None else value / NANO
