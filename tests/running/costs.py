"""Processor seconds of the tests by folder, as recorded by a whole run; the house tests hold the
budget, and xdist hands out the most expensive groups first.

`python -m tests.running.costs` folds the newest whole run of each target (`make test`, `make test-long`,
`make unit`) in `build/tests` into `tests/running/costs.json`, and writes the tables of `tests/README.md`
anew. Each landing that adds or moves tests does so. Processor seconds in the file are scaled to the
reference machine of `tests/bench/calibrate.py`; wall seconds are as read.
"""

import argparse
import ast
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.bench.calibrate import REFERENCE

TESTS: Final = Path(__file__).resolve().parents[1]
FILE: Final = Path(__file__).with_name("costs.json")
RUNS: Final = TESTS.parent / "build" / "tests"
SLOW_S: Final = 5.0
"""A test above this needs a reason; one with real servers above `SLOW_REAL_S`."""
SLOW_REAL_S: Final = 20.0
KEPT: Final = 0.5
"""No two runs measure the same: tests near their limit are recorded too."""
WHOLE: Final = (0, 1)
"""Exit statuses of pytest for a run that has gone to its end, with or without failed tests."""
TARGETS: Final = ("test", "test-long")
"""Targets of the Makefile that together run every test once."""
TIMED: Final = (*TARGETS, "unit")
"""Targets of the Makefile with a limit of wall time."""
UNIT: Final = ("tests/unit/", "tests/house/")
"""What `make unit` runs: the inner loop."""
UNIT_S: Final = 1.5
"""`make unit` leaves a test function that costs more in `make test`, all its parameters together, to
`make test`."""
README: Final = TESTS / "README.md"
PART: Final = "costs of the tests"
"""What the markers in `README` say."""
SHOWN_S: Final = 10.0
"""A folder below this has no row of its own in the table."""


@dataclass(slots=True)
class Costs:
    """What `costs.json` holds. `folders` maps "tests/unit/hub" to {"test": s, "test-long": s,
    "functions": n}; `groups` an xdist group to seconds; `slow` a test to what it costs as a multiple
    of its limit, from `KEPT` on; `dear` a test that `make unit` leaves out to its seconds;
    `runs` a target to the run that was read: {"day", "wall_s", "cpu_s",
    "tests", "calibration", "load"}.
    """

    folders: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    dear: dict[str, float] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, target: str) -> float:
        """Seconds of `make test` ("test") or `make test-long` ("test-long")."""
        return sum(row.get(target, 0.0) for row in self.folders.values())


def read() -> Costs:
    """The recorded costs; empty when nothing is recorded."""
    if not FILE.is_file():
        return Costs()
    return Costs(**json.loads(FILE.read_text(encoding="utf-8")))


def fold(
    runs: Iterable[Iterable[Mapping[str, Any]]], counts: Mapping[str, int] | None = None
) -> Costs:
    """Adds up the lines of several runs. A test that a target runs twice counts as its last run
    says. `counts`: test functions by folder.
    """
    tests: dict[tuple[str, str], tuple[Mapping[str, Any], float]] = {}
    for run in runs:
        scale, target = 1.0, "part"
        for row in run:
            if "calibration" in row:
                scale, target = float(row["calibration"]) / REFERENCE, str(row["target"])
            elif "test" in row and row["outcome"] != "skipped":
                tests[str(row["test"]), target] = row, float(row.get("cpu_s", 0.0)) * scale
    found = Costs(folders=defaultdict(lambda: defaultdict(float)), groups=defaultdict(float))
    inner: dict[str, float] = defaultdict(float)
    for (name, target), (row, cost_s) in tests.items():
        found.folders[folder_of(name)][target] += cost_s
        if "group" in row:
            found.groups[row["group"]] += cost_s
        function = name.partition("[")[0]
        if target == "test" and name.startswith(UNIT):
            inner[function] += cost_s
        multiple = cost_s / (SLOW_REAL_S if row.get("real") else SLOW_S)
        if multiple >= KEPT:
            found.slow[function] = max(multiple, found.slow.get(function, 0.0))
    for folder, count in (counts or {}).items():
        found.folders[folder]["functions"] = count
    return Costs(
        {name: _rounded(row) for name, row in sorted(found.folders.items())},
        _rounded(found.groups),
        _rounded(found.slow),
        _rounded({name: cost_s for name, cost_s in inner.items() if cost_s > UNIT_S}),
    )


