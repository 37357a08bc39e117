"""What a fold is made from, and its intermediate figures: frozen values without a judgement.

`fold` fills them, `verdict` turns them into conditions and sentences; the hub's status aggregation makes `Wanted`,
`InForce` and `Refusal`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from federator.model.ask import Unit
from federator.model.decision import REFUSALS, Reason, Share
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the workload asks for, and what is durably known of its past."""

    generation: int
    unit: Unit
    count: int
    """Replicas, or shards. For a policy that duplicates: replicas times clusters, as the decision's `wanted`."""
    suspended: bool = False
    """The federation leaves it as it is: nothing is placed, moved or changed."""
    deleting: bool = False
    in_force: int = 0
    """The generation that members are to have, where the present one asks for more than there is; 0 for the present
    one."""
    paused: str | None = None
    """The federation is paused, with what is said of that; None while it is not."""
    max_unavailable: int = 0
    """Copies that may be missing of one that is Available."""
    previous_observed_generation: int = 0
    """What the host's status claims already; the claim never falls."""
    previous_completed: Ranges = ()
    """Shards that the host's status records as completed: its own copy is the durable truth."""
    previous_failed: Ranges = ()


@dataclass(frozen=True, slots=True)
class InForce:
    """The decision in force, as far as the fold needs it. `current` False: it was made for inputs that have since
    changed."""

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
    """Why the decision that stands on the host is not the hub's, as a part of a sentence."""
    held_back: bool = False
    """The present generation asks for more than quota or room have: `reason` says so, and the one before stays."""
    project_refused: str = ""
    """Why it may take nothing more for its project, as a sentence; what it has stays."""
    surplus: int = 0
    """Copies beyond the count that stay where strategy Duplicate placed them."""

    @property
    def unreadable(self) -> bool:
        """The workload cannot be read as it is written, or may not run so: it was not placed, and what runs of it stays
        as it is."""
        return self.reason is Reason.MISCONFIGURED or self.refused

    @property
    def refused(self) -> bool:
        """It may not run as it is written."""
        return self.reason in REFUSALS

    @property
    def short(self) -> bool:
        """Less is placed than is wanted, and `reason` says why."""
        return self.shortfall > 0 or self.unreadable

    @property
    def misplaced(self) -> bool:
        """Some of what runs has no place under its policy, and none elsewhere: `reason` says why."""
        return self.held > 0 and self.reason is not Reason.CHOSEN


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cluster would not take what we wrote. `permanent`: trying again cannot help until somebody changes
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
    """Its slice carries this generation and this share."""
    caught_up: bool
    """It has also observed them."""
    waits_its_turn: bool = False
    """It has the template before the present one, because the roll-out has not reached it: told so, not behind."""
    ready: int = 0
    updated: int = 0
    """Copies of the present generation's template."""
    actual: int = 0
    active: int = 0
    completed: int = 0
    """Of the shards in its share, how many are completed."""
    failed: int = 0
    reason: str = ""
    message: str = ""
    unheard: str = ""
    """As of its observation: why it is not known although the cluster answers."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The figures of a fold before they are judged."""

    ready_lo: int
    ready_hi: int
    current_lo: int
    """As `ready_lo`, of copies of the present template only. Shards keep the one that they began with, so for them it
    is the same."""
    current_hi: int
    old: int
    """Copies of an earlier template, in clusters that are heard."""
    unknown: int
    need: int
    """Ready (or busy, or finished) copies at which the workload is as it should be everywhere."""
    completed: Ranges
    failed: Ranges
    finished: bool
    exact: bool
    """Every cluster has exactly its share: none missing, none left over."""
    unhealthy: tuple[SliceObservation, ...] = ()
    """Known clusters that gave a reason, in name order."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything `verdict` judges."""

    wanted: Wanted
    placing: InForce | None
    tally: Tally
    rows: tuple[Row, ...]
    refusals: tuple[Refusal, ...]
    in_flight: Mapping[str, str]
    observed_generation: int
    placed: int

    @property
    def left_alone(self) -> bool:
        """Nothing is changed in any cluster, whatever they hold."""
        return self.wanted.suspended or (self.placing is not None and self.placing.unreadable)

    @property
    def shared_rows(self) -> tuple[Row, ...]:
        """Clusters that have a share."""
        return tuple(row for row in self.rows if row.share > 0)

    @property
    def leftovers(self) -> tuple[Row, ...]:
        """Clusters that still hold a slice without having a share, and are to be emptied."""
        if self.left_alone:
            return ()
        return tuple(row for row in self.rows if row.share == 0 and row.exists)
