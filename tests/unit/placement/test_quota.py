"""Flat quotas: who is admitted, how far, and whose limit the refusal names."""

from dataclasses import replace
from typing import Any

import pytest

from federator.api import federatedquota, membercluster
from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import PodShape, Tier
from federator.model.decision import Reason
from federator.model.kubernetes import quantity
from federator.model.policy import Policy
from federator.model.resources import UNLIMITED, Resources
from federator.placement.quota import quota
from federator.placement.quota.tree import AccountLimit
from federator.placement.quota.uses import Limit
from tests import casetables
from tests.unit.placement.fleets import (
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


def account(cpu: int = 10, **more: object) -> QuotaAccount:
    given: dict[str, object] = {
        "projects": frozenset({"feed"}),
        "tiers": {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": cpu * 1000}))},
        "generation": 4,
        **more,
    }
    return QuotaAccount("feed-quota", **given)  # type: ignore[arg-type]


def test_services_are_admitted_in_part_and_the_refusal_names_quota_field_have_and_need() -> None:
    decision = decide(service(15), fleet(cluster("a", 50), quotas=[account()]))
    assert counts(decision) == {"a": 10}
    assert (decision.shortfall, decision.reason) == (5, Reason.EXCEEDS_MAX_QUOTA)
    for part in (
        "FederatedQuota feed-quota",
        "spec.tiers.OnDemand.max.cpu",
        "allows 10 cpu",
        "need 15",
    ):
        assert part in decision.message
    assert decision.quota_generations == {"feed-quota": 4}
    assert not decision.unlimited_quota


def test_what_no_cluster_admits_is_told_so_before_it_is_told_of_quota() -> None:
    """Quota alone would not help it."""
    nowhere = Policy(name="slip", names=("us-wst-2a",))
    other = commitment(service(10, name="other"), held(a=10))
    for ask, holders in ((service(11, policy=nowhere), ()), (service(1, policy=nowhere), (other,))):
        snapshot = fleet(cluster("a", 50), quotas=[account()])
        ledger = commitments_with(*holders).open(snapshot)
        decision = decide(ask, snapshot, ledger=ledger)
        assert decision.reason is Reason.NO_MATCHING_CLUSTER
        assert "the policy selects none of the 1 clusters" in decision.message
        assert ("besides, FederatedQuota feed-quota" in decision.message) == bool(holders)


def test_what_others_hold_is_taken_off_and_own_use_is_not() -> None:
    other = commitment(service(4, name="other"), held(b=4))
    mine = commitment(service(5), held(a=5))
    snapshot = fleet(cluster("a", 50), cluster("b", 50), quotas=[account()])
    ledger = commitments_with(other, mine).open(snapshot)
    decision = decide(service(9), snapshot, held(a=5), ledger=ledger)
    assert sum(counts(decision).values()) == 6
    assert decision.reason is Reason.QUOTA_EXCEEDED
    assert "too little of it is left: 9 copies of 1 need 9, 6 fit" in decision.message


def test_jobs_are_admitted_whole_or_not_at_all() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account()])
    assert decide(jobs(100, 11), snapshot).shares == ()
    assert decide(jobs(100, 10), snapshot).shares[0].slots == 10


def test_a_lowered_quota_takes_nothing_back_and_admits_nothing_new() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account(cpu=3)])
    assert counts(decide(service(8), snapshot, held(a=6))) == {"a": 6}


def test_two_workloads_of_one_batch_do_not_get_the_same_unit_twice() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account(cpu=1)])
    ledger = commitments_with().open(snapshot)
    first = decide(service(1, name="first"), snapshot, ledger=ledger)
    second = decide(service(1, name="second"), snapshot, ledger=ledger)
    assert (first.shortfall, second.shortfall) == (0, 1)
    assert second.reason is Reason.QUOTA_EXCEEDED


