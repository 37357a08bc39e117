"""Affinity between workloads in running federations, and planted bugs that break it."""

from collections.abc import Callable
from typing import Any

import pytest

from federator.hub.cache import policying
from federator.model.neighbours import Around
from tests.simulation import companies
from tests.simulation.mutations import instead

SEEDS = range(2)


def _binds_nobody(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, cluster: None


def _keeps_nobody_away(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda terms: ()


PLANTS = {
    "terms about other workloads bind nobody": instead(Around, "why", _binds_nobody),
    "the anti-affinity of others is not asked for": instead(
        policying, "repelling", _keeps_nobody_away
    ),
}


@pytest.mark.parametrize("what", sorted(PLANTS))
def test_copies_in_the_wrong_company_are_found(what: str) -> None:
    assert companies.CAMPAIGN.catches(companies.COMPANY, PLANTS[what], range(4))


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_begin_in_the_right_company(seed: int) -> None:
    assert companies.CAMPAIGN.played(seed)["kept out"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_copies_begin_in_the_right_company_in_further_worlds(seed: int) -> None:
    companies.CAMPAIGN.played(seed)
