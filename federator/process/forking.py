"""One task for each of many things, on several processors.

The processes are forked: what a task reads, a whole federation perhaps, is there at once and is
copied only where it is written. Only results are sent. Where forking is not safe (anything but
Linux: libraries of macOS have threads of their own), or not worth it, all is done in this process.
"""

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Final, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")
_PR_SET_PDEATHSIG: Final = 1
"""`man 2 prctl`."""


def processors() -> int:
    """On how many processors this process may run at once; 1 where it cannot be forked."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def end_with_parent() -> bool:
    """Ends this process when its parent ends, however that does. False where the system cannot
    (anything but Linux)."""
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)
    except (OSError, AttributeError):
        return False


def each(
    task: Callable[[Given], Made], given: Sequence[Given], *, processes: int
) -> Iterable[Made]:
    """The results, in the order of what was given; they must be picklable. Raises what a task
    raises. What a process had that was killed is done here."""
    processes = min(processes, len(given))
    if processes < 2:
        return map(task, given)
    with_own = [_begun(task, given[at::processes]) for at in range(1, processes)]
    parts = [[task(entry) for entry in given[::processes]]]
    parts += [_received(receiver, task, part) for receiver, part in with_own]
    return [parts[at % processes][at // processes] for at in range(len(given))]


def _begun(
    task: Callable[[Given], Made], part: Sequence[Given]
) -> tuple[Connection, Sequence[Given]]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, part, sender), daemon=True)
    process.start()
    sender.close()
    return receiver, part


def _work(task: Callable[[Given], Made], part: Sequence[Given], sender: Connection) -> None:
    gc.freeze()  # the collector writes into whatever it looks at, which would then be copied
    try:
        sender.send((True, [task(entry) for entry in part]))
    except Exception as trouble:  # it is raised where it was asked for
        sender.send((False, trouble))


def _received(
    receiver: Connection, task: Callable[[Given], Made], part: Sequence[Given]
) -> list[Made]:
    try:
        done, result = receiver.recv()
    except EOFError:
        return [task(entry) for entry in part]
    if not done:
        raise result
    made: list[Made] = result
    return made
