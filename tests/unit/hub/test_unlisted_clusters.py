"""A MemberCluster that lists do not show, and that the host has when asked for it by name, has not
left the fleet.
"""

import asyncio
from typing import Any

import msgspec

from federator.kinds import registry
from tests.unit.hub.test_probing import restart
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
KIND = registry.KINDS["MemberCluster"]
PATH = "/memberclusters"


async def lists_are_stale(world: World) -> None:
    """Lists and watches of MemberClusters come of an API server that has heard of none of them."""
    empty: dict[str, Any] = {
        "apiVersion": KIND.api_version,
        "kind": "MemberClusterList",
        "items": [],
    }
    empty["metadata"] = {"resourceVersion": "1"}
    world.answer("host", PATH, 200, msgspec.json.encode(empty))


async def holdings(world: World) -> dict[str, str]:
    """The uid of the slice in every member."""
    found = {name: await world.get(PSVC, "feed", "web", at=name) for name in "abc"}
    return {name: obj["metadata"]["uid"] for name, obj in found.items() if obj is not None}


def test_a_hub_that_starts_with_a_stale_list_of_clusters_decides_and_removes_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        shares, held = await world.shares("feed", "web"), await holdings(world)
        assert set(held) == set("abc")
        await lists_are_stale(world)
        world.writes.clear()
        await restart(world)
        await asyncio.sleep(30)
        assert world.count() == 0, dict(world.writes)
        assert world.reads["hub", "host", f"/apis/{KIND.api_version}{PATH}/a"] > 1

        world.clear()
        await asyncio.sleep(60)
        assert (await world.shares("feed", "web"), await holdings(world)) == (shares, held)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 9

    play(scenario)


def test_a_fleet_that_vanishes_from_lists_alone_stays_and_one_that_is_gone_by_name_goes() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        shares, held = await world.shares("feed", "web"), await holdings(world)
        await lists_are_stale(world)
        await world.links.end_streams("host")
        await asyncio.sleep(200)
        assert (await world.shares("feed", "web"), await holdings(world)) == (shares, held)

        world.clear()
        await asyncio.sleep(90)
        found = await world.get("MemberCluster", "", "c")
        assert found is not None
        await world.host.delete(KIND.ref("", "c"), uid=found["metadata"]["uid"])
        await asyncio.sleep(120)
        assert await world.get("MemberCluster", "", "c") is None
        assert set(await world.shares("feed", "web")) == {"a", "b"}
        assert set(await holdings(world)) == {"a", "b"}
        fresh = await world.shares("feed", "web")
        assert sum(fresh.values()) == 6

    play(scenario)


def test_a_cluster_that_may_have_left_keeps_its_copies_and_gets_no_new_ones() -> None:
    """Its MemberCluster is deleted by force, and the host does not answer whether it is gone."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 2, "b": 2, "c": 2}
        world.answer("host", f"{PATH}/b", 503)
        store = world.federation.host.store
        store.delete(
            world.federation.host.registry.get(KIND.group, KIND.plural), "", "b", finalizers=()
        )
        await asyncio.sleep(1)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await asyncio.sleep(5)
        assert await world.shares("feed", "web") == {"a": 5, "b": 2, "c": 5}

        world.clear()
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"a": 6, "c": 6}

    play(scenario)


def test_a_cluster_that_is_listed_again_gets_new_copies() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await lists_are_stale(world)
        await world.links.end_streams("host")
        await asyncio.sleep(200)
        world.clear()
        await asyncio.sleep(60)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 4, "b": 4, "c": 4}

    play(scenario)


def test_a_hub_without_the_right_to_ask_by_name_believes_lists_and_leads() -> None:
    """It was upgraded, and its role was not."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        refusal = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "reason": "Forbidden",
            "code": 403,
        }
        world.answer("host", f"{PATH}/c", 403, msgspec.json.encode(refusal))
        found = await world.get("MemberCluster", "", "c")
        assert found is not None
        await world.host.delete(KIND.ref("", "c"), uid=found["metadata"]["uid"])
        await asyncio.sleep(120)
        await restart(world)
        await world.settle()
        assert set(await world.shares("feed", "web")) == set("ab")

    play(scenario)
