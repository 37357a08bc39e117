"""Random fleets, policies and asks for the property tests."""

import functools

from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, Holding, NodeRow
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from federator.model.shards import Ranges

NAMES = ("a", "b", "c", "d", "e")
ZONES = ("", "z1", "z2", "z3")


@functools.cache
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
_plain_shapes = shapes.filter(lambda shape: shape.plain)

# What is drawn from stands here once: made anew in every draw, it costs more than what is tested.
_one_to_four, _cpus = st.integers(1, 4), st.integers(1, 12)
_parts = st.sampled_from((10, 10, 8, 5, 3, 0))
_node_taints = st.sampled_from([(), (), (), (), (Taint("node", "x", "NoSchedule"),)])


@st.composite
def rows(draw: st.DrawFn) -> NodeRow:
    allocatable = Resources({"cpu": draw(_cpus) * 1000, "memory": 10_000, "pods": 20})
    free = Resources({name: amount * draw(_parts) // 10 for name, amount in allocatable.items()})
    return NodeRow(draw(_one_to_four), allocatable, free, taints=draw(_node_taints))


_capacities = st.builds(
    Capacity,
    rows=st.lists(rows(), min_size=1, max_size=3).map(tuple),
    copies=st.dictionaries(shapes.map(lambda shape: shape.id), st.integers(0, 30), max_size=2),
    includes_seq=st.integers(0, 3),
    packs=st.booleans(),
)
_taints = st.sampled_from(
    [
        *[()] * 12,
        (Taint("t", "", "NoSchedule"),),
        (Taint("t", "", "NoExecute"),),
        (Taint("t", "", "PreferNoSchedule"),),
    ]
)
_labels = st.fixed_dictionaries(
    {"zone": st.sampled_from(ZONES), "region": st.sampled_from(("r1", "r2"))}
)
_usable = st.sampled_from((1000, 1000, 1000, 900, 300, 0))


@st.composite
def views(draw: st.DrawFn, name: str) -> ClusterView:
    capacity = draw(_capacities)
    return ClusterView(
        name,
        labels=draw(_labels),
        taints=draw(_taints),
        cordoned=draw(rarely(10)),
        ready=not draw(rarely(10)),
        removing=draw(rarely(12)),
        usable_permille=draw(_usable),
        capacity=None if draw(rarely(15)) else capacity,
        stale=draw(rarely(12)),
    )


_views = {name: views(name) for name in NAMES}
_plain_policies = st.sampled_from((Strategy.CAPACITY, Strategy.SPREAD)).map(
    lambda strategy: Policy(division=Division(strategy))
)
_some_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple)
_rules = st.builds(
    SpreadRule,
    st.sampled_from(("zone", "region")),
    _one_to_four,
    st.integers(0, 4),
    st.booleans(),
)
_weights = st.lists(st.builds(Weight, _one_to_four, _some_names), max_size=3).map(tuple)
_odd_weights = st.lists(st.builds(Weight, st.integers(-1, 1), _some_names), max_size=3).map(tuple)
_groups = st.lists(st.builds(Group, st.sampled_from(("g", "h")), _some_names), max_size=2).map(
    tuple
)
_optional = st.sampled_from((None,) * 6 + (0, 1, 2, 5, 5, 9))
_strategies, _floors = st.sampled_from(Strategy), st.sampled_from((0, 0, 0, 0, 1, 2, 4))
_spreads = st.lists(_rules, max_size=2).map(tuple)
_named = st.sampled_from(((), (), (), ("a", "b", "nobody")))
_excluded = st.sampled_from(((), (), (), ("c",)))


@st.composite
def _any_policies(draw: st.DrawFn) -> Policy:
    odd = draw(rarely(6))
    division = Division(
        draw(_strategies),
        draw(_floors),
        draw(_optional),
        draw(st.booleans()),
        draw(_odd_weights if odd else _weights),
        draw(_groups) if draw(rarely(4)) else (),
        draw(_optional),
    )
    return Policy(
        names=draw(_named),
        exclude=draw(_excluded),
        spread=draw(_spreads),
        division=division,
        require_all=draw(rarely(6)),
    )


_policies = _any_policies()


def policies(*, plain: bool = False) -> st.SearchStrategy[Policy]:
    return _plain_policies if plain else _policies


_clusters = st.sampled_from((NAMES, NAMES[:4], NAMES[1:3], NAMES, NAMES[:1], ()))
_accounts = st.lists(
    st.builds(
        QuotaAccount,
        st.sampled_from(("q1", "q2")),
        projects=st.sampled_from((frozenset({"feed"}), frozenset({"feed", "ads"}))),
        tiers=st.sampled_from((0, 3, 10, 25, 40)).map(
            lambda cpu: {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": cpu * 1000}))}
        ),
        max_concurrent=st.sampled_from((None, None, None, 1, 2)),
        max_priority=st.sampled_from((None, None, 10)),
    ),
    max_size=2,
    unique_by=lambda one: one.name,
)


@st.composite
def _any_snapshots(draw: st.DrawFn) -> FleetSnapshot:
    names = draw(_clusters)
    accounts = draw(_accounts)
    return FleetSnapshot(5.0, {name: draw(_views[name]) for name in names}, tuple(accounts))


_snapshots = _any_snapshots()


def snapshots() -> st.SearchStrategy[FleetSnapshot]:
    return _snapshots


_units, _counts = st.sampled_from(Unit), st.sampled_from((0, 1, 2, 3, 5, 8, 13, 20, 40))
_slots = st.sampled_from((0, 1, 3, 5, 8, 15))
_projects, _priorities = st.sampled_from(("feed", "ads", "free")), st.sampled_from((0, 5, 5, 50))


@st.composite
def asks(draw: st.DrawFn, name: str = "w", *, plain: bool = False) -> Ask:
    unit = draw(_units)
    count = draw(_counts)
    slots = count if unit is Unit.REPLICAS else draw(_slots)
    return Ask(
        WorkloadKey("PinterestService", "feed", name),
        f"uid-{name}",
        1,
        unit,
        count,
        slots,
        draw(_plain_shapes if plain else shapes),
        draw(_projects),
        priority=draw(_priorities),
        policy=draw(policies(plain=plain)),
        whole=unit is Unit.SHARDS,
        suspended=not plain and draw(rarely(15)),
    )


_holders = st.lists(st.sampled_from((*NAMES, "gone")), unique=True, max_size=3)
_seqs, _held, _gaps, _running = (
    st.integers(1, 6),
    st.integers(1, 12),
    st.integers(0, 2),
    st.integers(0, 5),
)


@st.composite
def holdings(draw: st.DrawFn, ask: Ask) -> tuple[Holding, ...]:
    """What an earlier decision might have left: disjoint ranges for shards."""
    names = draw(_holders)
    held: list[Holding] = []
    start = 0
    for name in sorted(names):
        seq = draw(_seqs)
        if ask.unit is Unit.REPLICAS:
            count = draw(_held)
            held.append(Holding(name, count, count, seq))
            continue
        size = draw(_held)
        ranges: Ranges = ((start, start + size - 1),)
        start += size + draw(_gaps)
        held.append(Holding(name, size, draw(_running), seq, ranges))
    return tuple(held)


capped = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((0, 3)), max_size=2)
"""What the schedulers of some clusters could bind lately."""
finished = st.lists(st.integers(0, 45), unique=True, max_size=12).map(
    lambda indexes: tuple((index, index) for index in sorted(indexes))
)
