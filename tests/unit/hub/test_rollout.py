"""What is done next in each member: grow before shrinking, wait for the unheard, roll out in turn,
keep what is not ours.
"""

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import ANY_NUMBER, Unit
from federator.model.decision import Share
from federator.scheduling import rollout
from federator.scheduling.rollout import Action, ActionKind, Observed


def observed(cluster: str, count: int = 0, ready: int | None = None, **facts: object) -> Observed:
    """A slice as it should be, unless said otherwise; count 0 without `exists` is an empty
    cluster.
    """
    base = Observed(
        cluster,
        readable=True,
        exists=count > 0,
        current=False,
        template_current=True,
        count=count,
        ready=count if ready is None else ready,
        healthy=True,
    )
    return dataclasses.replace(base, **facts)  # type: ignore[arg-type]


def plan(
    shares: Mapping[str, int],
    *slices: Observed,
    unit: Unit = Unit.REPLICAS,
    max_unavailable: int = 0,
    at_once: int | None = None,
    missing: int = 0,
    by_number: bool = False,
) -> dict[str, Action]:
    actions = rollout.plan(
        unit,
        [Share(cluster, count, count, 1) for cluster, count in shares.items()],
        {found.cluster: found for found in slices},
        max_unavailable=max_unavailable,
        max_clusters_at_once=at_once,
        missing=missing,
        by_number=by_number,
    )
    return {action.cluster: action for action in actions}


def test_an_empty_cluster_with_a_share_gets_its_slice() -> None:
    assert plan({"a": 3}, observed("a"))["a"] == Action("a", ActionKind.CREATE, count=3)


def test_a_hold_names_the_clusters_whose_copies_are_not_reported() -> None:
    silent = observed("b", 2, reported=False, silence="its watch has not recovered yet")
    held = plan({"a": 2, "b": 2}, observed("a", 4), silent)["a"]
    assert held.why == f"{rollout.SHRINKS_LATER}; b: its watch has not recovered yet"
    left = plan({"b": 4}, observed("a", 4), silent)["a"]
    assert left.why == f"{rollout.LEAVES_LATER}; b: its watch has not recovered yet"
    assert plan({"a": 2, "b": 9}, observed("a", 4), observed("b", 2))["a"].why == (
        rollout.SHRINKS_LATER
    )


def test_a_current_slice_is_left_alone() -> None:
    assert plan({"a": 3}, observed("a", 3, current=True))["a"].kind is ActionKind.NOTHING


def test_nothing_is_done_in_a_cluster_that_is_not_heard() -> None:
    actions = plan(
        {"a": 3, "b": 2}, observed("a", readable=False), observed("b", 2, readable=False)
    )

    assert {action.kind for action in actions.values()} == {ActionKind.HOLD}


def test_a_foreign_object_of_the_same_name_is_never_touched() -> None:
    assert plan({"a": 3}, observed("a", 3, ours=False))["a"].kind is ActionKind.NOTHING
    assert plan({}, observed("a", 3, ours=False))["a"].kind is ActionKind.NOTHING


def test_the_slice_of_an_earlier_workload_is_waited_for() -> None:
    assert plan({"a": 3}, observed("a", 3, same_workload=False))["a"].kind is ActionKind.HOLD
    assert plan({"a": 3}, observed("a", 3, going=True))["a"].kind is ActionKind.HOLD
    assert plan({}, observed("a", 3, going=True))["a"].kind is ActionKind.HOLD


def test_a_move_grows_first_and_leaves_only_when_the_copies_elsewhere_are_ready() -> None:
    before = plan({"b": 4}, observed("a", 4), observed("b"))
    growing = plan({"b": 4}, observed("a", 4), observed("b", 4, ready=1, current=True))
    done = plan({"b": 4}, observed("a", 4), observed("b", 4, current=True))

    assert (before["a"].kind, before["b"].kind) == (ActionKind.HOLD, ActionKind.CREATE)
    assert growing["a"] == Action("a", ActionKind.UPDATE, count=3, keep_template=True)
    assert done["a"].kind is ActionKind.DELETE


