"""Results of runs fold into costs by folder, group and slow test."""

from typing import Any

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
