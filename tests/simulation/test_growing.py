"""Fleets with autoscalers: no node is promised twice, whatever becomes of the nodes, and planted bugs
that charge nodes to be added twice, or not at all, break the rule.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from federator.model.scaleup import Addition
from federator.placement.growth import pools
from federator.placement.growth.growth import Growth
from federator.placement.room import ledger
from tests.simulation import growing
from tests.simulation.mutations import instead

ALL = len(growing.FAULTS)


def _charges_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, at, shape, copies: self.pools(at)


def _promises_all(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda view, nodes, uncovered: pools.opened(
        view.scale_up, view.capacity.machines, view.usable_permille
    )


def _costs_more(since: Callable[..., Any]) -> Callable[..., Any]:
    def told(self: Growth, before: Any, names: Any) -> tuple[Addition, ...]:
        return tuple(
            dataclasses.replace(each, price=(each.price or 0) + 1)
            for each in since(self, before, names)
        )

    return told


PLANTS = {
    "one batch promises a node to two workloads": instead(Growth, "charge", _charges_nothing),
    "pods that wait for a node leave it to others": instead(ledger, "promised", _promises_all),
}


@pytest.mark.parametrize("what", sorted(PLANTS))
def test_a_node_that_is_promised_twice_is_found(what: str) -> None:
    assert growing.CAMPAIGN.catches(growing.ONCE, PLANTS[what], range(0, 4 * ALL, ALL))


def test_a_price_that_nobody_stated_is_found() -> None:
    plant = instead(Growth, "since", _costs_more)
    assert growing.CAMPAIGN.catches(growing.STATED, plant, range(50, 52))


@pytest.mark.parametrize("seed", [*range(ALL), 50])
def test_no_node_is_promised_twice(seed: int) -> None:
    assert growing.CAMPAIGN.played(seed)["promised"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(ALL, 2 * ALL))
def test_no_node_is_promised_twice_in_further_worlds(seed: int) -> None:
    growing.CAMPAIGN.played(seed)