def test_a_move_leaves_max_unavailable_alone_while_a_cluster_has_room() -> None:
    starting = observed("b", 8, ready=0, current=True)
    for b in (observed("b"), starting, observed("b", 6, ready=0, unbound=True)):
        assert plan({"b": 8}, observed("a", 8), b, max_unavailable=2)["a"].kind is ActionKind.HOLD
    partly = observed("b", 8, ready=3, current=True)
    assert plan({"b": 8}, observed("a", 8), partly, max_unavailable=2)["a"].count == 5


def test_a_move_without_room_uses_max_unavailable_and_says_so() -> None:
    full = observed("b", 8, ready=0, current=True, unbound=True)
    actions = plan({"b": 8}, observed("a", 8), full, max_unavailable=2)
    assert actions["a"] == Action("a", ActionKind.UPDATE, count=6, keep_template=True)
    then = plan({"b": 8}, observed("a", 6), full, max_unavailable=2)["a"]
    assert (then.kind, rollout.NO_ROOM in then.why) == (ActionKind.HOLD, True)
    free = observed("c", 2, ready=0, current=True)
    with_room = plan({"b": 8, "c": 2}, observed("a", 10), full, free, max_unavailable=2)["a"]
    assert (with_room.kind, with_room.why) == (ActionKind.HOLD, rollout.LEAVES_LATER)


def test_a_move_does_not_wait_for_copies_that_were_missing_before_it() -> None:
    """Nine of ten in c are ready, whatever moves: as far as maxUnavailable allows that."""
    broken = observed("c", 10, ready=9, current=True, receives=False)
    arrived = observed("b", 5, current=True)
    shares = {"b": 5, "c": 10}
    moved = plan(shares, observed("a", 5), arrived, broken, max_unavailable=1)["a"]
    assert moved.kind is ActionKind.DELETE
    assert plan(shares, observed("a", 5), arrived, broken)["a"].count == 1
    coming = observed("b", 5, ready=4, current=True)
    assert plan(shares, observed("a", 5), coming, broken, max_unavailable=3)["a"].count == 1
    grown = observed("b", 15, ready=14, current=True)
    assert plan({"b": 15}, observed("a", 5), grown, max_unavailable=1)["a"].count == 1
    known = plan({"b": 15}, observed("a", 5), grown, max_unavailable=1, missing=1)["a"]
    assert known.kind is ActionKind.DELETE


def test_copies_of_a_kind_that_replace_none_elsewhere_leave_at_once() -> None:
    actions = plan({"b": 1}, observed("a", 1), observed("b"), max_unavailable=ANY_NUMBER)
    assert actions["a"].kind is ActionKind.DELETE


def test_copies_that_a_cluster_invents_let_nobody_elses_go() -> None:
    """b's four copies move to c, which is slow; a has two by its share, says that it has a million,
    and so has room for all of them by its word.
    """
    invented = observed("a", 2, ready=1_000_000, counts=2, current=True)
    actions = plan(
        {"a": 2, "c": 4}, invented, observed("b", 4), observed("c", 4, ready=1, current=True)
    )

    assert actions["b"] == Action("b", ActionKind.UPDATE, count=3, keep_template=True), (
        "one for the one that is ready in c"
    )
    honest = plan(
        {"a": 2, "c": 4},
        observed("a", 2, current=True),
        observed("b", 4),
        observed("c", 4, ready=1, current=True),
    )
    assert honest["b"] == actions["b"]


def test_copies_that_nobody_knows_to_have_been_given_stay_until_the_others_are_ready() -> None:
    unknown = observed("a", 4, counts=0)

    assert (
        plan({"b": 4}, unknown, observed("b", 4, ready=3, current=True))["a"].kind
        is ActionKind.HOLD
    )
    assert plan({"b": 4}, unknown, observed("b", 4, current=True))["a"].kind is ActionKind.DELETE


def test_a_plain_scale_down_is_done_at_once() -> None:
    actions = plan({"a": 1, "b": 1}, observed("a", 5), observed("b", 5))

    assert [action.count for action in actions.values()] == [1, 1]
    assert {action.kind for action in actions.values()} == {ActionKind.UPDATE}


