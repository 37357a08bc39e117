"""What the rows about processes promise: crashes in a row, crashes at a start, loops of them,
machines that stand still.
"""

import asyncio
from collections import Counter

import pytest

from tests.simulation import solo
from tests.simulation.script import perform
from tests.simulation.story import Sent
from tests.simulation.world import World

pytestmark = pytest.mark.long

WRITES_MOST = 3
"""Writes under a loop of crashes are at most so many times those without (F5)."""


def work(sent: Sent) -> bool:
    """A write that is neither a heartbeat nor an Event."""
    return sent.writes and not sent.heartbeat and "/events" not in sent.request.path


def writes_of(world: World) -> Counter[str]:
    """Counts, from now on, every life's writes of work."""
    found: Counter[str] = Counter()

    def listen(sent: Sent) -> None:
        if work(sent):
            found[sent.life.name] += 1

    world.listeners.append(listen)
    return found


def test_two_crashes_within_seconds_lose_nothing_and_double_nothing() -> None:
    async def story(world: World) -> None:
        for draw in range(3):
            async with solo.happening(world, "crash-twice", draw=draw):
                await perform(solo.service(f"more{draw}", 2), world.host)
                await asyncio.sleep(20)
            await solo.settled(world)
        assert {name: sum(found.values()) for name, found in solo.shares(world).items()} == {
            "web": 4,
            "shop": 2,
            "more0": 2,
            "more1": 2,
            "more2": 2,
        }

    solo.tell(story)


def test_crashes_while_caches_are_filled_delete_nothing() -> None:
    """That nothing is deleted before the lists are in is judged at every request (14)."""

    async def story(world: World) -> None:
        before = solo.shares(world)
        deleted: list[str] = []
        world.listeners.append(
            lambda sent: deleted.append(sent.text()) if sent.request.method == "DELETE" else None
        )
        async with solo.befalling(world, "crash-at-list", 60):
            for process in world.processes:
                world.kill(process)
            await asyncio.sleep(30)
        await solo.settled(world)
        assert not deleted
        assert solo.shares(world) == before

    solo.tell(story)


def test_ten_minutes_of_crashes_let_work_go_on_and_write_at_most_three_times_as_much() -> None:
    """Of one hub without a rival: of two, one that dies every few seconds never lives for long
    enough to lead.
    """
    written: dict[str, int] = {}

    def told(name: str, *, crashing: bool) -> None:
        async def story(world: World) -> None:
            found = writes_of(world)
            begun = world.federation.clock.monotonic()
            for number in range(10):
                await perform(solo.service(f"more{number}", 1), world.host)
                if crashing:
                    async with solo.happening(world, "crash-loop", draw=number):
                        await asyncio.sleep(60)
                else:
                    await asyncio.sleep(60)
                assert f"more{number}" in solo.shares(world), (
                    "a minute of crashes was a minute without work"
                )
            assert world.federation.clock.monotonic() - begun >= 600
            await solo.settled(world)
            written[name] = sum(found.values())

        solo.tell(story, solo.world(hubs=1, restart_s=0.5))

    told("calm", crashing=False)
    told("crashing", crashing=True)
    assert written["crashing"] <= WRITES_MOST * written["calm"], written


def test_a_hub_that_dies_over_and_over_leaves_the_lead_to_the_other() -> None:
    async def story(world: World) -> None:
        for number in range(12):
            world.kill("hub-0")
            await asyncio.sleep(5)
            if number == 3:
                await perform(solo.service("new", 2), world.host)
        assert sum(solo.shares(world)["new"].values()) == 2
        assert world.leader() == "hub-1"

    solo.tell(story)


def test_a_leader_that_stood_still_for_a_minute_is_replaced_and_sends_nothing_old() -> None:
    async def story(world: World) -> None:
        old = world.leader()
        life = world.life(old).name
        async with solo.happening(world, "leader-frozen"):
            await perform(solo.service("new", 2), world.host)
            await asyncio.sleep(17 + 5)
            assert world.leader() not in {"", old}
            assert "new" in solo.shares(world)
            found = writes_of(world)
            await asyncio.sleep(40)
        await asyncio.sleep(5)
        assert not found[life]
        assert world.life(old).name != life, "it lost the lease and did not exit"

    solo.tell(story)


def test_what_a_leader_had_in_hand_when_it_froze_is_refused_or_does_no_harm() -> None:
    """It had looked at the lease, and sends a minute later: the rules of the run judge what comes
    of it.
    """

    async def story(world: World) -> None:
        old = world.life(world.leader())
        async with solo.befalling(world, "freeze-at-write"):
            await perform(solo.service("new", 2), world.host)
            await asyncio.sleep(1)
        assert old.frozen
        late: list[int] = []
        world.listeners.append(
            lambda sent: late.append(sent.status) if sent.life is old and work(sent) else None
        )
        await asyncio.sleep(25)
        assert sum(solo.shares(world)["new"].values()) == 2, "the other one did not take over"
        await asyncio.sleep(60)
        assert late, "nothing was in hand"
        assert all(status >= 400 for status in late), late
        await solo.settled(world)
        assert sum(solo.shares(world)["new"].values()) == 2

    solo.tell(story)


def test_any_process_that_stands_still_for_twenty_seconds_goes_on_where_it_was() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        for draw in range(4):
            async with solo.happening(world, "process-frozen", draw=draw):
                await asyncio.sleep(20)
            await asyncio.sleep(10)
            await solo.settled(world)
        assert solo.shares(world) == before

    solo.tell(story)


def test_a_restart_while_members_cannot_be_reached_moves_and_evicts_nothing() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        for draw in range(4):
            async with solo.happening(world, "restart-in-the-dark", draw=draw):
                await asyncio.sleep(90)
                assert solo.shares(world) == before
            await asyncio.sleep(15)
            await solo.settled(world)
            assert solo.shares(world) == before

    solo.tell(story)
