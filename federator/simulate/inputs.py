"""What one simulation is given: fleet, demand, rules, and what changes while it runs.

`scenario` makes it from files; the engine reads nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from federator.model.accounts import QuotaAccount
from federator.model.fleet import ClusterView
from federator.model.kubernetes.pod_security import Level
from federator.model.rules.invariant import Invariant
from federator.placement.policy.policies import Rule
from federator.simulate.demand import Work
from federator.simulate.outcome import Measure, Placed


class EventKind(StrEnum):
    """What changes at an instant."""

    LOST = "lost"
    """The cluster is gone with all that runs there."""
    RETURNED = "returned"
    """A lost or drained cluster takes work again, empty if it was lost."""
    DRAINED = "drained"
    """It takes nothing new, and what runs there goes elsewhere at the pace of the hub's drains."""
    ADDED = "added"
    """A new cluster, or one that was not there from the beginning."""
    GROWN = "grown"
    """Its nodes are others from now on: more or fewer."""
    PRICE_CHANGED = "priceChanged"
    SCALE_UP = "scaleUp"
    """Nodes that its autoscaler orders come from now on, or do not."""
    QUOTA_CHANGED = "quotaChanged"
    """These quotas instead of those before."""
    POLICY_CHANGED = "policyChanged"
    """These policies instead of those before."""
    SCALED = "scaled"
    """Services ask for other numbers of copies."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change. What its kind does not speak of is left at its default."""

    at_s: int
    kind: EventKind
    cluster: str = ""
    view: ClusterView | None = None
    """ADDED and GROWN: the whole cluster as it is from then on, with everything free."""
    price_per_hour: float = 0.0
    """PRICE_CHANGED: of one of its nodes, or of one of `node_class`."""
    node_class: str = ""
    """SCALE_UP: "" for all of the cluster."""
    delivers: bool = True
    """SCALE_UP."""
    quotas: tuple[QuotaAccount, ...] = ()
    rules: tuple[Rule, ...] = ()
    scaled: "Scaled | None" = None


@dataclass(frozen=True, slots=True)
class Scaled:
    """Which services, by id, and to what."""

    subject: str
    """As the scenario names them."""
    works: tuple[str, ...]
    copies: Mapping[str, int] | None = None
    """By id: so many until the next point of its curve; None: see `times`."""
    times: Fraction = Fraction(1)
    """So many times what their curves say, from then on."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """One simulation, complete."""

    name: str
    clusters: Mapping[str, ClusterView]
    """By name, in the order of names; everything is free."""
    works: tuple[Work, ...]
    """By submission; at one second in the order of the trace."""
    rules: tuple[Rule, ...] = ()
    """PlacementPolicies and ClusterPlacementPolicies."""
    quotas: tuple[QuotaAccount, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    """By name."""
    events: tuple[Event, ...] = ()
    """By time; at one second in the order of the scenario."""
    seed: int = 0
    drawn: bool = False
    """Whether another seed gives other demand or other clusters."""
    origin_s: int = 0
    """Epoch seconds of second 0: the date that reports show; 0 when there is none."""
    end_s: int | None = None
    """When the simulation ends; None: when nothing is left that would end or could start."""
    warm_up_s: int = 0
    """Measures leave out what was submitted before."""
    window_s: int | None = None
    """Until when means and cost are taken; None: see `horizon_s`."""
    price_per_hour: Mapping[str, float] = field(default_factory=dict)
    """Cluster -> price of one of its nodes for an hour; empty without prices."""
    idle_s: int = 600
    """Autoscalers remove nodes that have stood empty for so long."""
    aggregates: bool = False
    """Whether each cluster is one node of its totals, so that fragmentation is not seen."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Namespace -> the Pod Security level that it enforces."""
    measures: tuple[Measure, ...] = ()
    """What the verdict is to be about."""
    recorded: tuple[Placed, ...] = ()
    """The decisions of the live federation that was recorded, in their order."""
    assumptions: tuple[str, ...] = ()
    """What was missing or is simplified in the inputs, each a sentence."""

    @property
    def grows(self) -> bool:
        """Whether any cluster has an autoscaler."""
        added = (event.view for event in self.events if event.view is not None)
        return any(view.scale_up for view in (*self.clusters.values(), *added))

    @property
    def horizon_s(self) -> int:
        """Until when means and cost are taken. It depends on the demand and the events, and not on
        when a run happens to end: without an end of the simulation, it is when the last work would
        have ended if none had waited or failed, or the last event or edit."""
        given = self.end_s if self.window_s is None else self.window_s
        if given is not None:
            return given
        ends = (
            (work.curve[-1].at_s if work.curve else work.submit_s) + (work.runtime_s or 0)
            for work in self.works
        )
        return max(max(ends, default=0), max((event.at_s for event in self.events), default=0))
