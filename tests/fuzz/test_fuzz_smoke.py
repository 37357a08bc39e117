"""A few seconds of `make fuzz` on every target, with a seed of its own: no exception but ours,
nothing slow.
"""

import pytest

from tests.fuzz import fuzz
from tests.fuzz.targets import TARGETS, Target

SECONDS = 0.25


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_raise_nothing_but_our_errors(name: str) -> None:
    count, outcomes = fuzz.mutate(TARGETS[name], SECONDS, seed=7)
    assert count > 5
    assert outcomes >= 1


def test_a_bug_in_a_parser_is_found() -> None:
    """The control: a parser that trusts its input does not last."""
    trusting = Target("trusting", lambda data: data[0] // (data[0] - 50), (), (b"11", b"34"))
    with pytest.raises(fuzz.Finding, match=r"ZeroDivisionError|IndexError"):
        fuzz.mutate(trusting, 5.0, seed=7)
