"""The snapshot worker, a process of its own: `python -m federator.hub.snapshot.worker`.

It follows the changes of the leader's memory, in one thread. For each question it forks, unless a
short first part answers it (`quick`): the child has the world exactly as it was when the question
was asked, without a copy of what it does not write, computes one answer and ends. So an answer that
takes long, takes much memory or is killed costs neither the world nor another answer. The process
has no thread and no connection, which is what makes forking safe here and not in the hub.
"""

import functools
import gc
import logging
import math
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, cast

from federator.hub.records.feed import Op
from federator.hub.snapshot import frames
from federator.hub.snapshot.frames import Frames
from federator.hub.snapshot.places import NICE, WORKER_NICE, Kind
from federator.hub.snapshot.prepared import Prepared
from federator.hub.snapshot.quick import Quick
from federator.hub.snapshot.world import StateCopy
from federator.kube.clock import RealClock
from federator.process import forking, logs, malloc

log = logging.getLogger(__name__)

READ: Final = 1 << 20
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
FIRST_S: Final = 0.5
"""Seconds after which a first part makes no further decision, and a child answers."""
ASK: Final = "ask"
"""(ASK, number, (kind, seconds), pickled head, pickled (function, arguments)); the last one
is empty if nobody waits for the answer any more."""
CANCEL: Final = "cancel"
PING: Final = "ping"
DONE: Final = "done"
"""(DONE, number, pickled (True, result) or (False, exception))."""
LOST: Final = "lost"
"""(LOST, number, why): the child ended without an answer."""
PONG: Final = "pong"
"""(PONG, what came with the ping, bytes of memory)."""


def never() -> bool:
    """A child is killed when nobody waits for it."""
    return False


@dataclass(slots=True)
class _Child:
    number: int
    pid: int
    pipe: int
    parts: list[bytes] = field(default_factory=list)


class Worker:
    """Reads from `source`, answers on `sink`, until `source` ends."""

    def __init__(self, source: int, sink: int) -> None:
        self.world = StateCopy()
        self._source = source
        self._sink = sink
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._frames = Frames()

    def run(self) -> None:
        """Until the hub ends or lets go of it."""
        self._selector.register(self._source, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fd != self._source:
                        self._hear(key.data)
                    elif not self._read():
                        return
        finally:
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)
            for child in self._children.values():
                os.waitpid(child.pid, 0)

    def _read(self) -> bool:
        """Takes what the hub has written. Returns False at its end."""
        data = os.read(self._source, READ)
        for frame in self._frames.add(data):
            for message in frames.loads(frame):
                self._take(message)
        return bool(data)

    def _take(self, message: tuple[Any, ...]) -> None:
        match message:
            case (str() as what, number, *rest) if what == ASK:
                self._ask(number, *rest)
            case (str() as what, number) if what == CANCEL:
                if (child := self._children.get(number)) is not None:
                    os.kill(child.pid, signal.SIGKILL)
            case (str() as what, stamp) if what == PING:
                self._say((PONG, stamp, memory()))
            case (op, what, value):
                self.world.apply((Op(op), what, value))

    def _ask(self, number: int, terms: tuple[int, float], head: bytes, question: bytes) -> None:
        """Begins a child for this question."""
        kind, seconds = terms
        self.world.take(frames.loads(head))
        if not question:
            return
        if kind == Kind.PLAN:
            self._prepare()
        if kind == Kind.VERDICT and (answer := self._quickly(question)) is not None:
            self._say((DONE, number, answer))
            return
        receiver, sender = os.pipe()
        own = os.getpid()
        try:
            pid = os.fork()
        except OSError as trouble:
            os.close(receiver)
            os.close(sender)
            self._say((LOST, number, f"no process can be started: {trouble.strerror}"))
            return
        if pid == 0:
            try:  # nothing of the worker may run here, not even its clean-up
                for pipe in (receiver, self._source, self._sink):
                    os.close(pipe)  # or the hub would not hear of the end of the worker
                forking.end_with_parent()
                if os.getppid() == own:  # else it ended before this one could hear of it
                    compute = functools.partial(_answered, self.world, question)
                    _compute(compute, sender, NICE[Kind(kind)], seconds)
            except Exception:
                log.exception("the process of an answer failed")
            finally:
                os._exit(1)
        os.close(sender)
        child = self._children[number] = _Child(number, pid, receiver)
        self._selector.register(receiver, selectors.EVENT_READ, child)

    def _prepare(self) -> None:
        """Brings up to date what plans share. A plan can do without."""
        try:
            self.world.prepared.update(self.world)
        except Exception:
            log.exception("plans are not prepared")
            self.world.prepared = Prepared()

    def _quickly(self, question: bytes) -> bytes | None:
        """The answer if a first part is enough; None if it takes a child, which also reports what
        is wrong with a question."""
        clock = RealClock()
        until_s = clock.elapsed() + FIRST_S
        try:
            work, arguments = frames.loads(question)
            if not isinstance(work, Quick):
                return None
            answer = work.first(self.world, *arguments, lambda: clock.elapsed() >= until_s)
        except Exception:
            log.debug("a first part failed", exc_info=True)
            return None
        return None if answer is None else frames.dumps((True, answer))

    def _hear(self, child: _Child) -> None:
        """Takes what a child has written; at its end passes it on."""
        if data := os.read(child.pipe, READ):
            child.parts.append(data)
            return
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.number]
        _, status = os.waitpid(child.pid, 0)
        if status == 0:
            self._say((DONE, child.number, b"".join(child.parts)))
        else:
            ended = os.waitstatus_to_exitcode(status)
            self._say((LOST, child.number, f"its process ended with {ended}"))

    def _say(self, message: tuple[Any, ...]) -> None:
        data = memoryview(frames.framed(frames.dumps(message)))
        while data:
            data = data[os.write(self._sink, data) :]


