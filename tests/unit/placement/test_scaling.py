"""What `decide` does with nodes that clusters can add."""

from dataclasses import replace
from typing import Any

import pytest

from federator.model.ask import Component, PodShape
from federator.model.decision import Decision, Reason
from federator.model.fleet import Capacity, ClusterView, Commitment, FleetSnapshot, NodeRow
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Division, Policy, Strategy
from federator.model.resources import Resources
from federator.model.scaleup import Addition, NodeClass, ScaleUp
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from tests.unit.placement.fleets import (
    POD,
    cluster,
    counts,
    decide,
    fleet,
    held,
    jobs,
    service,
)

NODE = NodeClass("m6i", Resources({"cpu": 4000, "pods": 110}), 3, 5, 500_000)


def grows(name: str, copies: int, *classes: NodeClass, **more: Any) -> ClusterView:
    return cluster(name, copies, scale_up=classes or (NODE,), **more)


def policy(scale_up: ScaleUp, **more: Any) -> Policy:
    return Policy(name="p", origin="match", scale_up=scale_up, **more)


def test_free_room_is_used_before_a_node_is_added() -> None:
    decision = decide(service(10), fleet(grows("a", 2), cluster("b", 8)))
    assert counts(decision) == {"a": 2, "b": 8}
    assert decision.additions == ()


def test_copies_without_free_room_wait_for_nodes() -> None:
    decision = decide(service(15), fleet(grows("a", 2), cluster("b", 8)))
    assert counts(decision) == {"a": 7, "b": 8}
    assert decision.additions == (Addition("a", "m6i", 2, 5, 5, 1_000_000),)
    assert (decision.shortfall, decision.reason) == (0, Reason.CHOSEN)
    assert decision.message == (
        "all 15 copies are placed; 5 of them wait in a for 2 more nodes of m6i,"
        " in about 5 minutes, at 1 an hour"
    )
    (said, _) = decision.verdicts
    assert said.message.endswith(
        "; 2 fit now, 5 after 2 more nodes of m6i, in about 5 minutes, at 1 an hour"
    )


def test_a_cluster_without_free_room_gets_copies_on_its_nodes_to_be() -> None:
    decision = decide(service(5), fleet(grows("a", 0)))
    assert counts(decision) == {"a": 5}
    assert [added.nodes for added in decision.additions] == [2]


def test_no_more_nodes_are_promised_than_the_class_has() -> None:
    decision = decide(service(50), fleet(grows("a", 2)))
    assert counts(decision) == {"a": 14}
    assert (decision.shortfall, decision.reason) == (36, Reason.INSUFFICIENT_CAPACITY)
    assert [(added.nodes, added.copies) for added in decision.additions] == [(3, 12)]


def test_nodes_that_exist_count_towards_the_most() -> None:
    report = Capacity(
        rows=(NodeRow(2, NODE.allocatable, Resources()),), machines={"m6i": 2, "other": 9}
    )
    decision = decide(service(50), fleet(grows("a", 0, capacity=report)))
    assert counts(decision) == {"a": 4}


def test_never_uses_free_room_only_and_says_so() -> None:
    ask = service(15, policy=policy(ScaleUp.NEVER))
    decision = decide(ask, fleet(grows("a", 2), cluster("b", 8)))
    assert counts(decision) == {"a": 2, "b": 8}
    assert decision.additions == ()
    none = decide(ask, fleet(grows("a", 0)))
    assert none.verdicts[0].message == (
        "cluster a has no node with room for one copy (cpu 1, pods 1);"
        " spec.scaleUp of policy p is Never, so it adds no node for them"
    )


def test_prefer_counts_nodes_to_be_like_free_room() -> None:
    decision = decide(
        service(10, policy=policy(ScaleUp.PREFER)), fleet(grows("a", 2), cluster("b", 6))
    )
    assert counts(decision) == {"a": 7, "b": 3}
    assert [(added.nodes, added.copies) for added in decision.additions] == [(2, 5)]


