"""Probes of clusters that are well, broken and full; and planted bugs in probes break their rules."""

from collections.abc import Callable
from typing import Any

import pytest

from federator.api import memberfields
from federator.hub.probing import stages
from federator.hub.probing.probing import Probing
from tests.simulation import probing
from tests.simulation.mutations import instead

ALL = len(probing.STATES)
FULL = ALL - 1
"""The seed in which cluster a is full."""
BOTH = 1
"""The seed in which cluster a is broken and b is full."""


def _always(answer: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda _: lambda *_arguments: answer


PLANTS = {
    "a probe that passes without its pods": (
        probing.PODS,
        instead(stages, "passed", lambda _: lambda probe, seen: seen.service is not None),
        BOTH,
    ),
    "a full cluster counts as broken": (
        probing.TOLD,
        instead(stages, "_for_room", _always(False)),
        FULL,
    ),
    "a broken cluster counts as busy": (
        probing.TOLD,
        instead(stages, "_for_room", _always(True)),
        BOTH,
    ),
    "a gate that is open": (probing.GATE, instead(memberfields, "unproven", _always("")), BOTH),
    "a new leader forgets the probes of the former one": (
        probing.LEFT,
        instead(Probing, "_made", lambda _: lambda self: iter(())),
        0,
    ),
}


FIRST = "a probe that passes without its pods"


@pytest.mark.parametrize(
    "what",
    [FIRST, *(pytest.param(what, marks=pytest.mark.long) for what in PLANTS if what != FIRST)],
)
def test_a_planted_bug_in_probes_is_found(what: str) -> None:
    rule, plant, seed = PLANTS[what]
    assert probing.CAMPAIGN.catches(rule, plant, [seed])


def test_probes_tell_a_broken_cluster_from_a_busy_one() -> None:
    seen = probing.CAMPAIGN.played(BOTH)
    assert seen["Failed"]
    assert seen["Busy"]


@pytest.mark.long
@pytest.mark.parametrize("seed", [seed for seed in range(ALL) if seed != BOTH])
def test_probes_tell_them_apart_in_further_worlds(seed: int) -> None:
    probing.CAMPAIGN.played(seed)
