"""Maintenance windows: nothing new comes before and during one, a cluster is emptied for it where
that is asked, and is filled again after it; and windows that never come are told.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from federator.kube import errors
from tests.unit.hub.world import World, play, service
from tests.worlds import EPOCH_S

PSVC, CLUSTER = "PinterestService", "MemberCluster"
UNIT_S = 1200
"""Of the times here."""
TYPE = "Maintenance"
FOREVER = "0 0 30 2 *"


def due(after_s: float) -> str:
    """A schedule for one minute of the year, so long after the world has begun."""
    when = datetime.fromtimestamp(EPOCH_S + after_s, UTC)
    return f"{when.minute} {when.hour} {when.day} {when.month} *"


async def windows(world: World, name: str, *entries: dict[str, Any]) -> None:
    await world.patch(CLUSTER, "", name, {"spec": {"maintenance": list(entries)}})


async def said(world: World, name: str, which: str = TYPE) -> dict[str, Any]:
    return await world.condition(CLUSTER, "", name, which)


async def until_s(world: World, moment_s: float) -> None:
    await asyncio.sleep(moment_s - world.federation.clock.monotonic())


async def events(world: World, name: str) -> list[str]:
    found = (await world.host.list("events.k8s.io/v1", "events")).items
    return sorted(
        one["reason"]
        for one in found
        if one["regarding"]["name"] == name and one["reason"].startswith("Maintenance")
    )


@pytest.mark.long
def test_nothing_new_is_sent_before_and_during_a_window_and_what_is_there_stays() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "there", service(12))
        await world.settle()
        at_first = await world.shares("feed", "there")
        assert at_first["a"] > 0
        await windows(world, "a", {"schedule": due(2 * UNIT_S), "duration": "20m", "notice": "10m"})
        await asyncio.sleep(10)
        told = await said(world, "a")
        assert (told["status"], told["reason"]) == ("False", "Scheduled")
        await world.create(PSVC, "feed", "before", service(6))
        await world.settle()
        assert "a" in await world.shares("feed", "before")

        await until_s(world, 1.5 * UNIT_S + 70)
        told = await said(world, "a")
        assert (told["status"], told["reason"]) == ("True", "Announced")
        found = await world.get(CLUSTER, "", "a")
        assert found is not None
        assert found["status"]["summary"].startswith("Ready; Maintenance Announced: Nothing new")
        only = {"clusters": {"names": ["a"]}}
        await world.create(PSVC, "feed", "new", service(3, placement=only))
        await asyncio.sleep(30)
        assert await world.shares("feed", "new") == {}
        placed = await world.condition(PSVC, "feed", "new", "Placed")
        assert "is to be worked on from 20" in placed["message"]
        assert "(spec.maintenance)" in placed["message"]

        await until_s(world, 2.5 * UNIT_S)
        assert (await said(world, "a"))["reason"] == "UnderWay"
        assert await world.shares("feed", "there") == at_first

        await until_s(world, 3 * UNIT_S + 90)
        assert (await said(world, "a"))["reason"] == "Scheduled"
        assert await world.shares("feed", "new") == {"a": 3}  # who waited is not left waiting
        assert await events(world, "a") == [
            "MaintenanceAnnounced",
            "MaintenanceBegun",
            "MaintenanceEnded",
        ]

    play(scenario)


@pytest.mark.long
def test_a_window_that_asks_for_it_empties_the_cluster_and_fills_it_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        stays = {"failover": {"failback": "Manual"}}
        await world.create(PSVC, "feed", "manual", service(12, placement=stays))
        await world.settle()
        at_first = await world.shares("feed", "web")
        window = {"schedule": due(2 * UNIT_S), "duration": "20m", "notice": "20m", "drain": {}}
        await windows(world, "a", window)
        await until_s(world, UNIT_S - 60)
        assert await world.shares("feed", "web") == at_first
        await until_s(world, UNIT_S + 240)
        assert "a" not in await world.shares("feed", "web")
        assert (await said(world, "a", "Draining"))["reason"] == "Emptied"
        decided = {one["spec"]["workload"]["name"]: one["spec"] for one in await world.decisions()}
        assert "drain of a for its maintenance" in decided["web"]["causes"]
        (left,) = decided["web"]["failovers"]
        assert (left["copies"], left["window"][:2]) == (at_first["a"], "20")
        assert "silentSince" not in left
        only = {"clusters": {"names": ["a"]}}
        await world.create(PSVC, "feed", "late", service(1, placement=only))
        await asyncio.sleep(30)
        placed = await world.condition(PSVC, "feed", "late", "Placed")
        assert "a is being drained, and is to be worked on from 20" in placed["message"]
        await world.delete(PSVC, "feed", "late")

        await world.federation.kill("hub")  # the next leader goes on where this one was
        world.federation.start_hub()
        await until_s(world, 2.5 * UNIT_S)
        assert "a" not in await world.shares("feed", "web")
        assert (await said(world, "a", "Draining"))["reason"] == "Emptied"
        await until_s(world, 3 * UNIT_S + 300)
        assert await said(world, "a", "Draining") == {}
        assert await world.shares("feed", "web") == at_first
        assert "a" not in await world.shares("feed", "manual")
        assert await events(world, "a") == [
            "MaintenanceAnnounced",
            "MaintenanceBegun",
            "MaintenanceEnded",
        ]
        seqs = [one["spec"]["seq"] for one in await world.decisions()]
        await asyncio.sleep(2 * UNIT_S)
        assert [one["spec"]["seq"] for one in await world.decisions()] == seqs

    play(scenario)


@pytest.mark.long
def test_a_window_that_would_leave_somebody_without_a_place_says_so_and_moves_nothing() -> None:
    async def scenario(world: World) -> None:
        only = {"clusters": {"names": ["a"]}}
        await world.create(PSVC, "feed", "web", service(3, placement=only))
        await world.settle()
        window = {"schedule": due(2 * UNIT_S), "duration": "20m", "notice": "20m", "drain": {}}
        await windows(world, "a", window)
        await until_s(world, UNIT_S + 120)
        told = await said(world, "a", "Draining")
        assert (told["status"], told["reason"]) == ("False", "Refused")
        assert "PinterestService/feed/web 3 of 3" in told["message"]
        await until_s(world, 3 * UNIT_S + 60)
        assert await world.shares("feed", "web") == {"a": 3}
        assert await said(world, "a", "Draining") == {}

    play(scenario)


@pytest.mark.long
def test_a_window_that_never_comes_is_told_beside_those_that_do() -> None:
    async def scenario(world: World) -> None:
        await windows(world, "a", {"schedule": FOREVER, "duration": "20m"})
        await asyncio.sleep(10)
        told = await said(world, "a")
        assert (told["status"], told["reason"]) == ("False", "NeverComes")
        assert told["message"] == (
            "spec.maintenance[0]: '0 0 30 2 *' comes at no time of the next 5 years."
        )
        other = {"schedule": due(2 * UNIT_S), "duration": "20m", "notice": "0m"}
        await windows(world, "a", {"schedule": FOREVER, "duration": "20m"}, other)
        await asyncio.sleep(10)
        told = await said(world, "a")
        assert told["reason"] == "NeverComes"
        assert "The next window is from 20" in told["message"]
        await until_s(world, 2 * UNIT_S + 120)
        told = await said(world, "a")
        assert (told["status"], told["reason"]) == ("True", "UnderWay")
        assert "comes at no time" in told["message"]
        await windows(world, "a")
        await asyncio.sleep(10)
        assert await said(world, "a") == {}

    play(scenario)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"schedule": "@every 4h", "duration": "20m"}, "which has no beginning to count from"),
        ({"schedule": "0 2 * *", "duration": "20m"}, "five fields"),
        ({"schedule": "0 2 * * *", "duration": "0m"}, "duration"),
        ({"schedule": "0 2 * * *", "duration": "1 day"}, "duration"),
        ({"schedule": "0 2 * * *", "duration": "20m", "timeZone": "Mars/Olympus"}, "timeZone"),
    ],
)
def test_what_is_no_window_is_refused(entry: dict[str, Any], told: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(errors.Invalid) as refused:
            await windows(world, "a", entry)
        assert told in str(refused.value)

    play(scenario)
