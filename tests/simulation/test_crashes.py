"""Crash points of the fixed script: a sample of them, drawn anew by one number; `make soak` runs
them all.
"""

import itertools
import random

import pytest

from tests.faults.rows import HUB
from tests.simulation import crashes
from tests.simulation.crashes import Crashes, Point
from tests.simulation.world import MEMBER

SAMPLE = 2026
BOTH = (HUB, MEMBER)


def _sample(script: str) -> list[Point]:
    rng = random.Random(SAMPLE)
    count = crashes.reference(BOTH, script)[1].writes
    return [
        *rng.sample(crashes.points(count), 4),
        *crashes.pairs(count, rng, 1),
        *crashes.restarts(count, rng, 1),
    ]


@pytest.mark.long
@pytest.mark.parametrize("script", sorted(crashes.SCRIPTS))
def test_a_crash_at_any_write_changes_neither_the_end_nor_how_much_is_made(script: str) -> None:
    broken = {
        point.name: found
        for point in _sample(script)
        if (found := crashes.judge(Crashes(point, BOTH, script)))
    }

    assert not broken


def test_a_drain_a_failover_and_a_failback_are_enumerated() -> None:
    calm, seen = crashes.reference(BOTH, "moving")

    decided = [
        line.rpartition(": ")[2]
        for line in calm.story.texts()
        if "DECIDES PinterestService/feed/web" in line
    ]
    moves = [shares for shares, _ in itertools.groupby(decided)]
    assert moves == ["a 2, b 2 of 4", "b 4 of 4", "a 4 of 4", "a 2, b 2 of 4"]
    assert seen.writes - seen.heartbeats > 60


def test_points_are_numbered_over_the_writes_of_all_processes() -> None:
    calm, seen = crashes.reference(BOTH)

    assert seen.writes > 200
    assert [point.writes for point in crashes.points(2)] == [(0,), (0,), (1,), (1,)]
    assert {"create Job", "delete PinterestService", "create PlacementDecision"} <= set(
        calm.changes
    )


def test_a_point_beyond_the_last_write_is_no_success() -> None:
    found = crashes.judge(Crashes(Point("late", (1_000_000,))))

    assert found == ["the run is too short: 0 of 1 crashes happened"]


@pytest.mark.parametrize("after", [False, True])
def test_the_write_of_a_point_is_sent_only_when_the_crash_comes_after_it(after: bool) -> None:
    crashed = Crashes(Point("first", (0,), after), (HUB,))
    report = crashes.run(crashed)
    lines = [line for line in report.story.texts() if line.lstrip()[0].isdigit()]
    death = next(
        index for index, line in enumerate(lines) if line.split()[1:3] == ["hub#1", "dies"]
    )
    sent = [
        line
        for line in lines[:death]
        if "hub#1 " in line and any(verb in line for verb in ("POST", "PATCH"))
    ]

    assert crashed.fired == 1
    assert len([line for line in sent if "->" in line]) == int(after)
