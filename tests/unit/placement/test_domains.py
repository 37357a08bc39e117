"""The domains of spread rules (docs/reference/spread.md, row by row), and the order of objectives
where they meet.
"""

import dataclasses
from typing import Any

import pytest

from federator.model.decision import Decision, Reason
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot, NodeRow
from federator.model.kubernetes.taints import Effect, Taint
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from tests.unit.placement.fleets import (
    cluster,
    counts,
    decide,
    fleet,
    held,
    holdings,
    jobs,
    service,
)

AVOIDED = (Taint("spot", "y", Effect.PREFER_NO_SCHEDULE),)


def zoned(**rooms: int) -> FleetSnapshot:
    """One cluster in each zone."""
    return fleet(*(in_zone(name, room) for name, room in rooms.items()))


def in_zone(name: str, room: int, zone: str = "", **more: Any) -> ClusterView:
    return cluster(name, room, labels={"zone": zone or f"z-{name}", "region": "r"}, **more)


def hard(
    skew: int = 1, *, domains: int = 1, strategy: Strategy = Strategy.CAPACITY, **division: object
) -> Policy:
    rules = (SpreadRule("zone", domains, skew, hard=True),)
    return Policy(spread=rules, division=Division(strategy, **division))  # type: ignore[arg-type]


def soft(**division: object) -> Policy:
    return Policy(spread=(SpreadRule("zone", 1, 1),), division=Division(**division))  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", [Strategy.CAPACITY, Strategy.PACK, Strategy.SPREAD])
def test_a_cluster_left_out_by_max_clusters_makes_a_domain(strategy: Strategy) -> None:
    decision = decide(
        service(30, policy=hard(strategy=strategy, max_clusters=1)), zoned(a=50, b=50, c=50)
    )
    assert sum(counts(decision).values()) == 1
    assert (decision.shortfall, decision.reason) == (29, Reason.SPREAD_UNSATISFIABLE)
    assert decision.violations == ()


def test_a_cluster_left_out_by_min_per_cluster_makes_a_domain() -> None:
    decision = decide(service(9, policy=hard(min_per_cluster=5)), zoned(a=50, b=50))
    assert (counts(decision), decision.shortfall) == ({}, 9)
    assert counts(decide(service(10, policy=hard(min_per_cluster=5)), zoned(a=50, b=50))) == {
        "a": 5,
        "b": 5,
    }


def test_floors_are_filled_together_when_one_alone_would_break_the_rule() -> None:
    snapshot = fleet(
        *(in_zone(name, 5, zone) for name, zone in (("a1", "z1"), ("a2", "z1"), ("b1", "z2")))
    )
    rules = (SpreadRule("region", 1, 1, hard=True), SpreadRule("zone", 1, 4))
    under = Policy(spread=rules, division=Division(min_per_cluster=5))
    assert counts(decide(service(15, policy=under), snapshot)) == {"a1": 5, "a2": 5, "b1": 5}


WEIGHTS = (Weight(1, names=("a", "b")),)


def test_a_weightless_cluster_makes_no_domain() -> None:
    decision = decide(
        service(20, policy=hard(strategy=Strategy.WEIGHTED, weights=WEIGHTS)),
        zoned(a=50, b=50, c=50),
    )
    assert counts(decision) == {"a": 10, "b": 10}


def test_a_job_set_gets_the_same_answer_twice() -> None:
    ask = jobs(20, 20, policy=hard(strategy=Strategy.WEIGHTED, weights=WEIGHTS))
    first = decide(ask, zoned(a=50, b=50, c=50))
    assert {share.cluster: share.slots for share in first.shares} == {"a": 10, "b": 10}
    second = decide(
        ask, zoned(a=50, b=50, c=50), holdings(first.shares), previous_hash=first.inputs_hash
    )
    assert second.shares == first.shares


def test_a_job_set_held_back_by_a_rule_gets_the_same_answer_twice() -> None:
    ask = jobs(20, 20, policy=hard(skew=2))
    snapshot = zoned(a=50, b=50, c=1)
    first = decide(ask, snapshot)
    assert sum(share.slots for share in first.shares) == 7
    assert decide(ask, snapshot, holdings(first.shares)).shares == first.shares