def test_a_scale_down_while_copies_elsewhere_are_still_starting_takes_no_ready_ones() -> None:
    """Of a 5, b 4 only b's old six are ready; then 8 are wanted: a's four, not yet ready, are
    waited for.
    """
    slices = (observed("a", 5, ready=0, receives=False), observed("b", 6, receives=False))
    assert plan({"a": 4, "b": 4}, *slices)["b"].kind is ActionKind.HOLD
    assert plan({"a": 4, "b": 4}, *slices)["a"] == Action("a", ActionKind.UPDATE, count=4)
    assert plan({"a": 4, "b": 4}, *slices, max_unavailable=3)["b"] == Action(
        "b", ActionKind.UPDATE, count=5
    )
    slices = (observed("a", 5, ready=4), observed("b", 6))
    assert plan({"a": 4, "b": 4}, *slices)["b"] == Action("b", ActionKind.UPDATE, count=4)


def test_scaling_to_nothing_removes_every_slice() -> None:
    actions = plan({}, observed("a", 5), observed("b", 5))

    assert {action.kind for action in actions.values()} == {ActionKind.DELETE}


def test_a_changed_template_reaches_a_bounded_number_of_clusters_at_a_time() -> None:
    old = [observed(name, 3, template_current=False) for name in "abcd"]
    first = plan(dict.fromkeys("abcd", 3), *old, at_once=2)
    busy = [observed("a", 3, healthy=False, current=True), observed("b", 3, current=True), *old[2:]]
    second = plan(dict.fromkeys("abcd", 3), *busy, at_once=2)

    assert [first[name].kind for name in "abcd"] == [
        ActionKind.UPDATE,
        ActionKind.UPDATE,
        ActionKind.HOLD,
        ActionKind.HOLD,
    ]
    assert [second[name].kind for name in "abcd"] == [
        ActionKind.NOTHING,
        ActionKind.NOTHING,
        ActionKind.UPDATE,
        ActionKind.HOLD,
    ]


def test_max_unavailable_bounds_rollouts_over_all_clusters_together() -> None:
    old = {name: observed(name, 3, template_current=False) for name in "abc"}
    shares = dict.fromkeys("abc", 3)

    def rolls(bound: int, *, by_number: bool = True, **changed: Observed) -> str:
        slices = {**old, **changed}.values()
        actions = plan(shares, *slices, max_unavailable=bound, by_number=by_number)
        return "".join(n for n, action in actions.items() if action.kind is ActionKind.UPDATE)

    assert [rolls(1), rolls(2), rolls(3), rolls(6), rolls(9)] == ["a", "a", "a", "ab", "abc"]
    assert rolls(0) == "abc", "each copy is replaced by a ready one"
    assert rolls(2, by_number=False) == "abc", "percentages of the shares add up to that of all"
    busy = observed("a", 3, ready=2, healthy=False, current=True)
    assert (rolls(1, a=busy), rolls(2, a=busy)) == ("", "")
    assert rolls(1, a=observed("a", 3, current=True)) == "b"
    broken = observed("c", 3, ready=2, template_current=False, healthy=False)
    assert rolls(1, c=broken) == "c", "it takes no more than is missing already"
    assert rolls(1, a=busy, c=broken) == "c"


def test_a_share_change_does_not_wait_for_a_rollout() -> None:
    slices = [observed(name, 3, template_current=False, healthy=False) for name in "ab"]
    actions = plan({"a": 3, "b": 5}, *slices, at_once=1)

    assert actions["a"] == Action("a", ActionKind.UPDATE, count=3)
    assert actions["b"] == Action("b", ActionKind.UPDATE, count=5, keep_template=True)


def test_shards_leave_a_cluster_only_when_what_they_completed_is_safe() -> None:
    unsafe = plan({}, observed("a", 5, safe=False), unit=Unit.SHARDS)
    safe = plan({}, observed("a", 5), unit=Unit.SHARDS)

    assert unsafe["a"].kind is ActionKind.HOLD
    assert safe["a"].kind is ActionKind.DELETE


