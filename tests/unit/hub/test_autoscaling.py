"""A service whose copies autoscalers choose, over several clusters: it is placed and charged for
what it may come to, and told as it is.
"""

import asyncio
from typing import Any

from federator.embedded.controllers.workloads.autoscalers import WANTED
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
HPA = "HorizontalPodAutoscaler"


async def autoscaler(world: World, cluster: str) -> dict[str, Any] | None:
    ref = ObjectRef("autoscaling/v2", "horizontalpodautoscalers", "feed", "web", HPA)
    try:
        return await world.user(cluster).get(ref)
    except errors.NotFound:
        return None


async def want(world: World, cluster: str, copies: int) -> None:
    ref = ObjectRef("autoscaling/v2", "horizontalpodautoscalers", "feed", "web", HPA)
    body = {"metadata": {"annotations": {WANTED: str(copies)}}}
    await world.user(cluster).patch(ref, body)


async def status(world: World) -> dict[str, Any]:
    found = await world.get(PSVC, "feed", "web")
    assert found is not None
    return dict(found["status"])


async def bounds(world: World) -> dict[str, tuple[int, int]]:
    found = {}
    for cluster in "abc":
        if (obj := await autoscaler(world, cluster)) is not None:
            found[cluster] = (obj["spec"]["minReplicas"], obj["spec"]["maxReplicas"])
    return found


async def ready(world: World, cluster: str) -> int:
    ref = ObjectRef("apps/v1", "deployments", "feed", "web", "Deployment")
    try:
        found = await world.user(cluster).get(ref)
    except errors.NotFound:
        return 0
    return int(found["status"].get("readyReplicas", 0))


def test_a_service_follows_its_autoscalers_and_its_bounds_follow_its_shares() -> None:
    async def scenario(world: World) -> None:
        quota = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "20"}}}}
        await world.create("FederatedQuota", "", "feed", quota)
        spec = service(1, project="feed", autoscaling={"min": 6, "max": 30})
        await world.create(PSVC, "feed", "web", spec)
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 10, "b": 10, "c": 10}
        assert await bounds(world) == {"a": (2, 10), "b": (2, 10), "c": (2, 10)}
        now = await status(world)
        assert (now["desired"], now["ready"], now["replicas"]) == (6, 6, 6)
        assert now["summary"] == "6/6 ready in 3 clusters"
        account = await world.get("FederatedQuota", "", "feed")
        assert account is not None
        (usage,) = account["status"]["usage"]
        assert usage["used"]["cpu"] == "15"

        await want(world, "a", 9)
        await asyncio.sleep(30)
        await world.settle()
        now = await status(world)
        assert (now["desired"], now["ready"], now["updatedReplicas"]) == (13, 13, 13)
        rows = {row["cluster"]: row["ready"] for row in now["clusterStatuses"]}
        assert rows == {"a": 9, "b": 2, "c": 2}
        written = world.count()
        await asyncio.sleep(600)
        assert world.count() == written

        away = {"placement": {"clusters": {"exclude": ["a"]}}}
        await world.patch(PSVC, "feed", "web", {"spec": away})
        await world.settle()
        assert await world.shares("feed", "web") == {"b": 15, "c": 15}
        assert await bounds(world) == {"b": (3, 15), "c": (3, 15)}
        assert (await status(world))["desired"] == 6

        await world.patch(PSVC, "feed", "web", {"spec": {"autoscaling": {"max": 100}}})
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["status"] == "False"
        assert sum((await world.shares("feed", "web")).values()) == 40
        assert await bounds(world) == {"b": (2, 20), "c": (2, 20)}

    play(scenario)


