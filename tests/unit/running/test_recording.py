"""Results are written while a run goes on: beside another run, on a full disk, and with the reasons of
what was skipped.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.running import recording
from tests.running.recording import Recorder


def rows(recorder: Recorder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recorder.path.read_text(encoding="utf-8").splitlines()]


def reported(name: str, when: str = "call", **more: Any) -> pytest.TestReport:
    given: dict[str, Any] = {"outcome": "passed", "longrepr": None, **more}
    return pytest.TestReport(name, ("f", 1, "t"), {}, when=when, duration=0.5, **given)  # type: ignore[arg-type]


class Terminal:
    """Where pytest writes its summary."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def summary(recorder: Recorder) -> list[str]:
    terminal: Any = Terminal()
    recorder.pytest_terminal_summary(terminal)
    return list(terminal.lines)


def test_many_small_runs_delete_no_results_of_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "test-20261101-000000-1.jsonl"
    whole.touch()
    parts = [tmp_path / f"part-20261102-0000{number:02}-1.jsonl" for number in range(20)]
    for path in parts:
        path.touch()
    monkeypatch.delenv(recording.TARGET, raising=False)

    recorder = Recorder(tmp_path)

    assert whole.exists()
    left = sorted(tmp_path.glob("part-*.jsonl"))
    assert left == [*parts[1 - recording.KEPT_RUNS :], recorder.path]


def test_a_run_tells_what_it_skipped_and_why(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for name, why in (("a", "no kubectl"), ("b", "no browser"), ("c", "no kubectl")):
        skipped = (__file__, 1, f"Skipped: {why}")
        recorder.pytest_runtest_logreport(
            reported(name, "setup", outcome="skipped", longrepr=skipped)
        )
        recorder.pytest_runtest_logreport(reported(name, "teardown"))

    assert summary(recorder)[:2] == ["skipped 2: no kubectl", "skipped 1: no browser"]
    assert [row["why"] for row in rows(recorder) if "test" in row] == [
        "no kubectl",
        "no browser",
        "no kubectl",
    ]


def test_a_run_that_breaks_off_shows_what_was_running(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.pytest_runtest_logstart("a")
    recorder.pytest_runtest_logreport(reported("a", "teardown"))
    recorder.pytest_runtest_logstart("b")

    told = rows(recorder)
    assert {row["started"] for row in told if "started" in row} == {"a", "b"}
    assert [row["test"] for row in told if "test" in row] == ["a"]
    assert not any("ended" in row for row in told)
    recorder.pytest_sessionfinish(0)
    assert rows(recorder)[-1].keys() == {"ended", "wall_s"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_costs_the_file_and_not_the_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.path.unlink()
    recorder.path.symlink_to("/dev/full")

    recorder.pytest_runtest_logstart("a")
    recorder.pytest_runtest_logreport(reported("a", "teardown"))
    recorder.pytest_sessionfinish(0)

    (told,) = summary(recorder)
    assert "could not be written" in told
    assert "No space left on device" in told


def test_a_folder_that_cannot_be_made_costs_the_file_and_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file", encoding="utf-8")

    recorder = Recorder(tmp_path / "build" / "tests")
    recorder.pytest_runtest_logstart("a")

    (told,) = summary(recorder)
    assert "could not be written" in told


def test_a_second_run_beside_the_first_takes_nothing_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Recorder(tmp_path)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    second = Recorder(tmp_path)
    first.pytest_runtest_logstart("a")
    second.pytest_runtest_logstart("b")

    assert [row["started"] for row in rows(first)[1:]] == ["a"]
    assert [row["started"] for row in rows(second)[1:]] == ["b"]
    assert (tmp_path / "latest.jsonl").resolve() == second.path.resolve()
