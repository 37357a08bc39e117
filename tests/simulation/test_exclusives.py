"""Job sets whose shards may not run twice: they never do, and each planted bug lets one."""

from collections.abc import Callable
from typing import Any

import pytest

from federator.api import membercluster, raw
from federator.placement import exclusive
from tests.simulation import exclusives
from tests.simulation.mutations import instead
from tests.simulation.running import Plant

SEEDS = (1,)
WITHIN = 6


def _given_at_once(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda share, former, busy, finished: share


def _death_is_enough(_: Callable[..., Any]) -> Callable[..., Any]:
    def fenced(obj: Any) -> bool:
        same = raw.text(obj, "spec", "declaredDead") == raw.text(obj, "status", "lastHeard")
        return same and raw.condition(obj, "Ready").get("status") != "True"

    return fenced


PLANTS: dict[str, Plant] = {
    "given before it is gone": instead(exclusive, "_given", _given_at_once),
    "declared death is a fence": instead(membercluster, "fenced", _death_is_enough),
}
"""What is wrong -> the bug: in one of the first worlds a shard must be seen to run twice."""


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_no_shard_runs_twice_and_all_have_a_place_in_the_end(seed: int) -> None:
    seen = exclusives.CAMPAIGN.played(seed)
    assert seen["moved"]
    assert seen["fenced"]


@pytest.mark.long
@pytest.mark.parametrize("bug", sorted(PLANTS))
def test_with_a_planted_bug_a_shard_runs_twice(bug: str) -> None:
    assert exclusives.CAMPAIGN.catches(exclusives.TWICE, PLANTS[bug], range(WITHIN))
