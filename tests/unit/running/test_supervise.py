"""The supervisor of the Makefile leaves no process behind, however a run ends."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.running import supervise

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="Only Linux has child subreapers."),
]

COMMAND = """
import pathlib, subprocess, sys, time
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
deaf = subprocess.Popen(["sh", "-c", "trap '' TERM INT; while :; do sleep 1; done"], start_new_session=True)
pathlib.Path("pids").write_text(f"{server.pid} {deaf.pid}\\n")
try:
    time.sleep(float(sys.argv[1]))
finally:
    pathlib.Path("summary").write_text("printed")
sys.exit(3)
"""
START_S = 60.0


def start(home: Path, seconds: float) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", COMMAND, str(seconds)]
    return subprocess.Popen([sys.executable, supervise.__file__, *command], cwd=home)


def started(home: Path) -> list[int]:
    """The processes that the command started, once it has."""
    deadline = time.monotonic() + START_S
    file = home / "pids"
    while not file.is_file() or not file.read_text().endswith("\n"):
        assert time.monotonic() < deadline, "the command has not started"
        time.sleep(0.05)
    return [int(pid) for pid in file.read_text().split()]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_status_is_the_commands_and_its_servers_end(tmp_path: Path) -> None:
    supervisor = start(tmp_path, 0)
    pids = started(tmp_path)

    assert supervisor.wait(START_S) == 3
    assert [pid for pid in pids if runs(pid)] == []


def test_an_orphan_that_ends_is_no_zombie(tmp_path: Path) -> None:
    """A test that waits for the end of a killed process's child would wait for ever."""
    orphan = (
        "import subprocess; print(subprocess.Popen(['sleep', '0.1']).pid, file=open('pids', 'w'))"
    )
    command = f"{sys.executable} -c {shlex.quote(orphan)}; sleep 600"
    supervisor = subprocess.Popen(
        [sys.executable, supervise.__file__, "sh", "-c", command], cwd=tmp_path
    )
    (pid,) = started(tmp_path)

    deadline = time.monotonic() + START_S
    while runs(pid):
        assert time.monotonic() < deadline, "the orphan is a zombie"
        time.sleep(0.05)
    supervisor.terminate()
    assert supervisor.wait(START_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_interrupts_the_command_and_ends_its_servers(
    number: signal.Signals, tmp_path: Path
) -> None:
    supervisor = start(tmp_path, 600)
    pids = started(tmp_path)
    supervisor.send_signal(number)

    assert supervisor.wait(START_S) == 128 + number
    assert [pid for pid in pids if runs(pid)] == []
    assert (tmp_path / "summary").is_file(), "the command could not print its summary"


def test_a_run_in_the_background_is_interrupted_too(tmp_path: Path) -> None:
    """A shell without job control starts commands in the background with SIGINT ignored."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        supervisor = start(tmp_path, 600)
    finally:
        signal.signal(signal.SIGINT, usual)
    started(tmp_path)
    supervisor.terminate()

    assert supervisor.wait(START_S) == 128 + signal.SIGTERM
    assert (tmp_path / "summary").is_file(), "the command could not print its summary"


def test_a_killed_make_ends_the_run(tmp_path: Path) -> None:
    """Nobody signals the supervisor then; the kernel does."""
    words = [sys.executable, supervise.__file__, sys.executable, "-c", COMMAND, "600"]
    make = subprocess.Popen(["sh", "-c", f'{words[0]} "$@"; :', "sh", *words[1:]], cwd=tmp_path)
    pids = started(tmp_path)
    make.kill()
    make.wait(START_S)

    deadline = time.monotonic() + START_S
    while any(map(runs, pids)):
        assert time.monotonic() < deadline, "servers are left"
        time.sleep(0.05)
