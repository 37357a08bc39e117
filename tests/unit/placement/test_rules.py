"""The engine decides as the rules say (`rules`), for every kind and every way to decide."""

import ast
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from federator.api import placementfields
from federator.model import shards
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, Component, Ordinals, PodShape, Tier, Unit
from federator.model.bounds import PerCluster
from federator.model.decision import Decision
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, Holding, NodeRow
from federator.model.kubernetes import selectors
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from federator.model.terms import Stated
from federator.placement import contradictions, engine, everynode, ordinals
from federator.placement.room.commitments import Commitments
from tests.examples import ASKED
from tests.unit.placement import rules, seatbyseat
from tests.unit.placement.fleets import counts, holdings, jobs, service
from tests.unit.placement.ways import WAYS

SEEDS: Final = range(max(80, ASKED))
NAMES = "abcde"
POD = PodShape(Resources({"cpu": 2, "memory": 3, "pods": 1}))
SSD = selectors.from_dict({"matchLabels": {"disk": "ssd"}}, "x")


def _taints(rng: Random) -> tuple[Taint, ...]:
    effects = ("",) * 14 + ("NoSchedule", "NoExecute")
    closing = [Taint("t", "", effect) for effect in (rng.choice(effects),) if effect]
    soft = [Taint(key, "", "PreferNoSchedule") for key in rng.choice(("", "", "", "s", "su"))]
    return (*closing, *soft)


def fleet_of(rng: Random, *, quota: bool = True) -> FleetSnapshot:
    views = {}
    for name in NAMES[: rng.choice((1, 3, 4, 5))]:
        whole = Resources({"cpu": 12, "memory": 24, "pods": 100})
        free = [{"cpu": rng.randint(0, 12), "memory": rng.randint(0, 24)} for _ in range(2)]
        rows = [
            NodeRow(rng.randint(0, 4), whole, Resources({**each, "pods": 100})) for each in free
        ]
        views[name] = ClusterView(
            name,
            labels={"zone": rng.choice(("z1", "z2", "z3", "")), "disk": rng.choice(("ssd", "hdd"))},
            taints=_taints(rng),
            cordoned=rng.random() < 0.05,
            ready=rng.random() > 0.05,
            draining=rng.random() < 0.05,
            capacity=Capacity(tuple(rows), includes_seq=9),
            stated=_stated(rng),
        )
    limit = rng.choice((None,) * 6 + (1, 6, 14, 30)) if quota else None
    tiers = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": limit or 1}))}
    account = QuotaAccount("q", projects=frozenset({"feed"}), tiers=tiers)
    return FleetSnapshot(1.0, views, () if limit is None else (account,))


def _stated(rng: Random) -> Stated:
    zones = rng.sample(("z1", "z2", "z3"), 2) if rng.random() < 0.2 else ()
    return Stated(
        rng.choice(("v1.29.4", "v1.30.0", "v1.36.2")),
        {key: rng.choice(("1", "3", "high")) for key in ("rank",) if rng.random() < 0.7},
        rng.choice(("", "1.5", "2.75", "4")),
        topology={"zone": tuple(sorted(zones))} if zones else {},
    )


def entry_of(rng: Random) -> dict[str, Any]:
    """A required term as people write it."""
    if rng.random() < 0.3:
        return {"cel": rng.choice(sorted(rules.EXPRESSIONS))}
    key, values = rng.choice(
        (
            ("labels.disk", ("ssd", "hdd", "nvme")),
            ("properties.rank", ("1", "2")),
            ("price", ("1.5", "3", "4")),
            ("version", ("1.30", "1.31.0")),
            ("cpu.free", ("0.005", "0.02")),
            ("cpu.nodeFree", ("0.003", "0.008")),
            ("gpu.total", ("0",)),
        )
    )
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Gt", "Lt", "Lt"))
    if key == "labels.disk" and operator in ("Gt", "Lt"):
        operator = "In"
    entry: dict[str, Any] = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        entry["values"] = rng.sample(values, rng.randint(1, len(values)))
    elif operator in ("Gt", "Lt"):
        entry["value"] = rng.choice(values)
    return entry


