"""Writes the result of each test while the run goes on, and what it cost.

A run that breaks off thus still shows what failed and what was running. Every run writes one file
`build/tests/TARGET-TIME-PID.jsonl`; `build/tests/latest.jsonl` is a link to the newest. A line is either
`{"started": NAME}` or `{"test": NAME, "outcome": "passed" | "failed" | "skipped", "cpu_s": ...,
"wall_s": ..., "ended_s": ..., "worker": "gw0", "long": true, "real": true, "group": ..., "why": ...}`:
`ended_s` counts from the begin of the run, `worker` is the test process. The first line names the target of
the Makefile, the calibration score of `tests/bench/calibrate.py`, by which seconds of different
machines are compared, and the load of the machine before. The last line of a run that has gone to its
end is `{"ended": STATUS, "wall_s": ...}`.

`cpu_s` is processor time in seconds of the test with its fixtures: of its own process and, where the
test may start processes (markers e2e and real), of all processes below it. A server that several
tests share costs the tests during which it runs.
"""

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bench import calibrate
from tests.running.supervise import descendants

COST: Final = "cpu_s"
TARGET: Final = "FEDERATOR_TARGET"
"""The Makefile's target: "test", "test-long" or "unit"."""
PART: Final = "part"
"""What else runs."""
MARKS: Final = ("long", "real")
STARTS_PROCESSES: Final = ("e2e", "real")
KEPT_RUNS: Final = 10
"""Of each target: what starts pytest often, as the mutants do, deletes no whole run."""
TICKS_S: Final = 1 / os.sysconf("SC_CLK_TCK")
WHY_MAX: Final = 4000
"""Characters of a failure's text in the file; the terminal has all of it."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Notes the processor time at the beginning; `pytest_runtest_makereport` reports the
    difference.
    """
    item.stash[BEGUN] = _spent_s(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown":
        marks = [name for name in MARKS if item.get_closest_marker(name)]
        report.user_properties.append((COST, round(_spent_s(item) - item.stash[BEGUN], 3)))
        report.user_properties += [(name, True) for name in marks]
        if (group := item.get_closest_marker("xdist_group")) is not None:
            report.user_properties.append(("group", group.args[0]))
    return report


BEGUN: Final = pytest.StashKey[float]()


def _spent_s(item: pytest.Item) -> float:
    own = os.times()
    spent_s = own.user + own.system
    if any(item.get_closest_marker(name) for name in STARTS_PROCESSES):
        spent_s += own.children_user + own.children_system
        spent_s += sum(map(_process_s, descendants(os.getpid())))
    return spent_s


def _process_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended (proc_pid_stat(5)); 0 when it
    is gone.
    """
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * TICKS_S
    return 0.0


class Recorder:
    """The plugin of the process that collects the reports: the only one, or that of xdist."""

    def __init__(self, directory: Path) -> None:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        target = os.environ.get(TARGET, PART)
        self.path = directory / f"{target}-{stamp}-{os.getpid()}.jsonl"
        self.skipped: Counter[str] = Counter()
        self._broken = ""
        self._open: dict[str, dict[str, Any]] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for old in sorted(directory.glob(f"{target}-2*.jsonl"))[: -KEPT_RUNS + 1]:
                old.unlink(missing_ok=True)
            link = directory / f".{self.path.name}"
            link.symlink_to(self.path.name)
            link.replace(directory / "latest.jsonl")
        except OSError as error:
            self._give_up(error)
        self._begun_s = time.monotonic()
        self._write(
            {
                "target": target,
                "calibration": round(calibrate.score(time.process_time), 1),
                "load": round(os.getloadavg()[0], 2),
            }
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write({"started": _name(nodeid)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Folds the phases of a test into one line, written at its end."""
        name = _name(report.nodeid)
        row = self._open.setdefault(name, {"test": name, "outcome": "passed", "wall_s": 0.0})
        row["wall_s"] = round(row["wall_s"] + report.duration, 3)
        if report.failed:
            row |= {"outcome": "failed", "why": report.longreprtext[-WHY_MAX:]}
        elif report.skipped and row["outcome"] == "passed":
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            row |= {"outcome": "skipped", "why": why.removeprefix("Skipped: ")}
            self.skipped[row["why"]] += 1
        if report.when == "teardown":
            row |= dict(report.user_properties)
            row["ended_s"] = round(time.monotonic() - self._begun_s, 1)
            row["worker"] = getattr(report, "worker_id", "")
            self._write(self._open.pop(name))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        wall_s = round(time.monotonic() - self._begun_s, 1)
        self._write({"ended": int(exitstatus), "wall_s": wall_s})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Why tests were skipped, with their count, and where the results are."""
        for why, count in self.skipped.most_common():
            terminalreporter.write_line(f"skipped {count}: {why}")
        where = self._broken or f"results of each test: {self.path}"
        terminalreporter.write_line(where)

    def _write(self, row: dict[str, Any]) -> None:
        if self._broken:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """A full or read-only disk costs the file, not the run."""
        self._broken = f"results of single tests could not be written to {self.path}: {error}"


def _name(nodeid: str) -> str:
    """The test's name without `@GROUP`, which xdist appends for its scheduler."""
    head, _, group = nodeid.rpartition("@")
    return head if head and "]" not in group else nodeid
