"""Accounts that lend and take back, and gangs: faults strike while something is half done, and each
planted bug is caught in a world of its own. The campaign has them drawn, and the controls the bugs.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from federator.kinds import registry
from tests.simulation import contested, running, solo
from tests.simulation.contest import SERVICE
from tests.simulation.halfdone import GANG, NAME, NAMESPACE, Strike
from tests.simulation.running import NOTHING, Course, Plant
from tests.simulation.script import Action, whole
from tests.simulation.unguaranteed import UNGUARANTEED
from tests.simulation.world import World

Story = Callable[[World], Awaitable[None]]
WORLD = replace(solo.world(), contest=True)


def _account(name: str, **spec: Any) -> Action:
    cpus = {"north": "3", "south": "3"}.get(name, "6")
    below = {"parent": "arena", "projects": [name]} if name != "arena" else {}
    tiers = {"tiers": {"OnDemand": {"guaranteed": {"cpu": cpus}}}}
    return Action(0.0, "create", "FederatedQuota", "", name, {"spec": {**tiers, **below, **spec}})


def _template(**annotations: str) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "32Mi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def _service(pause_s: float, name: str, project: str, replicas: int, priority: int = 0) -> Action:
    spec = {"project": project, "replicas": replicas, "priority": priority}
    body = {"spec": {**spec, "template": _template()}}
    return Action(pause_s, "create", SERVICE, NAMESPACE, name, body)


def _gang(pause_s: float, project: str, workers: int) -> Action:
    components = [{"name": "master"}, {"name": "worker", "replicas": workers}]
    template = _template(**{"embedded.federator/run-seconds": "900"})
    spec = {"project": project, "components": components, "template": template}
    body = {"spec": {**spec, "gangTimeoutSeconds": 30}}
    return Action(pause_s, "create", GANG, NAMESPACE, "squad", body)


def accounts(**root: Any) -> list[Action]:
    rules = {"preemption": {"reclaim": "Any", "withinProject": "LowerPriority"}}
    root = {"unknownProjects": "Allow", **root}
    return [_account("arena", **root), _account("north", **rules), _account("south", **rules)]


BORROWED = [_service(0.0, "web", "north", 12), _service(20.0, "page", "south", 6)]
"""north borrows half of the tree, and south comes back for it."""
DONE = Action(60.0, "delete", GANG, NAMESPACE, "squad")
SCRIPTS: dict[str, list[Action]] = {
    "who leaves does not say so": [*accounts(), *BORROWED],
    "who left is first again": [*accounts(ordering="Priority"), *BORROWED],
    "within an account anybody leaves": [
        *accounts(),
        _service(0.0, "urgent", "north", 12, priority=100),
        _service(20.0, "web", "north", 2),
    ],
    "a gang that leaves stays": [
        *accounts(),
        _service(0.0, "urgent", "north", 6, priority=100),
        _gang(5.0, "north", 3),
        _service(20.0, "page", "south", 6),
        DONE,
    ],
    "half a gang waits for the other half": [*accounts(), _gang(0.0, "north", 3)],
}


async def _no_room(world: World) -> None:
    """All machines are cordoned, and one pod of the gang goes."""
    await asyncio.sleep(10.0)
    strike = Strike(world, random.Random(1))
    for cluster in world.members:
        await strike.take_room(cluster)
    await asyncio.sleep(120.0)
    await strike.over()
    await world.host.delete(_ref(), uid=(await world.host.get(_ref()))["metadata"]["uid"])


def _ref() -> Any:
    return registry.KINDS[GANG].ref(NAMESPACE, "squad")


def played(what: str, plant: Plant = NOTHING) -> running.Report:
    story: Story | None = _no_room if what.startswith("half") else None
    return running.simulate(WORLD, plant, Course(SCRIPTS[what], story=story))


@pytest.mark.parametrize("what", sorted(UNGUARANTEED))
def test_a_bug_in_who_leaves_is_caught(what: str) -> None:
    rule, plant = UNGUARANTEED[what]
    with pytest.raises(running.Broken) as caught:
        played(what, plant)

    assert rule in caught.value.rules, caught.value.breaches[:5]


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(UNGUARANTEED))
def test_without_the_bug_its_world_keeps_every_rule(what: str) -> None:
    judged = played(what).judged
    assert judged[contested.TAKEN] or what.startswith(("half", "within"))


@pytest.mark.long
@pytest.mark.parametrize("how", ["leader", "member", "conflicts"])
def test_a_fault_while_somebody_leaves_keeps_every_rule(how: str) -> None:
    async def story(world: World) -> None:
        strike = Strike(world, random.Random(1))
        strike.how = how
        striking = asyncio.create_task(strike.run())
        await asyncio.sleep(20.0)
        page = _service(0.0, "page", "south", 6)
        await world.host.create(registry.KINDS[SERVICE].ref(NAMESPACE, "page"), whole(page))
        async with asyncio.timeout(60.0):
            await striking
        await asyncio.sleep(20.0)
        await strike.over()
        assert world.fired[NAME]

    begin: Sequence[Action] = [*accounts(), _service(0.0, "web", "north", 12)]
    running.simulate(WORLD, course=Course(begin, story=story))
