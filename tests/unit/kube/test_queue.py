"""The work queue as a data structure: signals collapse, one worker per key, failures wait, nothing
is lost.
"""

import asyncio
import collections
import random
import tracemalloc
from typing import Any

import pytest
import uvloop

from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model.steps import RequeueAfter
from tests.unit.kube.scripted import on_virtual_time
from tests.unit.kube.served import Served, queue


@on_virtual_time
async def test_nine_signals_during_a_turn_make_exactly_one_more_turn() -> None:
    work = queue()

    async def handler(_key: str) -> None:
        await asyncio.sleep(1)

    served = Served(work, handler)
    work.add("a")
    await asyncio.sleep(0.5)
    for _ in range(9):
        work.add("a")
    await asyncio.sleep(10)
    assert [key for key, _ in served.turns] == ["a", "a"]
    await served.stop()


@on_virtual_time
async def test_an_empty_queue_keeps_no_memory_of_the_many_keys_that_it_had() -> None:
    work = queue()

    async def handler(_key: str) -> None:
        await asyncio.sleep(0)

    served = Served(work, handler)
    tracemalloc.start()
    try:
        keys = [f"w{number}" for number in range(20_000)]
        before, _ = tracemalloc.get_traced_memory()
        for number, key in enumerate(keys):
            work.add_after(key, 1 + number % 3)
        most, _ = tracemalloc.get_traced_memory()
        await asyncio.sleep(10)
        served.turns.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert work.pending == 0
    assert after - before < (most - before) / 5
    await served.stop()


@on_virtual_time
async def test_a_key_never_has_two_turns_at_once_whatever_the_number_of_workers() -> None:
    work = queue()
    running: collections.Counter[str] = collections.Counter()
    worst = 0

    async def handler(key: str) -> None:
        nonlocal worst
        running[key] += 1
        worst = max(worst, running[key])
        await asyncio.sleep(0.1)
        running[key] -= 1

    served = Served(work, handler, workers=8)
    rng = random.Random(1)
    for _ in range(300):
        work.add(rng.choice("abc"))
        await asyncio.sleep(rng.random() * 0.05)
    await asyncio.sleep(5)
    assert worst == 1
    assert work.idle
    await served.stop()


@on_virtual_time
async def test_workers_are_spawned_when_all_are_busy_and_leave_when_nothing_is_ready() -> None:
    work = queue()
    at_once = most = 0

    async def handler(_key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1)
        at_once -= 1

    def spawned() -> int:
        return sum(task.get_name().startswith("queue test worker") for task in asyncio.all_tasks())

    served = Served(work, handler, workers=8)
    for _ in range(2):  # those who left are spawned again
        most = 0
        await asyncio.sleep(0.5)
        assert spawned() == 0
        for number in range(20):
            work.add(str(number))
        await asyncio.sleep(0.5)
        assert (at_once, spawned()) == (8, 7)
        await asyncio.sleep(3)
        assert (most, work.idle) == (8, True)
    await served.stop()

    for number in range(20):  # signalled while nobody serves
        work.add(str(number))
    served = Served(work, handler, workers=8)
    await asyncio.sleep(0.5)
    assert (at_once, spawned()) == (8, 7)
    await served.stop()


@on_virtual_time
async def test_keys_are_served_in_the_order_of_their_first_signal() -> None:
    work = queue()
    for key in "abcab":
        work.add(key)
    assert len(work) == 3
    assert [await work.get() for _ in range(3)] == ["a", "b", "c"]


@on_virtual_time
async def test_a_busy_key_does_not_starve_the_others() -> None:
    work = queue()

    async def handler(key: str) -> None:
        if key == "busy":
            work.add("busy")
        await asyncio.sleep(0.1)

    served = Served(work, handler, workers=1)
    work.add("busy")
    await asyncio.sleep(0.05)
    work.add("other")
    await asyncio.sleep(0.3)
    assert "other" in [key for key, _ in served.turns[:3]]
    await served.stop()


@on_virtual_time
async def test_of_several_delayed_signals_the_earliest_counts_and_there_is_one_turn() -> None:
    work = queue()
    served = Served(work, lambda key: asyncio.sleep(0))
    work.add_after("a", 30)
    work.add_after("a", 10)
    work.add_after("a", 20)
    work.add_after("b", 5)
    await asyncio.sleep(100)
    assert served.turns == [("b", 5.0), ("a", 10.0)]
    await served.stop()


