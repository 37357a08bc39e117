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

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, Former, PodShape, Tier
from federator.model.fleet import ClusterView, Commitment, FleetSnapshot, Views
from federator.model.resources import ZERO, Resources
from federator.model.shards import Ranges
from federator.placement.quota.tree import Tree
from federator.placement.room import limits, sums, trails
from federator.placement.room.charged import Charged
from federator.placement.room.kept import KeptWorld
from federator.placement.room.ledger import Ledger
from federator.placement.room.sums import Sums
from federator.placement.room.world import Names, World, judged_alike, others_of

_MEMO = 1 << 16
"""Clusters x policies that are remembered from one ledger to the next, about 10 MB."""
said = operator.attrgetter("created_s", "whole", "run_s")
"""What a commitment says that is no part of the charge."""


class CommitmentRows(Protocol):
    """The commitments by the uid of the workload: a dict, or a table that packs them and returns
    equal ones."""

    def get(self, uid: str, /) -> Commitment | None: ...
    def pop(self, uid: str, default: None, /) -> Commitment | None: ...
    def values(self) -> Collection[Commitment]: ...
    def copy(self) -> "CommitmentRows": ...
    def __getitem__(self, uid: str, /) -> Commitment: ...
    def __setitem__(self, uid: str, commitment: Commitment, /) -> None: ...
    def __len__(self) -> int: ...


Beyond = Callable[[Commitment], tuple[Former, ...]]
"""What is charged, by members' last reports, for pods beyond such a commitment."""


