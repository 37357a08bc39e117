"""A cluster that a person declared dead: its copies get another place, at a pace and within quota;
when it is heard again nothing that is decided there is deleted, and what is only silent never
moves.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.options import HubOptions
from tests.faults.links import Cut
from tests.unit.hub.world import World, jobset, play, service

BY_WORD = {"failover": {"when": "Dead"}}
PSVC, PJS, CLUSTER = "PinterestService", "PinterestJobSet", "MemberCluster"


async def silent(world: World, name: str) -> str:
    """The cluster falls silent; returns since when."""
    await world.cut(name)
    await asyncio.sleep(80)
    found = await world.get(CLUSTER, "", name)
    assert found is not None
    return str(found["status"]["lastHeard"])


async def declare(world: World, name: str, word: str | None) -> None:
    await world.patch(CLUSTER, "", name, {"spec": {"declaredDead": word}})


async def said(world: World, name: str, which: str = "Dead") -> Mapping[str, Any]:
    return await world.condition(CLUSTER, "", name, which)


async def until(world: World, name: str, reason: str, seconds: int = 200) -> None:
    for _ in range(seconds):
        await asyncio.sleep(1)
        if (await said(world, name)).get("reason") == reason:
            return
    raise AssertionError(f"{name}: {await said(world, name)}")


async def events(world: World, kind: str) -> list[str]:
    found = (await world.host.list("events.k8s.io/v1", "events")).items
    return [one["reason"] for one in found if one["regarding"]["kind"] == kind]


def test_the_silent_stay_and_what_was_declared_dead_gets_another_place_within_its_quota() -> None:
    """All of a quota of twelve copies is in use: what is lost is not counted twice."""

    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"guaranteed": {"cpu": "6"}}}
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": tiers})
        await world.create(PSVC, "feed", "web", service(12, project="feed", placement=BY_WORD))
        await world.settle()
        at_first = await world.shares("feed", "web")
        assert at_first["a"] > 0
        word = await silent(world, "a")
        await asyncio.sleep(600)
        assert await world.shares("feed", "web") == at_first  # silence alone moves nothing
        assert await said(world, "a") == {}
        await declare(world, "a", word)
        await until(world, "a", "Moved")
        then = await world.shares("feed", "web")
        assert "a" not in then
        assert sum(then.values()) == 12
        await asyncio.sleep(30)
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 12
        assert "FailedOver" in await events(world, PSVC)
        assert {"DeclaredDead", "Moved"} <= set(await events(world, CLUSTER))
        (decision,) = await world.decisions()
        assert "failover from a" in decision["spec"]["causes"]

    play(scenario)


def test_a_dead_cluster_heard_again_keeps_what_is_decided_and_loses_what_has_moved() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "moves", service(12))
        await world.create(
            PSVC, "feed", "stays", service(4, placement={"clusters": {"names": ["a"]}})
        )
        await world.settle()
        word = await silent(world, "a")
        await declare(world, "a", word)
        await until(world, "a", "Waiting")
        told = await said(world, "a")
        assert "PinterestService/feed/stays" in told["message"]
        assert "a" not in await world.shares("feed", "moves")
        assert await world.shares("feed", "stays") == {"a": 4}  # nobody leaves for nowhere
        uid = (await world.get("Deployment", "feed", "stays", at="a") or {})["metadata"]["uid"]
        world.heal()
        await asyncio.sleep(60)
        assert (await world.get("Deployment", "feed", "stays", at="a") or {})["metadata"][
            "uid"
        ] == uid
        assert await world.get(PSVC, "feed", "moves", at="a") is None
        assert await said(world, "a") == {}
        assert "HeardAgain" in await events(world, CLUSTER)
        await world.create(PSVC, "feed", "new", service(12))  # it takes new work again
        await world.settle()
        assert "a" in await world.shares("feed", "new")

    play(scenario)


@pytest.mark.long
def test_a_word_is_about_one_silence_and_a_later_one_moves_nothing() -> None:
    """A cluster that flaps after it came back."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await declare(world, "a", await silent(world, "a"))
        await until(world, "a", "Moved")
        world.heal()
        await asyncio.sleep(60)
        await world.create(PSVC, "feed", "more", service(12))
        await world.settle()
        at_first = await world.shares("feed", "more")
        assert at_first["a"] > 0
        decided = [one["spec"]["seq"] for one in await world.decisions()]
        for _ in range(40):
            await world.cut("a")
            await asyncio.sleep(60)
            world.heal()
            await asyncio.sleep(20)
        assert await world.shares("feed", "more") == at_first
        assert [one["spec"]["seq"] for one in await world.decisions()] == decided

    play(scenario)


