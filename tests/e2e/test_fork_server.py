"""The fork server of the tests: a forked command is what a process of its own would be."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.test_cold_starts import cold
from tests.forkserver import starting
from tests.forkserver.starting import FEDERATOR, Started

pytestmark = pytest.mark.e2e

SERVICE = """
apiVersion: pinterest.com/v1beta1
kind: PinterestService
metadata: {name: web, namespace: feed}
spec: {replicas: 1, template: {spec: {containers: [{name: app, image: i}]}}}
"""
ENDS_S = 60.0


def forked(home: Path, *arguments: str, input: str = "", **more: str) -> tuple[int, str, str]:
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), **more}
    return starting.run(
        [*FEDERATOR, *arguments],
        input=input,
        environment=environment,
        directory=home,
        timeout_s=60,
    )


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + ENDS_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Started]:
    """A command that goes on, and says so by a file."""
    directory = tmp_path / "sandbox"
    command = [*FEDERATOR, "sandbox", "--clusters", "1", "--api-only", "--dir", str(directory)]
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(tmp_path)}
    with open(os.devnull, "r+b") as nothing:
        child = starting.start(
            command,
            (nothing, nothing, nothing),
            environment=environment,
            directory=tmp_path,
            session=True,
        )
    try:
        until((directory / "ready").exists, "the sandbox is not ready")
        yield child
    finally:
        child.end()


@pytest.mark.parametrize(
    "arguments",
    [("version",), ("nonsense",), ("get", "nonsense"), ("get", "psvc", "-o", "table"), ("--help",)],
    ids=" ".join,
)
def test_a_forked_command_ends_and_prints_as_one_that_is_started(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = cold(tmp_path, *arguments)
    assert forked(tmp_path, *arguments, KUBECONFIG="no-such.kubeconfig") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )


def test_standard_input_and_the_working_directory_are_the_callers(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(SERVICE)
    given = forked(tmp_path, "validate", "-f", "-", input=SERVICE)
    named = forked(tmp_path, "validate", "-f", "web.yaml")
    assert given[0] == named[0] == 0, given
    assert "web" in given[1] + given[2]
    assert forked(tmp_path / "..", "validate", "-f", "web.yaml")[0] == 1


def test_the_environment_is_the_callers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDERATOR_LOG__LEVEL", "error")
    assert "level: debug" in forked(tmp_path, "config", "show", FEDERATOR_LOG__LEVEL="debug")[1]
    assert "level: info" in forked(tmp_path, "config", "show")[1]


def test_a_command_ends_by_signals_and_leaves_nothing(tmp_path: Path, sandbox: Started) -> None:
    assert os.getpgid(sandbox.pid) == sandbox.pid
    os.killpg(sandbox.pid, signal.SIGTERM)
    assert sandbox.wait(ENDS_S) == 0
    assert not (tmp_path / "sandbox").exists()
    until(lambda: gone(sandbox.pid), "it is still a zombie")


def test_a_command_that_is_killed_has_the_status_of_its_signal(sandbox: Started) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        sandbox.wait(0.1)
    os.kill(sandbox.pid, signal.SIGKILL)
    assert sandbox.wait(ENDS_S) == -signal.SIGKILL


def test_a_command_on_a_path_is_forked_and_ends_with_whoever_called_it(
    tmp_path: Path, sandbox: Started
) -> None:
    assert sandbox.poll() is None
    path = f"{starting.server().program()}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {
        "PATH": path,
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "sandbox" / "host.kubeconfig"),
    }
    script = "federator get psvc | cat; federator get nonsense; echo $?"
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert "No resources found" in done.stderr

    with subprocess.Popen(
        ["federator", "get", "mc", "-w"],
        env=environment,
        executable=starting.server().program() / "federator",
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.kill()
    server = starting.server().pid
    until(lambda: _children(server) == {sandbox.pid}, "the watch goes on")


def test_commands_end_with_the_test_process(tmp_path: Path) -> None:
    script = f"""
import os, sys, time
from pathlib import Path
from tests.forkserver import starting
home = Path({str(tmp_path)!r})
null = open(os.devnull, "r+b")
command = [*starting.FEDERATOR, "sandbox", "--api-only", "--clusters", "1", "--dir", str(home / "s")]
child = starting.start(command, (null, null, null), environment={{}}, directory=home)
while not (home / "s" / "ready").exists():
    time.sleep(0.05)
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    until(lambda: gone(int(done.stdout)), "the sandbox outlives the tests")
    assert not (tmp_path / "s").exists()


def _children(pid: int) -> set[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(one) for one in found}
