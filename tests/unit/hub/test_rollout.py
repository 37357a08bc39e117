"""What is done next in each member: grow before shrinking, wait for the unheard, roll out in turn,
keep what is not ours.
"""

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Unit
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
) -> dict[str, Action]:
    actions = rollout.plan(
        unit,
        [Share(cluster, count, count, 1) for cluster, count in shares.items()],
        {found.cluster: found for found in slices},
        max_unavailable=max_unavailable,
        max_clusters_at_once=at_once,
    )
    return {action.cluster: action for action in actions}


def test_an_empty_cluster_with_a_share_gets_its_slice() -> None:
    assert plan({"a": 3}, observed("a"))["a"] == Action("a", ActionKind.CREATE, count=3)


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


def test_max_unavailable_lets_that_many_go_before_the_others_are_ready() -> None:
    actions = plan({"b": 8}, observed("a", 8), observed("b"), max_unavailable=2)

    assert actions["a"] == Action("a", ActionKind.UPDATE, count=6, keep_template=True)


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
    slices = (observed("a", 5, ready=0), observed("b", 6))
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
def test_a_move_never_takes_more_ready_copies_than_may_be_missing(
    shares: dict[str, int], found: list[Observed], max_unavailable: int
) -> None:
    """Unless nothing has to grow: then shrinking is what was asked for."""
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
        assert taken <= max(0, ready - (sum(shares.values()) - max_unavailable))


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