def test_a_decision_counts_once_in_its_cycle_and_once_when_it_is_assumed() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account(cpu=10)])
    commitments = commitments_with()
    ledger = commitments.open(snapshot)
    asks = [service(2, name=f"w{i}") for i in range(5)]
    made = [
        commitment(ask, held(a=decide(ask, snapshot, ledger=ledger).shares[0].count))
        for ask in asks
    ]
    assert ledger.usage("feed", Tier.ON_DEMAND)["cpu"] == 10_000
    assert decide(service(1, name="late"), snapshot, ledger=ledger).shortfall == 1
    for one in made:
        commitments.assume(one)
    assert (
        decide(service(1, name="late"), snapshot, ledger=commitments.open(snapshot)).shortfall == 1
    )
    assert commitments.usage("feed", Tier.ON_DEMAND)["cpu"] == 10_000


def test_priority_beyond_the_maximum_is_refused_with_both_numbers() -> None:
    decision = decide(
        service(3, priority=200), fleet(cluster("a", 9), quotas=[account(max_priority=100)])
    )
    assert (counts(decision), decision.reason) == ({}, Reason.PRIORITY_EXCEEDS_MAX)
    assert "up to 100 (spec.maxPriority)" in decision.message
    assert "200" in decision.message


def test_no_more_workloads_at_a_time_than_allowed_but_those_that_run_go_on() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account(max_concurrent=1, tiers={})])
    running = commitment(service(2, name="running"), held(a=2))
    refused = decide(service(2), snapshot, ledger=commitments_with(running).open(snapshot))
    assert refused.reason is Reason.QUOTA_EXCEEDED
    assert "spec.maxConcurrentWorkloads" in refused.message
    grown = decide(
        service(5, name="running"),
        snapshot,
        held(a=2),
        ledger=commitments_with(running).open(snapshot),
    )
    assert counts(grown) == {"a": 5}


@pytest.mark.parametrize(
    ("project", "namespace", "bound"),
    [
        ("other", "feed", "namespace feed is bound to FederatedQuota feed-quota"),
        ("feed", "elsewhere", "project feed belongs to FederatedQuota feed-quota"),
    ],
)
def test_a_namespace_uses_the_projects_it_is_bound_to_and_a_project_its_namespaces(
    project: str, namespace: str, bound: str
) -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account(namespaces=frozenset({"feed"}))])
    decision = decide(service(2, project=project, namespace=namespace), snapshot)
    assert (counts(decision), decision.reason) == ({}, Reason.NOT_ALLOWED)
    assert bound in decision.message


def test_a_refusal_does_not_tell_who_else_may() -> None:
    bound = account(namespaces=frozenset({"feed", "secret-launch"}))
    decision = decide(service(2, namespace="elsewhere"), fleet(cluster("a", 50), quotas=[bound]))
    assert "namespace elsewhere" in decision.message
    assert "secret-launch" not in decision.message


@pytest.mark.parametrize("others", [(6, 7), (9, 10), (1, 2)])
@pytest.mark.parametrize("how", ["service", "jobs", "concurrent", "edit"])
def test_what_others_hold_shows_in_a_refusal_by_what_is_admitted_only(
    others: tuple[int, int], how: str
) -> None:
    """The same sentence whatever they hold, as long as the workload gets as much."""
    bound = account(max_concurrent=1, tiers={}) if how == "concurrent" else account()
    snapshot = fleet(cluster("a", 50), cluster("b", 50), quotas=[bound])
    told = set()
    for held_by_others in others:
        other = commitment(service(held_by_others, name="other"), held(b=held_by_others))
        mine = service(1, name="mine")
        ledger = commitments_with(other, commitment(mine, held(a=1))).open(snapshot)
        if how == "edit":
            wide = replace(mine, shape=PodShape(Resources({"cpu": 9500})))
            refused = ledger.edit(quota.Edit(wide, mine, 1, 1))
            assert refused is not None
            told.add((0, refused.reason, refused.message))
        else:
            asked = {"service": service(9), "jobs": jobs(50, 10), "concurrent": service(2)}[how]
            found = ledger.admission(asked, asked.slots, 0)
            assert found.message
            # What a service gets is the one thing that it is told, and sees anyway.
            shown = (
                found.message.replace(f", {found.copies} fit", "")
                if how == "service"
                else found.message
            )
            told.add((0 if how == "service" else found.copies, found.reason, shown))
    assert len(told) == 1


