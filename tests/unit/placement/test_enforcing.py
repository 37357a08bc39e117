"""Required policies: joined by AND to whatever users say, in any order, and without taking anything
to nowhere.
"""

import dataclasses
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import shards
from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask
from federator.model.decision import Reason, Share
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Demand, Division, Policy, SpreadRule, Strategy
from federator.placement import inputs
from federator.placement.policy import enforcing
from federator.placement.policy.policies import Bindings, Policies, Rule, Subject
from federator.placement.selection.leaving import Allowance
from tests.unit.placement import worlds
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

US = LabelSelector(match_labels=(("region", "us"),))
US_ONLY = Demand(name="us-only", generation=3, owner="platform, platform@example.com", selector=US)
TITLE = "ClusterPlacementPolicy us-only (Required, owner platform, platform@example.com)"
ANYTHING = (Toleration(operator="Exists"),)
MAINTENANCE = Taint("maintenance", effect="NoExecute")


def world(*, taints: tuple[Taint, ...] = ()) -> FleetSnapshot:
    return fleet(
        cluster("us-1", 400, labels={"region": "us"}, taints=taints),
        cluster("us-2", 400, labels={"region": "us"}),
        cluster("eu-1", 400, labels={"region": "eu"}),
    )


def under(own: Policy, *demands: Demand) -> Policy:
    return enforcing.combined(own, demands)


@pytest.mark.parametrize(
    "own",
    [
        Policy(name="", origin="inline", names=("eu-1",)),
        Policy(name="", origin="inline", selector=LabelSelector(match_labels=(("region", "eu"),))),
        Policy(name="mine", namespace="feed", origin="policyRef", names=("eu-1",)),
        Policy(
            name="mine",
            namespace="feed",
            origin="match",
            division=Division(Strategy.DUPLICATE),
            names=("eu-1",),
        ),
    ],
)
def test_no_policy_of_a_user_opens_what_a_required_one_closes(own: Policy) -> None:
    decision = decide(service(10, policy=under(own, US_ONLY)), world())
    assert counts(decision) == {}
    said = {one.cluster: one.message for one in decision.verdicts}
    assert (
        said["eu-1"]
        == f"cluster eu-1: its labels do not match spec.clusters.selector of {TITLE} (region=us)"
    )
    assert TITLE in decision.message


def test_what_a_user_says_still_counts_within_the_required_one() -> None:
    own = Policy(name="", origin="inline", names=("us-2", "eu-1"))
    assert counts(decide(service(10, policy=under(own, US_ONLY)), world())) == {"us-2": 10}


def test_what_runs_moves_and_what_has_nowhere_to_go_is_held() -> None:
    policy = under(Policy(name="", origin="inline"), US_ONLY)
    moved = decide(service(10, policy=policy), world(), held(**{"eu-1": 10}))
    assert "eu-1" not in counts(moved)
    assert sum(counts(moved).values()) == 10
    nowhere = decide(
        service(10, policy=policy),
        fleet(cluster("eu-1", 400, labels={"region": "eu"})),
        held(**{"eu-1": 8}),
    )
    assert counts(nowhere) == {"eu-1": 8}
    assert (nowhere.reason, nowhere.held) == (Reason.NO_CLUSTER_ADMITTED, 8)
    assert TITLE in nowhere.message


def test_an_excluded_cluster_is_left_at_once_even_to_nowhere() -> None:
    decision = decide(
        service(8, policy=under(Policy(), Demand(name="not-eu", exclude=("eu-1",)))),
        fleet(cluster("eu-1", 400)),
        held(**{"eu-1": 8}),
    )
    assert counts(decision) == {}
    assert (
        "is excluded by spec.clusters.exclude of ClusterPlacementPolicy not-eu (Required)"
        in decision.message
    )