def test_moving_ends_at_once_when_the_word_is_taken_back_or_the_cluster_is_heard() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(60, cpu="100m"))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        word = await silent(world, "a")
        await declare(world, "a", word)
        await asyncio.sleep(20)
        await declare(world, "a", None)
        await asyncio.sleep(3)
        left = (await world.shares("feed", "web"))["a"]
        assert held - 10 <= left < held  # twelve a minute
        await asyncio.sleep(120)
        assert (await world.shares("feed", "web"))["a"] == left
        await declare(world, "a", word)
        await asyncio.sleep(20)
        world.heal()
        await asyncio.sleep(30)
        left = (await world.shares("feed", "web"))["a"]
        assert left > 0
        deployment = await world.get("Deployment", "feed", "web", at="a")
        assert deployment is not None
        assert deployment["spec"]["replicas"] == left
        await asyncio.sleep(120)
        assert (await world.shares("feed", "web"))["a"] == left

    play(scenario, options=HubOptions(evacuated_copies_a_minute=12))


@pytest.mark.parametrize("process", ["hub", "silent process"])
def test_a_silent_member_process_and_a_shortage_of_the_hubs_own_are_never_death(
    process: str,
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        at_first = await world.shares("feed", "web")
        if process == "hub":
            await world.cut("a", how=Cut.SHORT)
        else:
            await world.federation.kill("member a")
        await asyncio.sleep(240)
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        assert (await said(world, "a", "Ready"))["reason"] == (
            "NotAsked" if process == "hub" else "NotReporting"
        )
        await declare(world, "a", found["status"].get("lastHeard", "2026-09-21T14:13:23Z"))
        await asyncio.sleep(120)
        assert await world.shares("feed", "web") == at_first
        assert await said(world, "a") == {}

    play(scenario)


def test_a_failover_outlives_the_hub() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(60, cpu="100m"))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        await declare(world, "a", await silent(world, "a"))
        await asyncio.sleep(15)
        assert 0 < (await world.shares("feed", "web"))["a"] < held
        await world.federation.kill("hub")
        world.federation.start_hub()
        await until(world, "a", "Moved", 400)
        assert sum((await world.shares("feed", "web")).values()) == 60

    play(scenario, options=HubOptions(evacuated_copies_a_minute=24))


@pytest.mark.long
def test_shards_of_a_dead_cluster_are_restarted_elsewhere_and_what_was_done_is_left() -> None:
    async def scenario(world: World) -> None:
        long = {"embedded.federator/run-seconds": "150"}
        await world.create(PJS, "feed", "done", jobset(6, 6))
        await world.create(PJS, "feed", "run", jobset(24, 12, annotations=long))
        await asyncio.sleep(20)
        first = min(await world.slots("feed", "run"))
        done = await world.slots("feed", "done")
        await declare(world, first, await silent(world, first))
        await until(world, first, "Moved")
        assert first not in await world.slots("feed", "run")
        assert await world.slots("feed", "done") == done
        await asyncio.sleep(700)
        assert (await world.condition(PJS, "feed", "run", "Complete"))["status"] == "True"

    play(scenario)
