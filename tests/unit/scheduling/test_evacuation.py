"""Who leaves clusters that are being emptied, in which order, how many, and why the others wait."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Tier
from federator.model.names import WorkloadKey
from federator.scheduling import evacuation
from federator.scheduling.evacuation import Evacuation, Moved, Occupant


def key(name: str) -> WorkloadKey:
    return WorkloadKey("PinterestService", "feed", name)


def occupant(name: str, copies: int = 10, **more: object) -> Occupant:
    given = {"tier": Tier.ON_DEMAND, "priority": 0, "ready": 10, "wanted": 10, **more}
    return Occupant(key=key(name), copies=copies, **given)  # type: ignore[arg-type]


def test_reserved_goes_first_then_priority_then_fewest_ready_copies_then_the_name() -> None:
    queue = [
        occupant("f"),
        occupant("e", ready=9),
        occupant("d", ready=2),
        occupant("c", priority=7),
        occupant("b", tier=Tier.RESERVED),
        occupant("a", tier=Tier.PREEMPTIBLE, priority=99),
    ]
    for order in itertools.islice(itertools.permutations(queue), 0, 720, 37):
        paced = evacuation.pace(order, 12_000, [], 100.0)
        assert [turn.key.name for turn in paced.turns] == ["b", "c", "d", "e", "f", "a"]


@pytest.mark.parametrize(
    ("a_minute", "history", "under_way", "goes", "why"),
    [
        (300, [], 0, 25, "they move evenly, 300 a minute"),
        (300, [Moved(97.0, 15)], 0, 10, "they move evenly, 300 a minute"),
        (300, [Moved(60.0, 290)], 0, 10, "more than 300 a minute do not move"),
        (300, [Moved(40.0, 290)], 0, 25, "they move evenly, 300 a minute"),  # exactly a minute ago
        (300, [], 290, 10, "290 that got another place wait for their replacements to be ready"),
        (300, [], 300, 0, "300 that got another place wait for their replacements to be ready"),
        (300, [Moved(60.0, 310)], 0, 0, "more than 300 a minute do not move"),
        (1, [], 0, 1, "more than 1 a minute do not move"),
        (1, [Moved(60.0, 1)], 0, 0, "more than 1 a minute do not move"),
    ],
)
def test_the_tightest_bound_counts_and_is_named(
    a_minute: int, history: list[Moved], under_way: int, goes: int, why: str
) -> None:
    paced = evacuation.pace([occupant("web", 400, under_way=under_way)], a_minute, history, 100.0)
    assert sum(turn.copies for turn in paced.turns) == goes
    (waits,) = paced.waits
    assert (waits.copies, waits.why, waits.stays) == (400 - goes, why, False)
    assert (paced.left, paced.under_way) == (400 + under_way, under_way)


def test_a_job_set_goes_as_a_whole_even_beyond_the_budget_and_the_next_waits() -> None:
    paced = evacuation.pace([occupant("a", 60, whole=True), occupant("b", 1)], 120, [], 0.0)
    assert paced.turns == (Evacuation(key("a"), 60),)
    assert [waits.key.name for waits in paced.waits] == ["b"]


def test_who_may_not_leave_holds_nobody_up_and_is_told_with_his_reason() -> None:
    paced = evacuation.pace(
        [occupant("a", 60, stays="it is suspended"), occupant("b", 5)], 300, [], 0.0
    )
    assert paced.turns == (Evacuation(key("b"), 5),)
    (waits,) = paced.waits
    assert (waits.key.name, waits.copies, waits.why, waits.stays) == (
        "a",
        60,
        "it is suspended",
        True,
    )


def test_who_has_left_and_only_waits_for_replacements_has_no_turn() -> None:
    paced = evacuation.pace([occupant("a", 0, under_way=5)], 300, [], 0.0)
    assert (paced.turns, paced.waits, paced.left) == ((), (), 5)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.booleans()), max_size=12),
    st.integers(1, 400),
)
def test_in_no_minute_more_than_the_budget_leaves_and_all_leave_in_the_end(
    given_: list[tuple[int, int, bool]], a_minute: int
) -> None:
    """Played second by second; what got another place is ready at once."""
    left = {f"w{number}": copies for number, (copies, _, _) in enumerate(given_)}
    history: list[Moved] = []
    total, now_s = sum(left.values()), 0.0
    while any(left.values()):
        now_s += 1.0
        assert now_s < 60.0 * (total / a_minute + 2) + 10
        queue = [occupant(name, copies) for name, copies in left.items()]
        for turn in evacuation.pace(queue, a_minute, history, now_s).turns:
            left[turn.key.name] -= turn.copies
            history.append(Moved(now_s, turn.copies))
        lately = [moved.copies for moved in history if moved.at_s > now_s - 60]
        assert sum(lately) <= a_minute
    assert sum(moved.copies for moved in history) == total
