"""The hub's end of the snapshot worker: starts it, sends it each change, asks it, and starts it
again when it ends.

Changes and questions go out in the order in which they are made, a few at a time, so that the event
loop is not held up. So a question is answered on the memory of the hub as it was when the question
was asked, although the hub goes on.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import federator
from federator.hub.cache.state import HubState
from federator.hub.records.feed import Change, Op
from federator.hub.snapshot import frames, worker
from federator.hub.snapshot.frames import HEAD
from federator.hub.snapshot.places import Kind
from federator.hub.snapshot.world import Heads
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.process import logs

log = logging.getLogger(__name__)

CHUNK: Final = 32
"""Changes that are pickled in one turn of the event loop: about a millisecond."""
BEHIND_MIN: Final = 10_000
BEHIND_OF: Final = 2
"""Changes that may wait to be sent: so many, or so many for each workload and decision. A worker
that is further behind is started again, which is then less work."""
PING_S: Final = 5.0
SILENT_S: Final = 300.0
"""A worker that has not said anything for so long is given up: one that begins to follow a hundred
thousand workloads on a busy machine needs a minute for its first word."""
HUNG_S: Final = 30.0
"""The same once it has spoken: plans wait for it."""
LAG: Final = "federator_snapshot_lag_seconds"
MEMORY: Final = "federator_snapshot_memory_bytes"
COMMAND: Final = (sys.executable, "-P", "-m", "federator.hub.snapshot.worker")
"""Without the current directory in the path of modules: it may be anybody's."""
PARENT: Final = str(Path(federator.__file__).resolve().parent.parent)
"""Where the worker finds the same modules."""
Log = tuple[str, logs.Style]
"""Level and style of the log, as in `logs.configure`."""


class Lost(Exception):
    """The worker, or the process of one answer, ended before it answered."""


