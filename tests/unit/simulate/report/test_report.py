"""What a report says of an outcome: measures by hand, the verdict, the same bytes, differences,
files.
"""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from federator.simulate.outcome import End, Life, Stay, Wait
from federator.simulate.report import amounts, charts, figures, forms, measures, page
from federator.simulate.report.page import Provenance
from tests.unit.simulate.report import outcomes
from tests.unit.simulate.report.outcomes import HOSTILE, small, work

SOURCE = Provenance("0.0.0", "scenario.yaml", "fleet: {}\n", {"seed": "1"})


def _ran(name: str, submit_s: int, wait_s: int, project: str = "ads") -> Life:
    start_s = submit_s + wait_s
    waits = (Wait(submit_s, start_s, "InsufficientCapacity", 1),) if wait_s else ()
    stays = (Stay("east", 1, start_s, start_s + 100),)
    return Life(
        work(name, submit_s, project=project), End.COMPLETED, start_s, start_s + 100, stays, waits
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (86_400, "1 d"),
        (-60, "-1 min"),
    ],
)
def test_lengths_are_told_in_two_units(seconds: int, text: str) -> None:
    assert amounts.length(seconds) == text


def test_waiting_is_counted_over_works_that_started() -> None:
    never = Life(work("never", 10), End.WAITING, waits=(Wait(10, None, "QuotaExceeded", 1),))

    found = measures.measure(small([_ran("a", 0, 0), _ran("b", 0, 50), _ran("c", 5, 200), never]))

    assert (
        found.waiting.works,
        found.waiting.started,
        found.waiting.waited,
        found.waiting.never,
    ) == (4, 3, 2, 1)
    assert (found.waiting.p50_s, found.waiting.p99_s, found.waiting.max_s, found.waiting.sum_s) == (
        50,
        200,
        200,
        250,
    )
    assert found.waiting.curve == ((0, 0.25), (50, 0.5), (200, 0.75)), (
        "it ends below 1: one never started"
    )
    assert [(one.reason, one.works, one.copy_s) for one in found.lacks] == [
        ("QuotaExceeded", 1, 990),
        ("InsufficientCapacity", 2, 250),
    ]


def test_the_warm_up_is_left_out() -> None:
    found = measures.measure(small([_ran("early", 0, 90), _ran("late", 500, 10)], warm_up_s=400))

    assert (found.works, found.waiting.sum_s, found.length_s, found.times[0]) == (1, 10, 600, 400)
    use = found.fleet[0]
    assert use.mean == pytest.approx(100 * 2 / (8 * 600)), (
        "only the late work's 100 s with 2 of 8 GPUs"
    )


def test_use_is_exact_between_samples() -> None:
    life = Life(work("a", 10), End.COMPLETED, 10, 60, (Stay("east", 1, 10, 60),))

    found = measures.measure(small([life]))

    assert found.fleet[0].mean == pytest.approx(50 * 2 / (8 * 1000)), "it ran between two samples"
    assert [use.cluster for use in found.clusters] == ["east"]


def test_demand_is_what_is_held_and_what_is_missing() -> None:
    waiting = Life(work("w", 200), End.WAITING, waits=(Wait(200, None, "InsufficientCapacity", 3),))
    running = Life(work("r"), End.RUNNING, 0, None, (Stay("east", 2, 0, None),))

    found = measures.measure(small([running, waiting]))

    assert found.demand["gpu"].values == (4, 4, *(10,) * 8)
    assert found.used["gpu"].values == (4,) * 10
    assert found.capacity["gpu"].values == (8,) * 10
    assert [(line.name, line.values) for line in found.lacking] == [
        ("InsufficientCapacity", (0, 0, *(3,) * 8))
    ]


def test_many_samples_become_points_that_show_the_worst() -> None:
    found = measures.measure(outcomes.drawn())

    assert found.every == 3
    assert len(found.times) <= measures.POINTS_MAX
    samples = [one for one in found.outcome.samples if one.at_s >= found.outcome.warm_up_s]
    assert max(found.fragmented) == max(one.fragmented for one in samples)
    assert sum(found.moved) == sum(len(life.stays) > 1 and len({s.cluster for s in life.stays}) > 1
                                   for life in found.outcome.lives for _ in range(life.work.shards))  # fmt: skip


def test_the_verdict_is_one_sentence_with_the_figures() -> None:
    never = Life(work("never", 10), End.WAITING, waits=(Wait(10, None, "QuotaExceeded", 1),))

    assert figures.verdict(measures.measure(small([_ran("a", 0, 0), _ran("b", 0, 50)]))) == (
        "All 2 works started; 1 of those that started waited (50.0 %), 99 of 100 were "
        "running within 50 s, the last"
        " within 50 s; gpu was in use most (5.0 % on average, 50.0 % at the peak)."
    )
    assert figures.verdict(measures.measure(small([_ran("a", 0, 0), never]))).startswith(
        "1 of 2 works never started, most for QuotaExceeded; no work that started had to wait"
    )
    assert figures.verdict(measures.measure(small([]))).startswith("No work was submitted")


