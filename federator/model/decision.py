"""The recorded decision: where a workload goes, why, and what is missing.

It is written to the host before any member is written, compared with what members hold, and shown
to people.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypedDict, overload

import msgspec
from msgspec import structs

from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.model.quickly import quickly
from federator.model.scaleup import Addition
from federator.model.shards import Ranges


class Reason(StrEnum):
    """Why a cluster was not chosen, or why copies are missing. The order is the precedence when
    several apply."""

    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    HOST_WOULD_RUN_IT = "HostWouldRunIt"
    POD_SECURITY_VIOLATION = "PodSecurityViolation"
    IDENTITY_NOT_ALLOWED = "IdentityNotAllowed"
    NOT_SELECTED = "NotSelected"
    NO_MATCHING_CLUSTER = "NoMatchingCluster"
    NO_CLUSTER_ADMITTED = "NoClusterAdmitted"
    API_NOT_AVAILABLE = "APINotAvailable"
    TAINTED = "Tainted"
    CORDONED = "Cordoned"
    NOT_ALLOWED = "NotAllowed"
    WORKLOAD_AFFINITY = "WorkloadAffinity"
    NAMESPACE_LIMITS = "NamespaceLimits"
    CLUSTER_UNHEALTHY = "ClusterUnhealthy"
    CLUSTER_UNTRUSTWORTHY = "ClusterUntrustworthy"
    CLUSTER_STALE = "ClusterStale"
    PENDING_EVALUATION = "PendingEvaluation"
    PRIORITY_EXCEEDS_MAX = "PriorityExceedsMax"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    QUOTA_EXCEEDED = "QuotaExceeded"
    PREEMPTED = "Preempted"
    MAY_STILL_RUN = "MayStillRun"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    UNSCHEDULABLE = "Unschedulable"
    CONFLICT = "Conflict"
    SPREAD_UNSATISFIABLE = "SpreadUnsatisfiable"
    INVARIANT_VIOLATION = "InvariantViolation"
    GANG_INCOMPLETE = "GangIncomplete"
    BELOW_MINIMUM = "BelowMinimum"
    AT_MAXIMUM = "AtMaximum"
    NOT_NEEDED = "NotNeeded"
    CHOSEN = "Chosen"


CAPS = frozenset({Reason.UNSCHEDULABLE, Reason.CONFLICT})
"""A cluster cannot run what it was given: the copies there go elsewhere."""
REFUSALS = frozenset({Reason.POD_SECURITY_VIOLATION, Reason.IDENTITY_NOT_ALLOWED})
"""The workload may not run as written: running copies stay unchanged, and nothing new is written in
members."""


class Share(msgspec.Struct, frozen=True, gc=False):
    """What one cluster gets: `count` replicas, or the shards in `ranges` with `slots` of them at
    once.

    `seq` is that of the decision which last changed this share; an unchanged share keeps its seq.
    Copies with numbers have their ordinals in `ranges`, and as many slots as copies.
    """

    cluster: str
    count: int
    slots: int
    seq: int = 0
    ranges: Ranges = ()
    nodes: int | None = None
    """For daemons, of which a cluster has one or none: nodes that get a pod of it, as charged."""
    pods: tuple[int, ...] = ()
    """For a gang that got fewer pods than it asks for: how many of each component, in their order.
    """


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one cluster was or was not chosen. `message` is a sentence with numbers and the field it
    comes from."""

    cluster: str
    reason: Reason
    message: str
    fit: int = 0
    """Copies that it could hold in all; held copies count as room."""
    got: int = 0
    score: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    """Named score terms, in thousandths; `score` is their sum."""

    @property
    def chosen(self) -> bool:
        return self.reason is Reason.CHOSEN


@dataclass(frozen=True, slots=True)
class Rejected:
    """Clusters that were not chosen for the same reason."""

    reason: Reason
    clusters: tuple[str, ...]
    """The first of them by name, as many as are shown."""
    count: int
    message: str
    """What is said of the first."""


class ChosenRow(TypedDict):
    """The verdict of a chosen cluster as it is recorded: every decision makes some, and an object
    of each would be made only to be written."""

    cluster: str
    got: int
    fit: int
    score: int
    message: str
    terms: dict[str, int]


def row_bytes(characters: int, terms: int) -> int:
    """More bytes than the verdict of a chosen cluster takes as JSON, if its name and its message
    have so many characters, all of them printable ASCII."""
    return 200 + 2 * characters + 100 * terms


def chosen_row(verdict: Verdict) -> ChosenRow:
    return {
        "cluster": verdict.cluster,
        "got": verdict.got,
        "fit": verdict.fit,
        "score": verdict.score,
        "message": verdict.message,
        "terms": dict(verdict.terms),
    }


