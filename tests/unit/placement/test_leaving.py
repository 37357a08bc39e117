"""Who leaves: an edit of a policy, of labels or of a quota takes no running copy to nowhere; what a
person says of a cluster, or of the count, acts at once.
"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import shards
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Ask, Tier, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding
from federator.model.kubernetes.selectors import NOTHING, LabelSelector, Operator, Requirement
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources
from federator.model.shards import Ranges
from federator.placement import contradictions, engine
from federator.placement.selection import leaving
from tests.unit.placement import invariants, worlds
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
from tests.unit.placement.invariants import Case
from tests.unit.placement.test_properties import booked, cases, decided

EAST = {"region": "us-east-1"}


def regions(*values: str) -> Policy:
    wanted = Requirement("region", Operator.IN, values)
    return Policy(name="us-only", origin="match", selector=LabelSelector(requirements=(wanted,)))


def us() -> FleetSnapshot:
    return fleet(
        cluster("us-east-1a", 400, labels=EAST),
        cluster("us-west-2a", 400, labels={"region": "us-west-2"}),
        cluster("eu-west-1a", 5, labels={"region": "eu-west-1"}),
    )


RUNNING = held(**{"us-east-1a": 200, "us-west-2a": 100})


def test_a_mistyped_selector_takes_nothing_down_and_says_what_was_meant() -> None:
    decision = decide(service(300, policy=regions("us-esat-1")), us(), RUNNING)
    assert counts(decision) == {"us-east-1a": 200, "us-west-2a": 100}
    assert (decision.reason, decision.shortfall, decision.held) == (
        Reason.NO_CLUSTER_ADMITTED,
        0,
        300,
    )
    assert decision.message == (
        "no cluster is admitted: spec.clusters.selector of policy us-only asks for region in "
        "(us-esat-1), the clusters"
        " have region eu-west-1, us-east-1, us-west-2 (did you mean us-east-1?); 300 copies "
        "stay where they run"
        " (us-east-1a 200, us-west-2a 100)"
    )
    said = {one.cluster: one.message for one in decision.verdicts}
    assert said["us-east-1a"].startswith(
        "cluster us-east-1a keeps 200 copies that have no other place yet, although its labels"
    )
    assert "us-esat-1" in said["us-east-1a"]


def test_the_count_still_acts_while_copies_are_held() -> None:
    mistyped = regions("us-esat-1")
    assert sum(counts(decide(service(120, policy=mistyped), us(), RUNNING)).values()) == 120
    assert counts(decide(service(0, policy=mistyped), us(), RUNNING)) == {}
    more = decide(service(310, policy=mistyped), us(), RUNNING)
    assert (sum(counts(more).values()), more.shortfall) == (300, 10)
    assert more.message.endswith("us-west-2a 100), 10 more are missing")


def test_copies_move_as_far_as_there_is_room_and_the_others_wait_where_they_run() -> None:
    decision = decide(service(300, policy=regions("eu-west-1")), us(), RUNNING)
    assert sum(counts(decision).values()) == 300
    assert counts(decision)["eu-west-1a"] == 5
    assert (decision.reason, decision.held) == (Reason.INSUFFICIENT_CAPACITY, 295)
    assert (
        "5 of 300 copies have a place under the policy, 295 stay where they run" in decision.message
    )


def test_what_is_admitted_elsewhere_with_room_moves_at_once() -> None:
    decision = decide(service(300, policy=regions("us-west-2")), us(), RUNNING)
    assert counts(decision) == {"us-west-2a": 300}
    assert (decision.reason, decision.held) == (Reason.CHOSEN, 0)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (
            Policy(name="p", names=("us-eats-1a",)),
            "spec.clusters.names of policy p names us-eats-1a",
        ),
        (Policy(name="p", names=("us-eats-1a",)), "did you mean us-east-1a?"),
        (
            Policy(name="p", selector=NOTHING),
            "asks for labels in a way that cannot be read (no label has such a key",
        ),
        (
            Policy(name="p", selector=LabelSelector(match_labels=(("regoin", "us-east-1"),))),
            (
                "regoin=us-east-1, the clusters have no label regoin, only region (did you mean "
                "region?)"
            ),
        ),
        (
            Policy(origin="inline", division=Division(groups=(Group("g", names=("nobody",)),))),
            (
                "the only group of spec.placement.division.groups asks for nobody, the clusters "
                "are eu-west-1a, us-east-1a"
            ),
        ),
        (
            Policy(
                name="p",
                selector=LabelSelector(
                    match_labels=(("region", "us-east-1"),),
                    requirements=(Requirement("region", Operator.NOT_IN, ("us-east-1",)),),
                ),
            ),
            "each condition is met by some cluster, all of them by none",
        ),
    ],
)
def test_the_field_that_admits_nobody_is_named(policy: Policy, field: str) -> None:
    decision = decide(service(300, policy=policy), us(), RUNNING)
    assert decision.reason is Reason.NO_CLUSTER_ADMITTED
    assert field in decision.message
    assert sum(counts(decision).values()) == 300
    new = decide(service(300, policy=policy), us())
    assert new.reason is Reason.NO_MATCHING_CLUSTER
    assert field in new.message


def test_what_a_person_says_of_a_cluster_acts_at_once() -> None:
    excluded = Policy(exclude=("us-east-1a", "us-west-2a"))
    assert counts(decide(service(300, policy=excluded), us(), RUNNING)) == {"eu-west-1a": 5}
    both = dataclasses.replace(excluded, names=("eu-west-1a",))
    assert counts(decide(service(300, policy=both), us(), RUNNING)) == {"eu-west-1a": 5}
    tainted = fleet(cluster("a", 9, taints=(Taint("maintenance", "", "NoExecute"),)))
    assert counts(decide(service(5), tainted, held(a=5))) == {}


def test_a_taint_of_the_federation_itself_takes_nothing_to_nowhere() -> None:
    own = Taint("federation.pinterest.com/unreachable", "", "NoExecute")
    alone = decide(service(5), fleet(cluster("a", 9, taints=(own,))), held(a=5))
    assert counts(alone) == {"a": 5}
    assert alone.reason is Reason.NO_CLUSTER_ADMITTED
    assert counts(
        decide(service(5), fleet(cluster("a", 9, taints=(own,)), cluster("b", 9)), held(a=5))
    ) == {"b": 5}


def test_a_toleration_that_is_edited_away_is_no_new_taint() -> None:
    old, new = Taint("gpu", "", "NoExecute"), Taint("repairs", "", "NoExecute")
    tolerant = Policy(tolerations=(Toleration("gpu", "Exists"),))
    before = decide(service(5, policy=tolerant), fleet(cluster("a", 9, taints=(old,))))
    assert before.tolerated == {"a": ("gpu:NoExecute",)}
    mine = (Holding("a", 5, 5, 1, tolerated=before.tolerated["a"]),)
    after = decide(service(5), fleet(cluster("a", 9, taints=(old,))), mine)
    assert (counts(after), after.held, after.tolerated) == ({"a": 5}, 5, before.tolerated)
    assert counts(
        decide(service(5), fleet(cluster("a", 9, taints=(old,)), cluster("b", 9)), mine)
    ) == {"b": 5}
    assert counts(decide(service(5), fleet(cluster("a", 9, taints=(old, new))), mine)) == {}


def test_a_policy_that_cannot_be_read_evicts_nobody() -> None:
    lost = Policy(
        name="gone", origin="misconfigured", problem="spec.placement.policyRef names no policy gone"
    )
    decision = decide(
        service(5, policy=lost),
        fleet(cluster("a", 9, taints=(Taint("t", "", "NoExecute"),))),
        held(a=5),
    )
    assert (counts(decision), decision.reason) == ({"a": 5}, Reason.MISCONFIGURED)


def test_a_contradiction_in_a_policy_that_admits_nobody_takes_nothing_down() -> None:
    zero = Division(Strategy.WEIGHTED, weights=(Weight(0, ("a",)),))
    policy = Policy(name="p", names=("nobody",), division=zero)
    assert counts(decide(service(5, policy=policy), fleet(cluster("a", 9)), held(a=5))) == {"a": 5}
    duplicate = Policy(
        name="p", division=Division(Strategy.DUPLICATE, min_per_cluster=3, max_per_cluster=1)
    )
    both = decide(
        service(5, policy=duplicate), fleet(cluster("a", 9), cluster("b", 9)), held(a=5, b=5)
    )
    assert counts(both) == {"a": 5, "b": 5}


def test_a_fresh_division_that_cannot_place_all_keeps_nothing_that_the_next_one_takes_away() -> (
    None
):
    """Under the rule one copy has a place, in the one cluster that may have any. What runs counts
    as placed when this is asked again, so it does at once."""
    once = Division(Strategy.DUPLICATE, fresh=True, max_clusters=1)
    policy = Policy(name="p", division=once, spread=(SpreadRule("zone", 2, 1, True),))
    zones = {"a": {"zone": "1"}, "b": {"zone": "2"}}
    snapshot = fleet(cluster("a", 0, labels=zones["a"]), cluster("b", 1, labels=zones["b"]))
    ask = service(2, policy=policy)
    first = decide(ask, snapshot, held(a=2, b=1))
    again = decide(ask, snapshot, holdings(first.shares), previous_hash=first.inputs_hash)
    assert counts(first) == counts(again) == {"a": 2}


@pytest.mark.parametrize("strategy", [Strategy.DUPLICATE, Strategy.CAPACITY])
def test_shards_beyond_the_count_hold_no_slots_that_others_run_in(strategy: Strategy) -> None:
    before = (
        Holding("a", 1, 1, 1, ((0, 0),)),
        Holding("b", 4, 4, 1, ((1, 4),)),
        Holding("c", 3, 3, 1, ((5, 7),)),
    )
    ask, snapshot = (
        jobs(5, 3, policy=Policy(division=Division(strategy))),
        fleet(cluster("a", 9), cluster("b", 9)),
    )
    beyond = fleet(cluster("a", 9), cluster("b", 9), cluster("c", 9))
    decision = decide(ask, beyond, before)
    assert {one.cluster: one.slots for one in decision.shares} == {"a": 1, "b": 2}
    assert decision.shares == decide(ask, snapshot, before[:2]).shares
    assert invariants.check(Case(ask, before, beyond, decision, dict.fromkeys("abc", 9))) == []


@pytest.mark.parametrize(
    ("policy", "after", "why"),
    [
        (
            Policy(division=Division(max_per_cluster=2)),
            {"a": 6, "b": 4},
            "keeps 6 copies, 4 of them beyond maxPerCluster 2",
        ),
        (
            Policy(division=Division(max_clusters=1)),
            {"a": 6, "b": 4},
            "although maxClusters 1 is reached",
        ),
        (Policy(division=Division(min_per_cluster=9)), {"a": 6, "b": 4}, ""),
        (
            Policy(division=Division(Strategy.WEIGHTED, weights=(Weight(1, ("a",)),))),
            {"a": 6, "b": 4},
            "",
        ),
        (Policy(division=Division(Strategy.PACK)), {"a": 6, "b": 4}, ""),
        (Policy(spread=(SpreadRule("zone", 2, 1, hard=True),)), {"a": 6, "b": 4}, ""),
        (
            Policy(names=("a",), require_all=True),
            {"a": 6, "b": 4},
            "keeps 4 copies that have no other place yet",
        ),
        (
            Policy(names=("b",), division=Division(max_per_cluster=4)),
            {"a": 6, "b": 4},
            "keeps 6 copies that have no",
        ),
    ],
)
def test_no_bound_of_a_policy_takes_copies_to_nowhere(
    policy: Policy, after: dict[str, int], why: str
) -> None:
    full = fleet(cluster("a", 0), cluster("b", 0))
    decision = decide(service(10, policy=policy), full, held(a=6, b=4))
    assert counts(decision) == after
    assert decision.shortfall == 0
    assert any(why in one.message for one in decision.verdicts)


def test_copies_beyond_a_bound_move_when_others_have_room() -> None:
    policy = Policy(division=Division(max_per_cluster=4))
    decision = decide(
        service(10, policy=policy),
        fleet(cluster("a", 9), cluster("b", 9), cluster("c", 1)),
        held(a=10),
    )
    assert counts(decision) == {"a": 5, "b": 4, "c": 1}


def test_everywhere_keeps_a_cluster_that_is_no_longer_admitted_until_the_others_have_all() -> None:
    policy = Policy(names=("b",), division=Division(Strategy.DUPLICATE))
    short = decide(service(5, policy=policy), fleet(cluster("a", 9), cluster("b", 2)), held(a=5))
    assert counts(short) == {"a": 5, "b": 2}
    assert (short.wanted, short.shortfall, short.held) == (10, 3, 5)
    assert counts(
        decide(service(5, policy=policy), fleet(cluster("a", 9), cluster("b", 9)), held(a=5))
    ) == {"b": 5}
    nobody = dataclasses.replace(policy, names=("nobody",))
    none = decide(
        service(5, policy=nobody), fleet(cluster("a", 9), cluster("b", 9)), held(a=5, b=5)
    )
    assert (counts(none), none.wanted, none.shortfall) == ({"a": 5, "b": 5}, 10, 0)


def limited(cpu: int, *views: ClusterView) -> FleetSnapshot:
    """A fleet under a quota for so many copies."""
    tiers = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 1000 * cpu}))}
    return fleet(*views, quotas=[QuotaAccount("feed", projects=frozenset({"feed"}), tiers=tiers)])


@pytest.mark.parametrize(
    ("policy", "running", "room", "after"),
    [
        (
            Policy(names=("a", "b"), division=Division(Strategy.SPREAD, fresh=True)),
            held(a=2, b=6),
            9,
            {"a": 4, "b": 4},
        ),
        (Policy(names=("a", "b")), held(c=8), 9, {"a": 4, "b": 4}),
        (Policy(names=("a",)), held(c=8), 5, {"a": 5, "c": 3}),
        (Policy(names=("a",)), held(a=2, c=6), 3, {"a": 3, "c": 5}),
    ],
)
def test_copies_that_are_kept_are_of_those_that_quota_admits(
    policy: Policy, running: tuple[Holding, ...], room: int, after: dict[str, int]
) -> None:
    there = limited(8, cluster("a", room), cluster("b", 9), cluster("c", 9))
    decision = decide(service(11, policy=policy), there, running)
    assert counts(decision) == after
    assert decision.shortfall == 3
    again = decide(
        service(11, policy=policy),
        there,
        holdings(decision.shares),
        previous_hash=decision.inputs_hash,
    )
    assert counts(again) == after


def test_what_is_kept_of_a_workload_that_is_everywhere_is_charged_before_others_grow() -> None:
    policy = Policy(names=("b",), division=Division(Strategy.DUPLICATE))
    short = decide(
        service(5, policy=policy), limited(6, cluster("a", 9), cluster("b", 2)), held(a=5)
    )
    assert (counts(short), short.shortfall, short.reason) == (
        {"a": 5, "b": 1},
        4,
        Reason.EXCEEDS_MAX_QUOTA,
    )
    assert "1 are missing: FederatedQuota feed allows 6 cpu" in short.message
    in_turns = decide(
        service(5, policy=policy),
        limited(5, cluster("a", 9), cluster("b", 9)),
        held(a=5),
        leave=lambda copies, forced: leaving.Allowance(2, " soon"),
    )
    assert (counts(in_turns), in_turns.to_move) == ({"a": 3, "b": 2}, 3)


DUPLICATED = held(a=4, b=4, c=4)


def three(**more: dict[str, object]) -> FleetSnapshot:
    return fleet(*(cluster(name, 9, **more.get(name, {})) for name in "abc"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(name="p", division=Division(Strategy.WEIGHTED, weights=(Weight(1, ("a",)),))),
        Policy(
            name="p",
            division=Division(Strategy.SPREAD, fresh=True, max_clusters=1, max_per_cluster=1),
        ),
        Policy(name="p", names=("nobody",)),
        Policy(
            name="gone",
            origin="misconfigured",
            problem="spec.placement.policyRef names no policy gone",
        ),
    ],
    ids=["deleted", "another strategy", "and bounds", "and nobody admitted", "unreadable"],
)
def test_what_duplicate_placed_stays_when_only_the_policy_changed(policy: Policy) -> None:
    everywhere = Policy(name="p", division=Division(Strategy.DUPLICATE))
    first = decide(service(4, policy=everywhere), three())
    assert (counts(first), first.per_cluster, first.surplus) == ({"a": 4, "b": 4, "c": 4}, 4, 0)
    after = decide(service(4, policy=policy), three(), holdings(first.shares), per_cluster=4)
    assert counts(after) == {"a": 4, "b": 4, "c": 4}
    assert (after.wanted, after.shortfall, after.per_cluster) == (12, 0, 4)
    assert [share.seq for share in after.shares] == [share.seq for share in first.shares]
    assert after.surplus == (0 if policy.problem else 8)
    again = decide(service(4, policy=everywhere), three(), holdings(after.shares), per_cluster=4)
    assert (counts(again), again.surplus) == (counts(first), 0)


def test_the_count_and_a_rebalance_end_what_duplicate_placed_and_the_message_says_so() -> None:
    kept = decide(service(4), three(), DUPLICATED, per_cluster=4)
    assert kept.message == (
        "all 12 copies stay, up to 4 in each cluster as strategy Duplicate placed them, "
        "although under the built-in "
        "default policy (Capacity) the count means 4 in all; 8 go when somebody changes the "
        "count or asks for it "
        "(federator rebalance PinterestService/web -n feed)"
    )
    scaled = decide(service(5), three(), DUPLICATED, per_cluster=4)
    assert (sum(counts(scaled).values()), scaled.per_cluster) == (5, 0)
    rebalanced = decide(service(4), three(), DUPLICATED)
    assert (sum(counts(rebalanced).values()), rebalanced.per_cluster) == (4, 0)


def test_a_scale_down_is_no_duplicate_policy_that_went() -> None:
    """Two clusters with 5 each and a count of 5 look alike; only the record of the decision tells
    them apart.
    """
    halved = decide(service(5), fleet(cluster("a", 9), cluster("b", 9)), held(a=5, b=5))
    assert sum(counts(halved).values()) == 5


def test_what_a_person_says_of_a_cluster_acts_on_what_duplicate_placed() -> None:
    excluded = decide(service(4, policy=Policy(exclude=("c",))), three(), DUPLICATED, per_cluster=4)
    assert (counts(excluded), excluded.surplus) == ({"a": 4, "b": 4}, 4)
    removed = decide(service(4), three(c={"removing": True}), DUPLICATED, per_cluster=4)
    assert counts(removed) == {"a": 4, "b": 4}
    one = decide(service(4, policy=Policy(exclude=("b", "c"))), three(), DUPLICATED, per_cluster=4)
    assert (counts(one), one.surplus, one.per_cluster) == ({"a": 4}, 0, 0)


def test_the_count_acts_under_a_policy_that_cannot_be_read_in_each_cluster() -> None:
    lost = Policy(
        name="gone", origin="misconfigured", problem="spec.placement.policyRef names no policy gone"
    )
    fewer = decide(service(3, policy=lost), three(), DUPLICATED, per_cluster=4)
    assert (counts(fewer), fewer.per_cluster) == ({"a": 3, "b": 3, "c": 3}, 4)
    more = decide(service(6, policy=lost), three(), DUPLICATED, per_cluster=4)
    assert counts(more) == {"a": 4, "b": 4, "c": 4}


def shard_holdings(**given_: tuple[int, Ranges]) -> tuple[Holding, ...]:
    return tuple(
        Holding(name, shards.size(ranges), slots, 1, ranges)
        for name, (slots, ranges) in given_.items()
    )


def test_running_shards_stay_when_nobody_else_has_a_slot_and_leave_a_cluster_as_a_whole() -> None:
    ask = jobs(20, 6, policy=Policy(names=("c",)))
    mine = shard_holdings(a=(4, ((0, 11),)), b=(2, ((12, 19),)))
    nowhere = decide(ask, fleet(cluster("a", 9), cluster("b", 9), cluster("c", 0)), mine)
    assert {one.cluster: (one.slots, one.ranges) for one in nowhere.shares} == {
        "a": (4, ((0, 11),)),
        "b": (2, ((12, 19),)),
    }
    assert (nowhere.shortfall, nowhere.held) == (0, 6)
    partly = decide(ask, fleet(cluster("a", 9), cluster("b", 9), cluster("c", 2)), mine)
    assert {one.cluster: (one.slots, one.ranges) for one in partly.shares} == {
        "a": (4, ((0, 11),)),
        "c": (2, ((12, 19),)),
    }
    assert partly.held == 4
    wide = decide(ask, fleet(cluster("a", 9), cluster("b", 9), cluster("c", 9)), mine)
    assert counts(wide) == {"c": 20}


def test_a_cluster_that_is_being_removed_is_emptied_as_far_as_others_have_room() -> None:
    snapshot = fleet(cluster("a", 9, removing=True), cluster("b", 3))
    decision = decide(service(5), snapshot, held(a=5))
    assert counts(decision) == {"a": 2, "b": 3}
    assert "is being removed from the fleet" in next(
        one.message for one in decision.verdicts if one.cluster == "a"
    )


@st.composite
def edits(draw: st.DrawFn, ask: Ask, snapshot: FleetSnapshot) -> tuple[Ask, FleetSnapshot]:
    """The same workload after some edit of its policy, its quota, its project or tier, or of the
    clusters.
    """
    policy = draw(worlds.policies())
    if draw(worlds.rarely(4)):
        policy = Policy(name="gone", problem="spec.placement.policyRef names no policy gone")
    if ask.policy.division.strategy is Strategy.DUPLICATE and draw(st.booleans()):
        policy = dataclasses.replace(
            policy,
            division=dataclasses.replace(
                policy.division, strategy=Strategy.DUPLICATE, max_clusters=None
            ),
        )
    other = dataclasses.replace(
        ask,
        policy=dataclasses.replace(policy, exclude=()),
        tier=draw(st.sampled_from((ask.tier, Tier.PREEMPTIBLE))),
        project=draw(st.sampled_from((ask.project, "ads"))),
        priority=draw(st.sampled_from((ask.priority, 100))),
    )

    def relabelled(view: ClusterView) -> ClusterView:
        return dataclasses.replace(
            view,
            labels={
                "zone": draw(st.sampled_from(worlds.ZONES)),
                "region": draw(st.sampled_from(("r1", "r2", "r9"))),
            },
            tiers=draw(st.sampled_from((frozenset(Tier), frozenset()))),
            projects=draw(st.sampled_from((None, frozenset()))),
            usable_permille=draw(st.sampled_from((1000, 100, 0))),
            cordoned=draw(st.booleans()),
            removing=draw(worlds.rarely(6)),
        )

    clusters = {name: relabelled(view) for name, view in snapshot.clusters.items()}
    quota = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 1000}))}
    quotas = draw(
        st.sampled_from(
            ((), (QuotaAccount("q", projects=frozenset({"feed", "ads"}), tiers=quota),))
        )
    )
    return other, FleetSnapshot(snapshot.as_of, clusters, quotas)


def running(case: Case, decision: Decision) -> int:
    return sum(
        min(one.slots, one.count - shards.size(shards.intersect(one.ranges, case.finished)))
        for one in decision.shares
    )


@given(st.data())
def test_no_edit_takes_a_running_copy_to_nowhere_and_the_next_look_changes_nothing(
    data: st.DataObject,
) -> None:
    ask, _, snapshot, done = data.draw(cases())
    ask = dataclasses.replace(
        ask, suspended=False, count=max(ask.count, 1), slots=max(ask.slots, 1)
    )
    snapshot = dataclasses.replace(
        snapshot,
        clusters={n: dataclasses.replace(v, taints=()) for n, v in snapshot.clusters.items()},
    )
    first = decided(ask, (), snapshot, done).decision
    ask, snapshot = data.draw(edits(ask, snapshot))
    before = holdings(first.shares)
    case = decided(ask, before, snapshot, done, per_cluster=first.per_cluster)
    assert invariants.check(case) == []
    if (
        not contradictions.contradiction(ask)
        or ask.policy.division.strategy is not Strategy.DUPLICATE
    ):
        assert running(case, case.decision) >= min(running(case, first), _wanted(case))
    again = engine.decide(
        ask,
        holdings(case.decision.shares),
        snapshot,
        booked(ask, holdings(case.decision.shares)).open(snapshot),
        seq=70,
        previous_hash=case.decision.inputs_hash,
        finished=done,
        per_cluster=case.decision.per_cluster,
    )
    settled = engine.decide(
        ask,
        holdings(again.shares),
        snapshot,
        booked(ask, holdings(again.shares)).open(snapshot),
        seq=80,
        previous_hash=again.inputs_hash,
        finished=done,
        per_cluster=again.per_cluster,
    )
    assert again.shares == settled.shares


def _wanted(case: Case) -> int:
    ask = case.ask
    if ask.unit is Unit.REPLICAS:
        return ask.count
    return min(ask.slots, shards.size(shards.minus(((0, ask.count - 1),), case.finished)))


def test_tolerated_taints_still_let_copies_stay() -> None:
    policy = Policy(tolerations=(Toleration("t", "Exists"),))
    tainted = fleet(cluster("a", 9, taints=(Taint("t", "", "NoExecute"),)))
    assert counts(decide(service(5, policy=policy), tainted, held(a=5))) == {"a": 5}
