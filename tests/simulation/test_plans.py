"""What `federator plan` prints is what happens: each edit of a random fleet is planned and then made,
and the hub ends where the plan said. Planted bugs of plans break the rule.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from federator.advice.plans import edits, reports
from federator.model.names import WorkloadKey
from tests.simulation import planned, plans
from tests.simulation.mutations import instead
from tests.simulation.planned import Edit, World
from tests.simulation.running import Plant

USUAL: Final = (0, 1, 2, 3, 19)
"""Worlds of 5 edits each in `make test`. In 19 a drain is refused."""
LONG: Final = range(20, 24)
"""Further worlds of a long run."""
Method = Callable[..., Any]


@pytest.mark.parametrize("seed", USUAL)
def test_an_edit_ends_as_planned(seed: int) -> None:
    played = planned.play(planned.drawn(seed), seed)

    assert plans.surprises(played) == []
    assert any(one.planned != one.present for one in played)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_an_edit_of_a_long_run_ends_as_planned(seed: int) -> None:
    assert plans.CAMPAIGN.played(seed)[plans.EDITS] == 5


def test_lower_requests_free_room_for_a_waiting_workload() -> None:
    smaller = _service("big", 5, cpu=1)
    world = World((12,), (_service("big", 5, cpu=2), _service("small", 12)), (Edit(smaller),))

    (played,) = planned.play(world, 0)

    assert plans.surprises([played]) == []
    assert played.planned[_key("ads", "small")][0] == {"a": 7}


def test_a_refused_drain_begins_when_an_edit_leaves_room() -> None:
    drain = {
        "apiVersion": planned.FEDERATION,
        "kind": "MemberCluster",
        "metadata": {"name": "b", "labels": {"pool": "main"}},
        "spec": {"drain": {}},
    }
    edits = (Edit(drain), Edit(_service("web", 6)))
    world = World((8, 8), (_service("web", 12),), edits)

    refused, begun = planned.play(world, 0)

    assert plans.surprises([refused, begun]) == []
    assert refused.planned[_key("ads", "web")][0] == {"a": 6, "b": 6}
    assert begun.planned[_key("ads", "web")][0] == {"a": 6}


def _service(name: str, copies: int, *, cpu: int = 1) -> planned.Obj:
    requests = {"cpu": str(cpu), "memory": "1Gi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": "ads", "labels": {"app": name}},
        "spec": {"template": {"spec": {"containers": [container]}}, "replicas": copies},
    }


def _key(namespace: str, name: str) -> WorkloadKey:
    return WorkloadKey("PinterestService", namespace, name)


def _room_stays_taken(_: Method) -> Method:
    return lambda capacity, leaving: capacity


def _former_policies(_: Method) -> Method:
    return lambda made, present: made.situation.keep_asks(present, lambda workload: False)


PLANTED: Final[dict[str, tuple[Plant, int]]] = {
    "copies that leave keep their room": (instead(reports, "without", _room_stays_taken), 26),
    "a workload is planned under the policy of before": (
        instead(edits, "_keep_asks", _former_policies),
        0,
    ),
}
"""Bug -> (the bug, a seed that shows it)."""


@pytest.mark.parametrize("bug", sorted(PLANTED))
def test_a_planted_bug_of_plans_breaks_the_rule(bug: str) -> None:
    plant, seed = PLANTED[bug]

    assert plans.CAMPAIGN.catches(plans.RULE, plant, [seed])


def test_on_a_busy_fleet_the_difference_is_counted_and_not_judged() -> None:
    seen = plans.CAMPAIGN.played(0)

    assert seen[plans.ELSEWHERE] > 0
    assert seen[plans.OTHERWISE] <= seen[plans.WORKLOADS]
