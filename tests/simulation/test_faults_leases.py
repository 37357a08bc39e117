"""What the rows about the hubs' Lease promise: one leader at most, whatever becomes of the Lease,
and soon another.
"""

import asyncio

import pytest

from tests.faults.episodes import leases
from tests.simulation import solo
from tests.simulation.script import perform
from tests.simulation.world import World

pytestmark = pytest.mark.long

TAKE_OVER_S = 17.0
"""Lease and a retry: the longest time after a leader's death until another acts."""


async def until_another_leads(world: World, old: str) -> float:
    """Seconds until a hub other than this life leads."""
    begun = world.federation.clock.monotonic()
    while not world.leader() or world.life(world.leader()).name == old:
        await asyncio.sleep(0.1)
        assert world.federation.clock.monotonic() < begun + 120, "nobody leads"
    return world.federation.clock.monotonic() - begun


def test_when_a_leader_dies_another_acts_within_lease_and_retry() -> None:
    async def story(world: World) -> None:
        for number in range(3):
            old = world.leader()
            life = world.life(old).name
            world.hold_down(old)
            await perform(solo.service(f"more{number}", 1), world.host)
            assert await until_another_leads(world, life) <= TAKE_OVER_S
            await asyncio.sleep(1)
            assert f"more{number}" in solo.shares(world)
            world.let_up(old)
            await asyncio.sleep(5)

    solo.tell(story)


def test_a_deleted_lease_ends_the_leader_before_another_acts() -> None:
    """That none acts again after another did is judged at every request (12)."""

    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "lease-deleted"):
            await asyncio.sleep(40)
        await perform(solo.service("new", 1), world.host)
        await asyncio.sleep(TAKE_OVER_S)
        await solo.settled(world)
        assert {**solo.shares(world), "new": {}} == {**before, "new": {}}

    solo.tell(story)


def test_one_deletion_of_the_lease_costs_the_leader_its_life() -> None:
    async def story(world: World) -> None:
        life = world.life(world.leader())
        assert await leases.delete(world)
        await asyncio.sleep(10)
        assert life.dead, "it was not noticed within the renew deadline"
        await until_another_leads(world, life.name)

    solo.tell(story)


def test_whatever_a_hand_writes_into_the_lease_there_is_one_leader_and_work_goes_on() -> None:
    async def story(world: World) -> None:
        for number, change in enumerate(leases.EDITS):
            assert await leases.edit(world, change)
            await perform(solo.service(f"more{number}", 1), world.host)
            await asyncio.sleep(4 * TAKE_OVER_S)
            assert f"more{number}" in solo.shares(world), f"nobody acts after {change}"

    solo.tell(story)


def test_an_api_without_leases_for_half_a_minute_makes_the_leader_stop_and_exit() -> None:
    async def story(world: World) -> None:
        life = world.life(world.leader())
        async with solo.befalling(world, "lease-unavailable"):
            await asyncio.sleep(12)
            assert life.dead, "it could not renew for 12 s and still stands"
            await perform(solo.service("new", 1), world.host)
            await asyncio.sleep(18)
            assert "new" not in solo.shares(world), "somebody acts who cannot know that he leads"
        await asyncio.sleep(TAKE_OVER_S + 5)
        assert "new" in solo.shares(world)

    solo.tell(story)
