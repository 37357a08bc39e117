"""Several hubs that hear different members: only what none of them hears is lost; a planted bug
breaks that.
"""

from collections.abc import Callable
from typing import Any

import pytest

from federator.hub.leading.standby import Standby
from federator.hub.members.sights import Sight
from tests.simulation import standbys
from tests.simulation.mutations import instead
from tests.simulation.running import Plant


def _believes_nobody(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, clusters: {}


def _forgets_nobody(_: Callable[..., Any]) -> Callable[..., Any]:
    """Whatever was written once counts, however long ago."""

    def accounts(self: Standby) -> list[Sight]:
        seen = [self._seen[number].account for number in sorted(self._seen)]
        mine = self._elector.identity
        return [account for account in seen if account is not None and account.hub != mine]

    return accounts


PLANTS: dict[str, tuple[str, Plant]] = {
    "a leader that asks no standby": (
        standbys.SPARED,
        instead(Standby, "witnesses", _believes_nobody),
    ),
    "the word of a dead standby counts for ever": (
        standbys.LOST,
        instead(Standby, "_accounts", _forgets_nobody),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
WITHIN = 4
"""Each bug is found in one of the first worlds."""


@pytest.mark.long
def test_only_what_no_hub_hears_is_lost() -> None:
    seen = standbys.CAMPAIGN.played(1)
    assert seen["failover"]
    assert seen["spared"]


@pytest.mark.long
@pytest.mark.parametrize("bug", sorted(PLANTS))
def test_a_planted_bug_breaks_its_rule(bug: str) -> None:
    rule, plant = PLANTS[bug]
    assert standbys.CAMPAIGN.catches(rule, plant, range(WITHIN))
