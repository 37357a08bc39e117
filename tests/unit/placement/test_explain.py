"""The arithmetic of a decision; nothing is charged."""

from federator.model.resources import Resources
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
