"""Computing beside the event loop: what it leaves the loop, and who gets a thread."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from federator.kube.threads import WAITING_MAX, Overloaded, Threads


@pytest.mark.asyncio
async def test_computing_holds_up_nothing_and_ends_when_nobody_waits() -> None:
    compute, ended = Threads(1, 0.3), threading.Event()

    def long(stop: Callable[[], bool]) -> None:
        while not stop():
            time.sleep(0.005)
        ended.set()

    async def beats() -> int:
        found = 0
        while not ended.is_set():
            await asyncio.sleep(0.01)
            found += 1
        return found

    counting = asyncio.create_task(beats())
    with pytest.raises(TimeoutError):
        await compute(long)
    async with asyncio.timeout(5):
        assert await counting > 5
    assert await compute(lambda _: "next") == "next"  # the thread is free again


@pytest.mark.asyncio
async def test_no_more_are_computed_at_once_and_wait_than_allowed() -> None:
    compute, go, running = Threads(1, 5.0), threading.Event(), []

    def work(_: Callable[[], bool]) -> int:
        running.append(1)
        go.wait(5)
        return len(running)

    waiting = [asyncio.create_task(compute(work)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0.1)
    assert len(running) == 1
    with pytest.raises(Overloaded):
        await compute(work)
    go.set()
    async with asyncio.timeout(5):
        assert len(await asyncio.gather(*waiting)) == WAITING_MAX
    assert await compute(work) == WAITING_MAX + 1


@pytest.mark.asyncio
async def test_who_goes_away_leaves_the_thread_to_others() -> None:
    compute, stopped = Threads(1, 5.0), threading.Event()

    def work(stop: Callable[[], bool]) -> None:
        while not stop():
            time.sleep(0.005)
        stopped.set()

    asked = asyncio.create_task(compute(work))
    await asyncio.sleep(0.05)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    async with asyncio.timeout(5):
        assert await compute(lambda _: stopped.is_set())
