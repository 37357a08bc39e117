"""What `decide` does with services: where copies go, what stays, what is refused and in which
words.
"""

import dataclasses
from typing import Any

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import PodShape, Tier
from federator.model.decision import Decision, Reason
from federator.model.fleet import Capacity, FleetSnapshot, Holding, NodeRow
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.kubernetes.taints import Effect, Taint, Toleration
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from tests.unit.placement.fleets import (
    POD,
    cluster,
    commitment,
    commitments_with,
    counts,
    decide,
    fleet,
    held,
    jobs,
    service,
)


def policy(strategy: Strategy = Strategy.CAPACITY, **division: object) -> Policy:
    return Policy(name="p", division=Division(strategy, **division))  # type: ignore[arg-type]


def test_copies_follow_the_room_of_the_clusters() -> None:
    assert counts(decide(service(6), fleet(cluster("a", 10), cluster("b", 20)))) == {"a": 2, "b": 4}


def test_what_does_not_fit_is_a_shortfall_with_numbers() -> None:
    decision = decide(service(50), fleet(cluster("a", 10), cluster("b", 20)))
    assert counts(decision) == {"a": 10, "b": 20}
    assert (decision.shortfall, decision.reason) == (20, Reason.INSUFFICIENT_CAPACITY)
    assert "30 of 50 copies are placed, 20 are missing" in decision.message


def test_nothing_is_left_to_say_when_all_is_placed() -> None:
    decision = decide(service(3), fleet(cluster("a", 10)))
    assert (decision.shortfall, decision.reason, decision.violations) == (0, Reason.CHOSEN, ())


def test_held_copies_stay_when_another_cluster_has_more_room() -> None:
    decision = decide(service(10), fleet(cluster("a", 2), cluster("b", 90)), held(a=10))
    assert counts(decision) == {"a": 10}


def test_growth_goes_where_room_is_without_moving_anybody() -> None:
    decision = decide(service(16), fleet(cluster("a", 2), cluster("b", 90)), held(a=10))
    assert counts(decision) == {"a": 10, "b": 6}


def test_unchanged_shares_keep_their_seq_and_changed_ones_get_the_new_one() -> None:
    decision = decide(service(16), fleet(cluster("a", 2), cluster("b", 90)), held(a=10), seq=7)
    assert {share.cluster: share.seq for share in decision.shares} == {"a": 1, "b": 7}
    assert decision.seq == 7


def test_a_decision_that_changes_nothing_keeps_its_seq() -> None:
    assert decide(service(10), fleet(cluster("a", 2)), held(a=10), seq=7).seq == 1


def test_a_smaller_count_takes_back_from_the_heaviest() -> None:
    decision = decide(service(6), fleet(cluster("a", 0), cluster("b", 0)), held(a=4, b=8))
    assert counts(decision) == {"a": 2, "b": 4}


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        (
            {"capacity": None},
            (
                "it has no report of its capacity that is known here (its member process writes "
                "ClusterCapacity)"
            ),
        ),
        (
            {"stale": True, "capacity_age_s": 400.0},
            "it last reported its capacity 400 s ago, too long to rely on",
        ),
        (
            {"ready": False, "unready_reason": "it is Unreachable: no answer"},
            "it is not ready: it is Unreachable: no answer",
        ),
        (
            {
                "ready": False,
                "unready_reason": "it is Unreachable: no answer",
                "stale": True,
                "capacity_age_s": 400.0,
            },
            "it is not ready: it is Unreachable: no answer",
        ),
        (
            {"ready": False, "unready_reason": "it is New: no answer", "capacity": None},
            "it is not ready: it is New: no answer",
        ),
    ],
)
def test_what_a_closed_cluster_that_holds_copies_is_said_to_lack_is_true_of_it(
    closed: dict[str, Any], why: str
) -> None:
    """It holds 17 copies, so it was heard once and has reported: never "has not reported"."""
    decision = decide(service(20), fleet(cluster("a", 20, **closed), cluster("b", 20)), held(a=17))
    said = next(one.message for one in decision.verdicts if one.cluster == "a")
    assert said == f"cluster a keeps 17 copies and takes no new ones: {why}"


