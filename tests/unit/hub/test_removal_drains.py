"""`federator cluster remove` drains a cluster and deletes its MemberCluster last: with the pace and
the refusal of drains, and until the deletion it can be cancelled.
"""

import asyncio

import pytest

from federator.cli.clusters import removal
from federator.hub.options import HubOptions
from federator.model.errors import FieldError
from tests.unit.hub.world import World, play, service, small_fleet

PSVC, CLUSTER = "PinterestService", "MemberCluster"


async def remove(world: World, name: str, *, force: bool = False) -> None:
    await removal.drain(world.host, await removal.find(world.host, name), force=force)


async def watch(world: World, name: str) -> tuple[str, list[str]]:
    """The note of the last Event, and what was reported on the way."""
    told: list[str] = []
    following = removal.Watch(world.host, await removal.find(world.host, name), told.append)
    while True:
        if await following.look():
            return following.note, told
        await asyncio.sleep(1.0)


def test_a_removal_drains_the_cluster_and_deletes_its_object_last() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        assert (await world.shares("feed", "web"))["a"] > 0
        await remove(world, "a")
        watching = asyncio.create_task(watch(world, "a"))
        while not watching.done():
            assert await world.ready_replicas("feed", "web") >= 12
            obj = await world.get(CLUSTER, "", "a") or {}
            there = await world.get("Deployment", "feed", "web", at="a")
            assert there is None or "deletionTimestamp" not in obj["metadata"]
            await asyncio.sleep(0.5)
        note, told = watching.result()
        assert note == "It was emptied."
        assert told[0].startswith("Emptying: ")
        assert await world.get(CLUSTER, "", "a") is None

    play(scenario)


def test_a_removal_can_be_cancelled_until_the_object_is_deleted() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(40, cpu="100m"))
        await world.settle()
        before = (await world.shares("feed", "web"))["a"]
        await remove(world, "a")
        await asyncio.sleep(20)
        await removal.cancel(world.host, await removal.find(world.host, "a"))
        await asyncio.sleep(5)
        left = (await world.shares("feed", "web"))["a"]
        assert 0 < left < before
        await asyncio.sleep(60)
        assert (await world.shares("feed", "web"))["a"] == left
        obj = await removal.find(world.host, "a")
        assert "deletionTimestamp" not in obj["metadata"]
        with pytest.raises(FieldError, match="is not being removed"):
            await removal.cancel(world.host, obj)

    play(scenario, options=HubOptions(evacuated_copies_a_minute=12))


def test_a_removal_that_leaves_copies_without_a_place_is_refused_and_taken_back() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(24, cpu="2"))  # 16 fit in each cluster
        await world.settle()
        shares = await world.shares("feed", "web")
        await remove(world, "a")
        with pytest.raises(FieldError, match=r"a is not removed. Refused: .* no other place"):
            await watch(world, "a")
        obj = await removal.find(world.host, "a")
        assert "drain" not in obj["spec"]
        assert await world.shares("feed", "web") == shares

    play(scenario, fleet=small_fleet(2))


def test_a_cluster_that_never_joined_is_removed_without_a_drain() -> None:
    async def scenario(world: World) -> None:
        await world.create(CLUSTER, "", "typo", {})
        await asyncio.sleep(30)
        await remove(world, "typo")
        note, _ = await watch(world, "typo")
        assert "never reachable" in note

    play(scenario)


def test_a_plain_deletion_moves_copies_at_the_pace_of_drains() -> None:
    """`kubectl delete mc` empties the cluster in its finalizer: at the same pace, and each copy
    leaves when its replacement is ready."""

    async def scenario(world: World) -> None:
        names = ("one", "two", "three")
        for name in names:
            await world.create(PSVC, "feed", name, service(12, cpu="100m"))
        await world.settle()
        before = [(await world.shares("feed", name))["a"] for name in names]
        assert min(before) > 0
        began_s = world.federation.clock.monotonic()
        await world.delete(CLUSTER, "", "a")
        while await world.get(CLUSTER, "", "a") is not None:
            for name in names:
                assert await world.ready_replicas("feed", name) >= 12
            await asyncio.sleep(0.5)
        lasted_s = world.federation.clock.monotonic() - began_s
        assert lasted_s >= (sum(before) / 12 - 1) * 60
        for name in names:
            assert await world.get("Deployment", "feed", name, at="a") is None

    play(scenario, options=HubOptions(evacuated_copies_a_minute=12))
