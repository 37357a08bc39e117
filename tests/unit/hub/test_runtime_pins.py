"""Pins of versions of a RuntimeProfile: no restart while they hold, reports before and after their
end, and then a roll-out."""

import asyncio
from typing import Any

import pytest

from federator.api import raw, runtimeprofile
from tests.unit.hub.test_profiles import PSVC, pins, sidecar
from tests.unit.hub.world import World, play, service
from tests.worlds import EPOCH_S

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def version(name: str, image: str, cpu: str = "100m") -> dict[str, Any]:
    return {"version": name, **sidecar(image, cpu)}


def pinned(name: str, after_s: float) -> dict[str, Any]:
    """A service that keeps a version so long from the beginning of the scenario on."""
    until = raw.rfc3339(EPOCH_S + after_s)
    return {**service(6), "runtime": {"version": {"name": name, "until": until}}}


async def with_profile(world: World, spec: dict[str, Any]) -> str:
    """Hash of the profile, which is there before any workload."""
    await world.create("RuntimeProfile", "", "default", spec)
    await asyncio.sleep(2)
    return await _hash(world)


async def upgraded(world: World, spec: dict[str, Any]) -> str:
    await world.patch("RuntimeProfile", "", "default", {"spec": spec})
    await asyncio.sleep(90)
    return await _hash(world)


async def _hash(world: World) -> str:
    found = await world.get("RuntimeProfile", "", "default")
    assert found is not None
    return runtimeprofile.content_hash(found)


async def reported(world: World, name: str = "web") -> tuple[str, str, str]:
    found = await world.condition(PSVC, "feed", name, "RuntimePinned")
    return found["status"], found["reason"], found["message"]


async def events(world: World, reason: str) -> list[str]:
    found = await world.host.list("events.k8s.io/v1", "events", "feed")
    return [each["note"] for each in found.items if each["reason"] == reason]


def test_two_versions_live_side_by_side_and_an_upgrade_restarts_no_pinned_pod() -> None:
    async def scenario(world: World) -> None:
        first = await with_profile(world, version("1", "logs:1"))
        await world.create(PSVC, "feed", "web", pinned("1", 20 * DAY_S))
        await world.create(PSVC, "feed", "other", service(6))
        await world.settle()

        second = await upgraded(world, version("2", "logs:2"))

        assert await pins(world) == {first}
        assert await pins(world, "other") == {second} != {first}
        status, reason, message = await reported(world)
        assert (status, reason) == ("True", "Pinned")
        assert "keep version '1' of RuntimeProfile 'default' until" in message
        assert "then they get version '2'" in message

        await world.create(PSVC, "feed", "late", pinned("1", 20 * DAY_S))
        await asyncio.sleep(60)
        assert await pins(world, "late") == {first}
        await world.settle()

    play(scenario)


@pytest.mark.parametrize("restarted", [False, True], ids=["one hub", "another hub"])
def test_the_end_of_a_pin_is_a_roll_out_and_is_reported(restarted: bool) -> None:
    async def scenario(world: World) -> None:
        first = await with_profile(world, version("1", "logs:1"))
        await world.create(PSVC, "feed", "web", pinned("1", HOUR_S))
        await world.settle()
        second = await upgraded(world, version("2", "logs:2"))
        assert await pins(world) == {first}
        status, reason, _ = await reported(world)
        assert (status, reason) == ("True", "ExpiresSoon")
        if restarted:
            await world.federation.kill("hub")
            world.federation.start_hub()

        await asyncio.sleep(HOUR_S)

        assert await pins(world) == {second}
        status, reason, message = await reported(world)
        assert (status, reason) == ("False", "Expired")
        assert "its pods get version '2'. Remove spec.runtime.version" in message
        assert len(await events(world, "RuntimePinExpiresSoon")) == 1
        assert len(await events(world, "RuntimePinExpired")) == 1
        await world.settle()

    play(scenario)


def test_the_coming_end_is_reported_a_week_before() -> None:
    async def scenario(world: World) -> None:
        await with_profile(world, version("1", "logs:1"))
        await world.create(PSVC, "feed", "web", pinned("1", 7 * DAY_S + HOUR_S))
        await world.settle()
        await upgraded(world, version("2", "logs:2"))
        assert (await reported(world))[1] == "Pinned"

        await asyncio.sleep(HOUR_S)

        assert (await reported(world))[1] == "ExpiresSoon"

    play(scenario)


def test_a_pin_that_is_taken_back_is_a_roll_out() -> None:
    async def scenario(world: World) -> None:
        await with_profile(world, version("1", "logs:1"))
        await world.create(PSVC, "feed", "web", pinned("1", 20 * DAY_S))
        await world.settle()
        second = await upgraded(world, version("2", "logs:2"))

        await world.patch(PSVC, "feed", "web", {"spec": {"runtime": None}})
        await asyncio.sleep(90)

        assert await pins(world) == {second}
        obj = await world.get(PSVC, "feed", "web")
        assert obj is not None
        assert not raw.condition(obj, "RuntimePinned")

    play(scenario)


def test_a_version_that_is_not_known_is_named_with_those_that_are() -> None:
    async def scenario(world: World) -> None:
        first = await with_profile(world, version("1", "logs:1"))
        await world.create(PSVC, "feed", "web", pinned("0", 20 * DAY_S))
        await world.settle()

        assert await pins(world) == {first}
        assert await reported(world) == (
            "False",
            "VersionUnknown",
            "RuntimeProfile 'default' has no version '0'; it keeps '1'. Its pods get version '1'.",
        )

    play(scenario)


def test_pods_keep_a_version_with_other_requests_too() -> None:
    async def scenario(world: World) -> None:
        first = await with_profile(world, version("1", "logs:1"))
        await world.create(PSVC, "feed", "web", pinned("1", 20 * DAY_S))
        await world.settle()

        await upgraded(world, version("2", "logs:2", cpu="200m"))
        third = await upgraded(world, version("3", "logs:3", cpu="200m"))

        assert await pins(world) == {first} != {third}
        assert (await reported(world))[1] == "Pinned"

    play(scenario)