def test_copies_beyond_what_is_charged_are_told_and_are_nobody_s_lie() -> None:
    """An autoscaler may go as far as its bounds where less than `max` is charged."""

    async def scenario(world: World) -> None:
        scaling = {"min": 6, "max": 90, "chargePercent": 0}
        await world.create(PSVC, "feed", "web", service(1, autoscaling=scaling))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 2, "b": 2, "c": 2}
        await want(world, "a", 12)
        await asyncio.sleep(30)
        await world.settle()

        now = await status(world)
        assert (now["desired"], now["ready"], now["replicas"], now["placed"]) == (16, 16, 16, 6)
        assert now["summary"] == "16/16 ready in 3 clusters"
        rows = {row["cluster"]: row["ready"] for row in now["clusterStatuses"]}
        assert rows == {"a": 12, "b": 2, "c": 2}
        cluster = await world.get("MemberCluster", "", "a")
        assert cluster is not None
        told = {one["type"]: one["status"] for one in cluster["status"]["conditions"]}
        assert told.get("Untrustworthy") != "True"
        await want(world, "a", 1)
        await asyncio.sleep(30)
        await world.settle()
        assert (await status(world))["desired"] == 6

    play(scenario)


def test_a_service_that_moves_keeps_what_its_autoscalers_may_ask_for_at_least() -> None:
    """What is charged is mostly copies that nobody asks for; they hold no place for those that
    serve.
    """

    async def scenario(world: World) -> None:
        only = {"clusters": {"names": ["a"]}}
        spec = service(1, autoscaling={"min": 4, "max": 20})
        await world.create(PSVC, "feed", "web", {**spec, "placement": only})
        await world.settle()
        assert (await status(world))["ready"] == 4
        least = 4

        async def watch() -> None:
            nonlocal least
            while True:
                least = min(least, sum([await ready(world, cluster) for cluster in "ab"]))
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(watch())
        away = {"placement": {"clusters": {"names": ["b"]}}}
        await world.patch(PSVC, "feed", "web", {"spec": away})
        await world.settle()
        watching.cancel()
        assert await world.shares("feed", "web") == {"b": 20}
        assert await bounds(world) == {"b": (4, 20)}
        assert least >= 3  # 25% of the fewest may be missing

    play(scenario)


def test_a_service_none_of_whose_copies_is_ready_is_not_available() -> None:
    async def scenario(world: World) -> None:
        spec = service(1, autoscaling={"min": 4, "max": 40})
        spec["template"]["metadata"] = {"annotations": {"embedded.federator/never-ready": "true"}}
        await world.create(PSVC, "feed", "web", spec)
        await asyncio.sleep(120)
        told = await world.condition(PSVC, "feed", "web", "Available")
        assert (told["status"], told["message"]) == ("False", "0 ready copies of at least 5.")

    play(scenario)


def test_a_service_gets_autoscalers_and_loses_them_while_it_serves() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        least = 12

        async def watch() -> None:
            nonlocal least
            while True:
                least = min(least, int((await status(world))["ready"]))
                await asyncio.sleep(0.2)

        watching = asyncio.create_task(watch())
        await world.patch(PSVC, "feed", "web", {"spec": {"autoscaling": {"min": 3, "max": 30}}})
        await world.settle()
        assert set((await bounds(world)).values()) == {(1, 10)}
        assert (await status(world))["ready"] == 12
        await world.patch(PSVC, "feed", "web", {"spec": {"autoscaling": None}})
        await world.settle()
        assert await bounds(world) == {}
        assert await world.shares("feed", "web") == {"a": 4, "b": 4, "c": 4}
        watching.cancel()
        assert least >= 9  # 25% may be missing while shares move

    play(scenario)


def test_a_rollout_of_an_autoscaled_service_is_complete_with_what_is_asked_for() -> None:
    async def scenario(world: World) -> None:
        spec = service(1, autoscaling={"min": 6, "max": 30})
        placement = {"rollout": {"maxClustersAtOnce": 1}}
        await world.create(PSVC, "feed", "web", {**spec, "placement": placement})
        await world.settle()
        await world.patch(PSVC, "feed", "web", {"spec": {"config": {"a.properties": "x=1"}}})
        await world.settle(600)
        now = await status(world)
        assert (now["ready"], now["updatedReplicas"], now["replicas"]) == (6, 6, 6)
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

    play(scenario)