class Commitments:
    """All commitments, indexed for what a batch reads."""

    def __init__(self, held: CommitmentRows | None = None) -> None:
        unpacked: dict[str, Commitment] = {}
        self._commitments: CommitmentRows = unpacked if held is None else held
        """By uid."""
        self._neighbours: dict[str, Commitment] = {}
        """Of a copy for one workload: what others of its namespace hold, for terms that speak of
        them. They are charged in sums."""
        self._done: dict[str, Ranges] = {}
        """uid -> shards recorded as done, whether or not the workload has a commitment."""
        self._sums = Sums()
        self._tree: tuple[tuple[QuotaAccount, ...], Tree] | None = None
        self._charged = Charged(self._commitments)
        self._kept = KeptWorld()
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
        self._namespaces: Mapping[str, str] = {}
        """uid -> namespace, in a copy that has not the commitment itself."""

    def __iter__(self) -> Iterator[Commitment]:
        return iter(self._commitments.values())

    def __len__(self) -> int:
        return len(self._commitments)

    def commitment(self, uid: str) -> Commitment | None:
        return self._commitments.get(uid)

    def neighbour(self, uid: str) -> Commitment | None:
        """What a workload holds, for terms of others that speak of it."""
        return self._commitments.get(uid) or self._neighbours.get(uid)

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
            self._charged.take_steps(commitment.uid, {}, trails.steps(commitment))
            self._recount(commitment.uid, commitment)
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
        self._recount(commitment.uid, commitment)
        was, now = trails.steps(before), trails.steps(commitment)
        self._charged.take_steps(commitment.uid, was, now)
        for cluster, step in was.items():
            if cluster not in now:
                self._charged.leave(cluster, commitment.uid, step, undone=undone)
                self._charged.heard_of(cluster, commitment.uid)
            else:  # a later decision was not taken after all
                self._charged.heard_of(cluster, commitment.uid, above=now[cluster][0])

    def recount(self, uid: str) -> bool:
        """Charges the pods of a workload beyond its commitment by members' last reports. Returns
        whether that changes anything."""
        return self._recount(uid, self._commitments.get(uid))

    def _recount(self, uid: str, commitment: Commitment | None) -> bool:
        """The same, with the commitment of this workload."""
        if self.reported_beyond is None and uid not in self.terminating:
            return False  # nobody reports pods: a simulated hub, or a copy
        before = self.terminating.get(uid, ())
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
        if before is None or said(before) == (ask.created_s, ask.in_one, ask.run_s):
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
        self.record(commitment)
        slices = {holding.cluster: holding.seq for holding in commitment.holdings}
        for holding in before.holdings if before is not None else ():
            # An unchanged slice has arrived before, and reports that include it stand.
            if slices.get(holding.cluster) == holding.seq:
                del slices[holding.cluster]
        self.set_out(commitment.uid, slices)
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
        if self._charged.forget(uid, said):
            self.version += 1

    def release(self, cluster: str, uid: str) -> None:
        """The workload's slice is confirmed gone from this cluster: nothing is charged for it there
        any more, but for what `departs` has kept."""
        self.version += 1
        self._charged.release(cluster, uid)

    def departs(self, cluster: str, uid: str, includes_seq: int) -> None:
        """The workload's slice is gone, and the cluster's last report, up to this seq, is of before
        that was seen there: what it does not include of it stays charged when it is released, until
        a report includes its end (`departed`)."""
        self._charged.departs(cluster, uid, includes_seq)

    def departed(self, cluster: str, uids: Iterable[str]) -> bool:
        """The cluster's last report counts what is left of these. Returns whether any was charged
        for it."""
        if not self._charged.departed(cluster, uids):
            return False
        self.version += 1
        return True

    def in_flight(self, cluster: str, uid: str, seq: int) -> None:
        """The slice of this decision is not in the cluster yet: no summary so far includes it."""
        self.set_out(uid, {cluster: seq})

    def set_out(self, uid: str, slices: Mapping[str, int]) -> None:
        """`in_flight` of several slices of a workload: cluster -> seq."""
        if self._charged.set_out(uid, slices):
            self.version += 1

    def confirm(self, cluster: str, uid: str, seq: int) -> None:
        """The cluster's member has seen the slice with this seq: later summaries include it."""
        if self._charged.confirm(cluster, uid, seq):
            self.version += 1

    def is_in_flight(self, cluster: str, uid: str, seq: int) -> bool:
        """Whether this slice, or an earlier one of the workload, is not confirmed there yet."""
        return self._charged.is_in_flight(cluster, uid, seq)

    def reported(self, cluster: str, includes_seq: int) -> None:
        """Applies a new summary that includes decisions up to `includes_seq`, but for those in
        flight: slices may overtake each other. They stay charged until the next summary."""
        self.version += 1
        self._charged.reported(cluster, includes_seq)

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

    def world(self, snapshot: FleetSnapshot, reader: object) -> World:
        """The room of all clusters of the snapshot, by name, as long as `reader` lives. The last
        one is kept: only what changed since is opened, or charged (`kept`). Not to be charged
        (`World.copy`).
        """
        last, clusters = self._read
        clusters = clusters if last is snapshot else dict(snapshot.clusters)
        others = self._differing(self._kept.views, clusters)
        return self._kept.read(clusters, others, self._charged, reader)

    def uncovered(self, cluster: str, includes_seq: int) -> list[tuple[PodShape, int]]:
        """(shape, copies) that a summary up to `includes_seq` does not include, one decision after
        the other."""
        charges = self._charged.beyond(cluster, includes_seq)
        return [(shape, copies) for _, _, shape, copies in charges]

    def uncovered_in(self, cluster: str, includes_seq: int) -> dict[str, limits.Charge]:
        """Namespace -> (requests, copies) of what a summary up to this seq does not include."""
        charges: dict[str, limits.Charge] = {}
        for (_, uid), _, shape, copies in self._charged.each(cluster, includes_seq):
            held = self._commitments.get(uid)
            namespace = self._namespaces.get(uid, "") if held is None else held.namespace
            requests, before = charges.get(namespace, limits.NOTHING)
            charges[namespace] = requests + shape.requests * copies, before + copies
        return charges

    def as_now(
        self,
        uid: str,
        counted: Mapping[str, int],
        *,
        ends: bool = False,
        neighbours: Iterable[str] = (),
    ) -> "Commitments":
        """A copy for deciding about this one workload elsewhere, even in another thread: what it
        holds, the use of all projects, and what the summaries up to the given seq (`counted`, by
        cluster) do not include. With `ends` also what is known to end. `neighbours`: uids of
        workloads of which terms of it may speak. Later changes are not in it.
        """
        own = self._commitments.get(uid)
        made = Commitments({uid: own} if own is not None else {})
        made._neighbours = {
            other: held for other in neighbours if (held := self._commitments.get(other))
        }
        made._done = {uid: done} if (done := self._done.get(uid)) else {}
        made.terminating = dict(self.terminating)
        made._sums, made._kept = self._sums.amounts(ends=ends), self._kept.copy()
        made._charged = self._charged.as_counted(made._commitments, counted, uid)
        others = ((each, self._commitments.get(each)) for each in made._charged.uids())
        made._namespaces = {each: held.namespace for each, held in others if held is not None}
        return made

    def copy(self) -> "Commitments":
        """A copy for trials: what is decided on it changes nothing here."""
        made = Commitments(self._commitments.copy())
        made._done = dict(self._done)
        made.terminating = dict(self.terminating)
        made._sums, made._kept = self._sums.copy(), self._kept.copy()
        made._charged = self._charged.copy(made._commitments)
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
