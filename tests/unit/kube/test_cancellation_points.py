"""Whoever is cancelled at any of its awaits, the n-th for every n, leaves nothing behind: no slot
of a lane, no key of a queue, no lease that nobody can take, and nobody who leads beside another.
"""

import asyncio
import collections
import contextlib
import functools
import random
import types
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any
from unittest import mock

import pytest

from federator.kube.clock import Clock
from federator.kube.control.lanes import Lane
from federator.kube.control.work_queue import WorkQueue
from tests.unit.kube.leaseworld import FIRST_S, LONGEST_S, LeaseWorld
from tests.unit.kube.scripted import on_virtual_time

LANE_POINTS, QUEUE_POINTS, LEASE_POINTS = range(1, 6), range(1, 10), range(1, 40)
TOO_LATE = (False, True)
"""Whether the cancellation comes when what was awaited is there already, and the task has not gone
on yet.
"""


@types.coroutine
def cut(coroutine: Coroutine[Any, Any, Any], nth: int, late: bool) -> Generator[Any, Any, Any]:
    """The coroutine in a task of its own, which is cancelled at its n-th await."""
    step, awaits = functools.partial(coroutine.send, None), 0
    while True:
        try:
            waiting = step()
        except StopIteration as end:
            return end.value
        awaits += 1
        if awaits == nth:
            task = asyncio.current_task()
            assert task is not None
            if late and isinstance(waiting, asyncio.Future):
                waiting.add_done_callback(functools.partial(_cancel, task))
            else:
                asyncio.get_running_loop().call_soon(task.cancel)
        try:
            value = yield waiting
        except BaseException as error:
            step = functools.partial(coroutine.throw, error)
        else:
            step = functools.partial(coroutine.send, value)


def _cancel(task: asyncio.Task[Any], _: object) -> None:
    task.cancel()


async def as_coroutine(coroutine: Coroutine[Any, Any, Any], nth: int, late: bool) -> Any:
    return await cut(coroutine, nth, late)


# -- lanes -----------------------------------------------------------------------------------------


async def _lane(nth: int, late: bool) -> None:
    """Three callers of a lane for one at a time; the second is the victim."""
    lane = Lane("m1", limit=1, clock=Clock(0.0), rng=random.Random(5))

    async def call(key: str) -> str:
        async with lane.slot(key):
            await asyncio.sleep(1.0)
            await asyncio.sleep(1.0)
        return key

    first = asyncio.create_task(call("first"))
    await asyncio.sleep(0.1)
    victim = asyncio.create_task(as_coroutine(call("victim"), nth, late))
    await asyncio.sleep(0.1)
    third = asyncio.create_task(call("third"))
    with contextlib.suppress(asyncio.CancelledError):
        await victim
    async with asyncio.timeout(10.0):
        assert await first == "first"
        assert await third == "third"
    assert (lane.running, lane.waiting) == (0, 0)


@pytest.mark.parametrize("late", TOO_LATE)
@pytest.mark.parametrize("nth", LANE_POINTS)
@on_virtual_time
async def test_a_lane_gets_its_slot_back_wherever_a_caller_is_cancelled(
    nth: int, late: bool
) -> None:
    await _lane(nth, late)


async def _keeps_what_it_was_given(self: Lane, key: str) -> None:
    """`Lane._enter` without the hand that gives back a slot which came too late."""
    if self.running < int(self.limit) and not self._waiting:
        self.running += 1
        return
    place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    self._queues.setdefault(key, collections.deque()).append(place)
    self._waiting += 1
    try:
        await place
    except asyncio.CancelledError:
        if not place.done() or place.cancelled():
            self._waiting -= 1
        raise


@contextlib.asynccontextmanager
async def _slot_without_end(self: Lane, key: str = "") -> AsyncIterator[None]:
    """`Lane.slot` that gives its slot back only when the body ends by itself."""
    await self._enter(key)
    yield
    self._leave()


@pytest.mark.parametrize(
    ("name", "bug"), [("_enter", _keeps_what_it_was_given), ("slot", _slot_without_end)]
)
@on_virtual_time
async def test_a_slot_that_leaks_by_cancellation_is_found(name: str, bug: Any) -> None:
    """The planted bug of lanes: no world of the campaign cancels a caller in a process that lives
    on.
    """
    found = 0
    with mock.patch.object(Lane, name, bug):
        for nth in LANE_POINTS:
            for late in TOO_LATE:
                try:
                    await _lane(nth, late)
                except (AssertionError, TimeoutError):
                    found += 1
    assert found > 0


# -- queues ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", TOO_LATE)
@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("nth", QUEUE_POINTS)
@on_virtual_time
async def test_a_key_whose_turn_was_cut_short_gets_another_one(
    nth: int, batches: bool, late: bool
) -> None:
    queue: WorkQueue[str] = WorkQueue("q", rng=random.Random(5))
    served: list[str] = []

    async def turn(key: str) -> None:
        await asyncio.sleep(0.5)
        served.append(key)
        await asyncio.sleep(0.5)

    async def turns(batch: Any) -> None:
        for key in batch.held:
            await turn(key)

    def run() -> Coroutine[Any, Any, None]:
        return (
            queue.run_batches(turns, most=2, linger_s=0.1)
            if batches
            else queue.run(turn, workers=2)
        )

    victim = asyncio.create_task(as_coroutine(run(), nth, late))
    for key in ("a", "b", "c"):
        queue.add(key)
        await asyncio.sleep(0.3)
    await asyncio.sleep(2.0)
    victim.cancel()
    await asyncio.wait([victim])
    queue.add("d")
    heir = asyncio.create_task(run())
    await asyncio.sleep(10.0)
    assert set(served) == {"a", "b", "c", "d"}
    assert (queue.pending, queue.idle) == (0, True)
    heir.cancel()
    await asyncio.wait([heir])


# -- electors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", TOO_LATE)
@on_virtual_time
async def test_wherever_a_candidate_is_cancelled_another_leads_and_never_beside_it(
    late: bool,
) -> None:
    for nth in LEASE_POINTS:
        world = LeaseWorld()
        (a,) = await world.begin("a")
        assert a.task is not None
        await a.kill()
        await a.wire.befall("")
        a.task = asyncio.create_task(as_coroutine(a.elector.lead(a.work), nth, late))
        await asyncio.wait([a.task], timeout=3 * FIRST_S)
        (b,) = await world.begin("b")
        both = led = False
        for _ in range(int(10 * (FIRST_S + LONGEST_S))):
            both, led = both or (a.elector.leading and b.elector.leading), led or b.elector.leading
            await asyncio.sleep(0.1)
        assert not both
        assert led == a.task.done(), (
            f"await {nth}: a is {a.elector.leadership}, b is {b.elector.leadership}"
        )
        assert not (a.task.done() and a.elector.leading)
        await world.end()
