"""What a simulation found: each work's life, and how the clusters were used over time. Whole
seconds and units.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from federator.model.decision import Reason
from federator.simulate.demand import Work

WAITING_KEYS: Final = (
    "never_started",
    "waited",
    "wait_p50_s",
    "wait_p90_s",
    "wait_p99_s",
    "wait_max_s",
    "wait_sum_s",
)
"""Figures that there are for each project and tier too."""
_USES: Final = tuple(
    f"{what}_{name}"
    for name in ("cpu", "memory", "gpu")
    for what in ("use_mean", "use_peak", "used_peak")
)
GROWTH_KEYS: Final = ("waited_for_nodes", "grown_node_s", "grown_peak", "cost_grown")
"""Figures that there are where a cluster can grow."""
FIGURE_KEYS: Final = (
    *WAITING_KEYS,
    "works",
    "completed",
    "running",
    "waiting",
    "unplaceable",
    "missing_copy_s",
    "fragmented_peak",
    "moves",
    "displaced",
    "restarts",
    "lost_s",
    "preempted",
    "preempted_s",
    "failures",
    "failed",
    "failed_s",
    "scalings",
    "scaled_late",
    *_USES,
    "cost",
    "cost_idle",
    "cost_per_core_hour",
    "cost_per_gpu_hour",
    *GROWTH_KEYS,
)
"""Figures that a scenario may set bounds to."""


ONE_NODE: Final = "one node"
"""What copies lack where a cluster has enough of everything, and no node that takes them has."""
FOR_CAPACITY: Final = frozenset(
    {
        Reason.INSUFFICIENT_CAPACITY,
        Reason.AT_MAXIMUM,
        Reason.GANG_INCOMPLETE,
        Reason.UNSCHEDULABLE,
    }
)
"""Reasons of decisions that more room would do away with."""


SCALING_UP: Final = "ScalingUp"
"""Reason of a wait for nodes that a cluster adds: that of the condition Placed."""


class End(StrEnum):
    """How a work stands when the simulation ends."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    """More attempts failed than its `backoffLimit` allows."""
    RUNNING = "Running"
    WAITING = "Waiting"
    """Submitted, and not started, or stopped and not started again."""
    UNPLACEABLE = "Unplaceable"
    """Waiting, and larger than any cluster of the fleet as it was at the end."""


@dataclass(frozen=True, slots=True)
class Stay:
    """One work's copies in one cluster for a while."""

    cluster: str
    copies: int
    start_s: int
    end_s: int | None
    """None: still there when the simulation ends."""
    lost: bool = False
    """Whether it ended because the cluster, or nodes of it, were gone, and not by a decision."""


@dataclass(frozen=True, slots=True)
class Wait:
    """While a work lacked copies: from when to when, and what the last decision in that time
    said.
    """

    start_s: int
    end_s: int | None
    """None: still waiting when the simulation ends."""
    reason: str
    """A reason of decisions, such as InsufficientCapacity or QuotaExceeded."""
    copies: int
    """Copies that were missing at the end of that time."""


@dataclass(frozen=True, slots=True)
class Life:
    """One work, from its submission to the end of the simulation."""

    work: Work
    end: End
    start_s: int | None = None
    """When it first had all it asked for."""
    end_s: int | None = None
    """When it completed, or failed for good."""
    stays: tuple[Stay, ...] = ()
    waits: tuple[Wait, ...] = ()
    restarts: int = 0
    """How often it began again because it lost its cluster."""
    lost_s: int = 0
    """Run time that was lost with clusters, since the last check-point."""
    preempted: int = 0
    """How often it gave up places so that another got its quota."""
    preempted_s: int = 0
    """Run time that was lost with these, since the last check-point."""
    failures: int = 0
    """Attempts that failed."""
    failed_s: int = 0
    """Run time that was lost with them, since the last check-point; all of it when the job failed
    for good.
    """
    backoff_s: int = 0
    """How long its copies were in their places between two attempts."""
    scalings: int = 0
    """How often a service asked for another number of copies."""
    scaled_late: int = 0
    """How often of these it asked for more and did not have all at once."""
    waited_for_nodes: int = 0
    """Copies that waited for nodes which a cluster added, each time that they were placed."""

    @property
    def wait_s(self) -> int | None:
        """From submission to first start; None for one that never started."""
        return None if self.start_s is None else self.start_s - self.work.submit_s