@pytest.mark.parametrize(
    ("allowed", "stays"),
    [
        ((), False),
        ((Toleration("gpu", "Exists"),), False),
        ((Toleration("maintenance", "Exists"),), True),
        (ANYTHING, True),
    ],
)
def test_tolerations_of_users_count_as_far_as_every_required_policy_allows(
    allowed: tuple[Toleration, ...], stays: bool
) -> None:
    own = Policy(name="", origin="inline", tolerations=ANYTHING, names=("us-1",))
    snapshot = world(taints=(MAINTENANCE,))
    both = under(own, Demand(name="a", tolerations=ANYTHING), Demand(name="b", tolerations=allowed))
    decision = decide(service(5, policy=both), snapshot, held(**{"us-1": 5}))
    assert counts(decision) == ({"us-1": 5} if stays else {})
    if not stays:
        assert (
            "spec.tolerations of ClusterPlacementPolicy b (Required) does not let it tolerate"
            in decision.message
        )


def test_taints_that_the_federation_sets_are_tolerated_as_the_user_says() -> None:
    lost = Taint("federation.pinterest.com/unreachable", effect="NoExecute")
    own = under(Policy(tolerations=ANYTHING), Demand(name="a"))
    assert enforcing.tolerates(own, lost)
    assert not enforcing.tolerates(own, MAINTENANCE)
    assert not enforcing.tolerates(
        under(Policy(), Demand(name="a", tolerations=ANYTHING)), MAINTENANCE
    )


def test_a_broken_policy_of_ones_own_is_no_way_out() -> None:
    for own in (
        Policy(name="gone", origin="misconfigured", problem="there is no PlacementPolicy gone"),
        Policy(name="", origin="inline", division=Division(min_per_cluster=9, max_per_cluster=3)),
    ):
        policy = under(own, US_ONLY)
        decision = decide(service(20, policy=policy), world(), held(**{"eu-1": 10}))
        assert (sum(counts(decision).values()), decision.shortfall) == (10, 10)
        assert "eu-1" not in counts(decision)
        assert decision.reason is Reason.MISCONFIGURED
        assert TITLE in decision.message
        settled = decide(service(20, policy=policy), world(), held(**counts(decision)))
        assert counts(settled) == counts(decision)


def test_a_job_set_under_a_broken_policy_moves_too() -> None:
    broken = under(
        Policy(name="gone", origin="misconfigured", problem="there is no PlacementPolicy gone"),
        US_ONLY,
    )
    start = decide(jobs(8, 4, policy=Policy(names=("eu-1",))), world())
    moved = decide(jobs(8, 4, policy=broken), world(), holdings(start.shares))
    assert {share.cluster for share in moved.shares} <= {"us-1", "us-2"}
    assert sum(shards.size(share.ranges) for share in moved.shares) == 8


def test_shards_that_nobody_has_wait_rather_than_go_where_a_required_policy_admits_none() -> None:
    ask = jobs(10, 2, policy=under(Policy(name="", origin="inline"), US_ONLY))
    only_there = fleet(cluster("eu-1", 400, labels={"region": "eu"}))
    decision = decide(ask, only_there, holdings([Share("eu-1", 4, 2, 1, ((0, 3),))]))
    assert {share.cluster: share.ranges for share in decision.shares} == {"eu-1": ((0, 3),)}
    assert (decision.shortfall, decision.reason) == (6, Reason.NO_CLUSTER_ADMITTED)
    assert TITLE in decision.message


NO_SCHEDULE = Taint("maintenance", effect="NoSchedule")
DUPLICATE = Policy(name="", origin="inline", division=Division(Strategy.DUPLICATE))
ANY = Policy(name="", origin="inline", tolerations=ANYTHING)
NO_TAINT = Demand(name="no-taint")
SOME_TAINTS = Demand(name="some-taints", tolerations=ANYTHING)


