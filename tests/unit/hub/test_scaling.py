"""Federations with autoscalers: copies that wait for nodes, nodes that come, come late or vanish."""

import asyncio
import dataclasses
from typing import Any

from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool, ScaleUp
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
MINUTES = 3


def growing(*, most: int = 4) -> FleetSpec:
    """a has one node and grows up to `most`; b has one and stays so."""
    scale_up = ScaleUp.model_validate({"max": most, "minutes": MINUTES, "pricePerHour": "0.5"})
    pool = Pool(count=1, cpu="8", memory="32Gi")
    grown = pool.model_copy(update={"scale_up": scale_up})
    return FleetSpec(
        members=[
            MemberSpec(name="a", nodes=[grown]),
            MemberSpec(name="b", nodes=[pool]),
        ]
    )


def change_pool(world: World, **fields: Any) -> None:
    """The autoscaler of a delivers otherwise than its MemberCluster states."""
    controllers = world.federation.members["a"].controllers
    assert controllers is not None
    assert controllers.scaler is not None
    controllers.scaler.pools = [
        dataclasses.replace(pool, **fields) for pool in controllers.scaler.pools
    ]


async def nodes(world: World, cluster: str) -> int:
    listed = await world.member(cluster).list("v1", "nodes")
    return len(listed.items)


async def events(world: World, reason: str) -> list[str]:
    listed = await world.host.list("events.k8s.io/v1", "events")
    return [event.get("note", "") for event in listed.items if event.get("reason") == reason]


def test_copies_wait_for_nodes_and_run_there() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(10, cpu="3"))
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {"a": 8, "b": 2}
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("True", "ScalingUp")
        assert "3 more nodes of a-0, in about 3 minutes, at 1.5 an hour" in placed["message"]
        (decision,) = await world.decisions()
        assert decision["spec"]["scaleUp"] == [
            {
                "cluster": "a",
                "class": "a-0",
                "nodes": 3,
                "copies": 6,
                "minutes": 3,
                "pricePerHour": "1.5",
            }
        ]
        await asyncio.sleep(MINUTES * 60 + 60)
        assert await world.ready_replicas("feed", "web") == 10
        assert await nodes(world, "a") == 4
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["reason"] == "Placed"
        assert await events(world, "ScaleUpLate") == []

    play(scenario, fleet=growing())


def test_a_second_workload_gets_no_node_that_the_first_waits_for() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(8, cpu="3"))
        await asyncio.sleep(30)
        await world.create(PSVC, "feed", "api", service(8, cpu="3"))
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 6, "b": 2}
        assert await world.shares("feed", "api") == {"a": 2}
        await asyncio.sleep(MINUTES * 60 + 60)
        assert await world.ready_replicas("feed", "web") == 8
        assert await world.ready_replicas("feed", "api") == 2
        assert await nodes(world, "a") == 4

    play(scenario, fleet=growing())


def test_nodes_that_never_come_are_given_up_after_twice_the_stated_minutes() -> None:
    async def scenario(world: World) -> None:
        change_pool(world, start_s=None)
        await world.create(PSVC, "feed", "web", service(6, cpu="3"))
        await asyncio.sleep(2 * MINUTES * 60 - 20)
        assert await world.shares("feed", "web") == {"a": 4, "b": 2}
        assert await events(world, "ScaleUpLate") == []
        await asyncio.sleep(60)
        (note,) = await events(world, "ScaleUpLate")
        assert note == (
            "Nodes of a-0 did not come within 6 minutes: none are counted on for 10 minutes."
        )
        await world.create(PSVC, "feed", "api", service(2, cpu="3"))
        await asyncio.sleep(10)
        assert await world.shares("feed", "api") == {}
        placed = await world.condition(PSVC, "feed", "api", "Placed")
        assert placed["reason"] == "InsufficientCapacity"

    play(scenario, fleet=growing())


def test_a_policy_that_never_scales_up_uses_free_room_only() -> None:
    async def scenario(world: World) -> None:
        body = service(10, cpu="3", placement={"scaleUp": "Never"})
        await world.create(PSVC, "feed", "web", body)
        await asyncio.sleep(400)
        assert await world.shares("feed", "web") == {"a": 2, "b": 2}
        assert await nodes(world, "a") == 1

    play(scenario, fleet=growing())


def test_consolidation_is_no_loss_of_a_cluster() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(10, cpu="3"))
        await asyncio.sleep(MINUTES * 60 + 60)
        assert await nodes(world, "a") == 4
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(1200)
        assert await nodes(world, "a") < 4
        assert await world.ready_replicas("feed", "web") == 4
        cluster = await world.get("MemberCluster", "", "a")
        assert cluster is not None
        ready = next(one for one in cluster["status"]["conditions"] if one["type"] == "Ready")
        assert ready["status"] == "True"

    play(scenario, fleet=growing())


def test_nodes_that_come_smaller_than_stated_hold_what_they_hold() -> None:
    """The copies that the smaller nodes do not hold are given up like those without a node."""

    async def scenario(world: World) -> None:
        change_pool(world, allocatable={"cpu": "4", "memory": "32Gi", "pods": "110"})
        await world.create(PSVC, "feed", "web", service(10, cpu="3"))
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {"a": 8, "b": 2}
        await asyncio.sleep(MINUTES * 60 + 60)
        assert await world.ready_replicas("feed", "web") == 7
        await asyncio.sleep(2 * MINUTES * 60)
        await world.create(PSVC, "feed", "api", service(4, cpu="3"))
        await asyncio.sleep(20)
        assert await world.shares("feed", "api") == {}

    play(scenario, fleet=growing())


def test_nodes_that_vanish_are_waited_for_again() -> None:
    async def scenario(world: World) -> None:
        change_pool(world, lives_s=400.0)
        await world.create(PSVC, "feed", "web", service(6, cpu="3"))
        await asyncio.sleep(MINUTES * 60 + 60)
        assert await world.ready_replicas("feed", "web") == 6
        await asyncio.sleep(400)
        cluster = await world.get("MemberCluster", "", "a")
        assert cluster is not None
        ready = next(one for one in cluster["status"]["conditions"] if one["type"] == "Ready")
        assert ready["status"] == "True"
        assert await world.shares("feed", "web") == {"a": 4, "b": 2}
        await asyncio.sleep(MINUTES * 60 + 60)
        assert await world.ready_replicas("feed", "web") == 6

    play(scenario, fleet=growing())


def test_a_class_delivers_again_when_a_node_of_it_comes_after_all() -> None:
    async def scenario(world: World) -> None:
        change_pool(world, start_s=2 * MINUTES * 60 + 60.0)
        await world.create(PSVC, "feed", "web", service(6, cpu="3"))
        await asyncio.sleep(2 * MINUTES * 60 + 40)
        assert len(await events(world, "ScaleUpLate")) == 1
        await asyncio.sleep(120)
        assert await world.ready_replicas("feed", "web") == 6
        await world.create(PSVC, "feed", "api", service(2, cpu="3"))
        await asyncio.sleep(20)
        assert await world.shares("feed", "api") == {"a": 2}

    play(scenario, fleet=growing())
