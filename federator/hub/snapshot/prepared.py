"""What plans need of every workload, kept from one plan to the next: its ask, and whether its
decision stands.

A plan of one edit compares few workloads, if it knows that the decisions of the others stand. The
snapshot worker keeps that knowledge: a workload is looked at again when it or its decision has
changed, and all are when something differs that all are compared with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from federator.hub.cache import policying
from federator.hub.placing import standing
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.ask import Ask
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.placement import inputs
from federator.placement.policy import permitted
from federator.placement.policy.policies import Bindings, Policies
from federator.placement.selection import alike
from federator.scheduling import due

KEPT_MAX: Final = 1 << 17
"""Workloads of which asks are kept."""
LOOKED_MAX: Final = 10_000
"""Workloads that are looked at for one question: less than a second, in which nothing else is
answered. Those that are left are compared by the plan itself."""
POLICIES_MAX: Final = 4000
"""Policies of which the clusters are compared from one question to the next. With more of them all
workloads are looked at again."""


class Inputs(Protocol):
    """What it is computed from: the world."""

    snapshot: FleetSnapshot
    rules: Policies
    workloads: dict[WorkloadKey, Workload]

    def record_of(self, workload: Workload) -> Record | None: ...


@dataclass(slots=True)
class Prepared:
    """The asks, and the workloads with decisions that stand."""

    stands: set[WorkloadKey] = field(default_factory=set)
    asks: policying.Asks = field(default_factory=lambda: policying.Asks(KEPT_MAX))
    bindings: tuple[object, Bindings] | None = None
    """Of the quotas beside them."""
    fresh: bool = False
    """Nothing has changed since it was brought up to date."""
    _dirty: set[WorkloadKey] | None = None
    """Workloads to look at; None before the first question."""
    _rules: Policies | None = None
    _levels: Mapping[str, object] = field(default_factory=dict)
    _views: Mapping[str, ClusterView] = field(default_factory=dict)
    """The clusters at the last question, without their capacity."""
    _fleets: dict[int, tuple[Ask, inputs.Texts]] = field(default_factory=dict)
    """Policy -> an ask under it, and the clusters that it admits."""

    def touch(self, key: WorkloadKey) -> None:
        """Something about the workload has changed."""
        self.fresh = False
        if self._dirty is not None:
            self._dirty.add(key)

    def update(self, world: Inputs) -> None:
        """Brings it up to date with the world, or as much of it as one question may take."""
        snapshot = world.snapshot
        if (
            self._dirty is None
            or self.bindings is None
            or self._rules is not world.rules
            or self.bindings[0] != snapshot.quotas
        ):
            self.asks = policying.Asks(KEPT_MAX)
            self.bindings = snapshot.quotas, Bindings(snapshot.quotas)
            self._rules = world.rules
            self._forget(world)
        else:
            self.bindings = snapshot.quotas, self.bindings[1]
        memo: dict[Any, Any] = {}
        views = {name: replace(view, capacity=None) for name, view in snapshot.clusters.items()}
        if self._levels != snapshot.levels or self._differs(snapshot, views, memo):
            self._forget(world)
        self._levels, self._views = snapshot.levels, views
        assert self._dirty is not None
        for _ in range(min(len(self._dirty), LOOKED_MAX)):
            self._look(world, self._dirty.pop(), memo)
        self.fresh = True

    def _forget(self, world: Inputs) -> None:
        """Looks at all workloads again."""
        self.stands.clear()
        self._fleets.clear()
        self._dirty = set(world.workloads)

    def _differs(
        self, snapshot: FleetSnapshot, views: Mapping[str, ClusterView], memo: dict[Any, Any]
    ) -> bool:
        """Whether decisions are compared with other clusters than at the last question."""
        if len(self._fleets) > POLICIES_MAX:
            return True
        if {name: view.empties for name, view in views.items()} != {
            name: view.empties for name, view in self._views.items()
        }:
            return True
        same = views == self._views
        return any(
            inputs.texts(ask, snapshot, memo) != texts
            for ask, texts in self._fleets.values()
            if not (same and _by_views(ask.policy))
        )

    def _look(self, world: Inputs, key: WorkloadKey, memo: dict[Any, Any]) -> None:
        self.stands.discard(key)
        workload, snapshot = world.workloads.get(key), world.snapshot
        if workload is None or self.bindings is None:
            return
        ask = self.asks.of(workload, world.rules, self.bindings[1])
        # Host names depend on other workloads.
        if ask is None or ask.suspended or workload.deleting or ask.privileges.hosts:
            return
        refused = permitted.refusal(ask, snapshot.levels, snapshot.quotas) is not None
        now = standing.compared(snapshot, ask, world.record_of(workload), memo, refused=refused)
        if not due.is_settled(now):
            return
        number = alike.number_of(ask.policy)
        if number not in self._fleets:
            self._fleets[number] = ask, inputs.texts(ask, snapshot, memo)
        self.stands.add(key)


def _by_views(policy: Policy) -> bool:
    """Whether the clusters that a policy admits follow from their views alone: not from amounts
    that they report, and not from the time, by which tolerations end."""
    return not (policy.reads_reports or policy.tolerations or policy.required)
