"""A rebalance by hand: what a cluster lost comes back when a person asks, at the pace of its policy,
and only then.
"""

import asyncio
import itertools
from typing import Any

import pytest

from federator.cli.planning import rebalance
from federator.model.names import WorkloadKey
from tests.unit.hub.world import World, play, service, small_fleet

PSVC, CLUSTER = "PinterestService", "MemberCluster"
WEB = WorkloadKey(PSVC, "feed", "web")


async def drained_and_filled(world: World, **fields: Any) -> int:
    """12 copies on two clusters leave one of them, which may be used again; returns how many."""
    await world.create(PSVC, "feed", "web", service(12, **fields))
    await world.settle()
    left = (await world.shares("feed", "web"))["a"]
    await world.patch(CLUSTER, "", "a", {"spec": {"drain": {}}})
    await asyncio.sleep(120)
    await world.patch(CLUSTER, "", "a", {"spec": {"drain": None}})
    await asyncio.sleep(300)
    assert await world.shares("feed", "web") == {"b": 12}  # nothing moves back by itself
    return left


def test_a_cluster_that_was_drained_is_filled_again_when_a_person_asks() -> None:
    async def scenario(world: World) -> None:
        left = await drained_and_filled(world)
        await rebalance.ask(world.host, {WEB})
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"a": left, "b": 12 - left}
        (decision,) = await world.decisions()
        assert decision["spec"]["rebalanced"]
        version = decision["metadata"]["resourceVersion"]
        await asyncio.sleep(600)  # one request is for one rebalance
        (decision,) = await world.decisions()
        assert decision["metadata"]["resourceVersion"] == version

    play(scenario, fleet=small_fleet(2))


@pytest.mark.long
def test_it_keeps_to_the_move_budget_of_the_policy() -> None:
    async def scenario(world: World) -> None:
        slow = {"moveBudget": {"maxCopiesPerMinute": 2}}
        left = await drained_and_filled(world, placement=slow)
        await rebalance.ask(world.host, {WEB})
        moved = []
        for _ in range(8):
            await asyncio.sleep(30)
            moved.append((await world.shares("feed", "web")).get("a", 0))
        assert moved[0] == 2
        assert all(after - before <= 2 for before, after in itertools.pairwise(moved))
        assert moved[-1] == left

    play(scenario, fleet=small_fleet(2))


@pytest.mark.long
@pytest.mark.parametrize("failback", ["Manual", "Never"])
def test_what_failed_over_comes_home_when_a_person_asks(failback: str) -> None:
    async def scenario(world: World) -> None:
        policy = {"failover": {"failback": failback, "afterSeconds": 60}}
        await world.create(PSVC, "feed", "web", service(12, placement=policy))
        await world.settle()
        before = await world.shares("feed", "web")
        await world.cut("a")
        await asyncio.sleep(600)
        assert "a" not in await world.shares("feed", "web")
        world.heal("a")
        await asyncio.sleep(4000)  # longer than an automatic return takes
        assert "a" not in await world.shares("feed", "web")
        await rebalance.ask(world.host, {WEB})
        await asyncio.sleep(120)
        assert (await world.shares("feed", "web"))["a"] == before["a"]

    play(scenario, fleet=small_fleet(3))