@pytest.mark.parametrize(
    ("closed", "reason"),
    [
        ({"cordoned": True}, Reason.CORDONED),
        ({"taints": (Taint("gpu", "only", "NoSchedule"),)}, Reason.TAINTED),
        ({"ready": False, "unready_reason": "no answer for 50 s"}, Reason.CLUSTER_UNHEALTHY),
        ({"untrustworthy": "ShardsNotGiven"}, Reason.CLUSTER_UNTRUSTWORTHY),
        ({"stale": True, "capacity_age_s": 400.0}, Reason.CLUSTER_STALE),
        ({"capacity": None}, Reason.CLUSTER_STALE),
        ({"apis": frozenset({"Deployment.apps"})}, Reason.API_NOT_AVAILABLE),
        ({"tiers": frozenset({Tier.RESERVED})}, Reason.NOT_ALLOWED),
        ({"projects": frozenset({"ads"})}, Reason.NOT_ALLOWED),
    ],
)
def test_a_closed_cluster_takes_nothing_new_but_keeps_what_it_holds(
    closed: dict[str, Any], reason: Reason
) -> None:
    snapshot = fleet(cluster("a", 10, **closed), cluster("b", 10))
    fresh = decide(service(4), snapshot)
    assert counts(fresh) == {"b": 4}
    assert next(one.reason for one in fresh.verdicts if one.cluster == "a") is reason
    grown = decide(service(8), snapshot, held(a=3))
    assert counts(grown) == {"a": 3, "b": 5}


def test_only_a_cluster_that_serves_what_a_workload_becomes_takes_it() -> None:
    kinds = frozenset({"PinterestService.pinterest.com"})
    api = "JobSet.jobset.x-k8s.io"
    snapshot = fleet(cluster("a", 20, apis=kinds), cluster("b", 4, apis=kinds | {api}))
    handed_over = dataclasses.replace(service(4), needs=(api,))
    assert counts(decide(service(4), snapshot)) == {"a": 3, "b": 1}
    decision = decide(handed_over, snapshot)
    assert counts(decision) == {"b": 4}
    said = next(one for one in decision.verdicts if one.cluster == "a")
    assert said.reason is Reason.API_NOT_AVAILABLE
    assert said.message == (
        "cluster a does not serve JobSet (jobset.x-k8s.io), which the workload is to become there"
    )


@pytest.mark.parametrize(
    ("gone", "under"),
    [
        ({"taints": (Taint("down", "", "NoExecute"),)}, Policy()),
        ({"removing": True}, Policy()),
        ({}, Policy(exclude=("a",))),
        ({}, Policy(names=("b",))),
        ({"labels": {"zone": "x"}}, Policy(selector=LabelSelector(match_labels=(("zone", "y"),)))),
        ({}, policy(groups=(Group("g", names=("b",)),))),
    ],
)
def test_a_cluster_that_may_not_hold_it_any_more_loses_its_share_and_nobody_else_moves(
    gone: dict[str, Any], under: Policy
) -> None:
    snapshot = fleet(
        cluster("a", 10, **gone),
        cluster("b", 10, labels={"zone": "y"}),
        cluster("c", 0, labels={"zone": "y"}),
    )
    decision = decide(service(10, policy=under), snapshot, held(a=5, b=5))
    assert counts(decision) == {"b": 10}


def test_a_cluster_that_left_the_fleet_loses_its_share() -> None:
    assert counts(decide(service(10), fleet(cluster("b", 10)), held(a=5, b=5))) == {"b": 10}


