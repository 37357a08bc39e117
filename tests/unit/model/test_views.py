"""What a set of clusters says of its difference from another is never less than a look at all of
them finds."""

import dataclasses

import hypothesis.strategies as st
import pytest
from hypothesis import given

from federator.model.fleet import ClusterView, FleetSnapshot, Views
from federator.placement.room.world import judged_alike, others_of

NAMES = tuple("abcd")


def _views(names: tuple[str, ...] = NAMES) -> Views:
    return Views({name: ClusterView(name) for name in names})


def test_the_next_ones_tell_what_differs_and_leave_the_former_as_they_are() -> None:
    former = _views()
    other = ClusterView("b", cordoned=True)
    latter = former.with_these([other])
    assert others_of(former, latter) == ["b"]
    assert latter["b"] is other
    assert not former["b"].cordoned
    assert [*latter] == [*former]


def test_the_same_ones_differ_in_nothing() -> None:
    views = _views()
    assert others_of(views, views) == []


@given(st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=6), st.data())
def test_any_two_differ_where_their_clusters_are_other_objects(
    steps: list[set[str]], data: st.DataObject
) -> None:
    line = [_views()]
    for step in steps:
        line.append(line[-1].with_these([ClusterView(name) for name in sorted(step)]))
    before, now = (data.draw(st.sampled_from([*line, _views(), dict(line[0])])) for _ in range(2))
    others = others_of(before, now)
    assert others is not None
    assert set(others) >= {name for name in NAMES if before[name] is not now[name]}


@given(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.booleans()), max_size=4), st.data())
def test_what_is_said_to_be_judged_alike_is(
    steps: list[tuple[set[str], bool]], data: st.DataObject
) -> None:
    line = [_views()]
    for step, anew in steps:
        last = line[-1]
        others = [
            dataclasses.replace(last[name], capacity_age_s=last[name].capacity_age_s + 1)
            if not anew
            else dataclasses.replace(last[name], cordoned=not last[name].cordoned)
            for name in sorted(step)
        ]
        line.append(last.with_these(others, judged_anew=anew))
    before, now = (data.draw(st.sampled_from([*line, _views(), dict(line[0])])) for _ in range(2))
    alike = all(before[name].judged_as(now[name]) for name in NAMES)
    assert judged_alike(before, now, others_of(before, now)) == alike


def test_amounts_alone_are_judged_alike_without_a_look_at_any_cluster() -> None:
    former = _views()
    latter = former.with_these([ClusterView("b", capacity_age_s=1.0)], judged_anew=False)
    assert latter.judged_as(former)
    assert not latter.judged_as(_views())
    assert not former.with_these([ClusterView("b")]).judged_as(former)


def test_others_under_the_names_of_fewer_clusters_are_not_comparable() -> None:
    assert others_of(_views(), _views(("a", "b"))) is None


def test_a_cluster_that_is_not_among_them_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown clusters: \['x'\]"):
        _views().with_these([ClusterView("x")])


@pytest.mark.parametrize("make", [Views, lambda views: FleetSnapshot(0.0, views)])
def test_a_cluster_under_another_name_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match="cluster 'a' is filed under 'b'"):
        make({"b": ClusterView("a")})
