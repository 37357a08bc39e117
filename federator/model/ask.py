"""The Ask: what a workload wants, free of its kind; and the policy it is placed under.

Built by `expand.asks` from an object, a policy and a runtime profile; read by placement, the ledger, explain and the
simulator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from federator.model import names
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.kubernetes.taints import Toleration
from federator.model.names import WorkloadKey
from federator.model.resources import Resources


class Tier(StrEnum):
    """Service class; earlier ones are placed first."""

    RESERVED = "Reserved"
    ON_DEMAND = "OnDemand"
    PREEMPTIBLE = "Preemptible"


class Unit(StrEnum):
    """What is divided: interchangeable replicas, or numbered shards."""

    REPLICAS = "replicas"
    SHARDS = "shards"


class Strategy(StrEnum):
    DUPLICATE = "Duplicate"
    WEIGHTED = "Weighted"
    CAPACITY = "Capacity"
    PACK = "Pack"
    SPREAD = "Spread"


@dataclass(frozen=True, slots=True)
class PodShape:
    """One copy, as the scheduler in the member will see it: the effective request after runtime injection.

    `node_selector` holds the canonical JSON of nodeSelector and required node affinity ("" when there is none): the hub
    cannot judge it, only the member answers it, by `id`.
    """

    requests: Resources
    node_selector: str = ""
    tolerations: tuple[Toleration, ...] = ()
    one_per_node: bool = False

    @property
    def id(self) -> str:
        """Names this shape in ClusterCapacity; equal shapes have equal ids in every process."""
        amounts = ",".join(f"{name}={amount}" for name, amount in self.requests.items())
        tolerations = ";".join(sorted(repr(t) for t in self.tolerations))
        return names.short_hash(amounts, self.node_selector, tolerations, str(self.one_per_node), length=12)

    @property
    def plain(self) -> bool:
        """Whether the published histogram of free nodes can answer it without asking the member."""
        return not self.node_selector


@dataclass(frozen=True, slots=True)
class Privileges:
    """What of a workload's pods somebody has to allow. The first three are sentences that begin with the path of a
    field, "" where nothing is in the way; the others are names, "" for what needs no leave."""

    baseline: str = ""
    """What the Pod Security level `baseline` forbids."""
    restricted: str = ""
    """What `restricted` forbids, all of `baseline` included."""
    nodes: str = ""
    """What only a namespace with the level `privileged` may do: choose its node, or go before the nodes' own pods."""
    service_account: str = ""
    iam_role: str = ""
    priority_class: str = ""
    """One that is not that of the workload's tier."""


NO_PRIVILEGES = Privileges()


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """Bounds how unevenly copies may lie over the domains of one cluster label."""

    topology_key: str
    min_domains: int = 1
    max_skew: int = 0
    """0 means no bound on the skew, only on the number of domains."""
    hard: bool = False
    """True is DoNotSchedule, False ScheduleAnyway (the least violation is taken, and reported)."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A static weight for the clusters it names or selects."""

    weight: int
    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One of several ordered groups of clusters: the next is used only for what the earlier ones cannot take."""

    name: str
    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Division:
    """How copies are divided over the chosen clusters."""

    strategy: Strategy = Strategy.CAPACITY
    min_per_cluster: int = 0
    max_per_cluster: int | None = None
    fresh: bool = False
    """True forgets what is held (mode Fresh); False moves as little as possible (mode Steady)."""
    weights: tuple[Weight, ...] = ()
    groups: tuple[Group, ...] = ()
    max_clusters: int | None = None


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """How many running copies edits may move in a minute, over all workloads of a policy. `percent` is of the copies
    that run under the policy; `floor` copies a minute are allowed whatever that comes to."""

    copies: int | None = None
    percent: int = 10
    floor: int = 100

    def a_minute(self, running: int) -> int:
        """Copies a minute while so many run under the policy; at least one."""
        if self.copies is not None:
            return max(self.copies, 1)
        return max(running * self.percent // 100, self.floor, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a Required ClusterPlacementPolicy asks of every workload that it selects, whatever policy that workload has.

    `tolerations` are an upper bound: of taints that people set, only those that it tolerates too are tolerated.
    """

    name: str
    generation: int = 0
    owner: str = ""
    names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    min_per_cluster: int = 0
    max_per_cluster: int | None = None
    max_clusters: int | None = None
    moves: MoveBudget = MoveBudget()
    """How fast it moves copies; a user's own budget does not slow it."""

    @property
    def title(self) -> str:
        """As refusals name it: the rule and its owner."""
        owner = f", owner {self.owner}" if self.owner else ""
        return f"ClusterPlacementPolicy {self.name} (Required{owner})"


@dataclass(frozen=True, slots=True)
class Policy:
    """A placement policy as the core reads it. `origin` tells how it was found: policyRef, inline, match or default."""

    name: str = "default"
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    origin: str = "default"
    names: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    division: Division = Division()
    require_all: bool = False
    max_clusters_at_once: int | None = None
    lazy: bool = False
    """True (onPolicyChange: Lazy): running copies stay where they are until somebody asks for a rebalance."""
    moves: MoveBudget = MoveBudget()
    problem: str = ""
    """Why the policy that the workload asks for cannot be used, as a sentence: it then places nothing new."""
    required: tuple[Demand, ...] = ()
    """The Required policies in force, by name. `division` and `spread` have their bounds in them already."""


DEFAULT_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Component:
    """Pods of a workload that are alike: `count` of them are wanted at once, and fewer than `min` are of no use."""

    name: str
    shape: PodShape
    count: int
    min: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What one workload wants. `count` copies or shards; `slots` is how many may run at once (equal to count for
    replicas)."""

    key: WorkloadKey
    uid: str
    generation: int
    unit: Unit
    count: int
    slots: int
    shape: PodShape
    project: str
    tier: Tier = Tier.ON_DEMAND
    priority: int = 0
    created_s: float = 0.0
    """Creation time in epoch seconds: age in the queue order."""
    policy: Policy = DEFAULT_POLICY
    labels: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    """Quota admits it entirely or not at all (jobs); services are admitted in part."""
    suspended: bool = False
    privileges: Privileges = NO_PRIVILEGES
    project_bound: bool = True
    """Whether its namespace may speak for its project: what is open to some projects only is not opened by a claim."""
    own: Resources | None = None
    """What the containers of its template ask for, where what a profile puts beside them asks for more; None: as the
    shape says."""

    @property
    def components(self) -> tuple[Component, ...]:
        """The pods that it is made of: of all kinds there are today, one component."""
        count = max(min(self.slots, self.count) if self.unit is Unit.SHARDS else self.count, 0)
        return (Component(str(self.unit), self.shape, count, count if self.policy.require_all else 0),)


@dataclass(frozen=True, slots=True)
class Admitted:
    """What of a workload was admitted last, as its decision in force charges it."""

    generation: int
    """Of the workload; 0 where the decision does not say."""
    shape: PodShape
    project: str
    tier: Tier
    priority: int | None = None
    """None where the decision does not say: whatever it is, it was admitted."""
    count: int | None = None
    """Copies, for shards slots, that were asked for; None where the decision does not say."""
    content: bytes = b""
    """Digest of what that generation makes of slices; empty where the decision does not say."""
