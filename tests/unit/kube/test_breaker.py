"""The circuit breaker: while a server cannot be reached, one request at a time tries it."""

import contextlib
import random
from dataclasses import dataclass

import pytest

from federator.kube import errors
from federator.kube.control.breaker import BUSY_S, FAILURES, Breaker


@dataclass
class Time:
    """A clock that is put forward by hand."""

    now_s: float = 100.0

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def made() -> tuple[Breaker, Time]:
    clock = Time()
    return Breaker(lambda: clock.now_s, random.Random(1), base_s=1.0, cap_s=4.0), clock


def ask(breaker: Breaker, error: errors.ApiError | None = None) -> None:
    with (
        contextlib.nullcontext() if error is None else pytest.raises(type(error)),
        breaker.passing(),
    ):
        if error is not None:
            raise error


def gone() -> errors.ApiError:
    return errors.Unreachable("a refuses connections")


def opened() -> tuple[Breaker, Time]:
    breaker, clock = made()
    for _ in range(FAILURES):
        assert breaker.wait_s() == 0.0
        ask(breaker, gone())
    return breaker, clock


def test_after_some_requests_without_an_answer_others_wait() -> None:
    breaker, _ = opened()
    assert 0.5 <= breaker.wait_s() <= 1.0
    assert breaker.why == "a refuses connections"


def test_one_lost_answer_among_others_stops_nobody() -> None:
    breaker, _ = made()
    for error in (gone(), gone(), None, gone(), errors.NotFound("no"), gone(), gone()):
        ask(breaker, error)
        assert breaker.wait_s() == 0.0


def test_when_the_wait_is_over_one_tries_and_the_others_wait_for_it() -> None:
    breaker, clock = opened()
    clock.advance(1.0)
    assert breaker.wait_s() == 0.0
    with breaker.passing():
        assert breaker.wait_s() == BUSY_S
    clock.advance(5.0)
    for _ in range(FAILURES):
        ask(breaker, gone())
    first_s = breaker.wait_s()
    clock.advance(first_s)
    ask(breaker, gone())
    assert breaker.wait_s() >= 1.0, "the next wait is twice as long"


@pytest.mark.parametrize("answer", [None, errors.Denied("no"), errors.Throttled("later")])
def test_any_answer_lets_all_pass_again(answer: errors.ApiError | None) -> None:
    breaker, clock = opened()
    clock.advance(1.0)
    ask(breaker, answer)
    assert breaker.wait_s() == 0.0
    assert not breaker.why


def test_the_wait_has_an_end() -> None:
    breaker, clock = opened()
    for _ in range(20):
        clock.advance(4.0)
        assert breaker.wait_s() == 0.0
        ask(breaker, gone())
    assert 2.0 <= breaker.wait_s() <= 4.0


def test_what_was_never_sent_tells_nothing_of_the_server() -> None:
    breaker, clock = opened()
    clock.advance(1.0)
    ask(breaker, errors.OwnShortage("no file descriptor"))
    assert breaker.wait_s() == 0.0
    assert breaker.why, "it is tried again, by one"
