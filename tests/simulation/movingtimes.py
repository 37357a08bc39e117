"""The second fixed script of the enumerated crash points: a drain, a failover and a failback, in one
small world, one after the other.

Each has time to come to its end also when the hub dies in it and the clocks of the next one begin
anew. One service moves each time as a whole, one may be in b alone and never moves; so which of two
equal clusters gets a copy is never a question.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from federator.kinds import registry
from tests.faults.links import Cut
from tests.simulation.drawing import Parameters
from tests.simulation.script import SERVICE, Action
from tests.simulation.world import World

WORLD = Parameters(
    seed=0, members=2, nodes=2, steps=0, pause_s=0.0, restart_s=1.0, quota_cpu=0, hub={}, member={}
)
DRAINED, LOST = "a", "b"
UP_S, DRAIN_S, OPEN_S = 20.0, 60.0, 20.0
SILENT_S, HOME_S = 200.0, 300.0
FAILOVER: Mapping[str, Any] = {
    "afterSeconds": 0,
    "cooldownSeconds": 30,
    "failbackAfterSeconds": 60,
}


def write() -> list[Action]:
    """What is there before anything moves."""
    return [
        _service("web", 4, failover=FAILOVER),
        _service("stays", 1, failover=FAILOVER, clusters={"names": [LOST]}),
    ]


async def story(world: World) -> None:
    """What is in a leaves it, b is lost with all of it, and is filled again."""
    await asyncio.sleep(UP_S)
    await _drain(world, {})
    await asyncio.sleep(DRAIN_S)
    await _drain(world, None)
    await asyncio.sleep(OPEN_S)
    for hub in world.hubs:
        await world.links.sever(hub, LOST, Cut.REFUSED)
    await asyncio.sleep(SILENT_S)
    for hub in world.hubs:
        world.links.heal(hub, LOST, Cut.REFUSED)
    await asyncio.sleep(HOME_S)


async def _drain(world: World, wish: Mapping[str, Any] | None) -> None:
    world.say(f"{'user':12} drains {DRAINED}: {wish}")
    await world.host.patch(
        registry.KINDS["MemberCluster"].ref("", DRAINED), {"spec": {"drain": wish}}
    )


def _service(name: str, replicas: int, **placement: Any) -> Action:
    requests = {"cpu": "500m", "memory": "64Mi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container]}}
    spec = {"replicas": replicas, "template": template, "placement": placement}
    return Action(1.0, "create", SERVICE, "feed", name, {"spec": spec})
