"""The arithmetic: nothing runs when the hub says so, by either clock alone, whatever is late."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.hub.options import HubOptions
from federator.runtime import fencing
from federator.runtime.fencing import Promise, Renewal, Sight, Times

TIMES = Times()
seconds = st.floats(0, 400)


def test_the_sum_is_what_the_documents_say() -> None:
    assert fencing.STOP_S == 133
    assert TIMES.over_after_s(TIMES.lease_s) == 180 + 10 + 10 + 5 + 4 + 133
    assert HubOptions().fence() == TIMES


REFUSED = {
    "rare": (replace, {"renew_s": 61.0}, "renewals every 61 s are too rare for a lease of 180 s"),
    "slow": (
        replace,
        {"write_s": 15.0},
        "one renewal (15 s) must be shorter than the time between",
    ),
    "skew": (replace, {"skew_s": 4.0}, "the skew budget (4 s) must not be less than the skew that"),
    "leader": (replace, {"leader_s": 140.0}, "a lease of 180 s ends while another hub takes over"),
    "short": (
        replace,
        {"lease_s": 59.0, "renew_s": 2.0, "write_s": 1.0, "leader_s": 10.0},
        "a lease of 59 s is shorter than a slice may be on its way (60 s)",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_times_by_which_the_fence_would_not_hold_are_refused_with_the_figures(case: str) -> None:
    change, fields, why = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(why)):
        change(TIMES, **fields)


def test_a_lease_that_was_only_found_lets_nothing_run() -> None:
    found = fencing.look(Sight(), Renewal("a", 1000.0, 180.0), 5.0)
    assert fencing.why_not(found, 6.0, 1001.0) == "no renewal of the lease has been seen yet"
    assert fencing.why_not(Sight(), 6.0, 1001.0) == "the lease has not been read yet"
    again = fencing.look(found, Renewal("a", 1000.0, 180.0), 10.0)
    renewed = fencing.look(again, Renewal("b", 1012.0, 180.0), 20.0)
    assert renewed.until_s == 10.0 + 180.0  # since the last time that it was not there
    assert fencing.why_not(renewed, 189.9, 1191.9) == ""
    assert fencing.why_not(renewed, 190.0, 1100.0) == "no renewal of the lease for 180 s"
    assert (
        fencing.why_not(renewed, 100.0, 1195.0) == "the lease ran out 3 s ago by this node's clock"
    )


@given(
    sent=st.lists(st.tuples(seconds, seconds), min_size=1, max_size=12),
    reads=st.lists(seconds, min_size=1, max_size=60),
    wrong=st.floats(-1000, 1000),
    late=st.floats(0, 200),
)
def test_neither_a_wrong_clock_nor_late_renewals_alone_keep_a_shard_running(
    sent: list[tuple[float, float]], reads: list[float], wrong: float, late: float
) -> None:
    """The hub renews at some times, each renewal arrives so much later, and the guard reads when it
    can. With a clock as wrong as you like it stops in time where renewals are no later than the
    deadline; with renewals as late as you like, where clocks agree."""
    for skew, delay in ((wrong, min(late, TIMES.write_s)), (-TIMES.skew_s, late)):
        arrives, last = [], 0.0
        for at, extra in sorted(sent):
            last = max(last, at + min(extra, delay))
            arrives.append((last, Renewal(f"r{at}", at, TIMES.lease_s)))
        sight = Sight()
        for asked in sorted(reads):
            shown = [renewal for when, renewal in arrives if when <= asked]
            sight = fencing.look(sight, shown[-1] if shown else Renewal(), asked)
        newest = max(at for at, _ in sent)
        promise = Promise(newest, newest, TIMES.lease_s)
        ended_s = newest + TIMES.over_after_s(TIMES.lease_s)
        stopped_s = ended_s - fencing.STOP_S
        assert fencing.why_not(sight, stopped_s, stopped_s + skew)
        assert promise.left_s(TIMES, ended_s, ended_s) == pytest.approx(0, abs=1e-6)


@given(step=st.floats(-1e6, 1e6), after=seconds)
def test_a_step_of_the_hub_s_wall_clock_makes_no_lease_end_sooner(
    step: float, after: float
) -> None:
    promise = Promise(50.0, 1000.0, 180.0)
    left = promise.left_s(TIMES, 50.0 + after, 1000.0 + after + step)
    assert left >= TIMES.over_after_s(180.0) - after - 1e-6
