"""What has no room or no quota: told with its reason, moved after a while, and given when there is
some.
"""

import asyncio

import pytest

from federator.hub.options import HubOptions
from tests.unit.hub.taints import taint_all, throw_out
from tests.unit.hub.world import World, jobset, play, service, small_fleet

PSVC = "PinterestService"


def test_a_shortfall_is_settled_with_its_reason_and_ends_when_room_appears() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "big", service(12, cpu="3"))
        await world.settle()
        await world.create(PSVC, "feed", "web", service(12, cpu="3"))
        await world.settle()
        short = await world.condition(PSVC, "feed", "web", "Placed")
        assert short["status"] == "False"
        assert short["reason"] == "InsufficientCapacity"
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["placed"] < 12

        await world.delete(PSVC, "feed", "big")
        await asyncio.sleep(30)
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["status"] == "True"

    play(scenario, fleet=small_fleet(2, nodes=4))


def test_quota_admits_what_fits_and_the_rest_when_it_is_freed() -> None:
    async def scenario(world: World) -> None:
        limits = {"cpu": "4", "memory": "8Gi"}
        await world.create(
            "FederatedQuota",
            "",
            "feed",
            {
                "projects": ["feed"],
                "namespaces": ["feed"],
                "tiers": {"OnDemand": {"guaranteed": limits, "max": limits}},
            },
        )
        await world.create(PSVC, "feed", "one", service(6, project="feed"))
        await world.settle()
        await world.create(PSVC, "feed", "two", service(6, project="feed"))
        await world.settle()
        two = await world.condition(PSVC, "feed", "two", "Placed")
        assert two["status"] == "False"
        assert "feed" in two["message"]
        assert sum((await world.shares("feed", "two")).values()) == 2

        await world.delete(PSVC, "feed", "one")
        await asyncio.sleep(30)
        await world.settle()
        assert sum((await world.shares("feed", "two")).values()) == 6

    play(scenario)


@pytest.mark.parametrize("thrown_out", [1, 3])
@pytest.mark.parametrize("kind", [PSVC, "Deployment"])
def test_as_many_copies_as_a_member_cannot_schedule_move_elsewhere_after_a_while(
    kind: str, thrown_out: int
) -> None:
    """And no more, whatever the member still says of the larger share (simulation seed 1713)."""

    async def scenario(world: World) -> None:
        placement = {"clusters": {"names": ["a", "b"]}}
        if kind == PSVC:
            await world.create(kind, "feed", "web", service(6, cpu="6", placement=placement))
        else:
            template = {"metadata": {"labels": {"app": "web"}}, **service(6, cpu="6")["template"]}
            await world.create(
                "PlacementPolicy", "feed", "two", {"workloads": {"kinds": [kind]}, **placement}
            )
            await world.create(
                kind,
                "feed",
                "web",
                {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": template},
            )
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 3, "b": 3}
        # The nodes of a turn away new pods without telling the capacity report in time.
        await taint_all(world, "a", 8)
        await throw_out(world, "a", thrown_out)
        await asyncio.sleep(240)
        after = await world.shares("feed", "web")
        assert (after.get("a", 0), after["b"]) == (3 - thrown_out, 3 + thrown_out)

    play(scenario, fleet=small_fleet(2, nodes=8))


@pytest.mark.parametrize("thrown_out", [1, 3])
def test_slots_whose_shards_a_member_cannot_schedule_move_elsewhere_after_a_while(
    thrown_out: int,
) -> None:
    """Of a job set there are many more shards than slots: it is the slots that are counted."""

    async def scenario(world: World) -> None:
        long = {"embedded.federator/run-seconds": "100000"}
        placement = {"clusters": {"names": ["a", "b"]}}
        await world.create(
            "PinterestJobSet", "feed", "index", jobset(40, 6, "6", long) | {"placement": placement}
        )
        await asyncio.sleep(30)
        assert await world.slots("feed", "index") == {"a": 3, "b": 3}
        await taint_all(world, "a", 8)
        await throw_out(world, "a", thrown_out)
        await asyncio.sleep(240)
        after = await world.slots("feed", "index")
        assert (after.get("a", 0), after["b"]) == (3 - thrown_out, 3 + thrown_out)

    play(scenario, fleet=small_fleet(2, nodes=8))


def test_a_quota_shows_what_its_projects_use() -> None:
    async def scenario(world: World) -> None:
        limits = {"cpu": "4", "memory": "8Gi"}
        tiers = {"OnDemand": {"guaranteed": limits, "max": limits}}
        await world.create(
            "FederatedQuota",
            "",
            "feed",
            {"projects": ["feed"], "namespaces": ["feed"], "tiers": tiers},
        )
        await world.create(PSVC, "feed", "web", service(6, project="feed"))
        await world.settle()
        await asyncio.sleep(10)
        found = await world.get("FederatedQuota", "", "feed")

        assert found is not None
        assert found["status"]["workloads"] == 1
        assert found["status"]["usage"][0]["used"]["cpu"] == "3"
        assert found["status"]["summary"] == "OnDemand 3 of 4 cpu"

    play(scenario)


def test_of_two_that_are_woken_at_once_the_one_with_fewer_places_is_decided_first() -> None:
    """By age and key the one that fits in both clusters would go first, and half of the other's
    room with it.
    """

    async def scenario(world: World) -> None:
        await world.patch("MemberCluster", "", "a", {"spec": {"cordoned": True}})
        await world.settle()
        both = {"partial": "RequireAll"}
        await world.create(PSVC, "feed", "both", service(12, cpu="1", placement=both))
        await world.settle()
        only_a = {"clusters": {"names": ["a"]}}
        await world.create(PSVC, "feed", "only-a", service(4, cpu="1", placement=only_a))
        await world.settle()
        await world.patch("MemberCluster", "", "a", {"spec": {"cordoned": False}})
        await asyncio.sleep(30)
        await world.settle()
        assert await world.shares("feed", "only-a") == {"a": 4}
        assert await world.shares("feed", "both") == {"a": 4, "b": 8}

    play(scenario, fleet=small_fleet(2, nodes=1), options=HubOptions(batches_at_once=1))
