"""Policies by properties of clusters in a running hub: edits of what operators state move copies, and
an expression with an error moves nothing."""

import asyncio
from typing import Any

from federator.kinds import registry
from tests.unit.hub.world import World, play, service

PSVC, PP, MC = "PinterestService", "PlacementPolicy", "MemberCluster"


async def policy(world: World, **clusters: Any) -> None:
    await world.create(PP, "feed", "where", {"clusters": clusters})


async def state(world: World, cluster: str, **spec: Any) -> None:
    await world.host.patch(registry.KINDS[MC].ref("", cluster), {"spec": spec})


def test_copies_follow_what_operators_state_and_an_error_moves_nothing() -> None:
    async def scenario(world: World) -> None:
        await state(world, "a", pricePerHour="1")
        await state(world, "b", pricePerHour="3")
        await policy(world, properties=[{"cel": "cluster.price < 2.0"}])
        await world.create(PSVC, "feed", "web", service(6, placement={"policyRef": "where"}))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 6}
        await state(world, "a", pricePerHour="5")
        await state(world, "b", pricePerHour="1.5")
        await asyncio.sleep(60)
        await world.settle()
        assert await world.shares("feed", "web") == {"b": 6}
        ref = registry.KINDS[PP].ref("feed", "where")
        bad = {"clusters": {"properties": [{"cel": "cluster.prize < 2.0"}]}}
        await world.host.patch(ref, {"spec": bad})
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"b": 6}
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert placed["reason"] == "Misconfigured"
        assert "spec.clusters.properties[0].cel: column 9" in placed["message"]

    play(scenario)