def test_evidence_against_a_cluster_names_no_workload_of_others() -> None:
    """It is in the condition of the MemberCluster, which tenants cannot read."""
    condition = {"type": "Untrustworthy", "status": "True", "reason": "ShardsNotGiven"}
    condition["message"] = (
        "PinterestJobSet/secret-launch/train: it tells of 40 shards. It takes nothing new; ..."
    )
    obj = {"metadata": {"name": "a"}, "status": {"conditions": [condition]}}
    said = membercluster.to_view(obj, 0.0).untrustworthy
    assert said == "ShardsNotGiven"
    decision = decide(service(2), fleet(cluster("a", 50, untrustworthy=said)))
    assert "cluster a is untrustworthy (ShardsNotGiven) and takes nothing new" in decision.message
    assert "secret-launch" not in str(decision)


def test_without_any_quota_every_project_is_unlimited_and_says_so() -> None:
    decision = decide(service(40, project="other"), fleet(cluster("a", 50)))
    assert counts(decision) == {"a": 40}
    assert decision.unlimited_quota


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ((None,), False),
        ((False,), False),
        ((True,), True),
        ((True, None), True),
        ((True, False), False),
    ],
)
def test_a_project_that_no_quota_has_is_refused_unless_a_root_allows_it(
    said: tuple[bool | None, ...], allowed: bool
) -> None:
    roots = [
        replace(account(), name=f"root-{i}", unknown_projects=one) for i, one in enumerate(said)
    ]
    decision = decide(service(40, project="other"), fleet(cluster("a", 50), quotas=roots))
    assert counts(decision) == ({"a": 40} if allowed else {})
    assert decision.unlimited_quota is allowed
    if not allowed:
        assert decision.reason is Reason.NOT_ALLOWED
        assert "project other" in decision.message
        assert "spec.unknownProjects" in decision.message


def test_only_an_account_without_a_parent_allows_unknown_projects() -> None:
    child = account(unknown_projects=True, parent="company")
    assert not counts(decide(service(1, project="other"), fleet(cluster("a", 50), quotas=[child])))


def test_what_runs_of_an_unknown_project_stays_and_takes_nothing_more() -> None:
    decision = decide(
        service(8, project="other"), fleet(cluster("a", 50), quotas=[account()]), held(a=5)
    )
    assert (counts(decision), decision.shortfall, decision.reason) == (
        {"a": 5},
        3,
        Reason.NOT_ALLOWED,
    )


NOTHING = PodShape(Resources({"pods": 1}))


@pytest.mark.parametrize(
    ("defaults", "requests", "expected"),
    [
        (None, {}, {"cpu": 100, "memory": 200 << 20}),
        (None, {"cpu": 1}, {"cpu": 1, "memory": 200 << 20}),
        ({"cpu": 50}, {}, {"cpu": 50}),
        ({}, {}, {}),
        ({"cpu": 50}, {"memory": 5}, {"cpu": 50, "memory": 5}),
    ],
)
def test_a_copy_is_charged_the_default_of_what_it_does_not_request(
    defaults: dict[str, int] | None, requests: dict[str, int], expected: dict[str, int]
) -> None:
    owner = account(defaults=None if defaults is None else Resources(defaults))
    ask = service(1, shape=PodShape(Resources({**requests, "pods": 1})))
    assert quota.charged(ask, [owner]).shape.requests == Resources({**expected, "pods": 1})


def test_copies_without_requests_fill_a_quota_and_a_project_without_one_pays_nothing() -> None:
    ask = service(300, shape=NOTHING)
    snapshot = fleet(cluster("a", 500), quotas=[account(cpu=1, defaults=Resources({"cpu": 100}))])
    assert counts(decide(quota.charged(ask, snapshot.quotas), snapshot)) == {"a": 10}
    assert (
        quota.charged(service(1, shape=NOTHING, project="other"), snapshot.quotas).shape is NOTHING
    )


