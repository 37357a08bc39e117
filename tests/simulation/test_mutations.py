"""Planted bugs are caught by their rules: each here in a small world that has what the bug is about,
and in the campaign by the controls.
"""

from dataclasses import replace

import pytest

from tests.simulation import directed, lifetimes, running
from tests.simulation.controls import CONTROLS, first_caught
from tests.simulation.mutations import MUTATIONS
from tests.simulation.planting import PLANTED

BUGS = sorted({*PLANTED, *directed.SCRIPTS})


@pytest.mark.long
@pytest.mark.parametrize("what", BUGS)
def test_a_planted_bug_is_caught_by_its_rule(what: str) -> None:
    rule, plant = CONTROLS[what]
    with pytest.raises(running.Broken) as caught:
        directed.played(what, plant)

    assert any(breach.startswith(rule) for breach in caught.value.breaches), caught.value.breaches[
        :5
    ]


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(directed.SCRIPTS))
def test_the_same_world_without_a_planted_bug_breaks_no_rule(what: str) -> None:
    directed.played(what)


def test_the_crash_points_without_a_crash_break_no_rule() -> None:
    """Most planted bugs have this world."""
    running.simulate(lifetimes.WORLD, course=running.Course(lifetimes.write()))


@pytest.mark.parametrize(
    ("what", "hubs"),
    [
        ("a delete comes before caches are synced", 1),
        ("a finalizer is dropped early", 1),
        ("an old leader goes on writing", 2),
    ],
)
def test_a_mutation_is_caught_in_the_world_of_the_crash_points(what: str, hubs: int) -> None:
    rule, plant = MUTATIONS[what]
    with pytest.raises(running.Broken) as caught:
        running.simulate(
            replace(lifetimes.WORLD, hubs=hubs), plant, running.Course(lifetimes.write())
        )

    assert rule in caught.value.rules, caught.value.breaches[:5]


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        "clusters have room without end",
        "a workload's tolerations are enough beside a Required policy",
    ],
)
def test_a_mutation_is_caught_in_the_first_worlds_of_the_campaign(what: str) -> None:
    assert first_caught(what, within=6) is not None


def test_a_mutation_ends_with_its_run() -> None:
    _, plant = MUTATIONS["a fleet without a fitting cluster divides by zero"]
    with plant.patched():
        pass

    directed.played("a fleet without a fitting cluster divides by zero")
