"""Commitments: what every workload holds by its last decision.

The hub has one `Commitments` for its whole life and fills it from PlacementDecisions at start. A
new decision is assumed before it is written; if the write fails, the former state is recorded
again. Quota use is the sum over all commitments. Room is charged for the copies that a member's
last summary does not include yet: a slice is in flight until it is confirmed in its member, and
released when it is confirmed gone.

Pods that run or terminate beyond what a decision gives are charged in addition (`terminating`), as
members report them.

Each cycle opens a `Ledger` above the commitments. A ledger never changes them, and becomes invalid
when they change.
"""

import bisect
import itertools
import operator
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from federator.model.ask import Ask, Former, PodShape, Tier
from federator.model.fleet import (
    Capacity,
    ClusterView,
    Commitment,
    FleetSnapshot,
    QuotaAccount,
    Views,
)
from federator.model.resources import ZERO, Resources
from federator.model.shards import Ranges
from federator.placement.quota.tree import Tree
from federator.placement.room import sums, trails
from federator.placement.room.inflight import Departures, InFlight
from federator.placement.room.ledger import Ledger
from federator.placement.room.nodes import Nodes
from federator.placement.room.sums import Sums
from federator.placement.room.trails import Step, Trail
from federator.placement.room.world import (
    Base,
    Names,
    Opened,
    World,
    judged_alike,
    others_of,
    same_report,
)

_Place = tuple[int, str]
"""(seq, uid) of a step."""
_MEMO = 1 << 16
"""Clusters x policies that are remembered from one ledger to the next, about 10 MB."""
_LAST = "\U0010ffff"
"""Sorts after every uid."""
_said = operator.attrgetter("created_s", "whole", "run_s")
Beyond = Callable[[Commitment], tuple[Former, ...]]
"""What is charged, by members' last reports, for pods beyond such a commitment."""


