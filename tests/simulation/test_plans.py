"""What `federator plan` prints is what happens: each edit of a random fleet is planned and then made,
and the hub ends where the plan said. Planted bugs of plans break the rule.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from federator.advice.plans import edits, reports
from tests.simulation import planned, plans
from tests.simulation.mutations import instead
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
