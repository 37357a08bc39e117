"""Nodes that one cluster can add, by class: how many copies of a shape they hold, and what is left
after some are placed on them.

Values: charging returns others. A node that is promised for some copies takes more while it has
room for them. A further node is promised only when no promised one has room, of the class that is
cheapest for a copy, then soonest there, then first by name: an autoscaler may choose otherwise, and
the report of the cluster corrects what was assumed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from federator.model.ask import PodShape
from federator.model.kubernetes import nodematch, taints
from federator.model.resources import PODS, UNLIMITED, Resources
from federator.model.scaleup import NodeClass

Pools: TypeAlias = "tuple[Pool, ...]"
_NO_PRICE: Final = Fraction(UNLIMITED)
"""Of a class without a price: it comes last."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The nodes of one class that are not there yet."""

    node_class: NodeClass
    left: int
    """Nodes that nothing was promised of."""
    promised: tuple[tuple[int, Resources], ...] = ()
    """(nodes, what each has left) of those that copies wait for."""
    copies: int = 0
    """Copies that wait for its nodes."""

    def room(self, shape: PodShape) -> int:
        """Copies of a single pod that its nodes hold."""
        if not admits(self.node_class, shape):
            return 0
        # Promised nodes have room beside the copies for which they were promised, as real ones
        # will.
        return self.left * height(self.node_class.allocatable, shape) + sum(
            nodes * height(free, shape) for nodes, free in _shared(self, shape)
        )


def _shared(pool: Pool, shape: PodShape) -> Sequence[tuple[int, Resources]]:
    """The promised nodes that may take copies of the shape. Whether one has a copy already is not
    known, so a shape of which two may not share a node gets a further node."""
    return () if shape.one_per_node else pool.promised


@lru_cache(maxsize=1 << 14)
def height(free: Resources, shape: PodShape) -> int:
    """Copies that fit on a node with so much free."""
    needs = [(name, need) for name, need in shape.requests.items() if need > 0 and name != PODS]
    needs.append((PODS, max(shape.requests[PODS], 1)))
    most = min(max(free[name], 0) // need for name, need in needs)
    return min(most, 1) if shape.one_per_node else most


@lru_cache(maxsize=1 << 14)
def admits(node_class: NodeClass, shape: PodShape) -> bool:
    """Whether taints and labels of the class let pods of the shape onto its nodes."""
    if shape.every_node or taints.untolerated(node_class.taints, shape.tolerations) is not None:
        return False
    selector, affinity = nodematch.parse(shape.node_selector)
    return nodematch.matches(selector, affinity, node_class.node_labels, "")


def opened(
    classes: Iterable[NodeClass], machines: Mapping[str, int], usable_permille: int
) -> Pools:
    """The pools of a cluster that has so many nodes by instance type, and may be filled to so many
    thousandths."""
    return tuple(
        Pool(
            replace(each, allocatable=_usable(each.allocatable, usable_permille)),
            # A class that did not deliver in time is not counted on again until it does.
            0 if each.late else max(each.most - machines.get(each.instance_type, 0), 0),
        )
        for each in classes
    )


def _usable(allocatable: Resources, permille: int) -> Resources:
    return allocatable if permille >= 1000 else allocatable.scaled(permille)


def room(pools: Pools, shape: PodShape) -> int:
    """Copies of a single pod that nodes of all classes hold."""
    return min(sum(pool.room(shape) for pool in pools), UNLIMITED)


def charge(pools: Pools, shape: PodShape, copies: int) -> tuple[Pools, int]:
    """The pools after so many more copies of a single pod wait for their nodes, and how many of
    them no node holds."""
    after = list(pools)
    # By the price of one copy, not of a node: a large node is cheap if it holds many.
    order = sorted(range(len(after)), key=lambda at: _rank(after[at].node_class, shape))
    order = [at for at in order if admits(after[at].node_class, shape)]
    # An autoscaler binds to nodes that are on their way before it asks for more: further ones would
    # stay half empty.
    for fill in (_fill_promised, _promise):
        for at in order:
            if copies <= 0:
                break
            after[at], copies = fill(after[at], shape, copies)
    return tuple(after), copies


def charge_all(pools: Pools, shape: PodShape, copies: int) -> Pools:
    """The pools after copies that were given before. Where some find no node, what lies on the
    nodes is laid otherwise than when they were promised: then nothing more is promised of the
    classes that could hold these copies."""
    after, missing = charge(pools, shape, copies)
    if not missing:
        return after
    return tuple(
        replace(pool, left=0, promised=())
        if admits(pool.node_class, shape) and height(pool.node_class.allocatable, shape)
        else pool
        for pool in after
    )


def _rank(node_class: NodeClass, shape: PodShape) -> tuple[Fraction, int, str]:
    each = height(node_class.allocatable, shape)
    known = node_class.price is not None and each
    price = Fraction(node_class.price or 0, each) if known else _NO_PRICE
    return price, node_class.minutes, node_class.name


def _fill_promised(pool: Pool, shape: PodShape, copies: int) -> tuple[Pool, int]:
    """The fullest nodes first."""
    sharing = _shared(pool, shape)
    rows: list[tuple[int, Resources]] = [] if sharing else list(pool.promised)
    placed = 0
    # So that large gaps stay for large copies.
    for nodes, free in sorted(sharing, key=lambda row: (height(row[1], shape), row[1].items())):
        here = min(copies - placed, nodes * height(free, shape))
        rows += _bound(nodes, free, shape, here)
        placed += here
    if not placed:
        return pool, copies
    return replace(pool, promised=_together(rows), copies=pool.copies + placed), copies - placed


def _promise(pool: Pool, shape: PodShape, copies: int) -> tuple[Pool, int]:
    each = height(pool.node_class.allocatable, shape)
    if not each or not pool.left:
        return pool, copies
    # Rounded up: the last node is promised as a whole, although it will not be full.
    nodes = min(-(-copies // each), pool.left)
    placed = min(copies, nodes * each)
    rows = [*pool.promised, *_bound(nodes, pool.node_class.allocatable, shape, placed)]
    after = replace(
        pool, left=pool.left - nodes, promised=_together(rows), copies=pool.copies + placed
    )
    return after, copies - placed


def _bound(
    nodes: int, free: Resources, shape: PodShape, copies: int
) -> list[tuple[int, Resources]]:
    """Equal nodes after some copies were bound to them, one node after the other."""
    each = height(free, shape)
    if not copies:
        return [(nodes, free)]
    full, rest = divmod(copies, each)
    rows = [(full, _less(free, shape, each))] if full else []
    if rest:
        rows.append((1, _less(free, shape, rest)))
    untouched = nodes - full - bool(rest)
    return [*rows, (untouched, free)] if untouched else rows


def _less(free: Resources, shape: PodShape, copies: int) -> Resources:
    pods = Resources({PODS: max(shape.requests[PODS], 1) - shape.requests[PODS]})
    return free - (shape.requests + pods) * copies


def _together(rows: Iterable[tuple[int, Resources]]) -> tuple[tuple[int, Resources], ...]:
    """Equal nodes in one row, in an order that does not depend on how they were promised."""
    counts: dict[Resources, int] = {}
    for nodes, free in rows:
        counts[free] = counts.get(free, 0) + nodes
    return tuple(
        # Sorted: places on promised nodes must not depend on the order of earlier decisions.
        (counts[free], free)
        for free in sorted(counts, key=lambda free: tuple(free.items()))
    )