class Commitments:
    """All commitments, indexed for what a batch reads."""

    def __init__(self) -> None:
        self._commitments: dict[str, Commitment] = {}
        self._done: dict[str, Ranges] = {}
        """uid -> shards recorded as done, whether or not the workload has a commitment."""
        self._sums = Sums()
        self._tree: tuple[tuple[QuotaAccount, ...], Tree] | None = None
        self._trails: dict[str, dict[str, Trail]] = {}
        """cluster -> uid -> steps, but for those that are just what the commitment says: nearly all
        of a hub's. Empty where the commitment says more than there is."""
        self._recent: dict[str, list[_Place]] = {}
        self._unsorted: set[str] = set()
        """Clusters with a `_recent` that must be sorted before it is read."""
        self._leaving: dict[str, set[str]] = {}
        """cluster -> workloads that have a trail there and no share any more."""
        self._in_flight = InFlight()
        self._departures = Departures()
        self._bases: dict[str, Base] = {}
        self._world: tuple[World, Mapping[str, ClusterView]] | None = None
        """The room of all clusters as last asked for, and the clusters that it was made of."""
        self._readers: list[weakref.ref[object]] = []
        """The readers of that room, and some that are gone."""
        self._touched: set[str] = set()
        """Clusters where what is charged may have changed since."""
        self._read: tuple[FleetSnapshot | None, Mapping[str, ClusterView]] = (None, {})
        """The snapshot of the last ledger, and its clusters as they were then."""
        self._compared: tuple[Mapping[str, ClusterView], Mapping[str, ClusterView], Names] = (
            {},
            {},
            [],
        )
        """Two sets of clusters, and where they differ (`others_of`)."""
        self._judged: tuple[Mapping[str, ClusterView], dict[Any, Any]] = ({}, {})
        """The clusters that the last ledger read, and what it worked out of what filters judge of
        them (`ClusterView.judged_as`)."""
        self.terminating: dict[str, tuple[Former, ...]] = {}
        """uid -> what is charged for pods beyond the commitment; only where there are any."""
        self.reported_beyond: Beyond | None = None
        """None in a copy, where what was reported does not change."""
        self.version = 0
        """Rises with every change."""

    def __iter__(self) -> Iterator[Commitment]:
        return iter(self._commitments.values())

    def __len__(self) -> int:
        return len(self._commitments)

    def commitment(self, uid: str) -> Commitment | None:
        return self._commitments.get(uid)

    def record(self, commitment: Commitment, *, undone: bool = False) -> None:
        """Replaces the commitment of this workload; shards recorded as done do not count. Recording
        an equal commitment changes nothing. `undone`: what was assumed before was never in force,
        so no slice has set out for it."""
        commitment = self.counted(commitment)
        before = self._commitments.get(commitment.uid)
        if before is None:
            self._commitments[commitment.uid] = commitment
            self._sums.count(commitment, +1)
            self.version += 1
            self._take_steps(commitment.uid, {}, trails.steps(commitment))
            self.recount(commitment.uid)
            return
        if before.began_s is not None and before.copies:
            began_s = before.began_s
            if commitment.began_s is None or began_s < commitment.began_s:
                commitment = replace(commitment, began_s=began_s)
        if before == commitment:
            if (before.run_s, before.began_s) != (commitment.run_s, commitment.began_s):
                self._say(before, commitment)
            return
        self._sums.count(before, -1)
        self._commitments[commitment.uid] = commitment
        self._sums.count(commitment, +1)
        self.version += 1
        self.recount(commitment.uid)
        was, now = trails.steps(before), trails.steps(commitment)
        self._take_steps(commitment.uid, was, now)
        for cluster, step in was.items():
            if cluster not in now:
                self._leave(cluster, commitment.uid, step, undone=undone)
                self._heard_of(cluster, commitment.uid)
            else:  # a later decision was not taken after all
                self._heard_of(cluster, commitment.uid, above=now[cluster][0])

    def recount(self, uid: str) -> bool:
        """Charges the pods of a workload beyond its commitment by members' last reports. Returns
        whether that changes anything."""
        before, commitment = self.terminating.get(uid, ()), self._commitments.get(uid)
        now = self.beyond(commitment) if commitment is not None else ()
        if now == before:
            return False
        self.charge_beyond(uid, now)
        return True

    def charge_beyond(self, uid: str, now: tuple[Former, ...]) -> None:
        """Charges so much for pods of a workload beyond its commitment; () for nothing."""
        before = self.terminating.pop(uid, ())
        self._sums.charge(before, -1)
        self._sums.charge(now, +1)
        if now:
            self.terminating[uid] = now
        self.version += 1

    def beyond(self, after: Commitment) -> tuple[Former, ...]:
        """What would be charged for pods beyond this commitment."""
        if self.reported_beyond is None:
            return self.terminating.get(after.uid, ())
        return self.reported_beyond(after)

    def terminating_in(self, projects: Collection[str]) -> dict[Tier, Resources]:
        """What pods of these projects use beyond commitments, by tier."""
        return sums.used_by(self.terminating.values(), projects)

    def describe(self, ask: Ask) -> None:
        """What is no part of the charge is as the workload asks for it: a decision that was heard,
        as at a hub's start, does not say whether all of it leaves at once, nor how old it is."""
        before = self._commitments.get(ask.uid)
        if before is None or _said(before) == (ask.created_s, ask.in_one, ask.run_s):
            return
        now = replace(before, created_s=ask.created_s, whole=ask.in_one, run_s=ask.run_s)
        self._say(before, now)

    def _say(self, before: Commitment, now: Commitment) -> None:
        """The same charge with other words."""
        self._commitments[now.uid] = now
        self._sums.say(before, now)

    def progressed(self, uid: str, done: Ranges) -> bool:
        """Records all shards of a workload that are done; () also for a workload that is gone.
        Returns whether it holds less than before."""
        if done == self._done.get(uid, ()):
            return False
        if done:
            self._done[uid] = done
        else:
            del self._done[uid]
        before = self._commitments.get(uid)
        if before is None:
            return False
        self.record(before)
        return self._commitments[uid].copies < before.copies

    def assume(self, commitment: Commitment) -> Commitment:
        """Records a decision that was just made, with its changed shares in flight. Returns the
        commitment as counted."""
        before = self._commitments.get(commitment.uid)
        seq_before = (
            {holding.cluster: holding.seq for holding in before.holdings}
            if before is not None
            else {}
        )
        self.record(commitment)
        for holding in commitment.holdings:
            if seq_before.get(holding.cluster) != holding.seq:
                self.in_flight(holding.cluster, commitment.uid, holding.seq)
        return self._commitments[commitment.uid]

    def counted(self, commitment: Commitment) -> Commitment:
        """The commitment without the shards recorded as done: they hold nothing."""
        return commitment.without(self._done.get(commitment.uid, ()))

    def forget(self, uid: str) -> None:
        """The workload is gone from every member. Unknown uids are allowed: a release counts
        once.
        """
        commitment = self._commitments.pop(uid, None)
        self.recount(uid)
        said = trails.steps(commitment)
        if commitment is not None:
            self._sums.count(commitment, -1)
            self.version += 1
        left = [name for name, leaving in self._leaving.items() if uid in leaving]
        for cluster in dict.fromkeys((*said, *left)):  # nothing is charged for it anywhere else
            trail = self._trails.get(cluster, {}).pop(uid, None)
            if trail is None:
                trail = (said[cluster],) if cluster in said else ()
            if trail:
                self.version += 1
                self._gone(cluster, uid, trail)
                self._touch(cluster)
                self._unlist(cluster, uid, trail)

    def release(self, cluster: str, uid: str) -> None:
        """The workload's slice is confirmed gone from this cluster: nothing is charged for it there
        any more, but for what `departs` has kept."""
        self.version += 1
        self._release(cluster, uid)

    def _release(self, cluster: str, uid: str) -> None:
        trail = self._trail(cluster, uid)
        self._gone(cluster, uid, trail)
        self._keep(cluster, uid, (), self._step_of(cluster, uid))
        if trail:
            self._touch(cluster)
            self._unlist(cluster, uid, trail)

    def _gone(self, cluster: str, uid: str, trail: Trail) -> None:
        """Nothing of the workload is on its way into the cluster, or told to leave it."""
        self._departures.let_go(cluster, uid, trail)
        if self._leaving:
            self._stays(cluster, uid)
        self._heard_of(cluster, uid)

    def departs(self, cluster: str, uid: str, includes_seq: int) -> None:
        """The workload's slice is gone, and the cluster's last report, up to this seq, is of before
        that was seen there: what it does not include of it stays charged when it is released, until
        a report includes its end (`departed`)."""
        missed = self._in_flight.missed(cluster).get(uid, includes_seq + 1)
        self._departures.depart(cluster, uid, min(includes_seq, missed - 1))

    def departed(self, cluster: str, uids: Iterable[str]) -> bool:
        """The cluster's last report counts what is left of these. Returns whether any was charged
        for it."""
        if not self._departures.counted(cluster, uids):
            return False
        self.version += 1
        self._touch(cluster)
        return True

    def in_flight(self, cluster: str, uid: str, seq: int) -> None:
        """The slice of this decision is not in the cluster yet: no summary so far includes it."""
        trail = self._trail(cluster, uid)
        if trail and trail[-1][0] == seq:
            self.version += 1
            self._touch(cluster)
            self._in_flight.send(cluster, uid, seq)

    def confirm(self, cluster: str, uid: str, seq: int) -> None:
        """The cluster's member has seen the slice with this seq: later summaries include it."""
        if self._in_flight.confirm(cluster, uid, seq):
            self.version += 1

    def is_in_flight(self, cluster: str, uid: str, seq: int) -> bool:
        """Whether this slice, or an earlier one of the workload, is not confirmed there yet."""
        return self._in_flight.holds(cluster, uid, seq)

    def reported(self, cluster: str, includes_seq: int) -> None:
        """Applies a new summary that includes decisions up to `includes_seq`, but for those in
        flight: slices may overtake each other. They stay charged until the next summary."""
        self.version += 1
        if self._in_flight.report(cluster, includes_seq):
            self._touch(cluster)

    def ends(self, cluster: str) -> Iterator[Commitment]:
        """What holds something in the cluster and is known to end, by uid."""
        return self._sums.ends(cluster)

    def usage(self, project: str, tier: Tier) -> Resources:
        """What the project's workloads of one tier hold, over all clusters."""
        return self._sums.usage(project, tier)

    def of_tier(self, tier: Tier) -> Collection[Commitment]:
        """Those of one tier that hold any copies, in any order."""
        if tier is Tier.PREEMPTIBLE:
            return self._sums.lent()
        return [held for held in self if held.tier is tier and held.copies]

    def preemptible(self, cluster: str) -> Resources:
        """What work of tier Preemptible holds in a cluster."""
        return self._sums.preemptible(cluster)

    def usage_by_project(self) -> dict[str, Resources]:
        """Use by project over all tiers: the input of fair ordering."""
        return self._sums.usage_by_project()

    def placed(self, project: str) -> int:
        """How many of the project's workloads hold anything."""
        return self._sums.placed(project)

    def tree(self, quotas: tuple[QuotaAccount, ...]) -> Tree:
        """The accounts as a tree. The last one is kept."""
        if self._tree is None or self._tree[0] != quotas:
            self._tree = (quotas, Tree(quotas))
        return self._tree[1]

    def open(self, snapshot: FleetSnapshot) -> Ledger:
        """A ledger for one cycle, above the commitments as they are now."""
        views, memo = self._judged
        clusters = snapshot.clusters
        if not isinstance(clusters, Views):  # which never change
            clusters = dict(clusters)
        self._read = (snapshot, clusters)
        others = self._differing(views, clusters)
        if not judged_alike(views, clusters, others) or len(memo) * len(views) > _MEMO:
            memo = {}
        self._judged = (clusters, memo)
        return Ledger(self, snapshot, memo)

    def _differing(
        self, before: Mapping[str, ClusterView], now: Mapping[str, ClusterView]
    ) -> Names:
        """`others_of`, remembered: a cycle asks once for what filters judge, and once for room."""
        former, latter, names = self._compared
        if former is not before or latter is not now:
            names = others_of(before, now)
            self._compared = (before, now, names)
        return names

    def base(self, cluster: str, capacity: Capacity) -> Base:
        """The room of a cluster by this summary, computed once per summary."""
        cached = self._bases.get(cluster)
        if cached is None or cached.capacity is not capacity:
            cached = self._bases[cluster] = Base(capacity, Nodes.of(capacity.rows))
        return cached

    def world(self, snapshot: FleetSnapshot, reader: object) -> World:
        """The room of all clusters of the snapshot, by name, as long as `reader` lives. The last
        one is kept: only clusters with a new summary or other charges are opened again. Not to be
        charged (`World.copy`).
        """
        if self._readers:
            self._readers = [ref for ref in self._readers if ref() is not None]
        world = self._refreshed(snapshot)
        self._readers.append(weakref.ref(reader))
        return world

    def _refreshed(self, snapshot: FleetSnapshot) -> World:
        last, clusters = self._read
        clusters = clusters if last is snapshot else dict(snapshot.clusters)
        touched, self._touched = self._touched, set()
        others = None if self._world is None else self._differing(self._world[1], clusters)
        if self._world is not None and others is not None:
            world, before = self._world
            changed = {name for name in others if not same_report(before[name], clusters[name])}
            changed |= touched.intersection(clusters)
            if changed and self._readers:
                world = world.copy()  # ledgers above the former snapshot go on reading it
                self._readers = []
            for name in sorted(changed):
                if not world.put(name, self._opened(clusters[name])):
                    break
            else:
                self._world = (world, clusters)
                return world
        world = World({name: self._opened(clusters[name]) for name in sorted(clusters)})
        self._world, self._readers = (world, clusters), []
        return world

    def _opened(self, view: ClusterView) -> Opened | None:
        capacity = view.capacity
        if capacity is None or view.stale:
            return None
        uncovered = self.uncovered(view.name, capacity.includes_seq)
        return Opened.of(self.base(view.name, capacity), view.usable_permille, uncovered)

    def uncovered(self, cluster: str, includes_seq: int) -> list[tuple[PodShape, int]]:
        """(shape, copies) that a summary up to `includes_seq` does not include, in decision order,
        which is about the order of binding.

        Per workload: the most it had since then, minus what the summary saw of it. Growth charges
        the difference; a shrink is credited only by a summary.

            decided 4 (seq 5), 10 (seq 7), 2 (seq 9): a summary up to 5 leaves 10 - 4 = 6 charged,
            one up to 7 leaves 0
        """
        if self._is_covered(cluster, includes_seq):
            return []
        self._tidy(cluster, includes_seq)
        recent, missed = self._recent_of(cluster), self._in_flight.missed(cluster)
        start = bisect.bisect_right(recent, (includes_seq, _LAST))
        charges = self._departures.copies(cluster)
        for uid in dict.fromkeys((*missed, *(uid for _, uid in recent[start:]))):
            seen = min(includes_seq, missed.get(uid, includes_seq + 1) - 1)
            for shape, copies in trails.beyond(self._trail(cluster, uid), seen).items():
                charges[shape] = charges.get(shape, 0) + copies
        return list(charges.items())

    def _is_covered(self, cluster: str, includes_seq: int) -> bool:
        """Whether a summary plainly includes everything, and nothing is left to tidy."""
        if (
            self._leaving.get(cluster)
            or self._in_flight.missed(cluster)
            or self._departures.keeps(cluster)
            or cluster in self._unsorted
        ):
            return False
        recent = self._recent.get(cluster)
        return not recent or recent[-1][0] <= includes_seq

    def as_now(self, uid: str, counted: Mapping[str, int], *, ends: bool = False) -> "Commitments":
        """A copy for deciding about this one workload elsewhere, even in another thread: what it
        holds, the use of all projects, and what the summaries up to the given seq (`counted`, by
        cluster) do not include. With `ends` also what is known to end. Later changes are not in it.
        """
        made = Commitments()
        made._commitments = {uid: own} if (own := self._commitments.get(uid)) is not None else {}
        made._done = {uid: done} if (done := self._done.get(uid)) else {}
        made.terminating = dict(self.terminating)
        made._sums, made._bases = self._sums.amounts(ends=ends), dict(self._bases)
        made._in_flight = self._in_flight.as_counted(counted)
        made._departures = self._departures.copy()
        for cluster, includes_seq in counted.items():
            self._tidy(cluster, includes_seq)
            recent = self._recent_of(cluster)
            missed = self._in_flight.missed(cluster)
            made._recent[cluster] = recent[bisect.bisect_right(recent, (includes_seq, _LAST)) :]
            made._trails[cluster] = {
                place: self._trail(cluster, place)
                for place in (*missed, *(place for _, place in made._recent[cluster]))
            }
        for cluster in trails.steps(own):  # summaries include the rest of what it holds
            made._trails.setdefault(cluster, {}).setdefault(uid, ())
        return made

    def copy(self) -> "Commitments":
        """A copy for trials: what is decided on it changes nothing here."""
        made = Commitments()
        made._commitments, made._done = dict(self._commitments), dict(self._done)
        made.terminating = dict(self.terminating)
        made._sums, made._bases = self._sums.copy(), dict(self._bases)
        made._trails = {cluster: dict(kept) for cluster, kept in self._trails.items()}
        made._recent = {cluster: list(places) for cluster, places in self._recent.items()}
        made._unsorted = set(self._unsorted)
        made._leaving = {cluster: set(uids) for cluster, uids in self._leaving.items()}
        made._in_flight, made._departures = self._in_flight.copy(), self._departures.copy()
        return made

    def audit(self) -> Mapping[tuple[str, Tier], Resources]:
        """Usage summed afresh from all commitments; must equal `usage` at any time."""
        totals: dict[tuple[str, Tier], Resources] = {}
        for commitment in self._commitments.values():
            for project, tier, amounts in commitment.charges:
                totals[project, tier] = totals.get((project, tier), ZERO) + amounts
        for left in itertools.chain.from_iterable(self.terminating.values()):
            key = left.project, left.tier
            totals[key] = totals.get(key, ZERO) + left.usage
        return totals

    def _touch(self, cluster: str) -> None:
        """What is charged in the cluster may have changed."""
        self._touched.add(cluster)

    def _heard_of(self, cluster: str, uid: str, *, above: int = -1) -> None:
        """Nothing of the workload above this seq is in flight to this cluster any more."""
        if self._in_flight and self._in_flight.drop(cluster, uid, above=above):
            self._touch(cluster)

    def _stays(self, cluster: str, uid: str) -> None:
        """The workload is not leaving the cluster, or has left."""
        leaving = self._leaving.get(cluster)
        if leaving is not None:
            leaving.discard(uid)
            if not leaving:
                del self._leaving[cluster]

    def _trail(self, cluster: str, uid: str) -> Trail:
        """The steps of a workload in a cluster; none where nothing of it is charged."""
        trail = self._trails.get(cluster, {}).get(uid)
        if trail is not None:
            return trail
        step = self._step_of(cluster, uid)
        return () if step is None else (step,)

    def _step_of(self, cluster: str, uid: str) -> Step | None:
        """The step that the commitment itself says."""
        commitment = self._commitments.get(uid)
        if commitment is None:
            return None
        held = (holding for holding in commitment.holdings if holding.cluster == cluster)
        return next((trails.step(commitment, holding) for holding in held), None)

    def _keep(self, cluster: str, uid: str, trail: Trail, said: Step | None) -> None:
        """Sets a trail; it is not kept where it is what the commitment says."""
        kept = self._trails.setdefault(cluster, {})
        if trail == (() if said is None else (said,)):
            kept.pop(uid, None)
        else:
            kept[uid] = trail

    def _take_steps(self, uid: str, was: Mapping[str, Step], now: Mapping[str, Step]) -> None:
        """The commitment of a workload says `now`; before, it said `was`."""
        place: _Place = (-1, uid)
        for cluster, step in now.items():
            self._touched.add(cluster)
            if self._leaving:
                self._stays(cluster, uid)
            kept = self._trails.get(cluster)
            trail = kept.get(uid) if kept else None
            if trail is not None or cluster in was:
                trail = (was[cluster],) if trail is None else trail
                new = trails.after(trail, step)
                self._keep(cluster, uid, new, step)
                if len(new) == len(trail):
                    continue
            if place[0] != step[0]:
                place = (step[0], uid)  # one for all clusters
            recent = self._recent.setdefault(cluster, [])
            # only when decisions are read that were made before: in any order
            if recent and recent[-1] > place:
                self._unsorted.add(cluster)
            recent.append(place)

    def _leave(self, cluster: str, uid: str, was: Step, *, undone: bool) -> None:
        """The commitment says nothing of this cluster any more, and before, it said `was`."""
        trail = self._trails.get(cluster, {}).get(uid, (was,))
        if undone and trail:
            self._touch(cluster)
            self._unlist(cluster, uid, trail[-1:])
            trail = trail[:-1]
        self._keep(cluster, uid, trail, None)
        if trail:  # else it is confirmed gone already
            self._leaving.setdefault(cluster, set()).add(uid)

    def _recent_of(self, cluster: str) -> list[_Place]:
        """The steps of a cluster's workloads, rising in seq."""
        recent = self._recent.get(cluster, [])
        if cluster in self._unsorted:
            self._unsorted.discard(cluster)
            recent.sort()
        return recent

    def _tidy(self, cluster: str, includes_seq: int) -> None:
        """Drops steps that no later summary needs: those before the last included one, and all of a
        workload that has left. Until then what left stays charged, because its pods may still run.
        """
        for uid in sorted(self._leaving.get(cluster, ())):
            if self._trail(cluster, uid)[-1][0] <= includes_seq:
                self._release(cluster, uid)
        recent = self._recent_of(cluster)
        if not recent or recent[-1][0] <= includes_seq:
            return
        start = bisect.bisect_right(recent, (includes_seq, _LAST))
        missed = self._in_flight.missed(cluster)
        for uid in sorted({uid for _, uid in recent[start:]} - missed.keys()):
            trail = self._trail(cluster, uid)
            if first := trails.needless(trail, includes_seq):
                self._unlist(cluster, uid, trail[:first])
                self._keep(cluster, uid, trail[first:], self._step_of(cluster, uid))

    def _unlist(self, cluster: str, uid: str, steps: Trail) -> None:
        recent = self._recent_of(cluster)
        for seq, _, _ in steps:
            del recent[bisect.bisect_left(recent, (seq, uid))]
