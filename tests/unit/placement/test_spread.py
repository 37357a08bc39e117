"""Spread rules: hard ones bind, soft ones are broken last and reported, and what is held stays."""

from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.policy import Division, Policy, SpreadRule, Strategy
from tests.unit.placement.fleets import cluster, counts, decide, fleet, held, service


def zoned(name: str, copies: int, region: str = "r1", **more: bool) -> ClusterView:
    return cluster(name, copies, labels={"zone": name[:2], "region": region}, **more)


def spread(*rules: SpreadRule, **division: int) -> Policy:
    return Policy(spread=rules, division=Division(Strategy.CAPACITY, **division))  # type: ignore[arg-type]


def hard(key: str = "zone", skew: int = 1, domains: int = 1) -> SpreadRule:
    return SpreadRule(key, domains, skew, hard=True)


def soft(key: str = "zone", skew: int = 1, domains: int = 1) -> SpreadRule:
    return SpreadRule(key, domains, skew)


def zones(decision: Decision) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, count in counts(decision).items():
        totals[name[:2]] = totals.get(name[:2], 0) + count
    return totals


UNEVEN = fleet(zoned("z1a", 60), zoned("z1b", 30), zoned("z2a", 20), zoned("z3a", 10))


def test_a_hard_rule_bounds_the_skew_whatever_the_room() -> None:
    decision = decide(service(27, policy=spread(hard(skew=2))), UNEVEN)
    totals = zones(decision)
    assert sum(totals.values()) == 27
    assert max(totals.values()) - min(totals.values()) <= 2


def test_a_hard_rule_leaves_a_shortfall_when_the_smallest_zone_is_full() -> None:
    decision = decide(service(60, policy=spread(hard(skew=5))), UNEVEN)
    assert zones(decision) == {"z1": 15, "z2": 15, "z3": 10}
    assert (decision.shortfall, decision.reason) == (20, Reason.SPREAD_UNSATISFIABLE)


def test_a_soft_rule_places_everything_with_the_least_breach_and_reports_it() -> None:
    decision = decide(service(60, policy=spread(soft(skew=5))), UNEVEN)
    assert zones(decision) == {"z1": 30, "z2": 20, "z3": 10}
    assert decision.violations == (
        "spread over zone: z1 has 30 and z3 10, 15 more apart than maxSkew 5 allows",
    )


def test_a_rule_that_does_not_bind_changes_nothing() -> None:
    ruled = decide(service(12, policy=spread(hard(skew=50))), UNEVEN)
    assert counts(ruled) == counts(decide(service(12), UNEVEN))
    assert ruled.violations == ()


def test_inside_a_zone_copies_follow_the_room() -> None:
    decision = decide(service(18, policy=spread(hard(skew=1))), UNEVEN)
    assert counts(decision) == {"z1a": 4, "z1b": 2, "z2a": 6, "z3a": 6}


def test_a_minimum_of_domains_opens_them_even_for_few_copies() -> None:
    decision = decide(service(3, policy=spread(SpreadRule("zone", 3))), UNEVEN)
    assert zones(decision) == {"z1": 1, "z2": 1, "z3": 1}


def test_too_few_domains_hold_back_under_a_hard_rule_and_are_reported_under_a_soft_one() -> None:
    refused = decide(service(8, policy=spread(hard(domains=4))), UNEVEN)
    assert (zones(refused), refused.reason) == (
        {"z1": 1, "z2": 1, "z3": 1},
        Reason.SPREAD_UNSATISFIABLE,
    )
    assert refused.violations == ()
    reported = decide(service(8, policy=spread(SpreadRule("zone", 4))), UNEVEN)
    assert reported.shortfall == 0
    assert "minDomains is 4" in reported.violations[0]


def test_zones_within_regions_keep_both_rules() -> None:
    snapshot = fleet(
        zoned("z1a", 90, "east"),
        zoned("z2a", 40, "east"),
        zoned("z3a", 30, "west"),
        zoned("z4a", 30, "west"),
    )
    decision = decide(service(40, policy=spread(hard("region", 4), hard("zone", 6))), snapshot)
    totals = zones(decision)
    assert sum(totals.values()) == 40
    assert max(totals.values()) - min(totals.values()) <= 6
    assert abs(totals["z1"] + totals["z2"] - totals["z3"] - totals["z4"]) <= 4