@pytest.mark.parametrize(
    ("own", "demands", "more", "begin", "reason"),
    [
        (Policy(), (), {"taints": (NO_SCHEDULE,)}, True, Reason.CHOSEN),
        (Policy(), (), {"cordoned": True}, True, Reason.CHOSEN),
        (Policy(), (), {"tiers": frozenset()}, False, Reason.NOT_ALLOWED),
        (Policy(), (), {"tiers": frozenset(), "cordoned": True}, False, Reason.CORDONED),
        (Policy(), (NO_TAINT,), {"cordoned": True}, True, Reason.CHOSEN),
        (Policy(), (NO_TAINT,), {"taints": (NO_SCHEDULE,)}, False, Reason.TAINTED),
        (ANY, (NO_TAINT,), {"taints": (NO_SCHEDULE,)}, False, Reason.TAINTED),
        (ANY, (SOME_TAINTS, NO_TAINT), {"taints": (NO_SCHEDULE,)}, False, Reason.TAINTED),
        (Policy(), (SOME_TAINTS,), {"taints": (NO_SCHEDULE,)}, True, Reason.CHOSEN),
        (
            Policy(),
            (NO_TAINT,),
            {"taints": (NO_SCHEDULE,), "removing": True},
            False,
            Reason.INSUFFICIENT_CAPACITY,
        ),
        (DUPLICATE, (), {"taints": (NO_SCHEDULE,)}, True, Reason.MISCONFIGURED),
        (DUPLICATE, (NO_TAINT,), {"taints": (NO_SCHEDULE,)}, False, Reason.MISCONFIGURED),
    ],
)
def test_no_shard_begins_where_a_required_policy_closes_the_cluster_although_slots_are_there(
    own: Policy, demands: tuple[Demand, ...], more: dict[str, Any], begin: bool, reason: Reason
) -> None:
    """The one slot of three shards is in a closed cluster, whose shard it finishes."""
    mine = holdings([Share("us-1", 1, 1, 1, ((2, 2),))])
    there = fleet(cluster("us-1", 1, **more), cluster("us-2", 0))
    decision = decide(jobs(3, 1, policy=under(own, *demands)), there, mine)
    (share,) = decision.shares
    assert (share.cluster, share.slots) == ("us-1", 1)
    assert share.ranges == (((0, 2),) if begin else ((2, 2),))
    assert (decision.shortfall, decision.reason) == (0 if begin else 2, reason)
    waits = "2 shards wait for slots where shards may begin: cluster us-1 "
    told = reason in (Reason.TAINTED, Reason.NOT_ALLOWED, Reason.CORDONED)
    assert (waits in decision.message) == told
    if reason is Reason.TAINTED:
        assert f"{NO_TAINT.title} does not let it tolerate" in decision.message


def test_shards_that_wait_for_slots_elsewhere_get_them_when_those_of_the_closed_cluster_end() -> (
    None
):
    ask = jobs(3, 1, policy=under(Policy(), NO_TAINT))
    there = fleet(cluster("us-1", 1, taints=(NO_SCHEDULE,)), cluster("us-2", 1))
    mine = (Share("us-1", 1, 1, 1, ((2, 2),)),)
    decision = decide(ask, there, holdings(mine), finished=((2, 2),))
    assert {share.cluster: share.ranges for share in decision.shares} == {
        "us-1": ((2, 2),),
        "us-2": ((0, 1),),
    }
    assert (decision.shortfall, decision.reason) == (0, Reason.CHOSEN)


def test_an_operators_no_execute_is_not_beaten_by_a_policy_that_does_not_exist() -> None:
    own = Policy(name="gone", origin="misconfigured", problem="there is no PlacementPolicy gone")
    snapshot = world(taints=(MAINTENANCE,))
    assert counts(decide(service(5, policy=own), snapshot, held(**{"us-1": 5}))) == {"us-1": 5}
    assert (
        counts(decide(service(5, policy=under(own, US_ONLY)), snapshot, held(**{"us-1": 5}))) == {}
    )


def test_bounds_are_the_strictest_and_say_whose_they_are() -> None:
    own = Policy(
        name="",
        origin="inline",
        division=Division(max_per_cluster=9, min_per_cluster=1, max_clusters=5),
    )
    policy = under(
        own,
        Demand(name="a", max_per_cluster=3),
        Demand(name="b", min_per_cluster=2, max_clusters=2),
    )
    plan = policy.division
    assert (plan.min_per_cluster, plan.max_per_cluster, plan.max_clusters) == (2, 3, 2)
    decision = decide(service(10, policy=policy), world())
    assert sum(counts(decision).values()) == 6
    assert "maxClusters 2 of ClusterPlacementPolicy b (Required)" in decision.message
    said = [one.message for one in decision.verdicts if one.got]
    assert all("maxPerCluster 3 of ClusterPlacementPolicy a (Required)" in one for one in said)


