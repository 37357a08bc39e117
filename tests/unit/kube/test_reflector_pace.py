"""How often a reflector asks: failing, silent and hung servers ever more slowly, and nobody else
waits for them.
"""

import asyncio
from typing import Any

import pytest

from federator.kube import errors
from tests.unit.kube.reflecting import World, quiet
from tests.unit.kube.scripted import (
    FOREVER,
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
    """F20."""
    chunk = b"".join(line("MODIFIED", thing("a", 10 + i, value=i)) for i in range(10_000))
    since_turn = most = 0

    def turn() -> None:
        nonlocal since_turn
        since_turn = 0

    def changed(*_args: Any) -> None:
        nonlocal since_turn, most
        if since_turn == 0:
            asyncio.get_running_loop().call_soon(turn)
        since_turn += 1
        most = max(most, since_turn)

    world = World(Script(listing(5), stream(1, chunk, FOREVER)), on_change=changed)
    await world.runs(2)
    assert world.rows == {"a": 9999}
    assert most <= 128
