"""Many seats given or taken at once go where they would go one by one, and quickly."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.kubernetes import selectors
from federator.model.policy import DEFAULT_POLICY, Division, Policy, Strategy, Weight
from federator.placement.division import division
from federator.placement.division.division import Party
from tests.examples import examples
from tests.unit.placement.fleets import cluster

Rows = Sequence[tuple[int, int, int, int]]
"""weight, cap, floor, seats of each party."""

AMOUNT = st.integers(0, 90)
ROWS = st.lists(
    st.tuples(st.integers(0, 12), AMOUNT, st.integers(0, 6), AMOUNT), min_size=1, max_size=5
)


def _parties(rows: Rows) -> list[Party]:
    return [
        Party(f"p{order}", weight, max(cap, seats), floor, seats, order=len(rows) - order)
        for order, (weight, cap, floor, seats) in enumerate(rows)
    ]


def _seats(parties: Sequence[Party]) -> list[int]:
    return [party.seats for party in parties]


@examples(150)
@given(ROWS, st.integers(0, 300))
def test_growing_at_once_is_growing_one_by_one(rows: Rows, missing: int) -> None:
    at_once, single = _parties(rows), _parties(rows)
    left = division.grow(at_once, missing)
    assert left == sum(division.grow(single, 1) for _ in range(missing))
    assert _seats(at_once) == _seats(single)


@examples(150)
@given(ROWS, st.integers(0, 300), st.booleans())
def test_taking_at_once_is_taking_one_by_one(rows: Rows, surplus: int, floors_too: bool) -> None:
    at_once, single = _parties(rows), _parties(rows)
    take = division.shrink if floors_too else division.shrink_to_floors
    take(at_once, surplus)
    for _ in range(surplus):
        take(single, 1)
    assert _seats(at_once) == _seats(single)


@pytest.mark.parametrize(
    ("rows", "surplus", "left"),
    [
        ([(3, 0, 0, 75), (1, 0, 0, 25)], 60, [30, 10]),
        ([(3, 0, 0, 75), (1, 0, 0, 25)], 100, [0, 0]),
        ([(1, 0, 20, 25), (1, 0, 0, 25)], 25, [20, 5]),
        ([(1, 0, 20, 25), (1, 0, 0, 25)], 40, [10, 0]),
        ([(0, 0, 0, 40), (1, 0, 0, 40)], 45, [0, 35]),
        ([(0, 0, 0, 40), (0, 0, 0, 40)], 45, [17, 18]),
        ([(0, 0, 12, 40), (0, 0, 0, 40)], 60, [12, 8]),
        # Seats that were not divided by these weights: those with the lowest quotient go first all
        # the same.
        ([(1, 0, 0, 60), (9, 0, 0, 20)], 50, [10, 20]),
    ],
)
def test_what_is_left_after_many_are_taken(rows: Rows, surplus: int, left: list[int]) -> None:
    parties = _parties(rows)
    division.shrink(parties, surplus)
    assert sum(left) == sum(seats for *_, seats in rows) - surplus
    assert _seats(parties) == left


def test_a_number_no_loop_could_count_to_is_given_and_taken_in_an_instant() -> None:
    huge = 10**12
    parties = [Party("a", 3, huge), Party("b", 1, huge)]
    assert division.divide(parties, huge) == 0
    assert _seats(parties) == [3 * huge // 4, huge // 4]
    division.shrink(parties, huge - 8)
    assert _seats(parties) == [6, 2]
    parties = [Party("a", 1, huge), Party("b", 1, huge)]
    assert division.divide(parties, huge + 1) == 0  # of two equal halves one is larger by a seat
    assert _seats(parties) == [huge // 2 + 1, huge // 2]
    parties = [Party("a", 1, 7), Party("b", 1, 9)]
    assert division.divide(parties, huge) == huge - 16
    assert _seats(parties) == [7, 9]


LABELLED = replace(cluster("a", 10), labels={"tier": "gold"})
GOLD = selectors.from_dict({"matchLabels": {"tier": "gold"}}, "selector")
BRASS = selectors.from_dict({"matchLabels": {"tier": "brass"}}, "selector")


@pytest.mark.parametrize(
    ("weights", "weight"),
    [
        ((), 1),
        ((Weight(5, ("a",)),), 5),
        ((Weight(5, ("b",)),), 0),
        ((Weight(5, selector=GOLD),), 5),
        ((Weight(5, selector=BRASS),), 0),
        ((Weight(5, ("b",), GOLD),), 5),
        ((Weight(5, ("a",), BRASS),), 5),
        ((Weight(2, ("a",)), Weight(7, selector=GOLD), Weight(9, ("b",))), 7),
        ((Weight(7, ("a",)), Weight(2, selector=GOLD)), 7),
    ],
)
def test_the_largest_weight_that_names_or_selects_a_cluster_holds(
    weights: tuple[Weight, ...], weight: int
) -> None:
    policy: Policy = replace(DEFAULT_POLICY, division=Division(Strategy.WEIGHTED, weights=weights))
    assert division.by_static_weight(policy, LABELLED, 3, 4) == weight
