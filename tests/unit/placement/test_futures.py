"""The room of one cluster later on."""

from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, NodeRow
from federator.model.resources import Resources
from federator.placement.room import futures
from federator.placement.room.futures import End, Future
from federator.placement.room.nodes import Nodes

NODE = Resources({"cpu": 32_000, "memory": 128 << 30, "pods": 110})


def row(count: int, cpu: int, memory: int, pods: int) -> NodeRow:
    """Nodes on which so much is in use."""
    return NodeRow(count, NODE, NODE - Resources({"cpu": cpu, "memory": memory, "pods": pods}))


def shape(cpu: int, memory: int = 64 << 20) -> PodShape:
    return PodShape(Resources({"cpu": cpu, "memory": memory, "pods": 1}))


def future(*rows: NodeRow, ends: list[End]) -> Future:
    capacity = Capacity(rows)
    return Future(capacity, Nodes.of(rows), None, ends)


def test_room_comes_back_where_it_was_taken_and_not_where_something_else_runs() -> None:
    """Two nodes run something small, six a copy of what ends: all eight take one then."""
    rows = [row(2, 120, 300 << 20, 1), row(6, 20_000, 64 << 20, 1)]
    later = future(*rows, ends=[End(100.0, shape(20_000), 6)])

    assert later.earliest([(shape(20_000), 8)]) == 100.0
    assert later.earliest([(shape(20_000), 9)]) is None
    assert later.beside(100.0, [(shape(20_000), 8)], [(shape(10_000), 1)], 99) == 8


def test_a_charge_without_a_request_is_given_back_as_far_as_it_was_taken() -> None:
    """Its pod requests no memory, and it is charged some: the node has no more than it has."""
    nodes = Nodes.of(rows := [row(1, 5_000, 0, 1)])
    limits = futures.limits_of(Capacity(rows), nodes)

    empty = futures.returned(nodes, shape(5_000, 200 << 20), 1, limits)

    assert dict(zip(empty.names, empty.free[:, 0].tolist(), strict=True)) == dict(NODE.items())


def test_later_ends_count_from_when_they_come() -> None:
    later = future(
        row(1, 30_000, 0, 2), ends=[End(50.0, shape(10_000, 0), 1), End(80.0, shape(20_000, 0), 1)]
    )

    assert later.earliest([(shape(10_000, 0), 1)]) == 50.0
    assert later.earliest([(shape(25_000, 0), 1)]) == 80.0
    assert later.beside(50.0, [(shape(10_000, 0), 1)], [(shape(2_000, 0), 1)], 99) == 1


@given(
    st.lists(
        st.builds(
            End,
            st.sampled_from((50.0, 60.0, 80.0)),
            st.sampled_from((shape(10_000), shape(3_000))),
            st.integers(1, 3),
        ),
        max_size=6,
    ),
    st.sampled_from((shape(9_000), shape(20_000), shape(31_000))),
    st.integers(1, 4),
    st.sampled_from((0.0, 50.0, 59.0, 60.0, 80.0)),
)
def test_whoever_asks_up_to_a_time_hears_the_same_up_to_then(
    ends: list[End], wanted: PodShape, count: int, until_s: float
) -> None:
    """By sums it is never later, or none looks at the cluster where it is first."""
    rows, pods = [row(2, 28_000, 1 << 30, 3), row(1, 31_000, 1 << 30, 2)], [(wanted, count)]
    at_s = future(*rows, ends=ends).earliest(pods)
    later = future(*rows, ends=ends)

    soonest_s = later.soonest(pods)

    assert at_s is None or (soonest_s is not None and soonest_s <= at_s)
    assert later.earliest(pods, until_s) == (None if at_s is None or at_s > until_s else at_s)
