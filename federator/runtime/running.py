"""Runs the parts of one pod: `init` before the application starts, `Sidecar` next to it.

A part that fails never ends another one: each has a task of its own, with its own back-off. How the
parts are is told three ways: to the kubelet and the application over HTTP, to people by a state
file (`federator runtime check`), and, where an init run gives up, by its termination message, which
a kubelet writes into the status of the pod.
"""

import asyncio
import contextlib
import hmac
import json
import logging
import os
import signal
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from federator.runtime.parts import (
    DRAIN_HEADER,
    DRAIN_MAX_S,
    DRAIN_TOKEN,
    Part,
    PartState,
    Waiting,
)
from federator.runtime.roles import Pod

log = logging.getLogger("federator.runtime")

PORT: Final = 15190
STATE_FILE: Final = "runtime.json"
TERMINATION: Final = "FEDERATOR_TERMINATION_LOG"
TERMINATION_MAX: Final = 2048
"""Characters; a kubelet keeps 4096 bytes."""
TICK_S: Final = 1.0
"""The state file follows the parts within this time."""
WAIT_MIN_S: Final = 0.5
WAIT_MAX_S: Final = 30.0
DRAIN_S: Final = DRAIN_MAX_S + 5.0
"""A drain is given up after this time, whatever a part waits for: later than admission lets one
last."""
CONNECTIONS_MAX: Final = 64
"""At the same time. With more, the oldest one that has not asked anything yet is closed."""
PLACES_MAX: Final = 12
"""Frames of an error that the log shows, the innermost ones."""
REQUEST_S: Final = 2.0
"""A request that is not complete by then is given up."""
HEAD_MAX: Final = 1 << 14
NOT_STARTED: Final = "NotStarted"


def first_trouble(states: Sequence[PartState]) -> str:
    """The first part that is not ready, and why: "identity: the CA refuses ...". "" when all are
    ready. In the order of the roles, because a later part often waits for an earlier one."""
    return next((f"{each.part}: {each.message}" for each in states if not each.ready), "")


def document(states: Sequence[PartState], *, drained: bool, at: float) -> dict[str, Any]:
    """What the state file and `/state` hold."""
    return {
        "v": 1,
        "at": round(at, 3),
        "ready": all(each.ready for each in states),
        "drained": drained,
        "trouble": first_trouble(states),
        "parts": [asdict(each) for each in states],
    }


