"""Accounts that lend and take back, and gangs, in worlds of the campaign: every rule has something to
judge, faults strike while something is half done, and planted bugs are caught.
"""

from collections import Counter

import pytest

from tests.simulation import contested, running
from tests.simulation.drawing import draw
from tests.simulation.halfdone import NAME
from tests.simulation.unguaranteed import UNGUARANTEED

PLAYED = 50
"""A seed with a contest in which the leader dies and a member falls silent while somebody leaves."""
CAUGHT: dict[str, tuple[int, bool]] = {
    "who leaves does not say so": (37, False),
    "who left is first again": (3, False),
}
"""Some of the planted bugs -> a seed that finds them, and whether with its faults; the controls have
all of them."""


def test_every_rule_has_something_to_judge_while_faults_strike_at_the_moment() -> None:
    report = running.simulate(draw(PLAYED))

    assert report.fired[NAME]
    judged: Counter[str] = report.judged
    rules = (contested.TAKEN, contested.LOWER, contested.AT_ONCE, contested.SERVED)
    assert all(judged[rule] for rule in rules), judged


@pytest.mark.parametrize("what", sorted(CAUGHT))
def test_a_bug_in_who_leaves_is_caught(what: str) -> None:
    rule, plant = UNGUARANTEED[what]
    seed, faults = CAUGHT[what]
    parameters = draw(seed) if faults else draw(seed).without_faults()
    with pytest.raises(running.Broken) as caught:
        running.simulate(parameters, plant)

    assert rule in caught.value.rules, caught.value.breaches[:5]