def test_bounds_that_exclude_each_other_place_nothing_new_and_name_both() -> None:
    own = Policy(name="", origin="inline", division=Division(min_per_cluster=5))
    decision = decide(service(10, policy=under(own, Demand(name="a", max_per_cluster=3))), world())
    assert (decision.reason, counts(decision)) == (Reason.MISCONFIGURED, {})
    assert decision.message == (
        "spec.placement.division.minPerCluster is 5, "
        "greater than maxPerCluster 3 of ClusterPlacementPolicy a (Required)"
    )


def test_spread_rules_are_added_and_the_strictest_of_one_label_holds() -> None:
    own = Policy(spread=(SpreadRule("zone", 1, 9, hard=True), SpreadRule("rack", 2)))
    policy = under(
        own, Demand(name="a", spread=(SpreadRule("zone", 2, 4, hard=True), SpreadRule("region", 2)))
    )
    assert policy.spread == (
        SpreadRule("region", 2),
        SpreadRule("zone", 2, 4, hard=True),
        SpreadRule("rack", 2),
    )


def test_a_lazy_policy_holds_nothing_back_that_a_required_one_moves() -> None:
    asked: list[tuple[int, dict[str, int]]] = []

    def leave(moving: int, forced: Mapping[str, int]) -> Allowance:
        asked.append((moving, dict(forced)))
        return Allowance(sum(forced.values()))

    own = Policy(name="", origin="inline", names=("us-1", "eu-1"), lazy=True)
    running = held(**{"us-1": 3, "us-2": 4, "eu-1": 5})
    decision = decide(service(12, policy=under(own, US_ONLY)), world(), running, leave=leave)
    assert asked == [(9, {"us-only": 5})]
    assert counts(decision) == {"us-1": 8, "us-2": 4}
    assert decision.to_move == 4


def test_the_inputs_tell_of_required_policies_and_of_nothing_else_when_there_are_none() -> None:
    plain = service(5)
    assert inputs.inputs_hash(plain, world()) == inputs.inputs_hash(
        dataclasses.replace(plain), world()
    )
    hashes = {
        inputs.inputs_hash(service(5, policy=under(Policy(), *demands)), world())
        for demands in (
            (),
            (US_ONLY,),
            (dataclasses.replace(US_ONLY, name="other"),),
            (Demand(name="us-only"),),
        )
    }
    assert len(hashes) == 4


def test_the_decision_names_the_required_policies_with_their_generations() -> None:
    decision = decide(
        service(5, policy=under(Policy(), US_ONLY, Demand(name="a", generation=7))), world()
    )
    assert decision.required == (("a", 7), ("us-only", 3))


# -- which workloads -------------------------------------------------------------------------------


def required(name: str = "r", **more: object) -> Rule:
    return Rule(Policy(name=name), cluster_wide=True, demand=Demand(name=name), **more)  # type: ignore[arg-type]


def names_of(subject: Subject, *rules: Rule) -> list[str]:
    return [one.name for one in Policies(rules).demands(subject)]


def test_a_required_policy_selects_by_namespace_and_by_bound_projects_whatever_is_claimed() -> None:
    tenant = Subject(
        "PinterestService", "feed", {"app": "web"}, "claimed", frozenset({"feed", "other"})
    )
    assert names_of(tenant, required(namespaces=frozenset({"feed"}))) == ["r"]
    assert names_of(tenant, required(namespaces=frozenset({"ads"}))) == []
    assert names_of(tenant, required(projects=frozenset({"feed"}))) == ["r"]
    assert names_of(tenant, required(projects=frozenset({"claimed"}))) == ["r"]
    assert names_of(tenant, required(projects=frozenset({"ads"}))) == []
    assert (
        names_of(tenant, required(match_labels={"app": "web"}, kinds=frozenset({"Deployment"})))
        == []
    )
    assert names_of(tenant, required()) == ["r"]


