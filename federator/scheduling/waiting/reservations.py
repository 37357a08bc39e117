"""Reservations of one cycle (EASY backfilling): small work does not starve wide work.

Where an account says `queueing: Backfilling`, the first of its workloads that wait for room in one
cluster reserves it: in the cluster where it may be expected to start first, by the ends that are
known. Workloads after it in the order start there only if they have ended by then, or if they have
room beside it. One reservation a cluster; workloads after it in the order reserve in others. A
workload without a known run time never ends: it delays no workload that still has room. Where too
little is known to end, nothing is kept.

    cluster a, 8 free of 10:   big wants 10; the other 2 end at 12:00, and big reserves from then on
      a job of 4 until 11:50   starts: it has ended by then
      a job of 4 until 13:00   waits: big lacks 4 at 12:00

After D. Lifka, The ANL/IBM SP scheduling system (1995). Pure.
"""

import functools
import heapq
import math
import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from federator.model import plaintext
from federator.model.ask import Ask, PodShape, Tier
from federator.model.decision import Decision
from federator.model.fleet import Commitment, copies_of
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement.quota.tree import Tree
from federator.placement.room import setaside
from federator.placement.room.binding import Ints
from federator.placement.room.commitments import Commitments
from federator.placement.room.futures import End, Future, Pods
from federator.placement.room.ledger import Ledger
from federator.placement.room.setaside import Copies
from federator.placement.selection import candidates
from federator.scheduling import ordering
from federator.scheduling.queueing_hints import FOR_ROOM
from federator.scheduling.waiting import room_claims
from federator.scheduling.waiting.room_claims import Claims