def test_min_domains_keeps_back_what_it_must_and_no_more() -> None:
    weights = (Weight(1, names=("a",)),)
    under = hard(0, domains=2, strategy=Strategy.WEIGHTED, weights=weights)
    decision = decide(service(6, policy=under), zoned(a=50, b=50))
    assert (counts(decision), decision.reason) == ({"a": 1}, Reason.SPREAD_UNSATISFIABLE)


@pytest.mark.parametrize("count", [2, 3, 4, 50])
def test_one_copy_more_than_min_domains_can_hold_takes_none_away(count: int) -> None:
    decision = decide(service(count, policy=hard(0, domains=3)), zoned(a=50, b=50))
    assert counts(decision) == {"a": 1, "b": 1}


@pytest.mark.parametrize(("room", "placed"), [(0, 5), (1, 7), (2, 9), (12, 29), (13, 30)])
def test_a_full_domain_waives_nothing_and_less_room_never_places_more(
    room: int, placed: int
) -> None:
    decision = decide(service(30, policy=hard(5)), zoned(a=room, b=100))
    assert sum(counts(decision).values()) == placed


@pytest.mark.parametrize("closed", [{"cordoned": True}, {"ready": False}, {"removing": True}])
def test_a_closed_cluster_makes_no_domain(closed: dict[str, Any]) -> None:
    snapshot = fleet(in_zone("a", 50), in_zone("b", 50), in_zone("c", 50, **closed))
    assert counts(decide(service(20, policy=hard()), snapshot)) == {"a": 10, "b": 10}


def test_a_closed_cluster_that_holds_copies_makes_a_domain() -> None:
    snapshot = fleet(in_zone("a", 50), in_zone("b", 50), in_zone("c", 50, cordoned=True))
    decision = decide(service(20, policy=hard(2)), snapshot, held(c=3))
    assert counts(decision) == {"a": 5, "b": 5, "c": 3}


def test_one_domain_alone_has_no_skew() -> None:
    assert counts(decide(service(20, policy=hard()), zoned(a=50))) == {"a": 20}


def test_a_minimum_above_the_skew_is_met_where_all_domains_can_have_it() -> None:
    decision = decide(service(21, policy=hard(min_per_cluster=7)), zoned(a=50, b=50, c=9))
    assert counts(decision) == {"a": 7, "b": 7, "c": 7}


def test_other_clusters_are_taken_when_those_that_score_better_keep_no_hard_rule() -> None:
    snapshot = fleet(in_zone("a", 90, "z1"), in_zone("b", 80, "z1"), in_zone("c", 20, "z2"))
    decision = decide(service(40, policy=hard(min_per_cluster=10, max_clusters=2)), snapshot)
    assert counts(decision) == {"a": 20, "c": 20} or counts(decision) == {"b": 20, "c": 20}


def test_so_they_are_where_there_are_too_many_sets_of_clusters_to_try_all() -> None:
    more = (in_zone(f"n{number}", 70, "z1") for number in range(12))
    snapshot = fleet(in_zone("a", 90, "z1"), *more, in_zone("c", 20, "z2"))
    decision = decide(service(40, policy=hard(min_per_cluster=10, max_clusters=2)), snapshot)
    assert counts(decision) == {"a": 20, "c": 20}


def small_and_avoided() -> FleetSnapshot:
    return fleet(cluster("big", 100, taints=AVOIDED), cluster("small", 1))


def test_an_avoided_taint_costs_no_placement() -> None:
    one = Policy(division=Division(max_clusters=1))
    assert counts(decide(service(50, policy=one), small_and_avoided())) == {"big": 50}
    assert counts(decide(service(1, policy=one), small_and_avoided())) == {"small": 1}


@pytest.mark.parametrize("floor", [0, 1])
def test_the_order_of_groups_costs_no_placement(floor: int) -> None:
    groups = (Group("a", names=("small",)), Group("b", names=("big",)))
    one = Policy(division=Division(max_clusters=1, groups=groups, min_per_cluster=floor))
    snapshot = fleet(cluster("big", 100), cluster("small", 1))
    assert counts(decide(service(50, policy=one), snapshot)) == {"big": 50}
    assert counts(decide(service(1, policy=one), snapshot)) == {"small": 1}


def two_zones() -> FleetSnapshot:
    return fleet(in_zone("a", 100, "z1"), in_zone("b", 100, "z1"), in_zone("c", 1, "z2"))


