"""The report of `make scale`: its rows, and what is taken for ready."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench import scale, scalereport
from tests.bench.scalereport import Phase, Report, Spread


def _report(members: int, workloads: int, memory_mb: float = 100.0) -> Report:
    whole = {"placed": Spread(1, 2, 3), "applied": Spread(2, 3, 4), "ready": Spread(3, 4, 5)}
    roll_outs = {"applied": Spread(1, 1, 1), "ready": Spread(2, 2, 2)}
    phases = (
        Phase(
            f"{workloads:,} workloads on 3 clusters each",
            workloads,
            1.0,
            whole,
            9.0,
            memory_mb,
            5_000_000,
            1234,
        ),
        Phase("100 roll-outs at once", 100, 0.1, roll_outs, 1.0, memory_mb, 1_000_000, 500),
    )
    return Report(members, workloads, "abc1234", "2026-11-30", 120.0, "2 cores", 8.0, phases)


def _page(tmp_path: Path) -> Path:
    page = tmp_path / "scale.md"
    page.write_text(f"# Scale\n\n{scalereport.BEGIN}\n{scalereport.END}\n\nNotes.\n", "utf-8")
    return page


def test_a_run_replaces_the_rows_of_its_size_and_sizes_stand_in_order(tmp_path: Path) -> None:
    page = _page(tmp_path)
    for report in (_report(1000, 10_000), _report(1000, 1000), _report(20, 50)):
        scalereport.write(report, page)
    scalereport.write(_report(1000, 1000, memory_mb=777.0), page)

    text = page.read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| 20", "50 workloads on 3 clusters each"],
        ["| 20", "100 roll-outs at once"],
        ["| 1,000", "1,000 workloads on 3 clusters each"],
        ["| 1,000", "100 roll-outs at once"],
        ["| 1,000", "10,000 workloads on 3 clusters each"],
        ["| 1,000", "100 roll-outs at once"],
    ]
    assert [" | 777 | " in row for row in rows] == [False, False, True, True, False, False]
    assert rows[1].split(" | ")[2:5] == ["-", "1.0 / 1.0 / 1.0", "2.0 / 2.0 / 2.0"]
    assert text.startswith("# Scale\n")
    assert text.endswith("\n\nNotes.\n")


def test_the_written_object_is_json_with_named_times() -> None:
    found = json.loads(json.dumps(scalereport.as_dict(_report(20, 50))))
    assert found["phases"][0]["times"]["ready"] == {"p50": 3, "p99": 4, "last": 5}


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    page.write_text("# Scale\n", "utf-8")
    with pytest.raises(ValueError, match="the page has no table"):
        scalereport.write(_report(20, 50), page)


def test_the_published_page_takes_a_report(tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    page.write_text(scalereport.PAGE.read_text("utf-8"), "utf-8")
    scalereport.write(_report(7, 9), page)
    assert "| 7 | 9 workloads on 3 clusters each |" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("status", "settled"),
    [
        ({}, False),
        (
            {
                "observedGeneration": 2,
                "conditions": [{"type": "Reconciling", "status": "False"}],
            },
            True,
        ),
        (
            {
                "observedGeneration": 1,
                "conditions": [{"type": "Reconciling", "status": "False"}],
            },
            False,
        ),
        (
            {"observedGeneration": 2, "conditions": [{"type": "Reconciling", "status": "True"}]},
            False,
        ),
    ],
)
def test_a_workload_is_ready_when_its_present_generation_has_settled(
    status: dict[str, Any], settled: bool
) -> None:
    assert scale.is_settled({"metadata": {"generation": 2}, "status": status}) is settled


def test_a_workload_is_applied_once_all_of_its_clusters_have_it() -> None:
    seen = scale.Seen()
    seen.begin(clusters=3)
    for _ in range(2):
        seen.on_slice("web")
    assert not seen.applied
    seen.on_slice("web")
    assert list(seen.applied) == ["web"]
    seen.begin()
    assert not seen.applied
    assert not seen.slices
