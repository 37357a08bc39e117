"""Shrinking: from a world that breaks a rule to the smallest one that breaks it too, the same one
every time.
"""

from dataclasses import replace

import pytest

from tests.simulation import cases, running, shrink, solo
from tests.simulation.cases import Case
from tests.simulation.controls import CONTROLS
from tests.simulation.drawing import Turn
from tests.simulation.script import Action
from tests.simulation.shrink import Shrinking
from tests.simulation.story import Strike

BUG = "a lost reply is counted twice"
STRIKE = Strike(
    "lost-reply",
    "hub-0",
    "host",
    "POST",
    "/apis/federation.pinterest.com/v1alpha1/namespaces/feed/placementdecisions",
    0,
)
LAST = Action(5.0, "patch", "MemberCluster", "", "a", {"spec": {}})
"""Faults are over with the last action, so there is one after they have had time."""


def _case() -> Case:
    """Three workloads in a world with two members, an episode, and three lost replies, of which one
    matters.
    """
    others = (replace(STRIKE, path="/api/v1/namespaces/feed/events"), replace(STRIKE, nth=7))
    return Case(
        solo.world(members=2, hubs=1, turns=(Turn("hub-member-silent", 1.0, 5.0),)),
        (solo.service("web", 2), solo.service("shop", 1), solo.jobset("index", 2, 5), LAST),
        (others[0], replace(STRIKE, process="hub"), others[1]),
    )


@pytest.mark.long
def test_a_bug_shrinks_to_one_workload_and_the_fault_it_needs_and_can_be_replayed() -> None:
    plant = CONTROLS[BUG][1]
    search = Shrinking(_case(), plant, budget=60)
    smallest = search.search()

    assert search.rule == CONTROLS[BUG][0]
    assert [action.what for action in smallest.actions] == ["create", "patch"]
    assert smallest.strikes == (replace(STRIKE, process="hub"),)
    assert (smallest.parameters.members, smallest.parameters.turns) == (1, ())
    again = Case.read(smallest.text())
    assert again == smallest
    with pytest.raises(running.Broken) as broken:
        cases.run(again, plant)
    assert search.rule in broken.value.rules
    first, second = (Shrinking(_case(), plant, budget=8).search() for _ in range(2))
    assert first == second != _case()


def test_a_world_that_breaks_no_rule_is_not_shrunk() -> None:
    with pytest.raises(ValueError, match="nothing to shrink"):
        Shrinking(Case(solo.world(hubs=1, members=1), ()))


def test_parts_are_left_out_for_as_long_as_the_rest_shows_the_same() -> None:
    kept = list(range(20))

    def shows(rest: "list[int]") -> bool:
        nonlocal kept
        if {3, 11} <= set(rest):
            kept = rest
            return True
        return False

    shrink.reduce(kept, lambda rest: shows(list(rest)))

    assert kept == [3, 11]


def test_without_what_it_speaks_of_an_action_is_left_out_as_well() -> None:
    made, scaled = (
        solo.service("web", 2),
        Action(0.0, "patch", "PinterestService", "feed", "web", {"spec": {}}),
    )
    cordoned = Action(0.0, "patch", "MemberCluster", "", "b", {"spec": {"cordoned": True}})

    assert cases.possible((made, scaled, cordoned), 2) == (made, scaled, cordoned)
    assert cases.possible((scaled, made, made, cordoned), 1) == (made,)