class Follower:
    """One worker process and what it follows, from `begin` until it ends."""

    def __init__(
        self,
        state: HubState,
        clock: Clock,
        metrics: Metrics | None,
        log_as: Log = ("INFO", "auto"),
    ) -> None:
        self.state = state
        self._log_as = log_as
        self.ended = asyncio.Event()
        self._clock = clock
        self._metrics = metrics
        self._heads = Heads()
        self._changes: deque[Any] = deque()
        self._there: Iterator[Change] = iter(())
        """What there was when it began, as far as it is not sent yet."""
        self._wake = asyncio.Event()
        self._heard_s = 0.0
        """When it said anything last."""
        self._spoken = False
        self._pings: deque[float] = deque()
        """When it was asked for figures that it has not sent yet."""
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._unsent: dict[int, bytes] = {}
        """Questions that wait to be sent, without their heads. Apart from the changes, because one
        may be large, and goes when its caller goes. The head stays: later ones build on it."""
        self._numbers = itertools.count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid if self._process is not None else 0

    async def begin(self) -> None:
        """Starts the process. Raises OSError if there can be none."""
        pipe = asyncio.subprocess.PIPE
        path = [PARENT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *self._log_as,
            stdin=pipe,
            stdout=pipe,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        )
        self._changes = self.state.feed.follow()
        self.state.feed.when_next(self._wake.set)
        self._there = present(self.state)
        self._task = asyncio.create_task(self._run())
        # Not in the task: one that is cancelled before its first step runs nothing of itself.
        self._task.add_done_callback(self._over)

    async def ask(self, kind: Kind, seconds: float, work: Any, arguments: tuple[Any, ...]) -> Any:
        """What `work` returns or raises in the worker. Raises `Lost`."""
        if self.ended.is_set():
            raise Lost
        number = next(self._numbers)
        # First what may fail: the head that is made is what the worker has from then on.
        question = frames.dumps((work, arguments))
        head = frames.dumps(self._heads.next(self.state, self._clock))
        self._unsent[number] = question
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._send((worker.ASK, number, (int(kind), seconds), head))
        try:
            done, result = frames.loads(await answer)
        finally:
            del self._answers[number]
            unsent = self._unsent.pop(number, None)
            if answer.cancelled() and unsent is None:
                self._send((worker.CANCEL, number))
        if done:
            return result
        raise result

    async def end(self) -> None:
        """Ends the process and what it computes."""
        if self._task is not None and self._process is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            await self._process.wait()

    def _send(self, message: tuple[Any, ...]) -> None:
        self._changes.append(message)
        self._wake.set()

    async def _run(self) -> None:
        tasks = [asyncio.create_task(part) for part in (self._tell(), self._hear(), self._ping())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (why := task.exception()) is not None:
                    log.warning("the snapshot worker is given up: %s", why)
        finally:
            for task in tasks:
                task.cancel()

    def _over(self, _: asyncio.Task[None]) -> None:
        assert self._process is not None
        self.ended.set()
        if self.state.feed.is_followed_by(self._changes):
            self.state.feed.end()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Lost())
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._publish({})

    async def _tell(self) -> None:
        """Sends what changes, until the process has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        pipe = self._process.stdin
        while True:
            self._wake.clear()
            self.state.feed.when_next(self._wake.set)
            while chunk := self._next():
                pipe.write(frames.framed(frames.dumps(chunk)))
                await pipe.drain()
                await asyncio.sleep(0)
            await self._wake.wait()

    def _next(self) -> list[Any]:
        if chunk := list(itertools.islice(self._there, CHUNK)):
            return chunk
        changes = self._changes
        return [self._complete(changes.popleft()) for _ in range(min(CHUNK, len(changes)))]

    def _complete(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """With the question after its head; empty if nobody waits for its answer any more."""
        if message[0] == worker.ASK:
            return (*message, self._unsent.pop(message[1], b""))
        return message

    async def _hear(self) -> None:
        """Takes answers, until the process has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                (length,) = HEAD.unpack(await pipe.readexactly(HEAD.size))
                self._take(frames.loads(await pipe.readexactly(length)))
        log.warning("the snapshot worker has ended")

    def _take(self, message: tuple[Any, ...]) -> None:
        what, about, said = message
        self._heard_s = self._clock.monotonic()
        self._spoken = True
        if what == worker.PONG:
            self._pings.popleft()
            self._publish({LAG: self._clock.monotonic() - about, MEMORY: float(said)})
            return
        answer = self._answers.get(about)
        if answer is None or answer.done():
            return
        if what == worker.DONE:
            answer.set_result(said)
        else:
            log.warning("an answer is lost: %s", said)
            answer.set_exception(Lost())

    async def _ping(self) -> None:
        """Asks for its figures. Raises RuntimeError when it has stopped to take anything."""
        self._heard_s = self._clock.monotonic()
        while True:
            now_s = self._clock.monotonic()
            silent_s = HUNG_S if self._spoken else SILENT_S
            if now_s - self._heard_s > silent_s:
                raise RuntimeError(f"it has said nothing for {silent_s:.0f} s")
            present = len(self.state.workloads) + len(self.state.records)
            if len(self._changes) > (most := max(BEHIND_MIN, BEHIND_OF * present)):
                raise RuntimeError(f"it is more than {most} changes behind")
            if self._pings:
                self._publish({LAG: now_s - self._pings[0]})
            self._pings.append(now_s)
            self._send((worker.PING, now_s))
            await asyncio.sleep(PING_S)

    def _publish(self, figures: Mapping[str, float]) -> None:
        if self._metrics is None:
            return
        if figures:
            self._metrics.publish({name: {(): value} for name, value in figures.items()})
        else:
            self._metrics.publish({LAG: {}, MEMORY: {}})


def present(state: HubState) -> Iterator[Change]:
    """All that there is now, as changes. Read in the turn in which this is called."""
    workloads, records = list(state.workloads.rows()), list(state.records.rows())
    return itertools.chain(
        ((Op.WORKLOAD, *each) for each in workloads),
        ((Op.RECORD, *each) for each in records),
        state.commitments.all_changes(),
    )
