"""A trace with times has dates in its report: in sentences, tables, charts and JSON."""

import re
from pathlib import Path
from typing import Any

import pytest

from federator.simulate.report import figures, forms
from federator.simulate.report.amounts import Clock
from federator.simulate.report.measures import Measures, measure
from federator.simulate.report.page import Provenance
from federator.simulate.scenario import loading
from tests.unit.simulate.fleets import simulate


def played(folder: Path, times: str) -> Measures:
    starts = {
        "iso": ("2026-03-12T14:30:00Z", "2026-03-14T02:30:00Z"),
        "s": ("0", "129600"),
    }[times]
    rows = ["id,at,for,cpu", *(f"{at},{start},3600,1" for at, start in enumerate(starts))]
    (folder / "jobs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    columns = {"id": "id", "submit": "at", "runtime": "for", "cpu": "cpu"}
    trace = {"path": "jobs.csv", "columns": columns, "units": {"submit": times, "cpu": "cores"}}
    document: dict[str, Any] = {
        "until": "2d",
        "fleet": {"clusters": [{"name": "a", "nodes": [{"count": 1, "cpu": 8}]}]},
        "demand": {"trace": trace},
        "events": [{"at": "90m", "lost": "a"}, {"at": "2h", "returned": "a"}],
    }
    return measure(simulate(loading.inputs(document, folder / "s.yaml", {})))


def test_a_report_of_a_trace_with_times_has_dates(tmp_path: Path) -> None:
    found = played(tmp_path, "iso")
    document = forms.document(found, Provenance("1"))
    page = forms.files(found, Provenance("1"))["report.html"].decode()

    said = "Means are of the time from 2026-03-12 14:30 to 2026-03-14 14:30 (UTC)."
    assert figures.window(found) == said
    assert said in page
    assert document["inputs"]["origin"] == "2026-03-12T14:30:00Z"
    assert [event["at"] for event in document["happened"]] == [
        "2026-03-12T16:00:00Z",
        "2026-03-12T16:30:00Z",
    ]
    for told in ("at (UTC)", "2026-03-12 16:00", ">03-13<", ">03-14<"):
        assert told in page, told
    assert not re.search(r">after<", page)


def test_a_report_of_a_trace_without_times_has_the_time_since_its_start(tmp_path: Path) -> None:
    found = played(tmp_path, "s")
    document = forms.document(found, Provenance("1"))
    page = forms.files(found, Provenance("1"))["report.html"].decode()

    assert figures.window(found) == "Means are of the time from 0 s to 2 d."
    assert document["inputs"]["origin"] == document["happened"][0]["at"] == ""
    assert "at (UTC)" not in page
    assert "1 h 30 min" in page


@pytest.mark.parametrize(
    ("origin_s", "since_s", "at", "tick"),
    [
        (0, 7500, "2 h 5 min", "2 h 5 min"),
        (1_506_816_000, 7500, "2017-10-01 02:05", "10-01 02:05"),
        (1_506_816_000, 86_400, "2017-10-02 00:00", "10-02"),
    ],
)
def test_instants_are_dates_or_lengths(origin_s: int, since_s: int, at: str, tick: str) -> None:
    clock = Clock(origin_s)

    assert (clock.at(since_s), clock.tick(since_s)) == (at, tick)
