"""The supervisor: broken tasks come back after a while, stopped ones end, critical ones end
it all.
"""

import asyncio
import itertools
import random

import pytest

from federator.kube.control.supervisor import CriticalTaskEnded, Supervisor
from tests.unit.kube.scripted import FOREVER, on_virtual_time


def supervisor() -> Supervisor:
    return Supervisor("test", rng=random.Random(4))


@on_virtual_time
async def test_a_broken_task_is_started_again_ever_more_slowly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts: list[float] = []

    async def breaks() -> None:
        starts.append(asyncio.get_running_loop().time())
        raise ZeroDivisionError

    async with supervisor() as one:
        one.start("fragile", breaks)
        await asyncio.sleep(600)
    assert 8 < len(starts) < 60
    assert isinstance(one.broken["fragile"], ZeroDivisionError)
    assert "task fragile broke" in caplog.text
    assert max(b - a for a, b in itertools.pairwise(starts)) <= 60


@on_virtual_time
async def test_a_task_that_waited_for_what_others_cancelled_is_started_again() -> None:
    starts = 0

    async def waits() -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waited.cancel()
            await waited
        await asyncio.sleep(1000)

    async with supervisor() as one:
        one.start("innocent", waits)
        await asyncio.sleep(60)
    assert starts == 2


@on_virtual_time
async def test_a_task_that_ran_long_starts_again_soon() -> None:
    starts: list[float] = []

    async def lives_a_while() -> None:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(100)

    async with supervisor() as one:
        one.start("steady", lives_a_while)
        await asyncio.sleep(1000)
    assert all(100 < b - a < 101 for a, b in itertools.pairwise(starts))


@on_virtual_time
async def test_one_broken_task_leaves_the_others_alone() -> None:
    ticks = 0

    async def breaks() -> None:
        raise RuntimeError

    async def ticking() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(1)
            ticks += 1

    async with supervisor() as one:
        one.start("bad", breaks)
        one.start("good", ticking)
        await asyncio.sleep(50.5)
    assert ticks == 50


@on_virtual_time
async def test_leaving_cancels_every_task_and_waits_for_its_clean_up() -> None:
    cleaned: list[str] = []

    async def careful(name: str) -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await asyncio.sleep(1)
            cleaned.append(name)

    async with supervisor() as one:
        one.start("a", careful, "a")
        one.start("b", careful, "b")
        await asyncio.sleep(1)
        running = one.names
        assert running == ("a", "b")
    assert sorted(cleaned) == ["a", "b"]
    assert one.names == ()


@on_virtual_time
async def test_a_task_can_be_stopped_and_its_name_used_again() -> None:
    runs: list[int] = []

    async def body(number: int) -> None:
        runs.append(number)
        await asyncio.sleep(FOREVER)

    async with supervisor() as one:
        one.start("member", body, 1)
        with pytest.raises(ValueError, match="has a task 'member' already"):
            one.start("member", body, 2)
        await asyncio.sleep(1)
        await one.stop("member")
        await one.stop("nobody")
        one.start("member", body, 3)
        await asyncio.sleep(1)
    assert runs == [1, 3]


@on_virtual_time
async def test_a_task_that_is_done_once_is_not_started_again() -> None:
    runs = 0

    async def body() -> None:
        nonlocal runs
        runs += 1

    async with supervisor() as one:
        one.start("once", body, once=True)
        await asyncio.sleep(100)
        assert one.names == ()
    assert runs == 1


@on_virtual_time
async def test_the_end_of_a_critical_task_is_told_with_its_cause() -> None:
    async def holds_the_lease() -> None:
        await asyncio.sleep(5)
        raise TimeoutError("the lease was lost")

    async with supervisor() as one:
        one.start("lease", holds_the_lease, critical=True)
        with pytest.raises(CriticalTaskEnded) as caught:
            await one.wait()
    assert isinstance(caught.value.__cause__, TimeoutError)
