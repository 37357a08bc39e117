"""Results of runs fold into costs by folder, group and slow test."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.running import costs


def run(target: str, *rows: dict[str, Any], calibration: float = 100.0) -> list[dict[str, Any]]:
    return [{"target": target, "calibration": calibration}, *rows]


def row(test: str, cpu_s: float, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"test": test, "outcome": outcome, "cpu_s": cpu_s, **more}


def test_seconds_add_up_by_folder_and_target() -> None:
    found = costs.fold(
        [
            run(
                "test", row("tests/a/test_x.py::test_1", 2.0), row("tests/a/test_x.py::test_2", 1.0)
            ),
            run("test-long", row("tests/a/test_x.py::test_1", 4.0)),
        ]
    )

    assert found.folders["tests/a"] == {"test": 3.0, "test-long": 4.0}
    assert (found.of("test"), found.of("test-long")) == (3.0, 4.0)


def test_a_fast_machine_counts_more_for_each_second() -> None:
    found = costs.fold([run("test", row("tests/a/test_x.py::test_1", 2.0), calibration=150.0)])

    assert found.folders["tests/a"]["test"] == 3.0


def test_a_test_with_real_servers_may_cost_more_before_it_is_slow() -> None:
    found = costs.fold(
        [
            run(
                "test",
                row("tests/a/test_x.py::test_plain[1]", 6.0),
                row("tests/a/test_x.py::test_plain[2]", 7.0),
                row("tests/a/test_x.py::test_served", 18.0, real=True, group="servers"),
                row("tests/a/test_x.py::test_dear", 22.0, real=True, group="servers"),
                row("tests/a/test_x.py::test_left_out", 30.0, outcome="skipped"),
            )
        ]
    )

    assert found.slow == {
        "tests/a/test_x.py::test_dear": 1.1,
        "tests/a/test_x.py::test_plain": 1.4,
        "tests/a/test_x.py::test_served": 0.9,
    }
    assert found.groups == {"servers": 40.0}


def test_unit_tests_that_cost_most_with_all_their_parameters_are_left_to_make_test() -> None:
    found = costs.fold(
        [
            run(
                "test",
                row("tests/unit/a/test_x.py::test_many[1]", 0.8),
                row("tests/unit/a/test_x.py::test_many[2]", 0.8),
                row("tests/unit/a/test_x.py::test_cheap", 1.4),
                row("tests/house/test_y.py::test_rule", 2.0),
                row("tests/e2e/test_z.py::test_story", 9.0),
            ),
            run("test-long", row("tests/unit/a/test_x.py::test_cheap", 4.0)),
        ]
    )

    assert found.dear == {
        "tests/house/test_y.py::test_rule": 2.0,
        "tests/unit/a/test_x.py::test_many": 1.6,
    }


@pytest.mark.e2e
def test_a_run_of_make_unit_leaves_out_what_is_recorded_as_dear() -> None:
    """With the conftest of these tests, which reads the record."""
    dear = next(iter(costs.read().dear))
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", dear]

    def collected(target: str) -> int:
        environment = os.environ | {"FEDERATOR_TARGET": target}
        return subprocess.run(
            command,
            cwd=costs.TESTS.parent,
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        ).returncode

    assert collected("unit") == pytest.ExitCode.NO_TESTS_COLLECTED
    assert collected("test") == pytest.ExitCode.OK


ENDED = {"ended": 0, "wall_s": 811.4}


def test_a_run_that_has_ended_is_told_and_one_that_broke_off_is_not() -> None:
    rows = [
        {"target": "test", "calibration": 129.6, "load": 0.1},
        row("tests/a/test_x.py::test_1", 2.0),
        row("tests/a/test_x.py::test_left_out", 0.0, outcome="skipped"),
    ]

    assert costs.of_run([*rows, ENDED], "2026-12-01") == {
        "day": "2026-12-01",
        "wall_s": 811,
        "cpu_s": 2,
        "tests": 1,
        "calibration": 130,
        "load": 0.1,
    }
    assert costs.of_run(rows, "2026-12-01") is None
    assert costs.of_run([*rows, {**ENDED, "ended": 2}], "2026-12-01") is None  # interrupted


def test_the_table_shows_dear_folders_and_adds_up_the_others() -> None:
    found = costs.Costs(
        folders={
            "tests/e2e": {"functions": 9, "test": 400.4, "test-long": 20.0},
            "tests/fuzz": {"functions": 2, "test": 5.6},
            "tests/unit/a": {"functions": 3, "test": 4.0},
            "tests/unit/b": {"functions": 4, "test": 5.0},
        },
        runs={
            "test": {
                "day": "2026-12-01",
                "wall_s": 811,
                "cpu_s": 1415,
                "tests": 13000,
                "calibration": 130,
                "load": 0.1,
            }
        },
    )

    assert costs.table(found).splitlines() == [
        "| Run | Day | Wall time | CPU-seconds | Tests | Calibration | Load before |",
        "|---|---|---|---|---|---|---|",
        "| `make test` | 2026-12-01 | 13 min 31 s | 1,415 | 13,000 | 130 | 0.1 |",
        "",
        "| Folder | Tests | `make test` | `make test-long` |",
        "|---|---|---|---|",
        "| `e2e` | 9 | 400 | 20 |",
        "| all other folders | 2 | 6 | 0 |",
        "| all other unit tests | 7 | 9 | 0 |",
        "| **sum** | 18 | 415 | 20 |",
    ]


def test_the_table_stands_between_its_markers() -> None:
    begin, end = f"<!-- generated: {costs.PART} -->", f"<!-- end: {costs.PART} -->"
    found = costs.with_table(f"before\n{begin}\nold\n{end}\nafter\n", costs.Costs())

    assert found == f"before\n{begin}\n{costs.table(costs.Costs())}\n{end}\nafter\n"
    with pytest.raises(ValueError, match=costs.PART):
        costs.with_table("no markers", costs.Costs())
