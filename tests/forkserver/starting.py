"""Starts commands of `federator` for tests, through one fork server for each test process.

A command runs in a process of its own and costs what it does, without a second of imports. That the
program also starts from nothing is tested by `tests/e2e/test_cold_starts.py`.
"""

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.forkserver import asking

FEDERATOR: Final = (sys.executable, "-m", "federator")
"""How a person starts `federator`; `start` and `run` fork instead."""
HERE: Final = Path(__file__).parent
START_S = 120.0
END_S = 10.0


class Started:
    """A forked command, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Sequence[str], connection: socket.socket, pid: int) -> None:
        self.args = list(arguments)
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the exit status. Raises `subprocess.TimeoutExpired` after so many seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def end(self) -> None:
        """SIGKILL if it still runs, and waits until it is gone."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(END_S)

    def _ended(self, within_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], within_s)[0]:
            answer = self._connection.recv(64)
            self._connection.close()
            if not answer:
                raise ConnectionError("the fork server has ended")
            self.returncode = int(answer)
        return self.returncode


class ForkServer:
    """The server, which ends with the test process."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="federator-forkserver-")
        self.home = Path(self._directory.name)
        self.address = str(self.home / "socket")
        # Standard streams of the commands are as those of a shell without a locale.
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            # Where set, another checkout of the package is what is tested.
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "OPENBLAS_NUM_THREADS": "1",  # threads do not survive a fork
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "server.py"), self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=self.home,
            start_new_session=True,
        )
        self.pid = self._process.pid
        atexit.register(self.stop)
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], START_S)[0]:
            raise TimeoutError(f"the fork server did not start within {START_S:g} s")
        if self._process.stdout.readline() != b"serving\n":
            raise RuntimeError(f"the fork server ended with {self._process.wait(END_S)}")

    def stop(self) -> None:
        """Ends the server with everything it runs; safe to call twice."""
        atexit.unregister(self.stop)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(END_S)
        self._directory.cleanup()

    def program(self) -> Path:
        """A directory with a program `federator` that asks this server, for a PATH."""
        directory = self.home / "bin"
        if not directory.exists():
            directory.mkdir()
            path = directory / "federator"
            path.write_text(
                f"#!{sys.executable} -IS\n"
                f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
                f"import asking\nasking.main({self.address!r})\n"
            )
            path.chmod(0o700)
        return directory


_RUNNING: list[ForkServer] = []


def server() -> ForkServer:
    """The server of this test process, started when it is first asked for."""
    if not _RUNNING:
        _RUNNING.append(ForkServer())
    return _RUNNING[0]


def is_federator(arguments: Sequence[str]) -> bool:
    return tuple(arguments[: len(FEDERATOR)]) == FEDERATOR


def start(
    arguments: Sequence[str],
    streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
    *,
    environment: Mapping[str, str],
    directory: Path,
    session: bool = False,
) -> Started:
    """Starts a command that begins with `FEDERATOR`; `session` gives it a process group of its own."""
    connection, pid = asking.ask(
        server().address,
        arguments[len(FEDERATOR) :],
        [stream.fileno() for stream in streams],
        environment=environment,
        directory=str(directory),
        session=session,
    )
    return Started(arguments, connection, pid)


def run(
    arguments: Sequence[str],
    *,
    input: str,
    environment: Mapping[str, str],
    directory: Path,
    timeout_s: float,
) -> tuple[int, str, str]:
    """Runs a command that begins with `FEDERATOR` to its end; returns its exit status, standard
    output and standard error. Raises `subprocess.TimeoutExpired`.
    """
    with contextlib.ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(input.encode())
        given.seek(0)
        child = start(arguments, (given, out, err), environment=environment, directory=directory)
        try:
            code = child.wait(timeout_s)
        finally:
            child.end()
        for stream in (out, err):
            stream.seek(0)
        return code, out.read().decode(), err.read().decode()
