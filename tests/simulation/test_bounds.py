"""What policies say of how copies lie is kept in simulated federations, and a hub that forgets it
is caught.
"""

from typing import Any

import pytest

from tests.simulation import bounds, rulings, running, solo
from tests.simulation.drawing import generator
from tests.simulation.script import Action
from tests.simulation.unruled import UNRULED

ZONES = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
SAID: dict[str, dict[str, Any]] = {
    "a policy's bounds on clusters are forgotten": {"division": {"maxPerCluster": 2}},
    "spread rules are not looked at": {"spread": [ZONES]},
    "all or nothing gives some": {"partial": "RequireAll", "division": {"maxPerCluster": 2}},
}
"""Three members, two of them in one zone, and nine copies: what the policy says that the hub with
the bug forgets.
"""


def placed(said: dict[str, Any]) -> running.Course:
    policy = Action(0.0, "create", "PlacementPolicy", "feed", "where", {"spec": said})
    return running.Course((policy, solo.service("web", 9)), brief=True)


@pytest.mark.parametrize("what", sorted(SAID))
def test_a_hub_that_forgets_what_the_policy_says_is_caught(what: str) -> None:
    rule, plant = UNRULED[what]
    with pytest.raises(running.Broken) as caught:
        running.simulate(solo.world(members=3), plant, placed(SAID[what]))

    assert caught.value.rules == {rule}
    running.simulate(solo.world(members=3), course=placed(SAID[what]))


def test_every_planted_bug_of_policies_has_such_a_world() -> None:
    assert SAID.keys() == UNRULED.keys()
    assert {rule for rule, _ in UNRULED.values()} == {bounds.NAME}


def test_a_patch_takes_back_what_a_policy_said_before() -> None:
    drawn = [rulings.Rulings(generator(seed, "rulings"), "abc") for seed in range(200)]
    ruled = [one.policy() for one in drawn if one.any]

    assert {frozenset(one) for one in ruled} == {
        frozenset({"division", "spread", "partial", "tolerations"})
    }
    assert all(set(rulings.DIVISION) == set(one["division"]) for one in ruled)
    assert rulings.without_nulls({"division": {"strategy": None}, "spread": [ZONES]}) == {
        "spread": [ZONES]
    }


@pytest.mark.parametrize("said", SAID.values())
def test_policies_that_bind_are_told_from_those_that_do_not(said: dict[str, Any]) -> None:
    wish = {
        "spread": [{**ZONES, "whenUnsatisfiable": "ScheduleAnyway"}],
        "division": {"strategy": "Pack"},
    }

    assert rulings.bind([{"spec": said}])
    assert rulings.bind([{"spec": {"placement": said}}])
    assert not rulings.bind([{"spec": wish}, {"metadata": {}}])