def test_of_several_accounts_the_larger_default_counts() -> None:
    accounts = [
        account(defaults=Resources({"cpu": 50})),
        replace(account(), name="b", defaults=Resources({"cpu": 70})),
    ]
    assert quota.charged(service(1, shape=NOTHING), accounts).shape.requests["cpu"] == 70


def test_tiers_that_a_quota_does_not_name_are_not_limited_by_it() -> None:
    decision = decide(
        service(40, tier=Tier.PREEMPTIBLE), fleet(cluster("a", 50), quotas=[account()])
    )
    assert counts(decision) == {"a": 40}


def test_guaranteed_limits_what_max_does_not_name() -> None:
    tiers = {Tier.ON_DEMAND: TierQuota(guaranteed=Resources({"cpu": 7000}))}
    decision = decide(service(9), fleet(cluster("a", 50), quotas=[account(tiers=tiers)]))
    assert counts(decision) == {"a": 7}
    assert "spec.tiers.OnDemand.guaranteed.cpu" in decision.message


def test_a_limit_of_zero_admits_nothing() -> None:
    tiers = {Tier.ON_DEMAND: TierQuota(maximum=Resources(), barred=frozenset({"cpu"}))}
    assert counts(decide(service(9), fleet(cluster("a", 50), quotas=[account(tiers=tiers)]))) == {}


@pytest.mark.parametrize("maximum", [None, {}, {"memory": "1Ti"}])
def test_a_guarantee_of_zero_admits_nothing_unless_max_names_the_resource(
    maximum: dict[str, str] | None,
) -> None:
    limits = {"guaranteed": {"cpu": "0"}} | ({} if maximum is None else {"max": maximum})
    obj = {
        "metadata": {"name": "q", "uid": "u"},
        "spec": {"projects": ["feed"], "namespaces": ["feed"], "tiers": {"OnDemand": limits}},
    }
    decision = decide(service(9), fleet(cluster("a", 50), quotas=[federatedquota.to_account(obj)]))
    assert counts(decision) == {}
    assert "spec.tiers.OnDemand.guaranteed.cpu" in decision.message
    limits["max"] = {**(maximum or {}), "cpu": "3"}
    assert counts(
        decide(service(9), fleet(cluster("a", 50), quotas=[federatedquota.to_account(obj)]))
    ) == {"a": 3}


def test_every_quota_that_speaks_for_a_project_limits_it() -> None:
    second = QuotaAccount(
        "second",
        projects=frozenset({"feed"}),
        tiers={Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 3000}))},
    )
    decision = decide(service(9), fleet(cluster("a", 50), quotas=[account(), second]))
    assert counts(decision) == {"a": 3}
    assert "FederatedQuota second" in decision.message


def test_moved_copies_need_no_second_admission() -> None:
    snapshot = fleet(cluster("a", 50, removing=True), cluster("b", 50), quotas=[account(cpu=4)])
    assert counts(decide(service(6), snapshot, held(a=6))) == {"b": 6}


def test_advice_on_quota_room_agrees_with_admission() -> None:
    other = commitment(service(4, name="other"), held(a=4))
    ledger = commitments_with(other).open(fleet(cluster("a", 50), quotas=[account()]))
    room, speaking = ledger.quota_room("feed", "feed", Tier.ON_DEMAND, Resources({"cpu": 1000}))
    assert (room, [one.name for one in speaking]) == (6, ["feed-quota"])
    assert ledger.quota_room("other", "feed", Tier.ON_DEMAND, Resources({"cpu": 1000}))[0] is None


def test_a_limit_that_no_amount_reaches_is_none() -> None:
    for cpu, room in ((UNLIMITED - 1, UNLIMITED - 1), (UNLIMITED, None)):
        limits = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": cpu}))}
        ledger = commitments_with().open(fleet(cluster("a", 50), quotas=[account(tiers=limits)]))
        given = ledger.quota_room("feed", "feed", Tier.ON_DEMAND, Resources({"cpu": 1}))
        assert given[0] == room