@pytest.mark.parametrize(
    ("node_class", "why"),
    [
        (
            replace(NODE, allocatable=Resources({"cpu": 500, "pods": 9})),
            "a node of m6i is too small",
        ),
        (replace(NODE, most=0), "m6i is at its most, 0 nodes"),
        (
            replace(NODE, taints=(Taint("gpu"),)),
            "m6i has a taint or labels that the pods do not match",
        ),
    ],
)
def test_what_no_node_to_be_holds_never_fits(node_class: NodeClass, why: str) -> None:
    decision = decide(service(1), fleet(grows("a", 0, node_class)))
    assert decision.reason is Reason.INSUFFICIENT_CAPACITY
    assert decision.verdicts[0].message == (
        "cluster a has no node with room for one copy (cpu 1, pods 1),"
        f" and none that it can add: {why}"
    )


def test_selector_and_tolerations_are_compared_with_the_class() -> None:
    tainted = replace(NODE, taints=(Taint("gpu"),), labels=(("pool", "gpu"),))
    shape = replace(
        POD,
        node_selector='{"nodeSelector":{"pool":"gpu"}}',
        tolerations=(Toleration(key="gpu", operator="Exists"),),
    )
    report = Capacity(copies={shape.id: 0})
    snapshot = fleet(grows("a", 0, tainted, capacity=report))
    assert counts(decide(service(5, shape=shape), snapshot)) == {"a": 5}
    other = replace(shape, node_selector='{"nodeSelector":{"pool":"cpu"}}')
    report = Capacity(copies={other.id: 0})
    snapshot = fleet(grows("a", 0, tainted, capacity=report))
    assert counts(decide(service(5, shape=other), snapshot)) == {}


def test_one_batch_promises_no_node_twice() -> None:
    snapshot = fleet(grows("a", 0))
    ledger = Commitments().open(snapshot)
    first = decide(service(9, name="one"), snapshot, ledger=ledger)
    second = decide(service(9, name="two"), snapshot, ledger=ledger)
    assert [added.nodes for added in first.additions] == [3]
    # 9 copies leave 3 places on the third node.
    assert counts(second) == {"a": 3}
    assert [(added.nodes, added.copies) for added in second.additions] == [(0, 3)]


def test_a_decision_in_flight_keeps_its_nodes_until_the_report_includes_it() -> None:
    snapshot = fleet(grows("a", 0))
    commitments = Commitments()
    assumed(commitments, snapshot, "one", 9, seq=7)
    assert counts(decide(service(9, name="two"), snapshot, ledger=commitments.open(snapshot))) == {
        "a": 3
    }
    # The report includes it: its pods wait there, and are not promised twice.
    now = Capacity(includes_seq=7, waiting=((POD, 9),))
    reported = fleet(grows("a", 0, capacity=now))
    commitments.confirm("a", "uid-one", 7)
    commitments.reported("a", 7)
    ledger = commitments.open(reported)
    assert counts(decide(service(9, name="two"), reported, ledger=ledger)) == {"a": 3}
    # The nodes are there: what they have free is room, and none can be added.
    row = NodeRow(1, NODE.allocatable, Resources({"cpu": 3000, "pods": 109}))
    there = fleet(grows("a", 0, capacity=Capacity((row,), machines={"m6i": 3}, includes_seq=7)))
    ledger = commitments.open(there)
    second = decide(service(9, name="two"), there, ledger=ledger)
    assert (counts(second), second.additions) == ({"a": 3}, ())


def assumed(
    commitments: Commitments, snapshot: FleetSnapshot, name: str, count: int, *, seq: int
) -> Decision:
    """A decision that counts from now on."""
    ask = service(count, name=name)
    decision = decide(ask, snapshot, ledger=commitments.open(snapshot), seq=seq)
    commitments.assume(Commitment.of(ask, decision.shares))
    return decision


def test_what_is_taken_back_can_be_promised_again() -> None:
    snapshot = fleet(grows("a", 1))
    ledger = Commitments().open(snapshot)
    mark = ledger.mark()
    before = ledger.growth and dict(ledger.growth.state())
    decide(service(9, name="one"), snapshot, ledger=ledger)
    assert ledger.growth is not None
    assert ledger.growth.state() != before
    ledger.rollback(mark)
    assert ledger.growth.state() == before
    assert counts(decide(service(13, name="two"), snapshot, ledger=ledger)) == {"a": 13}


def test_the_cheapest_class_that_holds_a_copy_is_promised_first() -> None:
    dear = replace(NODE, name="dear", price=900_000)
    unknown = replace(NODE, name="any", price=None)
    small = replace(NODE, name="small", price=1, allocatable=Resources({"cpu": 1, "pods": 9}))
    decision = decide(service(17), fleet(grows("a", 0, dear, unknown, small, NODE)))
    assert [(added.node_class, added.nodes) for added in decision.additions] == [
        ("dear", 2),
        ("m6i", 3),
    ]


