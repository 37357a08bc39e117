"""Workloads that every cluster is to have (Duplicate): also those clusters that come later."""

import asyncio
from typing import Any

import pytest

from federator.cli.planning import rebalance
from federator.kinds import registry
from federator.model.names import WorkloadKey
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
        await world.cut("c")
        await asyncio.sleep(90)
        await world.create(PSVC, "feed", "web", service(2, placement=EVERYWHERE))
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 2, "b": 2}
        world.heal()
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


POLICY = "ClusterPlacementPolicy"
EDITS: dict[str, dict[str, Any] | None] = {
    "deleted": None,
    "another strategy": {"division": {"strategy": "Weighted"}},
    "named and gone": None,
}


async def running(world: World) -> int:
    return sum((await world.shares("feed", "web")).values())


async def edited(world: World, how: str) -> None:
    ref = registry.KINDS[POLICY].ref("", "all")
    change = EDITS[how]
    if change is None:
        await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
    else:
        await world.patch(POLICY, "", "all", {"spec": change})


@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the hub starts anew"])
def test_an_edit_of_a_policy_that_duplicates_takes_nothing_down(how: str, restarted: bool) -> None:
    async def scenario(world: World) -> None:
        await world.create(POLICY, "", "all", EVERYWHERE)
        await world.create(
            PSVC,
            "feed",
            "web",
            service(4, placement={"policyRef": "all"} if how == "named and gone" else {}),
        )
        await world.settle()
        (before,) = await world.decisions()
        assert (before["spec"]["perCluster"], await running(world)) == (4, 12)
        if restarted:
            await world.federation.kill("hub")
        await edited(world, how)
        if restarted:
            world.federation.start_hub()
        for _ in range(60):
            await asyncio.sleep(1)
            assert await running(world) == 12
        (after,) = await world.decisions()
        assert after["spec"]["shares"] == before["spec"]["shares"]
        assert after["spec"]["perCluster"] == 4
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert ready["status"] == ("False" if how == "named and gone" else "True")
        assert placed["reason"] == ("Misconfigured" if how == "named and gone" else "CopiesKept")

    play(scenario)


@pytest.mark.parametrize("way", ["count", "rebalance"])
def test_copies_of_a_policy_that_duplicated_go_when_a_person_says_so(way: str) -> None:
    async def scenario(world: World) -> None:
        await world.create(POLICY, "", "all", EVERYWHERE)
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        await edited(world, "deleted")
        await world.settle()
        (kept,) = await world.decisions()
        assert (kept["spec"]["surplus"], await running(world)) == (8, 12)
        told = [
            one
            for one in (await world.host.list("events.k8s.io/v1", "events")).items
            if one["reason"] == "CopiesKept"
        ]
        assert [
            (one["type"], "go when somebody changes the count" in one["note"]) for one in told
        ] == [("Warning", True)]
        if way == "count":
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 5}})
        else:
            await rebalance.ask(world.host, {WorkloadKey(PSVC, "feed", "web")})
        await world.settle()
        assert await running(world) == (5 if way == "count" else 4)
        (after,) = await world.decisions()
        assert "perCluster" not in after["spec"]
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["reason"] == "Placed"

    play(scenario)