def test_differences_come_with_the_largest_first_and_say_which_is_better() -> None:
    before = measures.measure(small([_ran("a", 0, 0), _ran("b", 0, 500)]))
    after = measures.measure(small([_ran("a", 0, 0), _ran("b", 0, 50)]))

    found = figures.differences(before, after)

    by_key = {one.key: one for one in found}
    assert (by_key["wait_p99_s"].before, by_key["wait_p99_s"].after) == ("8 min 20 s", "50 s")
    assert (by_key["wait_p99_s"].change, by_key["wait_p99_s"].verdict) == (
        "-7 min 30 s (-90 %)",
        "better",
    )
    assert by_key["works"].change == "same"
    assert [one.verdict for one in found] == sorted(
        (one.verdict for one in found), key=lambda one: one == ""
    )
    assert figures.comparison(before, after, ("small", "large")).startswith(
        "large against small: missing copies times time"
    )
    assert "in every figure that matters" in figures.comparison(before, before, ("one", "two"))

    drawn = replace(before, outcome=replace(before.outcome, drawn=True))
    unsure = {one.key: one for one in figures.differences(drawn, after)}
    assert unsure["wait_p99_s"].verdict == "one seed"
    assert figures.comparison(drawn, after, ("small", "large")).endswith(
        "8 min 20 s → 50 s. This is one seed; --seeds 8 tells how much of it is chance."
    )


def test_the_same_outcome_gives_the_same_bytes() -> None:
    made = [forms.files(measures.measure(outcomes.drawn(7)), SOURCE) for _ in range(2)]

    assert made[0] == made[1]
    assert set(made[0]) == {
        "report.html",
        "report.json",
        "works.csv",
        "samples.csv",
        "backlog.csv",
        "clusters.csv",
        "waiting.csv",
    }


def test_the_document_and_the_tables_hold_what_the_outcome_holds() -> None:
    outcome = outcomes.drawn()
    assert outcome.costs is not None
    made = forms.files(
        measures.measure(outcome), SOURCE, ("before", measures.measure(outcomes.drawn(2)))
    )

    document = json.loads(made["report.json"])
    rows = list(csv.DictReader(io.StringIO(made["works.csv"].decode())))
    assert document["figures"]["cost"] == sum(outcome.costs.values()) / 100
    assert sum(round(100 * float(row["cost"])) for row in rows) == round(
        100 * (document["figures"]["cost"] - document["figures"]["cost_idle"])
    )
    assert document["inputs"]["seed"] == 1
    assert document["comparedWith"]["name"] == "before"
    assert [row["id"] for row in rows] == [life.work.id for life in outcome.lives]
    assert [row["wait_s"] for row in rows] == [
        "" if x.wait_s is None else str(x.wait_s) for x in outcome.lives
    ]
    samples = list(csv.DictReader(io.StringIO(made["samples.csv"].decode())))
    assert len(samples) == sum(3 * len(one.capacity) for one in outcome.samples)
    backlog = list(csv.reader(io.StringIO(made["backlog.csv"].decode())))
    assert backlog[1:] == [
        [str(one.at_s), str(one.waiting), str(one.waiting_copies), str(one.fragmented)]
        for one in outcome.samples
    ], "one row for each time, and not one for each cluster"


def test_hostile_names_are_escaped_everywhere_in_the_page() -> None:
    found = measures.measure(outcomes.drawn(hostile=True))
    source = Provenance("0.0.0", HOSTILE, HOSTILE, {HOSTILE: HOSTILE})

    text = page.render(found, source, (HOSTILE, measures.measure(outcomes.drawn(2))))

    assert "<script" not in text
    assert "<img" not in text
    assert "{{ 7*7 }}" in text, "no template runs"
    assert "default-src 'none'" in text


def test_a_spreadsheet_runs_no_name() -> None:
    life = Life(work("=cmd()", project="@SUM(1)"), End.WAITING)

    row = next(
        csv.DictReader(
            io.StringIO(forms.files(measures.measure(small([life])), SOURCE)["works.csv"].decode())
        )
    )

    assert (row["id"], row["project"]) == ("'=cmd()", "'@SUM(1)")


def test_an_outcome_without_anything_has_a_page() -> None:
    made = forms.files(measures.measure(small([], end_s=0)), SOURCE)

    assert b"No work was submitted" in made["report.html"]


def test_charts_have_a_title_and_short_axis_labels() -> None:
    svg = charts.lines("x", "A & B", "words", [charts.Series("s", [(0, 0.0), (90_000, 123_456.0)])])

    assert '<title id="x-t">A &amp; B</title>' in svg
    assert "200,000" in svg


def test_writing_leaves_nothing_half_written(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    forms.write(folder, {"a": b"old", "b": b"old"})
    with (
        mock.patch.object(Path, "write_bytes", side_effect=OSError("no space left on device")),
        pytest.raises(OSError, match="no space"),
    ):
        forms.write(folder, {"a": b"new", "b": b"new"})

    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {"a": b"old", "b": b"old"}
    assert [one.name for one in folder.parent.iterdir()] == ["out"]
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="--out names a folder"):
        forms.write(tmp_path / "file", {"a": b""})
