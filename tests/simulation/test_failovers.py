"""Failover on, for most of a virtual hour a seed: every rule holds, and each planted bug breaks its own."""

from collections.abc import Callable
from typing import Any

import pytest

from federator.scheduling import governor
from federator.scheduling.governor import Fleet, Health
from tests.simulation import failovers
from tests.simulation.mutations import instead
from tests.simulation.running import Plant

SEEDS = (2,)


def _never_brakes(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, most: most


def _resets_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda clusters: False


def _home_at_once(_: Callable[..., Any]) -> Callable[..., Any]:
    def may_return(failover: Any, home: Any, last: Any, now_s: float) -> bool:
        return home is not None and home.health is Health.LIVE

    return may_return


def _never_rests(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda policy, lost, silence, last, now_s: original(policy, lost, silence, None, now_s)


def _impatient(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda policy, lost, silence, last, now_s: ""


PLANTS: dict[str, tuple[str, Plant, tuple[int, ...]]] = {
    "a brake that does not brake": (
        failovers.BRAKE,
        instead(Fleet, "a_minute", _never_brakes),
        (11, 3, 15),
    ),
    "a clock that is not reset": (
        failovers.ANEW,
        instead(governor, "_all_gone", _resets_nothing),
        (1, 5, 9),
    ),
    "home at once": (
        failovers.HOME,
        instead(governor, "may_return", _home_at_once),
        (2, 6, 10),
    ),
    "moved again within the cooldown": (
        failovers.ONCE,
        instead(governor, "holds", _never_rests),
        (3, 7, 11),
    ),
    "moved without waiting": (
        failovers.EARLY,
        instead(governor, "holds", _impatient),
        (2, 3, 6),
    ),
}
"""What is wrong -> (the rule that finds it, the bug, seeds in which it must be found)."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_rule_holds_while_clusters_come_and_go(seed: int) -> None:
    seen = failovers.CAMPAIGN.played(seed)
    assert seen["failover"]
    assert seen["failback"]
    assert seen["stale slice removed"]


@pytest.mark.parametrize("bug", sorted(PLANTS))
def test_a_planted_bug_breaks_its_rule(bug: str) -> None:
    rule, plant, seeds = PLANTS[bug]
    assert failovers.CAMPAIGN.catches(rule, plant, seeds)
