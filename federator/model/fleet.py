"""The fleet as one decision reads it: frozen, complete, with the time of reading.

A `FleetSnapshot` has everything that placement may read. What a batch gives while it runs is in the
Ledger above it.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TypeVar

from msgspec import structs

from federator.model import shards
from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask, Former, PodShape, Tier, Unit
from federator.model.decision import Share
from federator.model.kubernetes.pod_security import Level
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.neighbours import NOBODY, Peers
from federator.model.quickly import quickly
from federator.model.resources import ZERO, Resources
from federator.model.rules.invariant import Invariant
from federator.model.rules.namespaces import NO_QUOTAS, NO_RULES, QuotaLeft, Rules
from federator.model.scaleup import NodeClass
from federator.model.shards import Ranges
from federator.model.terms import NOTHING_STATED, Stated

_Given = TypeVar("_Given", bound="Holding | Share")


@dataclass(frozen=True, slots=True)
class NodeRow:
    """`count` equal nodes: same allocatable, same free amounts, same taints."""

    count: int
    allocatable: Resources
    free: Resources
    model: str = ""
    """GPU model, "" without GPUs."""
    family: str = ""
    taints: tuple[Taint, ...] = ()
    podless: bool = False
    """It reports 0 allocatable pods. Vectors keep no zeros, and a row without pods in its
    allocatable has no limit on pods (a hand-written fleet), so the difference is kept here. Any
    other resource that a row does not name it does not have."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a member last reported about its nodes."""

    rows: Sequence[NodeRow] = ()
    copies: Mapping[str, int] = field(default_factory=dict)
    """Exact counts: shape id -> copies that fit, as of `includes_seq`."""
    includes_seq: int = 0
    """Slices up to this seq are already subtracted; the ledger charges exactly those above it."""
    exact: bool = True
    """False when the rows were rounded down."""
    packs: bool = False
    """The member's scheduler packs nodes; otherwise charges lie where a scheduler with default
    settings binds."""
    waiting: tuple[tuple[PodShape, int], ...] = ()
    """Pods that no node has room for, of slices up to `includes_seq` and of others."""
    machines: Mapping[str, int] = field(default_factory=dict)
    """Nodes by instance type, with those that are not ready."""
    rules: Mapping[str, Rules] = field(default_factory=lambda: NO_RULES)
    """What its LimitRanges and ResourceQuotas say of pods, by namespace."""
    quotas: Mapping[str, tuple[QuotaLeft, ...]] = field(default_factory=lambda: NO_QUOTAS)
    """What its ResourceQuotas leave, by namespace, as of `includes_seq`."""

    @property
    def allocatable(self) -> Resources:
        total = ZERO
        for row in self.rows:
            total = total + row.allocatable * row.count
        return total

    @property
    def free(self) -> Resources:
        total = ZERO
        for row in self.rows:
            total = total + row.free * row.count
        return total


def serves(apis: frozenset[str], kind: str) -> bool:
    """Whether discovery lists the kind (`Kind.group`). An empty list means that discovery has not
    been read: then every kind counts as served."""
    return not apis or any(api.partition(".")[0] == kind for api in apis)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One member, as placement reads it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tainted_s: tuple[tuple[Taint, float], ...] = ()
    """When people added its NoExecute taints, in epoch seconds; without those of unknown time."""
    cordoned: bool = False
    maintained: str = ""
    """Why a maintenance window keeps new work away, as a part of a sentence; "" while none does."""
    ready: bool = True
    unready_reason: str = ""
    """A sentence for the verdict when not ready."""
    removing: bool = False
    draining: bool = False
    """It is being emptied at a pace, and takes nothing new; what was decided stays in force."""
    drain_waits: bool = False
    """The hub refuses its drain while copies would have no other place."""
    dead: bool = False
    """It is silent, and a person said that nothing runs there any more: its copies get another
    place, at the same pace."""
    fenced: bool = False
    """It is dead, and a person vouches for that even where no shard may run twice."""
    unreachable: bool = False
    """It is silent, and the hub has tainted it for that: what may leave gets another place, when
    its time has come and at the same pace."""
    lapsed: bool = False
    """It is lost, and the lease by which its guarded shards run is over: none of them does."""
    untrustworthy: str = ""
    """Why it is not trusted and takes nothing new, in a word; "" while it is trusted."""
    skewed: str = ""
    """How far its clock is off the hub's, as a part of a sentence; "" while it is right."""
    unproven: str = ""
    """Why it takes no work until it has passed a probe, as a part of a sentence; "" when it
    may."""
    apis: frozenset[str] = frozenset()
    """Kinds it serves in a compatible schema, as `Kind.group` (`Deployment.apps`)."""
    tiers: frozenset[Tier] = frozenset(Tier)
    projects: frozenset[str] | None = None
    """None: open to every project."""
    usable_permille: int = 1000
    """The part of its allocatable that the federation may fill, in thousandths."""
    buffer_permille: int = 0
    """Of that, what is kept for copies that leave other clusters, in thousandths of its
    allocatable; work of tier Preemptible has it until then."""
    scale_up: tuple[NodeClass, ...] = ()
    """Classes of nodes that it can add, by name."""
    capacity: Capacity | None = None
    """None: it never reported, and takes nothing."""
    capacity_age_s: float = 0.0
    stale: bool = False
    """The report is too old to rely on: the cluster keeps what it has and takes nothing new."""
    stated: Stated = NOTHING_STATED
    success_permille: int | None = None
    """The share of workloads that start and end well there, in thousandths; None while unknown."""
    failing: bool = False
    """That share is so low that new copies go elsewhere first."""

    def domains(self, key: str) -> tuple[str, ...]:
        """The domains of a topology key in which it lies: those that `spec.topology` states, else
        the value of the label; () without either."""
        stated = self.stated.topology.get(key)
        if stated:
            return stated
        value = self.labels.get(key)
        return (value,) if value else ()

    def judged_as(self, other: "ClusterView") -> bool:
        """Whether filters, spread rules and weights judge both alike: they read everything but the
        amounts of the report, which has rules of namespaces too."""
        if _facts(self) != _facts(other) or (self.capacity is None) != (other.capacity is None):
            return False
        if self.rules != other.rules:
            return False
        return not self.stale or self.capacity_age_s == other.capacity_age_s

    def without_amounts(self) -> "ClusterView":
        """The cluster with nothing that `judged_as` leaves out."""
        capacity = None if self.capacity is None else Capacity(rules=self.capacity.rules)
        return replace(
            self, capacity=capacity, capacity_age_s=self.capacity_age_s if self.stale else 0.0
        )

    @property
    def rules(self) -> Mapping[str, Rules]:
        """What its LimitRanges and ResourceQuotas say of pods, by namespace."""
        return NO_RULES if self.capacity is None else self.capacity.rules

    @property
    def empties(self) -> bool:
        """Whether copies leave it because it is lost, drained or removed."""
        return self.draining or self.dead or self.unreachable or self.removing


