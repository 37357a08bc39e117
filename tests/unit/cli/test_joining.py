"""How `cluster add` waits for the API server of a cluster that has just started."""

import asyncio

import pytest

from federator.cli.clusters import joining
from federator.kube import errors
from federator.kube.client import Client
from tests.faults.transport import BoxTransport
from tests.unit.hub.world import World, play

USER = "user"


def _user(world: World) -> Client:
    """The user's own connection to a member, with the faults of the scenario."""
    served = world.federation.members["a"].transport()
    return Client(BoxTransport(served, world.boxes, USER, "a"), "a")


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def _answers_500_for(world: World, seconds: float) -> None:
    world.answer("a", "/readyz", 500, b"[-]etcd failed", process=USER)
    await asyncio.sleep(seconds)
    world.clear()


def test_a_server_that_is_not_ready_yet_is_waited_for() -> None:
    async def scenario(world: World) -> None:
        member = _user(world)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_answers_500_for(world, 20.0))
            await asyncio.sleep(0)
            began_s = _now_s()
            await joining.until_ready(member, 60.0)
            assert 20.0 <= _now_s() - began_s < 20.0 + 2 * joining.READY_PAUSE_S
        assert (await joining.examine(member, 0.0)).findings[0].ok

    play(scenario)


def test_a_server_that_does_not_become_ready_is_told_by_the_examination() -> None:
    async def scenario(world: World) -> None:
        member = _user(world)
        world.answer("a", "/readyz", 500, b"[-]etcd failed", process=USER)
        began_s = _now_s()
        await joining.until_ready(member, 5.0)
        assert _now_s() - began_s == pytest.approx(5.0)
        with pytest.raises(errors.ServerTrouble):
            await joining.examine(member, 0.0)

    play(scenario)


def test_a_refusal_is_not_waited_for() -> None:
    async def scenario(world: World) -> None:
        world.answer("a", "/readyz", 403, process=USER)
        began_s = _now_s()
        await joining.until_ready(_user(world), 60.0)
        assert _now_s() == began_s

    play(scenario)
