"""Numbers as campaigns are told them."""

from argparse import ArgumentTypeError

import pytest

from tests.ranges import numbers


def test_single_numbers_and_ranges_are_read_in_order() -> None:
    assert numbers("7") == [7]
    assert numbers("0-2,9") == [0, 1, 2, 9]


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "3-", "5-3", "5,3", "1,1", "0-99999999999999999999x"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="0-99"):
        numbers(text)
