"""Capacity as objects spell it: the shapes that a hub asks about, and what a member answers. Models
and conversions.

Shared by ClusterCapacity (in a member), MemberCluster.status.capacity (the copy on the host) and
PlacementDecision (the shape that a decision is charged with).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import Field

from federator.api import namespacefields, placementfields, raw
from federator.api.common import (
    Amount,
    Amounts,
    Count,
    LabelKey,
    LabelValue,
    Model,
    Moment,
    Seq,
    ShortText,
    list_map,
    many,
    named,
)
from federator.api.namespacefields import MAX_NAMESPACES, NamespaceFields
from federator.api.placementfields import TolerationFields
from federator.api.raw import Obj
from federator.model import interning
from federator.model import seq as seqs
from federator.model.ask import Component, PodShape
from federator.model.errors import FieldError
from federator.model.fleet import Capacity, NodeRow
from federator.model.kubernetes import quantity, taints
from federator.model.kubernetes.taints import Taint
from federator.model.resources import CPU, PODS, Resources

MAX_ROWS = 256
MAX_NODES = 1_000_000
MAX_RESOURCES = 32
MAX_TAINTS = 32
MAX_LOOK = 128
MAX_SHAPE_ID = 32
MAX_WAITING = 64
MAX_MACHINES = 64
MAX_RESOURCE_NAME = 317
"""The bounds of the schemas below, and of names of resources: a prefix of 253 characters, a slash,
63 more."""
MAX_ROWS_TEXT = 512 * 1024
"""Characters of all rows together, about. An API server takes objects of 1.5 MiB, and rows are
copied to the host."""
MAX_NODE_CPU = 1_000_000_000
"""A node of a million cpus does not exist: in thousandths of a cpu."""
MAX_NODE_AMOUNT = 1 << 53
"""The same of bytes and of everything else: eight pebibytes."""
ShapeId = Annotated[str, Field(min_length=1, max_length=MAX_SHAPE_ID)]


class TaintFields(Model):
    """Keeps away work that does not tolerate it."""

    key: LabelKey
    """Key of the taint."""
    value: LabelValue = ""
    """Value of the taint."""
    effect: Annotated[
        str, Field(max_length=16, pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")
    ]
    """NoSchedule keeps new work away, PreferNoSchedule if possible; NoExecute also moves away what
    is there."""
    time_added: Moment | None = None
    """When it was added."""


class Shape(Model):
    """One kind of copy: what it needs of a node."""

    id: ShapeId
    """Name of the shape; equal shapes have equal names."""
    requests: Amounts
    """Effective request of one pod, runtime support included."""
    selector: Annotated[str, Field(max_length=16384)] = ""
    """Node selector and required node affinity, as canonical JSON; empty for none."""
    tolerations: list[TolerationFields] = many(64)
    """Taints of nodes that it accepts."""
    one_per_node: bool | None = None
    """Whether two copies may not share a node."""
    every_node: bool | None = None
    """Whether it is the pod of a daemon: the answer is then the number of nodes that admit it, with
    room or without."""


class PartFields(Shape):
    """Equal pods of a gang. The id is that of one of them."""

    name: ShortText
    """Name of the component."""
    count: Count
    """How many are wanted."""
    min: Count
    """Fewer than these are useless."""


class GangShape(Shape):
    """One copy, which is a gang of pods where it has parts."""

    parts: list[PartFields] = many(64)
    """The pods of a gang, which are placed together; empty for a single pod."""


class NodeRowFields(Model):
    """Nodes that look alike."""

    count: Count
    """How many."""
    allocatable: Amounts
    """What each offers to pods; 0 is a limit, pods that are not named are not limited."""
    free: Amounts
    """What each has left."""
    model: Annotated[str, Field(max_length=MAX_LOOK)] = ""
    """GPU model; empty without GPUs."""
    family: Annotated[str, Field(max_length=MAX_LOOK)] = ""
    """Family of the machine."""
    taints: list[TaintFields] = many(32)
    """Their taints."""


class WaitingFields(Shape):
    """Pods that no node has room for."""

    copies: Count
    """How many."""


class CapacityFields(Model):
    """What a member's nodes offer and have left."""

    includes_seq: Seq = 0
    """Slices up to this decision are already subtracted."""
    exact: bool = True
    """False when rows were rounded down to fit; error then bounds what that loses."""
    error: ShortText = ""
    """What rounding may have hidden, as a sentence."""
    packs: bool | None = None
    """Whether the scheduler there packs nodes; it spreads when left out."""
    node_count: Amount = 0
    """Nodes that can take pods."""
    summary: ShortText = ""
    """One line for tables."""
    nodes: list[NodeRowFields] = many(MAX_ROWS)
    """Free nodes by look."""
    copies: dict[str, Amount] = named(MAX_ROWS)
    """How many copies of each shape fit, by the shape's id."""
    waiting: list[WaitingFields] = many(MAX_WAITING, list_map("id"))
    """Pods that no node has room for, by shape, those with most copies first: an autoscaler adds
    nodes for them."""
    machines: dict[Annotated[str, Field(max_length=63)], Amount] = named(MAX_MACHINES)
    """Nodes by instance type (label node.kubernetes.io/instance-type), with those that are not
    ready."""
    namespaces: list[NamespaceFields] = many(MAX_NAMESPACES, list_map("name"))
    """Namespaces with ResourceQuotas or LimitRanges that concern pods, by name."""
    as_of: Moment | None = None
    """When these figures last changed."""


