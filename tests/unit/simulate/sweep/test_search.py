"""The smallest number that is enough."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from federator.simulate.sweep.search import Smallest, enough_above, smallest


class Asked:
    """Says which numbers are enough, and remembers which it was asked about."""

    def __init__(self, enough: Sequence[bool], low: int = 1) -> None:
        self.enough, self.low = enough, low
        self.tried: list[int] = []

    def __call__(self, numbers: Sequence[int]) -> Mapping[int, bool]:
        self.tried += numbers
        return {number: self.enough[number - self.low] for number in numbers}


@given(edge=st.integers(1, 400), high=st.integers(1, 400))
def test_where_more_is_better_the_smallest_is_exact(edge: int, high: int) -> None:
    asked = Asked([number >= edge for number in range(1, high + 1)])

    found = smallest(1, high, asked)

    if edge > high:
        assert found == Smallest(None)
    else:
        assert found == Smallest(edge, edge - 1 if edge > 1 else None)
    assert len(asked.tried) == len(set(asked.tried)) <= 40


@given(enough=st.lists(st.booleans(), min_size=1, max_size=120))
def test_where_more_is_not_always_better_all_larger_ones_tried_are_enough(
    enough: list[bool],
) -> None:
    asked = Asked(enough)

    found = smallest(1, len(enough), asked)

    if found.number is None:
        assert not enough[-1]
        return
    assert all(enough[number - 1] for number in asked.tried if number >= found.number)
    assert found.below is None or not enough[found.below - 1]
    assert found.below in (None, found.number - 1)
    smaller = {number for number in asked.tried if number < found.number and enough[number - 1]}
    assert set(found.islands) == smaller


def test_far_too_small_numbers_are_not_tried_where_larger_ones_are_not_enough() -> None:
    asked = Asked([number >= 97 for number in range(1, 101)])

    assert smallest(1, 100, asked).number == 97
    assert min(asked.tried) == 96


@given(edge=st.integers(1, 3000))
def test_without_a_likely_bound_numbers_are_doubled(edge: int) -> None:
    asked = Asked([number >= edge for number in range(1, 2049)])

    found = enough_above(1, 2048, asked)

    assert found.number == (edge if edge <= 2048 else None)
    assert max(asked.tried) < max(2 * edge, 2) or max(asked.tried) == 2048
