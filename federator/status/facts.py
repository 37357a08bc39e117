"""Inputs and intermediate figures of a fold: frozen values without a verdict.

`fold` fills them, `verdict` turns them into conditions and sentences. The hub's status aggregation
builds `Desired`, `DecisionInput` and `Refusal`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from federator.model.ask import Unit
from federator.model.decision import REFUSALS, Reason, Share
from federator.model.ending import NO_RULES, Ending, EndRules
from federator.model.observation import (
    BlockFigures,
    Gang,
    NodeFigures,
    RepeatFigures,
    SliceObservation,
)
from federator.model.shards import Ranges


@dataclass(frozen=True, slots=True)
class Desired:
    """What the workload asks for, and what is durably recorded of its past."""

    generation: int
    unit: Unit
    count: int
    """Replicas, or shards. With strategy Duplicate: replicas times clusters, as the decision's
    `wanted`."""
    suspended: bool = False
    """The federation leaves it unchanged: nothing is placed, moved or changed."""
    halted: bool = False
    """Its owner has halted its roll-out (`spec.paused`)."""
    deleting: bool = False
    in_force: int = 0
    """The generation that members are to have when the present one asks for more than allowed; 0
    for the present one."""
    paused: str | None = None
    """Text about the pause of the federation; None while it is not paused."""
    every_node: bool = False
    """It is a daemon: figures that people read are nodes, not the clusters that have it."""
    max_unavailable: int = 0
    """Copies that may be missing while the workload is still Available."""
    scaled: bool = False
    """Autoscalers choose how many of the placed copies run: none are missing where fewer were
    placed."""
    previous_observed_generation: int = 0
    """The observed generation in the host's status; it never falls."""
    previous_completed: Ranges = ()
    """Shards that the host's status records as completed; this record is authoritative."""
    previous_failed: Ranges = ()
    end_rules: EndRules = NO_RULES
    previous_ending: Ending | None = None
    """How it ended by the host's status; this record is authoritative."""
    start_time: str = ""
    """When its first shard began, by the host's status; "" where that has none."""
    now: str = ""
    """The present time, in the spelling of the API."""
    overdue: bool = False
    """Its deadline is over."""
    pin: "Pinned | None" = None
    """Its pin of a version of its RuntimeProfile; None without one."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pin of a version, as its condition reports it."""

    holds: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """The decision in force, as far as the fold needs it. `current` False: its inputs have changed
    since."""

    shares: tuple[Share, ...] = ()
    shortfall: int = 0
    reason: Reason = Reason.CHOSEN
    message: str = ""
    current: bool = True
    unlimited_quota: bool = False
    violations: tuple[str, ...] = ()
    project: str = ""
    held: int = 0
    """Copies that stay where they run although the policy gives them no place there."""

    to_move: int = 0
    """Copies that wait for the move budget, or for a rebalance."""
    decision_refused: str = ""
    """Why the decision on the host is not the hub's own, as a part of a sentence."""
    held_back: bool = False
    """The present generation asks for more than quota or room allow; the one before stays in force,
    and `reason` says why."""
    profile_held_back: bool = False
    """The present version of its RuntimeProfile asks for more than quota or room allow; pods keep a
    former version, and `reason` and `message` say why."""
    project_refused: str = ""
    """Why it may take nothing more for its project, as a sentence; what it has stays."""
    surplus: int = 0
    """Copies beyond the count that stay where strategy Duplicate placed them."""
    without_room: tuple[str, ...] = ()
    """Clusters that copies leave before their replacements are ready, up to maxUnavailable, because
    no cluster has room for the replacements."""
    scaling: str = ""
    """What copies wait for that have a place on nodes to be added, as a sentence; "" for none."""
    notice: str = ""
    """Which copies will be preempted, for which workload and when, as a sentence; "" for none."""

    @property
    def unreadable(self) -> bool:
        """The workload is invalid or may not run as written: it was not placed, and what runs of it
        stays unchanged."""
        return self.reason is Reason.MISCONFIGURED or self.refused

    @property
    def refused(self) -> bool:
        """It may not run as written."""
        return self.reason in REFUSALS

    @property
    def short(self) -> bool:
        """Less is placed than wanted; `reason` says why."""
        return self.shortfall > 0 or self.unreadable

    @property
    def slower(self) -> bool:
        """Every shard has a cluster, and fewer run at once because some left for another
        workload."""
        return self.reason is Reason.PREEMPTED and not self.shortfall

    @property
    def misplaced(self) -> bool:
        """Some running copies have no place under the policy, and none elsewhere; `reason` says
        why."""
        return self.held > 0 and self.reason is not Reason.CHOSEN


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cluster refused a write. `permanent`: a retry cannot succeed until a person changes
    something."""

    cluster: str
    reason: str
    message: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One cluster in the folded status."""

    cluster: str
    share: int
    slots: int
    known: bool
    exists: bool
    applied: bool
    """Its slice has this generation and this share."""
    caught_up: bool
    """It has also observed them."""
    waits_its_turn: bool = False
    """It has the template before the present one on purpose, because the rollout has not reached
    it."""
    ready: int = 0
    updated: int = 0
    """Copies of the present generation's template."""
    actual: int = 0
    active: int = 0
    idle: int = 0
    """As in its observation: among ready, updated and actual."""
    completed: int = 0
    """Completed shards in its share."""
    failed: int = 0
    reason: str = ""
    message: str = ""
    unheard: str = ""
    """As in its observation: why it is unknown although the cluster answers."""
    nodes: NodeFigures | None = None
    """For daemons."""
    gang: Gang | None = None
    """For gangs."""
    ranges: Ranges = ()
    """Of its share: shards or ordinals."""
    blocks: tuple[BlockFigures, ...] = ()
    """For copies with numbers."""
    repeats: RepeatFigures | None = None
    """For what clusters run again and again by themselves."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The figures of a fold, before the verdict."""

    ready_lo: int
    ready_hi: int
    current_lo: int
    """As `ready_lo`, for copies of the present template only. The same for shards, which keep the
    template they began with."""
    current_hi: int
    old: int
    """Copies of an earlier template, in clusters that report."""
    unknown: int
    idle: int
    """Copies that autoscalers do not ask for now, in clusters that report."""
    need: int
    """Ready (or busy, or finished) copies at which the workload is complete."""
    completed: Ranges
    failed: Ranges
    finished: bool
    """It has ended: all shards are done, or what was asked for is decided without the others."""
    exact: bool
    """Every cluster has exactly its share: none missing, none left over."""
    unhealthy: tuple[SliceObservation, ...] = ()
    """Reporting clusters that gave a reason, by name."""
    ending: Ending | None = None
    """How it ended, where it has."""
    stopped: int = 0
    """Shards that were neither completed nor failed when it ended."""

    @property
    def has_failed(self) -> bool:
        """Whether it has ended otherwise than asked for."""
        return self.ending is not None and not self.ending.complete


@dataclass(frozen=True, slots=True)
class Facts:
    """Input of `verdict`."""

    wanted: Desired
    placing: DecisionInput | None
    tally: Tally
    rows: tuple[Row, ...]
    refusals: tuple[Refusal, ...]
    in_flight: Mapping[str, str]
    observed_generation: int
    placed: int

    @property
    def left_alone(self) -> bool:
        """Nothing is changed in any cluster, whatever it has."""
        return self.wanted.suspended or (self.placing is not None and self.placing.unreadable)

    @property
    def shared_rows(self) -> tuple[Row, ...]:
        """Clusters that have a share."""
        return tuple(row for row in self.rows if row.share > 0)

    @property
    def leftovers(self) -> tuple[Row, ...]:
        """Clusters that still have a slice but no share, and are to be emptied."""
        if self.left_alone:
            return ()
        return tuple(row for row in self.rows if row.share == 0 and row.exists)
