"""The arithmetic of `make bench`: gates, ratios, scaling by the machine's speed, counting of
writes. Times nothing.
"""

import json
from pathlib import Path

import pytest

from federator.kube.wire.transport import Request
from tests.bench import calibrate, document, fleets, harness
from tests.bench.harness import Result
from tests.bench.rows import ROWS, Against, Row

RATIO = Row("X", "g", "a thing", Against.FLOOR, 1.6, "s")
MOST = Row("Y", "g", "a thing", Against.MOST, 0, "writes")
RATE = Row("Z", "g", "a thing", Against.LEAST, 1000, "1/s")
OFFERED = Row("O", "g", "a thing", Against.OFFERED, 118, "1/s")


@pytest.mark.parametrize(
    ("row", "result", "speed", "ok"),
    [
        (RATIO, Result("X", 1.6, 1.0), 1.0, True),
        (RATIO, Result("X", 1.7, 1.0), 9.0, False),  # a ratio is not scaled
        (RATIO, Result("X", 1.0, 0.0), 1.0, False),
        (RATIO, Result("X", 1.0, None), 1.0, False),
        (MOST, Result("Y", 0), 0.1, True),
        (MOST, Result("Y", 1), 9.0, False),
        (RATE, Result("Z", 600), 0.5, True),
        (RATE, Result("Z", 600), 1.0, False),
        (OFFERED, Result("O", 119), 9.0, True),  # no machine takes more than is offered
        (OFFERED, Result("O", 117), 0.1, False),
        (MOST, Result("Y", 0, failed="it broke"), 1.0, False),
    ],
)
def test_a_row_is_good_when_its_gate_says_so(
    row: Row, result: Result, speed: float, ok: bool
) -> None:
    assert harness.judge(row, result, speed).ok is ok


def test_the_written_object_has_what_readers_look_for_and_is_json() -> None:
    judged = harness.judge(RATIO, Result("X", 3.0, 2.0, {"why": "because"}), 1.0)

    found = json.loads(json.dumps(judged.as_dict()))

    assert {key: found[key] for key in ("id", "ours", "floor", "ratio", "gate", "unit", "ok")} == {
        "id": "X",
        "ours": 3.0,
        "floor": 2.0,
        "ratio": 1.5,
        "gate": 1.6,
        "unit": "s",
        "ok": True,
    }


def test_a_row_that_broke_has_no_figure_and_says_why() -> None:
    judged = harness.judge(RATIO, Result("X", failed="no server"), 1.0)

    assert judged.as_dict()["ours"] is None
    assert "no server" in harness.table([judged])


def test_rows_are_chosen_by_id_in_the_order_of_the_table() -> None:
    assert [row.id for row in harness.chosen("S1, S4")] == ["S4", "S1"]
    assert [row.id for row in harness.chosen("C3,C1")] == ["C1", "C3l", "C3m"]
    assert harness.chosen("") == ROWS
    with pytest.raises(ValueError, match="S99"):
        harness.chosen("S99")


def test_ids_are_unique() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert harness.percentile(range(1, 101), 99) == 99
    assert harness.percentile([5.0], 99) == 5.0
    with pytest.raises(ValueError, match="nothing"):
        harness.percentile([], 50)


def test_the_calibration_work_is_always_the_same() -> None:
    assert calibrate.one_round() == calibrate.one_round()


def test_writes_are_counted_by_resource_and_by_workload_and_leases_not_at_all() -> None:
    ledger = fleets.Ledger()
    base = "/apis/apps/v1/namespaces/feed/deployments"
    decisions = "/apis/federation.pinterest.com/v1alpha1/namespaces/feed/placementdecisions"
    decision = {"metadata": {"name": "deploy-web-1"}, "spec": {"workload": {"name": "web"}}}
    ledger.note("hub", "host", Request("POST", decisions, body=json.dumps(decision).encode()))
    ledger.note(
        "hub", "a", Request("POST", base, body=json.dumps({"metadata": {"name": "web"}}).encode())
    )
    ledger.note("hub", "host", Request("PATCH", f"{base}/web/status"))
    ledger.note("hub", "host", Request("PATCH", f"{decisions}/deploy-web-1"))
    ledger.note("hub", "host", Request("GET", f"{base}/web"))
    ledger.note(
        "hub", "host", Request("PUT", "/apis/coordination.k8s.io/v1/namespaces/feed/leases/l")
    )
    event = json.dumps({"metadata": {"name": "web.17"}, "regarding": {"name": "web"}}).encode()
    events = "/apis/events.k8s.io/v1/namespaces/feed/events"
    ledger.note("hub", "host", Request("POST", events, body=event))

    assert ledger.of["hub", "web"] == 5
    assert ledger.total("hub") == 4
    assert ledger.total("hub", events=True) == 5
    assert ledger.by_resource("hub")["PATCH deployments/status"] == 1


