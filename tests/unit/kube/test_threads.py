"""Computing beside the event loop: what it leaves the loop, and who gets a thread."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from federator.kube.threads import WAITING_MAX, Overloaded, Threads


@pytest.mark.asyncio
async def test_computing_holds_up_nothing() -> None:
    beats = 0

    def long(stop: Callable[[], bool]) -> int:
        while beats < 5 and not stop():
            time.sleep(0.005)
        return beats

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    assert await Threads(1, 60.0)(long) >= 5
    beating.cancel()


@pytest.mark.asyncio
async def test_computing_ends_when_its_time_is_over() -> None:
    compute, ended = Threads(1, 0.3), threading.Event()

    def long(stop: Callable[[], bool]) -> None:
        while not stop():
            time.sleep(0.005)
        ended.set()

    with pytest.raises(TimeoutError):
        await compute(long)
    assert await asyncio.to_thread(ended.wait, 60)
    for _ in range(100):  # the thread is free again
        with contextlib.suppress(TimeoutError):
            assert await compute(lambda _: "next") == "next"
            return
    raise AssertionError("the thread is not free again")


@pytest.mark.asyncio
async def test_no_more_are_computed_at_once_and_wait_than_allowed() -> None:
    compute, go, begun, running = Threads(1, 60.0), threading.Event(), threading.Event(), []

    def work(_: Callable[[], bool]) -> int:
        running.append(1)
        begun.set()
        go.wait(60)
        return len(running)

    waiting = [asyncio.create_task(compute(work)) for _ in range(WAITING_MAX)]
    assert await asyncio.to_thread(begun.wait, 60)
    assert len(running) == 1
    with pytest.raises(Overloaded):
        await compute(work)
    go.set()
    async with asyncio.timeout(60):
        assert len(await asyncio.gather(*waiting)) == WAITING_MAX
    assert await compute(work) == WAITING_MAX + 1


@pytest.mark.asyncio
async def test_who_goes_away_leaves_the_thread_to_others() -> None:
    compute, begun, stopped = Threads(1, 60.0), threading.Event(), threading.Event()

    def work(stop: Callable[[], bool]) -> None:
        begun.set()
        while not stop():
            time.sleep(0.005)
        stopped.set()

    asked = asyncio.create_task(compute(work))
    assert await asyncio.to_thread(begun.wait, 60)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    async with asyncio.timeout(60):
        assert await compute(lambda _: stopped.is_set())
