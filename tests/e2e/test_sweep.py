"""A sweep of 200 scenarios that is killed in the middle goes on, and ends as one that was not: on
processes, and on a real Dask scheduler with two workers (make soak).
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.federations import family
from tests.unit.simulate.sweep.test_sweep import written

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
SCENARIOS = 200
SWEEP = {
    "vary": {"fleet.capacity": {"all": 1, "two thirds": "2/3"}, "seed": list(range(SCENARIOS // 2))}
}
LIMIT_S = 600.0
REPORT = ("sweep.html", "sweep.json", "runs.csv")


def _command(path: Path, out: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "federator",
        "sweep",
        str(path),
        "--out",
        str(out),
        *(options or ("--jobs", "2")),
    ]


def _results(out: Path) -> set[str]:
    folder = out / "results"
    return (
        {one.name for one in folder.iterdir() if one.suffix == ".json"}
        if folder.is_dir()
        else set()
    )


def _killed_in_the_middle(command: list[str], out: Path) -> set[str]:
    """Kills a sweep with SIGKILL once a part of it is done, and returns what was done."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LIMIT_S
        while len(_results(out)) < SCENARIOS // 5:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        workers = _children(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    while any(map(_runs, workers)):
        assert time.monotonic() < deadline, "workers outlive their sweep"
        time.sleep(0.1)
    return _results(out)


def _children(pid: int) -> list[int]:
    """Processes whose parent it is."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def _runs(pid: int) -> bool:
    try:
        state = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="ascii", errors="replace")
            .rpartition(")")[2]
            .split()[0]
        )
    except OSError:
        return False
    return state != "Z"


def _goes_on(command: list[str], out: Path, before: set[str]) -> None:
    stamps = {name: (out / "results" / name).stat().st_mtime_ns for name in before}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} of {SCENARIOS} simulations are done" in done.stderr
    assert len(_results(out)) == SCENARIOS
    assert {name: (out / "results" / name).stat().st_mtime_ns for name in before} == stamps, (
        "made twice"
    )


@pytest.mark.long  # 15 CPU-s; tests/unit/simulate/sweep tests that what is done is not run again
def test_a_killed_sweep_goes_on_and_ends_with_the_same_result(tmp_path: Path) -> None:
    path = written(tmp_path, SWEEP)
    halved, whole = tmp_path / "halved", tmp_path / "whole"

    before = _killed_in_the_middle(_command(path, halved), halved)
    assert SCENARIOS // 5 <= len(before) < SCENARIOS
    _goes_on(_command(path, halved), halved, before)

    subprocess.run(
        _command(path, whole, "--jobs", "1"), capture_output=True, timeout=LIMIT_S, check=True
    )
    for name in REPORT:
        assert (halved / name).read_bytes() == (whole / name).read_bytes()


def test_a_sweep_that_is_wrong_writes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, {"vary": {"fleet.capcity": [1]}})

    done = subprocess.run(
        _command(path, tmp_path / "out"), capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert "capcity" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """The address of a Dask scheduler with two workers."""
    pytest.importorskip(
        "distributed", reason="the extra is not installed: pip install 'federator[dask]'"
    )
    with family(tmp_path) as programs:
        dask = [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
        ]
        started = programs.start("scheduler", [*dask, "--no-dashboard"])
        pattern = re.compile(r"Scheduler at:\s+(tcp://127\.0\.0\.1:\d+)")
        programs.wait_until(
            lambda: pattern.search(started.log.read_text()) is not None, "The scheduler", 120
        )
        found = pattern.search(started.log.read_text())
        assert found is not None
        worker = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            found[1],
            "--nthreads",
            "1",
            "--no-dashboard",
        ]
        logs = [programs.start(f"worker-{number}", worker).log for number in range(2)]
        programs.wait_until(
            lambda: all("Registered to" in log.read_text() for log in logs), "Two workers", 120
        )
        yield found[1]


@pytest.mark.soak
def test_a_killed_sweep_on_dask_ends_with_the_result_of_processes(
    tmp_path: Path, scheduler: str
) -> None:
    path = written(tmp_path, SWEEP)
    on_dask, here = tmp_path / "dask", tmp_path / "here"

    before = _killed_in_the_middle(_command(path, on_dask, "--dask", scheduler), on_dask)
    assert SCENARIOS // 5 <= len(before) < SCENARIOS
    _goes_on(_command(path, on_dask, "--dask", scheduler), on_dask, before)

    subprocess.run(_command(path, here), capture_output=True, timeout=LIMIT_S, check=True)
    for name in REPORT:
        assert (on_dask / name).read_bytes() == (here / name).read_bytes()
