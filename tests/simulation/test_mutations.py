"""Mutations of our own code are caught by their rules: some of them here, each in the campaign by
the controls.
"""

from dataclasses import replace

import pytest

from tests.simulation import lifetimes, running, script
from tests.simulation.controls import first_caught
from tests.simulation.drawing import draw
from tests.simulation.lived import LIVED
from tests.simulation.mutations import MUTATIONS
from tests.simulation.unmatched import UNMATCHED


@pytest.mark.parametrize(
    ("what", "seed"),
    [
        ("a fleet without a fitting cluster divides by zero", 1),
        ("slices follow the clusters of an old decision", 8),
        ("a run is recorded and not made", 0),
        ("the hub goes on deciding what its clusters decide", 83),
        ("the Jobs of a gang begin as they are made", 1),
        ("each cluster counts its ordinals from 0", 0),
    ],
)
def test_a_mutation_is_caught_in_a_world_without_faults(what: str, seed: int) -> None:
    """The script of the seed makes, scales, moves and deletes what the mutation is about."""
    rule, plant = MUTATIONS[what]
    with pytest.raises(running.Broken) as caught:
        running.simulate(draw(seed).calm(quota_cpu=2), plant)

    assert rule in caught.value.rules, caught.value.breaches[:5]


@pytest.mark.parametrize(
    ("what", "seed"),
    [
        ("an end is taken back", 0),
        ("a job set never ends", 12),
        ("a job set goes before its time to live", 12),
        ("the time to live of a job set is forgotten", 12),
        ("the back-off limit of shards is not carried", 12),
        ("a member process holds the count of a scaled service", 14),
        ("a cluster that comes to match gets no daemon", 1),
        ("a daemon stays in clusters that are not chosen any more", 32),
        ("a daemon's status counts the nodes of one cluster", 1),
    ],
)
def test_a_mutation_of_how_workloads_live_is_caught(what: str, seed: int) -> None:
    """The world of the seed has a job set that ends by rules of its own, a scaled service, or a
    daemon.
    """
    rule, plant = {**LIVED, **UNMATCHED}[what]
    calm = draw(seed).calm(quota_cpu=0)
    with pytest.raises(running.Broken) as caught:
        running.simulate(calm, plant, running.Course(script.write(calm), brief=True))

    assert rule in caught.value.rules, caught.value.breaches[:5]


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


@pytest.mark.parametrize(
    "what",
    [
        "clusters have room without end",
        "a workload's tolerations are enough beside a Required policy",
    ],
)
def test_a_mutation_is_caught_in_the_first_worlds_of_the_campaign(what: str) -> None:
    assert first_caught(what, within=2) is not None


def test_a_mutation_ends_with_its_run() -> None:
    _, plant = MUTATIONS["a fleet without a fitting cluster divides by zero"]
    with plant.patched():
        pass

    running.simulate(draw(1).calm(quota_cpu=2), course=running.Course((), brief=True))
