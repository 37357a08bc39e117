"""Child processes of the tests: started in their own groups, watched, and ended whatever happens.

cluster.py owns one `Family` for each control plane. A child that dies is reported with the end of
its log.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.forkserver import starting
from tests.forkserver.starting import Started

GRACE_S = 5.0
COLLECTS = {"GOGC": "400", "GOMEMLIMIT": "800MiB"}
"""Settings of Go's garbage collector: an API server that starts spends a third of its processor time
there by default. Up to this limit it does not take more memory for it than without.
"""
GUARD = Path(__file__).with_name("guard.py")


class ChildDied(Exception):
    """A child ended by itself; the message has its exit status and last lines."""


class Child:
    """One running program with its log file. `federator` is forked by the fork server."""

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self.process = _started(arguments, log, environment)

    def check(self) -> None:
        """Raises `ChildDied` when the program has ended."""
        if self.process.poll() is not None:
            raise ChildDied(
                f"{self.name} ended with status {self.process.returncode}: {self.last_lines()}"
            )

    def last_lines(self, count: int = 3) -> str:
        """The end of its log in one line."""
        lines = self.log.read_text(errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-count:]) or "it wrote nothing"

    def stop(self) -> None:
        """SIGTERM to its group, then SIGKILL, and waits until it is gone, so that its port is free
        again.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(GRACE_S)


def _started(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes] | Started":
    """A process that leads a group of its own and writes to `log`."""
    with log.open("wb") as output:
        if starting.is_federator(arguments):
            with open(os.devnull, "rb") as nothing:
                return starting.start(
                    arguments,
                    (nothing, output, output),
                    environment=environment,
                    directory=log.parent,
                    session=True,
                )
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=log.parent,
            start_new_session=True,
        )


class Family:
    """Children that end together, the last started first, with a private directory that goes with
    them.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="federator-controlplane-"))
        self.children: list[Child] = []
        self._guard = subprocess.Popen(
            [sys.executable, "-S", str(GUARD), str(self.directory)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        atexit.register(self.stop)

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Starts a program; its log is `<name>.log` in the directory."""
        # Go programs would follow proxy variables to the loopback address and read a stray
        # KUBECONFIG.
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.directory), **COLLECTS}
        child = Child(name, arguments, self.directory / f"{name}.log", environment)
        self._tell(f"+{child.process.pid}")
        self.children.append(child)
        return child

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Polls until `ready`. Raises `ChildDied` at once when a child ends, else `TimeoutError`
        with last lines.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self.check()
            if ready():
                return
            if time.monotonic() > deadline:
                tails = "; ".join(f"{child.name}: {child.last_lines(1)}" for child in self.children)
                raise TimeoutError(
                    f"{what} was not ready within {timeout_s:.0f} s. Last lines: {tails}"
                )
            time.sleep(0.05)

    def check(self) -> None:
        """Raises `ChildDied` for the first child that has ended."""
        for child in self.children:
            child.check()

    def drop(self, child: Child) -> None:
        """Ends one child."""
        child.stop()
        self.children.remove(child)
        self._tell(f"-{child.process.pid}")

    def stop(self) -> None:
        """Ends all children and removes the directory; safe to call twice."""
        atexit.unregister(self.stop)
        for child in reversed(list(self.children)):
            self.drop(child)
        if self._guard.stdin and not self._guard.stdin.closed:
            self._guard.stdin.close()
        self._guard.wait(GRACE_S)

    @contextlib.contextmanager
    def guarding(self, pid: int) -> Iterator[None]:
        """Ends the group of a process that somebody else has started, if the test process is gone
        before the block ends.
        """
        self._tell(f"+{pid}")
        try:
            yield
        finally:
            self._tell(f"-{pid}")

    def _tell(self, line: str) -> None:
        assert self._guard.stdin is not None
        with contextlib.suppress(
            BrokenPipeError
        ):  # without its guard a family still ends by `stop`
            print(line, file=self._guard.stdin, flush=True)


@contextlib.contextmanager
def popen(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A process in a group of its own, with the streams and the environment of `subprocess.Popen`. Its
    group is killed at the end of the block, and ends with the test process.
    """
    family = Family()
    try:
        with (
            subprocess.Popen(command, text=True, start_new_session=True, **options) as started,
            family.guarding(started.pid),
        ):
            try:
                yield started
            finally:
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)
    finally:
        family.stop()
