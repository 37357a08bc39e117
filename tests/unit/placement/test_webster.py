"""Seats given at once are those given one by one, by highest averages."""

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from federator.placement.division import webster
from tests.examples import examples

ROWS = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.sampled_from((1, 2, 5, 30, 900)),
        st.integers(0, 3),
        st.sampled_from((0, 0, 1, 4, 60)),
    ),
    min_size=1,
    max_size=9,
)


def _one_by_one(rows: list[tuple[int, int, int, int]], missing: int) -> list[int]:
    seats = [held for _, _, _, held in rows]
    for _ in range(missing):
        able = [
            (-Fraction(weight, 2 * seats[at] + 1), seats[at], key, at)
            for at, (weight, cap, key, _) in enumerate(rows)
            if seats[at] < cap
        ]
        if not able:
            break
        seats[min(able)[-1]] += 1
    return seats


@examples(300)
@given(ROWS, st.integers(1, 600), st.booleans())
@example([(3, 900, 0, 0), (1, 900, 1, 0), (1, 900, 1, 0)], 3, False)
@example([(3, 900, 1, 0), (1, 900, 0, 0)], 2, False)
@example([(40, 1, 0, 0), (40, 1, 0, 0), (1, 900, 0, 0)], 200, False)
@example([(1, 900, 0, 60), (1, 900, 0, 0)], 200, True)
def test_seats_are_those_given_one_by_one(
    rows: list[tuple[int, int, int, int]], missing: int, holding: bool
) -> None:
    rows = [(weight, cap, key, min(has, cap - 1) * holding) for weight, cap, key, has in rows]
    weights, caps, keys, held = (list(column) for column in zip(*rows, strict=True))
    seats = webster.seats_of(weights, caps, missing, lambda: keys, held if any(held) else ())
    assert seats == _one_by_one(rows, missing)