def test_tolerations_of_the_policy_open_tainted_clusters() -> None:
    tolerant = Policy(tolerations=(Toleration("gpu", "Exists"),))
    snapshot = fleet(cluster("a", 10, taints=(Taint("gpu", "only", "NoSchedule"),)))
    assert counts(decide(service(4, policy=tolerant), snapshot)) == {"a": 4}


def test_clusters_to_be_avoided_are_used_only_for_what_others_cannot_take() -> None:
    snapshot = fleet(
        cluster("a", 50, taints=(Taint("spot", "", "PreferNoSchedule"),)), cluster("b", 5)
    )
    assert counts(decide(service(4), snapshot)) == {"b": 4}
    assert counts(decide(service(9), snapshot)) == {"a": 4, "b": 5}


def test_duplicate_gives_every_cluster_the_full_count_and_counts_what_lacks() -> None:
    decision = decide(
        service(5, policy=policy(Strategy.DUPLICATE)), fleet(cluster("a", 10), cluster("b", 3))
    )
    assert counts(decision) == {"a": 5, "b": 3}
    assert (decision.wanted, decision.shortfall) == (10, 2)


def test_weighted_follows_static_weights_and_drops_clusters_without_one() -> None:
    weights = (
        Weight(3, names=("a",)),
        Weight(1, selector=LabelSelector(match_labels=(("zone", "y"),))),
    )
    snapshot = fleet(cluster("a", 100), cluster("b", 100, labels={"zone": "y"}), cluster("c", 100))
    decision = decide(service(8, policy=policy(Strategy.WEIGHTED, weights=weights)), snapshot)
    assert counts(decision) == {"a": 6, "b": 2}


def test_pack_uses_the_fewest_clusters_and_fills_holders_first() -> None:
    snapshot = fleet(cluster("a", 4), cluster("b", 20), cluster("c", 12))
    packed = policy(Strategy.PACK)
    assert counts(decide(service(18, policy=packed), snapshot)) == {"b": 18}
    assert counts(decide(service(6, policy=packed), snapshot, held(a=3))) == {"a": 4, "b": 2}


def test_pack_empties_the_smallest_holder_when_it_shrinks() -> None:
    snapshot = fleet(cluster("a", 10), cluster("b", 10))
    assert counts(decide(service(6, policy=policy(Strategy.PACK)), snapshot, held(a=4, b=8))) == {
        "b": 6
    }


def zoned(room: int, *names: str) -> FleetSnapshot:
    return fleet(*(cluster(name, room, labels={"zone": f"z-{name}"}) for name in names))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (SpreadRule("zone", min_domains=2, hard=True, max_skew=100), {"a": 15, "b": 15}),
        (SpreadRule("zone", max_skew=2, hard=True), {"a": 10, "b": 10, "c": 10}),
        (SpreadRule("zone", max_skew=2, hard=False), {"a": 30}),
    ],
)
def test_pack_takes_as_many_clusters_as_hard_spread_rules_need(
    rule: SpreadRule, expected: dict[str, int]
) -> None:
    packed = dataclasses.replace(policy(Strategy.PACK), spread=(rule,))
    decision = decide(service(30, policy=packed), zoned(100, "a", "b", "c"))
    assert counts(decision) == expected
    assert decision.shortfall == 0


def test_pack_under_a_hard_rule_shrinks_without_breaking_it() -> None:
    packed = dataclasses.replace(
        policy(Strategy.PACK), spread=(SpreadRule("zone", max_skew=2, hard=True),)
    )
    decision = decide(service(12, policy=packed), zoned(100, "a", "b", "c"), held(a=10, b=10, c=10))
    assert sum(counts(decision).values()) == 12
    assert max(counts(decision).values()) - min(counts(decision).values()) <= 2


def test_everything_everywhere_is_wanted_in_at_most_max_clusters() -> None:
    everywhere = policy(Strategy.DUPLICATE, max_clusters=2)
    decision = decide(service(5, policy=everywhere), zoned(100, "a", "b", "c"))
    assert counts(decision) == {"a": 5, "b": 5}
    assert (decision.shortfall, decision.reason) == (0, Reason.CHOSEN)


