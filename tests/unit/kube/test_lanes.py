"""A lane bounds, shares out fairly, backs away from trouble, and is nobody else's problem."""

import asyncio
import random

import pytest

from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.control.lanes import Lane, LaneClosed
from tests.unit.kube.scripted import on_virtual_time


def lane(limit: int = 4) -> Lane:
    return Lane("m1", limit=limit, clock=Clock(0.0), rng=random.Random(5))


async def call(
    one: Lane, key: str = "", took_s: float = 0.01, failure: Exception | None = None
) -> None:
    async with one.slot(key):
        await asyncio.sleep(took_s)
        if failure is not None:
            raise failure


@on_virtual_time
async def test_no_more_calls_than_the_limit_run_at_once() -> None:
    one = lane(4)
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        async with one.slot():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

    await asyncio.gather(*(work() for _ in range(50)))
    assert most == 4
    assert (one.running, one.waiting) == (0, 0)


@on_virtual_time
async def test_keys_take_turns_however_many_calls_one_of_them_has() -> None:
    one = lane(1)
    order: list[str] = []

    async def work(key: str) -> None:
        async with one.slot(key):
            order.append(key)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(work("greedy") for _ in range(20)), work("modest"))
    assert order.index("modest") <= 2


@on_virtual_time
async def test_429_halves_the_limit_and_good_answers_bring_it_back() -> None:
    one = lane(16)
    with pytest.raises(errors.Throttled):
        await call(one, failure=errors.Throttled("slow down"))
    assert one.limit == 8
    for _ in range(200):
        await call(one)
    assert one.limit == 16


@on_virtual_time
async def test_one_overload_told_to_many_calls_halves_once() -> None:
    one = lane(16)
    calls = [call(one, failure=errors.Throttled("slow down")) for _ in range(16)]
    await asyncio.gather(*calls, return_exceptions=True)
    assert one.limit == 8


@on_virtual_time
async def test_answers_far_slower_than_usual_halve_the_limit() -> None:
    one = lane(16)
    for _ in range(20):
        await call(one, took_s=0.05)
    await call(one, took_s=2.0)
    assert one.limit == 8


@on_virtual_time
async def test_retry_after_closes_the_lane_for_that_long() -> None:
    one = lane()
    with pytest.raises(errors.Throttled):
        await call(one, failure=errors.Throttled("slow down", retry_after_s=30.0))
    assert not one.open
    with pytest.raises(LaneClosed) as caught:
        await call(one)
    assert caught.value.retry_after_s == pytest.approx(33, abs=5)
    await asyncio.sleep(40)
    await call(one)


@on_virtual_time
async def test_a_silent_cluster_is_left_alone_and_then_tried_by_one_call() -> None:
    one = lane()
    for _ in range(5):
        with pytest.raises(errors.Unreachable):
            await call(one, failure=errors.Unreachable("silence"))
    with pytest.raises(LaneClosed):
        await call(one)
    await asyncio.sleep(2)
    tries = [
        asyncio.create_task(call(one, took_s=5.0, failure=errors.Unreachable("still"))),
        asyncio.create_task(call(one)),
    ]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(end) for end in done] == [errors.Unreachable, LaneClosed]
    await asyncio.sleep(60)
    await call(one)
    await asyncio.gather(*(call(one) for _ in range(8)))
    assert one.open


@on_virtual_time
async def test_refusals_are_answers_and_do_not_close_the_lane() -> None:
    one = lane()
    for _ in range(20):
        with pytest.raises(errors.Conflict):
            await call(one, failure=errors.Conflict("changed"))
    await call(one)


@on_virtual_time
async def test_a_hung_cluster_costs_others_nothing() -> None:
    """F33: thirty seconds per call here, milliseconds there."""
    slow, fast = lane(), lane()
    hanging = [asyncio.create_task(call(slow, took_s=30.0)) for _ in range(100)]
    begun = asyncio.get_running_loop().time()
    await asyncio.gather(*(call(fast) for _ in range(100)))
    assert asyncio.get_running_loop().time() - begun < 1.0
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)
    assert (slow.running, slow.waiting) == (0, 0)


@on_virtual_time
async def test_callers_cancelled_at_any_moment_leak_no_slot() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        one = lane(2)
        tasks = [
            asyncio.create_task(call(one, key=rng.choice("ab"), took_s=rng.random()))
            for _ in range(20)
        ]
        for task in rng.sample(tasks, 10):
            await asyncio.sleep(rng.random() * 0.3)
            task.cancel()
        await asyncio.wait(tasks)
        assert (one.running, one.waiting) == (0, 0)
        await call(one)
