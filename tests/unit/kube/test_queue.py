"""The work queue as a data structure: signals collapse, one worker per key, failures wait, nothing is lost."""

import asyncio
import collections
import random
from collections.abc import Sequence
from typing import Any

import pytest
import uvloop

from federator.kube import errors
from federator.kube.queue import Batch, WorkQueue
from federator.model.steps import Revisit
from tests.unit.kube.scripted import on_virtual_time


def queue(**options: Any) -> WorkQueue[str]:
    return WorkQueue("test", rng=random.Random(3), **options)


class Served:
    """A queue with workers; each turn of a key is noted with its time."""

    def __init__(self, work: WorkQueue[str], handler: Any, workers: int = 2) -> None:
        self.work = work
        self.turns: list[tuple[str, float]] = []
        self._handler = handler
        self._task = asyncio.create_task(work.run(self._turn, workers))

    async def _turn(self, key: str) -> Any:
        self.turns.append((key, asyncio.get_running_loop().time()))
        return await self._handler(key)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled()


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
async def test_workers_are_hired_when_all_are_busy_and_leave_when_nothing_is_ready() -> None:
    work = queue()
    at_once = most = 0

    async def handler(_key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1)
        at_once -= 1

    def hired() -> int:
        return sum(task.get_name().startswith("queue test worker") for task in asyncio.all_tasks())

    served = Served(work, handler, workers=8)
    for _ in range(2):  # those who left are hired again
        most = 0
        await asyncio.sleep(0.5)
        assert hired() == 0
        for number in range(20):
            work.add(str(number))
        await asyncio.sleep(0.5)
        assert (at_once, hired()) == (8, 7)
        await asyncio.sleep(3)
        assert (most, work.idle) == (8, True)
    await served.stop()

    for number in range(20):  # signalled while nobody serves
        work.add(str(number))
    served = Served(work, handler, workers=8)
    await asyncio.sleep(0.5)
    assert (at_once, hired()) == (8, 7)
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

    async def again_until_due(key: str) -> Revisit | None:
        left = due - asyncio.get_running_loop().time()
        return Revisit(key, min(left, 1e-12), "not quite there") if left > 0 else None

    served = Served(work, again_until_due)
    work.add("a")
    await asyncio.sleep(2)
    assert len(served.turns) < 1200
    await served.stop()


@on_virtual_time
async def test_a_revisit_brings_the_key_back() -> None:
    work = queue()

    async def handler(key: str) -> Any:
        return Revisit(key, 7.0, "a token expires") if len(served.turns) < 3 else None

    served = Served(work, handler)
    work.add("a")
    await asyncio.sleep(100)
    assert [time for _, time in served.turns] == [0.0, 7.0, 14.0]
    await served.stop()


@on_virtual_time
async def test_transient_failures_back_off_exponentially_with_a_cap_and_success_forgets_them() -> None:
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
            raise ExceptionGroup("two members", [errors.Unreachable("a"), errors.Throttled("b", retry_after_s=20.0)])

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
@pytest.mark.parametrize("batches", [False, True])
async def test_a_cancellation_that_strayed_into_a_turn_fails_it_and_ends_nobody(batches: bool) -> None:
    """A connector that is closed cancels what its users wait for; it does not mean those who serve the queue."""
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
            key: str, rng: random.Random = rng, told: dict[str, float] = told, seen: dict[str, float] = seen
        ) -> Any:
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(rng.random() * 0.05)
            if rng.random() < 0.2:
                raise errors.Unreachable("no")
            seen[key] = begun
            return Revisit(key, 0.5, "again") if rng.random() < 0.1 else None

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
    # The spare one heeds nobody whose group is in work: the first ordinary one to be free takes all that wait.
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
