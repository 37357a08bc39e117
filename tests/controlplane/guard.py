"""Ends the processes of a control plane when the test process that started them is gone, however it
went.

processes.py starts this file as a child and writes `+pid` and `-pid` lines to its standard input.
The end of that input means that the test process has died or is done: what is still listed is
ended, the last started first.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

GRACE_S = 5.0


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _end(pid: int) -> None:
    """SIGTERM to the group, then SIGKILL: an API server whose etcd is gone never ends by itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        deadline = time.monotonic() + GRACE_S
        while _is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not _is_running(pid):
            return


def main() -> None:
    """Follows standard input to its end, then ends what is left and removes the directory in its
    argument.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    running: list[int] = []
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            running.append(pid)
        elif pid in running:
            running.remove(pid)
    for pid in reversed(running):
        _end(pid)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
