"""Explanations: the arithmetic, and the smallest changes that would place what is missing; nothing is charged."""

from dataclasses import replace

from federator.model.ask import Division, PodShape, Policy, SpreadRule, Tier
from federator.model.fleet import QuotaAccount, TierQuota
from federator.model.resources import Resources
from federator.model.taints import Taint
from federator.placement import explain
from federator.placement.books import Books
from federator.placement.explain import Explanation
from tests.unit.placement.fleets import cluster, fleet, jobs, service


def fields(found: Explanation) -> dict[str, str]:
    return {one.field: one.message for one in found.remedies}


def test_a_placed_workload_needs_no_remedy_and_shows_its_arithmetic() -> None:
    found = explain.explain(service(6), (), fleet(cluster("a", 10), cluster("b", 20)), Books())
    assert (found.missing, found.remedies) == (0, ())
    assert [(row.cluster, row.weight, row.room, row.got) for row in found.rows] == [("a", 10, 10, 2), ("b", 20, 20, 4)]
    assert found.arithmetic[0].startswith("strategy Capacity: 6 wanted over 2 clusters")


def test_closed_clusters_are_offered_with_what_they_would_add() -> None:
    snapshot = fleet(
        cluster("a", 4),
        cluster("b", 3, cordoned=True),
        cluster("c", 9, ready=False),
        cluster("d", 2, taints=(Taint("gpu", "only", "NoSchedule"),)),
    )
    found = explain.explain(service(10), (), snapshot, Books())
    messages = [one.message for one in found.remedies]
    assert messages[0] == "c becomes ready (+6)"
    assert "uncordon b (+3)" in messages
    assert "tolerate gpu=only:NoSchedule of d (+2)" in messages
    assert [one.gains for one in found.remedies] == sorted((one.gains for one in found.remedies), reverse=True)


def test_the_quota_is_raised_by_just_what_is_missing() -> None:
    tiers = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 4000}))}
    account = QuotaAccount("feed", projects=frozenset({"feed"}), tiers=tiers, max_priority=5)
    found = explain.explain(service(10, priority=7), (), fleet(cluster("a", 10), quotas=[account]), Books())
    assert fields(found) == {
        "FederatedQuota feed": "FederatedQuota feed: maxPriority 5 -> 7, tiers.OnDemand.max.cpu 4 -> 10 (+10)"
    }


def test_the_smallest_bound_of_the_policy_that_suffices_is_named() -> None:
    policy = Policy(division=Division(max_per_cluster=3))
    found = explain.explain(service(10, policy=policy), (), fleet(cluster("a", 9), cluster("b", 9)), Books())
    assert fields(found)["spec.division.maxPerCluster"] == "maxPerCluster 3 -> 5 (+4)"


def test_looser_rules_are_offered_only_where_they_gain() -> None:
    policy = Policy(
        spread=(SpreadRule("zone", 1, 1, hard=True),), require_all=True, division=Division(min_per_cluster=2)
    )
    snapshot = fleet(cluster("a", 9, labels={"zone": "z1"}), cluster("b", 3, labels={"zone": "z2"}))
    found = explain.explain(service(10, policy=policy), (), snapshot, Books())
    assert set(fields(found)) >= {"spec.spread", "spec.partial"}
    assert "spec.division.minPerCluster" not in fields(found)


def test_a_smaller_request_is_offered_as_large_as_possible() -> None:
    shape = PodShape(Resources({"cpu": 1000, "memory": 1 << 30, "pods": 1}))
    room = Resources({"cpu": 8000, "memory": 1 << 40, "pods": 100})
    view = cluster("a", 1)
    assert view.capacity is not None
    row = view.capacity.rows[0]
    roomy = replace(view, capacity=replace(view.capacity, rows=(replace(row, allocatable=room, free=room),)))
    found = explain.explain(service(10, shape=shape), (), fleet(roomy), Books())
    assert set(fields(found)) == {"requests.cpu"}
    assert "cpu request 1 -> 79" in fields(found)["requests.cpu"]


def test_missing_slots_of_a_job_set_are_explained_too() -> None:
    found = explain.explain(jobs(40, 10), (), fleet(cluster("a", 4), cluster("b", 8, cordoned=True)), Books())
    assert found.missing == 6
    assert fields(found)["MemberCluster.spec.cordoned"] == "uncordon b (+6)"


def test_explaining_charges_nothing_and_is_bounded() -> None:
    books = Books()
    snapshot = fleet(*(cluster(f"c{i:02}", 1, cordoned=i % 2 == 0) for i in range(60)))
    first = explain.explain(service(90), (), snapshot, books)
    assert first == explain.explain(service(90), (), snapshot, books)
    assert len(books) == 0
    assert len([one for one in first.remedies if "uncordon" in one.message]) <= explain.MAX_CLUSTERS_TRIED


def test_a_contradiction_or_a_suspension_has_no_remedy() -> None:
    broken = Policy(division=Division(min_per_cluster=5, max_per_cluster=2))
    assert explain.explain(service(9, policy=broken), (), fleet(cluster("a", 1)), Books()).remedies == ()
    assert explain.explain(service(9, suspended=True), (), fleet(cluster("a", 1)), Books()).remedies == ()