def alternative_of(rng: Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if rng.random() < 0.4:
        made[rng.choice(("names", "exclude"))] = rng.sample(NAMES, 2)
    if rng.random() < 0.3:
        made["selector"] = {"matchLabels": {"disk": rng.choice(("ssd", "hdd"))}}
    if rng.random() < 0.5:
        made["properties"] = [entry_of(rng)]
    return made


def preference_of(rng: Random) -> dict[str, Any]:
    weight = rng.randint(1, 9)
    named = ("FreeCapacity", "Fit", "Price", "Fragmentation", "SpareGPUs")
    kind = rng.random()
    if kind < 0.4:
        return {"weight": weight, "scorer": rng.choice(named)}
    if kind < 0.6:
        selector = {"matchLabels": {"disk": rng.choice(("ssd", "hdd"))}}
        return {"weight": weight, "selector": selector}
    key = rng.choice(("price", "cpu.free", "cpu.nodeTotal"))
    return {"weight": weight, "property": key, "order": rng.choice(("Ascending", "Descending"))}


def chosen_by(rng: Random, policy: Policy) -> Policy:
    """The policy with conditions and preferences."""
    fields: dict[str, Any] = {}
    if rng.random() < 0.4:
        fields["properties"] = [entry_of(rng) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        fields["anyOf"] = [alternative_of(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.6:
        fields["preferences"] = [preference_of(rng) for _ in range(rng.randint(1, 3))]
    made = placementfields.to_policy_fields({"clusters": fields})
    assert not made["problem"], made["problem"]
    return replace(
        policy,
        conditions=made["conditions"],
        preferences=made["preferences"],
        reads_reports=made["reads_reports"],
    )


def policy_of(rng: Random, *, plain: bool = False) -> Policy:
    def some() -> tuple[str, ...]:
        return tuple(rng.sample(NAMES, rng.randint(1, 4)))

    strategies = (Strategy.CAPACITY, Strategy.SPREAD, Strategy.WEIGHTED, Strategy.DUPLICATE)
    rule = SpreadRule("zone", rng.randint(1, 3), rng.randint(0, 3), rng.random() < 0.5)
    if plain:
        return Policy(division=Division(rng.choice(strategies[:2])))
    division = Division(
        rng.choice(strategies),
        max_per_cluster=rng.choice((None, None, None, 2, 5)),
        weights=tuple(Weight(rng.randint(0, 5), some()) for _ in range(rng.randint(0, 2))),
        groups=tuple(Group("g", some()) for _ in range(rng.choice((0, 0, 0, 2)))),
        max_clusters=rng.choice((None, None, 1, 1, 2, 3)),
        per_cluster=tuple(_bounds(rng, at) for at in range(rng.choice((0, 0, 0, 1, 2)))),
    )
    return Policy(
        names=some() if rng.random() < 0.1 else (),
        exclude=some() if rng.random() < 0.1 else (),
        selector=SSD if rng.random() < 0.1 else None,
        tolerations=(Toleration("t", "Exists"),) if rng.random() < 0.2 else (),
        spread=(rule,) if rng.random() < 0.3 and division.max_clusters is None else (),
        division=division,
        require_all=rng.random() < 0.05,
    )


def _bounds(rng: Random, at: int) -> PerCluster:
    most, percent = rng.choice(((rng.randint(0, 5), None), (None, rng.randint(0, 60))))
    field = f"division.perCluster[{at}]"
    if rng.random() < 0.5:
        return PerCluster(field, cluster=rng.choice(NAMES), most=most, percent=percent)
    return PerCluster(field, selector=SSD, most=most, percent=percent)


def ask_of(rng: Random, uid: str = "uid") -> Ask:
    copies, policy = rng.randint(1, 9), policy_of(rng, plain=rng.random() < 0.3)
    if rng.random() < 0.5:
        policy = chosen_by(rng, policy)
    if rng.random() < 0.6:
        ask = service(copies, policy=policy, shape=POD)
    else:
        ask = jobs(copies, rng.randint(1, 9), policy=policy, shape=POD)
    return replace(ask, uid=uid)


def opened(ask: Ask, held: tuple[Holding, ...]) -> Commitments:
    commitments = Commitments()
    if held:
        commitments.record(
            Commitment(ask.uid, ask.key, ask.project, "feed", ask.tier, ask.shape, held)
        )
    return commitments


def test_the_oracle_imports_nothing_of_the_product() -> None:
    for module in (rules, seatbyseat):
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
        typed = [node for node in tree.body if isinstance(node, ast.If)]  # only for a type checker
        imported = {
            node.module or ""
            for node in ast.walk(ast.Module([n for n in tree.body if n not in typed], []))
            if isinstance(node, ast.ImportFrom)
        }
        assert not [name for name in imported if name.startswith("federator")]


@pytest.mark.parametrize("part", range(4))
def test_copies_and_slots_lie_as_the_rules_say(part: int) -> None:
    for seed in SEEDS[part::4]:
        rng = Random(seed)
        snapshot, by_name = fleet_of(rng), rng.random() < 0.5
        oracle, ledger = rules.Oracle(snapshot), Commitments().open(snapshot)
        for at in range(8):
            ask, before = ask_of(rng, f"uid-{at}"), ledger.mark()
            followed = not contradictions.contradiction(ask)
            expected = oracle.place(ask, by_name=by_name) if followed else None
            for name, way in WAYS.items():
                ledger.rollback(before)
                made = way(ask, (), snapshot, ledger, seq=at + 1, capped={}, by_name=by_name)
                assert followed or not made.shares
                if expected is not None:
                    slots = {share.cluster: share.slots for share in made.shares if share.slots}
                    assert slots == expected, (seed, at, name)
                    if ask.unit == "shards" and by_name:
                        assert _ranges(made) == rules.numbered(ask.count, expected)
            if expected is None:
                ledger.rollback(before)


def _ranges(made: Decision) -> rules.Blocks:
    return {share.cluster: share.ranges for share in made.shares if share.ranges}


def test_held_copies_stay_and_growth_lies_as_the_rules_say() -> None:
    judged = 0
    for seed in SEEDS:
        rng = Random(seed)
        snapshot, ask = fleet_of(rng), replace(ask_of(rng), unit=Unit.REPLICAS, whole=False)
        names = rng.sample(sorted(snapshot.clusters), min(len(snapshot.clusters), 2))
        has = {name: rng.randint(1, 5) for name in sorted(names)}
        held = tuple(Holding(name, copies, copies, 1) for name, copies in has.items())
        oracle = rules.Oracle(snapshot)
        oracle.used["feed"] = sum(has.values()) * POD.requests["cpu"]
        expected = None if contradictions.contradiction(ask) else oracle.place(ask, held)
        for name, way in WAYS.items():
            ledger = opened(ask, held).open(snapshot)
            made = way(ask, held, snapshot, ledger, seq=5, capped={}, by_name=True)
            if expected is not None:
                judged += 1
                assert counts(made) == expected, (seed, name)
    assert judged > len(SEEDS) // 3


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_goes_to_the_first_cluster_that_binds_all_its_pods(seed: int) -> None:
    rng = Random(seed)
    snapshot, sizes = fleet_of(rng, quota=False), [rng.randint(1, 3) for _ in range(2)]
    policy = replace(policy_of(rng), spread=())
    policy = replace(policy, division=Division(groups=policy.division.groups))
    pods = [PodShape(Resources({"cpu": 3 * size, "memory": size, "pods": 1})) for size in sizes]
    parts = [Component(f"c{at}", pod, rng.randint(1, 2), 1) for at, pod in enumerate(pods)]
    parts = [replace(part, min=part.count) for part in parts]
    ask, oracle = jobs(1, 1, policy=policy, shape=PodShape.together(parts)), rules.Oracle(snapshot)
    made = engine.decide(ask, (), snapshot, Commitments().open(snapshot), seq=1, by_name=True)
    if len(set(sizes)) == 1:  # of different pods only the order of binding says what fits
        assert counts(made) == oracle.place(ask)
    assert all(oracle.room(ask, name) for name in counts(made))


@pytest.mark.parametrize("seed", range(40))
def test_a_daemon_is_in_every_cluster_that_takes_it_as_far_as_quota_goes(seed: int) -> None:
    rng = Random(seed)
    snapshot, shape = fleet_of(rng), replace(POD, one_per_node=True, every_node=True)
    policy = everynode.policy_of(replace(policy_of(rng), require_all=False))
    ask = service(1, policy=policy, shape=shape)
    made = engine.decide(ask, (), snapshot, Commitments().open(snapshot), seq=1)
    assert set(counts(made)) == rules.Oracle(snapshot).daemon(ask)


@pytest.mark.parametrize("seed", range(80))
def test_ordinals_stay_where_they_began_and_new_ones_follow_their_block(seed: int) -> None:
    rng = Random(seed)
    snapshot, policy = fleet_of(rng, quota=False), replace(policy_of(rng), require_all=False)
    bounds: dict[str, Any] = {"max_clusters": None, "max_per_cluster": None}
    bounds["per_cluster"] = ()
    policy = replace(policy, spread=(), division=replace(policy.division, **bounds))
    policy = ordinals.policy_of(policy)
    ask = service(rng.randint(1, 9), policy=policy, shape=POD, ordinals=Ordinals())
    then, oracle = rng.randint(1, 12), rules.Oracle(snapshot)
    ledger = Commitments().open(snapshot)
    made = engine.decide(ask, (), snapshot, ledger, seq=20, by_name=True)
    if contradictions.contradiction(ask):
        assert not made.shares
        return
    expected = oracle.place(ask)
    assert expected is not None
    assert _ranges(made) == rules.ordinals(ask.count, {}, expected)
    before = {name: range(own[0][0], own[-1][1] + 1) for name, own in _ranges(made).items()}
    has = {name: len(run) for name, run in before.items()}
    held, ask = holdings(made.shares), replace(ask, count=then, slots=then)
    began, more = sum(has.values()), dict[str, int]()
    if then > began and before:
        # The last block takes what it has room for, the rest is divided beside what is held.
        last = max(before, key=lambda name: before[name].stop)
        growth = min(oracle.room(ask, last), then - began)
        oracle.taken[last] += growth
        kept = {name: copies + growth * (name == last) for name, copies in has.items()}
        beside = oracle.place(ask, tuple(Holding(name, n, n, 1) for name, n in kept.items()))
        if beside is None:
            return
        more = {name: n - has.get(name, 0) for name, n in beside.items()}
    ledger = opened(ask, held).open(snapshot)
    again = engine.decide(ask, held, snapshot, ledger, seq=21, blocks=made.blocks, by_name=True)
    assert {name: shards.normal(own) for name, own in _ranges(again).items()} == rules.ordinals(
        then, before, {name: n for name, n in more.items() if n > 0}
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_shard_of_an_exclusive_job_set_is_given_away_while_it_may_run(seed: int) -> None:
    rng = Random(seed)
    snapshot, policy = fleet_of(rng, quota=False), policy_of(rng)
    mine, others = rng.randint(1, 4), rng.randint(1, 4)
    held = (
        Holding("a", mine, mine, 1, ((0, mine - 1),)),
        Holding("b", others, others, 2, ((mine, mine + others - 1),)),
    )
    count = mine + others + 1
    ask = replace(jobs(count, count, policy=policy, shape=POD), exclusive=True, overlaps=False)
    made = engine.decide(ask, held, snapshot, opened(ask, held).open(snapshot), seq=3)
    has = [(share.cluster, share.ranges) for share in made.shares] + [*made.may_run.items()]
    for holding in held:
        mine_ = {each for low, high in holding.ranges for each in range(low, high + 1)}
        where = {
            name
            for name, ranges in has
            if any(each in mine_ for low, high in ranges for each in range(low, high + 1))
        }
        if holding.cluster in snapshot.clusters:
            assert where == {holding.cluster}
