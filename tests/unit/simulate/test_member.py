"""Where a simulated member binds one copy: on the node that the model of its scheduler picks, looked
at node by node.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.kubernetes.taints import Taint
from federator.model.resources import Resources
from federator.placement.room import binding
from federator.simulate.engine.members.member import Bound, Member
from federator.simulate.engine.shapes import Shapes, selector

MODELS = ("", "A100", "T4")

rows = st.builds(
    lambda count, cpu, memory, gpu, model, tainted: NodeRow(
        count,
        (size := Resources({"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu, "pods": 9})),
        size,
        model=model,
        taints=(Taint("dedicated", "x", "NoSchedule"),) if tainted else (),
    ),
    st.integers(1, 3),
    st.sampled_from((0, 3000, 4000, 7000)),
    st.sampled_from((5 << 30, 7 << 30)),
    st.integers(0, 2),
    st.sampled_from(MODELS),
    st.integers(0, 5).map(lambda number: number == 0),
)
shapes = st.builds(
    lambda cpu, memory, gpu, model: PodShape(
        Resources({"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu, "pods": 1}),
        node_selector=selector((model,) if model else ()),
    ),
    st.sampled_from((0, 500, 700)),
    st.sampled_from((0, 1 << 30, 3 << 30)),
    st.integers(0, 1),
    st.sampled_from(MODELS),
)


def by_the_model(member: Member, shape: PodShape, makes: list[NodeRow]) -> Bound:
    """What `binding.spread` says of all nodes as they are now."""
    names, free = member.names, member.free.copy()
    scored = [names.index(name) for name in binding.SCORED if name in names]
    one_by = binding.inverse([[make.allocatable[names[at]] for make in makes] for at in scored])
    needs = np.array([[shape.requests[names[at]]] for at in scored])
    bound = binding.spread(
        np.ones(len(makes), dtype=np.int64),
        member.heights(shape),
        1,
        lambda copies: binding.openness(free[scored], one_by, needs, copies),
    )
    each = bound.each.copy()
    for row, _, copies in bound.parts:
        each[row] = copies
    return tuple((node, int(each[node])) for node in np.flatnonzero(each).tolist())


@given(
    st.lists(rows, min_size=1, max_size=4),
    st.lists(shapes, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=25),
)
def test_one_copy_goes_where_the_model_of_the_scheduler_puts_it(
    nodes: list[NodeRow], wanted: list[PodShape], steps: list[tuple[int, int]]
) -> None:
    member = Member(ClusterView("a", capacity=Capacity(tuple(nodes))), Shapes())
    makes = [row for row in nodes for _ in range(row.count)]
    there: list[tuple[PodShape, Bound]] = []
    for which, copies in steps:
        shape = wanted[which % len(wanted)]
        if not copies and there:
            member.unbind(*there.pop(0))
            continue
        expected = by_the_model(member, shape, makes)
        bound = member.bind(shape, max(copies, 1))
        if copies <= 1:
            assert bound == expected
        there.append((shape, bound))
    for left in there:
        member.unbind(*left)
    assert (member.free == member.allocatable).all()