@dataclass(slots=True)
class Delay:
    """Seconds until the next try of one part: doubled from `WAIT_MIN_S` to `WAIT_MAX_S`, with
    jitter, so that the pods of a workload do not ask together."""

    chance: Callable[[], float]
    failures: int = 0

    def next(self) -> float:
        ceiling = min(WAIT_MAX_S, WAIT_MIN_S * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return ceiling * (0.5 + self.chance() / 2)


@dataclass(slots=True)
class _Kept:
    """One part, and what was said about it."""

    part: Part
    over: PartState | None = None
    """In place of the part's own state, while it waits or has failed."""
    said: str = ""

    def state(self) -> PartState:
        return self.over or self.part.state()

    def tell(self) -> None:
        """One line of log when the reason changes."""
        state = self.state()
        now = f"{state.ready} {state.reason} {state.message}"
        if now == self.said:
            return
        self.said = now
        level = logging.INFO if state.ready else logging.WARNING
        log.log(level, "%s: %s (%s)", state.part, state.message, state.reason)


def alone(bad: Exception) -> Exception:
    """The error in a group of one, as a task group raises it."""
    while isinstance(bad, ExceptionGroup) and len(bad.exceptions) == 1:
        bad = bad.exceptions[0]
    return bad


def places(bad: Exception) -> str:
    """Where an error was raised, outermost first; nothing of its message."""
    frames = list(traceback.walk_tb(bad.__traceback__))[-PLACES_MAX:]
    return ", ".join(
        f"{Path(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}"
        for frame, line in frames
    )


def _failed(part: Part, unforeseen: Exception) -> PartState:
    """A bug of ours, or an error nobody foresaw: by its type only, since a message may hold what
    was read. Writes to the log where it was raised."""
    bad = alone(unforeseen)
    log.error("%s failed with %s at %s", part.name, type(bad).__name__, places(bad))
    message = f"failed with {type(bad).__name__}; the log of the runtime says where"
    return PartState(part.name, ready=False, reason="Failed", message=message)


async def _prepared(kept: _Kept, pod: Pod, changed: Callable[[], None]) -> None:
    """Returns once the part is prepared."""
    delay = Delay(pod.chance)
    while True:
        try:
            await kept.part.prepare()
        except Waiting as waits:
            kept.over = waits.state
        except Exception as bad:  # one part's bug must not end the others
            kept.over = _failed(kept.part, bad)
        else:
            kept.over = None
            changed()
            return
        changed()
        await asyncio.sleep(delay.next())


async def init(parts: Sequence[Part], pod: Pod, folder: Path | None, within_s: float) -> str:
    """Prepares the parts in order. Returns "" when all are, else the first reason after
    `within_s`; the kubelet then starts it again, and what is prepared is kept."""
    kept = [_Kept(part) for part in parts]
    written: list[PartState] = []

    def changed() -> None:
        nonlocal written
        for each in kept:
            if each.over is not None:
                each.tell()
        if (states := [each.state() for each in kept]) != written:
            written = states
            keep(folder, states, drained=False, at=pod.wall())

    async def follow() -> None:
        """What a part says while it prepares: a download may take minutes."""
        while True:
            await asyncio.sleep(TICK_S)
            changed()

    now: _Kept | None = None
    following = asyncio.create_task(follow(), name="state file")
    try:
        async with asyncio.timeout(within_s):
            for now in kept:
                await _prepared(now, pod, changed)
                log.info("%s is prepared", now.part.name)
    except TimeoutError:
        assert now is not None
        state = now.state()
        why = state.message if not state.ready else f"not prepared within {within_s:g} s"
        return f"{state.part}: {why}"
    finally:
        following.cancel()
        await asyncio.wait([following])
        if not following.cancelled() and (bad := following.exception()) is not None:
            log.error("the state file was not followed: %s", type(bad).__name__)
    return ""


def keep(folder: Path | None, states: Sequence[PartState], *, drained: bool, at: float) -> None:
    """Writes the state file, as a whole. A full disk costs the file only."""
    if folder is None:
        return
    fresh = folder / f".{STATE_FILE}.{os.getpid()}"
    try:
        fresh.write_text(json.dumps(document(states, drained=drained, at=at)), "utf-8")
        fresh.replace(folder / STATE_FILE)
    except OSError as bad:
        log.warning("the state file cannot be written: %s", bad.strerror)


def terminated(text: str, env_path: str) -> None:
    """Leaves the reason where a kubelet finds it."""
    with contextlib.suppress(OSError):
        Path(env_path or "/dev/termination-log").write_text(text[:TERMINATION_MAX], "utf-8")


@dataclass(slots=True)
class Sidecar:
    """The parts next to the application."""

    parts: Sequence[Part]
    pod: Pod
    folder: Path | None = None
    """Folder of the state file: outlives this process and not the pod."""
    drain_s: float = DRAIN_S
    tick_s: float = TICK_S
    _kept: list[_Kept] = field(init=False)
    _drain: "asyncio.Task[bool] | None" = None
    _written: list[PartState] = field(default_factory=list)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _asking: dict[asyncio.StreamWriter, None] = field(default_factory=dict)
    """Connections without a whole request, oldest first."""

    def __post_init__(self) -> None:
        self._kept = [
            _Kept(part, PartState(part.name, ready=False, reason=NOT_STARTED, message="starts"))
            for part in self.parts
        ]

    def states(self) -> list[PartState]:
        return [each.state() for each in self._kept]

    @property
    def drained(self) -> bool:
        return self._drain is not None and self._drain.done() and self._drain.result()

    async def run(self, host: str | None, port: int, stop: asyncio.Event) -> None:
        """Serves and runs the parts until `stop`; then drains, if nobody has asked for it before,
        and ends. Raises OSError when the port is taken."""
        server = await asyncio.start_server(self._serve, host, port, limit=HEAD_MAX)
        async with server:
            await self.keep_up(stop)

    async def keep_up(self, stop: asyncio.Event) -> None:
        """The same without a server: somebody else asks `answer`."""
        work = asyncio.create_task(self._work(), name="parts")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                await self.drain()
        finally:
            stopped.cancel()
            work.cancel()
            await asyncio.wait([work])
        self._tell()
        if not work.cancelled() and (bad := work.exception()) is not None:
            raise bad

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self._kept:
                group.create_task(self._run(each), name=each.part.name)
            group.create_task(self._follow(), name="state file")

    async def _run(self, kept: _Kept) -> None:
        delay = Delay(self.pod.chance)
        while True:
            await _prepared(kept, self.pod, kept.tell)
            begun_s = self.pod.monotonic()
            try:
                await kept.part.run()
                return  # such a part has nothing to do after its preparation
            except Waiting as waits:
                kept.over = waits.state
            except Exception as bad:  # one part's bug must not end the others
                kept.over = _failed(kept.part, bad)
            kept.tell()
            if self.pod.monotonic() - begun_s > WAIT_MAX_S:
                delay.failures = 0
            await asyncio.sleep(delay.next())

    async def _follow(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(self.tick_s)

    def _tell(self) -> None:
        for each in self._kept:
            each.tell()
        states = self.states()
        if states != self._written or self.drained:
            keep(self.folder, states, drained=self.drained, at=self.pod.wall())
            self._written = states

    # -- draining -------------------------------------------------------------

    async def drain(self) -> bool:
        """Whether every part has drained; False after `drain_s`. May be asked for many times: it
        happens once, and goes on when a caller hangs up."""
        if self._drain is None:
            self._drain = asyncio.create_task(self._drained(), name="drain")
        return await asyncio.shield(self._drain)

    async def _drained(self) -> bool:
        begun_s = self.pod.monotonic()
        log.info("drains: nothing is to be sent to this pod any more")
        try:
            async with asyncio.timeout(self.drain_s):
                done = await asyncio.gather(
                    *(each.part.drain() for each in self._kept), return_exceptions=True
                )
        except TimeoutError:
            log.warning("the drain was given up after %g s", self.drain_s)
            return False
        for each, bad in zip(self._kept, done, strict=True):
            if isinstance(bad, Exception):
                log.error("%s failed to drain: %s", each.part.name, type(bad).__name__)
        log.info("drained after %.1f s", self.pod.monotonic() - begun_s)
        return True

    # -- HTTP -----------------------------------------------------------------

    async def answer(self, path: str, token: str = "", *, inside: bool) -> tuple[int, str, str]:
        """(status, content type, body) for a GET. `token`: of the request's header. `inside`: it
        comes from the pod, which alone is told messages."""
        if path == "/healthz":
            return 200, "text/plain", "ok\n"
        if path == "/readyz":
            late = next((each for each in self.states() if not each.ready), None)
            if late is None:
                return 200, "text/plain", "ok\n"
            why = late.message if inside else late.reason
            return 503, "text/plain", f"{late.part}: {why}\n"
        if path == "/state":
            if not inside:
                return 403, "text/plain", "only the pod itself is told\n"
            shown = document(self.states(), drained=self.drained, at=self.pod.wall())
            return 200, "application/json", json.dumps(shown) + "\n"
        if path == "/drain":
            wanted = self.pod.env.get(DRAIN_TOKEN, "").encode()
            if wanted and not hmac.compare_digest(token.encode(), wanted):
                return 403, "text/plain", f"{DRAIN_HEADER} does not hold the token of this pod\n"
            if await self.drain():
                return 200, "text/plain", "drained\n"
            return 503, "text/plain", "the drain was given up\n"
        return 404, "text/plain", "there are /healthz, /readyz, /state and /drain\n"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            if not self._asking:
                writer.transport.abort()
                return
            oldest = next(iter(self._asking))
            del self._asking[oldest]
            oldest.transport.abort()
        self._open.add(writer)
        self._asking[writer] = None
        token = ""
        try:
            async with asyncio.timeout(REQUEST_S):
                line = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ")
                while (read := await reader.readuntil(b"\r\n")) != b"\r\n":
                    name, _, value = read.decode("latin-1").partition(":")
                    if name.lower() == DRAIN_HEADER.lower():
                        token = value.strip()
            self._asking.pop(writer, None)
            inside = _inside(writer.get_extra_info("peername"))
            if len(line) != 3 or line[0] != "GET":
                status, kind, text = 405, "text/plain", "only GET is served\n"
            else:
                status, kind, text = await self.answer(
                    line[1].partition("?")[0], token, inside=inside
                )
            body = text.encode()
            head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\n"
            head += f"Content-Length: {len(body)}\r\nContent-Type: {kind}; charset=utf-8\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            async with asyncio.timeout(REQUEST_S):
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the client has gone, or sends something else than HTTP
        finally:
            self._asking.pop(writer, None)
            self._open.discard(writer)
            writer.close()


def _inside(peer: Any) -> bool:
    """Whether an address of a peer is one of loopback."""
    host = str(peer[0]) if isinstance(peer, tuple) else ""
    return host == "::1" or host.removeprefix("::ffff:").startswith("127.")


def main(work: Callable[[asyncio.Event], Coroutine[Any, Any, int]]) -> int:
    """Runs it until it ends; SIGTERM and SIGINT set its event. Returns its exit status."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")

    async def until_told() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        return await work(stop)

    return asyncio.run(until_told())


async def run_init(
    parts: Sequence[Part], pod: Pod, folder: Path | None, within_s: float, stop: asyncio.Event
) -> int:
    """The init run as a process: exit status 0 when all parts are prepared; 1, with the reason as
    termination message, when not, or when it is told to stop."""
    work = asyncio.create_task(init(parts, pod, folder, within_s), name="init")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
        return 1
    why = work.result()
    if why:
        log.error("the pod cannot start yet: %s", why)
        terminated(why, pod.env.get(TERMINATION, ""))
        return 1
    return 0
