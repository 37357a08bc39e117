"""Edits of what runs: tables of what is admitted, and for any sequence of edits that what runs
stays and stays paid.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Admitted, Ask, Tier, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import Commitment, FleetSnapshot, Holding
from federator.model.policy import DEFAULT_POLICY, Division, Strategy
from federator.model.resources import Resources
from federator.placement import everynode
from federator.placement.room.commitments import Commitments
from federator.scheduling import editing
from tests.examples import examples
from tests.unit.placement.fleets import (
    POD,
    cluster,
    commitment,
    commitments_with,
    counts,
    fleet,
    held,
    holdings,
    jobs,
    service,
)


def account(name: str = "feed", cpu: int = 10, **more: Any) -> QuotaAccount:
    """An account of the project of its name."""
    tiers = {Tier.ON_DEMAND: TierQuota(maximum=Resources({"cpu": cpu * 1000}))}
    return replace(
        QuotaAccount(name, projects=frozenset({name}), tiers=tiers, defaults=Resources()), **more
    )


def admitted(ask: Ask, **more: Any) -> Admitted:
    return replace(
        Admitted(ask.generation, ask.shape, ask.project, ask.tier, ask.priority, ask.slots), **more
    )


def sized(ask: Ask, cpu: int, **more: Any) -> Ask:
    """The workload after an edit: copies of so many thousandths of a cpu."""
    shape = replace(ask.shape, requests=Resources({**ask.shape.requests, "cpu": cpu}))
    return replace(ask, shape=shape, generation=ask.generation + 1, **more)


def edited(
    now: Ask, before: Ask, snapshot: FleetSnapshot, mine: tuple[Holding, ...], **more: Any
) -> Decision:
    commitments = more.pop("commitments", None) or commitments_with(commitment(before, mine))
    charged = more.pop("charged", None) or admitted(before)
    return editing.decide(
        now, mine, snapshot, commitments.open(snapshot), seq=9, admitted=charged, **more
    )


WEB = service(5)
RUNS = held(a=5)

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Reason]] = {
    "the same size": ({"cpu": 1000}, {}, Reason.CHOSEN),
    "a raise that fits": ({"cpu": 2000}, {}, Reason.CHOSEN),
    "a raise by one thousandth too much": ({"cpu": 2001}, {}, Reason.QUOTA_EXCEEDED),
    "a raise of fewer copies": ({"cpu": 5000, "count": 2, "slots": 2}, {}, Reason.CHOSEN),
    "a raise of fewer copies that is too much": (
        {"cpu": 5001, "count": 2, "slots": 2},
        {},
        Reason.QUOTA_EXCEEDED,
    ),
    "a shrink": ({"cpu": 10}, {}, Reason.CHOSEN),
    "a shrink over a lowered quota": ({"cpu": 900}, {"cpu": 1}, Reason.CHOSEN),
    "as much as before over a lowered quota": ({"cpu": 1000}, {"cpu": 1}, Reason.CHOSEN),
    "another project": ({"cpu": 1000, "project": "ads"}, {}, Reason.QUOTA_EXCEEDED),
    "another tier without limits": ({"cpu": 9000, "tier": Tier.RESERVED}, {}, Reason.CHOSEN),
    "a priority within bounds": ({"cpu": 1000, "priority": 5}, {"max_priority": 5}, Reason.CHOSEN),
    "a priority beyond bounds": (
        {"cpu": 1000, "priority": 6},
        {"max_priority": 5},
        Reason.PRIORITY_EXCEEDS_MAX,
    ),
    "a project of nobody": ({"cpu": 1000, "project": "other"}, {}, Reason.NOT_ALLOWED),
    "more than any node has": ({"cpu": 60_000}, {"cpu": 1000}, Reason.INSUFFICIENT_CAPACITY),
    "more than the clusters have": ({"cpu": 20_000}, {"cpu": 1000}, Reason.INSUFFICIENT_CAPACITY),
}


EVERY_NODE = service(
    1,
    policy=everynode.policy_of(DEFAULT_POLICY),
    shape=replace(POD, one_per_node=True, every_node=True),
)
ON_NODES = (Holding("a", 1, 1, 1, nodes=8), Holding("b", 1, 1, 1, nodes=4))
DAEMONS: dict[str, tuple[Ask, int, Reason]] = {
    "a smaller template": (sized(EVERY_NODE, 500), 12, Reason.CHOSEN),
    "as much as before over a lowered quota": (sized(EVERY_NODE, 1000), 8, Reason.CHOSEN),
    "twice as much on each node": (sized(EVERY_NODE, 2000), 24, Reason.CHOSEN),
    "more than quota on one node": (sized(EVERY_NODE, 2000), 23, Reason.QUOTA_EXCEEDED),
    "another tier that has enough": (
        sized(EVERY_NODE, 1000, tier=Tier.RESERVED),
        12,
        Reason.CHOSEN,
    ),
    "another tier that lacks one node": (
        sized(EVERY_NODE, 1000, tier=Tier.RESERVED),
        11,
        Reason.QUOTA_EXCEEDED,
    ),
    "another project that lacks one node": (
        sized(EVERY_NODE, 1000, project="ads"),
        11,
        Reason.QUOTA_EXCEEDED,
    ),
    "more than is free": (sized(EVERY_NODE, 8000), 999, Reason.CHOSEN),
    "more than any node has": (sized(EVERY_NODE, 9000), 999, Reason.INSUFFICIENT_CAPACITY),
}


@pytest.mark.parametrize("case", DAEMONS)
def test_an_edit_of_a_daemon_is_judged_on_every_node(case: str) -> None:
    now, cpu, reason = DAEMONS[case]
    limit = TierQuota(maximum=Resources({"cpu": cpu * 1000}))
    tiers = {Tier.ON_DEMAND: limit, Tier.RESERVED: limit}
    quotas = [account(name, tiers=tiers) for name in ("feed", "ads")]
    snapshot = fleet(cluster("a", 8, nodes=8), cluster("b", 8, nodes=4), quotas=quotas)
    decision = edited(now, EVERY_NODE, snapshot, ON_NODES)
    assert (decision.reason, decision.held_back) == (reason, 0 if reason is Reason.CHOSEN else 2)
    assert {share.cluster: share.nodes for share in decision.shares} == {"a": 8, "b": 4}


@pytest.mark.parametrize("case", CASES)
def test_what_asks_for_more_is_admitted_or_leaves_the_old_in_force(case: str) -> None:
    edit, limits, reason = CASES[case]
    quotas = [account(**limits), account("ads", 4)]
    now = sized(WEB, edit.pop("cpu"), **edit) if "cpu" in edit else WEB
    decision = edited(now, WEB, fleet(cluster("a", 50), quotas=quotas), RUNS)
    assert decision.reason is reason
    assert sum(counts(decision).values()) == now.count
    assert decision.held_back == (0 if reason is Reason.CHOSEN else 2)
    if decision.held_back:
        assert decision.under is not None
        assert (decision.under.shape, decision.under.project, decision.under.tier) == (
            POD,
            "feed",
            Tier.ON_DEMAND,
        )
        assert "generation 1 stays in force" in decision.message
    elif (now.project, now.tier) == (WEB.project, WEB.tier):
        assert decision.under is None
    else:
        assert decision.under is not None
        (former,) = decision.under.former
        assert (former.project, former.tier, former.copies) == (WEB.project, WEB.tier, WEB.count)


def test_the_refusal_has_the_numbers() -> None:
    decision = edited(
        sized(WEB, 16_000), WEB, fleet(cluster("a", 500), quotas=[account(cpu=20)]), RUNS
    )
    for part in (
        "generation 2 asks for 80 cpu of project feed",
        "5 running copies of 16",
        "allows 20",
    ):
        assert part in decision.message


def test_what_others_hold_counts_and_ones_own_does_not() -> None:
    other = commitment(service(4, name="other"), held(a=4))
    commitments = commitments_with(other, commitment(WEB, RUNS))
    snapshot = fleet(cluster("a", 50), quotas=[account(cpu=10)])
    assert edited(sized(WEB, 1200), WEB, snapshot, RUNS, commitments=commitments).held_back == 0
    refused = edited(sized(WEB, 1201), WEB, snapshot, RUNS, commitments=commitments)
    assert refused.held_back == 2
    assert (
        refused.message.count(
            "allows 10 (spec.tiers.OnDemand.max.cpu), of which too little is left"
        )
        == 1
    )


def test_a_greater_count_of_the_same_takes_what_fits() -> None:
    more = replace(WEB, count=15, slots=15, generation=2)
    decision = edited(more, WEB, fleet(cluster("a", 50), quotas=[account()]), RUNS)
    assert (counts(decision), decision.held_back, decision.shortfall) == ({"a": 10}, 0, 5)


def test_while_an_edit_is_held_back_the_count_may_fall_and_not_rise() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account()])
    more = edited(sized(WEB, 9000, count=8, slots=8), WEB, snapshot, RUNS)
    assert (counts(more), more.wanted, more.shortfall) == ({"a": 5}, 8, 3)
    fewer = edited(sized(WEB, 9000, count=2, slots=2), WEB, snapshot, RUNS)
    assert (counts(fewer), fewer.wanted, fewer.shortfall) == ({"a": 2}, 2, 0)


def test_the_generation_that_was_admitted_is_never_held_back() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account()])
    grown = replace(sized(WEB, 9000), generation=1)  # an operator's RuntimeProfile
    decision = edited(grown, WEB, snapshot, RUNS)
    assert (decision.held_back, decision.under) == (0, None)


def test_of_a_decision_that_does_not_say_what_it_admitted_only_more_is_held_back() -> None:
    snapshot = fleet(cluster("a", 50), quotas=[account()])
    old = admitted(WEB, generation=0, priority=None, count=None)
    assert edited(sized(WEB, 1000), WEB, snapshot, RUNS, charged=old).held_back == 0
    refused = edited(sized(WEB, 9000, count=9, slots=9), WEB, snapshot, RUNS, charged=old)
    assert refused.held_back == 2
    assert "what was admitted before stays in force" in refused.message


def test_nothing_moves_for_the_sake_of_an_edit_that_is_held_back() -> None:
    policy = replace(DEFAULT_POLICY, division=Division(Strategy.SPREAD, fresh=True))
    web = replace(WEB, policy=policy)
    snapshot = fleet(cluster("a", 50), cluster("b", 50), quotas=[account()])
    assert counts(edited(sized(web, 9000), web, snapshot, RUNS)) == {"a": 5}


def test_shards_that_run_are_charged_the_larger_of_both() -> None:
    batch = jobs(10, 5)
    mine = (Holding("a", 10, 5, 1, ((0, 9),)),)
    snapshot = fleet(cluster("a", 50), quotas=[account()])
    smaller = edited(sized(batch, 100), batch, snapshot, mine)
    assert smaller.under is not None
    assert smaller.under.shape.requests["cpu"] == 1000
    assert (smaller.held_back, smaller.reason) == (0, Reason.CHOSEN)
    done = edited(sized(batch, 100), batch, snapshot, mine, finished=((0, 9),))
    assert done.under is None


def test_a_cluster_that_is_not_heard_does_not_stand_in_the_way() -> None:
    snapshot = fleet(cluster("a", 5, stale=True), quotas=[account(cpu=100)])
    assert edited(sized(WEB, 2000), WEB, snapshot, RUNS).held_back == 0


@dataclass
class Tenant:
    """One workload through a sequence of edits, as the hub keeps it."""

    ask: Ask
    holds: tuple[Holding, ...] = ()
    charged: Admitted | None = None


@dataclass
class Town:
    """Some workloads, their quotas, and the sums that a bookkeeper who has never seen the ledger
    makes of them.
    """

    snapshot: FleetSnapshot
    tenants: dict[str, Tenant] = field(default_factory=dict)
    commitments: Commitments = field(default_factory=Commitments)
    seq: int = 0

    def used(self) -> dict[tuple[str, Tier], int]:
        totals: dict[tuple[str, Tier], int] = {}
        for one in self.tenants.values():
            if one.charged is not None:
                key, copies = (
                    (one.charged.project, one.charged.tier),
                    sum(min(h.slots, h.count) for h in one.holds),
                )
                totals[key] = totals.get(key, 0) + copies * one.charged.shape.requests["cpu"]
        return totals

    def decide(self, name: str) -> Decision:
        one, self.seq = self.tenants[name], self.seq + 1
        ledger = self.commitments.open(self.snapshot)
        decision = editing.decide(
            one.ask, one.holds, self.snapshot, ledger, seq=self.seq, admitted=one.charged
        )
        under = decision.under or one.ask
        self.commitments.record(Commitment.of(under, decision.shares))
        one.holds, one.charged = holdings(decision.shares), admitted(under)
        return decision


PROJECTS = ("feed", "ads", "nobodys")
EDIT = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from((100, 500, 1000, 3000, 20_000)),
        "count": st.integers(0, 12),
        "project": st.sampled_from(PROJECTS),
        "tier": st.sampled_from((Tier.ON_DEMAND, Tier.RESERVED)),
        "priority": st.sampled_from((0, 10)),
    },
)
STEP = st.one_of(
    st.tuples(st.sampled_from(("one", "two", "three")), EDIT),
    st.tuples(st.sampled_from(("feed", "ads")), st.integers(1, 12)),
)


@examples(150)
@given(st.lists(STEP, max_size=14), st.sampled_from(list(Unit)))
@example(
    [("two", {"count": 5}), ("two", {"cpu": 100, "count": 3})], Unit.SHARDS
)  # shards beyond it, in two clusters
def test_for_any_edits_what_runs_stays_and_no_account_grows_beyond_its_limit(
    steps: list[tuple[str, Any]], unit: Unit
) -> None:
    town = Town(
        fleet(cluster("a", 40), cluster("b", 40), quotas=[limited("feed", 6), limited("ads", 3)])
    )
    make = service if unit is Unit.REPLICAS else jobs
    for name in ("one", "two", "three"):
        ask = service(3, name=name) if make is service else jobs(3, 3, name=name)
        town.tenants[name] = Tenant(ask)
        town.decide(name)
    for name, change in steps:
        before = town.used()
        if isinstance(change, int):
            quotas = [
                limited(name, change) if one.name == name else one for one in town.snapshot.quotas
            ]
            town.snapshot = replace(town.snapshot, quotas=tuple(quotas))
            for each in town.tenants:
                town.decide(each)
        else:
            edit(town.tenants[name], change)
            ran = sum(min(one.slots, one.count) for one in town.tenants[name].holds)
            decision = town.decide(name)
            runs = sum(min(share.slots, share.count) for share in decision.shares)
            assert runs >= min(ran, town.tenants[name].ask.slots)
        for owner in town.snapshot.quotas:
            for (project, tier), used in town.used().items():
                limit = owner.tiers[tier].maximum or Resources()
                if project in owner.projects:
                    assert used <= max(limit["cpu"], before.get((project, tier), 0))
                assert project != "nobodys" or not used


def limited(name: str, cpu: int) -> QuotaAccount:
    """Limits in two tiers, and a bound on priority."""
    both = {
        tier: TierQuota(maximum=Resources({"cpu": cpu * 1000}))
        for tier in (Tier.ON_DEMAND, Tier.RESERVED)
    }
    return account(name, tiers=both, max_priority=5)


def edit(tenant: Tenant, change: dict[str, Any]) -> None:
    given = dict(change)
    if "count" in given:
        given["slots"] = given["count"]
    tenant.ask = sized(tenant.ask, given.pop("cpu", tenant.ask.shape.requests["cpu"]), **given)


@pytest.mark.parametrize(
    ("edit", "stays"),
    [
        ({"cpu": 9000, "count": 2, "slots": 2}, "; the template of generation 1 stays in force"),
        ({"cpu": 9000}, "; the template of generation 1 stays in force"),
        ({"cpu": WEB.shape.requests["cpu"], "project": "ads"}, "; generation 1 stays in force"),
    ],
)
def test_replicas_are_not_said_to_stay_as_they_were(edit: dict[str, Any], stays: str) -> None:
    """Fewer replicas are taken immediately, while the rest of the edit waits."""
    now = sized(WEB, **edit)
    snapshot = fleet(cluster("a", 50), quotas=[account(), account("ads", 1)])
    decision = edited(now, WEB, snapshot, RUNS)

    assert stays in decision.message
    assert sum(counts(decision).values()) == now.count
