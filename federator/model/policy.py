"""A placement policy as decisions read it: where copies may be, how they are divided and moved."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from federator.model.bounds import PerCluster
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.kubernetes.taints import UNREACHABLE_TAINT, Taint, Toleration
from federator.model.neighbours import Around, WorkloadTerm
from federator.model.overrides import Override
from federator.model.scaleup import ScaleUp
from federator.model.terms import NO_CONDITIONS, Conditions, Preference


class Strategy(StrEnum):
    DUPLICATE = "Duplicate"
    WEIGHTED = "Weighted"
    CAPACITY = "Capacity"
    PACK = "Pack"
    SPREAD = "Spread"


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """Bounds how unevenly copies may lie over the domains of one cluster label."""

    topology_key: str
    min_domains: int = 1
    max_skew: int = 0
    """0 means no bound on the skew, only on the number of domains."""
    hard: bool = False
    """True is DoNotSchedule, False ScheduleAnyway (the least violation is taken, and reported)."""
    max_domains: int | None = None
    """The most domains that are used; None for no bound."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A static weight for the clusters it names or selects."""

    weight: int
    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One of several ordered groups of clusters: each is used only for what the earlier ones cannot
    take."""

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
    """True ignores what is held (mode Fresh); False moves as little as possible (mode Steady)."""
    weights: tuple[Weight, ...] = ()
    groups: tuple[Group, ...] = ()
    max_clusters: int | None = None
    per_cluster: tuple[PerCluster, ...] = ()
    """Bounds of single clusters, in addition to those of all clusters: the strictest counts."""

    def bounds_of(self, cluster: str, labels: Mapping[str, str]) -> tuple[PerCluster, ...]:
        """The entries of perCluster that bound the cluster."""
        return tuple(entry for entry in self.per_cluster if entry.matches(cluster, labels))


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """How many running copies edits may move per minute, over all workloads of a policy. `percent`
    is of the copies that run under the policy; `floor` is the minimum per minute."""

    copies: int | None = None
    percent: int = 10
    floor: int = 100

    def a_minute(self, running: int) -> int:
        """Copies per minute while `running` run under the policy; at least one.

        percent 10, floor 100: 5,000 running copies allow 500 a minute, 300 allow 100
        """
        if self.copies is not None:
            return max(self.copies, 1)
        return max(running * self.percent // 100, self.floor, 1)


class FailoverWhen(StrEnum):
    """What lets work leave a cluster that is lost."""

    UNREACHABLE = "Unreachable"
    """That nothing was heard of it for a time."""
    DEAD = "Dead"
    """A person's word that nothing runs there any more."""
    NEVER = "Never"


class Failback(StrEnum):
    """What becomes of work after its lost cluster is back."""

    AUTO = "Auto"
    """It goes home when the cluster has been well for a time."""
    MANUAL = "Manual"
    """It stays until somebody asks: federator rebalance."""
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Failover:
    """When copies leave a lost cluster by themselves, and whether they come back. Times in
    seconds."""

    when: FailoverWhen = FailoverWhen.UNREACHABLE
    after_s: int = 300
    """Counted from when the cluster is held to be Unreachable."""
    cooldown_s: int = 600
    """Between two moves of one workload."""
    failback: Failback = Failback.AUTO
    failback_after_s: int = 1800
    """For which the cluster must have answered without a break."""

    @property
    def returns(self) -> bool:
        return self.failback is Failback.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a Required ClusterPlacementPolicy demands of every workload that it selects, whatever
    policy that workload has.

    `tolerations` are an upper bound: a taint set by people is tolerated only if this policy
    tolerates it too.
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
    per_cluster: tuple[PerCluster, ...] = ()
    moves: MoveBudget = MoveBudget()
    """How fast it moves copies; a user's own budget does not slow it."""
    conditions: Conditions = NO_CONDITIONS
    problem: str = ""
    """Why it cannot be followed, as a sentence: nothing new is placed under it."""
    overrides: tuple[Override, ...] = ()
    """What it changes of the workload in some clusters, after the workload's own policy."""

    @property
    def title(self) -> str:
        """The policy and its owner, as refusals name it."""
        owner = f", owner {self.owner}" if self.owner else ""
        return f"ClusterPlacementPolicy {self.name} (Required{owner})"


@dataclass(frozen=True, slots=True)
class Policy:
    """A placement policy as the core reads it. `origin` is how it was chosen: policyRef, inline,
    match or default."""

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
    """True (onPolicyChange: Lazy): running copies stay until a rebalance is asked for."""
    moves: MoveBudget = MoveBudget()
    failover: Failover = Failover()
    scale_up: ScaleUp = ScaleUp.WHEN_SHORT
    problem: str = ""
    """Why the requested policy cannot be used, as a sentence: nothing new is placed then."""
    required: tuple[Demand, ...] = ()
    """The Required policies in force, by name. Their bounds are already part of `division` and
    `spread`."""
    conditions: Conditions = NO_CONDITIONS
    preferences: tuple[Preference, ...] = ()
    reads_reports: bool = False
    """A condition, of a Required policy too, or a preference reads amounts of capacity reports:
    clusters are judged anew when they report."""
    overdue: tuple[tuple[str, Taint], ...] = ()
    """Clusters with a taint that the policy has tolerated for as long as it says, by name. Set for
    one snapshot (`placement.policy.tolerating`)."""
    overrides: tuple[Override, ...] = ()
    """What differs in the slices of some clusters. No decision depends on it: an override never
    changes the shape of a copy."""
    workloads: tuple[WorkloadTerm, ...] = ()
    """Affinity and anti-affinity to other workloads of the namespace."""
    around: Around | None = None
    """What these terms, and those of other workloads, say of the clusters; None for nothing. Set
    for one decision (`placement.selection.neighbours`)."""

    @property
    def all_overrides(self) -> tuple[Override, ...]:
        """The overrides in the order in which they are applied: its own, then those of Required
        policies by name."""
        others = (override for demand in self.required for override in demand.overrides)
        return tuple(dict.fromkeys((*self.overrides, *others)))

    @property
    def stays_unreachable_s(self) -> float | None:
        """Seconds for which copies stay on a cluster that the hub has tainted as unreachable; None
        for ever.

        Tolerations of the taint take the place of `afterSeconds`; of several the shortest counts,
        as in Kubernetes. A policy that does not fail over then does not, whatever it tolerates.
        """
        if self.failover.when is not FailoverWhen.UNREACHABLE:
            return None
        matching = [
            toleration.seconds
            for toleration in self.tolerations
            if toleration.tolerates(UNREACHABLE_TAINT)
        ]
        if not matching:
            return float(self.failover.after_s)
        bounded = [seconds for seconds in matching if seconds >= 0]
        return float(min(bounded)) if bounded else None


DEFAULT_POLICY = Policy()
