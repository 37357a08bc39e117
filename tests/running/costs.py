"""Processor seconds of the tests by folder, as recorded by a whole run; the house tests hold the
budget, and xdist hands out the most expensive groups first.

`python -m tests.running.costs` folds the newest run of `make test` and the newest of `make test-long`
in `build/tests` into `tests/running/costs.json`. Each landing that adds or moves tests updates it.
All seconds in the file are scaled to the reference machine of `tests/bench/calibrate.py`.
"""

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
TARGETS: Final = ("test", "test-long")
"""Targets of the Makefile."""


@dataclass(slots=True)
class Costs:
    """What `costs.json` holds. `folders` maps "tests/unit/hub" to {"test": s, "test-long": s,
    "functions": n}; `groups` an xdist group to seconds; `slow` a test to what it costs as a multiple
    of its limit, from `KEPT` on.
    """

    folders: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)

    def of(self, target: str) -> float:
        """Seconds of `make test` ("test") or `make test-long` ("test-long")."""
        return sum(row.get(target, 0.0) for row in self.folders.values())


def read() -> Costs:
    """The recorded costs; empty when nothing is recorded."""
    if not FILE.is_file():
        return Costs()
    return Costs(**json.loads(FILE.read_text(encoding="utf-8")))


def fold(runs: Iterable[Iterable[Mapping[str, Any]]]) -> Costs:
    """Adds up the lines of several runs. A test that a target runs twice counts as its last run
    says.
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
    for (name, target), (row, cost_s) in tests.items():
        found.folders[folder_of(name)][target] += cost_s
        if "group" in row:
            found.groups[row["group"]] += cost_s
        multiple = cost_s / (SLOW_REAL_S if row.get("real") else SLOW_S)
        if multiple >= KEPT:
            function = name.partition("[")[0]
            found.slow[function] = max(multiple, found.slow.get(function, 0.0))
    for folder, count in functions().items():
        found.folders[folder]["functions"] = count
    return Costs(
        {name: _rounded(row) for name, row in sorted(found.folders.items())},
        _rounded(found.groups),
        _rounded(found.slow),
    )


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
    """Records the newest runs of both targets; returns 1 when there is none."""
    parser = argparse.ArgumentParser(description="Records what the tests cost.")
    parser.add_argument("runs", nargs="*", type=Path, help="results; default: the newest of each")
    chosen: list[Path] = parser.parse_args().runs
    newest: dict[str, list[dict[str, Any]]] = {}
    for path in chosen or sorted(RUNS.glob("test*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if rows and rows[0].get("target") in TARGETS:
            newest[rows[0]["target"]] = rows
    if not newest:
        print(f"There is no run of make test in {RUNS}.", file=sys.stderr)
        return 1
    costs = fold(newest.values())
    kept = {"folders": costs.folders, "groups": costs.groups, "slow": costs.slow}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print("; ".join(f"make {target}: {costs.of(target):.0f} CPU-s" for target in TARGETS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
