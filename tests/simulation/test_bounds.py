"""What policies say of how copies lie is kept in simulated federations, and a hub that forgets it
is caught.
"""

from typing import Any

import pytest

from federator.kinds import registry
from tests.simulation import bounds, rulings, running, script, solo
from tests.simulation.drawing import generator
from tests.simulation.invariants import all_of
from tests.simulation.ordinals import NAMESPACE, STATEFUL
from tests.simulation.script import Action
from tests.simulation.unruled import UNRULED
from tests.simulation.world import World

ZONES = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}
        ]
    }
}
SAID: dict[str, dict[str, Any]] = {
    "a policy's bounds on clusters are forgotten": {"division": {"maxPerCluster": 2}},
    "spread rules are not looked at": {"spread": [ZONES]},
    "all or nothing gives some": {"partial": "RequireAll", "division": {"maxPerCluster": 2}},
}
"""Three members, two of them in one zone, and nine copies: what the policy says that the hub with
the bug forgets.
"""


SPREAD = Action(
    0.0,
    "create",
    "PlacementPolicy",
    NAMESPACE,
    "where",
    {"spec": {"division": {"strategy": "Spread"}}},
)
KV = Action(
    0.0,
    "create",
    STATEFUL,
    NAMESPACE,
    "kv",
    {"spec": {"replicas": 4, "template": TEMPLATE}},
)


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


def test_ordinals_come_back_to_their_clusters_under_a_policy_for_fewer() -> None:
    """They began in three, and go away and come back after the policy allows one: where an ordinal
    began does not move (docs/decisions/0120).
    """
    found = []

    async def story(stage: World) -> None:
        user = stage.user("host")
        policy = registry.KINDS["PlacementPolicy"].ref(NAMESPACE, "where")
        await user.patch(policy, {"spec": {"division": {"maxClusters": 1}}})
        await solo.settled(stage)
        for count in (0, 4):
            ref = registry.KINDS[STATEFUL].ref(NAMESPACE, "kv")
            await user.patch(ref, {"spec": {"replicas": count}})
            await solo.settled(stage)
            (decision,) = all_of(stage.clusters["host"], "PlacementDecision")
            found.append([one["cluster"] for one in decision["spec"]["shares"]])

        await script.perform(Action(0.0, "delete", STATEFUL, NAMESPACE, "kv"), stage.host)
        await solo.settled(stage)

    solo.tell(story, solo.world(members=3), (SPREAD, KV))

    assert found == [[], ["a", "b", "c"]]


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
