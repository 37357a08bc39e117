"""A cluster is drained at a pace, with the promised number of copies ready all the time; stopped
and gone on with; and refused, in words, when somebody would have no other place.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.cli.clusters import draining
from federator.hub.options import HubOptions
from federator.model.steps import ObjectRef
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.unit.hub.world import World, jobset, play, service, small_fleet

PSVC, PJS, CLUSTER = "PinterestService", "PinterestJobSet", "MemberCluster"
LONG = {"embedded.federator/run-seconds": "600"}


async def drain(world: World, name: str, **how: Any) -> None:
    await world.patch(CLUSTER, "", name, {"spec": {"drain": how}})


async def undrain(world: World, name: str) -> None:
    await world.patch(CLUSTER, "", name, {"spec": {"drain": None}})


async def said(world: World, name: str) -> dict[str, Any]:
    return await world.condition(CLUSTER, "", name, "Draining")


async def progress(world: World, name: str) -> Mapping[str, Any]:
    found = await world.get(CLUSTER, "", name)
    assert found is not None
    return dict(found["status"].get("drain") or {})


async def ready(world: World, name: str = "web") -> int:
    counts = 0
    for cluster in world.federation.members:
        deployment = await world.get("Deployment", "feed", name, at=cluster)
        counts += ((deployment or {}).get("status") or {}).get("readyReplicas", 0)
    return counts


async def until(world: World, name: str, reason: str, seconds: int = 120, *, least: int = 0) -> int:
    """Waits for the reason of a drain; returns the fewest copies of `web` that were ready
    meanwhile.
    """
    lowest = await ready(world)
    for _ in range(seconds * 4):
        await asyncio.sleep(0.25)
        lowest = min(lowest, await ready(world))
        assert lowest >= least
        if (await said(world, name)).get("reason") == reason:
            return lowest
    raise AssertionError(f"{name}: {await said(world, name)}")


async def events(world: World, kind: str = CLUSTER) -> list[str]:
    found = (await world.host.list("events.k8s.io/v1", "events")).items
    return sorted(one["reason"] for one in found if one["regarding"]["kind"] == kind)


def test_a_drain_empties_a_cluster_with_what_was_promised_ready_all_the_time() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        assert held > 0
        await drain(world, "a")
        await until(world, "a", "Emptied", least=9)  # maxUnavailable is 25 % of 12
        assert "a" not in await world.shares("feed", "web")
        assert await world.get("Deployment", "feed", "web", at="a") is None
        assert (await progress(world, "a"))["copies"] == held
        assert (await progress(world, "a"))["left"] == 0
        assert await events(world) == ["Draining", "Emptied"]
        assert "Pods may still be ending" in (await said(world, "a"))["message"]
        assert "Drained" in await events(world, PSVC)
        (decision,) = await world.decisions()
        assert "drain of a" in decision["spec"]["causes"]
        await world.create(PSVC, "feed", "new", service(12))  # new work keeps away
        await world.settle()
        assert "a" not in await world.shares("feed", "new")
        await undrain(world, "a")
        await world.create(PSVC, "feed", "newer", service(24))
        await world.settle()
        assert "a" in await world.shares("feed", "newer")
        assert await said(world, "a") == {}
        assert await progress(world, "a") == {}
        assert "a" not in await world.shares("feed", "web")  # nothing moves back by itself

    play(scenario)


@pytest.mark.long
def test_the_pace_holds_over_two_drains_and_stops_when_the_wish_is_taken_away() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(80, cpu="100m"))
        await world.settle()
        at_first = await world.shares("feed", "web")
        both = at_first["a"] + at_first["b"]
        await drain(world, "a")
        await drain(world, "b")
        await asyncio.sleep(30)
        then = await world.shares("feed", "web")
        moved = both - then.get("a", 0) - then.get("b", 0)
        assert 10 <= moved <= 14  # 24 a minute over both, in portions of 2 in five seconds
        assert (await said(world, "a"))["reason"] == "Emptying"
        figures = await progress(world, "a")
        assert figures["estimatedEnd"] > figures["since"]
        await undrain(world, "a")
        await undrain(world, "b")
        await asyncio.sleep(5)
        stood = await world.shares("feed", "web")
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == stood
        await drain(world, "b")
        await until(world, "b", "Emptied", 240, least=60)
        assert (await world.shares("feed", "web")).get("a", 0) >= stood["a"]

    play(scenario, fleet=small_fleet(4), options=HubOptions(evacuated_copies_a_minute=24))


def test_a_drain_that_would_leave_somebody_no_place_is_refused_with_who_and_how_much() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(40, cpu="2"))  # 16 fit in each cluster
        await world.settle()
        at_first = await world.shares("feed", "web")
        await drain(world, "a")
        await asyncio.sleep(20)
        told = await said(world, "a")
        assert (told["status"], told["reason"]) == ("False", "Refused")
        assert "PinterestService/feed/web" in told["message"]
        assert "would have no other place" in told["message"]
        assert await world.shares("feed", "web") == at_first
        assert await events(world) == ["DrainRefused"]
        await asyncio.sleep(30)
        written = world.count()
        await asyncio.sleep(120)
        assert world.count() == written
        await drain(world, "a", force=True)
        await until(world, "a", "Waiting", least=30)
        then = await world.shares("feed", "web")
        assert sum(then.values()) == 40
        assert 0 < then["a"] < at_first["a"]
        (stays,) = (await progress(world, "a"))["stays"]
        assert stays["workload"] == "PinterestService/feed/web"
        assert stays["copies"] == then["a"]
        assert "no other place" in stays["why"]
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 20}})  # room at last
        await until(world, "a", "Emptied", 120)
        assert sum((await world.shares("feed", "web")).values()) == 20

    play(scenario)


def test_the_last_cluster_that_admits_a_workload_is_not_drained() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(4, placement={"clusters": {"names": ["a"]}})
        )
        await world.settle()
        await drain(world, "a")
        await asyncio.sleep(10)
        told = await said(world, "a")
        assert told["reason"] == "Refused"
        assert "4 of 4" in told["message"]
        assert await world.shares("feed", "web") == {"a": 4}
        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"names": ["a", "b"]}}}}
        )
        await until(world, "a", "Emptied", 60, least=3)
        assert await world.shares("feed", "web") == {"b": 4}

    play(scenario)


@pytest.mark.parametrize("finish_s", [0, 120])
def test_job_sets_may_finish_for_a_while_and_are_then_restarted_elsewhere(finish_s: int) -> None:
    async def scenario(world: World) -> None:
        spec = jobset(8, 8, annotations=LONG)
        await world.create(PJS, "feed", "run", spec)
        await asyncio.sleep(10)
        first = min(await world.slots("feed", "run"))
        await drain(world, first, jobsFinishSeconds=finish_s)
        await asyncio.sleep(20)
        if finish_s:
            told = await said(world, first)
            assert told["reason"] == "Waiting"
            assert "may run on until" in told["message"]
            assert first in await world.slots("feed", "run")
        await until(world, first, "Emptied", 200)
        then = await world.slots("feed", "run")
        assert first not in then
        assert sum(then.values()) == 8

    play(scenario)


@pytest.mark.long
def test_a_drain_outlives_the_hub_and_a_pause_holds_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(60, cpu="100m"))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        await drain(world, "a")
        await asyncio.sleep(20)
        begun = await progress(world, "a")
        assert 0 < begun["left"] < held
        await world.federation.kill("hub")
        await asyncio.sleep(10)
        world.federation.start_hub()
        await until(world, "a", "Emptied", 300, least=45)
        after = await progress(world, "a")
        assert (after["since"], after["copies"]) == (begun["since"], held)

    play(scenario, options=HubOptions(evacuated_copies_a_minute=24))


def test_what_cannot_become_ready_elsewhere_stops_a_drain_instead_of_being_followed() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(60, cpu="100m"))
        await world.settle()
        fleet_ready = await ready(world)
        for cluster in ("b", "c"):
            for node in (await world.member(cluster).list("v1", "nodes")).items:
                await world.member(cluster).patch(
                    ref_of_node(node["metadata"]["name"]), {"spec": {"unschedulable": True}}
                )
        await drain(world, "a", force=True)
        await asyncio.sleep(60)
        assert await ready(world) >= fleet_ready - 15

    play(scenario, options=HubOptions(evacuated_copies_a_minute=6))


def ref_of_node(name: str) -> ObjectRef:
    return ObjectRef("v1", "nodes", "", name, "Node")


def test_a_silent_cluster_is_not_drained_until_it_is_heard() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        at_first = await world.shares("feed", "web")
        world.turn_away("a")
        await asyncio.sleep(60)
        await drain(world, "a")
        await asyncio.sleep(30)
        told = await said(world, "a")
        assert (told["status"], told["reason"]) == ("False", "NotHeard")
        assert await world.shares("feed", "web") == at_first
        world.clear()
        await until(world, "a", "Emptied", 120, least=9)

    play(scenario)


def test_a_fleet_without_a_drain_writes_nothing_for_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await asyncio.sleep(60)
        written = world.count()
        await asyncio.sleep(300)
        assert world.count() == written
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        assert "drain" not in found["status"]

    play(
        scenario,
        fleet=FleetSpec(
            members=[MemberSpec(name="a", nodes=[Pool(count=2, cpu="8", memory="32Gi")])]
        ),
    )


def test_the_watch_of_a_drain_says_that_the_cluster_is_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await world.cut("a")
        await asyncio.sleep(60)
        await drain(world, "a")
        await asyncio.sleep(10)
        watch = draining.Watch(world.host, {"a": 1})
        assert not await watch.look()
        world.heal()
        await asyncio.sleep(60)
        await watch.look()

    play(scenario)

    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("a: it is unreachable; the drain continues afterwards. FailingOver, ")
    assert second.startswith(("a: Emptying: ", "a: Emptied: "))


def test_a_cluster_that_is_restored_from_a_backup_during_its_drain_is_emptied_again() -> None:
    """The backup knows nothing of the drain: the slice is there again, and copies run."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        cluster = world.federation.members["a"]
        backup = await world.get(PSVC, "feed", "web", at="a")
        assert backup is not None
        await drain(world, "a")
        await until(world, "a", "Emptied", least=9)
        then = await world.shares("feed", "web")
        resource = cluster.registry.get("pinterest.com", "pinterestservices")
        assert resource is not None
        cluster.store.restore(resource, backup)
        member = world.federation.hub.state.members["a"]
        member.on_rewind(member)
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert await world.get("Deployment", "feed", "web", at="a") is None
        assert await world.shares("feed", "web") == then
        assert (await said(world, "a"))["reason"] == "Emptied"
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 12
        assert "MemberWentBack" in await events(world)

    play(scenario)