def test_a_limit_of_a_resource_that_is_not_requested_does_not_bound_the_quota_room() -> None:
    limits = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": 10_000, "gpu": 5}))}
    ledger = commitments_with().open(fleet(cluster("a", 50), quotas=[account(tiers=limits)]))
    for requests, room in (({"cpu": 1000}, 10), ({"cpu": 1000, "gpu": 1}, 5), ({"gpu": 1}, 5)):
        given = ledger.quota_room("feed", "feed", Tier.ON_DEMAND, Resources(requests))
        assert given[0] == room


def _edit(ruling: quota.Admission | None, **more: Any) -> quota.Admission | None:
    """What the ledger says of an edit of 4 running copies, when the cycle has decided `ruling`."""
    before = service(4)
    ledger = commitments_with(commitment(before, held(a=4))).open(
        fleet(cluster("a", 50), quotas=[account(max_priority=5)])
    )
    ledger.held_back = {} if ruling is None else {before.uid: ruling}
    return ledger.edit(quota.Edit(replace(before, **more), before, 4, 4))


LATER = quota.Admission(0, Reason.QUOTA_EXCEEDED, "it waits for room")
LARGER = replace(service(4).shape, requests=Resources({"cpu": 9000, "pods": 1}))


def test_an_edit_that_the_cycle_holds_back_says_the_limit_or_the_wish_and_then_why() -> None:
    assert _edit(None) is None
    waits = _edit(LATER, tier=Tier.RESERVED)
    assert waits is not None
    assert waits.reason is Reason.QUOTA_EXCEEDED
    assert waits.message == "tier Reserved instead of OnDemand; it waits for room"
    over = _edit(LATER, shape=LARGER)
    assert over is not None
    assert over.message.startswith("36 cpu of project feed in tier OnDemand")
    assert over.message.endswith("; it waits for room")
    wordless = _edit(replace(LATER, message=""), tier=Tier.RESERVED)
    assert wordless is not None
    assert wordless.message == "tier Reserved instead of OnDemand"


def test_an_edit_that_an_account_refuses_for_another_reason_says_that_one() -> None:
    refused = _edit(LATER, priority=9)
    assert refused is not None
    assert refused == _edit(None, priority=9)
    assert refused.reason is Reason.PRIORITY_EXCEEDS_MAX
    assert refused.message.startswith("priority 9 instead of 0, and FederatedQuota feed-quota")


def test_an_edit_counts_among_concurrent_workloads_where_it_was_not_counted_before() -> None:
    """One workload of ads is placed, and no more may be: another one may not become one of ads, and
    the one that is may be edited."""
    feed, ads = service(4), service(4, name="counted", project="ads")
    accounts = [
        QuotaAccount("feed", projects=frozenset({"feed"}), max_concurrent=1),
        QuotaAccount("ads", projects=frozenset({"ads"}), max_concurrent=1),
    ]
    placed = commitments_with(commitment(feed, held(a=4)), commitment(ads, held(a=4)))
    ledger = placed.open(fleet(cluster("a", 50), quotas=accounts))

    refused = ledger.edit(quota.Edit(replace(feed, project="ads"), feed, 4, 4))
    assert refused is not None
    assert "FederatedQuota ads allows 1 workload at a time" in refused.message
    for ask in (feed, ads):
        larger = replace(ask.shape, requests=Resources({**ask.shape.requests, "cpu": 2000}))
        assert ledger.edit(quota.Edit(replace(ask, shape=larger), ask, 4, 4)) is None


def test_an_edit_to_another_project_is_refused_above_the_priority_of_its_account() -> None:
    before = service(4)
    accounts = [
        QuotaAccount("feed", projects=frozenset({"feed"})),
        QuotaAccount("ads", projects=frozenset({"ads"}), max_priority=5),
    ]
    ledger = commitments_with(commitment(before, held(a=4))).open(
        fleet(cluster("a", 50), quotas=accounts)
    )

    def edited(priority: int) -> quota.Admission | None:
        wish = replace(before, project="ads", priority=priority)
        return ledger.edit(quota.Edit(wish, before, 4, 4))

    refused = edited(6)
    assert refused is not None
    assert refused.reason is Reason.PRIORITY_EXCEEDS_MAX
    assert edited(5) is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "4 running copies of cpu 1"),
        ({"project": "ads"}, "project ads instead of feed"),
        (
            {"tier": Tier.RESERVED, "priority": 1},
            "tier Reserved instead of OnDemand, priority 1 instead of 0",
        ),
        (
            {"project": "ads", "tier": Tier.PREEMPTIBLE},
            "project ads instead of feed, tier Preemptible instead of OnDemand",
        ),
    ],
)
def test_an_edit_is_named_by_what_accounts_charge_or_bound(more: dict[str, Any], said: str) -> None:
    before = service(4)
    assert quota.wish(quota.Edit(replace(before, **more), before, 4, 4)) == said


