"""What an edit of a policy does to what runs: held where nothing else is admitted, moved at the
pace of the budget, left alone under Lazy until a rebalance is asked for.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.cli.planning import rebalance
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.model.names import WorkloadKey
from federator.sandbox.fleetfile import FleetSpec
from tests.unit.hub.world import World, jobset, play, service, small_fleet

LONG = {"embedded.federator/run-seconds": "3000"}
PSVC, CPP = "PinterestService", "ClusterPlacementPolicy"


async def policy(world: World, **spec: Any) -> None:
    await world.host.create(
        registry.KINDS[CPP].ref("", "where"),
        {
            "apiVersion": registry.KINDS[CPP].api_version,
            "kind": CPP,
            "metadata": {"name": "where"},
            "spec": spec,
        },
    )


async def edit(world: World, spec: Mapping[str, Any]) -> None:
    await world.host.patch(registry.KINDS[CPP].ref("", "where"), {"spec": spec})


async def decision(world: World, name: str = "web") -> Mapping[str, Any]:
    return next(
        one["spec"] for one in await world.decisions() if one["spec"]["workload"]["name"] == name
    )


async def ready(world: World, name: str = "web") -> int:
    """Ready copies in the members themselves."""
    counts = 0
    for cluster in world.federation.members:
        deployment = await world.get("Deployment", "feed", name, at=cluster)
        counts += ((deployment or {}).get("status") or {}).get("readyReplicas", 0)
    return counts


async def watched(world: World, seconds: int) -> int:
    """The fewest copies that were ready at any moment."""
    least = await ready(world)
    for _ in range(seconds * 4):
        await asyncio.sleep(0.25)
        least = min(least, await ready(world))
    return least


MISTAKES: tuple[Mapping[str, Any], ...] = (
    {"clusters": {"selector": {"matchLabels": {"zone": "z-aa"}}}},
    {"clusters": {"names": ["aa"]}},
    {"division": {"maxPerCluster": 1}},
    {"division": {"strategy": "Weighted", "weights": [{"weight": 0, "names": ["a", "b", "c"]}]}},
    {"division": {"maxClusters": 1}, "partial": "RequireAll"},
    {"division": {"groups": [{"name": "g", "names": ["nobody"]}]}},
    {
        "spread": [
            {
                "topologyKey": "zone",
                "minDomains": 9,
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ]
    },
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_no_edit_of_a_policy_takes_ready_copies_away(mistake: Mapping[str, Any]) -> None:
    async def scenario(world: World) -> None:
        await policy(world, workloads={})
        await world.create(PSVC, "feed", "web", service(12))
        await world.create("PinterestJobSet", "feed", "index", jobset(12, 6, annotations=LONG))
        await asyncio.sleep(30)
        slots = await world.slots("feed", "index")
        await edit(world, mistake)
        assert await watched(world, 60) >= 12 - 12 // 4
        assert await ready(world) == 12
        assert sum((await world.slots("feed", "index")).values()) == sum(slots.values())

    play(scenario)


def test_a_mistyped_selector_is_told_and_put_right_without_a_write_in_members() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"selector": {"matchLabels": {"zone": "z-a"}}})
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        world.writes.clear()
        await edit(world, {"clusters": {"selector": {"matchLabels": {"zone": "z-aa"}}}})
        await world.settle()
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "NoClusterAdmitted")
        assert (
            "zone=z-aa, the clusters have zone z-a, z-b, z-c (did you mean z-a?)"
            in placed["message"]
        )
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"
        events = (await world.host.list("events.k8s.io/v1", "events")).items
        told = [one for one in events if one["reason"] == "NoClusterAdmitted"]
        assert [one["type"] for one in told] == ["Warning"]
        await edit(world, {"clusters": {"selector": {"matchLabels": {"zone": "z-a"}}}})
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["reason"] == "Placed"
        slices = [
            key
            for key in world.writes
            if key[0] == "hub" and key[1] != "host" and "services" in key[3]
        ]
        assert slices == []

    play(scenario)


def test_a_policy_that_is_deleted_and_one_that_is_not_there_take_nothing_down() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a", "b"]})
        await world.create(PSVC, "feed", "web", service(12, placement={"policyRef": "where"}))
        await world.settle()
        ref = registry.KINDS[CPP].ref("", "where")
        await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
        assert await watched(world, 30) == 12
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["reason"] == "Misconfigured"

    play(scenario)


def wide() -> FleetSpec:
    return small_fleet(3, nodes=8)


@pytest.mark.long
def test_an_edit_moves_copies_at_the_pace_of_the_budget_over_all_workloads() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a"]}, moveBudget={"maxCopiesPerMinute": 6})
        for name in ("web", "api"):
            await world.create(PSVC, "feed", name, service(12))
        await world.settle()
        await asyncio.sleep(120)
        await edit(world, {"clusters": {"names": ["b"]}})
        await asyncio.sleep(10)
        moved = [(await world.shares("feed", name)).get("b", 0) for name in ("web", "api")]
        assert 6 <= sum(moved) <= 8
        waiting = [
            one for name in ("web", "api") if (one := await decision(world, name)).get("toMove")
        ]
        assert "are still to move, 6 a minute at most over all workloads" in waiting[0]["message"]
        name = waiting[0]["workload"]["name"]
        placed = await world.condition(PSVC, "feed", name, "Placed")
        assert (placed["status"], placed["reason"]) == ("True", "MovesPending")
        world.writes.clear()
        await asyncio.sleep(60)
        moved = [(await world.shares("feed", name)).get("b", 0) for name in ("web", "api")]
        assert 11 <= sum(moved) <= 15
        assert world.writes["hub", "host", "PATCH", "placementdecisions"] <= 8
        await asyncio.sleep(180)
        assert await world.shares("feed", "web") == await world.shares("feed", "api") == {"b": 12}
        assert "toMove" not in await decision(world)
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["reason"] == "Placed"

    play(scenario, fleet=wide())


def test_exclude_waits_for_no_budget_and_no_rebalance() -> None:
    async def scenario(world: World) -> None:
        slow = {"moveBudget": {"maxCopiesPerMinute": 1}, "onPolicyChange": "Lazy"}
        await policy(world, clusters={"names": ["a", "b"]}, **slow)
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await edit(world, {"clusters": {"exclude": ["a"]}})
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {"b": 12}

    play(scenario, fleet=wide())


def test_lazy_leaves_what_runs_and_obeys_for_what_is_new_until_a_rebalance_is_asked_for() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a"]}, onPolicyChange="Lazy")
        await world.create(PSVC, "feed", "web", service(10))
        await world.settle()
        await edit(world, {"clusters": {"names": ["b"]}})
        await world.settle()
        await asyncio.sleep(400)
        assert await world.shares("feed", "web") == {"a": 10}
        assert "federator rebalance" in (await decision(world))["message"]
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 14}})
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 10, "b": 4}

        await rebalance.ask(world.host, {WorkloadKey(PSVC, "feed", "web")})
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"b": 14}
        assert (await decision(world))["rebalanced"]

        await edit(world, {"clusters": {"names": ["c"]}})
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"b": 14}  # one request is for one edit

    play(scenario, fleet=wide())


def test_shards_of_a_job_set_wait_for_the_budget_as_a_whole_cluster() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a", "b"]}, onPolicyChange="Lazy")
        await world.create("PinterestJobSet", "feed", "index", jobset(12, 6, annotations=LONG))
        await asyncio.sleep(30)
        before = await world.slots("feed", "index")
        assert set(before) == {"a", "b"}
        await edit(world, {"clusters": {"names": ["c"]}})
        await asyncio.sleep(30)
        assert await world.slots("feed", "index") == before
        assert (await decision(world, "index"))["toMove"] == 6
        await edit(world, {"onPolicyChange": "Reconcile"})
        await asyncio.sleep(30)
        assert await world.slots("feed", "index") == {"c": 6}

    play(scenario, fleet=wide())


def test_slices_that_an_edit_leaves_go_within_the_budget_of_deletions_and_others_share_it() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a"]})
        names = [f"web-{number}" for number in range(6)]
        for name in names:
            await world.create(PSVC, "feed", name, service(2))
        await world.settle()
        await edit(world, {"clusters": {"names": ["b"]}})
        await asyncio.sleep(30)
        left = [name for name in names if await world.get(PSVC, "feed", name, at="a") is None]
        assert 2 <= len(left) <= 3, "two slices a minute, and half a minute's worth since"
        assert [await world.shares("feed", name) for name in names] == [{"b": 2}] * 6

        ref = registry.KINDS[PSVC].ref("feed", names[0])
        await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
        await asyncio.sleep(5)
        waits = [
            one["spec"].get("deletion")
            for one in await world.decisions()
            if "deletionTimestamp" not in one
        ]
        assert [one["reason"] for one in waits if one] == ["DeletionBudget"]
        await asyncio.sleep(300)
        assert [await world.get(PSVC, "feed", name, at="a") for name in names] == [None] * 6

    play(scenario, fleet=wide(), options=HubOptions(deletions_floor=2, deletions_permille=1))


def test_slices_that_a_person_scales_away_wait_for_nobody() -> None:
    async def scenario(world: World) -> None:
        for number in range(6):
            await world.create(PSVC, "feed", f"web-{number}", service(6))
        await world.settle()
        for number in range(6):
            await world.patch(PSVC, "feed", f"web-{number}", {"spec": {"replicas": 0}})
        await asyncio.sleep(15)
        held = [await world.get(PSVC, "feed", f"web-{n}", at=at) for n in range(6) for at in "abc"]
        assert held == [None] * 18

    play(scenario, fleet=wide(), options=HubOptions(deletions_floor=2, deletions_permille=1))


@pytest.mark.parametrize("pace", [0, -3, "0%", "101%", "30", "ten"])
def test_a_budget_that_cannot_be_followed_is_refused(pace: int | str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(errors.Invalid, match="maxCopiesPerMinute"):
            await policy(world, moveBudget={"maxCopiesPerMinute": pace})

    play(scenario)


def test_what_waits_says_so_anew_when_the_policy_becomes_lazy() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a"]}, moveBudget={"maxCopiesPerMinute": 1})
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await edit(world, {"clusters": {"names": ["b"]}})
        await asyncio.sleep(5)
        assert "1 a minute at most" in (await decision(world))["message"]
        await edit(world, {"onPolicyChange": "Lazy"})
        await asyncio.sleep(5)
        assert "federator rebalance" in (await decision(world))["message"]

    play(scenario, fleet=wide())


def test_a_hub_that_takes_over_counts_what_was_moved_within_the_minute() -> None:
    async def scenario(world: World) -> None:
        await policy(world, clusters={"names": ["a"]}, moveBudget={"maxCopiesPerMinute": 6})
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await edit(world, {"clusters": {"names": ["b"]}})
        await asyncio.sleep(5)
        assert (await world.shares("feed", "web"))["b"] == 6
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(15)
        assert 6 <= (await world.shares("feed", "web"))["b"] <= 9, (
            "another six would be twice the budget"
        )

    play(scenario, fleet=wide())
