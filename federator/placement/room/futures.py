"""The room of one cluster later on, by the ends that are known: when those have ended that say how
long they run at most, and nothing new has begun.

Copies give their room back on the nodes that have most of it, since a summary does not say where
they are. So room is expected rather too early than too late: what is kept for somebody until then
is kept long enough. Pure.
"""

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from federator.model.ask import PodShape
from federator.model.fleet import Capacity
from federator.model.kubernetes import taints
from federator.model.resources import PODS, UNLIMITED, ZERO, Resources
from federator.placement.room import nodes as nodes_module
from federator.placement.room.binding import Floats, Ints
from federator.placement.room.nodes import Make, Nodes

Pods = Sequence[tuple[PodShape, int]]
"""Single pods and how many there are of each, the largest first."""
_ROUNDED: Final = 1 - 1e-9
"""Sums over nodes are rounded: what is wanted is taken for a trifle less."""


@dataclass(frozen=True, slots=True)
class End:
    """Single pods that are gone at `at_s`, in epoch seconds."""

    at_s: float
    shape: PodShape
    copies: int


class Future:
    """One cluster from now on. `nodes`: what is free now."""

    def __init__(
        self, capacity: Capacity, nodes: Nodes, headroom: Resources | None, ends: Iterable[End]
    ) -> None:
        self._nodes, self._headroom = nodes, headroom
        self._packs = capacity.packs
        self._unbound = PODS not in capacity.allocatable
        self._limits = limits_of(capacity, nodes)
        self._ends = sorted(ends, key=lambda end: end.at_s)
        self._times = sorted({end.at_s for end in self._ends})
        self._later: dict[int, tuple[Nodes, Resources | None]] = {}
        self._sums: Floats | None = None

    def soonest(self, pods: Pods) -> float | None:
        """By the sums over all nodes these pods have no room together before then, not counting
        now; None for never. Much less work than `earliest`."""
        step = self._possible(pods)
        return None if step is None else self._times[step - 1]

    def earliest(self, pods: Pods, until_s: float = math.inf) -> float | None:
        """When all these pods have room together for the first time, not counting now; None where
        no end that is known, up to a time, makes it."""
        low, last = self._possible(pods), bisect.bisect_right(self._times, until_s)
        if low is None or low > last:
            return None
        step, high = 1, low
        # Steps that double: most find room soon, and each look binds all pods for trial.
        while not self._fits(high, pods):  # later there is never less room
            if high == last:
                return None
            low, high, step = high + 1, min(high + step, last), step * 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(middle, pods) else (middle + 1, high)
        return self._times[low - 1]

    def beside(self, at_s: float, reserved: Pods, pods: Pods, most: int) -> int:
        """How many times `pods` fit at this time when `reserved` has its room, `most` at most."""
        nodes, headroom = self._at(bisect.bisect_right(self._times, at_s))
        for shape, count in reserved:
            nodes = nodes.charge(shape, count, packs=self._packs)
        if headroom is not None:
            headroom = headroom - requested(reserved)
            most = min(most, self._times_in(headroom, pods))
        if len(pods) == 1:
            shape, count = pods[0]
            return max(min(nodes.copies(shape) // count, most), 0)
        fits = 0
        # Gangs one by one: each changes on which nodes the next one can lie.
        while fits < most and (left := taken(nodes, pods, packs=self._packs)) is not None:
            nodes, fits = left, fits + 1
        return fits

    def _possible(self, pods: Pods) -> int | None:
        """After how many instants of ends the sums would do, at least one; None for never."""
        names, wanted = self._nodes.names, requested(pods)
        if any(amount > 0 and name not in (*names, PODS) for name, amount in wanted.items()):
            return None
        # Sums are floats. Asking for a little less makes rounding err on the side of a closer look.
        want = np.array([wanted[name] for name in names], dtype=np.float64) * _ROUNDED
        if self._sums is None:
            self._sums = self._summed()
        enough = (self._sums >= want).all(axis=1)
        return int(enough.argmax()) + 1 if enough.any() else None

    def _summed(self) -> Floats:
        """[instant of ends, R]: what is free then on all nodes together."""
        names = self._nodes.names
        free = self._nodes.free.astype(np.float64) @ self._nodes.counts
        back = np.zeros((len(self._times), len(names)), dtype=np.float64)
        at = -1
        for index, end in enumerate(self._ends):
            # Ends of one moment are one instant: between them nothing can begin.
            at += not index or end.at_s != self._ends[index - 1].at_s
            back[at] += nodes_module.need_in(names, end.shape) * end.copies
        sums: Floats = free + back.cumsum(axis=0)
        return sums

    def _fits(self, after: int, pods: Pods) -> bool:
        nodes, headroom = self._at(after)
        if headroom is not None and not self._times_in(headroom, pods):
            return False
        return taken(nodes, pods, packs=self._packs) is not None

    def _times_in(self, headroom: Resources, pods: Pods) -> int:
        """How many times the pods fit into what spec.usable leaves."""
        wanted = {
            name: amount
            for name, amount in requested(pods).items()
            if not (name == PODS and self._unbound)
        }
        # Pods count only where the cluster bounds them.
        return headroom.fits(Resources(wanted))

    def _at(self, after: int) -> tuple[Nodes, Resources | None]:
        """What is free after so many instants of ends."""
        known = self._later.get(after)
        if known is not None:
            return known
        until = self._times[after - 1] if after else -1.0
        back: dict[PodShape, int] = {}
        for end in self._ends:
            if after and end.at_s <= until:
                back[end.shape] = back.get(end.shape, 0) + end.copies
        nodes, headroom = self._nodes, self._headroom
        # Shapes together and not ends one by one: what is returned of a shape is spread over its
        # nodes at once.
        for shape, copies in back.items():
            nodes = returned(nodes, shape, copies, self._limits)
            headroom = None if headroom is None else headroom + shape.requests * copies
        self._later[after] = nodes, headroom
        return nodes, headroom


def returned(nodes: Nodes, shape: PodShape, copies: int, limits: Ints) -> Nodes:
    """The nodes after so many copies have gone, from those nodes that are emptiest and may have had
    them. A copy may be charged what its pod does not request: those for which no node is short of
    all that they are charged go from where something of it is in use, and what they give back is
    cut to what a node has (`limits`, as of `limits_of`)."""
    need = nodes_module.need_in(nodes.names, shape)
    # First the nodes that can have had all of it, then those that can have had a part: a charge may
    # exceed what the pod requests.
    for strict in (True, False):
        if copies > 0 and need.any() and nodes.counts.size:
            nodes, copies = _returned(nodes, shape, copies, limits, strict=strict)
    return nodes


def _returned(
    nodes: Nodes, shape: PodShape, copies: int, limits: Ints, *, strict: bool
) -> tuple[Nodes, int]:
    """(the nodes, copies that have found no node)."""
    need = nodes_module.need_in(nodes.names, shape)
    used = np.flatnonzero(need)
    most = limits[:, nodes.kinds]
    heights = _heights(nodes, need, most, strict=strict)
    makes = nodes.makes
    if makes.tainted:
        open_to = [
            taints.untolerated(make.taints, shape.tolerations) is None for make in makes.every
        ]
        heights[~np.array(open_to)[nodes.kinds]] = 0
    # Fractions of the node: a cpu of a small node says more than one of a large one.
    emptiness = (nodes.free[used] / np.maximum(most[used], 1)).sum(axis=0)
    each = np.zeros(nodes.counts.size, dtype=np.int64)
    parts: list[tuple[int, int, int]] = []
    # The emptiest first, as LeastAllocated had bound them there; this also leaves the largest gaps
    # whole.
    for row in np.argsort(-emptiness, kind="stable").tolist():
        height, count = int(heights[row]), int(nodes.counts[row])
        if not height or not copies:
            continue
        if copies >= height * count:
            each[row] = height
            copies -= height * count
            continue
        whole, rest = divmod(copies, height)
        parts += [(row, number, took) for number, took in ((whole, height), (1, rest)) if number]
        copies = 0
    return _given(nodes, need, each, [part for part in parts if part[2]], most), copies


def _heights(nodes: Nodes, need: Ints, most: Ints, *, strict: bool) -> Ints:
    """Copies that each node may have had: by all that they are charged, or by the most of it."""
    used = np.flatnonzero(need)
    gaps = np.where(most == UNLIMITED, UNLIMITED, most - nodes.free)[used] // need[used, None]
    counted = np.array([nodes.names[index] == PODS for index in used])
    heights: Ints = np.maximum(gaps.min(axis=0), 0)
    if strict or counted.all():
        return heights
    heights = np.maximum(gaps[~counted].max(axis=0), 0)
    if counted.any():
        heights = np.minimum(heights, np.maximum(gaps[counted][0], 0))
    return heights


def _given(
    nodes: Nodes, need: Ints, each: Ints, parts: list[tuple[int, int, int]], most: Ints
) -> Nodes:
    most = np.maximum(most, nodes.free)
    # Never more than the node has, whatever was charged beyond it.
    free = np.minimum(nodes.free + need[:, None] * each, most)
    counts, kinds = nodes.counts, nodes.kinds
    if parts:
        emptier = [
            np.minimum(nodes.free[:, row] + need * took, most[:, row]) for row, _, took in parts
        ]
        free = np.concatenate([free, np.array(emptier).T], axis=1)
        counts = np.concatenate([counts, [number for _, number, _ in parts]])
        for row, number, _ in parts:
            counts[row] -= number
        kinds = np.concatenate([kinds, kinds.take([row for row, _, _ in parts])])
    return Nodes(nodes.names, counts, free, kinds, makes=nodes.makes, most_rows=nodes.most_rows)


def limits_of(capacity: Capacity, nodes: Nodes) -> Ints:
    """[R, m]: what a node of each make has of each resource; UNLIMITED where nothing bounds it."""
    most: dict[Make, dict[str, int]] = {}
    for row in capacity.rows:
        has = most.setdefault(nodes_module.make_of(row), {})
        for name in nodes.names:
            unbound = name == PODS and name not in row.allocatable and not row.podless
            amount = UNLIMITED if unbound else row.allocatable[name]
            has[name] = max(has.get(name, 0), amount)
    made = [most.get(make, {}) for make in nodes.makes.every]
    return np.array(
        [[has.get(name, 0) for has in made] for name in nodes.names], dtype=np.int64
    ).reshape(len(nodes.names), len(made))


def taken(nodes: Nodes, pods: Pods, *, packs: bool) -> Nodes | None:
    """What is left when all these have their room; None where not all have."""
    for shape, count in pods:
        if nodes.copies(shape) < count:
            return None
        nodes = nodes.charge(shape, count, packs=packs)
    return nodes


def requested(pods: Pods) -> Resources:
    total = ZERO
    for shape, count in pods:
        total = total + shape.requests * count
    return total
