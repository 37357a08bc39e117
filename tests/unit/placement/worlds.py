"""Random fleets, policies and asks for the property tests."""

from hypothesis import strategies as st

from federator.model.ask import (
    Ask,
    Division,
    Group,
    PodShape,
    Policy,
    SpreadRule,
    Strategy,
    Tier,
    Unit,
    Weight,
)
from federator.model.fleet import (
    Capacity,
    ClusterView,
    FleetSnapshot,
    Holding,
    NodeRow,
    QuotaAccount,
    TierQuota,
)
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.model.shards import Ranges

NAMES = ("a", "b", "c", "d", "e")
ZONES = ("", "z1", "z2", "z3")


def rarely(one_in: int) -> st.SearchStrategy[bool]:
    """True once in so many draws."""
    return st.sampled_from([False] * (one_in - 1) + [True])


shapes = st.sampled_from(
    [
        PodShape(Resources({"cpu": 1000, "pods": 1})),
        PodShape(Resources({"cpu": 300, "memory": 700, "pods": 1})),
        PodShape(Resources({"memory": 2500})),
        PodShape(Resources({"cpu": 1000, "pods": 1}), one_per_node=True),
        PodShape(Resources({"cpu": 500, "pods": 1}), node_selector='{"disk":"ssd"}'),
    ]
)


@st.composite
def rows(draw: st.DrawFn) -> NodeRow:
    allocatable = Resources({"cpu": draw(st.integers(1, 12)) * 1000, "memory": 10_000, "pods": 20})
    parts = st.sampled_from((10, 10, 8, 5, 3, 0))
    free = Resources({name: amount * draw(parts) // 10 for name, amount in allocatable.items()})
    taint = draw(st.sampled_from([(), (), (), (), (Taint("node", "x", "NoSchedule"),)]))
    return NodeRow(draw(st.integers(1, 4)), allocatable, free, taints=taint)


@st.composite
def views(draw: st.DrawFn, name: str) -> ClusterView:
    capacity = Capacity(
        rows=tuple(draw(st.lists(rows(), min_size=1, max_size=3))),
        copies=draw(
            st.dictionaries(shapes.map(lambda shape: shape.id), st.integers(0, 30), max_size=2)
        ),
        includes_seq=draw(st.integers(0, 3)),
        packs=draw(st.booleans()),
    )
    taints = [
        *[()] * 12,
        (Taint("t", "", "NoSchedule"),),
        (Taint("t", "", "NoExecute"),),
        (Taint("t", "", "PreferNoSchedule"),),
    ]
    return ClusterView(
        name,
        labels={
            "zone": draw(st.sampled_from(ZONES)),
            "region": draw(st.sampled_from(("r1", "r2"))),
        },
        taints=draw(st.sampled_from(taints)),
        cordoned=draw(rarely(10)),
        ready=not draw(rarely(10)),
        removing=draw(rarely(12)),
        usable_permille=draw(st.sampled_from((1000, 1000, 1000, 900, 300, 0))),
        capacity=None if draw(rarely(15)) else capacity,
        stale=draw(rarely(12)),
    )


@st.composite
def policies(draw: st.DrawFn, *, plain: bool = False) -> Policy:
    if plain:
        return Policy(
            division=Division(draw(st.sampled_from((Strategy.CAPACITY, Strategy.SPREAD))))
        )
    rules = st.builds(
        SpreadRule,
        st.sampled_from(("zone", "region")),
        st.integers(1, 4),
        st.integers(0, 4),
        st.booleans(),
    )
    weights = st.builds(
        Weight,
        st.integers(1, 4) if not draw(rarely(6)) else st.integers(-1, 1),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple),
    )
    groups = st.builds(
        Group,
        st.sampled_from(("g", "h")),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple),
    )
    optional = st.sampled_from((None,) * 6 + (0, 1, 2, 5, 5, 9))
    division = Division(
        draw(st.sampled_from(Strategy)),
        draw(st.sampled_from((0, 0, 0, 0, 1, 2, 4))),
        draw(optional),
        draw(st.booleans()),
        tuple(draw(st.lists(weights, max_size=3))),
        tuple(draw(st.lists(groups, max_size=2))) if draw(rarely(4)) else (),
        draw(optional),
    )
    return Policy(
        names=tuple(draw(st.sampled_from(((), (), (), ("a", "b", "nobody"))))),
        exclude=tuple(draw(st.sampled_from(((), (), (), ("c",))))),
        spread=tuple(draw(st.lists(rules, max_size=2))),
        division=division,
        require_all=draw(rarely(6)),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> FleetSnapshot:
    names = draw(st.sampled_from((NAMES, NAMES[:4], NAMES[1:3], NAMES, NAMES[:1], ())))
    quotas = st.builds(
        QuotaAccount,
        st.sampled_from(("q1", "q2")),
        projects=st.sampled_from((frozenset({"feed"}), frozenset({"feed", "ads"}))),
        tiers=st.sampled_from((0, 3, 10, 25, 40)).map(
            lambda cpu: {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": cpu * 1000}))}
        ),
        max_concurrent=st.sampled_from((None, None, None, 1, 2)),
        max_priority=st.sampled_from((None, None, 10)),
    )
    accounts = draw(st.lists(quotas, max_size=2, unique_by=lambda one: one.name))
    return FleetSnapshot(5.0, {name: draw(views(name)) for name in names}, tuple(accounts))


@st.composite
def asks(draw: st.DrawFn, name: str = "w", *, plain: bool = False) -> Ask:
    unit = draw(st.sampled_from(Unit))
    count = draw(st.sampled_from((0, 1, 2, 3, 5, 8, 13, 20, 40)))
    slots = count if unit is Unit.REPLICAS else draw(st.sampled_from((0, 1, 3, 5, 8, 15)))
    return Ask(
        WorkloadKey("PinterestService", "feed", name),
        f"uid-{name}",
        1,
        unit,
        count,
        slots,
        draw(shapes.filter(lambda shape: shape.plain) if plain else shapes),
        draw(st.sampled_from(("feed", "ads", "free"))),
        priority=draw(st.sampled_from((0, 5, 5, 50))),
        policy=draw(policies(plain=plain)),
        whole=unit is Unit.SHARDS,
        suspended=not plain and draw(rarely(15)),
    )


@st.composite
def holdings(draw: st.DrawFn, ask: Ask) -> tuple[Holding, ...]:
    """What an earlier decision might have left: disjoint ranges for shards."""
    names = draw(st.lists(st.sampled_from((*NAMES, "gone")), unique=True, max_size=3))
    held: list[Holding] = []
    start = 0
    for name in sorted(names):
        seq = draw(st.integers(1, 6))
        if ask.unit is Unit.REPLICAS:
            count = draw(st.integers(1, 12))
            held.append(Holding(name, count, count, seq))
            continue
        size = draw(st.integers(1, 12))
        ranges: Ranges = ((start, start + size - 1),)
        start += size + draw(st.integers(0, 2))
        held.append(Holding(name, size, draw(st.integers(0, 5)), seq, ranges))
    return tuple(held)


capped = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((0, 3)), max_size=2)
"""What the schedulers of some clusters could bind lately."""
finished = st.lists(st.integers(0, 45), unique=True, max_size=12).map(
    lambda indexes: tuple((index, index) for index in sorted(indexes))
)