def test_a_soft_rule_costs_no_placement_and_is_kept_where_it_costs_none() -> None:
    assert counts(decide(service(200, policy=soft(max_clusters=2)), two_zones())) == {
        "a": 100,
        "b": 100,
    }
    assert set(counts(decide(service(90, policy=soft(max_clusters=2)), two_zones()))) in (
        {"a", "c"},
        {"b", "c"},
    )


def test_all_or_nothing_takes_the_set_of_clusters_that_holds_all() -> None:
    gang = dataclasses.replace(soft(max_clusters=2), require_all=True)
    snapshot = fleet(in_zone("a", 60, "z1"), in_zone("b", 60, "z1"), in_zone("c", 1, "z2"))
    decision = decide(service(110, policy=gang), snapshot)
    assert (sum(counts(decision).values()), set(counts(decision))) == (110, {"a", "b"})


def test_what_is_held_costs_no_placement() -> None:
    one = Policy(division=Division(max_clusters=1))
    snapshot = fleet(cluster("big", 100), cluster("small", 0))
    assert counts(decide(service(50, policy=one), snapshot, held(small=3))) == {"big": 50}
    assert counts(decide(service(3, policy=one), snapshot, held(small=3))) == {"small": 3}


def test_all_or_nothing_moves_nobody_for_a_part() -> None:
    gang = Policy(division=Division(max_clusters=1), require_all=True)
    snapshot = fleet(cluster("big", 100), cluster("small", 0))
    decision = decide(service(500, policy=gang), snapshot, held(small=3))
    assert (counts(decision), decision.reason) == ({"small": 3}, Reason.AT_MAXIMUM)


def test_floors_are_filled_from_what_is_held_above_them() -> None:
    floors = Policy(division=Division(min_per_cluster=5))
    decision = decide(
        service(10, policy=floors), fleet(cluster("a", 0), cluster("b", 50)), held(a=8)
    )
    assert counts(decision) == {"a": 5, "b": 5}


def ordered(strategy: Strategy) -> Policy:
    groups = (Group("own", names=("onprem", "second")), Group("cloud", names=("cloud",)))
    return Policy(division=Division(strategy, groups=groups))


@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.CAPACITY])
def test_growth_goes_to_the_earlier_group_although_a_later_one_holds(strategy: Strategy) -> None:
    snapshot = fleet(cluster("onprem", 100), cluster("cloud", 70))
    assert counts(decide(service(50, policy=ordered(strategy)), snapshot, held(cloud=30))) == {
        "onprem": 20,
        "cloud": 30,
    }


def test_pack_overflows_group_by_group_with_the_fewest_clusters_in_each() -> None:
    snapshot = fleet(cluster("onprem", 10), cluster("second", 10), cluster("cloud", 100))
    packed = ordered(Strategy.PACK)
    assert len(counts(decide(service(8, policy=packed), snapshot))) == 1
    assert counts(decide(service(25, policy=packed), snapshot)) == {
        "onprem": 10,
        "second": 10,
        "cloud": 5,
    }


def with_node(**allocatable: int) -> ClusterView:
    stated = Resources(allocatable)
    podless = allocatable.get("pods") == 0
    return cluster("a", 0, capacity=Capacity(rows=(NodeRow(1, stated, stated, podless=podless),)))


@pytest.mark.parametrize(
    ("node", "placed"),
    [
        ({"cpu": 8000, "pods": 0}, 0),
        ({"cpu": 8000, "pods": 2}, 2),
        ({"cpu": 8000}, 3),  # pods not named: not limited
        ({"cpu": 0, "pods": 9}, 0),
        ({"pods": 9}, 0),  # a resource that a node does not name it does not have
    ],
)
def test_a_stated_zero_is_a_limit(node: dict[str, int], placed: int) -> None:
    assert sum(counts(decide(service(3), fleet(with_node(**node)))).values()) == placed


def used(decision: Decision) -> int:
    return len(counts(decision))


def test_shrinking_keeps_min_domains() -> None:
    weights = (Weight(90, names=("a",)), Weight(1, names=("b",)))
    under = hard(0, domains=2, strategy=Strategy.WEIGHTED, weights=weights)
    assert used(decide(service(2, policy=under), zoned(a=100, b=100), held(a=20, b=2))) == 2