Bools = NDArray[np.bool_]
CLAIMED: Final = "others have left for what is before it (spec.preemption.room)"
BUFFERED: Final = "room is kept for what loses its cluster (spec.failoverBuffer)"
MOST: Final = 64
"""Of those that wait and are not due, so many may reserve: the first by tier, priority and age."""
_SOONEST: Final = operator.itemgetter(0, 1)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that is kept in one cluster."""

    ask: Ask
    cluster: str
    start_s: float
    """When it is expected to be there, in epoch seconds."""

    @property
    def pods(self) -> Pods:
        return wanted(self.ask)


def reserves(ask: Ask, tree: Tree) -> bool:
    """Whether room is kept for the workload while it waits: its account wants that, and it starts
    in one cluster or not at all."""
    if ask.suspended or ask.shape.every_node or not in_one_cluster(ask):
        return False
    paths = (tree.path(name) for name in tree.charged(ask.project))
    return any(tree.accounts[name].backfills for path in paths for name in path)


def in_one_cluster(ask: Ask) -> bool:
    if ask.shape.parts:
        return True
    division = ask.policy.division
    bounds = [division.max_per_cluster, *(each.of(ask.at_once) for each in division.per_cluster)]
    # It is divided then, and would start with parts in several clusters: one reservation is no
    # help.
    if any(most is not None and most < ask.at_once for most in bounds):
        return False
    alone = ask.policy.require_all and division.max_clusters == 1
    return alone or (ask.at_once == 1 and ask.whole)


def wanted(ask: Ask) -> Pods:
    """The pods with which it would start."""
    if ask.shape.parts:
        return ask.shape.granted([part.min for part in ask.shape.parts]).pods
    return ((ask.shape, ask.at_once),)


class Reservations:
    """What is kept in one cycle. Mutable, as its ledger."""

    def __init__(
        self,
        waiting: Iterable[Ask],
        due: Container[WorkloadKey],
        commitments: Commitments,
        ledger: Ledger,
        claims: Claims = MappingProxyType({}),
    ) -> None:
        """`waiting`: those that waited for room when they were decided last; some are due now.
        `claims`: the preemptors with victims that have left, while that room may not be seen free
        yet."""
        self._commitments, self._ledger, self._claims = commitments, ledger, claims
        self._claimed: Mapping[str, Sequence[Copies]] = {}
        self._buffer: Mapping[str, Resources] = {}
        self._buffers: Mapping[str, Resources] | None = None
        """What failover buffers keep from workloads that may not have it."""
        self._buffered = bool(setaside.buffers(ledger))
        self._tree: Tree | None = None
        self.waiting: tuple[Ask, ...] = ()
        """Those that are not due, and wait in the order among those that are."""
        self._made: dict[str, Reservation] = {}
        self._decided: dict[str, Commitment] = {}
        self._futures: dict[str, Future | None] = {}
        quotas = ledger.snapshot.quotas
        if any(account.backfills for account in quotas):
            tree = self._tree = commitments.tree(quotas)
            some = (ask for ask in waiting if ask.key not in due and reserves(ask, tree))
            # A reservation looks at every cluster's future, so a long queue of them would take the
            # cycle.
            self.waiting = tuple(heapq.nsmallest(MOST, some, key=ordering.standing))

    @property
    def made(self) -> Mapping[str, Reservation]:
        """By cluster."""
        return self._made

    def ended(self, before: Mapping[str, Reservation]) -> tuple[str, ...]:
        """The clusters in which room is no longer kept for the workload of the earlier
        reservation."""
        return tuple(
            name
            for name, was in before.items()
            if name not in self._made or self._made[name].ask.key != was.ask.key
        )

    def keep_from(self, ask: Ask, *, leaves: bool, displaced: bool = False) -> None:
        """Until the next call the ledger has no room for this workload that is kept for others.
        `leaves`: it only gives up what it has. `displaced`: it loses a cluster, and failover
        buffers are for it."""
        self._ledger.keep, self._claimed, self._buffer = None, {}, {}
        if leaves or not (self._made or self._claims or self._buffered):
            return
        if self._buffered and not displaced and ask.tier is not Tier.PREEMPTIBLE:
            if self._buffers is None:
                self._buffers = setaside.from_ask(ask, self._ledger)
            self._buffer = self._buffers
        if self._claims:
            now_s = self._ledger.snapshot.as_of
            self._claimed = room_claims.claimed(self._claims.values(), ask, now_s)
        late = {
            self._ledger.world.at[kept.cluster]: kept
            for kept in self._made.values()
            # Backfilling: work that surely ends before the reserved start delays nobody, and needs
            # no room beside it.
            if ask.run_s is None or self._ledger.snapshot.as_of + ask.run_s > kept.start_s
        }
        if late or self._claimed or self._buffer:
            self._ledger.keep = functools.partial(self._left, late)

    def _left(self, late: Mapping[int, Reservation], shape: PodShape, rooms: Ints) -> Ints:
        left = setaside.left(self._ledger, self._buffer, shape, rooms, self._claimed)
        for at, kept in late.items():
            if left[at] <= 0:
                continue
            future = self._future(kept.cluster)
            most = 0
            if future is not None:
                most = future.beside(kept.start_s, kept.pods, shape.pods, int(left[at]))
            if most < left[at]:
                # The array is the ledger's own, which counts it once for all workloads of the
                # shape.
                left = left if left is not rooms else np.array(rooms)
                left[at] = most
        return left

    def decided(self, ask: Ask, decision: Decision, after: Commitment) -> Decision:
        """The decision, which says what is kept for the workload, or from it."""
        if self._claimed and decision.reason in FOR_ROOM:
            decision = _kept_out(decision, self._claimed, CLAIMED)
        if self._buffer and decision.reason in FOR_ROOM:
            decision = _kept_out(decision, self._buffer, BUFFERED)
        if self._tree is None:
            return decision
        before = self._commitments.commitment(after.uid)
        for holding in (*after.holdings, *(before.holdings if before is not None else ())):
            self._futures.pop(holding.cluster, None)
        self._decided[after.uid] = after
        if decision.reason not in FOR_ROOM:
            return decision
        if not after.copies and reserves(ask, self._tree):
            kept = self.reserve(ask, now=False)
            if kept is not None:
                return replace(decision, message=f"{decision.message}; {_sentence(kept)}")
        late = self._ledger.keep is not None
        others = [kept for kept in self._made.values() if late and kept.ask.uid != ask.uid]
        if not others:
            return decision
        first, more = others[0], len(others) - 1
        also = f" (and {more} more)" if more else ""
        return replace(
            decision,
            message=f"{decision.message}; in {first.cluster}{also} room is kept, from"
            f" {plaintext.moment(first.start_s)} on, for what is before it in the order (queueing:"
            " Backfilling)",
        )

    def reserve(self, ask: Ask, *, now: bool) -> Reservation | None:
        """Keeps room for a workload that waits, where it is there first. `now`: also where it has
        room already."""
        pods, best = wanted(ask), (math.inf, "")
        # By a lower bound that is cheap: the search of a future costs much more, and most are never
        # made.
        for soonest_s, name, future in sorted(self._choices(ask, pods, now=now), key=_SOONEST):
            if (soonest_s, name) >= best:
                break  # what follows is not there before it either
            if future is None:
                start_s: float | None = soonest_s
            else:
                start_s = future.earliest(pods, best[0])
            if start_s is not None:
                best = min(best, (start_s, name))
        start_s, cluster = best
        if not cluster:
            return None
        made = self._made[cluster] = Reservation(ask, cluster, start_s)
        return made

    def _choices(
        self, ask: Ask, pods: Pods, *, now: bool
    ) -> Iterator[tuple[float, str, Future | None]]:
        """(before when it cannot start there, cluster, its future) where no room is kept yet and it
        may start at all; without a future where it has room now."""
        snapshot, ledger = self._ledger.snapshot, self._ledger
        rooms = self._rooms(ask) if now else None
        for name, place in candidates.places(ask, snapshot, ledger).items():
            if place.refusal is not None or name in self._made:
                continue
            if rooms is not None and rooms[ledger.world.at[name]]:
                yield snapshot.as_of, name, None
                continue
            future = self._future(name)
            soonest_s = None if future is None else future.soonest(pods)
            if soonest_s is not None:
                yield soonest_s, name, future

    def _rooms(self, ask: Ask) -> Bools:
        """[C]: where it has room now."""
        self._ledger.keep = None
        if ask.shape.parts:
            least = ask.shape.granted([part.min for part in ask.shape.parts])
            return self._ledger.rooms(least) > 0
        ((shape, count),) = wanted(ask)
        return self._ledger.rooms(shape) >= count

    def _future(self, cluster: str) -> Future | None:
        """The cluster from now on, after what this cycle has given."""
        if cluster not in self._futures:
            self._futures[cluster] = self._made_future(cluster)
        return self._futures[cluster]

    def _made_future(self, cluster: str) -> Future | None:
        nodes, headroom = self._ledger.left(cluster)
        capacity = self._ledger.snapshot.clusters[cluster].capacity
        if nodes is None or capacity is None:
            return None
        running = {held.uid: held for held in self._commitments.ends(cluster)} | self._decided
        return Future(capacity, nodes, headroom, self._ends(running.values(), cluster))

    def _ends(self, running: Iterable[Commitment], cluster: str) -> Iterable[End]:
        now_s = self._ledger.snapshot.as_of
        for commitment in running:
            if commitment.ends_s is None:
                continue
            # One that is overdue still runs, so it ends now at the earliest.
            at_s = max(commitment.ends_s, now_s)
            for holding in commitment.holdings:
                if holding.cluster == cluster and (copies := copies_of(holding)):
                    for pod, each in commitment.shape.pods:
                        yield End(at_s, pod, each * copies)


def _kept_out(decision: Decision, clusters: Iterable[str], why: str) -> Decision:
    """The decision of one that may not have what is kept for others in these clusters."""
    first, *more = sorted(clusters)
    also = f" (and {len(more)} more)" if more else ""
    return replace(decision, message=f"{decision.message}; in {first}{also} {why}")


def _sentence(kept: Reservation) -> str:
    return (
        f"room is kept for it in {kept.cluster}, where it starts by"
        f" {plaintext.moment(kept.start_s)} if others end as they say (queueing: Backfilling)"
    )
