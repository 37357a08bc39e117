"""Kueue's own tables, as its objects through `federator convert` and `federator place`."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests import casetables
from tests.unit.cli import kueuecases
from tests.unit.cli.files import run, write

LEFT_OUT: Final = {
    "cycle-008": "its pods get cpu in two flavors, and a job set has one template",
}
"""Case -> why it cannot be said. `lendable` cases are about a figure that decides nothing alone."""
TABLES: Final = ("kueue_preemption_half", "kueue_cycle_half")
Row = dict[str, Any]


def cases() -> list[Row]:
    return [
        case for table in TABLES for case in casetables.cases(table) if case["kind"] != "lendable"
    ]


def placed(tmp_path: Path, case: Row) -> Row:
    converted = run("convert", write(tmp_path, "kueue.yaml", *kueuecases.objects(case)))
    assert converted.exit_code == 0, converted.output
    if "PinterestJobSet" not in converted.stdout:
        return {"admitted": [], "waiting": [], "preempted": []}
    path = tmp_path / "federation.yaml"
    path.write_text(converted.stdout, encoding="utf-8")
    done = run("place", "-f", str(path), "-o", "json")
    assert done.exit_code in (0, 3), done.output
    found: Row = json.loads(done.stdout)
    return found


def differences(case: Row, found: Row) -> list[str]:
    """What the table says otherwise."""
    expected, told = case["expected"], []
    left = {(row["key"].partition("/")[2], row["reason"]) for row in found["preempted"]}
    said = {(row["workload"], row["reason"]) for row in expected["preempted"]}
    if left != said:
        told.append(f"preempted {sorted(left)} instead of {sorted(said)}")
    if "admission" in expected:
        got = {row["key"]: set(row["flavor"].split(",")) for row in found["admitted"]}
        want = {
            key: {flavor for pods in row["podSets"] for flavor in pods["flavors"].values()}
            for key, row in expected["admission"].items()
        }
        if got != want:
            told.append(f"admitted {got} instead of {want}")
        queues = (expected["leftInQueue"], expected["inadmissible"])
        waits = {key for keys in queues for names in keys.values() for key in names}
        if (waiting := {row["key"] for row in found["waiting"]}) != waits:
            told.append(f"waiting {sorted(waiting)} instead of {sorted(waits)}")
    return told


def test_kueues_tables_come_out_the_same(tmp_path: Path) -> None:
    wrong: dict[str, list[str]] = {}
    every = cases()
    for case in every:
        if case["name"] not in LEFT_OUT and (told := differences(case, placed(tmp_path, case))):
            wrong[case["name"]] = told
    assert not wrong, "\n".join(f"{name}: {'; '.join(told)}" for name, told in wrong.items())
    named = {case["name"] for case in every} & LEFT_OUT.keys()
    assert len(named) <= len(every) * 2 // 100


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_what_cannot_be_said_is_told(tmp_path: Path, name: str) -> None:
    case = next((case for case in cases() if case["name"] == name), None)
    if case is None:
        pytest.skip("the case is not in the tables that are there")
    assert differences(case, placed(tmp_path, case)), f"{name} can be said now: {LEFT_OUT[name]}"