def test_a_claimed_project_counts_where_the_namespace_is_bound_to_it() -> None:
    account = QuotaAccount("feed", projects=frozenset({"feed"}), namespaces=frozenset({"feed"}))
    bindings = Bindings([account])
    assert bindings.speaks("feed", "feed")
    assert not bindings.speaks("evil", "feed")
    assert not bindings.speaks("evil", "unheard-of")
    root = QuotaAccount("company", unknown_projects=True)
    assert Bindings([account, root]).speaks("evil", "unheard-of")
    assert not Bindings([account, root]).speaks("evil", "feed")
    assert Bindings().speaks("anybody", "anything")


def test_a_cluster_for_some_projects_is_not_opened_by_a_claim() -> None:
    closed = fleet(cluster("a", 100, projects=frozenset({"feed"})))
    assert counts(decide(service(5, project="feed"), closed)) == {"a": 5}
    refused = decide(service(5, project="feed", project_bound=False, namespace="evil"), closed)
    assert counts(refused) == {}
    assert refused.message.endswith(
        "cluster a is open to project feed (spec.projects), and no FederatedQuota binds "
        "namespace evil to it"
    )


# -- properties ------------------------------------------------------------------------------------


tolerated = st.sampled_from(((), (), ANYTHING, (Toleration("t", "Exists", effect="NoSchedule"),)))

some = st.integers(0, 3)


@st.composite
def demanded(draw: st.DrawFn) -> tuple[Demand, ...]:
    found = []
    for number in range(draw(some)):
        own = draw(worlds.policies())
        found.append(
            Demand(
                name=f"r{number}",
                names=own.names,
                exclude=own.exclude,
                selector=own.selector,
                tolerations=draw(tolerated),
                spread=own.spread,
                max_per_cluster=own.division.max_per_cluster,
                max_clusters=own.division.max_clusters,
            )
        )
    return tuple(found)


def admits(demand: Demand, view: ClusterView) -> bool:
    """Read in its plain meaning, beside the product."""
    if view.name in demand.exclude or (demand.names and view.name not in demand.names):
        return False
    if demand.selector is not None and not demand.selector.matches(view.labels):
        return False
    closing = [
        taint
        for taint in view.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and not taint.key.startswith("federation.pinterest.com/")
    ]
    return all(any(one.tolerates(taint) for one in demand.tolerations) for taint in closing)


@given(worlds.asks(), worlds.snapshots(), demanded(), tolerated, st.data())
def test_nothing_grows_where_a_required_policy_does_not_admit_it(
    ask: Ask,
    snapshot: FleetSnapshot,
    demands: tuple[Demand, ...],
    tolerations: tuple[Toleration, ...],
    data: st.DataObject,
) -> None:
    own = dataclasses.replace(ask.policy, tolerations=tolerations)
    ask = dataclasses.replace(ask, policy=enforcing.combined(own, demands))
    before = data.draw(worlds.holdings(ask))
    had = {one.cluster: one.count for one in before}
    ran = {one.cluster: one.slots for one in before}
    decision = decide(ask, snapshot, before)
    for share in decision.shares:
        view = snapshot.clusters.get(share.cluster)
        if view is None or share.count <= had.get(share.cluster, 0):
            continue
        assert all(admits(one, view) for one in demands)
        for one in demands:
            # A job set finishes where it is when the bound is lowered: it runs no more at once than
            # it did.
            assert one.max_per_cluster is None or share.slots <= max(
                one.max_per_cluster, ran.get(share.cluster, 0)
            )


@given(worlds.asks(), worlds.snapshots(), demanded(), st.randoms(use_true_random=False))
def test_the_order_of_required_policies_does_not_matter(
    ask: Ask, snapshot: FleetSnapshot, demands: tuple[Demand, ...], rng: Random
) -> None:
    shuffled = list(demands)
    rng.shuffle(shuffled)
    one = dataclasses.replace(ask, policy=enforcing.combined(ask.policy, demands))
    other = dataclasses.replace(ask, policy=enforcing.combined(ask.policy, shuffled))
    assert one == other
    assert decide(one, snapshot) == decide(other, snapshot)


@given(worlds.policies(), demanded())
def test_joining_twice_is_joining_once(own: Policy, demands: tuple[Demand, ...]) -> None:
    once = enforcing.combined(own, demands)
    assert enforcing.combined(once, demands) == once
