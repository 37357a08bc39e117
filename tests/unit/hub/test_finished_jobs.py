"""What shards hold, they give back when they are done: quota, room and their place among the
workloads of an account; and what a member has done is not done again elsewhere, recorded or not.
"""

import asyncio
from typing import Any

import pytest

from federator.api.placement.decisionfacts import decision_facts
from federator.kinds import labels, registry
from federator.model import shards
from federator.model.resources import Resources
from federator.model.shards import Ranges
from tests.unit.hub import test_leadership as leadership
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World, jobset, play, service

PJS = "PinterestJobSet"
FAILS = (
    500,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}',
)


def account(cpu: int = 12, **more: Any) -> dict[str, Any]:
    limits = {"cpu": str(cpu), "memory": "64Gi"}
    return {
        "projects": ["feed"],
        "namespaces": ["feed"],
        "tiers": {"OnDemand": {"max": limits}},
        **more,
    }


def ten(*, run_s: int = 2, cpu: str = "1", slots: int = 10) -> dict[str, Any]:
    return jobset(10, slots, cpu, {"embedded.federator/run-seconds": str(run_s)}) | {
        "project": "feed"
    }


async def done(world: World, name: str) -> int:
    found = await world.get(PJS, "feed", name)
    assert found is not None
    return int((found.get("status") or {}).get("done", 0))


async def used(world: World) -> tuple[str, int]:
    """What the account's status says of cpu and of workloads."""
    found = await world.get("FederatedQuota", "", "feed")
    assert found is not None
    (row,) = found["status"]["usage"]
    return row["used"].get("cpu", "0"), found["status"]["workloads"]


async def ran(world: World, cluster: str, name: str = "first") -> Ranges:
    """Shards of which a member has, or had, a Job."""
    found = await world.member(cluster).list("batch/v1", "jobs")
    pieces = [
        piece
        for job in found.items
        if job["metadata"]["name"].startswith(name)
        and (piece := labels.piece_of(job["metadata"]["annotations"]))
    ]
    return shards.normal(pieces)


async def has_done(world: World, cluster: str, name: str = "first") -> Ranges:
    """Shards that a member says are completed."""
    found = await world.get(PJS, "feed", name, at=cluster)
    return shards.parse((found or {}).get("status", {}).get("completedIndexes", ""))


async def restart(world: World) -> None:
    await world.federation.kill("hub")
    world.federation.start_hub()
    await asyncio.sleep(5)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    "limit", [account(), account(100, maxConcurrentWorkloads=1)], ids=["resources", "workloads"]
)
def test_the_next_job_set_is_admitted_when_the_first_is_done(
    limit: dict[str, Any], restarted: bool
) -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", limit)
        await world.create(PJS, "feed", "first", ten(run_s=30))
        await asyncio.sleep(10)
        await world.create(PJS, "feed", "second", ten())
        await asyncio.sleep(10)
        assert await world.slots("feed", "second") == {}

        await asyncio.sleep(20)
        if restarted:
            await restart(world)
        await world.settle()
        assert (await done(world, "first"), await done(world, "second")) == (10, 10)

        await asyncio.sleep(30)
        assert await used(world) == ("0", 0)

    play(scenario)


def test_a_job_set_that_was_done_before_the_hub_began_holds_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", account(maxConcurrentWorkloads=1))
        await world.create(PJS, "feed", "first", ten())
        await world.settle()
        await restart(world)
        await world.settle()
        assert not any(one.copies for one in world.federation.hub.state.commitments)

        await world.create("PinterestService", "feed", "web", service(12, "1", project="feed"))
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 12

    play(scenario)


def test_a_standby_knows_what_is_done_and_gives_it_to_the_next() -> None:
    async def scenario(pair: leadership.Pair) -> None:
        await pair.create("FederatedQuota", "", "feed", account())
        await pair.create(PJS, "feed", "first", ten())
        await pair.settle()
        old, new = pair.leader(), pair.standby()
        for name in (old, new):
            commitments = pair.federation.processes[name].state.commitments
            assert (
                sum((one.usage for one in commitments if one.key.kind == PJS), start=Resources())
                == Resources()
            ), name

        await pair.crash(old)
        await pair.until(new)
        await pair.create(PJS, "feed", "second", ten())
        await pair.settle()
        assert (await pair.host.get(registry.KINDS[PJS].ref("feed", "second")))["status"][
            "done"
        ] == 10

    leadership.play(scenario)


def test_shards_that_are_done_give_back_their_part_while_the_others_run() -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", account(8))
        await world.create(PJS, "feed", "first", ten(run_s=20, slots=8))
        await asyncio.sleep(5)
        await world.create("PinterestService", "feed", "web", service(6, "1", project="feed"))
        await asyncio.sleep(5)
        assert await world.shares("feed", "web") == {}

        await asyncio.sleep(20)  # two of ten shards are left
        assert await done(world, "first") == 8
        assert sum((await world.shares("feed", "web")).values()) == 6
        await asyncio.sleep(30)
        assert await used(world) == ("6", 1)

    play(scenario, fleet=worlds.small_fleet(2))