def to_capacity(status: Obj) -> Capacity:
    """From `ClusterCapacity.status` or `MemberCluster.status.capacity`, never more than the schema
    of the latter holds: it is copied there. Negative figures count as zero, unreadable rows as
    none, and more room than there is as none.
    """
    copies, machines = raw.mapping(status, "copies"), raw.mapping(status, "machines")
    rules, quotas = namespacefields.to_namespaces(status)
    answered = sorted(
        shape for shape in copies if len(shape) <= MAX_SHAPE_ID and _is_number(copies[shape])
    )
    return Capacity(
        rows=tuple(_rows(status)),
        copies={shape: raw.figure(copies, shape) for shape in answered[:MAX_ROWS]},
        includes_seq=seqs.clamped(raw.integer(status, "includesSeq")),
        exact=status.get("exact") is not False,
        packs=raw.flag(status, "packs"),
        waiting=tuple(
            (shared_shape({name: entry[name] for name in entry if name != "copies"}), count)
            for entry in raw.objects(status, "waiting")[:MAX_WAITING]
            if (count := min(raw.integer(entry, "copies"), MAX_NODES)) > 0
        ),
        machines={
            name: raw.figure(machines, name)
            for name in sorted(machines)[:MAX_MACHINES]
            if _is_number(machines[name])
        },
        rules=rules,
        quotas=quotas,
    )


def from_capacity(
    capacity: Capacity, *, error: str = "", as_of_s: float | None = None
) -> dict[str, Any]:
    """The fields of `to_capacity`, and those that people read; everything is said, so that a merge
    patch can clear it."""
    nodes = sum(row.count for row in capacity.rows)
    free, total = capacity.free, capacity.allocatable
    status: dict[str, Any] = {
        "includesSeq": capacity.includes_seq,
        "exact": capacity.exact,
        "error": error,
        "packs": capacity.packs,
        "nodeCount": nodes,
        "summary": f"{nodes} nodes, {free['cpu'] // 1000} of {total['cpu'] // 1000} cpu free",
        "nodes": [_from_row(row) for row in capacity.rows],
        "copies": dict(sorted(capacity.copies.items())),
    }
    status |= raw.present(
        {
            "waiting": [{**from_shape(shape), "copies": n} for shape, n in capacity.waiting],
            "machines": dict(sorted(capacity.machines.items())),
            "namespaces": namespacefields.from_namespaces(capacity.rules, capacity.quotas),
        }
    )
    if as_of_s is not None:
        status["asOf"] = raw.rfc3339(as_of_s)
    return status


def to_shape(shape: Obj) -> PodShape:
    return PodShape(
        requests=quantity.valid(raw.mapping(shape, "requests")),
        node_selector=raw.text(shape, "selector"),
        tolerations=placementfields.tolerations_of(shape.get("tolerations")),
        one_per_node=raw.flag(shape, "onePerNode"),
        every_node=raw.flag(shape, "everyNode"),
        parts=tuple(
            Component(
                raw.text(part, "name"),
                to_shape(part),
                max(raw.integer(part, "count"), 0),
                max(raw.integer(part, "min"), 0),
            )
            for part in raw.objects(shape, "parts")
        ),
    )


def shared_shape(shape: Obj) -> PodShape:
    """`to_shape`, one copy for all that say the same: decisions are many, shapes are few. The
    object must not be changed afterwards."""
    return _answer(_Question(repr(shape), shape))


@dataclass(frozen=True, slots=True)
class _Question:
    """Two are equal when their texts are."""

    text: str
    shape: Obj = field(compare=False)


@lru_cache(maxsize=4096)
def _answer(question: _Question) -> PodShape:
    return interning.value(to_shape(question.shape))


_SHAPES: Final = 4096
_rendered_shapes: dict[int, tuple[PodShape, str, dict[str, str]]] = {}


def _rendered(shape: PodShape) -> tuple[PodShape, str, dict[str, str]]:
    """Its id, and its requests as quantities: every decision records them. Kept by the identity of
    the shape, since its hash takes longer than all else of it."""
    kept = _rendered_shapes.get(id(shape))
    if kept is None or kept[0] is not shape:
        if len(_rendered_shapes) >= _SHAPES:
            _rendered_shapes.clear()
        kept = shape, shape.id, dict(quantity.render(shape.requests))
        _rendered_shapes[id(shape)] = kept
    return kept


