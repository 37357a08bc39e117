"""Pods beyond what a decision gives are charged until they have ended: after a scale-down, a move and
a rollout."""

import asyncio
from typing import Any

import pytest

from federator.model.kubernetes.quantity import vector
from tests.unit.hub.test_autoscaling import want
from tests.unit.hub.test_declared_dead import declare, silent
from tests.unit.hub.test_ending_pods import ours, slow, used
from tests.unit.hub.test_former_charges import PSVC, running
from tests.unit.hub.world import World, play

LIMITS = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "4"}}}}
SMALL: dict[str, dict[str, Any]] = {
    PSVC: {"replicas": 1},
    "Deployment": {"replicas": 1},
    "PinterestStatefulSet": {"replicas": 1},
    "PinterestJobSet": {"parallelism": 1},
}


async def begin(
    world: World, kind: str = PSVC, grace_s: int = 300, copies: int = 6, **more: Any
) -> None:
    """Six copies of 600m, whose pods take the whole grace period to end, under a quota of 4 cpu."""
    await world.create("FederatedQuota", "", "feed", LIMITS)
    await world.create(kind, "feed", "web", slow(kind, grace_s) | ours(kind) | more)
    await asyncio.sleep(30)
    assert await used(world) == 600 * copies


async def restart(world: World) -> None:
    await world.federation.kill("hub")
    world.federation.start_hub()
    await asyncio.sleep(10)


async def pods(world: World) -> tuple[int, int]:
    """How many of the members' pods stay, and how many are ending."""
    every = [
        pod["metadata"]
        for member in world.federation.members
        for pod in (await world.member(member).list("v1", "pods")).items
    ]
    ending = sum("deletionTimestamp" in metadata for metadata in every)
    return len(every) - ending, ending


async def next_waits(world: World) -> bool:
    """Whether another workload of the account waits for quota."""
    placed = await world.condition(PSVC, "feed", "next", "Placed")
    return (placed["status"], placed["reason"]) == ("False", "QuotaExceeded")


async def create_next(world: World) -> None:
    whole = {**slow(PSVC, 30), "replicas": 5, "placement": {"partial": "RequireAll"}} | ours(PSVC)
    await world.create(PSVC, "feed", "next", whole)
    await asyncio.sleep(10)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_scaled_down_copies_are_charged_until_their_pods_end(kind: str) -> None:
    async def scenario(world: World) -> None:
        await begin(world, kind)
        await world.patch(kind, "feed", "web", {"spec": SMALL[kind]})
        await asyncio.sleep(60)
        if kind == PSVC:
            await restart(world)
        remaining, ending = await pods(world)
        assert await used(world) == 600 * (remaining + ending) >= 3600
        quota = await world.get("FederatedQuota", "", "feed")
        assert quota is not None
        if kind != "PinterestStatefulSet":  # whose pods end one after the other
            assert remaining == 1
            terminating = quota["status"]["usage"][0]["terminating"]["cpu"]
            assert vector({"cpu": terminating})["cpu"] == 600 * ending
        await create_next(world)
        assert await next_waits(world)
        await asyncio.sleep(330 if kind != "PinterestStatefulSet" else 1600)
        assert not await next_waits(world)
        quota = await world.get("FederatedQuota", "", "feed")
        assert quota is not None
        assert "terminating" not in quota["status"]["usage"][0]

    play(scenario)


def test_scaling_down_and_up_repeatedly_does_not_exceed_the_quota() -> None:
    async def scenario(world: World) -> None:
        await begin(world)
        for round_ in range(5):
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 1}})
            await asyncio.sleep(10)
            if round_ == 2:
                await restart(world)
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 6}})
            await asyncio.sleep(10)
            assert await running(world) <= 4000
        await asyncio.sleep(400)
        assert sum((await world.shares("feed", "web")).values()) == 6, "when its pods have ended"
        assert await running(world) == 3600

    play(scenario)


def test_moved_copies_are_charged_in_both_clusters_and_move_freely() -> None:
    async def scenario(world: World) -> None:
        await begin(world, placement={"clusters": {"names": ["a"]}})
        for cluster in ("b", "a"):
            names = {"clusters": {"names": [cluster]}}
            await world.patch(PSVC, "feed", "web", {"spec": {"placement": names}})
            await asyncio.sleep(60)
            assert await world.shares("feed", "web") == {cluster: 6}, "no move waits for quota"
        assert await used(world) >= 7200
        await create_next(world)
        assert await next_waits(world)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 0}})
        await asyncio.sleep(400)
        assert not await next_waits(world)

    play(scenario)


def test_pods_that_a_rollout_replaces_are_charged_and_its_surge_is_not() -> None:
    async def scenario(world: World) -> None:
        await begin(world)
        for image in ("app:2", "app:3"):
            template = slow(PSVC, 300, image)["template"]
            await world.patch(PSVC, "feed", "web", {"spec": {"template": template}})
            await asyncio.sleep(60)
        assert await used(world) == 3600 * 3, "18 pods, of which 12 are terminating"
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 0}})
        await create_next(world)
        assert await next_waits(world)
        await asyncio.sleep(400)
        assert not await next_waits(world)

    play(scenario)


def test_copies_above_what_an_autoscaled_service_is_charged_are_not_charged() -> None:
    """`chargePercent` says how much of the range is charged, whatever autoscalers ask for."""

    async def scenario(world: World) -> None:
        scaling = {"min": 2, "max": 6, "chargePercent": 50}
        names = {"clusters": {"names": ["a"]}}
        await begin(world, autoscaling=scaling, placement=names, copies=4)
        await want(world, "a", 6)
        await asyncio.sleep(60)
        assert (await used(world), await running(world)) == (2400, 3600)
        await want(world, "a", 2)
        await asyncio.sleep(60)
        assert await used(world) == 4800, "4 of 6 copies, and 4 pods that are terminating"
        await asyncio.sleep(400)
        assert (await used(world), await running(world)) == (2400, 1200)

    play(scenario)


def test_silent_cluster_keeps_the_charge_and_a_dead_one_does_not() -> None:
    async def scenario(world: World) -> None:
        await begin(world, grace_s=3000, placement={"clusters": {"names": ["a"]}})
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(30)
        word = await silent(world, "a")
        await create_next(world)
        assert await next_waits(world)
        assert await used(world) == 3600
        await declare(world, "a", word)
        await asyncio.sleep(30)
        assert not await next_waits(world)

    play(scenario)


def test_daemon_that_leaves_clusters_is_charged_until_its_pods_end() -> None:
    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"max": {"cpu": "20"}}}
        await world.create("FederatedQuota", "", "feed", LIMITS | {"tiers": tiers})
        kind = "PinterestDaemon"
        await world.create(kind, "feed", "web", slow(kind, 300) | ours(kind))
        await asyncio.sleep(30)
        held = await used(world)
        one = {"placement": {"clusters": {"names": ["a"]}}}
        await world.patch(kind, "feed", "web", {"spec": one})
        await asyncio.sleep(60)
        assert await used(world) == held
        await asyncio.sleep(300)
        assert await used(world) == held // 3

    play(scenario)
