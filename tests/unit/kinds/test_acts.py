"""The table of kinds and acts, cell by cell: what the engine does is what it says."""

from dataclasses import replace
from typing import Any

import pytest

from federator.kinds import acts, asks, registry
from federator.kinds.acts import Act, Outcome
from federator.model.ask import Ask, Policy, Unit
from federator.model.decision import Decision
from federator.model.fleet import ClusterView, Holding
from federator.model.kubernetes.taints import Taint
from federator.model.seq import above
from federator.placement import everynode, ordinals
from federator.scheduling import editing
from tests.unit.api.test_verbs import OBJECTS
from tests.unit.placement.fleets import cluster, commitment, commitments_with, fleet

KINDS = sorted(registry.WORKLOADS)
AFTER_S = 300.0
LOST = Taint("federation.pinterest.com/unreachable", "", "NoExecute")


def asked(kind: str, policy: Policy) -> Ask:
    verbs = registry.verbs_of(kind)
    ask = asks.ask(OBJECTS[kind], verbs, policy, created_s=1.0)
    if verbs.every_node:
        policy = everynode.policy_of(policy)
    elif verbs.ordinals is not None:
        policy = ordinals.policy_of(policy)
    return replace(ask, policy=policy, suspended=False)


def decide(ask: Ask, *views: ClusterView, held: tuple[Holding, ...] = ()) -> Decision:
    snapshot = fleet(*views)
    ledger = commitments_with(*([commitment(ask, held)] if held else [])).open(snapshot)
    return editing.decide(ask, held, snapshot, ledger, seq=above(1, 1))


def begun(kind: str, ask: Ask) -> tuple[Holding, ...]:
    made = decide(ask, cluster("a", 500, nodes=4))
    return tuple(
        Holding(one.cluster, one.count, one.slots, one.seq, one.ranges, nodes=one.nodes)
        for one in made.shares
    )


def outcome(ask: Ask, held: tuple[Holding, ...], made: Decision) -> Outcome:
    before = {one.cluster: one.count for one in held}
    now = {one.cluster: one.count for one in made.shares}
    assert before.keys() == {"a"}
    if now.get("a") == before["a"]:
        return Outcome.STAYS
    assert "a" not in now
    if ask.shape.every_node:
        return Outcome.LEAVES
    assert sum(now.values()) == before["a"]
    return Outcome.MOVES_WHOLE if ask.unit is Unit.SHARDS else Outcome.MOVES


GONE: dict[Act, dict[str, Any]] = {
    Act.DRAIN: {"draining": True},
    Act.DECLARED_DEAD: {"dead": True, "ready": False, "taints": (LOST,)},
    Act.REBALANCE: {"labels": {"pool": "old"}},
}


@pytest.mark.parametrize("act", GONE)
@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_does_what_the_table_says(kind: str, act: Act) -> None:
    policy = Policy()
    if act is Act.REBALANCE:
        policy = Policy(names=("b",))
    ask = asked(kind, Policy())
    held = begun(kind, ask)
    made = decide(
        asked(kind, policy),
        cluster("a", 1000, nodes=4, **GONE[act]),
        cluster("b", 1000, nodes=4),
        held=held,
    )
    assert outcome(ask, held, made) is acts.ACTS[act](registry.verbs_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_only_kinds_that_may_overlap_fail_over(kind: str) -> None:
    verbs = registry.verbs_of(kind)
    moves = acts.ACTS[Act.FAILOVER](verbs) is not Outcome.STAYS
    assert moves == verbs.overlaps == asked(kind, Policy()).overlaps


@pytest.mark.parametrize("kind", KINDS)
def test_roll_outs_are_bounded_as_the_table_says(kind: str) -> None:
    said = acts.ACTS[Act.ROLL_OUT](registry.verbs_of(kind))
    bound = asked(kind, Policy()).policy.max_clusters_at_once
    assert (said is Outcome.IN_TURN) == (bound == 1)
    assert (said is Outcome.NEVER) == (registry.verbs_of(kind).unit is Unit.SHARDS)


def test_every_act_has_a_meaning_and_every_cell_a_sentence() -> None:
    assert acts.ACTS.keys() == acts.MEANING.keys() == set(Act)