@dataclass(frozen=True, slots=True)
class Sample:
    """The clusters at one instant, after everything of that instant has happened."""

    at_s: int
    used: Mapping[str, tuple[int, ...]]
    """Cluster -> amounts that copies hold, in the order of `Outcome.resources`."""
    capacity: Mapping[str, tuple[int, ...]]
    """The same of its nodes; a cluster that is lost is not named."""
    waiting: int
    """Works that lack copies."""
    waiting_copies: int
    fragmented: int = 0
    """Copies that wait although the free amounts of one cluster, added up, would hold them: no node
    has room.
    """
    lacking: Mapping[str, int] = field(default_factory=dict)
    """What copies that wait for capacity lack most, in the cluster that comes nearest: a resource
    of `Outcome.resources` or ONE_NODE -> copies.
    """


FLEET: Final = ""
"""In place of the name of a cluster."""


@dataclass(frozen=True, slots=True)
class Held:
    """What copies held of one resource of a cluster, or of the fleet, and what was there: exact, by
    every start and end. Sums over time are of the measured time.
    """

    cluster: str
    """FLEET for all together."""
    resource: str
    there_s: int
    """How long the cluster was there."""
    capacity_s: int
    """Amount that its nodes have times seconds."""
    used_s: int
    """Amount that copies held times seconds."""
    peak: int
    """Most that copies held at once for at least a second."""
    peak_share: float
    """The same as a share of what was there then, 0 to 1."""
    peak_since_s: int
    """When that share was reached first."""


@dataclass(frozen=True, slots=True)
class GrownNode:
    """A node that an autoscaler ordered."""

    cluster: str
    node_class: str
    ordered_s: int
    ready_s: int | None = None
    """None: it has not come."""
    removed_s: int | None = None
    """When it was removed, or lost with its cluster; None: it was there to the end."""


@dataclass(frozen=True, slots=True)
class NodePrice:
    """What a node of a class costs from an instant on."""

    at_s: int
    cluster: str
    node_class: str
    per_hour: int
    """Millionths."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A decision about a recorded workload that gave it other clusters or counts than before."""

    at_s: int
    work: str
    clusters: Mapping[str, int]
    """Cluster -> copies or shards; empty for nowhere."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A change of the scenario, or a move, as it happened."""

    at_s: int
    kind: str
    """`lost`, `returned`, `drained`, `added`, `grown`, `quotaChanged`, `policyChanged`,
    `priceChanged`, `scaleUp`, `scaled`.
    """
    subject: str
    """The cluster, quota or policy, or the services."""
    copies: int = 0
    """Copies that lost their place."""
    asked: int = 0
    """Copies that are asked for beside those before; negative: fewer."""


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    figure: str
    """Key of a figure of the report."""
    project: str = ""
    """"" for works of any project."""
    tier: str = ""
    """"" for works of any tier."""
    most: float | None = None
    least: float | None = None


@dataclass(frozen=True, slots=True)
class SimulationResult:
    name: str
    seed: int
    start_s: int
    end_s: int
    warm_up_s: int
    """Measures count works that were submitted, and time that passed, after this instant."""
    horizon_s: int
    """Means and cost are taken from the warm-up to this second."""
    resources: tuple[str, ...]
    """`cpu` in milli-cores, `memory` in MiB, `gpu`: the ones that demand and fleet record."""
    lives: tuple[Life, ...]
    """In the order of submission."""
    samples: tuple[Sample, ...]
    """At equal distances of time, and at every event of the scenario."""
    held: tuple[Held, ...] = ()
    """The fleet first, then the clusters by name, each with every resource."""
    happened: tuple[Happened, ...] = ()
    placed: tuple[Placed, ...] = ()
    """Decisions about recorded workloads, in the order in which they were taken."""
    wanted: tuple[Measure, ...] = ()
    """The measures that the verdict is to be about."""
    recorded: tuple[Placed, ...] = ()
    """Those of the live federation that was recorded."""
    drawn: bool = False
    """Whether another seed gives another outcome."""
    decisions: int = 0
    cycles: int = 0
    price_per_hour: Mapping[str, float] = field(default_factory=dict)
    """Cluster -> price of one of its nodes for an hour at the end; empty without prices."""
    costs: Mapping[str, int] | None = None
    """Cluster -> hundredths that its nodes cost from the warm-up to the horizon; None without
    prices."""
    grown: tuple[GrownNode, ...] | None = None
    """Nodes that autoscalers ordered, by order; None where no cluster can grow."""
    node_prices: tuple[NodePrice, ...] = ()
    """Of classes of such nodes, by time; for each from when its cluster comes."""
    origin_s: int = 0
    """Epoch seconds of second 0; 0 where the demand has no dates."""
    assumptions: tuple[str, ...] = ()
    """What was missing in the input or is simplified, each a sentence."""
