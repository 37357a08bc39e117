"""The snapshot worker as a process: what it answers, and what is left when it or a part of it ends."""

import asyncio
import os
import pickle
import re
import signal
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from federator.hub.cache.state import HubState
from federator.hub.options import HubOptions
from federator.hub.query.access import AccessRefused
from federator.hub.records import workloads
from federator.hub.snapshot import following
from federator.hub.snapshot.computing import Broken, Snapshots
from federator.hub.snapshot.following import Follower, Lost
from federator.hub.snapshot.places import Kind
from federator.kube.clock import RealClock
from federator.kube.metrics import Metrics
from tests.unit.hub import snapshot_works as works
from tests.unit.hub import world as worlds

WAIT_S = 60.0
LAG = re.compile(r"^federator_snapshot_lag_seconds (\d\S*)", re.M)
MEMORY = re.compile(r"^federator_snapshot_memory_bytes (\d\S*)", re.M)
pytestmark = pytest.mark.asyncio


def put(state: HubState, name: str) -> None:
    meta = {"name": name, "namespace": "feed", "uid": f"uid-{name}", "resourceVersion": "1"}
    obj = {"metadata": meta, "spec": worlds.service(3, "250m")}
    state.observe_workload(workloads.summarise("PinterestService", obj, None))


@pytest.fixture
def state() -> HubState:
    made = HubState(HubOptions())
    for number in range(100):
        put(made, f"w{number}")
    return made


@pytest_asyncio.fixture
async def snapshots(state: HubState) -> AsyncIterator[Snapshots]:
    made = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=WAIT_S, metrics=Metrics())
    try:
        yield made
    finally:
        await made.close()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not happened():  # noqa: ASYNC110 (other processes set no Event)
            await asyncio.sleep(0.01)


async def there(path: Path) -> int:
    """The process that has written this file, once it has."""
    await until(path.exists)
    return int(await asyncio.to_thread(path.read_text, encoding="ascii"))


