"""What a set of clusters says of its difference from another is never less than a look at all of
them finds."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from federator.model.fleet import ClusterView, FleetSnapshot, Views
from federator.placement.room.world import others_of

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