def test_usable_holds_on_nodes_to_be_too() -> None:
    decision = decide(service(50), fleet(grows("a", 0, usable_permille=500)))
    assert counts(decision) == {"a": 6}


def test_a_cluster_with_room_that_it_may_not_use_adds_no_node() -> None:
    """No pod would wait there: its scheduler binds them on the nodes that are kept free."""
    assert counts(decide(service(9), fleet(grows("a", 4, usable_permille=500)))) == {"a": 2}


def test_running_copies_stay_and_only_growth_waits_for_nodes() -> None:
    now = Capacity(includes_seq=5)
    decision = decide(
        service(6), fleet(grows("a", 0, capacity=now), cluster("b", 0)), held(a=2, b=2)
    )
    assert counts(decision) == {"a": 4, "b": 2}
    assert [(added.nodes, added.copies) for added in decision.additions] == [(1, 2)]
    assert [share.seq for share in decision.shares] == [100, 1]


def test_copies_of_a_drained_cluster_get_nodes_elsewhere() -> None:
    snapshot = fleet(grows("a", 0), cluster("b", 9, removing=True))
    decision = decide(service(5), snapshot, held(b=5))
    assert counts(decision) == {"a": 5}
    assert decision.held == 0


def test_a_cap_of_its_scheduler_holds_for_nodes_to_be() -> None:
    snapshot = fleet(grows("a", 0), cluster("b", 2))
    assert counts(decide(service(9), snapshot, held(a=9), capped={"a": 1})) == {"a": 7, "b": 2}
    snapshot = fleet(grows("a", 0), cluster("b", 9))
    assert counts(decide(service(9), snapshot, held(a=9), capped={"a": 1})) == {"a": 1, "b": 8}


def test_shards_wait_for_nodes_as_copies_do() -> None:
    decision = decide(jobs(20, 10), fleet(grows("a", 2), cluster("b", 3)))
    assert sum(share.slots for share in decision.shares) == 10
    assert [(added.nodes, added.copies) for added in decision.additions] == [(2, 5)]


def test_a_gang_is_placed_where_free_room_and_nodes_to_be_hold_all_of_it() -> None:
    gang = PodShape.together([Component("w", POD, 6, 6)])
    decision = decide(jobs(1, 1, shape=gang), fleet(grows("a", 3), cluster("b", 5)))
    assert counts(decision) == {"a": 1}
    assert [(added.nodes, added.copies) for added in decision.additions] == [(1, 3)]
    assert counts(decide(jobs(1, 1, shape=gang), fleet(grows("a", 3), cluster("b", 6)))) == {"b": 1}


def test_all_or_none_counts_nodes_to_be() -> None:
    whole = policy(ScaleUp.WHEN_SHORT, require_all=True)
    snapshot = fleet(grows("a", 2), cluster("b", 3))
    assert counts(decide(service(17, policy=whole), snapshot)) == {"a": 14, "b": 3}
    assert counts(decide(service(18, policy=whole), snapshot)) == {}


def test_every_strategy_fills_free_room_first() -> None:
    for strategy in (Strategy.PACK, Strategy.SPREAD, Strategy.WEIGHTED):
        chosen = policy(ScaleUp.WHEN_SHORT, division=Division(strategy))
        decision = decide(service(12, policy=chosen), fleet(grows("a", 2), cluster("b", 8)))
        assert counts(decision) == {"a": 4, "b": 8}


def test_a_fleet_that_states_no_scale_up_reads_the_policy_nowhere() -> None:
    snapshot = fleet(cluster("a", 2), cluster("b", 3))
    decisions = [
        decide(service(9, policy=policy(scale_up)), snapshot)
        for scale_up in (ScaleUp.WHEN_SHORT, ScaleUp.PREFER, ScaleUp.NEVER)
    ]
    first, *others = (replace(each, inputs_hash="") for each in decisions)
    assert others == [first, first]


def test_the_engine_is_asked_with_a_ledger_that_has_charged_nothing_yet() -> None:
    snapshot = fleet(grows("a", 0))
    ledger = Commitments().open(snapshot)
    decision = engine.decide(service(4), (), snapshot, ledger, seq=1)
    assert ledger.room("a", POD) == 0
    assert counts(decision) == {"a": 4}