def test_floors_draw_nothing_into_later_groups_that_are_not_needed() -> None:
    ordered = policy(
        min_per_cluster=5, groups=(Group("first", names=("a",)), Group("then", names=("b", "c")))
    )
    assert counts(decide(service(30, policy=ordered), zoned(100, "a", "b", "c"))) == {"a": 30}
    assert counts(decide(service(30, policy=ordered), zoned(20, "a", "b", "c"))) == {
        "a": 20,
        "b": 5,
        "c": 5,
    }


def test_floors_draw_nothing_to_avoided_clusters_that_are_not_needed() -> None:
    avoided = cluster("a", 100, taints=(Taint("old", effect=Effect.PREFER_NO_SCHEDULE),))
    decision = decide(
        service(30, policy=policy(min_per_cluster=5)),
        fleet(avoided, cluster("b", 50), cluster("c", 50)),
    )
    assert counts(decision) == {"b": 15, "c": 15}


def test_spread_divides_evenly_whatever_the_room() -> None:
    assert counts(
        decide(
            service(6, policy=policy(Strategy.SPREAD)), fleet(cluster("a", 10), cluster("b", 90))
        )
    ) == {
        "a": 3,
        "b": 3,
    }


def test_groups_overflow_in_their_order() -> None:
    ordered = policy(groups=(Group("first", names=("a",)), Group("then", names=("b", "c"))))
    snapshot = fleet(cluster("a", 5), cluster("b", 30), cluster("c", 30), cluster("d", 30))
    assert counts(decide(service(4, policy=ordered), snapshot)) == {"a": 4}
    assert counts(decide(service(9, policy=ordered), snapshot)) == {"a": 5, "b": 2, "c": 2}
    assert counts(decide(service(6, policy=ordered), snapshot, held(a=5, b=2, c=2))) == {
        "a": 5,
        "b": 1,
    }


def test_every_cluster_has_at_least_the_minimum_or_nothing() -> None:
    snapshot = fleet(cluster("a", 50), cluster("b", 40), cluster("c", 30), cluster("d", 1))
    decision = decide(service(5, policy=policy(min_per_cluster=2)), snapshot)
    assert counts(decision) == {"a": 3, "b": 2}
    reasons = {one.cluster: one.reason for one in decision.verdicts}
    assert reasons["c"] is reasons["d"] is Reason.BELOW_MINIMUM


def test_the_maximum_bounds_every_cluster_and_is_named_as_the_constraint() -> None:
    decision = decide(
        service(9, policy=policy(max_per_cluster=3)), fleet(cluster("a", 50), cluster("b", 40))
    )
    assert counts(decision) == {"a": 3, "b": 3}
    assert decision.reason is Reason.AT_MAXIMUM
    assert "maxPerCluster 3" in decision.message


def test_a_bound_on_the_number_of_clusters_keeps_those_that_hold() -> None:
    snapshot = fleet(cluster("a", 50), cluster("b", 5), cluster("c", 90))
    decision = decide(service(6, policy=policy(max_clusters=2)), snapshot, held(b=2))
    assert set(counts(decision)) == {"b", "c"}


def test_require_all_places_nothing_new_unless_everything_fits() -> None:
    whole = dataclasses.replace(Policy(), require_all=True)
    snapshot = fleet(cluster("a", 4), cluster("b", 4))
    refused = decide(service(9, policy=whole), snapshot)
    assert counts(refused) == {}
    assert (refused.shortfall, refused.reason) == (9, Reason.INSUFFICIENT_CAPACITY)
    assert counts(decide(service(8, policy=whole), snapshot)) == {"a": 4, "b": 4}
    assert counts(decide(service(99, policy=whole), snapshot, held(a=2, b=1))) == {"a": 2, "b": 1}


