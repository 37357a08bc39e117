"""Copies of a simple ask are divided as `division` divides them."""

from hypothesis import example, given
from hypothesis import strategies as st

from federator.placement.division import division
from federator.placement.division.division import Party
from federator.placement.simple import several
from tests.examples import examples

ROWS = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from((1, 2, 5, 30, 900)), st.integers(0, 3)),
    min_size=1,
    max_size=9,
)


@examples(300)
@given(ROWS, st.integers(1, 2000))
@example([(3, 900, 0), (1, 900, 1), (1, 900, 1)], 3)
@example([(3, 900, 1), (1, 900, 0)], 2)
@example([(40, 1, 0), (40, 1, 0), (1, 900, 0)], 200)
def test_seats_are_those_of_the_division(rows: list[tuple[int, int, int]], missing: int) -> None:
    parties = [
        Party(f"p{at}", weight, cap, order=order) for at, (weight, cap, order) in enumerate(rows)
    ]
    division.divide(parties, missing)
    weights, caps, orders = (list(column) for column in zip(*rows, strict=True))
    seats = several.seats_of(weights, caps, missing, lambda: orders)
    assert seats == [party.seats for party in parties]
