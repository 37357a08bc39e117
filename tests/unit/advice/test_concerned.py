"""A plan compares only what its edits can concern: the same as when it compares everything."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from federator.advice.plans import document as documents
from federator.advice.plans import edits as editing
from federator.advice.plans import plan, settling
from federator.advice.plans.edits import Edits
from federator.advice.plans.settling import Base
from federator.hub.cache import policying
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.hub.records.feed import Op
from federator.hub.snapshot.prepared import Prepared
from federator.hub.snapshot.world import StateCopy
from federator.placement.policy.policies import Bindings
from tests.unit.cli.files import member, psvc, quota

FEDERATION = "federation.pinterest.com/v1alpha1"
SPACES = ("ads", "feed")


def rule(chance: random.Random, name: str, *, kind: str = "") -> dict[str, Any]:
    """A policy as somebody may write it."""
    kind = kind or chance.choice(("ClusterPlacementPolicy", "PlacementPolicy"))
    where = {"namespace": chance.choice(SPACES)} if kind == "PlacementPolicy" else {}
    spec: dict[str, Any] = {"clusters": {"names": sorted(chance.sample("abcd", 2))}}
    selected = chance.choice(({}, {"matchLabels": {"tier": "web"}}, {"projects": ["ads"]}))
    if selected:
        spec["workloads"] = selected
    if kind == "ClusterPlacementPolicy" and chance.random() < 0.3:
        spec["enforcement"] = "Required"
        spec["workloads"] = {"projects": ["feed"]}
    head = {"apiVersion": FEDERATION, "kind": kind}
    return {**head, "metadata": {"name": name, **where}, "spec": spec}


def workload(chance: random.Random, number: int) -> dict[str, Any]:
    space = chance.choice(SPACES)
    placement = chance.choice(
        ({}, {}, {"placement": {"policyRef": "p1"}}, {"placement": {"clusters": {"names": ["a"]}}})
    )
    made = psvc(f"w{number}", chance.randint(1, 4), cpu="500m", project=space, **placement)
    labels = chance.choice(({}, {"tier": "web"}))
    return {**made, "metadata": {**made["metadata"], "namespace": space, "labels": labels}}


def drawn(chance: random.Random) -> Situation:
    """A fleet with every workload that has room placed."""
    rules = [rule(chance, f"p{number}") for number in range(3)]
    objs = [
        *(member(name, 2, cpu="16") for name in "abcd"),
        quota("feed", OnDemand={"max": {"cpu": str(chance.randint(2, 30))}}),
        *rules,
        *(workload(chance, number) for number in range(14)),
    ]
    made = offline.read(objs, 0.0)
    decisions = [offline.as_object(ask, decision, "") for ask, decision in made.decide_all()]
    return offline.read([*objs, *decisions], 0.0)


def edits(chance: random.Random, present: Situation) -> Edits:
    policies = [which for which in present.objects if which[0].endswith("PlacementPolicy")]
    if chance.random() < 0.3:
        return Edits(deleted=(chance.choice(policies),))
    if chance.random() < 0.2:
        return Edits(lost=(chance.choice("abcd"),))
    if chance.random() < 0.3:
        return Edits(applied=(workload(chance, chance.randint(0, 20)),))
    return Edits(applied=tuple(rule(chance, f"p{each}") for each in chance.sample(range(5), 2)))


def outcome(base: Base, made: Edits) -> Mapping[Any, Any]:
    settled = settling.settle(base, editing.after(base.situation, made))
    records = settled.situation.records
    return {
        key: (record.shares, record.terms.reason, record.terms.shortfall)
        for key, record in records.items()
    }


@pytest.mark.parametrize("seed", range(40))
def test_what_is_not_compared_would_not_be_decided_otherwise(seed: int) -> None:
    chance = random.Random(seed)
    base = settling.unedited(drawn(chance))
    made = edits(chance, base.situation)

    assert outcome(base, made) == outcome(Base(base.situation, frozenset()), made)


@pytest.mark.parametrize("seed", range(40))
def test_asks_that_are_kept_are_those_of_the_policies_in_force(seed: int) -> None:
    chance = random.Random(seed)
    present = drawn(chance)

    after = editing.after(present, edits(chance, present)).situation

    bindings = Bindings(after.snapshot.quotas)
    for each in after.workloads.values():
        assert after.ask_of(each) == policying.asked(each, after.rules, bindings)


def copy_of(present: Situation) -> StateCopy:
    """The world of a snapshot worker with all of this."""
    by_name = {(record.key.namespace, record.name): record for record in present.records.values()}
    return StateCopy(
        workloads=dict(present.workloads),
        by_name=by_name,
        commitments=present.commitments,
        snapshot=present.snapshot,
        rules=present.rules,
    )


def change(chance: random.Random, world: StateCopy, other: Situation) -> None:
    """Makes a change that the hub sends to the worker."""
    what = chance.choice(("workload", "deleted", "decision", "clusters", "policies", "quotas"))
    key = chance.choice(sorted(world.workloads))
    if what == "workload" and key in other.workloads:
        world.apply((Op.WORKLOAD, key, other.workloads[key]))
    elif what == "deleted":
        world.apply((Op.WORKLOAD, key, None))
    elif what == "decision" and world.by_name:
        world.apply((Op.RECORD, chance.choice(sorted(world.by_name)), None))
    elif what == "clusters":
        views = dict(world.snapshot.clusters)
        name = chance.choice(sorted(views))
        changed = chance.choice(({"draining": True}, {"labels": {"zone": "new"}}, {"dead": True}))
        views[name] = replace(views[name], **changed)
        if chance.random() < 0.3:
            del views[name]
        world.snapshot = replace(world.snapshot, clusters=views)
    elif what == "policies":
        world.rules = other.rules
    else:
        world.snapshot = replace(world.snapshot, quotas=other.snapshot.quotas)


@pytest.mark.parametrize("seed", range(40))
def test_what_a_worker_keeps_between_plans_is_what_it_would_compute_again(seed: int) -> None:
    chance = random.Random(seed)
    world, other = copy_of(drawn(chance)), drawn(chance)
    world.prepared.update(world)

    for _ in range(6):
        change(chance, world, other)
        world.prepared.update(world)

        anew = Prepared()
        anew.update(world)
        assert world.prepared.stands == anew.stands
        kept, bindings = world.situation(()), Bindings(world.snapshot.quotas)
        for each in kept.workloads.values():
            assert kept.ask_of(each) == policying.asked(each, world.rules, bindings)


def planned(situation: Situation, made: Edits) -> dict[str, Any] | str:
    """The plan, or why there is none."""
    try:
        return documents.of(plan.plan(situation, made, losses=False))
    except editing.Unplanned as bad:
        return str(bad)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_of_a_prepared_world_is_that_of_the_same_world_unprepared(seed: int) -> None:
    chance = random.Random(seed)
    present, other = drawn(chance), drawn(chance)
    world, made = copy_of(present), edits(chance, present)
    change(chance, world, other)
    plain = world.situation((), present.objects)
    world.prepared.update(world)

    ready = world.situation((), present.objects)

    assert settling.unedited(plain).stands <= ready.stands
    assert planned(ready, made) == planned(plain, made)


def test_a_workload_whose_host_name_may_be_taken_is_always_compared() -> None:
    door: dict[str, Any] = {
        "service": {"ports": [{"port": 80}]},
        "loadBalancers": [{"port": 80, "host": "pay.example"}],
    }
    objs = [member("a", 2, cpu="16"), psvc("w1", 1, **door), psvc("w2", 1)]
    made = offline.read(objs, 0.0)
    decided = [offline.as_object(ask, decision, "") for ask, decision in made.decide_all()]
    world = copy_of(offline.read([*objs, *decided], 0.0))

    world.prepared.update(world)

    assert [key.name for key in world.prepared.stands] == ["w2"]


def test_most_of_a_fleet_is_not_compared_for_a_policy_of_a_few() -> None:
    chance = random.Random(1)
    base = settling.unedited(drawn(chance))
    named = rule(chance, "p9", kind="PlacementPolicy")
    named["spec"]["workloads"] = {"matchLabels": {"nobody": "has"}}

    edited = editing.after(base.situation, Edits(applied=(named,)))

    assert settling.unconcerned(base, edited) == base.stands
    assert len(base.stands) > 5
