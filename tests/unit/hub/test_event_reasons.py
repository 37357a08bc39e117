"""The reasons of the Events about decisions."""

import types
from dataclasses import replace
from typing import Any, cast

import pytest

from federator.hub.history.journal import Journal
from federator.hub.host.events import Events
from federator.hub.records.workloads import Workload
from federator.hub.status import transitions
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.model.decision import Decision, Preempted, Reason
from federator.model.names import WorkloadKey
from federator.model.steps import EmitEvent
from federator.status.conditions import Condition
from federator.status.fold import Fold
from tests.unit.placement.fleets import cluster, decide, fleet, service

KEY = WorkloadKey("PinterestService", "feed", "web")
FOR_ANOTHER = Preempted(KEY, "ads", "InCohortReclamation", 2)


def emitted(decision: Decision) -> list[EmitEvent]:
    journal = types.SimpleNamespace(decided=lambda *_: None)
    events = Events(cast(Applier, None), Clock(0.0), cast(Journal, journal))
    workload = cast(Workload, types.SimpleNamespace(key=KEY, uid="u"))
    events.placed(workload, None, decision)
    queue: Any = events._queue
    return [queue.get_nowait() for _ in range(queue.qsize())]


@pytest.mark.parametrize("change", [{"preempted": FOR_ANOTHER}, {"held": 2}])
def test_no_warning_has_the_reason_of_a_decision_that_lacks_nothing(change: dict[str, Any]) -> None:
    decision = decide(service(4), fleet(cluster("a", 50)))
    assert decision.reason is Reason.CHOSEN

    warnings = [event for event in emitted(replace(decision, **change)) if event.warning]

    assert [event.reason for event in warnings] == (["Preempted"] if "preempted" in change else [])


@pytest.mark.parametrize(
    ("was", "told"),
    [
        ("", []),
        ("Progressing", []),
        ("RollingOut", []),
        ("ImagePullFailed", ["Ready"]),
        ("ClustersNotReady", ["Ready"]),
    ],
)
def test_ready_is_an_event_only_after_trouble(was: str, told: list[str]) -> None:
    before = [{"type": "Ready", "status": "False", "reason": was}] if was else []
    ready = Condition("Ready", "True", "Ready", "6/6 ready in 3 clusters.")
    result = cast(Fold, types.SimpleNamespace(conditions=(ready,), rows=()))

    assert [one.reason for one in transitions.of({"conditions": before}, result)] == told
