"""When a job set ends: a table, and what holds for any facts and any order of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import ending, shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.ending import EndRules, Success, judge
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges
from federator.status import fold as folding
from federator.status.facts import DecisionInput, Desired

COUNT = 12


def ranges(indexes: set[int]) -> Ranges:
    return shards.normal((index, index) for index in indexes)


@pytest.mark.parametrize(
    ("rules", "completed", "failed", "expected"),
    [
        (EndRules(), "0-11", "", (True, ending.ALL_COMPLETED)),
        (EndRules(), "0-10", "11", (False, ending.FAILED)),
        (EndRules(), "0-10", "", None),
        (EndRules(Success(1, any_one=True)), "4", "", (True, ending.ANY_COMPLETED)),
        (EndRules(Success(1, any_one=True)), "", "0-10", None),
        (EndRules(Success(1, any_one=True)), "", "0-11", (False, ending.UNREACHABLE)),
        (EndRules(Success(2, ((0, 3),))), "0,7-9", "", None),
        (EndRules(Success(2, ((0, 3),))), "0,3", "1", (True, ending.POLICY_MET)),
        (EndRules(Success(2, ((0, 3),))), "0", "1-2", None),
        (EndRules(Success(2, ((0, 3),))), "0", "1-3", (False, ending.UNREACHABLE)),
        (EndRules(max_failed=1), "", "3", None),
        (EndRules(max_failed=1), "", "3,5", (False, ending.TOO_MANY_FAILED)),
        (EndRules(max_failed=1), "0-10", "11", (False, ending.FAILED)),
        (EndRules(Success(1), max_failed=0), "0", "1", (True, ending.POLICY_MET)),
    ],
)
def test_what_ends_it(
    rules: EndRules, completed: str, failed: str, expected: tuple[bool, str] | None
) -> None:
    found = judge(rules, COUNT, shards.parse(completed), shards.parse(failed))
    assert (found and (found.complete, found.reason)) == expected


def test_one_pod_and_a_deadline_end_it_only_where_that_was_asked_for() -> None:
    nothing = EndRules()
    assert judge(nothing, COUNT, (), (), broken="a pod", overdue=True) is None

    found = judge(EndRules(fails_at_once=True), COUNT, (), (), broken="a pod")
    assert found == ending.Ending(False, ending.FAILURE_POLICY, "a pod")

    found = judge(EndRules(deadline_s=60), COUNT, (), (), overdue=True)
    assert found is not None
    assert found.reason == ending.DEADLINE


indexes = st.sets(st.integers(0, COUNT - 1))
successes = st.builds(
    Success, st.integers(1, 4), st.sampled_from([(), ((0, 5),), ((2, 3), (8, 11))])
)
rules_drawn = st.builds(
    EndRules, st.none() | successes, st.none() | st.integers(0, 4), st.booleans(), st.just(60)
)


@given(rules_drawn, indexes, indexes, indexes)
def test_success_once_reached_stays_whatever_comes(
    rules: EndRules, completed: set[int], failed: set[int], more: set[int]
) -> None:
    found = judge(rules, COUNT, ranges(completed), ranges(failed - completed))
    later = completed | more
    if found is None or not found.complete or rules.success is None:
        return
    again = judge(rules, COUNT, ranges(later), ranges(failed - later), broken="a pod", overdue=True)
    assert again == found


@given(rules_drawn, indexes, indexes)
def test_it_always_ends_when_all_are_done_and_never_completes_by_too_few(
    rules: EndRules, completed: set[int], failed: set[int]
) -> None:
    failed -= completed
    found = judge(rules, COUNT, ranges(completed), ranges(failed))
    if len(completed) + len(failed) == COUNT:
        assert found is not None
    if found is not None and found.complete:
        assert len(completed) >= (rules.success.need if rules.success else COUNT)


@given(
    rules_drawn,
    st.lists(st.sampled_from(["open", "done", "lost"]), min_size=12, max_size=12),
    st.permutations(["a", "b", "c"]),
)
def test_the_fold_is_the_same_in_any_order_of_clusters(
    rules: EndRules, states: list[str], order: list[str]
) -> None:
    """Each cluster has four shards; what is asked for is decided over all of them together."""

    def of(name: str, state: str) -> Ranges:
        first = "abc".index(name) * 4
        return ranges({first + at for at in range(4) if states[first + at] == state})

    shares = tuple(Share(name, 4, 4, 7, ((at * 4, at * 4 + 3),)) for at, name in enumerate("abc"))
    seen = [
        SliceObservation(
            name,
            known=True,
            exists=True,
            seq=7,
            desired=4,
            completed=of(name, "done"),
            failed=of(name, "lost"),
        )
        for name in order
    ]
    wanted = Desired(generation=1, unit=Unit.SHARDS, count=COUNT, end_rules=rules)
    fold = folding.fold(wanted, DecisionInput(shares), seen)
    expected = judge(
        rules,
        COUNT,
        ranges({at for at, state in enumerate(states) if state == "done"}),
        ranges({at for at, state in enumerate(states) if state == "lost"}),
    )

    assert fold.finished is (expected is not None)
    shown = [c for c in fold.conditions if c.type in ("Complete", "Failed")]
    assert [c.reason for c in shown] == ([expected.reason] if expected else [])
    if expected is not None:
        assert fold.stopped == sum(state == "open" for state in states)
        later = replace(wanted, previous_ending=expected, previous_completed=fold.completed)
        assert folding.fold(later, DecisionInput(shares), seen).conditions == fold.conditions


@pytest.mark.parametrize(
    ("completed", "expected"), [("0-11", ending.ALL_COMPLETED), ("0-4", ending.FAILED)]
)
def test_a_deadline_that_passes_when_all_are_done_is_no_other_end(
    completed: str, expected: str
) -> None:
    """Simulation, seed 705: all shards had failed, and six seconds later it had run too long."""
    done = shards.parse(completed)
    wanted = Desired(
        generation=1,
        unit=Unit.SHARDS,
        count=COUNT,
        end_rules=EndRules(deadline_s=60, fails_at_once=True),
        previous_completed=done,
        previous_failed=shards.minus(((0, COUNT - 1),), done),
        overdue=True,
    )
    seen = SliceObservation("a", known=True, exists=True, seq=7, broken="a pod")
    share = Share("a", 12, 12, 7, ((0, COUNT - 1),))

    def reasons(of: Desired) -> list[str]:
        shown = folding.fold(of, DecisionInput((share,)), [seen]).conditions
        return [c.reason for c in shown if c.type in ("Complete", "Failed")]

    assert reasons(wanted) == [expected]
    one_is_open = replace(wanted, previous_failed=(), previous_completed=((0, COUNT - 2),))
    assert reasons(one_is_open) == [ending.FAILURE_POLICY]
