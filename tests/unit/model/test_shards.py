"""Sets of shards: the operations against plain sets, and how long they take on sets in many
pieces.
"""

from hypothesis import given
from hypothesis import strategies as st

from federator.model import shards
from federator.model.shards import Ranges
from tests import effort

MANY = tuple((index, index) for index in range(0, 100_000, 2))
OTHERS = tuple((index, index) for index in range(1, 100_000, 2))


def pieces(indexes: set[int]) -> Ranges:
    return shards.normal((index, index) for index in indexes)


def as_set(ranges: Ranges) -> set[int]:
    return {index for low, high in ranges for index in range(low, high + 1)}


SETS = st.sets(st.integers(0, 60), max_size=40)


@given(left=SETS, right=SETS, apart=st.booleans())
def test_operations_are_those_of_sets(left: set[int], right: set[int], apart: bool) -> None:
    """`apart`: adjacent ranges of one of them are not joined, as in the pieces of a slice."""
    mine = tuple((index, index) for index in sorted(left)) if apart else pieces(left)
    theirs = pieces(right)

    assert as_set(shards.minus(mine, theirs)) == left - right
    assert shards.intersect(mine, theirs) == pieces(left & right)
    assert shards.intersect(theirs, mine) == pieces(left & right)
    assert as_set(shards.minus(theirs, mine)) == right - left
    assert shards.union(mine, theirs) == pieces(left | right)


def test_sets_in_fifty_thousand_pieces_do_not_hold_up_the_loop() -> None:
    """Pairwise these are billions of steps."""

    def combine() -> None:
        assert shards.minus(MANY, OTHERS) == MANY
        assert shards.intersect(MANY, OTHERS) == ()
        assert shards.intersect(MANY, MANY) == MANY
        assert shards.union(MANY, OTHERS) == ((0, 99_999),)

    assert effort.lines(combine) < 100 * len(MANY)
