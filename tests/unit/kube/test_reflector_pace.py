"""How often a reflector asks: failing, silent and hung servers ever more slowly, and nobody else
waits for them.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.kube import errors
from federator.kube.clock import Clock, RealClock
from federator.kube.store import Bound
from federator.kube.watch.read_budget import ReadBudget
from federator.kube.watch.reflector import LISTED_MAX, LISTED_MORE
from tests.unit.kube.reflecting import World, quiet
from tests.unit.kube.scripted import (
    FOREVER,
    Answer,
    Script,
    bookmark,
    line,
    listing,
    on_virtual_time,
    status,
    stream,
    thing,
)


@on_virtual_time
async def test_a_broken_stream_is_resumed_from_the_last_version_without_a_list() -> None:
    """F14: half a line is dropped, nothing is lost. A list of one object shows that the server's
    history goes on.
    """
    half = line("ADDED", thing("c", 7, value=3))
    world = World(
        Script(
            listing(5, thing("a", 3)),
            stream(
                30, line("ADDED", thing("b", 6, value=2)) + half[:20], errors.Unreachable("reset")
            ),
            stream(half, 30),
            listing(7, thing("a", 3), token="more"),
            quiet(),
        )
    )
    await world.runs(100)
    assert world.rows == {"a": 0, "b": 2, "c": 3}
    assert world.script.query(3) == {"limit": "1"}
    assert [world.script.query(i)["resourceVersion"] for i in (1, 2, 4)] == ["5", "6", "7"]


@pytest.mark.parametrize(
    ("optional", "looks"), [(True, range(3, 9)), (False, range(9, 40))], ids=["optional", "needed"]
)
@on_virtual_time
async def test_an_optional_kind_that_is_not_served_is_looked_for_less_often(
    optional: bool, looks: range
) -> None:
    absent = status(404, "NotFound")
    world = World(Script(after=lambda r: absent), optional=optional)
    task = asyncio.create_task(world.reflector.run())
    await asyncio.sleep(120)
    assert len(world.script.requests) in looks
    assert world.reflector.served is False
    absent = listing(5, thing("a", 3))
    await asyncio.sleep(60)
    assert world.rows == {"a": 0}
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@on_virtual_time
async def test_who_waits_after_failures_tries_at_once_when_told_that_the_server_answers(
    told: bool,
) -> None:
    refused = status(503, "ServiceUnavailable")
    world = World(Script(after=lambda r: refused))
    task = asyncio.create_task(world.reflector.run())
    await asyncio.sleep(200)
    last = world.script.times[-1]
    refused = listing(5, thing("a", 3))
    if told:
        world.reflector.hurry()
    await asyncio.sleep(0.01)
    assert world.store.synced == told
    assert (world.script.times[-1] > last) == told
    task.cancel()
    await asyncio.wait([task])


@on_virtual_time
async def test_bookmarks_keep_a_watch_alive_and_move_heard_at_and_the_version() -> None:
    world = World(Script(listing(5), stream(*[100.0, bookmark(9)] * 3, FOREVER)))
    await world.runs(350)
    assert len(world.script.requests) == 2
    assert world.store.heard_at == pytest.approx(300)
    assert world.store.resource_version == "9"


@on_virtual_time
async def test_a_watch_that_lives_clears_the_flag_and_the_back_off() -> None:
    world = World(Script(listing(5), stream(), stream(), stream(), listing(5), quiet()))
    await world.runs(60)
    assert not world.reflector.watch_failing
    assert world.reflector.trouble is None
    assert world.reflector._waits.failures == 0


@on_virtual_time
async def test_a_watch_that_ends_in_good_time_is_resumed_at_once() -> None:
    world = World(Script(listing(5), stream(300), stream(300), quiet()), silence_s=1000)
    await world.runs(700)
    assert world.script.times[2:4] == [300, 600]
    assert not world.reflector.watch_failing


@on_virtual_time
async def test_a_collection_that_nobody_wants_watched_is_well_again_once_it_is_listed() -> None:
    refused = status(403, "Forbidden")
    world = World(Script(refused, refused, listing(5, thing("a", 3))), wanted=asyncio.Event())
    await world.runs(60)
    assert world.rows == {"a": 0}
    assert (world.reflector.watch_failing, world.reflector.trouble) == (False, None)


@on_virtual_time
async def test_a_kind_that_is_not_served_yet_is_picked_up_when_it_is() -> None:
    missing = status(404, "NotFound")
    world = World(Script(missing, missing, missing, listing(5, thing("a", 3)), quiet()))
    await world.runs(60)
    assert world.rows == {"a": 0}
    assert world.script.times[1] >= 2


@on_virtual_time
async def test_lists_of_one_server_wait_for_each_other_without_holding_a_place_among_all() -> None:
    """A server that lists slowly has two places; its third list leaves the last one to somebody
    else.
    """
    every, own = asyncio.Semaphore(3), asyncio.Semaphore(2)
    slow = [World(Script(after=stream(FOREVER)), bounds=(own, every)) for _ in range(5)]
    other = World(Script(listing(5), quiet()), bounds=(asyncio.Semaphore(2), every))
    running = [asyncio.create_task(world.runs(10)) for world in (*slow, other)]
    await asyncio.sleep(1)
    assert other.store.synced
    await asyncio.gather(*running)
    assert (own._value, every._value) == (2, 3)


@on_virtual_time
async def test_hung_servers_do_not_keep_others_from_listing() -> None:
    gate = asyncio.Semaphore(2)
    hung = [World(Script(after=stream(FOREVER)), bounds=(gate,)) for _ in range(6)]
    healthy = World(Script(listing(5), quiet()), bounds=(gate,))
    running = [asyncio.create_task(world.runs(40)) for world in (*hung, healthy)]
    await asyncio.sleep(20)
    assert healthy.store.synced
    await asyncio.gather(*running)
    assert gate._value <= 2


@on_virtual_time
async def test_ten_thousand_events_in_one_chunk_let_others_run_in_between() -> None:
    """F20. Here an event takes a millisecond: five are handled at a time."""
    chunk = b"".join(line("MODIFIED", thing("a", 10 + i, value=i)) for i in range(10_000))
    since_turn = most = 0
    worked_s = 0.0

    class Working(Clock):
        def elapsed(self) -> float:
            return self.monotonic() + worked_s

    def turn() -> None:
        nonlocal since_turn
        since_turn = 0

    def changed(*_args: Any) -> None:
        nonlocal since_turn, most, worked_s
        worked_s += 0.001
        if since_turn == 0:
            asyncio.get_running_loop().call_soon(turn)
        since_turn += 1
        most = max(most, since_turn)

    world = World(
        Script(listing(5), stream(1, chunk, FOREVER)), on_change=changed, clock=Working(0.0)
    )
    await world.runs(2)
    assert world.rows == {"a": 9999}
    assert 1 < most <= 6


@pytest.mark.parametrize("objects", [500, 40], ids=["full pages", "sparse pages"])
@on_virtual_time
async def test_a_list_that_never_ends_is_given_up_and_tried_ever_more_rarely(objects: int) -> None:
    """Each page brings new objects and a new token; a bound says how many objects are kept."""

    def page(request: Any) -> Any:
        number = len(world.script.requests)
        named = (thing(f"{number}-{i}", 3) for i in range(objects))
        return listing(5, *named, token=f"t{number}")

    world = World(Script(after=page))
    world.store.bound = Bound(objects=100, bytes=1 << 30)
    await world.runs(3 * 3600)

    begun = sum("continue" not in dict(request.query) for request in world.script.requests)
    assert not world.store.synced
    assert isinstance(world.reflector.trouble, errors.Endless)
    assert 8 <= begun <= 60  # after one minute, two, four, ... and fifteen
    assert len(world.script.requests) <= begun * 100


def test_what_is_read_of_a_list_without_an_end_is_bounded_beyond_what_a_member_may_hold() -> None:
    most = HubOptions().member_objects_max
    assert min(most * LISTED_MAX, 2 * most + LISTED_MORE) <= 350_000


class Working(Clock):
    """A clock of which a test says how much processor time passes between two looks at it: half of
    it is inside of what is measured."""

    def __init__(self, each_s: float) -> None:
        super().__init__(0.0)
        self.each_s = each_s
        self.spent_s = 0.0

    def processor(self) -> float:
        self.spent_s += self.each_s
        return self.spent_s


@on_virtual_time
async def test_lists_without_end_take_a_bounded_share_of_a_processor() -> None:
    """Full pages of few objects more each time are within all other bounds."""
    numbers = itertools.count()

    def page(request: Any) -> Any:
        number = next(numbers)
        named = (thing(f"{number}-{i}", 3) for i in range(100))
        return listing(5, *named, token=f"t{number}")

    clock = Working(0.05)
    budget = ReadBudget(clock, 30.0)
    world = World(Script(after=page), budget=budget)
    others = [World(Script(after=page), budget=budget) for _ in range(3)]
    tasks = [asyncio.create_task(one.runs(3600)) for one in (world, *others)]
    await asyncio.sleep(20)
    assert clock.spent_s / 2 < 35, "what is saved up, and the page at which it ends"
    assert isinstance(world.reflector.trouble, errors.OverBudget)
    assert "hub.member_lists_processor_s" in str(world.reflector.trouble)
    await asyncio.gather(*tasks)
    assert clock.spent_s / 2 < 1.5 * (30 + 0.05 * 3600)


@on_virtual_time
async def test_a_list_is_read_when_processor_time_has_come_back() -> None:
    clock = Working(5.0)
    budget = ReadBudget(clock, 30.0)
    for _ in range(7):
        with budget.measured():
            pass
    world = World(Script(listing(5, thing("a", 3)), quiet()), budget=budget)
    await world.runs(50)
    assert not world.store.synced
    await world.runs(200)
    assert world.rows == {"a": 0}


class Flood(Answer):
    """A watch that sends an event of one object every half second until `until_s`."""

    def __init__(self, until_s: float) -> None:
        super().__init__()
        self.until_s = until_s

    async def chunks(self) -> AsyncIterator[bytes]:
        while (now_s := asyncio.get_running_loop().time()) < self.until_s:
            yield line("MODIFIED", thing("a", int(10 * now_s) + 10, value=now_s))
            await asyncio.sleep(0.5)
        await asyncio.sleep(FOREVER)


def flooding(until_s: float, budget: ReadBudget) -> World:
    def answer(request: Any) -> Answer:
        if ("watch", "true") in request.query:
            return Flood(until_s)
        now_s = asyncio.get_running_loop().time()
        return listing(int(10 * now_s) + 9, thing("a", int(10 * now_s) + 9, value=now_s))

    return World(Script(after=answer), budget=budget, silence_s=FOREVER)


@on_virtual_time
async def test_watch_events_of_one_server_take_a_bounded_share_of_a_processor() -> None:
    """Each event takes 0.3 s. The honest server sends one every five seconds."""
    clock = Working(0.3)
    flooded = flooding(1000.0, ReadBudget(clock, 30.0))
    events = (line("MODIFIED", thing("b", 9 + number, value=number)) for number in range(400))
    calm = stream(*(part for event in events for part in (5.0, event)), FOREVER)
    honest = World(Script(listing(5), calm), budget=ReadBudget(clock, 30.0))
    tasks = [asyncio.create_task(world.runs(1900)) for world in (flooded, honest)]
    troubled = []
    for now_s in range(10, 1000, 10):
        await asyncio.sleep(10)
        troubled.append(isinstance(flooded.reflector.trouble, errors.OverBudget))
        assert honest.reflector.trouble is None
        assert honest.rows.get("b", 0) >= now_s // 5 - 2
    first = troubled.index(True)
    assert 5 <= first <= 15, "what is saved up is for bursts"
    assert all(troubled[first:]), "the condition does not flap"
    spent_s = 0.3 * (len(flooded.changes) + flooded.lists)
    assert 0.1 * 1000 < spent_s < 1.2 * (32 + 0.25 * 1000)

    await asyncio.sleep(850)
    assert flooded.reflector.trouble is None
    assert flooded.rows["a"] > 990
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_virtual_clocks_measure_no_processor_time_and_real_ones_do() -> None:
    real = RealClock()
    begun = real.processor()
    assert sum(range(200_000)) > 0
    assert real.processor() > begun
    assert Clock(0.0).processor() == 0.0
