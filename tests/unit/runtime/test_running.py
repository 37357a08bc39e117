"""The runner of the runtime: order, back-off, drain, and how it tells what works."""

import asyncio
import contextlib
import functools
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from federator.cli.running import runtime as command
from federator.runtime import roles, running
from federator.runtime.parts import DRAIN_MAX_S, Part, PartState, Waiting
from federator.runtime.roles import BadSetting, Pod
from federator.runtime.running import Sidecar
from tests import virtual_time
from tests.running.ports import free_port


@dataclass
class Scripted(Part):
    """A part that fails as often as told, and writes down what is asked of it."""

    part: str
    log: list[str]
    waits: int = 0
    breaks: int = 0
    drain_s: float = 0.0
    good: bool = True
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.part

    async def prepare(self) -> None:
        self.log.append(f"prepare {self.part}")
        if self.waits:
            self.waits -= 1
            raise Waiting(PartState(self.part, ready=False, reason="Away", message="no CA"))

    async def run(self) -> None:
        self.log.append(f"run {self.part}")
        self.begun.set()
        if self.breaks:
            self.breaks -= 1
            raise RuntimeError("token eyJhbGciOi is bad")
        await self.done.wait()

    async def drain(self) -> None:
        self.log.append(f"drain {self.part}")
        await asyncio.sleep(self.drain_s)
        self.log.append(f"drained {self.part}")

    def state(self) -> PartState:
        return PartState(self.part, self.good, "Fine" if self.good else "Late", "a sentence")


def pod() -> Pod:
    return Pod(env={}, monotonic=lambda: asyncio.get_running_loop().time(), wall=lambda: 1000.0)


def on_virtual_time(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**given: Any) -> None:
        virtual_time.run(test(**given))

    return run


async def served(
    sidecar: Sidecar, path: str, token: str = "", *, inside: bool = True
) -> tuple[int, str]:
    status, _, body = await sidecar.answer(path, token, inside=inside)
    return status, body


@on_virtual_time
async def test_the_init_run_prepares_one_part_after_the_other(tmp_path: Path) -> None:
    log: list[str] = []
    parts = [Scripted("identity", log, waits=2), Scripted("secrets", log)]

    assert await running.init(parts, pod(), tmp_path, 60.0) == ""
    assert log == ["prepare identity"] * 3 + ["prepare secrets"]


@on_virtual_time
async def test_an_init_run_that_gives_up_names_the_part_that_waits(tmp_path: Path) -> None:
    parts = [Scripted("identity", []), Scripted("secrets", [], waits=10**6)]

    assert await running.init(parts, pod(), tmp_path, 60.0) == "secrets: no CA"
    kept = json.loads((tmp_path / running.STATE_FILE).read_text())
    assert kept["trouble"] == "secrets: no CA"


class Odd(Scripted):
    """Its state cannot be told while it prepares."""

    async def prepare(self) -> None:
        self.good = False
        await asyncio.sleep(5)
        self.good = True

    def state(self) -> PartState:
        assert self.good
        return super().state()