async def gone(pid: int) -> None:
    await until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_an_answer_is_about_the_moment_of_its_question(
    snapshots: Snapshots, state: HubState, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    first = asyncio.create_task(snapshots(Kind.PLAN, works.count_when, begun, go))
    pid = await there(begun)

    put(state, "later")
    assert await snapshots(Kind.WHAT_IF, works.count) == 101
    go.touch()

    assert await first == (pid, 100)
    assert pid not in (os.getpid(), snapshots.pid)


async def test_a_short_first_part_of_a_verdict_takes_no_process_of_its_own(
    snapshots: Snapshots,
) -> None:
    assert await snapshots(Kind.VERDICT, works.QUICK, "short") == (snapshots.pid, "first")
    for how in ("long", "bug", "until it is stopped"):
        pid, answer = await snapshots(Kind.VERDICT, works.QUICK, how)
        assert answer == f"rest {how}"
        assert pid not in (os.getpid(), snapshots.pid)
    pid, answer = await snapshots(Kind.PLAN, works.QUICK, "short")
    assert pid != snapshots.pid  # only verdicts may hold up the changes


async def test_the_event_loop_goes_on_while_an_answer_is_computed(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    asked = asyncio.create_task(snapshots(Kind.PLAN, works.count_when, begun, go))
    await there(begun)

    for _ in range(1000):
        await asyncio.sleep(0)

    assert not asked.done()  # it would never end if it held the loop: only the loop lets it go
    go.touch()
    assert (await asked)[1] == 100


async def test_the_answer_of_a_caller_that_leaves_is_stopped(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    asked = asyncio.create_task(snapshots(Kind.PLAN, works.count_when, begun, go))
    pid = await there(begun)

    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked

    await gone(pid)
    assert await snapshots(Kind.PLAN, works.count) == 100


async def test_a_question_that_is_abandoned_before_it_is_sent_leaves_only_its_head(
    snapshots: Snapshots, state: HubState
) -> None:
    assert await snapshots(Kind.PLAN, works.count) == 100
    os.kill(snapshots.pid, signal.SIGSTOP)
    filling = asyncio.create_task(snapshots(Kind.WHAT_IF, works.measure, bytes(4_000_000)))
    await asyncio.sleep(0)  # no more fits into the pipe
    state.profiles["new"] = {"object": {}}
    tracemalloc.start()
    try:
        for _ in range(4):
            asked = asyncio.create_task(snapshots(Kind.PLAN, works.measure, bytes(8_000_000)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
            del asked
        assert tracemalloc.get_traced_memory()[0] < 8_000_000
    finally:
        tracemalloc.stop()
    os.kill(snapshots.pid, signal.SIGCONT)

    assert await filling == (4_000_000, [])
    assert await snapshots(Kind.PLAN, works.measure, b"") == (0, ["new"])


async def test_a_worker_that_is_killed_is_started_again_and_the_question_asked_again(
    snapshots: Snapshots, state: HubState, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    asked = asyncio.create_task(snapshots(Kind.PLAN, works.hang_once, begun))
    child = await there(begun)
    killed = snapshots.pid

    put(state, "later")
    os.kill(killed, signal.SIGKILL)

    assert await asked == 101
    assert snapshots.pid not in (0, killed)
    await gone(child)


async def test_a_worker_that_hangs_is_replaced(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await snapshots(Kind.PLAN, works.count) == 100
    monkeypatch.setattr(following, "HUNG_S", 1.0)
    hangs = snapshots.pid
    os.kill(hangs, signal.SIGSTOP)

    asked = asyncio.create_task(snapshots(Kind.PLAN, works.count))
    await gone(hangs)
    monkeypatch.undo()

    assert await asked == 100
    assert snapshots.pid not in (0, hangs)


async def test_a_worker_that_is_too_far_behind_is_replaced(
    snapshots: Snapshots, state: HubState, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await snapshots(Kind.PLAN, works.count) == 100
    monkeypatch.setattr(following, "PING_S", 0.1)
    monkeypatch.setattr(following, "HUNG_S", 1000.0)
    hangs = snapshots.pid
    os.kill(hangs, signal.SIGSTOP)
    key, workload = next(iter(state.workloads.rows()))
    for _ in range(2 * following.BEHIND_MIN):
        state.workloads[key] = workload

    await gone(hangs)
    assert await snapshots(Kind.PLAN, works.count) == 100


async def test_the_lag_grows_while_the_worker_is_silent(
    state: HubState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PING_S", 0.1)
    metrics = Metrics()
    made = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=WAIT_S, metrics=metrics)

    def lag() -> float:
        found = LAG.search(metrics.render().decode())
        return float(found[1]) if found else 0.0

    try:
        assert await made(Kind.PLAN, works.count) == 100
        os.kill(made.pid, signal.SIGSTOP)
        before = lag()
        await until(lambda: lag() > before + 1.0)
    finally:
        await made.close()


async def test_an_answer_that_ends_its_process_is_given_up_and_costs_no_other(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    assert await snapshots(Kind.PLAN, works.count) == 100
    pid, tries = snapshots.pid, tmp_path / "tries"

    with pytest.raises(Broken):
        await snapshots(Kind.PLAN, works.die, tries)

    assert tries.read_text(encoding="ascii") == "xx"
    assert await snapshots(Kind.PLAN, works.count) == 100
    assert snapshots.pid == pid


async def test_a_process_that_fails_before_it_computes_ends_no_other(
    snapshots: Snapshots, state: HubState, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    other = asyncio.create_task(snapshots(Kind.PLAN, works.count_when, begun, go))
    pid = await there(begun)
    follower = await snapshots._following()

    with pytest.raises(Lost):
        await follower.ask(cast(Kind, 99), WAIT_S, works.count, ())  # no such class

    go.touch()
    assert await other == (pid, 100)


async def test_no_module_of_the_current_directory_is_imported(
    snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "struct.py").write_text("raise SystemExit(3)", encoding="ascii")
    monkeypatch.chdir(tmp_path)

    assert await snapshots(Kind.PLAN, works.count) == 100


async def test_what_the_worker_logs_is_redacted(
    snapshots: Snapshots, capfd: pytest.CaptureFixture[str]
) -> None:
    await snapshots(Kind.PLAN, works.tell)

    written = capfd.readouterr().err
    assert "[redacted]" in written
    assert "correcthorse" not in written


async def test_what_an_answer_raises_is_raised_to_the_caller(snapshots: Snapshots) -> None:
    with pytest.raises(AccessRefused) as refused:
        await snapshots(Kind.PLAN, works.refuse)
    assert (refused.value.status, refused.value.retry_after_s) == (422, 3)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await snapshots(Kind.PLAN, works.break_down)


async def test_a_question_that_cannot_be_pickled_or_read_is_an_error_of_its_caller_alone(
    snapshots: Snapshots, state: HubState
) -> None:
    assert await snapshots(Kind.PLAN, works.count) == 100
    pid = snapshots.pid
    state.profiles["new"] = {"object": {}}

    with pytest.raises((AttributeError, pickle.PicklingError)):
        await snapshots(Kind.PLAN, works.measure, lambda: b"")
    with pytest.raises(ValueError, match="no number"):
        await snapshots(Kind.PLAN, works.measure, works.Unreadable())

    assert await snapshots(Kind.PLAN, works.measure, b"") == (0, ["new"])
    assert snapshots.pid == pid


async def test_an_answer_that_takes_too_long_is_stopped(state: HubState, tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    short = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=5.0)
    try:
        with pytest.raises(TimeoutError):
            await short(Kind.PLAN, works.count_when, begun, go)
        if begun.exists():  # else the worker was not there in time
            await gone(await there(begun))
    finally:
        await short.close()


async def test_lag_and_memory_are_published_while_there_is_a_worker(state: HubState) -> None:
    metrics = Metrics()
    made = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=WAIT_S, metrics=metrics)
    try:
        assert await made(Kind.PLAN, works.count) == 100
        await until(lambda: bool(MEMORY.search(metrics.render().decode())))
        shown = metrics.render().decode()
        assert LAG.search(shown)
        assert (memory := MEMORY.search(shown))
        assert float(memory[1]) > 1e7
        assert "federator_snapshot_starts_total 1.0" in shown
    finally:
        await made.close()
    assert not LAG.search(metrics.render().decode())
    assert made.pid == 0


async def test_a_worker_that_is_ended_before_its_first_step_is_gone(state: HubState) -> None:
    follower = Follower(state, RealClock(), None)
    await follower.begin()
    pid, changes = follower.pid, follower._changes
    await follower.end()

    assert not alive(pid)
    assert follower.ended.is_set()
    assert not state.feed.is_followed_by(changes)


async def test_open_questions_start_no_worker_after_the_end(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    asked = asyncio.create_task(snapshots(Kind.PLAN, works.count_when, begun, go))
    await there(begun)
    await snapshots.close()

    with pytest.raises(Broken):
        await asked
    with pytest.raises(Broken):
        await snapshots(Kind.PLAN, works.count)
    assert snapshots.pid == 0


async def test_a_hub_that_leads_no_more_has_no_worker(state: HubState) -> None:
    leads = True
    state.leader_gate = lambda: leads
    state.ready = True
    made = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=WAIT_S)
    running = asyncio.create_task(made.run())
    try:
        assert await made(Kind.PLAN, works.count) == 100
        pid = made.pid
        leads = False
        await gone(pid)
        with pytest.raises(Broken):
            await made(Kind.PLAN, works.count)
    finally:
        running.cancel()
        await asyncio.wait([running])
    put(state, "later")  # which nobody follows
    assert made.pid == 0