def test_crossing_labels_are_kept_as_far_as_possible() -> None:
    snapshot = fleet(
        *(
            cluster(f"{zone}{kind}", 20, labels={"zone": zone, "kind": kind})
            for zone, kind in (("z1", "a"), ("z1", "b"), ("z2", "a"), ("z2", "b"))
        )
    )
    decision = decide(service(10, policy=spread(soft("zone", 1), soft("kind", 1))), snapshot)
    assert decision.shortfall == 0
    assert decision.violations == ()


def test_clusters_without_the_label_of_a_hard_rule_take_nothing_new() -> None:
    snapshot = fleet(zoned("z1a", 10), cluster("bare", 90))
    decision = decide(service(6, policy=spread(hard(skew=3))), snapshot, held(bare=2))
    assert counts(decision) == {"bare": 2, "z1a": 4}
    verdict = next(
        one
        for one in decide(service(3, policy=spread(hard())), snapshot).verdicts
        if one.cluster == "bare"
    )
    assert verdict.reason is Reason.SPREAD_UNSATISFIABLE
    assert "lacks label zone" in verdict.message


def test_what_is_held_stays_although_it_breaks_the_rule() -> None:
    decision = decide(service(14, policy=spread(hard(skew=1))), UNEVEN, held(z1a=10))
    totals = zones(decision)
    assert totals["z1"] == 10
    assert (totals["z2"], totals["z3"]) == (2, 2)


def test_what_stays_in_a_cluster_that_takes_no_part_counts_for_the_rule() -> None:
    """maxClusters leaves z2b out, and its copy stays for want of another place: with the free place
    of z2a taken, z2 would be two above z1."""
    snapshot = fleet(zoned("z1a", 0), zoned("z2a", 1), zoned("z2b", 0))
    policy = spread(hard(skew=1), max_clusters=2)
    decision = decide(service(9, policy=policy), snapshot, held(z1a=3, z2a=3, z2b=1))
    assert counts(decision) == {"z1a": 3, "z2a": 3, "z2b": 1}
    assert decision.held == 1


def test_beside_what_stays_no_other_clusters_take_part_than_before() -> None:
    snapshot = fleet(zoned("z1a", 2), zoned("z1b", 0), zoned("z1c", 0))
    policy = spread(hard(skew=0), max_clusters=1)
    decision = decide(service(3, policy=policy), snapshot, held(z1b=1, z1c=1))
    assert counts(decision) == {"z1b": 1, "z1c": 1}


def test_a_lost_zone_moves_only_its_own_share() -> None:
    lost = fleet(zoned("z1a", 60), zoned("z2a", 60), zoned("z3a", 60, removing=True))
    decision = decide(service(30, policy=spread(hard(skew=1))), lost, held(z1a=10, z2a=10, z3a=10))
    assert counts(decision) == {"z1a": 15, "z2a": 15}


def test_shrinking_keeps_the_rule() -> None:
    decision = decide(service(9, policy=spread(hard(skew=1))), UNEVEN, held(z1a=9, z2a=9, z3a=9))
    assert zones(decision) == {"z1": 3, "z2": 3, "z3": 3}


def test_with_a_minimum_per_cluster_the_first_clusters_lie_in_different_zones() -> None:
    decision = decide(service(6, policy=spread(soft(skew=2), min_per_cluster=2)), UNEVEN)
    assert zones(decision) == {"z1": 2, "z2": 2, "z3": 2}


def test_thousands_of_copies_are_spread_too() -> None:
    snapshot: FleetSnapshot = fleet(*(zoned(f"z{i % 3}{i}", 900 * (1 + i % 3)) for i in range(12)))
    totals = zones(decide(service(5_000, policy=spread(soft(skew=200))), snapshot))
    assert sum(totals.values()) == 5_000
    assert max(totals.values()) - min(totals.values()) <= 200