async def _kept_from(world: World, cluster: str, how: str) -> None:
    """`cluster` takes part no more, in one of the ways there are."""
    if how == "excluded":
        body = {"spec": {"placement": {"clusters": {"exclude": [cluster]}}}}
        await world.patch(PJS, "feed", "first", body)
    else:
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await world.patch("MemberCluster", "", cluster, {"spec": {"taints": [taint]}})


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("how", ["excluded", "tainted"])
def test_what_a_member_has_done_is_not_done_again_although_it_could_not_be_recorded(
    how: str, restarted: bool
) -> None:
    async def scenario(world: World) -> None:
        world.answer("host", "/first/status", *FAILS)
        spec = ten(run_s=8, slots=4) | {"placement": {"division": {"strategy": "Pack"}}}
        await world.create(PJS, "feed", "first", spec)
        await asyncio.sleep(14)
        (home,) = await world.slots("feed", "first")
        early = await has_done(world, home)
        assert 0 < shards.size(early) < 10
        assert await done(world, "first") == 0
        if restarted:
            await restart(world)

        await _kept_from(world, home, how)
        await asyncio.sleep(40)
        for other in sorted(set(world.federation.members) - {home}):
            assert shards.intersect(await ran(world, other), early) == ()
        assert await has_done(world, home) != ()  # the slice stays until the host has what it says

        world.clear()
        await asyncio.sleep(60)
        await world.settle()
        found = await world.get(PJS, "feed", "first")
        assert found is not None
        assert found["status"]["completedIndexes"] == "0-9"
        assert await world.get(PJS, "feed", "first", at=home) is None

    play(scenario)


def test_what_was_lost_with_the_member_before_it_was_recorded_is_done_again() -> None:
    async def scenario(world: World) -> None:
        world.answer("host", "/first/status", *FAILS)
        spec = ten(run_s=8, slots=4) | {"placement": {"division": {"strategy": "Pack"}}}
        await world.create(PJS, "feed", "first", spec)
        await asyncio.sleep(14)
        (home,) = await world.slots("feed", "first")
        await _kept_from(world, home, "excluded")
        await asyncio.sleep(10)
        lost = await world.get(PJS, "feed", "first", at=home)
        assert lost is not None
        await world.member(home).delete(
            registry.KINDS[PJS].ref("feed", "first"), uid=lost["metadata"]["uid"]
        )
        await asyncio.sleep(10)
        world.clear()
        await asyncio.sleep(60)
        await world.settle()
        assert await done(world, "first") == 10

    play(scenario)


def test_what_the_host_records_no_longer_and_no_member_tells_is_done_again() -> None:
    async def scenario(world: World) -> None:
        spec = ten(run_s=8, slots=4) | {"placement": {"division": {"strategy": "Pack"}}}
        await world.create(PJS, "feed", "first", spec)
        await asyncio.sleep(14)
        (home,) = await world.slots("feed", "first")
        await _kept_from(world, home, "excluded")
        await world.settle()
        await asyncio.sleep(30)
        assert await world.get(PJS, "feed", "first", at=home) is None

        forgotten = {"status": {"completedIndexes": "", "done": 0}}
        await world.host.patch(
            registry.KINDS[PJS].ref("feed", "first"), forgotten, subresource="status"
        )
        await asyncio.sleep(30)
        await world.settle()
        assert await done(world, "first") == 10

    play(scenario)


def test_a_member_says_nothing_about_shards_that_it_was_not_given() -> None:
    async def scenario(world: World) -> None:
        world.answer("host", "/first/status", *FAILS)
        await world.create(
            PJS,
            "feed",
            "first",
            ten(run_s=600) | {"placement": {"division": {"strategy": "Spread"}}},
        )
        await asyncio.sleep(10)
        assert len(await world.slots("feed", "first")) == 3
        await world.federation.kill("member a")
        kind = registry.KINDS[PJS]
        claim = {"status": {"completedIndexes": "0-9"}}
        await world.member("a").patch(kind.ref("feed", "first"), claim, subresource="status")
        await _kept_from(world, "b", "excluded")
        await asyncio.sleep(10)
        (decision,) = await world.decisions()
        shares = {share.cluster: share.ranges for share in decision_facts(decision).shares}
        assert "b" not in shares
        assert shards.normal(one for ranges in shares.values() for one in ranges) == ((0, 9),)

    play(scenario)


def test_who_waits_for_a_turn_is_told_so_although_it_waited_for_an_amount_before() -> None:
    async def scenario(world: World) -> None:
        limits = account(10, maxConcurrentWorkloads=2)
        await world.create("FederatedQuota", "", "feed", limits)
        for name, copies in (("first", 9), ("second", 5)):
            asked = service(copies, "1", project="feed", placement={"partial": "RequireAll"})
            await world.create("PinterestService", "feed", name, asked)
            await world.settle()
        (waits,) = [one["spec"] for one in await world.decisions() if not one["spec"]["shares"]]
        assert "max" in waits["message"]

        await world.patch("PinterestService", "feed", "first", {"spec": {"replicas": 1}})
        third = service(5, "1", project="feed")
        await world.create("PinterestService", "feed", "third", third)
        await world.settle()
        (waits,) = [one["spec"] for one in await world.decisions() if not one["spec"]["shares"]]
        assert "allows 2 workloads at a time" in waits["message"]

    play(scenario)
