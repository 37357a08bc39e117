"""Guarded job sets: no shard runs twice, whatever is cut off and whoever leads, and later runs have
larger epochs; each planted bug breaks one of the two, and a skew budget that is smaller than clocks
are off breaks the first.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from federator.hub.evacuation.leasing import Leasing
from federator.hub.options import HubOptions
from federator.kinds.jobset import natives
from federator.runtime import fencing
from tests.simulation import exclusives, guarded
from tests.simulation.campaigns import Broken, Campaign
from tests.simulation.guarded import Script
from tests.simulation.mutations import instead, together
from tests.simulation.running import Plant

SHORT_S = 1300.0
CUTS = ("cut", "api")


def _without_the_stop(_: Callable[..., Any]) -> Callable[..., Any]:
    def over_after_s(self: fencing.Times, lease_s: float) -> float:
        return lease_s + self.skew_s + self.write_s + fencing.POLL_S + fencing.READ_S

    return over_after_s


def _whoever_holds_it(_: Callable[..., Any]) -> Callable[..., Any]:
    def note_holders(self: Leasing, workload: Any, holders: dict[str, str]) -> None:
        record = self.state.record_of(workload)
        holders.update(dict.fromkeys(record.clusters if record is not None else (), ""))
        for seen in self.state.slices_with_uid(workload.key, workload.uid):
            holders[seen.cluster] = ""

    return note_holders


def _at_once(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, name: None


def _one_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    def numbered(container: Any, variables: dict[str, str]) -> Any:
        epoch = {natives.EPOCH: "7"} if natives.EPOCH in variables else {}
        return original(container, {**variables, **epoch})

    return numbered


PLANTS: dict[str, tuple[str, Plant, Script]] = {
    "the fence is off by what it takes to stop": (
        exclusives.TWICE,
        instead(fencing.Times, "over_after_s", _without_the_stop),
        Script(acts=CUTS, plays_s=SHORT_S),
    ),
    "a cluster is renewed when it is heard": (
        guarded.EPOCHS,  # an older run begins beside a newer one, which is seen before both run
        together(
            instead(Leasing, "_note_holders", _whoever_holds_it),
            instead(Leasing, "_wait", _at_once),
        ),
        Script(acts=(*CUTS, "heal"), plays_s=SHORT_S),
    ),
    "every run of a shard has the same epoch": (
        guarded.EPOCHS,
        instead(natives, "_numbered", _one_epoch),
        Script(acts=("drain", "undrain"), plays_s=SHORT_S),
    ),
}
"""What is wrong -> (the rule that finds it, the bug, the worlds in which it must be found)."""
WITHIN = 10
"""Each bug is found in one of the first worlds."""
SHOWN_IN = {
    "a cluster is renewed when it is heard": 2,
    "the fence is off by what it takes to stop": 5,
}
"""The first world that shows it, where that is not world 0."""


@pytest.mark.long
def test_no_shard_runs_twice_and_all_run_in_the_end() -> None:
    seen = guarded.CAMPAIGN.played(1)
    assert seen["moved"]
    assert seen["stopped"]
    assert seen["hub"]


@pytest.mark.long
@pytest.mark.timeout(900)  # up to ten worlds of half a minute each on a loaded machine
@pytest.mark.parametrize("bug", sorted(PLANTS))
def test_a_planted_bug_breaks_its_rule(bug: str) -> None:
    rule, plant, script = PLANTS[bug]
    assert guarded.campaign(script).catches(rule, plant, range(WITHIN), SHOWN_IN.get(bug))


BEHIND_S = 220.0
"""Of nodes; a renewal that is long on its way is then good for as long as it is late."""
RUNS_TWICE_IN: Final = 3
"""The first world in which it does. The others are tried after it."""


def _twice(campaign: Campaign, seed: int) -> bool:
    """Whether a shard ran twice in this world."""
    try:
        campaign.played(seed)
    except Broken as broken:
        return broken.rule == exclusives.TWICE
    return False


@pytest.mark.long
def test_with_a_skew_budget_that_is_too_small_a_shard_runs_twice_and_else_never() -> None:
    late = Script(behind_s=BEHIND_S, acts=("stuck",), plays_s=SHORT_S)
    tried = sorted(range(WITHIN), key=lambda seed: seed != RUNS_TWICE_IN)
    seed = next(seed for seed in tried if _twice(guarded.campaign(late), seed))
    enough = HubOptions(fence_skew_s=BEHIND_S)
    assert not _twice(guarded.campaign(Script(enough, BEHIND_S, ("stuck",), SHORT_S)), seed)