def _limit(stated: int, where: str, guaranteed: int | None = None, **more: Any) -> Limit:
    bound = AccountLimit(0, 0, stated, 0, stated, where, guaranteed)
    return Limit(**{"account": "ads", "bound": bound, "left": 0, "ever": 0, **more})


TIER = "spec.tiers.OnDemand"
SAID = [
    (_limit(10_000, "max.cpu"), f"ads allows 10 cpu ({TIER}.max.cpu)"),
    (_limit(0, "max.cpu"), f"ads allows 0 cpu ({TIER}.max.cpu)"),
    (_limit(6000, ""), f"ads allows 6 cpu (the sum of {TIER}.guaranteed.cpu below it)"),
    *(
        (
            _limit(5000, "borrowingLimit.cpu", guaranteed),
            f"ads allows 5 cpu ({parts}, {TIER}.borrowingLimit.cpu)",
        )
        for guaranteed, parts in (
            (None, "0 guaranteed and 5 borrowed"),
            (0, "0 guaranteed and 5 borrowed"),
            (2000, "2 guaranteed and 3 borrowed"),
            (5000, "5 guaranteed and 0 borrowed"),
        )
    ),
    (
        _limit(10_000, "max.cpu", account="company", ever=7000),
        f"company, above ads, allows 10 cpu ({TIER}.max.cpu), at most 7 of it to ads",
    ),
]


@pytest.mark.parametrize(("limit", "said"), SAID)
def test_a_limit_is_said_as_its_account_states_it(limit: Limit, said: str) -> None:
    assert quota.allows(limit, "ads", Tier.ON_DEMAND, "cpu") == said


def test_amounts_are_said_without_pods() -> None:
    assert quota.amounts(Resources({"cpu": 2000, "pods": 1})) == "cpu 2"
    assert quota.amounts(Resources({"pods": 1})) == "nothing"


FLAVORS = {"red": Tier.ON_DEMAND, "blue": Tier.PREEMPTIBLE}


def test_recorded_cases_without_a_tree_agree_on_what_is_available() -> None:
    """All others of the table borrow inside a tree of quotas or rank dominant shares, which come
    with quota trees.
    """
    flat = [one for one in casetables.cases("kueue_quota_preemption") if one["kind"] == "available"]
    flat = [one for one in flat if not any(queue.get("cohort") for queue in one["input"]["queues"])]
    assert [one["name"] for one in flat] == ["available-000"]
    for case in flat:
        for queue in case["input"]["queues"]:
            quotas = {
                group["flavor"]: group["quotas"] for groups in queue["groups"] for group in groups
            }
            used = case["input"]["usageMilli"][queue["name"]]
            for flavor, limits in quotas.items():
                maximum = quantity.vector({"cpu": limits["cpu"]["nominal"]})
                tiers = {FLAVORS[flavor]: TierQuota(maximum=maximum, barred=frozenset({"cpu"}))}
                snapshot = fleet(quotas=[account(tiers=tiers)])
                tiny = PodShape(Resources({"cpu": 1}))
                holder = service(1, shape=tiny, tier=FLAVORS[flavor])
                ledger = commitments_with(commitment(holder, held(a=used[f"{flavor}/cpu"]))).open(
                    snapshot
                )
                room, _ = ledger.quota_room("feed", "feed", FLAVORS[flavor], tiny.requests)
                assert room == case["expected"]["availableMilli"][queue["name"]][f"{flavor}/cpu"]
