"""Clusters in several zones: each copy counts in each zone of its cluster."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federator.model.decision import Reason
from federator.model.fleet import ClusterView
from federator.model.policy import Division, Policy, SpreadRule
from federator.model.terms import Stated
from federator.placement.division import domains
from federator.placement.room.commitments import Commitments
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, service
from tests.unit.placement.ways import decided_alike


def lying(name: str, zones: str, copies: int = 20) -> ClusterView:
    """A cluster in the zones with these letters; the label names another one, which does not
    count."""
    if len(zones) < 2:
        return cluster(name, copies, labels={"zone": zones})
    stated = Stated(topology={"zone": tuple(zones)})
    return cluster(name, copies, labels={"zone": "elsewhere"}, stated=stated)


def in_zones(where: Mapping[str, str], copies: Mapping[str, int]) -> Counter[str]:
    """Copies by zone, counted one by one."""
    return Counter(zone for name, count in copies.items() for zone in where[name] * count)


def ruled(*, skew: int = 0, zones: int = 1, hard: bool = True) -> Policy:
    return Policy(spread=(SpreadRule("zone", zones, skew, hard),))


def test_a_hard_skew_counts_a_copy_in_each_zone_of_its_cluster() -> None:
    where = {"x": "ab", "b": "b", "c": "c"}
    snapshot = fleet(*(lying(name, zones) for name, zones in where.items()))
    made = decide(service(30, policy=ruled(skew=2)), snapshot)
    totals = in_zones(where, counts(made))
    assert sum(counts(made).values()) == 30
    assert max(totals.values()) - min(totals.values()) <= 2
    assert sum(totals.values()) == 30 + counts(made)["x"]


def test_many_copies_keep_a_hard_skew_in_clusters_that_overlap() -> None:
    where = {"x": "ab", "y": "bc", "a": "a", "b": "b", "c": "c"}
    snapshot = fleet(*(lying(name, zones, 900) for name, zones in where.items()))
    made = decide(service(2000, policy=ruled(skew=3)), snapshot)
    totals = in_zones(where, counts(made))
    assert sum(counts(made).values()) == 2000
    assert max(totals.values()) - min(totals.values()) <= 3


def test_one_cluster_in_two_zones_opens_both() -> None:
    two = ruled(zones=2)
    made = decide(service(5, policy=two), fleet(lying("x", "ab")))
    assert counts(made) == {"x": 5}
    one = decide(service(5, policy=two), fleet(lying("a", "a")))
    assert (counts(one), one.reason) == ({"a": 1}, Reason.SPREAD_UNSATISFIABLE)


def test_a_soft_rule_reports_the_zone_that_exceeds_it_most() -> None:
    snapshot = fleet(lying("x", "ab", 9), lying("c", "c", 2))
    made = decide(service(11, policy=ruled(skew=3, hard=False)), snapshot)
    assert counts(made) == {"x": 9, "c": 2}
    assert made.violations == (
        "spread over zone: a has 9 and c 2, 4 more apart than maxSkew 3 allows",
    )


def test_clusters_that_are_chosen_lie_in_the_least_used_zones() -> None:
    policy = Policy(spread=(SpreadRule("zone", 1, 1, False),), division=Division(max_clusters=2))
    snapshot = fleet(lying("x", "ab", 20), lying("b", "b", 19), lying("c", "c", 9))
    assert sorted(counts(decide(service(6, policy=policy), snapshot))) == ["c", "x"]


def test_a_key_that_is_not_stated_has_the_value_of_the_label() -> None:
    stated = Stated(topology={"rack": ("r1", "r2")})
    snapshot = fleet(
        cluster("a", 9, labels={"zone": "a"}, stated=stated), cluster("b", 9, labels={"zone": "b"})
    )
    made = decide(service(8, policy=ruled(skew=1, zones=2)), snapshot)
    assert counts(made) == {"a": 4, "b": 4}


def test_an_edit_of_the_topology_is_another_input() -> None:
    ask = service(2, policy=ruled(skew=1))
    one = decide(ask, fleet(lying("x", "a"), lying("y", "b")))
    other = decide(ask, fleet(lying("x", "ab"), lying("y", "b")))
    assert one.inputs_hash != other.inputs_hash


ZONES = st.sampled_from(("a", "b", "c", "ab", "bc", "ac", "abc"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(ZONES, st.integers(0, 6)), min_size=1, max_size=5),
    st.integers(1, 14),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_hard_rules_hold_over_every_zone(
    drawn: list[tuple[str, int]], copies: int, skew: int, wanted: int
) -> None:
    where = {f"c{at}": zones for at, (zones, _) in enumerate(drawn)}
    snapshot = fleet(*(lying(f"c{at}", *one) for at, one in enumerate(drawn)))
    ask = service(copies, policy=ruled(skew=skew, zones=wanted))
    made = decided_alike(ask, (), snapshot, Commitments().open(snapshot), seq=1, by_name=True)
    got = counts(made)
    totals = in_zones(where, got)
    zones = {zone for each in where.values() for zone in each}
    used = sum(count > 0 for count in totals.values())
    if got and skew and len(zones) >= wanted:
        least = min(totals[zone] for zone in zones)
        assert max(totals.values()) - least <= skew
    assert sum(got.values()) == 0 or used >= min(wanted, sum(got.values()))
    for name, room in zip(where, (room for _, room in drawn), strict=True):
        assert got.get(name, 0) <= room


@pytest.mark.parametrize("block", [1, 2])
def test_what_domains_say_of_several_is_what_counting_again_says(block: int) -> None:
    rule = SpreadRule("zone", 2, 1, True)
    both = domains.joined(("a", "b"))
    for seats in ([("a", 1), ("b", 3), ("c", 2)], [("a", 0), ("b", 0), ("c", 0)]):
        counted = domains.of_seats(rule, seats)
        counted.grow(both, block)
        again = domains.of_seats(rule, [*seats, (both, block)])
        assert (counted.totals, counted.least, counted.high, counted.used) == (
            again.totals,
            again.least,
            again.high,
            again.used,
        )
        counted.lower(both, block)
        before = domains.of_seats(rule, seats)
        assert (counted.totals, counted.excess()) == (before.totals, before.excess())


def test_copies_in_several_zones_leave_in_the_reverse_order() -> None:
    snapshot = fleet(lying("x", "ab"), lying("b", "b"), lying("c", "c"))
    for copies in range(12, 0, -1):
        ask = service(copies, policy=ruled(skew=1, hard=False))
        made = decide(ask, snapshot, held(x=4, b=4, c=4))
        assert sum(counts(made).values()) == copies