@dataclass(frozen=True, slots=True)
class Grouped:
    """Verdicts as they are recorded: the chosen one by one, the others by reason."""

    chosen: list[ChosenRow]
    rejected: tuple[Rejected, ...]
    plain: int = 0
    """Not 0 if the maker of the list knows that all the chosen have terms and a message, and that
    each message is of printable ASCII and as short as it is recorded: then no verdict of a chosen
    cluster takes more bytes than these."""


NAMES_SHOWN = 3
"""Clusters that are named of those that were rejected for one reason."""


class Verdicts(Sequence[Verdict]):
    """The verdicts of all clusters by name, worded when they are read. A decision over a thousand
    clusters needs sentences only for the chosen and for one cluster of each rejected group; a query
    for what a workload waits for needs none."""

    __slots__ = ("_but", "_every", "_grouped", "_made", "_reasons", "_size")

    def __init__(
        self,
        size: int,
        every: Callable[[], tuple[Verdict, ...]],
        grouped: Callable[[], Grouped],
        reasons: Callable[[], Iterable[tuple[str, Reason]]] | None = None,
        but: Callable[[frozenset[Reason]], frozenset[str]] | None = None,
    ) -> None:
        """`reasons` and `but`: as the functions of this module; None where only the verdicts
        tell."""
        self._size, self._every, self._grouped, self._reasons = size, every, grouped, reasons
        self._but = but
        self._made: tuple[Verdict, ...] | None = None

    def grouped(self) -> Grouped:
        return self._grouped()

    def reasons(self) -> Iterable[tuple[str, Reason]]:
        if self._reasons is not None and self._made is None:
            return self._reasons()
        return [(verdict.cluster, verdict.reason) for verdict in self.every()]

    def but(self, closed: frozenset[Reason]) -> frozenset[str]:
        if self._but is not None:
            return self._but(closed)
        return frozenset(cluster for cluster, reason in self.reasons() if reason not in closed)

    def every(self) -> tuple[Verdict, ...]:
        if self._made is None:
            self._made = self._every()
        return self._made

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.every())

    @overload
    def __getitem__(self, at: int) -> Verdict: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Verdict, ...]: ...
    def __getitem__(self, at: int | slice) -> Verdict | tuple[Verdict, ...]:
        return self.every()[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Verdicts | tuple):
            return self.every() == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.every())

    def __repr__(self) -> str:
        return repr(self.every())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.every(),)


def reasons(verdicts: Sequence[Verdict]) -> Iterable[tuple[str, Reason]]:
    """Each cluster with the reason of its verdict, without its sentence."""
    if isinstance(verdicts, Verdicts):
        return verdicts.reasons()
    return [(verdict.cluster, verdict.reason) for verdict in verdicts]


def but(verdicts: Sequence[Verdict], closed: frozenset[Reason]) -> frozenset[str]:
    """The clusters with a verdict of another reason than these."""
    if isinstance(verdicts, Verdicts):
        return verdicts.but(closed)
    return frozenset(verdict.cluster for verdict in verdicts if verdict.reason not in closed)


def grouped(verdicts: Sequence[Verdict]) -> Grouped:
    """The chosen by name; the rejected by reason, the most frequent first."""
    if isinstance(verdicts, Verdicts):
        return verdicts.grouped()
    in_order = sorted(verdicts, key=lambda verdict: verdict.cluster)
    groups: dict[Reason, list[Verdict]] = {}
    for verdict in in_order:
        if not verdict.chosen:
            groups.setdefault(verdict.reason, []).append(verdict)
    rejected = [
        Rejected(
            reason,
            tuple(verdict.cluster for verdict in members[:NAMES_SHOWN]),
            len(members),
            members[0].message,
        )
        for reason, members in groups.items()
    ]
    chosen = [chosen_row(verdict) for verdict in in_order if verdict.chosen]
    return Grouped(chosen, by_frequency(rejected))


def by_frequency(rejected: Sequence[Rejected]) -> tuple[Rejected, ...]:
    if len(rejected) < 2:
        return tuple(rejected)
    return tuple(sorted(rejected, key=lambda group: (-group.count, str(group.reason))))