_facts = operator.attrgetter(
    *(
        field.name
        for field in fields(ClusterView)
        if field.name not in {"drain_waits", "capacity", "capacity_age_s"}
    )
)


@dataclass(frozen=True, slots=True)
class Holding:
    """What one workload has in one cluster by its last decision."""

    cluster: str
    count: int
    """Replicas, or unfinished shards."""
    slots: int
    seq: int
    ranges: tuple[tuple[int, int], ...] = ()
    tolerated: tuple[str, ...] = ()
    """NoExecute taints that the cluster had at the last decision, and with which its share stayed.
    """
    nodes: int | None = None
    """As in its share."""
    pods: tuple[int, ...] = ()
    """As in its share."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """What one workload holds. `uid` is its identity: a workload created again under the same name
    is another one."""

    uid: str
    key: WorkloadKey
    project: str
    namespace: str
    tier: Tier
    shape: PodShape
    holdings: tuple[Share | Holding, ...]
    """What the decision gives, by cluster."""
    priority: int = field(default=0, compare=False)
    created_s: float = field(default=0.0, compare=False)
    """When the workload was created; 0 when unknown: nothing is older."""
    whole: bool = field(default=True, compare=False)
    """Fewer of its copies are of no use: when it leaves, all of it does. These three are not part
    of what is charged."""
    run_s: int | None = field(default=None, compare=False)
    """As in the ask."""
    began_s: float | None = field(default=None, compare=False)
    """When it was given its first copies, in epoch seconds. These two are no part of it either."""
    former: tuple[Former, ...] = ()
    """Accounts that are charged in addition, for copies that may run as they were before an edit.
    """

    @staticmethod
    def of(
        ask: Ask, shares: Sequence[Share], done: Ranges = (), *, began_s: float | None = None
    ) -> "Commitment":
        """What the workload holds by these shares; finished shards hold neither room nor quota."""
        shape = charged_shape(ask.shape, shares)
        made = _commitment(
            ask.uid,
            ask.key,
            ask.project,
            ask.key.namespace,
            ask.tier,
            shape,
            tuple(shares),
            ask.priority,
            ask.created_s,
            ask.in_one,
            ask.run_s,
            began_s,
            ask.former,
        )
        numbered = ask.unit is Unit.SHARDS or ask.ordinals is not None
        return made.without(done) if numbered or done else made

    @property
    def copies(self) -> int:
        """Pods that may run at once, over all clusters."""
        if len(self.holdings) == 1:
            return copies_of(self.holdings[0])
        return sum(
            [
                copies_of(held) if held.ranges or held.nodes is not None else held.count
                for held in self.holdings
            ]
        )

    @property
    def usage(self) -> Resources:
        """What its own project and tier are charged for it."""
        return self.shape.requests * self.copies

    @property
    def charges(self) -> list[tuple[str, Tier, Resources]]:
        """(project, tier, amounts) of all that is charged for it: its own account first."""
        own = (self.project, self.tier, self.usage)
        return [own, *((left.project, left.tier, left.usage) for left in self.former)]

    @property
    def ends_s(self) -> float | None:
        """When it has ended at the latest, in epoch seconds; None when that is not known."""
        if self.run_s is None or self.began_s is None:
            return None
        return self.began_s + self.run_s

    def without(self, done: Ranges) -> "Commitment":
        """The commitment when exactly these shards are done: they hold neither room nor quota."""
        for holding in self.holdings:
            if holding.ranges and not _as_given(holding, done):
                break
        else:
            if not (done and self.former):
                return self
        former = tuple(left.without(done) for left in self.former)
        left = [remaining(holding, done) for holding in self.holdings]
        if former == self.former and all(map(operator.is_, left, self.holdings)):
            return self
        return replace(
            self, holdings=tuple(left), former=tuple(part for part in former if part.copies)
        )


_commitment = quickly(Commitment)


def charged_shape(shape: PodShape, given: Sequence[Share | Holding]) -> PodShape:
    """What one copy takes by these shares: of an elastic gang the pods that it was given."""
    pods = next((share.pods for share in given if share.pods), ()) if shape.parts else ()
    return shape.granted(pods) if pods else shape


def remaining(given: _Given, done: Ranges) -> _Given:
    """The share or holding with all its ranges, counting only unfinished shards."""
    if not given.ranges:
        return given
    if _as_given(given, done):
        return given
    ranges = shards.normal(given.ranges)
    count = shards.size(shards.minus(ranges, done))
    if count == given.count and ranges == given.ranges:
        return given
    if isinstance(given, Share):
        return structs.replace(given, ranges=ranges, count=count)
    return replace(given, ranges=ranges, count=count)


def _as_given(given: Share | Holding, done: Ranges) -> bool:
    """Whether shards are plainly as they were given: in one piece, and none is done."""
    if done or len(given.ranges) != 1:
        return False
    ((low, high),) = given.ranges
    return given.count == high - low + 1


def copies_of(holding: Holding | Share) -> int:
    """Pods that may run at once: replicas, slots as far as shards are left for them, or one for
    each node of a daemon."""
    if holding.nodes is not None:
        return holding.nodes
    if holding.ranges and holding.slots < holding.count:
        return holding.slots
    return holding.count


def _check_names(views: Mapping[str, ClusterView]) -> None:
    if [*views] == [view.name for view in views.values()]:
        return
    for name, view in views.items():
        if name != view.name:
            raise ValueError(f"cluster {view.name!r} is filed under {name!r}")


class Views(dict[str, ClusterView]):
    """Clusters by name, which never change once they are here, with what differs from those of
    which they were made: a reader that knows these need not compare every cluster.
    """

    __slots__ = ("_judged_anew", "_made_of", "_mark", "_others")

    def __init__(self, views: Mapping[str, ClusterView] = MappingProxyType({})) -> None:
        """Raises ValueError where a cluster is filed under another name."""
        super().__init__(views)
        _check_names(views)
        self._mark, self._made_of = object(), object()  # marks only: no chain of former views
        self._others: tuple[str, ...] = ()
        self._judged_anew = True

    def with_these(self, views: Iterable[ClusterView], *, judged_anew: bool = True) -> "Views":
        """The same clusters but for these, which are all known by name. `judged_anew`: some may be
        judged by filters otherwise than before; else only the amounts of their reports differ."""
        made = Views.__new__(Views)
        made.update(self)
        others = {view.name: view for view in views}
        if not others.keys() <= self.keys():
            raise ValueError(f"unknown clusters: {sorted(others.keys() - self.keys())}")
        made.update(others)
        made._mark, made._made_of, made._others = object(), self._mark, tuple(others)
        made._judged_anew = judged_anew
        return made

    def others_of(self, before: Mapping[str, ClusterView]) -> list[str] | None:
        """The names under which another object may stand than before; None where that is not known
        without a look at all of them."""
        if before is self:
            return []
        if isinstance(before, Views) and before._mark is self._made_of:
            return list(self._others)
        return None

    def judged_as(self, before: Mapping[str, ClusterView]) -> bool:
        """Whether it is known, without a look at any, that filters judge every cluster as before
        (`ClusterView.judged_as`)."""
        made_of_it = isinstance(before, Views) and before._mark is self._made_of
        return before is self or (made_of_it and not self._judged_anew)


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """Everything a decision may read. `as_of` is epoch seconds."""

    as_of: float
    clusters: Mapping[str, ClusterView]
    quotas: tuple[QuotaAccount, ...] = ()
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Pod Security levels of the host's namespaces; `pod_security.DEFAULT` for those not listed."""
    invariants: tuple[Invariant, ...] = ()
    """By name."""
    peers: Peers = field(default=NOBODY, compare=False)
    """The workloads of a namespace, for terms of `workloadAffinity`."""

    def __post_init__(self) -> None:
        if not isinstance(self.clusters, Views):
            _check_names(self.clusters)
