"""Runs a command and ends everything that it started, however the run ends.

The Makefile starts the tests and the builds of the real parts through this file:
`python tests/running/supervise.py COMMAND [ARG ...]`. The command's exit status is returned. On
SIGTERM, SIGINT or SIGHUP the command gets SIGINT, so that a test run prints its summary and its
fixtures end their servers. After `GRACE_S` seconds, or when the command has ended by itself, every
process that it or its descendants started and that still runs gets SIGTERM and then SIGKILL.

On Linux the supervisor is a child subreaper (prctl(2)): a process whose parent has ended becomes its
child, so that servers in process groups of their own are found too. Elsewhere only the command's own
process group can be ended.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

GRACE_S = 20.0
"""Seconds for the command to end after a signal: fixtures stop API servers one after another."""
REMAINS_S = 5.0
"""Seconds for the remaining processes to end after SIGTERM."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PROC = Path("/proc")


def run(command: list[str]) -> int:
    """Runs the command and returns its exit status, 128 + N when signal N has ended it or us."""
    _adopt_orphans()
    # A shell starts a command in the background with SIGINT ignored, and the command would inherit
    # that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    child = subprocess.Popen(command, start_new_session=True)
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    for number in PASSED_ON:
        signal.signal(number, stop)
    asked_s = 0.0
    try:
        while child.poll() is None:
            if stopped and not asked_s:
                asked_s = time.monotonic()
                _signal_group(child.pid, signal.SIGINT)
            if asked_s and time.monotonic() - asked_s > GRACE_S:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.2)
            _reap_orphans(child.pid)
    finally:
        _end_remaining(child.pid)
    if stopped:
        return 128 + stopped[0]
    status = child.wait()
    return 128 - status if status < 0 else status


def descendants(pid: int) -> list[int]:
    """The processes below this one, parents first; empty where there is no /proc."""
    found = list(_children(pid))
    for child in tuple(found):
        found += descendants(child)
    return found


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it may end meanwhile, and each of its threads
        for task in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                yield from map(int, (task / "children").read_text().split())


def _adopt_orphans() -> None:
    """Makes this process a subreaper that ends when `make` is killed."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _reap_orphans(command: int) -> None:
    """Takes the status of adopted processes that have ended: as zombies they would seem to run."""
    for pid in _children(os.getpid()):
        if pid != command:
            _reaped(pid)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _end_remaining(command: int) -> None:
    """Ends the command's group and all descendants; processes may start others while they end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + REMAINS_S
        _signal_group(command, number)
        signalled: set[int] = set()
        while time.monotonic() < deadline:
            running = [pid for pid in descendants(os.getpid()) if not _reaped(pid)]
            if not running:
                return
            for pid in running:
                if pid not in signalled:
                    signalled.add(pid)
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            time.sleep(0.05)


def _reaped(pid: int) -> bool:
    """Whether the process has ended; its status is taken where it is our child."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return not (PROC / str(pid)).exists()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