SLICES = st.builds(
    lambda cluster, count, lost, readable, current: observed(
        cluster, count, ready=max(count - lost, 0), readable=readable, current=current
    ),
    st.sampled_from("abcde"),
    st.integers(0, 20),
    st.integers(0, 5),
    st.booleans(),
    st.just(False),
)


@given(
    shares=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 20), max_size=5),
    found=st.lists(SLICES, max_size=5, unique_by=lambda one: one.cluster),
    max_unavailable=st.integers(0, 5),
)
def test_a_move_takes_only_what_is_ready_beyond_the_wanted_number(
    shares: dict[str, int], found: list[Observed], max_unavailable: int
) -> None:
    """Whatever may be missing, unless nothing has to grow: then shrinking is what was asked for."""
    slices = {one.cluster: one for one in found}
    for cluster in shares:
        slices.setdefault(cluster, observed(cluster))
    actions = plan(shares, *slices.values(), max_unavailable=max_unavailable)
    ready = sum(one.ready for one in slices.values() if one.readable)
    taken = sum(
        max(0, slices[name].ready - action.count)
        for name, action in actions.items()
        if action.kind in (ActionKind.UPDATE, ActionKind.DELETE)
    )
    grows = any(
        slices[name].count < count for name, count in shares.items() if slices[name].readable
    )

    if grows:
        assert taken <= max(0, ready - sum(shares.values()))


@given(
    shares=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 20), min_size=1, max_size=5),
    start=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 20), max_size=5),
    at_once=st.sampled_from([None, 1, 2]),
)
@pytest.mark.parametrize("unit", list(Unit))
def test_following_the_actions_always_arrives(
    unit: Unit, shares: dict[str, int], start: dict[str, int], at_once: int | None
) -> None:
    """With members that do what they are told, the plan ends, and ends at the shares."""
    slices = {name: observed(name, count, template_current=False) for name, count in start.items()}
    for _ in range(100):
        for name in shares:
            slices.setdefault(name, observed(name))
        actions = plan(shares, *slices.values(), unit=unit, at_once=at_once)
        if all(action.kind is ActionKind.NOTHING for action in actions.values()):
            break
        for name, action in actions.items():
            now = slices[name]
            if action.kind is ActionKind.DELETE:
                slices[name] = observed(name)
            elif action.kind in (ActionKind.CREATE, ActionKind.UPDATE):
                fresh = not action.keep_template or now.template_current
                count = action.count
                slices[name] = observed(
                    name, count, template_current=fresh, current=fresh and shares.get(name) == count
                )

    assert {name: one.count for name, one in slices.items() if one.exists} == shares
    assert all(one.current for one in slices.values() if one.exists)


@given(
    start=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1, max_size=4),
    shares=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1, max_size=4),
    delays=st.lists(st.integers(0, 4), min_size=40, max_size=40),
    max_unavailable=st.integers(0, 9),
)
def test_a_move_with_slow_starts_arrives_and_never_lowers_the_ready_count(
    start: dict[str, int], shares: dict[str, int], delays: list[int], max_unavailable: int
) -> None:
    """Each round, as many of what is not ready become so as `delays` says."""
    count, ready = dict(start), dict(start)
    least = min(sum(start.values()), sum(shares.values()))
    for more in (*delays, *[9] * 40):
        slices = [
            observed(
                name, count.get(name, 0), ready.get(name, 0), current=shares.get(name) == there
            )
            for name in sorted({*count, *shares})
            for there in (count.get(name, 0),)
        ]
        for name, action in plan(shares, *slices, max_unavailable=max_unavailable).items():
            if action.kind in (ActionKind.CREATE, ActionKind.UPDATE, ActionKind.DELETE):
                count[name] = action.count
                ready[name] = min(ready.get(name, 0), action.count)
        assert sum(ready.values()) >= least
        ready = {name: min(there + more, count[name]) for name, there in ready.items()}

    assert {name: copies for name, copies in count.items() if copies} == shares
