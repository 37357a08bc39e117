"""The search for the largest value that is enough, with a guess."""

from hypothesis import given
from hypothesis import strategies as st

from federator.advice import trials


@given(
    low=st.integers(0, 50),
    span=st.integers(0, 400),
    answer=st.integers(0, 400),
    guess=st.integers(-10, 500),
)
def test_the_largest_value_that_is_enough_is_found_whatever_is_guessed(
    low: int, span: int, answer: int, guess: int
) -> None:
    high, last = low + span, low + min(answer, span)

    assert trials.most(low, high, lambda value: value <= last, guess) == last


def test_a_guess_that_is_right_takes_two_trials() -> None:
    tried: list[int] = []

    def enough(value: int) -> bool:
        tried.append(value)
        return value <= 40_000

    assert trials.most(5_000, 79_999, enough, 40_000) == 40_000
    assert tried == [40_000, 40_001]
