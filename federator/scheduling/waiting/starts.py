"""When work that waits may be expected to start: the queue played forward from now on.

What runs ends as others of its project ended before (`releases`), or when it says; what waits
starts in the order of the queue wherever it has room; and nothing new comes. It is played three
times: with ends of which a quarter, half and three quarters came sooner. How far from the first and
the last work starts in truth was measured: nine of ten within `EARLIEST` and `LATEST` times as long
(docs/benchmarks.md, rows X1, X1d, X1h). Pure.
"""

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model import plaintext
from federator.model.ask import Ask, PodShape, Unit
from federator.model.fleet import Capacity, Commitment, copies_of
from federator.model.resources import PODS, Resources
from federator.placement.room import futures
from federator.placement.room.commitments import Commitments
from federator.placement.room.futures import Pods
from federator.placement.room.ledger import Ledger
from federator.placement.room.nodes import Nodes
from federator.placement.selection import candidates
from federator.scheduling.waiting import reservations
from federator.scheduling.waiting.releases import Releases
from federator.scheduling.waiting.reservations import Reservations

EARLIEST: Final = 0.8
LATEST: Final = 1.25
SOONER: Final = (0.25, 0.5, 0.75)
MOST: Final = 2_000
"""Works of the queue that are played, and instants of ends."""


@dataclass(frozen=True, slots=True)
class Interval:
    """In epoch seconds. Nine of ten start within."""

    low_s: float
    expected_s: float
    high_s: float


@dataclass(slots=True)
class _Waiter:
    ask: Ask
    clusters: tuple[str, ...]
    together: bool
    """It starts in one cluster or not at all."""
    left: int
    """Copies that have no place yet; 1 where all of them start together."""
    run_s: float | None


def expected(
    ordered: Sequence[Ask],
    commitments: Commitments,
    ledger: Ledger,
    missing: Mapping[str, int],
    releases: Releases,
    *,
    running: Sequence[Commitment] = (),
) -> dict[str, Interval]:
    """uid -> when it may be expected to have all it lacks; of those that wait for room, in the
    order in which they are decided. `missing`: uid -> copies that it lacks. What is not named does
    not start as far as is known: too little says when it ends. `running`: jobs that do not say how
    long they run, where the commitments do not hold them."""
    if not ordered:
        return {}
    low, mid, high = (
        _Play(commitments, ledger, releases, quantile, running).run(ordered[:MOST], missing)
        for quantile in SOONER
    )
    kept = Reservations(ordered, (), commitments, ledger)
    reserving = {ask.uid for ask in kept.waiting}
    for ask in ordered:
        reserved = kept.reserve(ask, now=True) if ask.uid in reserving else None
        if reserved is not None:
            for starts in (low, mid, high):
                starts[ask.uid] = min(starts.get(ask.uid, math.inf), reserved.start_s)
        elif (bound_s := _kept_out_until(ask, kept, ledger)) is not None:
            for starts in (low, mid, high):
                if ask.uid in starts:
                    starts[ask.uid] = max(starts[ask.uid], bound_s)
    now_s = ledger.snapshot.as_of
    # Earlier ends may let others in first, and so start this workload later: either play may be
    # the first.
    return {
        uid: Interval(
            now_s + (min(low[uid], high[uid]) - now_s) * EARLIEST,
            mid[uid],
            now_s + (max(low[uid], high[uid]) - now_s) * LATEST,
        )
        for uid in low.keys() & mid.keys() & high.keys()
    }


def _kept_out_until(ask: Ask, kept: Reservations, ledger: Ledger) -> float | None:
    """The earliest start among the workloads that reserve the room that this workload would have
    now; None where nothing keeps it out."""
    if not kept.made:
        return None
    judged = candidates.places(ask, ledger.snapshot, ledger)
    at = [ledger.world.at[name] for name, place in judged.items() if place.refusal is None]
    shape = ask.shape
    if shape.parts:
        shape = shape.granted([part.min for part in shape.parts])
    kept.keep_from(ask, leaves=False)
    beside = ledger.rooms(shape)[at].any()
    ledger.keep = None
    if beside or not ledger.rooms(shape)[at].any():
        return None
    open_to = {name for name, place in judged.items() if place.refusal is None}
    return min(kept.made[name].start_s for name in kept.made.keys() & open_to)


def text(expected_at: Interval) -> str:
    """The interval as people read it."""
    low, high = (plaintext.moment(at_s) for at_s in (expected_at.low_s, expected_at.high_s))
    return f"{low} to {high}"


