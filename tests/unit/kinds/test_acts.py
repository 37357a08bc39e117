"""The table of kinds and acts, cell by cell: what the engine does is what it says."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from federator.kinds import asks, registry
from federator.model.accounts import Preemption, QuotaAccount, Take, TierQuota
from federator.model.ask import Ask, Unit
from federator.model.decision import TAKES, Decision, Reason, Share
from federator.model.fleet import ClusterView, Commitment, Holding, copies_of
from federator.model.kubernetes.taints import Taint
from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.model.seq import above
from federator.placement import everynode, ordinals
from federator.scheduling import cycle, editing
from federator.scheduling.entry import Entry, Recorded, Standing
from federator.scheduling.queue import Queue
from tests.reference import acts
from tests.reference.acts import Act, Outcome
from tests.unit.api.test_verbs import OBJECTS
from tests.unit.placement.fleets import cluster, commitment, commitments_with, fleet, service

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
    elif verbs.repeats is not None:
        policy = everynode.policy_of_repeating(replace(policy, names=policy.names or ("a", "b")))
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
    if registry.verbs_of(ask.key.kind).repeats is not None:
        return Outcome.ENDS
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


def preempted(kind: str) -> tuple[Ask, tuple[Holding, ...], cycle.Cycle]:
    """A cycle in which a workload of higher priority lacks quota for one pod, and all quota is
    held.
    """
    ask = asked(kind, Policy())
    held = begun(kind, ask)
    shares = tuple(
        Share(one.cluster, one.count, one.slots, 1, one.ranges, nodes=one.nodes) for one in held
    )
    charged = Commitment.of(ask, shares)
    pods = sum(copies_of(holding) for holding in charged.holdings) * charged.shape.requests["pods"]
    account = QuotaAccount(
        "account",
        projects=frozenset({ask.project, "winner"}),
        tiers={ask.tier: TierQuota(Resources({"pods": pods}))},
        preemption=Preemption(within=Take.LOWER_PRIORITY),
    )
    winner = replace(
        service(1, name="winner"), project="winner", tier=ask.tier, priority=ask.priority + 1
    )
    loser = Entry(
        ask=ask,
        standing=Standing(held=held, recorded=Recorded(seq=1, inputs_hash="", shares=shares)),
    )
    made = cycle.run(
        [Entry(ask=winner)],
        Queue(),
        fleet(cluster("a", 1000, nodes=4), quotas=[account]),
        commitments_with(charged),
        seq=itertools.count(above(1, 1)).__next__,
        find=lambda key: loser if key == ask.key else None,
    )
    return ask, held, made


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_to_give_up_quota_does_what_the_table_says(kind: str) -> None:
    ask, held, made = preempted(kind)
    said = acts.ACTS[Act.PREEMPT](registry.verbs_of(kind))
    decisions = [decided.decision for decided in made.decided if decided.key == ask.key]
    if said is Outcome.KEEPS:
        assert not decisions
        (lacking,) = (decided.decision for decided in made.decided)
        assert TAKES not in lacking.message
        return
    (decision,) = decisions
    assert decision.reason is Reason.PREEMPTED
    before, now = (sum(map(copies_of, shares)) for shares in (held, decision.shares))
    assert now == (0 if said is Outcome.STOPS else before - 1)
    if said is Outcome.GIVES_ORDINALS:
        assert [share.ranges for share in decision.shares] == [((0, now - 1),)]


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