@on_virtual_time
async def test_what_ends_the_state_file_is_in_the_log_of_the_init_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The parts are prepared all the same, and no task is left."""
    assert await running.init([Odd("identity", [])], pod(), tmp_path, 60.0) == ""
    assert "the state file was not followed: AssertionError" in caplog.text
    assert asyncio.all_tasks() == {asyncio.current_task()}


def working(sidecar: Sidecar) -> "asyncio.Task[None]":
    return asyncio.create_task(sidecar._work())


@on_virtual_time
async def test_a_part_that_breaks_is_run_again_and_ends_no_other(tmp_path: Path) -> None:
    log: list[str] = []
    sidecar = Sidecar([Scripted("a", log, breaks=1), Scripted("b", log)], pod(), tmp_path)
    work = working(sidecar)
    await asyncio.sleep(0.1)
    status, why = await served(sidecar, "/readyz")
    assert (status, "a: failed with RuntimeError" in why) == (503, True)
    await asyncio.sleep(60)
    assert await served(sidecar, "/readyz") == (200, "ok\n")
    assert (log.count("run a"), log.count("run b")) == (2, 1)
    work.cancel()


@on_virtual_time
async def test_what_a_part_fails_with_is_in_no_state(tmp_path: Path) -> None:
    sidecar = Sidecar([Scripted("a", [], breaks=10**6)], pod(), tmp_path)
    work = working(sidecar)
    await asyncio.sleep(5)

    assert "eyJhbGciOi" not in (tmp_path / running.STATE_FILE).read_text()
    assert "eyJhbGciOi" not in (await served(sidecar, "/state"))[1]
    work.cancel()


@on_virtual_time
async def test_the_first_part_that_is_not_ready_is_the_reason(tmp_path: Path) -> None:
    parts = [Scripted("a", []), Scripted("b", [], good=False), Scripted("c", [], good=False)]
    sidecar = Sidecar(parts, pod(), None)
    work = working(sidecar)
    await asyncio.sleep(0.1)

    assert await served(sidecar, "/readyz") == (503, "b: a sentence\n")
    work.cancel()


@on_virtual_time
async def test_a_drain_happens_once_for_all_who_ask(tmp_path: Path) -> None:
    log: list[str] = []
    sidecar = Sidecar([Scripted("a", log, drain_s=5)], pod(), None)
    first = asyncio.create_task(served(sidecar, "/drain"))
    await asyncio.sleep(1)
    first.cancel()  # the kubelet hangs up
    begun_s = asyncio.get_running_loop().time()
    assert await served(sidecar, "/drain") == (200, "drained\n")

    assert asyncio.get_running_loop().time() - begun_s == pytest.approx(4)
    assert log == ["drain a", "drained a"]
    assert json.loads((await served(sidecar, "/state"))[1])["drained"] is True


@on_virtual_time
async def test_a_drain_that_hangs_is_given_up(tmp_path: Path) -> None:
    sidecar = Sidecar([Scripted("a", [], drain_s=10**4)], pod(), None, drain_s=30)
    begun_s = asyncio.get_running_loop().time()
    assert await served(sidecar, "/drain") == (503, "the drain was given up\n")

    assert asyncio.get_running_loop().time() - begun_s == pytest.approx(30)
    assert json.loads((await served(sidecar, "/state"))[1])["drained"] is False


@on_virtual_time
async def test_a_drain_that_admission_lets_through_is_not_given_up(tmp_path: Path) -> None:
    sidecar = Sidecar([Scripted("a", [], drain_s=DRAIN_MAX_S)], pod(), None)
    assert await served(sidecar, "/drain") == (200, "drained\n")


@on_virtual_time
async def test_a_drain_wants_the_token_of_the_pod(tmp_path: Path) -> None:
    log: list[str] = []
    guarded = replace(pod(), env={"FEDERATOR_DRAIN_TOKEN": "t0ken-ü"})
    sidecar = Sidecar([Scripted("a", log)], guarded, tmp_path)
    for wrong in ("", "t0ken", "t0ken-ü "):
        status, why = await served(sidecar, "/drain", wrong)
        assert (status, "X-Federator-Drain" in why) == (403, True)
        assert "t0ken" not in why
    assert log == []
    assert "t0ken" not in (await served(sidecar, "/state"))[1]
    assert "t0ken" not in repr(sidecar)
    assert await served(sidecar, "/drain", "t0ken-ü", inside=False) == (200, "drained\n")
    assert log == ["drain a", "drained a"]


@on_virtual_time
async def test_other_pods_are_told_part_and_reason_alone(tmp_path: Path) -> None:
    sidecar = Sidecar([Scripted("a", []), Scripted("b", [], good=False)], pod(), None)
    work = working(sidecar)
    await asyncio.sleep(0.1)
    assert await served(sidecar, "/readyz", inside=False) == (503, "b: Late\n")
    assert (await served(sidecar, "/state", inside=False))[0] == 403
    work.cancel()


@on_virtual_time
async def test_what_a_part_fails_with_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Grouped(Scripted):
        async def run(self) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(super().run())

    sidecar = Sidecar([Grouped("a", [], breaks=1)], pod(), None)
    work = working(sidecar)
    await asyncio.sleep(0.1)
    assert "eyJhbGciOi" not in caplog.text
    assert "a failed with RuntimeError at " in caplog.text
    assert re.search(r"test_running\.py:\d+ run", caplog.text)
    work.cancel()


async def test_the_port_tells_the_state_and_stops_when_told(tmp_path: Path) -> None:
    log: list[str] = []
    part = Scripted("a", log)
    sidecar = Sidecar([part], Pod(env={}), tmp_path)
    stop, port = asyncio.Event(), free_port()
    work = asyncio.create_task(sidecar.run("127.0.0.1", port, stop))
    await part.begun.wait()
    found, note = await asyncio.to_thread(command.asked, port, tmp_path)
    assert (found["ready"], note) == (True, "")
    check = ["check", f"--port={port}"]
    shown = await asyncio.to_thread(CliRunner().invoke, command.runtime, check)
    assert (shown.exit_code, shown.output.splitlines()[1].split()) == (
        0,
        ["a", "yes", "Fine", "a", "sentence"],
    )
    assert await raw(port, b"POST /drain HTTP/1.1\r\n\r\n") == b"405"
    stop.set()
    await work

    assert log[-2:] == ["drain a", "drained a"]
    left, note = await asyncio.to_thread(command.asked, port, tmp_path)
    assert left["drained"] is True
    assert "does not answer" in note


async def test_only_the_header_of_the_hook_drains_over_the_port(tmp_path: Path) -> None:
    log: list[str] = []
    part = Scripted("a", log)
    sidecar = Sidecar([part], Pod(env={"FEDERATOR_DRAIN_TOKEN": "t0ken"}), None)
    async with serving(sidecar) as port:
        await part.begun.wait()
        ask = b"GET /drain HTTP/1.1\r\nHost: x\r\n"
        assert await raw(port, ask + b"\r\n") == b"403"
        assert await raw(port, ask + b"X-Federator-Drain: other\r\n\r\n") == b"403"
        assert "drain a" not in log
        assert await raw(port, ask + b"x-federator-drain: t0ken\r\n\r\n") == b"200"
        assert "drained a" in log


async def test_idle_connections_keep_no_probe_waiting(tmp_path: Path) -> None:
    part = Scripted("a", [])
    sidecar = Sidecar([part], Pod(env={}), None)
    async with serving(sidecar) as port:
        await part.begun.wait()
        idle = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(2 * running.CONNECTIONS_MAX)
        ]
        assert await raw(port, b"GET /healthz HTTP/1.1\r\n\r\n") == b"200"
        assert len(sidecar._open) <= running.CONNECTIONS_MAX
        assert await idle[0][0].read() == b""
        for _, writer in idle:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(sidecar: Sidecar) -> AsyncIterator[int]:
    stop, port = asyncio.Event(), free_port()
    work = asyncio.create_task(sidecar.run("127.0.0.1", port, stop))
    try:
        yield port
    finally:
        stop.set()
        await work


async def raw(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    line = await reader.readline()
    writer.close()
    return line.split(b" ")[1]


def test_unknown_roles_are_refused_with_those_there_are() -> None:
    with pytest.raises(BadSetting, match="there is no role 'identty'; the roles are identity"):
        roles.made(["identty"], Pod(env={}))


def test_a_variable_that_is_missing_is_named() -> None:
    with pytest.raises(BadSetting, match="FEDERATOR_TRUST_DOMAIN is not set"):
        roles.made(["identity"], Pod(env={}))


@pytest.mark.parametrize("text", ["-1", "nan", "soon", "inf"])
def test_seconds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="a number of seconds"):
        Pod(env={"X": text}).seconds("X", 1.0)
