"""The fixture library itself: children end whatever happens, and a missing control plane is told
clearly.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.processes import ChildDied, Family

pytestmark = pytest.mark.e2e

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', "
        "flush=True); time.sleep(600)"
    ),
]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def family() -> Iterator[Family]:
    family = Family()
    yield family
    family.stop()


def is_running(pid: int) -> bool:
    """A zombie is not running: whoever adopted it reaps it in its own time."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def until_gone(pid: int) -> bool:
    return until(lambda: not is_running(pid))


def test_a_dead_child_is_reported_with_its_last_line(family: Family) -> None:
    family.start(
        "brief",
        [sys.executable, "-c", "print('first'); print('no more disk'); raise SystemExit(3)"],
    )
    with pytest.raises(ChildDied, match=r"brief ended with status 3: first \| no more disk"):
        family.wait_until(lambda: False, "brief", 20)


def test_waiting_ends_with_the_last_lines(family: Family) -> None:
    child = family.start("slow", SLEEPER)
    family.wait_until(lambda: "up" in child.last_lines(), "slow", 20)
    with pytest.raises(
        TimeoutError, match=r"The thing was not ready within 0 s\. Last lines: slow: up"
    ):
        family.wait_until(lambda: False, "The thing", 0.1)


def test_stopping_ends_all_children_and_removes_the_directory(family: Family) -> None:
    pids = [family.start(name, SLEEPER).process.pid for name in ("a", "b")]
    family.stop()
    assert not any(is_running(pid) for pid in pids)
    assert not family.directory.exists()


def test_nothing_outlives_a_killed_test_process() -> None:
    script = (
        "from tests.controlplane.processes import Family; import sys, time\n"
        f"family = Family(); child = family.start('child', {STUBBORN!r})\n"
        "family.wait_until(lambda: 'up' in child.last_lines(), 'child', 20)\n"
        "print(child.process.pid, family.directory, flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        pid, _, directory = owner.stdout.readline().strip().partition(" ")
        owner.send_signal(signal.SIGKILL)
    assert until_gone(int(pid))
    assert until(lambda: not Path(directory).exists())


def test_a_process_with_its_own_streams_ends_with_the_test_process() -> None:
    script = (
        "from tests.controlplane import processes; import subprocess, time\n"
        f"with processes.popen({SLEEPER!r}, stdout=subprocess.PIPE) as child:\n"
        "    child.stdout.readline(); print(child.pid, flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    assert until_gone(pid)


def look(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "tests/controlplane/build.py", "--find", *arguments]
    clean = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return subprocess.run(
        program,
        env={**clean, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_missing_control_plane_is_told_and_fails_only_when_required(tmp_path: Path) -> None:
    answer = look(FEDERATOR_CACHE=str(tmp_path))
    assert answer.returncode == 0
    assert "run `make kube`" in answer.stderr
    assert "The tests marked `real` will be skipped." in answer.stderr
    assert look("--require", FEDERATOR_CACHE=str(tmp_path)).returncode == 1


def test_binaries_of_envtest_are_taken(tmp_path: Path) -> None:
    for name in build.NEEDED:
        (tmp_path / name).touch(mode=0o755)
    answer = look(KUBEBUILDER_ASSETS=str(tmp_path), FEDERATOR_CACHE=str(tmp_path / "none"))
    assert answer.stdout.strip() == str(tmp_path)


def test_a_build_of_another_recipe_is_not_taken(tmp_path: Path) -> None:
    cached = tmp_path / f"kube-{build.KUBERNETES}"
    cached.mkdir()
    for name in build.BUILT:
        (cached / name).touch(mode=0o755)
    (cached / "built-from").write_text("another")
    assert look("--require", FEDERATOR_CACHE=str(tmp_path)).returncode == 1