def _answered(world: StateCopy, question: bytes) -> Any:
    """In the child, so that a question that cannot be read is an error of its caller alone."""
    work, arguments = frames.loads(question)
    if isinstance(work, Quick):
        work = work.rest  # the worker has tried the first part
    return work(world, *arguments, never)


def _compute(work: Callable[[], Any], sender: int, nice: int, seconds: float) -> NoReturn:
    """In the child: one answer, and the end of the process. An alarm ends it after its time even if
    the worker is gone."""
    signal.alarm(math.ceil(seconds) + 1)
    gc.freeze()  # the collector would write into all pages of the world, which copies them
    os.nice(nice)
    try:
        answer = True, work()
    except Exception as trouble:
        answer = False, trouble
    data = memoryview(_answer(answer))
    while data:
        data = data[os.write(sender, data) :]
    os._exit(0)


def _answer(answer: tuple[bool, Any]) -> bytes:
    """The answer as a pickle; for an exception that cannot be read again its text."""
    try:
        pickled = frames.dumps(answer)
        if not answer[0]:
            frames.loads(pickled)
    except Exception:
        log.exception(
            "an answer cannot be passed on", exc_info=answer[1] if not answer[0] else None
        )
        return frames.dumps((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
    return pickled


def memory() -> int:
    """Bytes of memory that this process has in use now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Follows the hub that started it, and logs as it does: the level and the style are arguments.
    The hub ends it by closing the pipe."""
    level, style = sys.argv[1:]
    logs.configure(level, cast(logs.Style, style))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the hub
    source, sink = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what prints must not get between frames
    os.nice(WORKER_NICE)
    malloc.collect_rarely()
    malloc.return_large_blocks()
    try:
        Worker(source, sink).run()
    except BrokenPipeError:
        sys.exit(0)
    except Exception:
        log.exception("the snapshot worker failed")
        sys.exit(1)


if __name__ == "__main__":
    main()
