"""Affinity and anti-affinity between workloads in a running hub: who waits is decided again when
others have copies elsewhere, and every command gives the same answer."""

import asyncio
from typing import Any

from federator.kinds import registry
from federator.model.names import WorkloadKey
from tests.unit.hub.world import World, play, service, small_fleet
from tests.unit.scheduling.test_sameness import compared

PSVC, PP, MC = "PinterestService", "PlacementPolicy", "MemberCluster"


async def policy(world: World, name: str, **spec: Any) -> None:
    await world.create(PP, "feed", name, spec)


async def run(world: World, name: str, replicas: int, app: str, **placement: Any) -> None:
    await world.host.create(
        registry.KINDS[PSVC].ref("feed", name),
        {
            "apiVersion": registry.KINDS[PSVC].api_version,
            "kind": PSVC,
            "metadata": {"name": name, "namespace": "feed", "labels": {"app": app}},
            "spec": service(replicas, placement=placement or None),
        },
    )


async def remove(world: World, name: str) -> None:
    obj = await world.get(PSVC, "feed", name)
    assert obj is not None
    await world.host.delete(registry.KINDS[PSVC].ref("feed", name), uid=obj["metadata"]["uid"])


def near(app: str) -> dict[str, Any]:
    return {"affinity": [{"selector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}]}


def away(app: str) -> dict[str, Any]:
    return {"antiAffinity": [{"selector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}]}


def test_a_workload_follows_another_as_soon_as_that_has_copies() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(60)  # the capacity of members is on the host too
        await policy(world, "follow", workloadAffinity=near("cache"))
        await run(world, "front", 4, "front", policyRef="follow")
        await asyncio.sleep(20)
        placed = await world.condition(PSVC, "feed", "front", "Placed")
        assert placed["reason"] == "WorkloadAffinity"
        assert "no workload of the namespace that matches app=cache" in placed["message"]
        await run(world, "cache", 2, "cache", clusters={"names": ["b"]})
        await asyncio.sleep(3)  # less than the first retry
        await world.settle()
        assert await world.shares("feed", "front") == {"b": 4}
        assert (await compared(world))[WorkloadKey(PSVC, "feed", "front")].shortfall == 0

    play(scenario, fleet=small_fleet(3))


def test_anti_affinity_holds_for_both_and_ends_with_the_workload() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(60)  # the capacity of members is on the host too
        await policy(world, "shy", workloadAffinity=away("loud"), clusters={"names": ["a"]})
        await run(world, "quiet", 2, "quiet", policyRef="shy")
        await world.settle()
        assert await world.shares("feed", "quiet") == {"a": 2}
        await run(world, "loud", 4, "loud", clusters={"names": ["a"]})
        await asyncio.sleep(10)
        placed = await world.condition(PSVC, "feed", "loud", "Placed")
        assert placed["reason"] == "WorkloadAffinity"
        assert "PinterestService quiet" in placed["message"]
        assert (await compared(world))[WorkloadKey(PSVC, "feed", "loud")].shortfall == 4
        await asyncio.sleep(600)  # retries are rare by now
        await remove(world, "quiet")
        await asyncio.sleep(20)
        await world.settle()
        assert await world.shares("feed", "loud") == {"a": 4}

    play(scenario, fleet=small_fleet(3))


def test_running_copies_stay_when_a_policy_gets_terms() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(60)  # the capacity of members is on the host too
        await policy(world, "shy", clusters={"names": ["a", "b"]})
        await run(world, "quiet", 4, "quiet", policyRef="shy")
        await run(world, "loud", 2, "loud", clusters={"names": ["a"]})
        await world.settle()
        before = await world.shares("feed", "quiet")
        assert before.get("a")
        ref = registry.KINDS[PP].ref("feed", "shy")
        await world.host.patch(ref, {"spec": {"workloadAffinity": away("loud")}})
        await asyncio.sleep(60)
        await world.settle()
        assert await world.shares("feed", "quiet") == before
        await world.host.patch(registry.KINDS[PSVC].ref("feed", "quiet"), {"spec": {"replicas": 9}})
        await world.settle()
        after = await world.shares("feed", "quiet")
        assert (after["a"], sum(after.values())) == (before["a"], 9)

    play(scenario, fleet=small_fleet(3))