def of_run(rows: Sequence[Mapping[str, Any]], day: str) -> dict[str, Any] | None:
    """What `Costs.runs` holds of one run; None of one that broke off."""
    first, last = rows[0], rows[-1]
    if last.get("ended") not in WHOLE:
        return None
    told = [row for row in rows if "test" in row and row["outcome"] != "skipped"]
    return {
        "day": day,
        "wall_s": round(last["wall_s"]),
        "cpu_s": round(sum(row.get("cpu_s", 0.0) for row in told)),
        "tests": len({row["test"] for row in told}),
        "calibration": round(first["calibration"]),
        "load": first["load"],
    }


def table(costs: Costs) -> str:
    """The runs that were read, and processor seconds by folder: the part of `README`."""
    lines = [
        "| Run | Day | Wall time | CPU-seconds | Tests | Calibration | Load before |",
        "|---|---|---|---|---|---|---|",
    ]
    for target, run in sorted(costs.runs.items()):
        minutes, seconds = divmod(int(run["wall_s"]), 60)
        lines.append(
            f"| `make {target}` | {run['day']} | {minutes} min {seconds} s | {run['cpu_s']:,} "
            f"| {run['tests']:,} | {run['calibration']} | {run['load']} |"
        )
    lines += [
        "",
        "| Folder | Tests | `make test` | `make test-long` |",
        "|---|---|---|---|",
    ]
    rows: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for folder, row in costs.folders.items():
        counted = [row.get("functions", 0.0), *(row.get(target, 0.0) for target in TARGETS)]
        rows[_shown(folder, max(counted[1:]))] = [
            before + more
            for before, more in zip(rows[_shown(folder, max(counted[1:]))], counted, strict=True)
        ]
    others = sorted(name for name in rows if not name.startswith("`"))
    for name in (*sorted(rows.keys() - set(others)), *others):
        lines.append(f"| {name} | {' | '.join(f'{value:,.0f}' for value in rows[name])} |")
    sums = [sum(row[place] for row in rows.values()) for place in range(3)]
    lines.append(f"| **sum** | {' | '.join(f'{value:,.0f}' for value in sums)} |")
    return "\n".join(lines)


def _shown(folder: str, cost_s: float) -> str:
    """In which row of the table a folder stands."""
    if cost_s >= SHOWN_S:
        return f"`{folder.removeprefix('tests/')}`"
    return "all other unit tests" if folder.startswith("tests/unit/") else "all other folders"


def with_table(text: str, costs: Costs) -> str:
    """The text of `README` with the table of these costs between its markers."""
    begin, end = f"<!-- generated: {PART} -->", f"<!-- end: {PART} -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{README} needs the lines {begin} and {end}")
    return f"{before}{begin}\n{table(costs)}\n{end}{after}"


def _rounded(row: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in sorted(row.items())}


def folder_of(name: str) -> str:
    """The folder of a test by its name, "tests/unit/hub" of "tests/unit/hub/test_x.py::test_y"."""
    return name.partition("::")[0].rpartition("/")[0]


@cache
def functions() -> dict[str, int]:
    """How many test functions each folder has."""
    counts: dict[str, int] = defaultdict(int)
    for path in TESTS.rglob("test_*.py"):
        folder = path.parent.relative_to(TESTS.parent).as_posix()
        counts[folder] += sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    return dict(counts)


def main() -> int:
    """Records the newest whole run of each target; returns 1 when there is none."""
    parser = argparse.ArgumentParser(description="Records what the tests cost.")
    parser.add_argument("runs", nargs="*", type=Path, help="results; default: the newest of each")
    chosen: list[Path] = parser.parse_args().runs
    newest: dict[str, list[dict[str, Any]]] = {}
    runs = dict(read().runs)
    for path in chosen or sorted((*RUNS.glob("test*.jsonl"), *RUNS.glob("unit-*.jsonl"))):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        target = rows[0].get("target") if rows else None
        if target not in TIMED:
            continue
        day = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
        if (run := of_run(rows, day)) is None:
            print(f"{path} broke off: left out", file=sys.stderr)
            continue
        newest[target], runs[target] = rows, run
    if missing := [target for target in TARGETS if target not in newest]:
        print(f"{RUNS} has no whole run of make {' and of make '.join(missing)}.", file=sys.stderr)
        return 1
    costs = fold((newest[target] for target in TARGETS), functions())
    costs.runs = runs
    FILE.write_text(json.dumps(asdict(costs), indent=1) + "\n", encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    README.write_text(with_table(readme, costs), encoding="utf-8")
    print(table(costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
