"""Workloads that every cluster is to have (Duplicate): also those clusters that come later."""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
EVERYWHERE = {"division": {"strategy": "Duplicate"}}


async def cordon(world: World, name: str, *, cordoned: bool) -> None:
    await world.patch("MemberCluster", "", name, {"spec": {"cordoned": cordoned}})


async def made_without_c(world: World, placement: dict[str, Any] = EVERYWHERE) -> None:
    await cordon(world, "c", cordoned=True)
    await asyncio.sleep(1)
    await world.create(PSVC, "feed", "web", service(2, placement=placement))
    await world.settle()
    assert await world.shares("feed", "web") == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    "restarted", [False, True], ids=["by the hub that placed it", "by a hub that starts meanwhile"]
)
def test_a_cluster_that_is_opened_later_gets_its_copies(restarted: bool) -> None:
    async def scenario(world: World) -> None:
        await made_without_c(world)
        if restarted:
            await world.federation.kill("hub")
            world.federation.start_hub()
            await world.settle()
            await asyncio.sleep(30)
        await cordon(world, "c", cordoned=False)
        await asyncio.sleep(10)
        assert await world.shares("feed", "web") == {"a": 2, "b": 2, "c": 2}

    play(scenario)


def test_a_cluster_that_answers_later_gets_its_copies() -> None:
    async def scenario(world: World) -> None:
        world.cut.add(("hub", "c"))
        await asyncio.sleep(90)
        await world.create(PSVC, "feed", "web", service(2, placement=EVERYWHERE))
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 2, "b": 2}
        world.cut.clear()
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"a": 2, "b": 2, "c": 2}

    play(scenario)


def test_a_bound_on_clusters_holds_whoever_comes() -> None:
    async def scenario(world: World) -> None:
        await made_without_c(world, {"division": {"strategy": "Duplicate", "maxClusters": 2}})
        await cordon(world, "c", cordoned=False)
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 2, "b": 2}

    play(scenario)


def test_what_every_cluster_has_is_written_no_more() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(2, placement=EVERYWHERE))
        await world.settle()
        await asyncio.sleep(60)
        before = world.count("hub")
        await asyncio.sleep(600)
        assert world.count("hub") == before

    play(scenario)