ROOM: Final = "Room"
"""By which right copies of tier Preemptible leave for a workload that has quota and no room."""
BORROWED_ROOM: Final = "RoomReclamation"
"""The same of tier OnDemand, for a workload with a guarantee that finds no room."""
LENT: Final = "FailoverBuffer"
"""The same of tier Preemptible, for a workload that loses its cluster, where a cluster keeps room
for such (`spec.failoverBuffer`)."""
AT_ONCE: Final = "(spec.maxConcurrentWorkloads)"
"""In the message of a decision: the account has as many workloads as it may have."""
TAKES: Final = " takes what it lacks"
"""In the message of a decision for which others leave."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """Copies that left so that another workload gets its quota, and have not come back."""

    by: WorkloadKey
    project: str
    """Of that workload."""
    why: str
    """By which right: `scheduling.admission.holders.Why`."""
    copies: int

    @property
    def of_room(self) -> bool:
        """Whether they left for their room, and not for their quota."""
        return self.why in (ROOM, BORROWED_ROOM, LENT)


@dataclass(frozen=True, slots=True)
class Decision:
    """Where one workload goes. Always: sum of counts + `shortfall` == `wanted` (once per cluster
    for Duplicate)."""

    key: WorkloadKey
    uid: str
    wanted: int
    shares: tuple[Share, ...]
    shortfall: int
    reason: Reason
    """CHOSEN when nothing is missing; otherwise the binding constraint."""
    message: str
    verdicts: Sequence[Verdict]
    as_of: float
    inputs_hash: str
    seq: int = 0
    policy_name: str = "default"
    policy_namespace: str = ""
    policy_uid: str = ""
    policy_generation: int = 0
    policy_origin: str = "default"
    required: tuple[tuple[str, int], ...] = ()
    """(name, generation) of the Required policies in force."""
    quota_generations: Mapping[str, int] = field(default_factory=dict)
    unlimited_quota: bool = False
    """No FederatedQuota covers the project: nothing limits it, and a condition says so."""
    violations: tuple[str, ...] = ()
    """Soft spread rules that could not be kept, each as a sentence."""
    held: int = 0
    """Copies (slots for shards) among the shares that stay where they run although the policy gives
    them no place there, because they have none elsewhere. `reason` says why."""

    to_move: int = 0
    """Copies (slots) that have a place elsewhere under the policy and wait for its move budget or
    for a rebalance."""
    tolerated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Clusters with a share -> NoExecute taints of people there, as text: after an edit of
    tolerations these are not new taints."""
    marks: Mapping[str, int] = field(default_factory=dict)
    """Clusters in which slices of it have or had a seq above its own -> that seq."""
    moved: int = 0
    """Copies (slots) that this decision moves because of an edit; charged to the move budget."""
    per_cluster: int = 0
    """The count per cluster that strategy Duplicate meant when the shares were given; 0 if it never
    did. Kept after the strategy changed, as long as copies stay because of it."""
    surplus: int = 0
    """Copies beyond the count that stay where Duplicate placed them, until a person changes the
    count or asks for a rebalance; the edit that changed the meaning of the count removes none."""
    under: Ask | None = None
    """The ask that is charged, when it differs from the present one: what was admitted before stays
    in force."""
    held_back: int = 0
    """Generation of the workload that is not in force because it asks for more than allowed; 0 for
    none."""
    held_profile: str = ""
    """RuntimeProfile with a present version that is not in force because it asks for more than
    allowed; "" for none. Pods keep the former version."""
    preempted: Preempted | None = None
    """Set while copies are missing that left for another workload."""
    additions: tuple[Addition, ...] = ()
    """Nodes that clusters have to add for copies of it."""

    may_run: Mapping[str, Ranges] = field(default_factory=dict)
    """For shards that may not run twice: cluster -> those that it may still run although they were
    taken from it. No other cluster gets them."""
    blocks: Mapping[str, Ranges] = field(default_factory=dict)
    """For copies with numbers: cluster -> the ordinals that began there, in blocks. Disjoint over
    the clusters; a block stays recorded when its ordinals are scaled away, so that they come back
    to their claims."""

    def share_of(self, cluster: str) -> Share | None:
        return next((share for share in self.shares if share.cluster == cluster), None)


quick_verdict, quick_decision = quickly(Verdict), quickly(Decision)
quick_grouped, quick_rejected = quickly(Grouped), quickly(Rejected)
"""What is made for every decision, as its classes would."""


def apart(shares: tuple[Share, ...]) -> tuple[tuple[Share, ...], int]:
    """Shares without their seq, and that seq: apart from it, many workloads have the same shares.
    Shares that differ in seq are returned as they are, with 0."""
    seq = shares[0].seq if shares else 0
    if seq == 0 or any(share.seq != seq for share in shares):
        return shares, 0
    return tuple([structs.replace(share, seq=0) for share in shares]), seq


def together(portions: tuple[Share, ...], seq: int) -> tuple[Share, ...]:
    """The shares that `apart` took apart."""
    return tuple([structs.replace(share, seq=seq) for share in portions]) if seq else portions
