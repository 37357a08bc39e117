"""Job sets of which no shard may run in two clusters at once, through hub, members and their Jobs."""

import asyncio
from typing import Any

import pytest

from federator.kube import errors
from federator.model import shards
from tests.unit.hub.test_declared_dead import declare, events, said, silent, until
from tests.unit.hub.world import World, jobset, play

PJS, CLUSTER = "PinterestJobSet", "MemberCluster"
LONG = {"embedded.federator/run-seconds": "100000"}


async def begun(world: World, count: int = 12) -> None:
    asked = jobset(count, count, annotations=LONG)
    await world.create(PJS, "feed", "once", {**asked, "execution": "Exclusive"})
    await asyncio.sleep(20)


async def running(world: World) -> dict[int, list[str]]:
    """Shard -> the clusters in which a pod of it exists that has not ended."""
    places: dict[int, list[str]] = {}
    for name in sorted(world.federation.members):
        client = world.user(name)
        for pod in (await client.list("v1", "pods", namespace="feed")).items:
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
            base = int(job.split("-")[-2])
            index = int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
            places.setdefault(base + index, []).append(name)
    return places


async def watched(world: World, seconds: int) -> None:
    """So long no shard runs in two clusters."""
    for _ in range(seconds):
        twice = {shard: at for shard, at in (await running(world)).items() if len(set(at)) > 1}
        assert not twice
        await asyncio.sleep(1)


async def spec(world: World) -> dict[str, Any]:
    (decision,) = await world.decisions()
    return dict(decision["spec"])


def test_a_drain_stops_shards_is_sure_of_it_and_then_starts_them_elsewhere() -> None:
    async def scenario(world: World) -> None:
        await begun(world)
        first = min(await world.slots("feed", "once"))
        job = (await world.user(first).list("batch/v1", "jobs", namespace="feed")).items[0]
        assert job["spec"]["podReplacementPolicy"] == "Failed"
        drain = {"spec": {"drain": {"jobsFinishSeconds": 0}}}
        await world.patch(CLUSTER, "", first, drain)
        for _ in range(30):
            await watched(world, 1)
            if "mayStillRun" in await spec(world):
                break
        decision = await spec(world)
        assert [row["cluster"] for row in decision["mayStillRun"]] == [first]
        assert decision["reason"] == "MayStillRun"
        assert f"may still run in {first}" in decision["message"]
        await watched(world, 150)
        assert "mayStillRun" not in await spec(world)
        assert first not in await world.slots("feed", "once")
        at = await running(world)
        assert sorted(at) == list(range(12))

    play(scenario)


@pytest.mark.long
def test_only_a_fence_moves_shards_from_a_silent_cluster() -> None:
    async def scenario(world: World) -> None:
        await begun(world)
        first = min(await world.slots("feed", "once"))
        before = await world.slots("feed", "once")
        word = await silent(world, first)
        await watched(world, 600)  # the policy's failover is at work, and lets it be
        assert await world.slots("feed", "once") == before
        await declare(world, first, word)
        await until(world, first, "Waiting")
        assert "only federator fence moves it" in (await said(world, first))["message"]
        await watched(world, 60)
        assert await world.slots("feed", "once") == before
        # the person looks, and sees to it that nothing runs there
        await world.patch(CLUSTER, "", first, {"spec": {"fenced": word}})
        await until(world, first, "Moved")
        then = await world.slots("feed", "once")
        assert first not in then
        assert sum(then.values()) == 12
        assert f"failover from {first}, fenced" in (await spec(world))["causes"]
        assert "Fenced" in await events(world, CLUSTER)
        world.heal()
        await asyncio.sleep(60)
        assert await world.get(PJS, "feed", "once", at=first) is None
        assert await world.slots("feed", "once") == then

    play(scenario)


@pytest.mark.long
def test_a_policy_that_excludes_a_silent_cluster_starts_nothing_until_it_is_heard() -> None:
    async def scenario(world: World) -> None:
        await begun(world)
        first = min(await world.slots("feed", "once"))
        count = (await world.slots("feed", "once"))[first]
        await silent(world, first)
        exclude = {"spec": {"placement": {"clusters": {"exclude": [first]}}}}
        await world.patch(PJS, "feed", "once", exclude)
        await watched(world, 300)
        held = shards.parse(",".join(s["ranges"] for s in (await spec(world))["shares"]))
        assert shards.size(held) == 12 - count
        placed = await world.condition(PJS, "feed", "once", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "MayStillRun")
        world.heal()
        await watched(world, 250)
        assert sorted(await running(world)) == list(range(12))

    play(scenario)


def test_how_it_is_executed_is_fixed() -> None:
    async def scenario(world: World) -> None:
        await begun(world, 2)
        with pytest.raises(errors.Invalid, match="execution is fixed"):
            await world.patch(PJS, "feed", "once", {"spec": {"execution": "MayOverlap"}})

    play(scenario)