def test_fresh_forgets_what_is_held_once_and_then_rests() -> None:
    fresh = policy(Strategy.SPREAD, fresh=True)
    snapshot = fleet(cluster("a", 10), cluster("b", 10))
    first = decide(service(8, policy=fresh), snapshot, held(a=8))
    assert counts(first) == {"a": 4, "b": 4}
    again = decide(
        service(8, policy=fresh), snapshot, held(a=5, b=3), previous_hash=first.inputs_hash
    )
    assert counts(again) == {"a": 5, "b": 3}


def test_a_cluster_that_could_not_schedule_is_capped_and_the_rest_moves() -> None:
    decision = decide(
        service(8), fleet(cluster("a", 10), cluster("b", 10)), held(a=8), capped={"a": 5}
    )
    assert counts(decision) == {"a": 5, "b": 3}


def test_a_cluster_that_could_not_schedule_gets_nothing_new_although_it_holds_nothing() -> None:
    decision = decide(
        service(8), fleet(cluster("a", 10), cluster("b", 10)), held(b=4), capped={"a": 0}
    )
    assert counts(decision) == {"b": 8}


def test_of_what_waits_for_its_scheduler_no_more_than_the_count_stays_in_every_cluster() -> None:
    """It was scaled from 4 to 1. What b lacks is no reason to keep three in a."""
    rule = SpreadRule("zone", 1, 0, hard=True)
    policy = Policy(division=Division(Strategy.DUPLICATE), spread=(rule,))
    snapshot = fleet(cluster("a", 9, labels={"zone": "1"}), cluster("b", 9, labels={"zone": ""}))
    made = decide(service(1, policy=policy), snapshot, held(a=4), capped={"a": 3})
    assert counts(made) == {"a": 1}


@pytest.mark.parametrize(
    ("capped", "after"),
    [
        ({"a": 2}, {"a": 5, "b": 3}),  # b has room for one more: two of the three stay
        ({"a": 2, "b": 0}, {"a": 6, "b": 2}),
        ({"a": 0, "b": 0}, {"a": 6, "b": 2}),
        ({"a": 0, "b": 2}, {"a": 6, "b": 2}),
    ],
)
def test_copies_that_could_not_be_scheduled_and_that_nobody_else_can_take_stay_where_they_wait(
    capped: dict[str, int], after: dict[str, int]
) -> None:
    decision = decide(
        service(8), fleet(cluster("a", 10), cluster("b", 3)), held(a=6, b=2), capped=capped
    )
    assert counts(decision) == after
    assert decision.shortfall == 0


def test_who_stays_where_nobody_could_schedule_it_keeps_to_what_the_policy_allows_there() -> None:
    few = policy(max_per_cluster=4)
    decision = decide(
        service(8, policy=few),
        fleet(cluster("a", 10), cluster("b", 9)),
        held(a=6, b=2),
        capped={"a": 1},
    )
    assert counts(decision) == {"a": 4, "b": 4}
    assert decision.shortfall == 0


@pytest.mark.parametrize(("count", "suspended"), [(0, False), (-4, False), (5, True)])
def test_nothing_to_run_gives_no_shares_and_a_reason(count: int, suspended: bool) -> None:
    decision = decide(service(count, suspended=suspended), fleet(cluster("a", 10)), held(a=2))
    assert counts(decision) == {}
    assert decision.reason is (Reason.SUSPENDED if suspended else Reason.CHOSEN)
    assert decision.shortfall == decision.wanted == (5 if suspended else 0)


@pytest.mark.parametrize(
    "contradiction",
    [
        policy(min_per_cluster=5, max_per_cluster=2),
        policy(min_per_cluster=-1),
        policy(max_per_cluster=-1),
        policy(max_clusters=0),
        policy(Strategy.WEIGHTED, weights=(Weight(0, names=("a",)),)),
        policy(weights=(Weight(-2, names=("a",)),)),
        Policy(problem="there is no policy of that name"),
    ],
)
def test_a_policy_that_contradicts_itself_moves_nothing_and_says_so(contradiction: Policy) -> None:
    decision = decide(service(8, policy=contradiction), fleet(cluster("a", 10)), held(a=3))
    assert counts(decision) == {"a": 3}
    assert decision.reason is Reason.MISCONFIGURED
    assert decision.shortfall == 5
    assert counts(decide(service(8, policy=contradiction), fleet(cluster("a", 10)))) == {}


