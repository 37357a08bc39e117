"""One due workload, with everything that a decision on it reads besides the snapshot and the
commitments.

The caller builds the entry: the hub from its cache, `place` and `explain` from objects. A cycle
looks nothing up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from federator.model.ask import Admitted, Ask, Support
from federator.model.decision import Preempted, Share
from federator.model.fleet import FleetSnapshot, Holding, copies_of, remaining
from federator.model.names import WorkloadKey
from federator.model.shards import Ranges
from federator.placement.policy.permitted import NotPermitted
from federator.placement.selection.leaving import Leave


def no_mark(_: str) -> int:
    """No cluster's numbers are higher than the host's."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the next decision needs of the one in force."""

    seq: int
    inputs_hash: str
    shares: tuple[Share, ...] = ()
    wanted: int = 0
    charged: Admitted | None = None
    """What it charges; None when it does not say."""
    tolerated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    per_cluster: int = 0
    surplus: int = 0
    to_move: int = 0
    blocks: Mapping[str, Ranges] = field(default_factory=dict)
    """As in the decision."""
    rebalance: bool = False
    """A rebalance was asked for and is not done yet."""
    preempted: Preempted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a workload has, and how it got it. The defaults describe a workload that has nothing
    yet."""

    held: tuple[Holding, ...] = ()
    recorded: Recorded | None = None
    admitted: Admitted | None = None
    """What was admitted last; None when unknown."""
    support: Support | None = None
    """Its RuntimeProfile; None if it has none."""
    replaced: bool = True
    """Its members report that no copy is left of what was in force before."""
    capped: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> copies that its scheduler could bind lately, whatever room it reports."""
    done: Ranges = ()
    """Shards that need not run any more, recorded on the host or only reported by members."""
    ended: bool = False
    """It has ended before all its shards were done: no cluster may run one any more."""
    mark: Callable[[str], int] = no_mark
    """Cluster -> its highest seq: a changed share there gets one above."""
    overtaken: bool = False
    """Members hold slices of later decisions than the host has: the host was restored from a
    backup."""
    refusing: frozenset[str] = frozenset()
    """Clusters that refuse their slice because they have seen a later seq: only a new seq helps."""
    marks: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> the highest seq of the workload's slices that are or were there."""
    may_run: Mapping[str, Ranges] = field(default_factory=dict)
    """Of a workload with shards that may not run twice: cluster -> shards that it may still run in
    addition to those of its share."""
    empty: frozenset[str] = frozenset()
    """Of the clusters where a person gives up the ordinals: those in which nothing is left of
    it."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """Copies that will leave for another workload, unless that gets its quota otherwise."""

    by: WorkloadKey
    project: str
    """Of that workload."""
    why: str
    """By which right."""
    copies: int
    due_s: float
    """When, in epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`ask` is under the policies in force. `leave` limits how many running copies an edit may move
    now; without it all may."""

    ask: Ask
    standing: Standing = Standing()
    leave: Leave | None = None
    refused: NotPermitted | None = None
    """Why it may not run as written; None when it may."""
    anew: bool = False
    """What it holds gets no preference this once, as for a workload that is new: copies go back to
    a cluster that they left because it was lost."""
    noticed: Noticed | None = None
    """Which of its copies will leave, as it was told."""
    displaced: int = 0
    """Copies that it has lost with their cluster and not got back."""
    may_leave: int | None = None
    """So many copies may leave clusters that are being emptied now; None for all."""
    claims_until_s: float = 0.0
    """Until when it has a claim to what others left for it, in epoch seconds."""
    native: bool = False
    """The host would run it itself, so members must not run it too."""

    @property
    def key(self) -> WorkloadKey:
        return self.ask.key

    def lost(self, snapshot: FleetSnapshot) -> int:
        """Copies that have lost their cluster, or have to leave one now that is being emptied."""
        views = snapshot.clusters
        leaving = sum(
            copies_of(held)
            for held in self.standing.held
            if (view := views.get(held.cluster)) is not None and view.empties
        )
        return self.displaced + (
            leaving if self.may_leave is None else min(leaving, self.may_leave)
        )

    @property
    def held(self) -> int:
        """Copies that it holds; shards that are done are none of them."""
        done = self.standing.done
        return sum(copies_of(remaining(holding, done)) for holding in self.standing.held)

    @property
    def had(self) -> int:
        """Copies that it holds, with those that it has lost."""
        return self.displaced + self.held

    @property
    def charged(self) -> Ask:
        """The ask as it is charged: for a refused workload by what runs, not by what it says
        now."""
        recorded = self.standing.recorded
        return (
            self.ask
            if self.refused is None or recorded is None
            else as_charged(self.ask, recorded.charged)
        )


def as_charged(ask: Ask, before: Admitted | None) -> Ask:
    """The ask with what the decision charges for running copies; unchanged where the decision does
    not say."""
    if before is None:
        return ask
    return replace(
        ask,
        generation=before.generation,
        shape=before.shape,
        project=before.project,
        tier=before.tier,
        priority=ask.priority if before.priority is None else before.priority,
        slots=ask.slots if before.count is None else before.count,
    )
