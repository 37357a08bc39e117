"""The time line of one work: what it waited for, who held that, what it lost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federator.simulate.engine import run
from federator.simulate.outcome import FOR_CAPACITY, End, Life, Stay, Wait
from federator.simulate.report import reasons, timeline
from federator.simulate.scenario import loading
from tests.unit.simulate.report.outcomes import small, work

HOLDS = Life(work("big"), End.RUNNING, 0, stays=(Stay("east", 3, 0, None),))
HELD = Life(
    work("late", 10),
    End.COMPLETED,
    40,
    200,
    stays=(Stay("east", 1, 40, 120, lost=True), Stay("west", 1, 150, 200)),
    waits=(
        Wait(10, 40, "InsufficientCapacity", 1),
        Wait(120, 150, "QuotaExceeded", 1),
    ),
    restarts=1,
    lost_s=80,
)


def lines(*lives: Life, work: str) -> list[tuple[int, str, str]]:
    return [(step.at_s, step.what, step.detail) for step in timeline.of(small(lives), work)]


def test_a_work_is_told_from_its_submission_to_its_end() -> None:
    other = replace(HOLDS, work=replace(work("other"), project="search"))
    assert lines(HOLDS, HELD, other, work="late") == [
        (
            10,
            "submitted",
            "1 copy of 1 cores, 1 GiB, 2 GPUs, runs 1 min 40 s; project ads, tier OnDemand,"
            " priority 0",
        ),
        (
            10,
            "waits",
            "30 s for InsufficientCapacity (no cluster had enough free), 1 copy missing; GPUs were"
            " held by big (6 in east), other (6 in east)",
        ),
        (40, "starts", "east 1"),
        (120, "lost", "east 1"),
        (
            120,
            "waits",
            "30 s for QuotaExceeded (the quota of its project was in use), 1 copy missing; GPUs were"
            " held by big (6 in east) of project ads",
        ),
        (150, "starts", "west 1"),
        (200, "completed", "waited 30 s to start; 1 restart after a lost cluster cost 1 min 20 s"),
    ]


def test_a_work_that_never_started_ends_waiting() -> None:
    life = Life(work("never", 10), End.WAITING, waits=(Wait(10, None, "NotAllowed", 1),))
    assert lines(life, work="never")[1:] == [
        (10, "waits", "16 min 30 s for NotAllowed (no quota names its project), 1 copy missing"),
        (1000, "waiting at the end", ""),
    ]


def test_a_share_that_grows_is_no_move() -> None:
    stays = (Stay("east", 1, 0, 50), Stay("east", 3, 50, None))
    life = Life(work("grows"), End.RUNNING, 0, stays=stays)
    assert [step for step in lines(life, work="grows") if step[1] in ("starts", "leaves")] == [
        (0, "starts", "east 1"),
        (50, "starts", "east 2"),
    ]


def test_a_work_that_is_not_there_names_those_that_are_alike() -> None:
    with pytest.raises(timeline.NoSuchWork, match="no work is called 'lat'; there are late"):
        timeline.of(small([HELD]), "lat")


def test_a_gang_with_room_in_several_clusters_is_told_so(tmp_path: Path) -> None:
    """Not that a maximum is reached, which nobody set."""
    (tmp_path / "jobs.csv").write_text(
        "name,submit_s,runtime_s,shards,cpu_milli\nwide,0,60,6,1000\n"
    )
    cluster: dict[str, Any] = {"nodes": [{"count": 4, "cpu": 1}]}
    document = {
        "fleet": {"clusters": [{**cluster, "name": name} for name in "ab"]},
        "demand": {"trace": {"path": "jobs.csv"}},
        "until": "1h",
    }

    outcome = run.run(loading.inputs(document, tmp_path / "s.yaml", {}))

    assert [wait.reason for life in outcome.lives for wait in life.waits] == ["GangIncomplete"]
    detail = timeline.of(outcome, "wide")[1].detail
    assert "(there was room in several clusters, and its copies need one), 6 copies" in detail


@pytest.mark.parametrize("reason", [*sorted(FOR_CAPACITY), "QuotaExceeded", "Preempted"])
def test_each_usual_reason_has_a_meaning(reason: str) -> None:
    assert "docs/" not in reasons.meaning(reason)
    assert reasons.meaning("Suspended") == "see docs/reference/conditions.md"