def test_duplicating_shards_is_refused_as_a_contradiction() -> None:
    decision = decide(jobs(5, 2, policy=policy(Strategy.DUPLICATE)), fleet(cluster("a", 10)))
    assert (decision.reason, decision.shares) == (Reason.MISCONFIGURED, ())


@pytest.mark.parametrize(
    ("under", "reason"),
    [
        (Policy(names=("nobody",)), Reason.NO_MATCHING_CLUSTER),
        (policy(max_per_cluster=0), Reason.AT_MAXIMUM),
        (policy(Strategy.WEIGHTED, weights=(Weight(2, names=("nobody",)),)), Reason.NOT_SELECTED),
        (policy(groups=(Group("g"),)), Reason.NO_MATCHING_CLUSTER),
    ],
)
def test_policies_that_leave_no_cluster_give_a_reason(under: Policy, reason: Reason) -> None:
    decision = decide(service(8, policy=under), fleet(cluster("a", 10)))
    assert (counts(decision), decision.shortfall, decision.reason) == ({}, 8, reason)


def test_an_empty_fleet_gives_a_reason() -> None:
    assert decide(service(8), fleet()).reason is Reason.NO_MATCHING_CLUSTER


def test_a_shape_only_the_member_can_judge_waits_for_its_answer() -> None:
    shape = PodShape(Resources({"cpu": 1000, "pods": 1}), node_selector='{"disk":"ssd"}')
    waiting = decide(service(4, shape=shape), fleet(cluster("a", 10)))
    assert (counts(waiting), waiting.reason) == ({}, Reason.PENDING_EVALUATION)
    room = Resources({"cpu": 10_000, "pods": 100})
    known = Capacity(rows=(NodeRow(1, room, room),), copies={shape.id: 3})
    answered = decide(service(4, shape=shape), fleet(cluster("a", 0, capacity=known)))
    assert (counts(answered), answered.shortfall) == ({"a": 3}, 1)


def test_exact_answers_are_lowered_by_what_was_placed_since() -> None:
    shape = PodShape(Resources({"cpu": 1000, "pods": 1}), node_selector='{"disk":"ssd"}')
    room = Resources({"cpu": 100_000, "pods": 100})
    known = Capacity(rows=(NodeRow(1, room, room),), copies={shape.id: 10}, includes_seq=5)
    snapshot = fleet(cluster("a", 0, capacity=known))
    same = commitment(service(2, name="other", shape=shape), [Holding("a", 2, 2, 6)])
    big = commitment(service(1, name="big"), [Holding("a", 1, 1, 7)])
    included = commitment(service(5, name="old", shape=shape), [Holding("a", 5, 5, 4)])
    assert commitments_with(same, included).open(snapshot).room("a", shape) == 8
    assert commitments_with(same, big).open(snapshot).room("a", shape) == 7


def test_usable_bounds_the_whole_cluster() -> None:
    allocatable, free = (
        Resources({"cpu": 10_000, "pods": 100}),
        Resources({"cpu": 6_000, "pods": 100}),
    )
    view = cluster(
        "a", 0, capacity=Capacity(rows=(NodeRow(1, allocatable, free),)), usable_permille=900
    )
    assert counts(decide(service(9), fleet(view))) == {"a": 5}


def test_one_copy_per_node_never_gives_more_copies_than_nodes() -> None:
    shape = dataclasses.replace(POD, one_per_node=True)
    decision = decide(service(9, shape=shape), fleet(cluster("a", 10, nodes=4)), held(a=1))
    assert counts(decision) == {"a": 4}


