"""The arithmetic of a decision; nothing is charged."""

from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.model.scaleup import NodeClass, ScaleUp
from federator.placement import explain
from federator.placement.quota.domain_usage import Ceiling
from federator.placement.room.commitments import Commitments
from tests.unit.placement.fleets import cluster, decide, fleet, service


def test_the_arithmetic_shows_weight_room_and_what_each_cluster_gets() -> None:
    snapshot, commitments = fleet(cluster("a", 10), cluster("b", 20)), Commitments()
    found = explain.explain(service(6), (), snapshot, commitments, decide(service(6), snapshot))
    assert [(row.cluster, row.weight, row.room, row.got) for row in found.rows] == [
        ("a", 10, 10, 2),
        ("b", 20, 20, 4),
    ]
    assert found.arithmetic[0].startswith("strategy Capacity: 6 wanted over 2 clusters")
    assert len(commitments) == 0


def test_a_full_cluster_says_what_its_nodes_lack() -> None:
    snapshot = fleet(cluster("a", 0), cluster("b", 2, usable_permille=0), cluster("c", 2))
    found = explain.explain(service(6), (), snapshot, Commitments(), decide(service(6), snapshot))
    lacks = {row.cluster: row.lacks for row in found.rows}
    assert lacks["a"].startswith("no node has enough cpu (most on one node 0, a copy asks for 1)")
    assert lacks["b"] == "spec.usable 0% leaves too little cpu, pods"
    assert lacks["c"] == ""
    assert found.rows[0].largest == Resources({"pods": 10_000})


def test_what_a_domain_leaves_a_cluster_is_the_most_that_it_may_have() -> None:
    snapshot = fleet(cluster("a", 10), cluster("b", 20))
    ceilings = {"b": Ceiling(1, "feed allows 1 cpu in west (spec.domains)")}
    found = explain.explain(
        service(6), (), snapshot, Commitments(), decide(service(6), snapshot), ceilings=ceilings
    )
    assert [row.cap for row in found.rows] == [10, 1]
    first, second = found.arithmetic[1:]
    assert "at most 10, gets" in first
    assert "at most 1 (spec.domains), gets" in second


def test_room_that_a_cluster_can_make_is_shown_apart_from_free_room() -> None:
    node = NodeClass("m6i", Resources({"cpu": 4000, "pods": 9}), 2, 5)
    snapshot = fleet(cluster("a", 2, scale_up=(node,)), cluster("b", 3))
    for scale_up, after, cap in ((ScaleUp.WHEN_SHORT, 8, 10), (ScaleUp.NEVER, 0, 2)):
        ask = service(9, policy=Policy(name="p", scale_up=scale_up))
        found = explain.explain(ask, (), snapshot, Commitments(), decide(ask, snapshot))
        assert [(row.room, row.after, row.cap) for row in found.rows] == [
            (2, after, cap),
            (3, 0, 3),
        ]
    shown = explain.explain(
        service(9), (), snapshot, Commitments(), decide(service(9), snapshot)
    ).arithmetic[1]
    assert "room for 2 now and 8 on nodes that it can add, at most 10, gets 6" in shown
