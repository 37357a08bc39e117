"""How far the decisions of one cycle are from the best placement of the same batch.

Work is weighed by resources: a copy counts as the largest part that it takes of what the fleet has
of any resource. The best placement is not known, only a bound that none exceeds: the optimum of the
linear relaxation (`placement.room.packingbound`). So the gap may be less than is reported, and
never more.

Rules are no loss. What a workload lacks because of quota, a spread rule or another policy does not
count as work that could have been placed; what it lacks because no cluster had room does. Pods of
daemons are left out: each is for one node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from federator.model.ask import Ask, PodShape
from federator.model.decision import Reason
from federator.model.fleet import Commitment, copies_of
from federator.model.resources import PODS
from federator.model.scaleup import ScaleUp
from federator.placement.growth import pools
from federator.placement.room.binding import Floats
from federator.placement.room.ledger import Ledger
from federator.placement.room.packingbound import EACH, Packing, bounds
from federator.placement.selection import candidates
from federator.scheduling.write_order import Decided

ROOM: Final = frozenset({Reason.INSUFFICIENT_CAPACITY, Reason.GANG_INCOMPLETE})
"""Why copies are missing that another placement of the batch might have had room for."""
CLOSE: Final = 5e-4
"""The search for a lower bound ends when the gap is smaller."""
BOUNDS: Final = 64
"""Bounds after which it ends in any case."""
_NOWHERE: Final = frozenset[str]()
_LARGE: Final = 400_000
"""Numbers (classes x groups x resources) above which the nodes of a cluster are one group. The
bound is then looser."""
_AFFORDABLE: Final = 40_000_000
"""Numbers that are read in about a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Both in parts of the fleet; the parts of different resources may sum to more than 1."""

    placed: float
    """Work that the batch added."""
    bound: float
    """Work that no placement of the batch exceeds."""

    @property
    def ratio(self) -> float:
        """The part of the bound that was not placed, 0 to 1."""
        return max(1.0 - self.placed / self.bound, 0.0) if self.bound > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What the decisions of one cycle added, and what the fleet could have taken."""

    placed: float
    packing: Packing | None
    """None where nothing was missing for want of room."""

    def gaps(self, most: int = BOUNDS) -> Iterator[Gap]:
        """The gap by bounds that become lower, each after a few milliseconds, so many at most. The
        last one is the answer; the others allow other work between them."""
        if self.packing is None:
            yield Gap(self.placed, self.placed)
            return
        for number, bound in enumerate(bounds(self.packing)):
            gap = Gap(self.placed, max(bound, self.placed))
            yield gap
            if gap.ratio < CLOSE or number >= most:
                return

    @property
    def few(self) -> int:
        """Bounds that take about a tenth of a second in all; eight at least."""
        size = max(self.packing.size, 1) * EACH if self.packing is not None else EACH
        return min(max(_AFFORDABLE // size, 8), BOUNDS)

    def gap(self) -> Gap:
        *_, last = self.gaps()
        return last


def lacks_room(decided: Iterable[Decided]) -> bool:
    """Whether any of these decisions left copies without a place because there was no room."""
    return any(each.decision.reason in ROOM for each in decided)


def of_cycle(decided: Sequence[Decided], ledger: Ledger) -> Batch:
    """`ledger`: as the cycle found it, above the same snapshot and commitments."""
    fleet = _FleetCapacity(ledger)
    placed, wanted = 0.0, Counter[_Class]()
    short = lacks_room(decided)
    for each in decided:
        ask = each.entry.charged
        if ask.shape.every_node:
            continue
        gained = _gained(each.before, each.after)
        copies, missing = sum(gained.values()), _missing(ask, each)
        likes = fleet.open_to(ask).union(gained) if short else _NOWHERE
        grows = ask.policy.scale_up is not ScaleUp.NEVER
        # a gang may be content with fewer pods than it asks for
        for pod, count in each.after.shape.pods if copies else ():
            placed += fleet.worth(pod) * count * copies
            wanted[_Class(pod, likes, grows)] += count * copies
        for pod, count in ask.shape.pods if missing else ():
            wanted[_Class(pod, likes, grows)] += count * missing
    return Batch(placed, fleet.packing(wanted) if short else None)


@dataclass(frozen=True, slots=True)
class _Class:
    """Equal pods that may go to the same clusters."""

    pod: PodShape
    clusters: frozenset[str]
    grows: bool
    """Whether they may wait for nodes to be added."""


def _gained(before: Commitment | None, after: Commitment) -> dict[str, int]:
    """Copies that clusters have more than before."""
    had = Counter[str]()
    for holding in before.holdings if before is not None else ():
        had[holding.cluster] += copies_of(holding)
    has = {holding.cluster: copies_of(holding) for holding in after.holdings}
    return {name: more for name, copies in has.items() if (more := copies - had[name]) > 0}


def _missing(ask: Ask, each: Decided) -> int:
    """Copies without a place because there was no room."""
    if each.decision.reason not in ROOM:
        return 0
    return max(each.decision.shortfall, ask.at_once - each.after.copies, 0)


class _FleetCapacity:
    """What is free, and what can be added, before the batch."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._names = sorted(ledger.snapshot.clusters)
        self._total: Counter[str] = Counter()
        self._growing = {
            name: growth.pools(ledger.world.at[name])
            for growth in (ledger.growth,)
            if growth is not None
            for name in ledger.fleet.growing
        }
        for name in self._names:
            self._total.update(dict(ledger.allocatable(name).items()))
        for cluster_pools in self._growing.values():
            for pool in cluster_pools:
                amounts = pool.node_class.allocatable.items()
                self._total.update({name: amount * pool.left for name, amount in amounts})
        self._worths: dict[PodShape, float] = {}
        self._open: dict[int, tuple[object, frozenset[str]]] = {}
        """What was judged, by its identity -> the names of the open clusters."""

    def open_to(self, ask: Ask) -> frozenset[str]:
        """The clusters that filters do not refuse."""
        judged = candidates.places(ask, self._ledger.snapshot, self._ledger)
        kept = self._open.get(id(judged))
        if kept is None or kept[0] is not judged:
            names = frozenset(name for name, place in judged.items() if place.refusal is None)
            kept = self._open[id(judged)] = (judged, names)
        return kept[1]

    def worth(self, pod: PodShape) -> float:
        """The largest part that a pod takes of any resource of the fleet."""
        kept = self._worths.get(pod)
        if kept is None:
            needs = {PODS: 1, **dict(pod.requests.items())}
            parts = (need / self._total[name] for name, need in needs.items() if self._total[name])
            kept = self._worths[pod] = max(parts, default=0.0)
        return kept

    def packing(self, wanted: Mapping[_Class, int]) -> Packing:
        """The batch as a linear program."""
        classes = [each for each in wanted if each.clusters and self.worth(each.pod) > 0]
        names = sorted({PODS, *(name for each in classes for name in each.pod.requests)})
        need = np.array([[_need(each.pod, name) for name in names] for each in classes])
        frees, mosts = self._nodes(classes, names)
        groups = [(frees[at], mosts[:, at]) for at in np.flatnonzero(mosts.any(0))]
        for cluster, cluster_pools in self._growing.items():
            for pool in cluster_pools:
                groups += _of_pool(pool, cluster, classes, names)
        return Packing(
            worth=np.array([self.worth(each.pod) for each in classes], dtype=np.float64),
            wanted=np.array([wanted[each] for each in classes], dtype=np.float64),
            need=need.reshape(len(classes), len(names)).astype(np.float64),
            free=np.array([free for free, _ in groups]).reshape(len(groups), len(names)),
            most=np.array([most for _, most in groups]).reshape(len(groups), len(classes)).T,
        )

    def _nodes(self, classes: Sequence[_Class], names: Sequence[str]) -> tuple[Floats, Floats]:
        """([P, R], [I, P]) of the nodes that exist: as `Packing.free` and `Packing.most`. The nodes
        of a cluster with spec.usable are one group, which that limits; so are those of each cluster
        where the groups would be too many."""
        world = self._ledger.world
        columns = world.nodes
        top, counts = columns.top, columns.counts[:, : columns.top]
        clusters = counts.shape[0]
        whole = len(classes) * clusters * top * len(names) > _LARGE
        free = np.full((clusters, top, len(names)), np.inf)
        for at, name in enumerate(names):
            if name in columns.names:
                row = columns.names.index(name)
                left = np.maximum(columns.free[row, :, :top], 0) * counts
                free[:, :, at] = np.where(columns.named[row, :, None] > 0, left, np.inf)
        most = np.zeros((len(classes), clusters, 1 if whole else top))
        for at, each in enumerate(classes):
            heights = np.maximum(columns.heights(each.pod, slice(None))[:, :top], 0) * counts
            closed = np.array([name not in each.clusters for name in self._names], dtype=np.bool_)
            heights[closed] = 0
            most[at] = heights.sum(1, keepdims=True) if whole else heights
        if whole:
            free = free.sum(1, keepdims=True)
        for at, name in enumerate(self._names):
            if (headroom := world.headroom(at)) is not None:
                endless = {PODS} - self._ledger.allocatable(name).keys()
                left = [np.inf if each in endless else max(headroom[each], 0) for each in names]
                free[at, 0] = np.minimum(free[at].sum(0), left)
                most[:, at, 0] = most[:, at].sum(1)
                most[:, at, 1:] = 0.0
        groups = clusters * most.shape[2]
        return free.reshape(groups, len(names)), most.reshape(len(classes), groups)


def _need(pod: PodShape, name: str) -> int:
    return max(pod.requests[PODS], 1) if name == PODS else pod.requests[name]


def _of_pool(
    pool: pools.Pool, cluster: str, classes: Sequence[_Class], names: Sequence[str]
) -> Iterator[tuple[Floats, Floats]]:
    """The nodes of one class that can be added, and those that are promised: [R] and [I]."""
    for count, free in ((pool.left, pool.node_class.allocatable), *pool.promised):
        most = [
            count * pools.height(free, each.pod)
            if each.grows and cluster in each.clusters and pools.admits(pool.node_class, each.pod)
            else 0
            for each in classes
        ]
        if any(most):
            amounts = [count * max(free[name], 0) for name in names]
            yield np.array(amounts, dtype=np.float64), np.array(most, dtype=np.float64)