class _Cluster:
    """What is free in one cluster at the instant that is played."""

    def __init__(self, capacity: Capacity, nodes: Nodes, headroom: Resources | None) -> None:
        self.nodes, self.headroom, self.packs = nodes, headroom, capacity.packs
        self.limits = futures.limits_of(capacity, nodes)

    def end(self, shape: PodShape, copies: int) -> None:
        self.nodes = futures.returned(self.nodes, shape, copies, self.limits)
        if self.headroom is not None:
            self.headroom = self.headroom + shape.requests * copies

    def take(self, pods: Pods) -> bool:
        """Whether all these have room, which they have taken then."""
        left = futures.taken(self.nodes, pods, packs=self.packs)
        if left is None:
            return False
        if self.headroom is not None:
            rest = self.headroom - futures.requested(pods)
            if any(rest[name] < 0 for name in self.headroom if name != PODS):
                return False
            self.headroom = rest
        self.nodes = left
        return True


class _Play:
    """The queue and the clusters at one instant after the other."""

    def __init__(
        self,
        commitments: Commitments,
        ledger: Ledger,
        releases: Releases,
        quantile: float,
        running: Sequence[Commitment],
    ) -> None:
        snapshot = ledger.snapshot
        self.ledger, self.now_s = ledger, snapshot.as_of
        self.releases, self.quantile = releases, quantile
        self.clusters: dict[str, _Cluster] = {}
        self.ends: list[tuple[float, int, str, PodShape, int]] = []
        self._number = itertools.count()
        self._started: list[str] = []
        for name, view in snapshot.clusters.items():
            nodes, headroom = ledger.left(name)
            if nodes is None or view.capacity is None:
                continue
            self.clusters[name] = _Cluster(view.capacity, nodes, headroom)
            for commitment in commitments.ends(name):
                self._runs(commitment, name)
        for commitment in (*commitments, *running):
            if commitment.run_s is None and any(held.ranges for held in commitment.holdings):
                for holding in commitment.holdings:
                    self._runs(commitment, holding.cluster)

    def _runs(self, commitment: Commitment, cluster: str) -> None:
        """What it holds in the cluster comes free when it has ended."""
        if commitment.began_s is None or cluster not in self.clusters:
            return
        age_s = max(self.now_s - commitment.began_s, 0.0)
        left_s = self.releases.left_s(commitment.project, age_s, commitment.run_s, self.quantile)
        if left_s is None:
            return
        for holding in commitment.holdings:
            if holding.cluster == cluster and (copies := copies_of(holding)):
                self._end_at(self.now_s + left_s, cluster, commitment.shape.pods, copies)

    def waiter(self, ask: Ask, missing: int) -> _Waiter:
        judged = candidates.places(ask, self.ledger.snapshot, self.ledger)
        open_to = tuple(
            name
            for name, place in judged.items()
            if place.refusal is None and name in self.clusters
        )
        together = reservations.in_one_cluster(ask)
        run_s = None
        if ask.unit is Unit.SHARDS:
            run_s = self.releases.left_s(ask.project, 0.0, ask.run_s, self.quantile)
        return _Waiter(ask, open_to, together, 1 if together else max(missing, 1), run_s)

    def run(self, ordered: Sequence[Ask], missing: Mapping[str, int]) -> dict[str, float]:
        """uid -> when it has all it lacks."""
        queue = [self.waiter(ask, missing[ask.uid]) for ask in ordered]
        starts: dict[str, float] = {}
        # Bounded: with thousands of running jobs later ends would change figures that nobody relies
        # on.
        for _ in range(MOST):
            full: set[object] = set()
            queue = [waiter for waiter in queue if not self._starts(waiter, full)]
            started = self._started
            starts |= dict.fromkeys(started, self.now_s)
            started.clear()
            if not queue or not self.ends:
                break
            self.now_s = self.ends[0][0]
            while self.ends and self.ends[0][0] == self.now_s:
                _, _, name, shape, copies = heapq.heappop(self.ends)
                self.clusters[name].end(shape, copies)
        return starts

    def _starts(self, waiter: _Waiter, full: set[object]) -> bool:
        """Whether it has all it lacks now; what it is given it has taken. `full`: what has had no
        room at this instant."""
        ask = waiter.ask
        pods = reservations.wanted(ask) if waiter.together else ((ask.shape, 1),)
        # Nothing ends within an instant, so what had no room has none for an equal one either.
        like = (pods, waiter.clusters)
        if like in full:
            return False
        for name in waiter.clusters:
            cluster = self.clusters[name]
            while waiter.left and cluster.take(pods):
                waiter.left -= 1
                if waiter.run_s is not None:
                    self._end_at(self.now_s + waiter.run_s, name, pods, 1)
        if not waiter.left:
            self._started.append(ask.uid)
            return True
        full.add(like)
        return False

    def _end_at(self, at_s: float, cluster: str, pods: Pods, times: int) -> None:
        for shape, count in pods:
            end = (at_s, next(self._number), cluster, shape, count * times)
            heapq.heappush(self.ends, end)