def from_shape(shape: PodShape) -> dict[str, Any]:
    _, name, requests = _rendered(shape)
    body: dict[str, Any] = {"id": name, "requests": requests.copy()}
    if shape.node_selector:
        body["selector"] = shape.node_selector
    if shape.tolerations:
        body["tolerations"] = [
            taints.toleration_to_dict(toleration) for toleration in shape.tolerations
        ]
    if shape.one_per_node:
        body["onePerNode"] = True
    if shape.every_node:
        body["everyNode"] = True
    if shape.parts:
        body["parts"] = [
            {"name": part.name, "count": part.count, "min": part.min, **from_shape(part.shape)}
            for part in shape.parts
        ]
    return body


def taints_of(value: object) -> tuple[Taint, ...]:
    """Those that are valid."""
    read: list[Taint] = []
    for entry in value if isinstance(value, list) else ():
        try:
            read.append(taints.taint_from_dict(entry))
        except FieldError:
            continue
    return tuple(read)


def excess(status: Obj) -> str:
    """What such figures say beyond all that a cluster can have, as a part of a sentence; "" for
    nothing. Of that only a part is read (`to_capacity`)."""
    for what in ("nodes", "copies"):
        rows = raw.at(status, what)
        if isinstance(rows, list | dict) and len(rows) > MAX_ROWS:
            return f"{what} has {len(rows)} entries, and at most {MAX_ROWS} are read"
    if namespaces := namespacefields.excess(status):
        return namespaces
    size = 0
    for row in raw.objects(status, "nodes"):
        if (count := raw.integer(row, "count")) > MAX_NODES:
            return f"a row of nodes counts more than {MAX_NODES} of them"
        offered = raw.mapping(row, "allocatable")
        if len(offered) > MAX_RESOURCES:
            return f"a node offers {len(offered)} resources, and at most {MAX_RESOURCES} are read"
        if beyond := [
            name for name, amount in offered.items() if count and not _is_amount(name, amount)
        ]:
            return f"a node offers an amount of {beyond[0][:MAX_LOOK]} that no node has"
        size += _size(row)
    return (
        f"nodes is larger than the {MAX_ROWS_TEXT} bytes that are read"
        if size > MAX_ROWS_TEXT
        else ""
    )


def _is_amount(name: str, amount: object) -> bool:
    """Whether a node can have so much; what cannot be read is nothing that it can have."""
    try:
        bounded = quantity.vector({name: amount})[name]  # type: ignore[dict-item]
    except FieldError:
        return False
    return len(name) <= MAX_RESOURCE_NAME and bounded <= (
        MAX_NODE_CPU if name == CPU else MAX_NODE_AMOUNT
    )


def _rows(status: Obj) -> Iterator[NodeRow]:
    size = 0
    for row in raw.objects(status, "nodes")[:MAX_ROWS]:
        size += _size(row)
        if size > MAX_ROWS_TEXT:
            return
        if raw.integer(row, "count") > 0:
            yield _to_row(row)


def _size(row: Obj) -> int:
    """Characters of a row as it is written, about: what is cut when it is read counts as far as it
    is kept."""
    names = sum(
        min(len(name), MAX_RESOURCE_NAME) + 24 for part in _PARTS for name in raw.mapping(row, part)
    )
    looks = sum(min(len(raw.text(row, look)), MAX_LOOK) for look in ("model", "family"))
    taints_size = sum(
        len(raw.text(taint, "key")) + 128 for taint in raw.objects(row, "taints")[:MAX_TAINTS]
    )
    return names + looks + taints_size + 64


_PARTS = ("allocatable", "free")


def _to_row(row: Obj) -> NodeRow:
    named = (
        (name, amount)
        for name, amount in raw.mapping(row, "allocatable").items()
        if len(name) <= MAX_RESOURCE_NAME
    )
    offered = dict(itertools.islice(named, MAX_RESOURCES))
    allocatable = Resources(
        {
            name: min(amount, MAX_NODE_CPU if name == CPU else MAX_NODE_AMOUNT)
            for name, amount in quantity.valid(offered).items()
        }
    )
    free = quantity.valid(
        {name: amount for name, amount in raw.mapping(row, "free").items() if name in allocatable}
    )
    return NodeRow(
        count=min(raw.integer(row, "count"), MAX_NODES),
        allocatable=allocatable,
        free=Resources({name: min(amount, allocatable[name]) for name, amount in free.items()}),
        model=raw.text(row, "model")[:MAX_LOOK],
        family=raw.text(row, "family")[:MAX_LOOK],
        taints=taints_of(row.get("taints"))[:MAX_TAINTS],
        podless=PODS in offered and not allocatable[PODS],
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _from_row(row: NodeRow) -> dict[str, Any]:
    body: dict[str, Any] = {
        "count": row.count,
        "allocatable": quantity.render(row.allocatable),
        "free": quantity.render(row.free),
    }
    if row.podless:
        body["allocatable"][PODS] = body["free"][PODS] = "0"
    body |= raw.present({"model": row.model, "family": row.family})
    if row.taints:
        body["taints"] = [taints.taint_to_dict(taint) for taint in row.taints]
    return body