def _page(tmp_path: Path, *rows: str) -> Path:
    page = tmp_path / "benchmarks.md"
    page.write_text(
        "\n".join(
            ["# Benchmarks", document.BEGIN, document.HEAD, *rows, document.END, "", "Notes."]
        ),
        "utf-8",
    )
    return page


def _judged(name: str, result: Result) -> harness.Judged:
    (row,) = harness.chosen(name)
    return harness.judge(row, result, 1.0)


def test_a_run_of_a_part_replaces_its_rows_and_leaves_the_others_and_the_prose(
    tmp_path: Path,
) -> None:
    page = _page(
        tmp_path,
        "| S4 | an older reading | 2026-11-20, abc1233, calibration 90 |",
        "| M1 | another |",
        "| GONE | no such benchmark |",
    )
    measured = _judged("M1", Result("M1", 507.0))

    document.write(
        [measured], document.Reading("2026-11-25", "abc1234+", 91.4), page, lambda commit: 3
    )

    _, table, after = document.parts(page.read_text("utf-8"))
    lines = table.strip().splitlines()[2:]
    s4, m1 = (line for line in lines if not line.endswith("| not yet |"))
    assert s4 == "| S4 | an older reading | 2026-11-20, abc1233, calibration 90 |"
    assert m1.startswith(
        "| M1 | memory of a hub with 100,000 workloads x 2 members | 507 MB | - | - | <= 200 "
        "**missed**"
    )
    assert m1.endswith("| 2026-11-25, abc1234+, calibration 91 |")
    assert after == "\n\nNotes."


def test_a_row_that_could_not_be_measured_keeps_its_last_figure(tmp_path: Path) -> None:
    page = _page(tmp_path, "| S4 | an older reading |")

    document.write(
        [_judged("S4", Result("S4", failed="it broke"))], document.Reading("d", "c", 1.0), page
    )

    assert "| S4 | an older reading" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("line", "stale"),
    [
        ("| S4 | read | 2026-11-20, abc1233, calibration 90 |", False),
        ("| S4 | read | 2026-11-20, 0123abc+, calibration 90 |", True),
        ("| S4 | read | 2026-11-20, 9999999, calibration 90 |", True),
        ("| S4 | read | 2026-11-20, calibration 90 |", True),
    ],
)
def test_rows_read_many_commits_ago_or_at_an_unknown_commit_are_stale(
    line: str, stale: bool
) -> None:
    ages = {"abc1233": document.STALE_COMMITS, "0123abc": document.STALE_COMMITS + 1}
    once = document.marked(line, ages.get)
    assert once.endswith(" **stale** |") is stale
    assert document.marked(once, ages.get) == once


def test_a_commit_that_is_not_in_the_history_has_no_age() -> None:
    assert document.commits_since("0" * 40) is None
    assert document.commits_since("HEAD") == 0


def test_rows_that_were_never_read_say_so(tmp_path: Path) -> None:
    page = _page(tmp_path)
    document.write([], document.Reading("d", "c", 1.0), page)
    assert "<= 60 | not yet |" in page.read_text("utf-8")


def test_a_page_without_the_marks_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n", "utf-8")

    with pytest.raises(ValueError, match="the page has no table"):
        document.write([], document.Reading("d", "c", 1.0), page)

    assert page.read_text("utf-8") == "# Benchmarks\n"


def test_every_row_of_the_published_table_is_a_benchmark_by_its_present_words() -> None:
    _, table, _ = document.parts(document.PAGE.read_text("utf-8"))
    rows = document.kept(table)

    assert set(rows) >= {row.id for row in ROWS if not row.preview and row.id != "E0"}
    assert [
        row.id for row in ROWS if row.id in rows and f"| {row.what} |" not in rows[row.id]
    ] == []
