"""`federator runtime guard`: reads the lease of its cluster and answers the liveness probes of the
pod's containers, so that the kubelet stops them when the lease is over.

It never stops anything itself, and needs nobody to be reachable: without an API server it goes on
by what it has read, and answers 503 at the very moment that this is over. A guard that is started
anew in the same pod goes on from the state that the one before has left.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from federator.runtime import asking, fencing, probes
from federator.runtime.fencing import Renewal, Sight
from federator.runtime.probes import Asked, Probes
from federator.runtime.reading import Unread

log = logging.getLogger("federator.guard")

REQUEST_S: Final = 2.0
"""A probe's request that is not complete by then is given up."""
STATE: Final = "sight.json"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
TICK_S: Final = 0.5
"""How soon the log tells that the lease ran out, and how exactly probes of containers are asked."""


def elapsed() -> float:
    """Seconds by this machine's own clock, its sleep included. All processes since one boot share
    it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


@dataclass(slots=True)
class Guard:
    """What one guard knows. `clock` counts on while the machine sleeps; `wall` is epoch seconds."""

    lease: Callable[[], Awaitable[Renewal]]
    """Reads the lease as it is now; raises `reading.Unread` in time."""
    probes: Probes = field(default_factory=Probes)
    state: Path | None = None
    """A folder that outlives this process and not the pod; None: nothing is kept."""
    clock: Callable[[], float] = elapsed
    wall: Callable[[], float] = time.time
    sight: Sight = field(default_factory=Sight)
    _said: str | None = None
    _unread: str = ""

    def why_not(self) -> str:
        """Why nothing may run now; "" when it may."""
        return fencing.why_not(self.sight, self.clock(), self.wall())

    def answer(self, path: str) -> tuple[int, str]:
        """Status and text for one request: `/healthz` is the lease, `/healthz/NAME` the lease and
        the probes of a container."""
        if why := self.why_not():
            return 503, f"may not run: {why}"
        if path == "/healthz":
            return 200, "the lease is good"
        asked = self.probes.asked.get(path.removeprefix("/healthz/"))
        if not path.startswith("/healthz/") or asked is None:
            return 404, "there is no container of this name"
        asked.begins(self.clock())
        if asked.bad:
            why = asked.bad
            asked.heard(fencing.PROBE_FAILURES)
            return 503, why
        return 200, "the lease is good, and the container is well"

    # -- the lease ------------------------------------------------------------

    async def read(self) -> None:
        """Reads the lease once. Raises nothing of the network."""
        asked_s = self.clock()
        try:
            renewal = await self.lease()
        except Unread as trouble:
            if not self._unread:
                log.warning("the lease cannot be read: %s", trouble)
            self._unread = str(trouble)
            return
        if self._unread:
            log.info("the lease is read again, after: %s", self._unread)
            self._unread = ""
        self.sight = fencing.look(self.sight, renewal, asked_s)
        self._keep()
        self.tell()

    def tell(self) -> None:
        """One line when it turns good or bad."""
        why = self.why_not()
        if self._said is not None and bool(why) == bool(self._said):
            return
        self._said = why
        if why:
            log.warning("the containers of this pod may not run: %s", why)
        else:
            left_s = (self.sight.until_s or 0.0) - self.clock()
            log.info("the lease is good for %.0f s: the containers of this pod may run", left_s)

    def _keep(self) -> None:
        if self.state is None:
            return
        text = json.dumps({"boot": _boot(), **asdict(self.sight)})
        fresh = self.state / f"{STATE}.new"
        with contextlib.suppress(OSError):
            fresh.write_text(text, "ascii")
            fresh.replace(self.state / STATE)

    def resume(self) -> None:
        """Goes on from what an earlier guard of this pod has left, since the same boot."""
        if self.state is None:
            return
        try:
            kept = json.loads((self.state / STATE).read_text("ascii"))
            if kept.pop("boot") != _boot():
                return
            sight = Sight(**{**kept, "renewal": Renewal(**kept["renewal"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return
        if sight.asked_s is not None and sight.asked_s <= self.clock():
            self.sight = sight
            log.info("goes on from what an earlier guard of this pod had read")

    # -- running --------------------------------------------------------------

    async def run(self, host: str | None, port: int) -> None:
        """Serves and reads until cancelled. Raises OSError when the port is taken."""
        self.resume()
        server = await asyncio.start_server(self._serve, host, port)
        async with server, asyncio.TaskGroup() as group:
            group.create_task(_every(fencing.POLL_S, self.read), name="lease")
            group.create_task(_every(TICK_S, self._tick), name="turns")
            for name, asked in self.probes.asked.items():
                group.create_task(self._ask(name, asked), name=f"probes of {name}")

    async def _tick(self) -> None:
        self.tell()

    async def _ask(self, name: str, asked: Asked) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            probe = asked.present
            if probe is None or asked.due_s is None or self.clock() < asked.due_s:
                continue
            before, why = asked.bad, await asking.ask(probe)
            asked.answered(why, self.clock())
            if asked.bad and not before:
                log.warning("container %s is to be stopped: %s", name, asked.bad)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                line = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ")
                while (await reader.readuntil(b"\r\n")) != b"\r\n":
                    pass
                path = line[1].partition("?")[0] if len(line) > 1 else ""
                status, text = self.answer(path)
                body = f"{text}\n".encode()
                head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\n"
                head += f"Content-Length: {len(body)}\r\nContent-Type: text/plain\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the client has gone, or sends something else than HTTP
        finally:
            writer.close()


async def _every(period_s: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Begins it at the same pace, however long it takes."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        await act()
        due_s = max(due_s + period_s, loop.time())
        await asyncio.sleep(due_s - loop.time())


def _boot() -> str:
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text("ascii").strip()
    return ""


async def wait(port: int) -> None:
    """Returns when the guard of this pod says that the lease is good."""
    probe = probes.Probe({"httpGet": {"path": "/healthz", "port": port}})
    said = ""
    while why := await asking.ask(probe):
        if why != said:
            log.info("waits until the lease is good: %s", why)
            said = why
        await asyncio.sleep(1.0)
    log.info("the lease is good: the containers of this pod start")


def main(work: Coroutine[Any, Any, None]) -> None:
    """Runs it until it ends, or until SIGTERM or SIGINT."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")

    async def until_told() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_told())


def written_probes(environ_name: str) -> Probes:
    """The probes in a variable, as `kinds` writes them. Raises ValueError."""
    text = os.environ.get(environ_name, "")
    return Probes.of(json.loads(text)) if text else Probes()
