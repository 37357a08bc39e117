"""`maxDomains`: which domains copies use, and that no other set of domains could hold more."""

import itertools
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy
from federator.placement import inputs
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, service


def zoned(**rooms: int) -> FleetSnapshot:
    """Clusters a1, a2, b1 ... in the zone of their first letter."""
    return fleet(*(cluster(n, room, labels={"zone": n[0]}) for n, room in rooms.items()))


def at_most(most: int, *, least: int = 1, hard: bool = True, skew: int = 0) -> SpreadRule:
    return SpreadRule("zone", least, skew, hard, most)


def under(*rules: SpreadRule, **more: Any) -> Policy:
    return Policy(spread=rules, division=Division(**more))


def zones(decision: Decision) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, copies in counts(decision).items():
        totals[name[0]] = totals.get(name[0], 0) + copies
    return totals


ROOMS: Mapping[str, int] = {"a1": 8, "b1": 6, "c1": 10, "c2": 10}


def test_the_domains_with_most_room_are_used() -> None:
    decision = decide(service(12, policy=under(at_most(2))), zoned(**ROOMS))
    assert set(zones(decision)) == {"a", "c"}
    assert not decision.shortfall
    (left,) = (each for each in decision.verdicts if each.cluster == "b1")
    assert left.reason is Reason.SPREAD_UNSATISFIABLE
    assert left.message == "cluster b1 may take none: maxDomains 2 over zone is reached by c, a"


def test_exactly_three_zones_or_nothing() -> None:
    three = under(at_most(3, least=3))
    snapshot = zoned(a1=9, b1=9, c1=9, d1=9)
    assert len(zones(decide(service(12, policy=three), snapshot))) == 3
    decision = decide(service(12, policy=three), zoned(a1=9, b1=9))
    assert (counts(decision), decision.reason) == ({}, Reason.SPREAD_UNSATISFIABLE)
    assert "maxDomains 3 over zone with minDomains 3: only 2 can take copies" in decision.message
    assert zones(decide(service(2, policy=three), zoned(a1=9, b1=9))) == {"a": 1, "b": 1}


def test_domains_that_hold_copies_come_first_and_nothing_moves() -> None:
    snapshot = zoned(a1=9, b1=50, c1=50)
    decision = decide(service(8, policy=under(at_most(1))), snapshot, held(a1=3))
    assert counts(decision) == {"a1": 8}
    decision = decide(service(8, policy=under(at_most(2))), snapshot, held(a1=3, c1=1))
    assert set(counts(decision)) == {"a1", "c1"}
    # More domains than allowed are in use: copies stay, and only the first of them grow.
    decision = decide(service(12, policy=under(at_most(1))), snapshot, held(a1=3, b1=2, c1=2))
    assert counts(decision) == {"a1": 8, "b1": 2, "c1": 2}
    assert decision.violations == ("spread over zone: 3 domains are used, maxDomains is 1",)


def test_a_soft_rule_uses_more_domains_only_when_copies_need_them_and_reports_it() -> None:
    soft = under(at_most(1, hard=False))
    snapshot = zoned(a1=5, b1=5, c1=9)
    assert zones(decide(service(9, policy=soft), snapshot)) == {"c": 9}
    decision = decide(service(12, policy=soft), snapshot)
    assert len(zones(decision)) == 2
    assert not decision.shortfall
    assert decision.violations == ("spread over zone: 2 domains are used, maxDomains is 1",)
    assert sum(zones(decide(service(19, policy=soft), snapshot)).values()) == 19


def test_a_skew_counts_over_the_chosen_domains_only() -> None:
    decision = decide(service(10, policy=under(at_most(2, skew=1))), zoned(a1=20, b1=20, c1=3))
    assert zones(decision) == {"a": 5, "b": 5}


def test_earlier_groups_come_before_room_that_is_not_needed() -> None:
    groups = (Group("first", names=("a1",)), Group("then", names=("b1",)))
    decision = decide(service(5, policy=under(at_most(1), groups=groups)), zoned(a1=5, b1=50))
    assert counts(decision) == {"a1": 5}


def test_a_region_is_chosen_for_the_zones_that_a_later_rule_allows() -> None:
    labels = {
        "e1": ("east", "e1"),
        "e2": ("east", "e2"),
        "e3": ("east", "e3"),
        "w1": ("west", "w1"),
    }
    rooms = {"e1": 4, "e2": 4, "e3": 4, "w1": 9}
    snapshot = fleet(
        *(
            cluster(name, rooms[name], labels={"region": region, "zone": zone})
            for name, (region, zone) in labels.items()
        )
    )
    policy = Policy(spread=(SpreadRule("region", 1, 0, True, 1), SpreadRule("zone", 1, 0, True, 2)))
    assert counts(decide(service(9, policy=policy), snapshot)) == {"w1": 9}


def test_the_inputs_hash_depends_on_max_domains() -> None:
    snapshot = zoned(**ROOMS)
    hashes = {
        inputs.inputs_hash(service(9, policy=under(rule)), snapshot)
        for rule in (SpreadRule("zone", 1, 0, True), at_most(2), at_most(3))
    }
    assert len(hashes) == 3


def test_contradicting_numbers_of_domains_move_nothing() -> None:
    policy = under(at_most(1, least=2))
    decision = decide(service(9, policy=policy), zoned(**ROOMS), held(a1=4))
    assert (decision.reason, counts(decision)) == (Reason.MISCONFIGURED, {"a1": 4})
    assert "minDomains 2, greater than maxDomains 1" in decision.message


@pytest.mark.parametrize("strategy", [Strategy.CAPACITY, Strategy.SPREAD, Strategy.PACK])
@pytest.mark.parametrize("seed", range(40))
def test_no_other_set_of_domains_could_hold_more(seed: int, strategy: Strategy) -> None:
    rng = Random(seed)
    rooms = {f"{zone}{at}": rng.randint(0, 6) for zone in "abcd" for at in range(rng.randint(0, 2))}
    if not rooms:
        return
    least = rng.randint(1, 2)
    most, count = rng.randint(least, 3), rng.randint(1, 20)
    bound = rng.choice((None, None, 2))
    policy = under(at_most(most, least=least), strategy=strategy, max_per_cluster=bound)
    got = zones(decide(service(count, policy=policy), zoned(**rooms)))
    inside = {
        zone: sum(min(room, bound or room) for name, room in rooms.items() if name[0] == zone)
        for zone in "abcd"
    }
    sets = (
        chosen
        for size in range(most + 1)
        for chosen in itertools.combinations(sorted(inside), size)
    )
    best = max(min(sum(inside[zone] for zone in chosen), count) for chosen in sets)
    if sum(room > 0 for room in inside.values()) < min(least, count):
        best = 0
    assert len(got) <= most
    assert sum(got.values()) == best
