"""All ways to decide (`ways`) give the same decision, to the last byte as recorded, whatever is held,
capped, charged or edited. That it is the right one is the matter of `test_rules`.
"""

import pickle
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import decision as decisions
from federator.model import shards
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.decision import Reason
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, Holding, NodeRow
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from federator.model.shards import Ranges
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from federator.scheduling import evacuation
from tests.unit.placement import worlds
from tests.unit.placement.fleets import cluster, fleet, holdings, jobs
from tests.unit.placement.ways import decided_alike, in_columns


@st.composite
def cases(draw: st.DrawFn) -> tuple[Ask, tuple[Holding, ...], Ranges]:
    ask = draw(worlds.asks())
    if draw(st.booleans()):  # most policies have bounds under which every cluster is looked at
        division = replace(
            ask.policy.division, min_per_cluster=0, max_clusters=None, strategy=Strategy.CAPACITY
        )
        spread = tuple(replace(rule, hard=False) for rule in ask.policy.spread)
        ask = replace(ask, policy=replace(ask.policy, division=division, spread=spread))
    done = shards.normal(draw(worlds.finished)) if ask.unit is Unit.SHARDS else ()
    return ask, draw(worlds.holdings(ask)), done


@given(
    worlds.snapshots(),
    st.lists(cases(), min_size=1, max_size=4),
    worlds.capped,
    st.booleans(),
    st.booleans(),
)
def test_all_ways_give_the_same_decision(
    snapshot: FleetSnapshot,
    given_: list[tuple[Ask, tuple[Holding, ...], Ranges]],
    capped: Mapping[str, int],
    by_name: bool,
    rolled_back: bool,
) -> None:
    commitments = Commitments()
    asks = [
        (replace(ask, uid=f"uid-{at}"), held, done) for at, (ask, held, done) in enumerate(given_)
    ]
    for ask, held, _ in asks:
        if held:
            commitments.record(_commitment(ask, held))
    ledger = commitments.open(snapshot)
    for at, (ask, held, done) in enumerate(asks):
        mark = ledger.mark()
        more: dict[str, Any] = {"capped": capped, "finished": done, "by_name": by_name}
        decided_alike(ask, held, snapshot, ledger, seq=50 + at, **more)
        if rolled_back and at == 0:
            ledger.rollback(mark)


def _commitment(ask: Ask, held: tuple[Holding, ...]) -> Commitment:
    namespace = ask.key.namespace
    return Commitment(ask.uid, ask.key, ask.project, namespace, ask.tier, ask.shape, held)


def test_finished_shards_move_along_under_a_policy_that_cannot_be_followed() -> None:
    """Found by 2,000 examples of the property above."""
    policy = Policy(
        division=Division(strategy=Strategy.DUPLICATE, groups=(Group("g", names=("a",)),))
    )
    ask, done = replace(jobs(5, 1, policy=policy), uid="uid"), ((0, 0), (2, 2))
    held = (
        Holding("a", 1, 0, 1, ((0, 0),)),
        Holding("b", 1, 1, 1, ((1, 1),)),
        Holding("c", 2, 1, 1, ((2, 3),)),
    )
    snapshot, commitments = fleet(*(cluster(name, 4) for name in "abcd")), Commitments()
    commitments.record(_commitment(ask, held))
    made = decided_alike(ask, held, snapshot, commitments.open(snapshot), seq=50, finished=done)
    assert [share.cluster for share in made.shares] == ["a", "b"]


