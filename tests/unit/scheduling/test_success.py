"""The success rate of clusters: what a look counts, and how fast the rate follows."""

from collections.abc import Iterable

import pytest

from federator.scheduling import success
from federator.scheduling.success import HALF_LIFE_S, Look, Outcome, Rate

GOOD, BAD, OPEN = Outcome.GOOD, Outcome.BAD, Outcome.OPEN


def looked(*workloads: dict[str, Outcome]) -> Look:
    look = Look()
    for workload in workloads:
        look.note(workload)
    return look


def after(share: float, minutes: Iterable[int], rate: Rate | None = None) -> Rate:
    rate = rate or Rate(as_of_s=0.0)
    for minute in minutes:
        rate = success.after(rate, share, 60.0 * minute)
    return rate


def test_a_cluster_in_which_others_fail_is_told_from_the_others() -> None:
    look = looked(*({"a": BAD, "b": GOOD} for _ in range(20)))
    assert look.share("b") == 1000.0
    assert look.share("a") < 100.0


def test_a_workload_that_fails_everywhere_says_nothing_of_any_cluster() -> None:
    look = looked(*({"a": BAD, "b": BAD, "c": OPEN} for _ in range(50)))
    assert [look.share(name) for name in "abc"] == [1000.0] * 3


@pytest.mark.parametrize(("broken", "fails"), [(1, False), (3, False), (5, True)])
def test_one_broken_workload_of_a_single_cluster_is_no_proof(broken: int, fails: bool) -> None:
    look = looked(*({"a": BAD} for _ in range(broken)))
    rate = after(look.share("a"), range(1, 600))
    assert rate.avoided is fails


def test_the_rate_follows_within_the_hour_and_heals_later_than_it_falls() -> None:
    falling = after(0.0, range(1, 15))
    assert 500 < falling.permille < 530
    assert not falling.avoided
    fallen = after(0.0, range(15, 61), falling)
    assert (fallen.shown, fallen.avoided) == (50, True)
    halfway = success.after(fallen, 1000.0, 3600.0 + HALF_LIFE_S)
    assert 500 < halfway.shown < 800
    assert halfway.avoided
    healed = success.after(halfway, 1000.0, 3600.0 + 3 * HALF_LIFE_S)
    assert not healed.avoided


def test_the_number_of_looks_and_a_clock_that_goes_back_change_nothing() -> None:
    often, once = after(0.0, range(1, 31)), after(0.0, [30])
    assert often.permille == pytest.approx(once.permille)
    back = success.after(once, 0.0, 60.0)
    assert back.permille == pytest.approx(once.permille)


def test_a_first_look_begins_with_what_is_recorded() -> None:
    recorded = Rate(300.0, None, avoided=True)
    assert success.after(recorded, 1000.0, 5_000.0).permille == 300.0