@on_virtual_time
async def test_delays_of_nothing_are_signals_at_once() -> None:
    work = queue()
    work.add_after("a", 0)
    assert await work.get() == "a"


@on_virtual_time
async def test_a_delay_of_a_rounding_error_still_lets_time_pass() -> None:
    work, due = queue(), asyncio.get_running_loop().time() + 1.1

    async def again_until_due(key: str) -> RequeueAfter | None:
        left = due - asyncio.get_running_loop().time()
        return RequeueAfter(key, min(left, 1e-12), "not quite there") if left > 0 else None

    served = Served(work, again_until_due)
    work.add("a")
    await asyncio.sleep(2)
    assert len(served.turns) < 1200
    await served.stop()


@on_virtual_time
async def test_a_revisit_brings_the_key_back() -> None:
    work = queue()

    async def handler(key: str) -> Any:
        return RequeueAfter(key, 7.0, "a token expires") if len(served.turns) < 3 else None

    served = Served(work, handler)
    work.add("a")
    await asyncio.sleep(100)
    assert [time for _, time in served.turns] == [0.0, 7.0, 14.0]
    await served.stop()


@on_virtual_time
async def test_transient_failures_back_off_exponentially_to_a_cap_and_success_resets() -> None:
    work = queue(base_s=0.1, cap_s=10.0)

    async def handler(_key: str) -> None:
        if len(served.turns) <= 15:
            raise errors.Unreachable("no")

    served = Served(work, handler)
    work.add("a")
    await asyncio.sleep(300)
    waits = [b[1] - a[1] for a, b in zip(served.turns, served.turns[1:], strict=False)]
    assert len(waits) == 15
    assert all(0.1 * 0.1 <= wait <= 10.0 for wait in waits)
    assert waits[0] <= 0.1
    assert max(waits[8:]) > 2
    begun = len(served.turns)
    work.add("a")
    await asyncio.sleep(1)
    assert len(served.turns) == begun + 1
    await served.stop()


@on_virtual_time
async def test_what_trying_again_does_not_help_waits_longer() -> None:
    for failure in (errors.Denied("no"), errors.Invalid("no"), KeyError("bug")):
        work = queue()
        first = True

        async def handler(_key: str, failure: Exception = failure) -> None:
            nonlocal first
            if first:
                first = False
                raise failure

        served = Served(work, handler)
        begun = asyncio.get_running_loop().time()
        work.add("a")
        await asyncio.sleep(30)
        assert served.turns[1][1] - begun >= 5.0
        await served.stop()


@on_virtual_time
async def test_retry_after_is_obeyed() -> None:
    work = queue()

    async def handler(_key: str) -> None:
        if len(served.turns) == 1:
            raise errors.Throttled("slow", retry_after_s=30.0)

    served = Served(work, handler)
    work.add("a")
    await asyncio.sleep(100)
    assert 30.0 <= served.turns[1][1] <= 37.5
    await served.stop()


@on_virtual_time
async def test_a_bug_is_counted_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    work = queue()

    async def handler(key: str) -> None:
        if key == "bad":
            raise ZeroDivisionError

    served = Served(work, handler, workers=1)
    work.add("bad")
    work.add("good")
    await asyncio.sleep(1)
    assert [key for key, _ in served.turns] == ["bad", "good"]
    assert work.failures == 1
    assert "the turn of bad broke" in caplog.text
    await served.stop()


@on_virtual_time
async def test_a_group_of_transient_errors_is_transient_and_obeys_the_longest_wait() -> None:
    work = queue()

    async def handler(_key: str) -> None:
        if len(served.turns) == 1:
            raise ExceptionGroup(
                "two members", [errors.Unreachable("a"), errors.Throttled("b", retry_after_s=20.0)]
            )

    served = Served(work, handler)
    work.add("a")
    await asyncio.sleep(100)
    assert work.failures == 1  # a group is no ApiError: it is told as what it is
    assert served.turns[1][1] >= 20.0
    await served.stop()