def _view(rng: random.Random, at: int) -> ClusterView:
    rows = []
    for _ in range(rng.randint(1, 6)):
        whole = Resources(
            {"cpu": rng.randint(4, 64) * 1000, "memory": rng.randint(8, 256) << 30, "pods": 110}
        )
        free = Resources(
            {name: amount * rng.randint(1, 10) // 10 for name, amount in whole.items()}
        )
        rows.append(NodeRow(rng.randint(1, 12), whole, free))
    marks = [
        (),
        (),
        (),
        (),
        (),
        (Taint("t", "", "NoSchedule"),),
        (Taint("t", "", "PreferNoSchedule"),),
    ]
    return ClusterView(
        f"c{at:03d}",
        labels={"zone": f"z{rng.randint(0, 5)}", "tier": rng.choice(("gold", "silver"))},
        taints=rng.choice(marks),
        cordoned=rng.random() < 0.05,
        ready=rng.random() > 0.05,
        usable_permille=rng.choice((1000, 1000, 800)),
        capacity=Capacity(rows=tuple(rows), packs=rng.random() < 0.1)
        if rng.random() > 0.05
        else None,
    )


def _policy(rng: random.Random, count: int) -> Policy:
    names = [f"c{at:03d}" for at in range(count)]
    weights = tuple(
        Weight(rng.randint(0, 5), tuple(rng.sample(names, count // 2))) for _ in range(2)
    )
    groups = (
        Group("g", tuple(rng.sample(names, count // 3))),
        Group("h", tuple(rng.sample(names, count // 2))),
    )
    rules = (
        SpreadRule("zone", rng.randint(1, 3), rng.choice((0, 1, 2)), rng.random() < 0.2),
        SpreadRule("tier", 1, rng.choice((0, 3)), False),
    )
    division = Division(
        rng.choice(
            (
                Strategy.CAPACITY,
                Strategy.CAPACITY,
                Strategy.SPREAD,
                Strategy.WEIGHTED,
                Strategy.PACK,
            )
        ),
        min_per_cluster=rng.choice((0, 0, 0, 0, 2)),
        max_per_cluster=rng.choice((None, None, None, 1, 4)),
        fresh=rng.random() < 0.2,
        weights=weights if rng.random() < 0.5 else (),
        groups=groups if rng.random() < 0.3 else (),
        max_clusters=rng.choice((None, None, None, None, 3)),
    )
    spread = rules[: rng.choice((0, 0, 1, 2))]
    return Policy(
        name=f"p{rng.random()}", spread=spread, division=division, require_all=rng.random() < 0.2
    )


def _ask(rng: random.Random, at: int, policy: Policy) -> Ask:
    shard = rng.random() < 0.25
    count = rng.choice((1, 3, 8, 20, 60))
    shape = PodShape(
        Resources(
            {"cpu": rng.choice((100, 500, 2000)), "memory": rng.choice((1, 4)) << 30, "pods": 1}
        )
    )
    return Ask(
        WorkloadKey("PinterestService", "n", f"w{at}"),
        f"uid-{at}",
        1,
        Unit.SHARDS if shard else Unit.REPLICAS,
        count,
        max(count // 2, 1) if shard else count,
        replace(shape, one_per_node=rng.random() < 0.1),
        f"p{at % 3}",
        policy=policy,
        whole=shard,
    )


def _quotas() -> tuple[QuotaAccount, ...]:
    limit = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 40_000}))}
    return (QuotaAccount("q", projects=frozenset({"p1"}), tiers=limit, unknown_projects=True),)


def _views(rng: random.Random, clusters: int) -> dict[str, ClusterView]:
    return {one.name: one for one in (_view(rng, at) for at in range(clusters))}


@pytest.mark.parametrize(("seed", "clusters"), [(0, 7), (1, 40), (2, 130)])
def test_all_ways_decide_a_batch_alike_also_when_it_is_edited(seed: int, clusters: int) -> None:
    rng = random.Random(100 * seed + clusters)
    snapshot = FleetSnapshot(0.0, _views(rng, clusters), _quotas())
    policies = [_policy(rng, clusters) for _ in range(12)]
    commitments = Commitments()
    asks = [_ask(rng, at, rng.choice(policies)) for at in range(60)]
    held: dict[str, tuple[Holding, ...]] = {}
    for turn in range(2):  # then each with what it holds, a quarter of them edited
        ledger = commitments.open(snapshot)
        for at, ask in enumerate(asks):
            now = ask
            if turn and rng.random() < 0.25:
                count = rng.choice((1, 5, 30))
                now = replace(ask, count=count, slots=count, policy=rng.choice(policies))
            capped = {f"c{rng.randrange(clusters):03d}": 2} if rng.random() < 0.2 else {}
            seq = 1000 * turn + at + 1
            mine = held.get(ask.uid, ())
            made = decided_alike(now, mine, snapshot, ledger, seq=seq, capped=capped)
            held[ask.uid] = holdings(made.shares)
        for ask in asks:
            commitments.assume(_commitment(ask, held[ask.uid]))


@pytest.mark.parametrize(("seed", "clusters"), [(0, 16), (1, 40)])
def test_all_ways_decide_alike_what_leaves_clusters_that_are_emptied(
    seed: int, clusters: int
) -> None:
    """Some lose all they hold and some a part; and as more clusters are emptied, not all find
    another place."""
    rng, stayed, moved = random.Random(seed), 0, 0
    views = _views(rng, clusters)
    snapshot = FleetSnapshot(0.0, views, _quotas())
    policies = [_policy(rng, clusters) for _ in range(6)] + [Policy(name="plain")] * 3
    commitments = Commitments()
    asks = [_ask(rng, at, rng.choice(policies)) for at in range(50)]
    asks = [replace(ask, count=min(ask.count, 5), slots=min(ask.slots, 5)) for ask in asks]
    held: dict[str, tuple[Holding, ...]] = {}
    ledger = commitments.open(snapshot)
    for at, ask in enumerate(asks):
        held[ask.uid] = holdings(engine.decide(ask, (), snapshot, ledger, seq=at + 1).shares)
    for ask in asks:
        commitments.assume(_commitment(ask, held[ask.uid]))
    for part in (0.2, 0.6, 1.0):
        lost = frozenset(rng.sample(sorted(views), max(int(part * clusters), 1)))
        less = evacuation.emptied(snapshot, lost)
        ledger = commitments.open(less)
        for at, ask in enumerate(asks):
            edit = {0: 1, 1: -1}.get(at % 7, 0) if ask.count > 1 else 0
            now = replace(ask, count=ask.count + edit, slots=ask.slots + edit)
            mine, seq, by_name = held[ask.uid], 1000 + at, at % 5 == 0
            made = decided_alike(now, mine, less, ledger, seq=seq, by_name=by_name)
            if mine and all(holding.cluster in lost for holding in mine):
                stays = any(share.cluster in lost for share in made.shares)
                stayed, moved = stayed + stays, moved + (not stays)
    assert stayed
    assert moved


@pytest.mark.parametrize("seed", range(2))
def test_all_ways_decide_single_copies_alike_while_clusters_change(seed: int) -> None:
    rng, columns = random.Random(seed), 0
    views = _views(rng, 12)
    policies = [Policy()] * 4 + [_policy(rng, 12) for _ in range(9)]
    commitments = Commitments()
    for at in range(150):
        if rng.random() < 0.3:
            name, other = rng.choice(sorted(views)), _view(rng, 0)
            capacity = None if other.capacity is None else replace(other.capacity, includes_seq=at)
            kept = views[name] if rng.random() < 0.7 else replace(other, name=name)
            views[name] = replace(kept, capacity=capacity)
            commitments.reported(name, at)
        snapshot = FleetSnapshot(float(at), dict(views), _quotas())
        ask = replace(_ask(rng, at, rng.choice(policies)), count=1, slots=1)
        ledger = commitments.open(snapshot)
        more: Any = {"seq": at + 1, "by_name": rng.random() < 0.3}
        columns += in_columns(ask, snapshot, ledger, **more)
        made = decided_alike(ask, (), snapshot, ledger, **more)
        commitments.assume(Commitment.of(ask, made.shares))
    assert 10 < columns < 140


@pytest.mark.parametrize("seed", range(3))
def test_all_ways_decide_alike_what_goes_to_one_cluster(seed: int) -> None:
    rng, columns = random.Random(seed), 0
    views = _views(rng, 14)
    policies = []
    for _ in range(12):
        policy = _policy(rng, 14)
        strategy = rng.choice((Strategy.CAPACITY, Strategy.SPREAD, Strategy.WEIGHTED))
        floor = rng.choice((0, 0, 0, 2))
        division = replace(
            policy.division, max_clusters=1, strategy=strategy, min_per_cluster=floor
        )
        spread = policy.spread if rng.random() < 0.1 else ()
        policies.append(replace(policy, division=division, spread=spread))
    for at in range(40):
        snapshot = FleetSnapshot(float(at), dict(views), _quotas())
        ledger = Commitments().open(snapshot)
        for turn in range(4):
            shard = rng.random() < 0.6
            count = rng.choice((1, 2, 3, 5, 8, 20, 80))
            ask = replace(
                _ask(rng, 10 * at + turn, rng.choice(policies)),
                unit=Unit.SHARDS if shard else Unit.REPLICAS,
                count=count,
                slots=max(count // 2, 1) if shard and rng.random() < 0.2 else count,
                whole=shard,
            )
            more: Any = {"seq": at + 1, "by_name": rng.random() < 0.3}
            columns += in_columns(ask, snapshot, ledger, **more)
            decided_alike(ask, (), snapshot, ledger, **more)
        for name in sorted(views):
            if rng.random() < 0.2:
                views[name] = replace(_view(rng, 0), name=name)
    assert 8 < columns < 140


def _softly(rng: random.Random, policy: Policy) -> Policy:
    """The policy without the bounds that need candidates."""
    strategy = rng.choice(
        (Strategy.CAPACITY, Strategy.CAPACITY, Strategy.SPREAD, Strategy.WEIGHTED)
    )
    division = replace(policy.division, max_clusters=None, strategy=strategy, min_per_cluster=0)
    spread = tuple(replace(rule, hard=False) for rule in policy.spread)
    return replace(policy, division=division, spread=spread)


@pytest.mark.parametrize(("seed", "clusters"), [(0, 5), (1, 30), (2, 30), (5, 150)])
def test_all_ways_decide_alike_what_several_clusters_share(seed: int, clusters: int) -> None:
    rng, columns = random.Random(1000 * seed + clusters), 0
    views = _views(rng, clusters)
    if seed % 2:  # nothing but the nodes bounds room
        views = {name: replace(view, usable_permille=1000) for name, view in views.items()}
    policies = [Policy()] + [_softly(rng, _policy(rng, clusters)) for _ in range(9)]
    snapshot = FleetSnapshot(0.0, views, _quotas())
    ledger = Commitments().open(snapshot)
    for at in range(120):
        count = rng.choice((2, 3, 5, 9, 17, 40, 120))
        ask = replace(
            _ask(rng, at, rng.choice(policies)),
            unit=Unit.REPLICAS,
            count=count,
            slots=count,
            whole=False,
        )
        mark = ledger.mark()
        more: Any = {"seq": at + 1, "by_name": rng.random() < 0.2}
        columns += in_columns(ask, snapshot, ledger, **more)
        decided_alike(ask, (), snapshot, ledger, **more)
        if rng.random() < 0.1:
            ledger.rollback(mark)
    assert 5 < columns < 120


def _fuller(rng: random.Random, view: ClusterView) -> ClusterView:
    """With little room, or none, on its nodes."""
    if view.capacity is None:
        return view
    rows = [
        replace(
            row,
            free=Resources(
                {name: have * rng.choice((0, 0, 1, 3)) // 10 for name, have in row.free.items()}
            ),
        )
        for row in view.capacity.rows
    ]
    return replace(view, capacity=replace(view.capacity, rows=tuple(rows)))


@pytest.mark.parametrize(("seed", "clusters"), [(0, 6), (1, 6), (1, 80)])
def test_all_ways_refuse_alike_what_finds_no_room(seed: int, clusters: int) -> None:
    rng, columns, partly = random.Random(17 * seed + clusters), 0, 0
    views = {name: _fuller(rng, view) for name, view in _views(rng, clusters).items()}
    policies = [Policy(), Policy(require_all=True)]
    policies += [_softly(rng, _policy(rng, clusters)) for _ in range(6)]
    snapshot = FleetSnapshot(0.0, views, _quotas())
    ledger = Commitments().open(snapshot)
    for at in range(80):
        gang, shard = rng.random() < 0.6, rng.random() < 0.7
        policy = rng.choice(policies)
        if gang:
            division = replace(policy.division, max_clusters=1)
            policy = replace(policy, division=division, spread=(), require_all=rng.random() < 0.9)
        count = rng.choice((2, 5, 40, 900)) if gang else rng.choice((1, 1, 3))
        size = {"cpu": rng.choice((500, 9_000, 50_000)), "memory": 1 << 30, "pods": 1}
        ask = replace(
            _ask(rng, at, policy),
            unit=Unit.SHARDS if shard else Unit.REPLICAS,
            count=count,
            slots=count,
            shape=PodShape(Resources(size)),
            whole=shard,
        )
        more: Any = {"seq": at + 1, "by_name": rng.random() < 0.2}
        refused = in_columns(ask, snapshot, ledger, **more)
        made = decided_alike(ask, (), snapshot, ledger, **more)
        if refused and not made.shares and not made.quota_generations:
            columns, partly = columns + 1, partly + (" 0 of " not in made.message)
            closed = frozenset({Reason.NOT_SELECTED, Reason.CORDONED})
            assert decisions.but(made.verdicts, closed) == {
                verdict.cluster for verdict in made.verdicts if verdict.reason not in closed
            }
    assert 8 < columns < 70
    assert partly > 1  # also those for whom there was some room


def test_lazy_verdicts_are_a_sequence_like_any_other() -> None:
    rng = random.Random(5)
    snapshot = FleetSnapshot(
        0.0, {one.name: one for one in (_view(rng, at) for at in range(30))}, ()
    )
    ask = _ask(rng, 1, Policy())
    made = engine.decide(ask, (), snapshot, Commitments().open(snapshot), seq=1)
    every = tuple(made.verdicts)
    assert made.verdicts == every
    assert hash(made.verdicts) == hash(every)
    assert pickle.loads(pickle.dumps(made.verdicts)) == every
    assert (made.verdicts[0], made.verdicts[1:3], repr(made.verdicts)) == (
        every[0],
        every[1:3],
        repr(every),
    )
