"""The work queue in batches: what is taken together, who waits for whom, and what comes back of a
batch that failed.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from federator.kube import errors
from federator.kube.control.work_queue import Batch, WorkQueue
from tests.unit.kube.scripted import on_virtual_time
from tests.unit.kube.served import queue


@on_virtual_time
async def test_a_batch_lingers_for_more_and_is_bounded() -> None:
    work = queue()
    for key in "az":
        work.add(key)

    async def later() -> None:
        await asyncio.sleep(0.01)
        for key in "bcdef":
            work.add(key)

    task = asyncio.create_task(later())
    assert await work.take_batch(4, linger_s=0.05) == ["a", "z", "b", "c"]
    assert asyncio.get_running_loop().time() == pytest.approx(0.05)
    await task
    assert await work.take_batch(10) == ["d", "e", "f"]


@on_virtual_time
async def test_keys_that_become_ready_together_are_in_one_batch() -> None:
    work: WorkQueue[str] = WorkQueue("together", rng=random.Random(1), group=lambda key: key[0])
    batches: list[list[str]] = []

    async def note(batch: Batch[str]) -> None:
        batches.append(list(batch))
        await asyncio.sleep(1)

    task = asyncio.create_task(work.run_batches(note, most=10, linger_s=0.05, at_once=4))
    await asyncio.sleep(1)
    for key in ("a0", "a1", "b0", "c0"):
        work.add(key)
    await asyncio.sleep(0.5)
    for key in ("d0", "b1", "a2"):
        work.add(key)
    await asyncio.sleep(5)

    assert batches == [["a0", "b0", "c0", "a1"], ["d0", "b1", "a2"]]
    task.cancel()


@on_virtual_time
async def test_a_starved_group_is_served_when_all_who_take_batches_are_at_work() -> None:
    work: WorkQueue[str] = WorkQueue("starved", rng=random.Random(1), group=lambda key: key[0])
    begun: dict[str, float] = {}

    async def note(batch: Batch[str]) -> None:
        begun.update(dict.fromkeys(batch, asyncio.get_running_loop().time()))
        await asyncio.sleep(10)

    task = asyncio.create_task(work.run_batches(note, most=1, at_once=2))
    for key in ("a0", "a1", "a2"):
        work.add(key)
    await asyncio.sleep(1)
    work.add("b0")
    await asyncio.sleep(30)

    assert begun == {"a0": 0, "a1": 0, "b0": 1, "a2": 10}
    task.cancel()


@on_virtual_time
async def test_a_cancelled_batch_gives_its_first_key_back() -> None:
    work = queue()
    work.add("a")
    work.add("b")
    task = asyncio.create_task(work.take_batch(4, linger_s=10))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert sorted([await work.get(), await work.get()]) == ["a", "b"]


@on_virtual_time
async def test_batches_that_never_wait_let_others_run() -> None:
    work = queue()
    passes: list[int] = []
    task = asyncio.create_task(work.run_batches(lambda keys: _nothing(), most=2))
    for key in range(100):
        work.add(str(key))
    while not work.idle:
        passes.append(len(work))
        await asyncio.sleep(0)
    assert len(passes) >= 25
    task.cancel()


async def _nothing() -> None:
    """A turn without a pause."""


@on_virtual_time
async def test_batches_are_served_one_at_a_time_and_a_failed_one_comes_back_whole() -> None:
    work = queue()
    batches: list[list[str]] = []

    async def handler(keys: Any) -> None:
        batches.append(list(keys))
        if len(batches) == 1:
            raise errors.Conflict("somebody was faster")

    task = asyncio.create_task(work.run_batches(handler, most=10, linger_s=0.01))
    for key in "abc":
        work.add(key)
    await asyncio.sleep(10)
    assert batches[0] == ["a", "b", "c"]
    assert sorted(key for batch in batches[1:] for key in batch) == ["a", "b", "c"]
    assert work.idle
    task.cancel()
    await asyncio.wait([task])


@on_virtual_time
async def test_cancelling_a_waiting_worker_loses_no_wake_up() -> None:
    work = queue()
    waiters = [asyncio.create_task(work.get()) for _ in range(2)]
    await asyncio.sleep(0)
    work.add("a")
    waiters[0].cancel()  # its wake-up is on the way already
    await asyncio.sleep(1)
    assert waiters[1].result() == "a"


@on_virtual_time
async def test_batches_side_by_side_do_not_wait_for_each_other() -> None:
    begun: list[list[str]] = []

    async def handler(keys: Sequence[str]) -> None:
        begun.append(list(keys))
        await asyncio.sleep(60)

    work: WorkQueue[str] = WorkQueue("side", rng=random.Random(1))
    for key in "abcde":
        work.add(key)
    task = asyncio.create_task(work.run_batches(handler, most=2, at_once=2))
    await asyncio.sleep(1)
    assert begun == [["a", "b"], ["c", "d"]]
    await asyncio.sleep(60)
    assert begun == [["a", "b"], ["c", "d"], ["e"]]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@on_virtual_time
async def test_what_is_new_in_another_group_waits_for_no_batch_in_work() -> None:
    begun: list[tuple[float, list[str]]] = []
    loop = asyncio.get_running_loop()
    since = loop.time()

    async def handler(keys: Sequence[str]) -> None:
        begun.append((loop.time() - since, list(keys)))
        await asyncio.sleep(60)

    work: WorkQueue[str] = WorkQueue("spare", rng=random.Random(1), group=lambda key: key[0])
    for number in range(9):
        work.add(f"a{number}")
    task = asyncio.create_task(work.run_batches(handler, most=3, at_once=2))
    await asyncio.sleep(1)
    work.add("b0")
    work.add("b1")
    await asyncio.sleep(1)
    assert begun == [(0, ["a0", "a1", "a2"]), (0, ["a3", "a4", "a5"]), (1, ["b0"])]
    await asyncio.sleep(59)
    # The spare one heeds nobody whose group is in work: the first ordinary one to be free takes all
    # that wait.
    assert begun[3:] == [(60, ["a6", "b1", "a7"]), (60, ["a8"])]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@on_virtual_time
async def test_the_last_key_of_a_group_to_end_lets_the_next_one_go_ahead() -> None:
    begun: list[tuple[float, list[str]]] = []
    loop = asyncio.get_running_loop()
    since = loop.time()

    async def handler(keys: Sequence[str]) -> None:
        begun.append((loop.time() - since, list(keys)))
        await asyncio.sleep(5 if keys == ["b0"] else 60)

    work: WorkQueue[str] = WorkQueue("spare", rng=random.Random(1), group=lambda key: key[0])
    work.add("a0")
    task = asyncio.create_task(work.run_batches(handler, most=3))
    await asyncio.sleep(1)
    work.add("b0")
    await asyncio.sleep(1)
    work.add("b1")
    work.add("b0")
    await asyncio.sleep(10)
    assert begun == [(0, ["a0"]), (1, ["b0"]), (6, ["b1"])]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@on_virtual_time
async def test_a_turn_may_end_before_those_of_its_batch_do() -> None:
    begun: list[tuple[float, list[str]]] = []
    loop = asyncio.get_running_loop()
    since = loop.time()

    async def handler(keys: Batch[str]) -> None:
        begun.append((loop.time() - since, list(keys)))
        if "quick" in keys:
            await asyncio.sleep(1)
            keys.ended("quick")
            keys.ended("quick")  # only the first word counts
        await asyncio.sleep(9)
        raise errors.Unreachable("nobody answers")

    work: WorkQueue[str] = WorkQueue("early", rng=random.Random(1), base_s=100.0, cap_s=100.0)
    work.add("quick")
    work.add("slow")
    task = asyncio.create_task(work.run_batches(handler, most=3, at_once=2))
    await asyncio.sleep(0.5)
    work.add("quick")
    work.add("slow")
    await asyncio.sleep(4)
    assert begun == [(0, ["quick", "slow"]), (1, ["quick"])]
    await asyncio.sleep(20)
    assert begun[2:] == [(10, ["slow"])]  # it failed, and was signalled meanwhile
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert work.pending == 1  # what ended before the others failed has not failed itself


@on_virtual_time
async def test_a_key_whose_turns_in_batches_fail_comes_again_later_each_time() -> None:
    loop = asyncio.get_running_loop()
    begun: list[float] = []

    async def handler(keys: Batch[str]) -> None:
        begun.append(loop.time())
        keys.ended("a", errors.Unreachable("the host does not answer"))

    work = queue(base_s=1.0, cap_s=64.0)
    work.add("a")
    task = asyncio.create_task(work.run_batches(handler, most=3))
    await asyncio.sleep(300)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert begun[1] - begun[0] <= 1
    assert 6 <= len(begun) <= 30  # with waits of a second at most there would be three hundred


@on_virtual_time
async def test_a_key_that_failed_joins_no_batch_before_it_is_tried_again() -> None:
    work = queue()
    work.add("a")
    batch = Batch(work, await work.take_batch(1))
    batch.ended("a", errors.Unreachable("nobody answers"))
    work.add("b")
    other = Batch(work, await work.take_batch(1))

    assert not other.join("a")
    again = Batch(work, await work.take_batch(1))
    assert again == ["a"]
    again.ended("a")
    assert other.join("a")
