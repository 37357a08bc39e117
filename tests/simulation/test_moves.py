"""Moves while replacements start slowly: no move lowers the number of ready copies, and a planted
bug that uses maxUnavailable breaks the rule in the first world of each kind of move.
"""

from collections.abc import Callable
from typing import Any

import pytest

from federator.scheduling import rollout
from tests.simulation import moves
from tests.simulation.mutations import instead

ALL = len(moves.KINDS)


def _none(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda wanted, observed: False


IMPATIENT = instead(rollout, "has_room", _none)
"""Every move uses maxUnavailable, as if no cluster had room for the replacements."""


def test_a_move_that_uses_max_unavailable_is_found() -> None:
    label = moves.KINDS.index("label")
    assert moves.CAMPAIGN.catches(moves.READY, IMPATIENT, range(label, 8 * ALL, ALL))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(ALL))
def test_no_move_lowers_the_ready_count(seed: int) -> None:
    assert moves.CAMPAIGN.played(seed)[moves.KINDS[seed % ALL]]


@pytest.mark.long
@pytest.mark.parametrize("kind", moves.KINDS)
def test_a_move_of_any_kind_that_uses_max_unavailable_is_found(kind: str) -> None:
    seeds = range(moves.KINDS.index(kind), 8 * ALL, ALL)
    assert moves.CAMPAIGN.catches(moves.READY, IMPATIENT, seeds)
