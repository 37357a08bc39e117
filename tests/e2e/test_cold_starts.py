"""Each command starts as a process of its own, as a person starts it. Other tests fork their commands
from a process that has imported everything already (`tests/forkserver`).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from federator.cli.main import COMMANDS
from tests.forkserver.starting import FEDERATOR

pytestmark = pytest.mark.e2e

NOWHERE = "no-such.kubeconfig"
REACHING = (
    ("get", "psvc"),
    ("hub",),
    ("member", "--cluster", "x"),
)


def cold(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "KUBECONFIG": NOWHERE}
    return subprocess.run(
        [*FEDERATOR, *arguments],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", list(COMMANDS))
def test_each_command_starts_and_prints_its_help(tmp_path: Path, command: str) -> None:
    done = cold(tmp_path, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: federator {command} ")


@pytest.mark.parametrize("arguments", REACHING, ids=" ".join)
def test_commands_that_reach_a_cluster_start_and_read_their_kubeconfig(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = cold(tmp_path, *arguments)
    assert done.returncode == 1
    assert NOWHERE in done.stderr
    assert "Traceback" not in done.stderr


def test_a_sandbox_starts_and_ends(tmp_path: Path) -> None:
    done = cold(tmp_path, "sandbox", "--clusters", "1", "--dir", str(tmp_path / "s"), "--once")
    assert done.returncode == 0, done.stderr


def test_the_installed_program_is_the_same_command_line(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("federator")
    done = subprocess.run([program, "version"], capture_output=True, text=True, check=True)
    assert done.stdout == cold(tmp_path, "version").stdout
