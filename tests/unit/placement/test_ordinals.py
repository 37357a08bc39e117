"""Stateful sets: each ordinal has one cluster for good, whatever happens to count and fleet."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import shards
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, Ordinals, Tier
from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.kubernetes import selectors
from federator.model.kubernetes.taints import Taint
from federator.model.policy import Division, Policy, SpreadRule, Strategy
from federator.model.resources import Resources
from federator.placement import engine, ordinals
from tests.unit.placement.fleets import (
    cluster,
    commitment,
    commitments_with,
    counts,
    fleet,
    holdings,
    service,
)

PERSON = Taint("maintenance", "", "NoExecute")


def stateful(count: int, policy: Policy | None = None, *released: str, claims: bool = True) -> Ask:
    asked = replace(policy or Policy(), max_clusters_at_once=1)
    return service(count, policy=asked, ordinals=Ordinals(claims, released))


def decide(
    ask: Ask,
    snapshot: FleetSnapshot,
    before: Decision | None = None,
    *,
    empty: Collection[str] = (),
    seq: int = 100,
) -> Decision:
    held = holdings(before.shares) if before is not None else ()
    ledger = commitments_with(*([commitment(ask, held)] if held else [])).open(snapshot)
    blocks = before.blocks if before is not None else {}
    return engine.decide(
        ask, held, snapshot, ledger, seq=seq, blocks=blocks, empty=empty, by_name=True
    )


def given_to(decision: Decision) -> Mapping[str, str]:
    return {share.cluster: shards.text(share.ranges) for share in decision.shares}


def recorded(decision: Decision) -> Mapping[str, str]:
    return {name: shards.text(ranges) for name, ranges in decision.blocks.items()}


def test_ordinals_are_cut_into_one_block_per_cluster_as_the_policy_divides() -> None:
    made = decide(stateful(8), fleet(cluster("a", 10), cluster("b", 5), cluster("c", 5)))
    assert given_to(made) == {"a": "0-3", "b": "4-5", "c": "6-7"}
    assert recorded(made) == given_to(made)
    assert (made.wanted, made.shortfall, made.reason) == (8, 0, Reason.CHOSEN)


def test_growth_extends_the_last_block_and_opens_another_where_there_is_no_more_room() -> None:
    start = fleet(cluster("a", 4), cluster("b", 4))
    first = decide(stateful(4), start)
    assert given_to(first) == {"a": "0-1", "b": "2-3"}
    grown = decide(stateful(7), start, first, seq=101)
    assert given_to(grown) == {"a": "0-1,6", "b": "2-5"}
    assert {share.cluster: share.seq for share in grown.shares} == {"a": 101, "b": 101}
    kept = decide(stateful(5), start, first, seq=101)
    assert {share.cluster: share.seq for share in kept.shares} == {"a": 100, "b": 101}


def test_the_highest_ordinals_go_first_and_come_back_to_where_their_claims_are() -> None:
    room = fleet(cluster("a", 4), cluster("b", 4), cluster("c", 4))
    first = decide(stateful(9), room)
    assert given_to(first) == {"a": "0-2", "b": "3-5", "c": "6-8"}
    small = decide(stateful(4), room, first)
    assert given_to(small) == {"a": "0-2", "b": "3"}
    assert recorded(small) == recorded(first)
    none = decide(stateful(0), room, small)
    assert (given_to(none), none.reason, none.shortfall) == ({}, Reason.CHOSEN, 0)
    again = decide(stateful(10), room, none)
    assert given_to(again) == {"a": "0-2", "b": "3-5", "c": "6-9"}


def test_an_ordinal_whose_cluster_takes_nothing_waits_for_it_and_no_other_runs_it() -> None:
    room = fleet(cluster("a", 4), cluster("b", 4))
    first = decide(stateful(6), room)
    small = decide(stateful(2), room, first)
    cordoned = fleet(cluster("a", 4), cluster("b", 4, cordoned=True))
    waits = decide(stateful(6), cordoned, small)
    assert given_to(waits) == {"a": "0-2"}
    assert (waits.shortfall, waits.reason) == (3, Reason.CORDONED)
    assert "ordinals 3-5 wait for b, where their claims are: cluster b is cordoned" in waits.message


HOLDS = {
    "drained": {"draining": True},
    "declared dead": {"dead": True, "ready": False},
    "a person's taint": {"taints": (PERSON,)},
    "silent": {"taints": (Taint("federation.pinterest.com/unreachable", "", "NoExecute"),)},
    "being removed": {"removing": True},
    "other labels": {"labels": {"x": "other"}},
    "stale": {"stale": True},
}


@pytest.mark.parametrize("state", HOLDS.values(), ids=HOLDS)
def test_nothing_that_moves_other_copies_moves_an_ordinal(state: dict[str, Any]) -> None:
    policy = replace(Policy(), names=()) if "labels" not in state else _selecting()
    room = fleet(cluster("a", 9, labels={"x": "y"}), cluster("b", 9, labels={"x": "y"}))
    first = decide(stateful(4, policy), room)
    assert given_to(first) == {"a": "0-1", "b": "2-3"}
    labels = {"labels": {"x": "y"}, **state}
    lost = decide(
        stateful(4, policy),
        fleet(cluster("a", 9, labels={"x": "y"}), cluster("b", 9, **labels)),
        first,
    )
    assert given_to(lost) == given_to(first)
    assert lost.shares == first.shares
    assert (lost.shortfall, lost.reason) == (0, Reason.CHOSEN)
    if "stale" not in state:
        assert "ordinals 2-3 stay, although cluster b" in lost.message
        assert lost.held == 2


def _selecting() -> Policy:
    return Policy(selector=selectors.from_dict({"matchLabels": {"x": "y"}}, "s"))


def test_a_person_gives_a_cluster_up_and_its_ordinals_begin_anew_once_nothing_is_left() -> None:
    room = fleet(cluster("a", 9), cluster("b", 9))
    first = decide(stateful(4), room)
    stops = decide(stateful(4, None, "b"), room, first)
    assert given_to(stops) == {"a": "0-1"}
    assert "ordinals 2-3 begin anew when nothing is left in b" in stops.message
    still = decide(stateful(4, None, "b"), room, stops)
    assert given_to(still) == {"a": "0-1"}
    moved = decide(stateful(4, None, "b"), room, stops, empty=["b"])
    assert given_to(moved) == recorded(moved) == {"a": "0-3"}
    # What is listed as empty while a share is there is old news.
    assert given_to(decide(stateful(4, None, "b"), room, first, empty=["b"])) == {"a": "0-1"}
    dead = fleet(cluster("a", 9), cluster("b", 9, dead=True, ready=False))
    assert given_to(decide(stateful(4, None, "b"), dead, first)) == {"a": "0-3"}


def test_a_cluster_that_left_the_fleet_leaves_its_ordinals_to_others() -> None:
    first = decide(stateful(4), fleet(cluster("a", 9), cluster("b", 9)))
    left = decide(stateful(4), fleet(cluster("a", 9)), first)
    assert given_to(left) == recorded(left) == {"a": "0-3"}


def test_a_decision_without_the_part_of_a_cluster_that_left_has_a_number_of_its_own() -> None:
    first = decide(stateful(4), fleet(cluster("a", 2), cluster("b", 2)))
    left = decide(stateful(4), fleet(cluster("a", 2)), first, seq=200)
    assert given_to(left) == {"a": "0-1"}
    assert (left.seq, left.shares[0].seq) == (200, 100)


def test_a_block_keeps_its_lowest_ordinal_even_beside_a_neighbour() -> None:
    first = decide(stateful(9), fleet(cluster("a", 3), cluster("b", 3), cluster("c", 3)))
    grown = decide(stateful(11), fleet(cluster("a", 5), cluster("b", 3), cluster("c", 3)), first)
    assert given_to(grown)["a"] == "0-2,9-10"
    left = fleet(cluster("a", 20), cluster("c", 3))
    filled = decide(stateful(11), left, grown)
    assert given_to(filled)["a"] == "0-5,9-10"
    without_c = decide(stateful(11), fleet(cluster("a", 20)), filled)
    (share,) = without_c.shares
    assert share.ranges == ((0, 8), (9, 10))
    assert decide(stateful(11), fleet(cluster("a", 20)), without_c).shares == without_c.shares
    small = decide(stateful(8), fleet(cluster("a", 20)), without_c)
    back = decide(stateful(12), fleet(cluster("a", 20)), small)
    assert back.shares[0].ranges == ((0, 8), (9, 11))


def test_quota_room_and_bounds_hold_for_what_comes_back_and_for_what_is_new() -> None:
    account = QuotaAccount(
        "feed",
        projects=frozenset({"feed"}),
        tiers={Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 5000}))},
    )
    snapshot = fleet(cluster("a", 9), cluster("b", 9), quotas=[account])
    made = decide(stateful(8), snapshot)
    assert (sum(counts(made).values()), made.reason) == (5, Reason.EXCEEDS_MAX_QUOTA)
    bounded = Policy(division=Division(max_per_cluster=3))
    few = decide(stateful(8, bounded), fleet(cluster("a", 9), cluster("b", 9)))
    assert given_to(few) == {"a": "0-2", "b": "3-5"}
    assert few.shortfall == 2
    whole = decide(stateful(30, Policy(require_all=True)), fleet(cluster("a", 9), cluster("b", 9)))
    assert (given_to(whole), whole.shortfall) == ({}, 30)


def test_spread_rules_go_before_compactness() -> None:
    policy = Policy(spread=(SpreadRule("zone", max_skew=1, hard=True),))
    zones = [cluster(name, 9, labels={"zone": name}) for name in "abc"]
    first = decide(stateful(3, policy), fleet(*zones))
    grown = decide(stateful(6, policy), fleet(*zones), first)
    assert counts(grown) == {"a": 2, "b": 2, "c": 2}
    assert given_to(grown) == {"a": "0,4", "b": "1,5", "c": "2-3"}


def test_a_strategy_that_would_run_each_ordinal_in_every_cluster_changes_nothing() -> None:
    twice = ordinals.policy_of(Policy(division=Division(Strategy.DUPLICATE)))
    room = fleet(cluster("a", 9), cluster("b", 9))
    first = decide(stateful(4), room)
    made = decide(replace(stateful(6), policy=twice), room, first)
    assert (made.shares, made.reason) == (first.shares, Reason.MISCONFIGURED)


STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(0, 12),
            "rooms": st.lists(st.integers(0, 6), min_size=4, max_size=4),
            "closed": st.sets(st.sampled_from("abcd"), max_size=2),
            "lost": st.sampled_from(["", "", "", "a", "b", "c", "d"]),
            "released": st.sampled_from([(), (), ("b",), ("a", "c")]),
            "empties": st.booleans(),
            "spread": st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
)
CLOSED = ({"cordoned": True}, {"draining": True}, {"taints": (PERSON,)}, {"ready": False})


@given(STEPS, st.sampled_from(CLOSED))
def test_no_ordinal_is_lost_doubled_or_run_elsewhere_through_any_life(
    steps: list[dict[str, Any]], closed: dict[str, Any]
) -> None:
    """Clusters that lose an ordinal still run it until they are known to be empty: whatever the
    counts and the fleet do, no other cluster is given it before."""
    before: Decision | None = None
    runs: dict[int, str] = {}  # ordinal -> the cluster that runs it, or may still
    alive = set("abcd")
    for at, step in enumerate(steps):
        if step["lost"] and len(alive) > 1:
            alive.discard(step["lost"])
            runs = {ordinal: name for ordinal, name in runs.items() if name in alive}
        views = [
            cluster(name, room, **(closed if name in step["closed"] else {}), labels={"zone": name})
            for name, room in zip("abcd", step["rooms"], strict=True)
            if name in alive
        ]
        policy = Policy(spread=(SpreadRule("zone", max_skew=2),)) if step["spread"] else Policy()
        ask = stateful(step["count"], policy, *step["released"])
        has = {share.cluster for share in before.shares} if before is not None else set()
        empty = {name for name in step["released"] if step["empties"] and name not in has}
        runs = {ordinal: name for ordinal, name in runs.items() if name not in empty}
        made = decide(ask, fleet(*views), before, empty=empty, seq=200 + at)
        placed: dict[int, str] = {}
        for share in made.shares:
            assert share.count == share.slots == shards.size(share.ranges)
            for low, high in share.ranges:
                for ordinal in range(low, high + 1):
                    assert ordinal not in placed, "two clusters run it"
                    placed[ordinal] = share.cluster
                assert any(block[0] == low for block in made.blocks[share.cluster])
        assert all(ordinal < step["count"] for ordinal in placed)
        assert made.wanted == step["count"] == len(placed) + made.shortfall
        for ordinal, name in placed.items():
            assert runs.get(ordinal, name) == name, "it may still run in another cluster"
        if before is not None:
            for share in before.shares:
                if share.cluster in alive and share.cluster not in step["released"]:
                    kept = shards.intersect(
                        shards.normal(share.ranges),
                        ((0, step["count"] - 1),) if step["count"] else (),
                    )
                    now = made.share_of(share.cluster)
                    assert not shards.minus(kept, shards.normal(now.ranges) if now else ())
        spaces = [shards.normal(ranges) for ranges in made.blocks.values()]
        assert shards.size(shards.normal(p for r in spaces for p in r)) == sum(
            map(shards.size, made.blocks.values())
        )
        runs.update(placed)
        again = decide(ask, fleet(*views), made, empty=empty, seq=300 + at)
        if not empty & made.blocks.keys():
            for share in made.shares:
                now = again.share_of(share.cluster)
                assert now is not None
                assert not shards.minus(shards.normal(share.ranges), shards.normal(now.ranges))
        before = made


def test_what_runs_counts_before_what_is_recorded() -> None:
    held = (Holding("a", 2, 2, 7, ((3, 4),)), Holding("b", 3, 3, 9, ((0, 1), (4, 4))))
    found = ordinals.homes({"a": ((0, 5),), "gone": ((6, 9),)}, held, {"a", "b"})
    assert found == {"a": ((2, 2), (3, 3), (5, 5)), "b": ((0, 1), (4, 4))}