@on_virtual_time
async def test_a_key_out_of_silence_is_taken_at_once_and_those_upon_it_linger() -> None:
    work = queue()
    loop = asyncio.get_running_loop()
    waited = []
    for key, pause_s in (("a", 1.0), ("b", 0.01), ("c", 0.3)):
        work.add(key)
        begun = loop.time()
        assert await work.take_batch(4, linger_s=0.05) == [key]
        waited.append(round(loop.time() - begun, 6))
        work.done(key)
        await asyncio.sleep(pause_s)
    assert waited == [0, 0, 0.05]
    work.add("d")
    await work.take_batch(4, linger_s=0.05)
    work.add("e")
    begun = loop.time()
    await asyncio.sleep(1.0)
    await work.take_batch(4, linger_s=0.05)
    assert loop.time() - begun == pytest.approx(1.05), "others are in work: more will come"


@on_virtual_time
@pytest.mark.parametrize("batches", [False, True])
async def test_a_cancellation_that_strayed_into_a_turn_fails_it_and_ends_nobody(
    batches: bool,
) -> None:
    """A connector that is closed cancels what its users wait for; it does not mean those who serve
    the queue.
    """
    work = queue()
    turns: list[str] = []

    async def handler(keys: Any) -> None:
        turns.extend(keys)
        if len(turns) <= 3:
            waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waited.cancel()
            await waited
        await asyncio.sleep(1)

    serving = work.run_batches(handler, most=1) if batches else work.run(handler, workers=3)
    task = asyncio.create_task(serving)
    for key in "abc":
        work.add(key)
    await asyncio.sleep(60)
    assert sorted(turns) == list("aabbcc")
    assert (work.idle, work.failures) == (True, 3)
    for key in "def":  # and there are as many workers as before
        work.add(key)
    await asyncio.sleep(0.5)
    assert batches or sorted(turns[6:]) == list("def")
    task.cancel()
    await asyncio.wait([task])


@on_virtual_time
async def test_turns_that_were_cut_short_are_owed_to_the_next_server() -> None:
    work = queue()
    served = Served(work, lambda key: asyncio.sleep(60))
    work.add("a")
    await asyncio.sleep(1)
    await served.stop()
    batches = asyncio.create_task(work.run_batches(lambda keys: asyncio.sleep(60), most=5))
    work.add("b")
    await asyncio.sleep(1)
    batches.cancel()
    await asyncio.wait([batches])
    assert sorted([await work.get(), await work.get()]) == ["a", "b"]


@on_virtual_time
async def test_memory_is_bounded_by_keys_and_not_by_signals() -> None:
    work = queue()
    for number in range(10_000):
        work.add("a")
        work.add_after("b", 1000 - number / 100)
        work.add_after(f"c{number % 10}", 5 + number)
    assert len(work) == 1
    assert work.pending == 12
    assert len(work._timers) < 200


@on_virtual_time
async def test_random_traffic_ends_with_every_key_seen_after_its_last_signal() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        work = queue(base_s=0.01, cap_s=0.2, stuck_s=0.1)
        told: dict[str, float] = {}
        seen: dict[str, float] = {}

        async def handler(
            key: str,
            rng: random.Random = rng,
            told: dict[str, float] = told,
            seen: dict[str, float] = seen,
        ) -> Any:
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(rng.random() * 0.05)
            if rng.random() < 0.2:
                raise errors.Unreachable("no")
            seen[key] = begun
            return RequeueAfter(key, 0.5, "again") if rng.random() < 0.1 else None

        served = Served(work, handler, workers=rng.randrange(1, 5))
        for _ in range(100):
            key = rng.choice("abcde")
            told[key] = asyncio.get_running_loop().time()
            work.add(key)
            await asyncio.sleep(rng.random() * 0.02)
        await asyncio.sleep(20)
        assert all(seen[key] >= when for key, when in told.items())
        await served.stop()


def test_delays_that_uvloop_rounds_to_nothing_are_kept() -> None:
    async def story() -> set[str]:
        work = queue()
        for key in "abc":
            work.add_after(key, 0.0003)
        return {await work.get() for _ in "abc"}

    assert uvloop.run(story()) == set("abc")


@on_virtual_time
async def test_one_of_few_keys_of_a_group_does_not_wait_for_the_many_of_another() -> None:
    work: WorkQueue[str] = WorkQueue("fair", rng=random.Random(1), group=lambda key: key[0])
    for number in range(100):
        work.add(f"a{number}")
    work.add("b0")
    work.add("b1")

    assert await work.take_batch(5) == ["a0", "b0", "a1", "b1", "a2"]
    assert len(work) == 97
