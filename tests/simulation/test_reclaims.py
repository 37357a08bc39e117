"""Quotas that are lent, borrowed and taken back for a quarter of a virtual hour a seed: every rule
holds, and each planted bug breaks its own."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from federator.placement.quota.domain_usage import InDomains
from federator.placement.room.ledger import Ledger
from federator.scheduling.admission import preempting, reclaim, stage
from tests.simulation import reclaimrules, reclaims
from tests.simulation.mutations import instead
from tests.simulation.running import Plant

SEEDS = (0, 4)
WITHIN = 8
"""Each bug is found in one of the first worlds."""


def _all_of_it(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda candidate, winner, trial: candidate.holder.copies


def _nobody(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda winner, usage, held, rules: None


def _silently(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda decision, entry, ask, leaves: decision


def _in_part(original: Callable[..., Any]) -> Callable[..., Any]:
    def shrunk(entry: Any, leaves: Any) -> Any:
        if not leaves.whole:
            return original(entry, leaves)
        return dataclasses.replace(entry.ask, count=max(entry.ask.count - 1, 0))

    return shrunk


def _told_and_kept(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda entry, leaves: entry.ask


def _without_end(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, shape: original(self, shape) + 1000


def _never_over(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, after: []


def _nobody_said(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, want, verdict: ""


PLANTS: dict[str, tuple[str, Plant]] = {
    "what is guaranteed to others is taken": (
        reclaimrules.TAKEN,
        instead(reclaim, "_most", _all_of_it),
    ),
    "nobody leaves": (reclaimrules.SERVED, instead(reclaim, "victims", _nobody)),
    "who leaves is not told": (
        reclaimrules.NOWHERE,
        instead(preempting, "on_whole_ask", _silently),
    ),
    "a gang leaves in part": (reclaimrules.WHOLE, instead(preempting, "shrunk", _in_part)),
    "who is told to leave stays": (
        reclaimrules.BOTH,
        instead(preempting, "shrunk", _told_and_kept),
    ),
    "room counts before it is seen free": (
        reclaimrules.SEEN,
        instead(Ledger, "rooms", _without_end),
    ),
    "what moves into a part is not judged": (
        reclaimrules.PART,
        instead(InDomains, "over", _never_over),
    ),
    "the winner is not told": (
        reclaimrules.TOLD,
        instead(stage._Tree, "_short", _nobody_said),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
SHOWN_IN = {
    "a gang leaves in part": 2,
    "room counts before it is seen free": 3,
    "what moves into a part is not judged": 3,
}
"""The first world that shows it, where that is not world 0."""


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_every_rule_holds_while_tenants_come_and_go(seed: int) -> None:
    seen = reclaims.CAMPAIGN.played(seed)
    assert seen["reclaimed"]
    assert seen["told"]
    assert seen["winner told"]


@pytest.mark.long
@pytest.mark.parametrize("bug", sorted(PLANTS))
def test_a_planted_bug_breaks_its_rule(bug: str) -> None:
    rule, plant = PLANTS[bug]
    assert reclaims.CAMPAIGN.catches(rule, plant, range(WITHIN), SHOWN_IN.get(bug))