def test_ties_are_broken_by_workload_in_production_and_by_name_on_request() -> None:
    snapshot = fleet(*(cluster(f"c{i}", 10) for i in range(8)))
    assert counts(decide(service(1), snapshot)) == {"c0": 1}
    decisions = [
        engine.decide(service(1, name=f"w{i}"), (), snapshot, Commitments().open(snapshot), seq=1)
        for i in range(40)
    ]
    firsts = {decision.shares[0].cluster for decision in decisions}
    assert len(firsts) > 4


def test_every_cluster_has_a_verdict_that_is_a_sentence_with_its_name() -> None:
    snapshot = fleet(cluster("a", 10), cluster("b", 0), cluster("c", 5, cordoned=True))
    decision = decide(service(4), snapshot)
    assert [one.cluster for one in decision.verdicts] == ["a", "b", "c"]
    assert all(one.cluster in one.message for one in decision.verdicts)
    assert all(one.score == sum(points for _, points in one.terms) for one in decision.verdicts)
    assert "cpu 1" in decision.verdicts[1].message


def verdict(decision: Decision, name: str) -> tuple[Reason, str]:
    (found,) = (one for one in decision.verdicts if one.cluster == name)
    return found.reason, found.message


def test_a_cluster_with_room_that_gets_nothing_while_copies_lack_says_what_keeps_it_out() -> None:
    limits = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 2000}))}
    account = QuotaAccount("feed", projects=frozenset({"feed"}), tiers=limits)
    groups = (Group("g", ("a",)), Group("h", ("b",)))
    by_quota = decide(
        service(4, policy=Policy(division=Division(groups=groups))),
        fleet(cluster("a", 5), cluster("b", 5), quotas=[account]),
    )
    reason, message = verdict(by_quota, "b")
    assert reason is by_quota.reason is Reason.EXCEEDS_MAX_QUOTA
    assert message.startswith("cluster b could take 5 copies, but FederatedQuota feed allows 2 cpu")

    whole = decide(service(9, policy=Policy(require_all=True)), fleet(cluster("a", 5)))
    assert whole.reason is Reason.INSUFFICIENT_CAPACITY
    reason, message = verdict(whole, "a")
    assert reason is Reason.GANG_INCOMPLETE
    assert (
        "all are wanted or none (spec.partial RequireAll): 1 cluster could hold 5 in all copies"
        in message
    )


def test_hard_spread_that_keeps_copies_back_is_told_with_its_bounds_and_domains() -> None:
    rule = SpreadRule("zone", 3, 1, hard=True)
    snapshot = fleet(cluster("a", 5, labels={"zone": "z1"}), cluster("b", 5, labels={"zone": "z2"}))
    kept_back = decide(service(9, policy=Policy(spread=(rule,))), snapshot)
    assert kept_back.reason is Reason.SPREAD_UNSATISFIABLE
    assert "spread over zone (maxSkew 1, minDomains 3, 2 domains with room)" in kept_back.message
    for one in kept_back.verdicts:
        assert one.chosen or one.reason is Reason.SPREAD_UNSATISFIABLE


def test_where_nothing_is_wanted_any_more_no_cluster_lacks_room() -> None:
    done = decide(jobs(4, 2), fleet(cluster("a", 0), cluster("b", 5)), finished=((0, 3),))
    assert {one.reason for one in done.verdicts} == {Reason.NOT_NEEDED}
    assert verdict(done, "a")[1] == "cluster a is not needed: there are no slots to place"


def test_what_left_out_clusters_could_hold_is_part_of_the_sum() -> None:
    policy = Policy(division=Division(max_clusters=2))
    short = decide(
        service(300, policy=policy), fleet(cluster("a", 100), cluster("b", 100), cluster("c", 1))
    )
    assert short.reason is Reason.AT_MAXIMUM
    assert "3 clusters could hold 201 in all, the 2 that take part 200" in short.message
