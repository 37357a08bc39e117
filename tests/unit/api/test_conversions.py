"""From objects to the core's values and back: clusters, policies, quotas, capacity, decisions,
profiles.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from federator.api import (
    capacityfields,
    clustercapacity,
    federatedquota,
    membercluster,
    memberfields,
    placementfields,
    raw,
    runtimeprofile,
    structural,
)
from federator.api.placement import decisionfacts, placementdecision, placementpolicy, verdicttext
from federator.kinds import crds, read, registry
from federator.model.accounts import TierQuota
from federator.model.ask import Ask, PodShape, Tier, Unit
from federator.model.decision import Decision, Reason, Share, Verdict
from federator.model.fleet import Capacity, NodeRow
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.names import FLEET_LABEL, WorkloadKey
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.model.resources import Resources

CPU4 = Resources({"cpu": 4000, "memory": 16 << 30, "pods": 110})
ROW = NodeRow(
    3,
    CPU4,
    Resources({"cpu": 1500, "memory": 8 << 30, "pods": 90}),
    "A100",
    "p4d",
    (Taint("gpu", "yes"),),
)
SHAPE = PodShape(
    Resources({"cpu": 500, "memory": 1 << 30, "pods": 1}),
    '{"nodeSelector":{"a":"b"}}',
    (Toleration("gpu", "Exists"),),
    True,
)


def _schema_faults(kind: str, obj: dict[str, Any]) -> list[str]:
    row = registry.KINDS[kind]
    schema = crds.crd(row)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return [str(error) for error in structural.problems(obj, schema)]


def _cluster(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "east", "labels": {"zone": "a"}},
        "spec": spec or {},
        **({"status": status} if status is not None else {}),
    }


def test_capacity_comes_back_as_it_was_written_and_fits_the_schema() -> None:
    capacity = Capacity((ROW,), {SHAPE.id: 7}, (3 << 32) + 1, exact=False, packs=True)
    status = clustercapacity.from_capacity(
        capacity, observed_generation=4, error="at most 3 %", as_of_s=1_700_000_000.25
    )
    assert capacityfields.to_capacity(json.loads(json.dumps(status))) == capacity
    assert status["summary"] == "3 nodes, 4 of 12 cpu free"
    assert _schema_faults("ClusterCapacity", {"status": status}) == []
    on_host = capacityfields.from_capacity(capacity, as_of_s=0.0)
    assert membercluster.to_view(_cluster(status={"capacity": on_host}), 9.0).capacity == capacity


def test_shapes_come_back_as_they_were_asked_each_once_by_id() -> None:
    spec = clustercapacity.to_spec([SHAPE, SHAPE, replace(SHAPE, one_per_node=False)])
    obj = {"spec": json.loads(json.dumps(spec))}
    assert set(clustercapacity.shapes(obj)) == {SHAPE, replace(SHAPE, one_per_node=False)}
    assert clustercapacity.asked(obj)[SHAPE.id] == SHAPE
    assert _schema_faults("ClusterCapacity", {"spec": spec}) == []


@pytest.mark.parametrize(
    "status",
    [
        {"nodes": [{"count": -1}, {"count": "x"}, 7, {"count": True}]},
        {"copies": {"a": -3, "b": "9", "c": True}},
        {},
    ],
)
def test_capacity_from_a_member_that_lies_is_never_negative(status: dict[str, Any]) -> None:
    capacity = capacityfields.to_capacity(status)
    assert capacity.rows == ()
    assert all(copies >= 0 for copies in capacity.copies.values())


def test_amounts_that_cannot_be_read_give_no_room() -> None:
    status = {
        "nodes": [
            {
                "count": 1,
                "free": {"cpu": "NaN", "memory": "-1Gi", "pods": 1e400},
                "allocatable": None,
            }
        ]
    }
    (row,) = capacityfields.to_capacity(status).rows
    assert row.free == row.allocatable == Resources()


NODE = {
    "count": 1,
    "allocatable": {"cpu": "64", "memory": "1Ti", "example.com/fpga": "9P"},
    "free": {},
}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"nodes": [NODE | {"count": 10**18}]}, "more than 1000000"),
        ({"nodes": [NODE] * 10_000}, "10000 entries"),
        ({"copies": {str(number): 1 for number in range(300)}}, "300 entries"),
        ({"nodes": [NODE | {"allocatable": {"cpu": 10**18}}]}, "amount of cpu"),
        ({"nodes": [NODE | {"allocatable": {"cpu": "-1"}}]}, "amount of cpu"),
        ({"nodes": [NODE | {"allocatable": {"memory": "16Pi"}}]}, "amount of memory"),
        ({"nodes": [NODE | {"allocatable": {"r" * 400: "1"}}]}, "amount of rrrr"),
        (
            {"nodes": [NODE | {"allocatable": {f"r{number}": "1" for number in range(99)}}]},
            "99 resources",
        ),
        (
            {"nodes": [NODE | {"allocatable": {f"{i}{'r' * 290}": "1" for i in range(30)}}] * 200},
            "larger than",
        ),
    ],
)
def test_figures_that_no_cluster_has_are_named_and_read_within_bounds(
    status: dict[str, Any], told: str
) -> None:
    assert told in capacityfields.excess(status)
    capacity = capacityfields.to_capacity(status)
    written = clustercapacity.from_capacity(capacity)
    assert len(json.dumps(written)) < 1_400_000
    assert capacityfields.excess(json.loads(json.dumps(written))) == ""
    for row in capacity.rows:
        assert row.count <= 1_000_000
        assert row.allocatable["cpu"] <= 10**9
        assert max(row.allocatable.values(), default=0) <= 1 << 53


@pytest.mark.parametrize(
    "status", [{}, {"nodes": [NODE] * 256}, {"nodes": [{"count": 0}, {"count": -1}, 7, {}]}]
)
def test_figures_that_a_cluster_may_have_are_not_held_against_it(status: dict[str, Any]) -> None:
    assert capacityfields.excess(status) == ""


def test_a_cluster_is_seen_with_what_operators_and_the_hub_wrote() -> None:
    view = membercluster.to_view(
        _cluster(
            {
                "taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}],
                "usable": "92.5%",
                "cordoned": True,
                "tiers": ["Reserved"],
                "projects": ["ads"],
            },
            {"apis": ["Deployment.apps"], "conditions": [{"type": "Ready", "status": "True"}]},
        ),
        100.0,
    )
    assert (view.name, view.labels, view.taints) == ("east", {"zone": "a"}, (Taint("gpu", "only"),))
    assert (view.cordoned, view.usable_permille, view.ready, view.stale) == (True, 925, True, False)
    sets = (frozenset({"Deployment.apps"}), frozenset({Tier.RESERVED}), frozenset({"ads"}))
    assert (view.apis, view.tiers, view.projects) == sets
    assert view.capacity is None


def test_a_cluster_of_a_fleet_file_is_ready_and_serves_every_workload_kind() -> None:
    view = membercluster.to_view(_cluster(status={"capacity": {"nodes": []}}), 0.0)
    assert (view.ready, view.stale, view.usable_permille) == (True, False, 1000)
    gangs = {name for name, (_, kind) in registry.APIS.items() if kind == "PodGroup"}
    assert view.apis == set(registry.APIS) - gangs, "these are served where somebody says so"
    assert membercluster.to_view(_cluster(), 0.0).ready is False


def test_silence_makes_a_cluster_unready_and_stale_and_a_verdict_unready() -> None:
    unknown = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "1970-01-01T00:01:40Z"}
    view = membercluster.to_view(_cluster(status={"conditions": [unknown], "capacity": {}}), 160.0)
    assert (view.ready, view.stale, view.capacity_age_s) == (False, True, 60.0)
    refused = {
        "type": "Ready",
        "status": "False",
        "reason": "WrongCluster",
        "message": "It is another cluster.",
    }
    view = membercluster.to_view(_cluster(status={"conditions": [refused], "capacity": {}}), 160.0)
    assert (view.ready, view.stale, view.unready_reason) == (False, False, "it is another cluster")


@pytest.mark.parametrize(
    ("text", "permille"),
    [("", 1000), ("90%", 900), ("92.5%", 925), ("100%", 1000), ("0%", 0), ("999%", 1000), ("x", 0)],
)
def test_usable_is_read_in_thousandths(text: str, permille: int) -> None:
    assert memberfields.usable_permille(text) == permille


POLICY = {
    "apiVersion": "federation.pinterest.com/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "zonal", "namespace": "feed", "uid": "u", "generation": 4},
    "spec": {
        "workloads": {
            "kinds": ["PinterestService"],
            "matchLabels": {"app": "web"},
            "projects": ["p"],
        },
        "priority": 10,
        "clusters": {
            "names": ["a"],
            "exclude": ["b"],
            "selector": {"matchLabels": {"region": "r"}},
        },
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "spread": [
            {
                "topologyKey": "zone",
                "minDomains": 3,
                "maxSkew": 200,
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ],
        "division": {
            "strategy": "Weighted",
            "minPerCluster": 2,
            "maxPerCluster": 1500,
            "mode": "Fresh",
            "maxClusters": 4,
            "weights": [{"weight": 3, "names": ["a"]}],
            "groups": [{"name": "first", "selector": {"matchLabels": {"tier": "1"}}}],
        },
        "partial": "RequireAll",
        "rollout": {"maxClustersAtOnce": 2},
    },
}


def test_a_policy_is_read_whole() -> None:
    read.check(POLICY)
    assert placementpolicy.to_policy(POLICY, "policyRef") == Policy(
        name="zonal",
        namespace="feed",
        uid="u",
        generation=4,
        origin="policyRef",
        names=("a",),
        exclude=("b",),
        selector=LabelSelector((("region", "r"),)),
        tolerations=(Toleration("gpu", "Exists"),),
        spread=(SpreadRule("zone", 3, 200, hard=True),),
        division=Division(
            Strategy.WEIGHTED,
            2,
            1500,
            fresh=True,
            weights=(Weight(3, ("a",)),),
            groups=(Group("first", (), LabelSelector((("tier", "1"),))),),
            max_clusters=4,
        ),
        require_all=True,
        max_clusters_at_once=2,
    )
    assert placementpolicy.matching(POLICY) == {
        "names": frozenset(),
        "kinds": {"PinterestService"},
        "match_labels": {"app": "web"},
        "projects": {"p"},
        "priority": 10,
        "cluster_wide": False,
        "namespaces": frozenset(),
        "created_s": 0.0,
        "demand": None,
    }


def test_an_empty_policy_is_the_default_one_under_its_name() -> None:
    empty = {"kind": "ClusterPlacementPolicy", "metadata": {"name": "any"}, "spec": {}}
    assert placementpolicy.to_policy(empty, "match") == Policy(name="any", origin="match")
    assert placementpolicy.matching(empty)["cluster_wide"] is True
    assert placementfields.policy_from_inline({}) == Policy(name="", origin="inline")


def test_a_selector_that_is_not_valid_selects_nothing_rather_than_everything() -> None:
    broken = {"clusters": {"selector": {"matchLabels": {"a": 7}}}}
    selector = placementfields.policy_from_inline(broken).selector
    assert selector is not None
    assert not selector.matches({"a": "7"})
    assert not selector.matches({})


def test_a_quota_is_read_by_tier() -> None:
    quota = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "FederatedQuota",
        "metadata": {"name": "ads", "uid": "u", "generation": 2},
        "spec": {
            "parent": "company",
            "projects": ["ads"],
            "namespaces": ["ads", "ads-batch"],
            "tiers": {
                "Reserved": {"guaranteed": {"cpu": "2", "memory": "8Ti"}, "max": {"cpu": 3}},
                "OnDemand": {},
            },
            "maxPriority": 0,
            "maxConcurrentWorkloads": 500,
        },
    }
    read.check(quota)
    account = federatedquota.to_account(quota)
    assert account.tiers == {
        Tier.RESERVED: TierQuota(
            Resources({"cpu": 2000, "memory": 8 << 40}), Resources({"cpu": 3000})
        ),
        Tier.ON_DEMAND: TierQuota(),
    }
    assert (account.max_priority, account.max_concurrent, account.parent) == (0, 500, "company")
    assert (account.projects, account.namespaces) == (
        frozenset({"ads"}),
        frozenset({"ads", "ads-batch"}),
    )
    assert federatedquota.to_account({"spec": {}}).max_priority is None


KEY = WorkloadKey("PinterestService", "feed", "homefeed")
DECISION = Decision(
    key=KEY,
    uid="uid-1",
    wanted=30,
    shares=(Share("east", 12, 12, 5), Share("west", 12, 12, 7)),
    shortfall=6,
    reason=Reason.INSUFFICIENT_CAPACITY,
    message="6 of 30 copies find no room.",
    verdicts=(
        Verdict(
            "east", Reason.CHOSEN, "It takes 12.", 20, 12, 70, (("headroom", 50), ("held", 20))
        ),
        Verdict("west", Reason.CHOSEN, "It takes 12.", 12, 12, 40),
        *(
            Verdict(f"north-{i}", Reason.TAINTED, f"Taint gpu keeps it away from north-{i}.")
            for i in range(5)
        ),
        Verdict("south", Reason.CORDONED, "It is cordoned."),
    ),
    as_of=1_700_000_000.123456,
    inputs_hash="abcd",
    seq=7,
    policy_name="zonal",
    policy_uid="p",
    policy_generation=3,
    policy_origin="match",
    quota_generations={"ads": 4},
    unlimited_quota=True,
    violations=("zone: skew 12 > 10",),
)
ASK = Ask(KEY, "uid-1", 2, Unit.REPLICAS, 30, 30, SHAPE, "ads", Tier.RESERVED)


def _object(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        "name": "psvc-homefeed-1234",
        "namespace": "feed",
        "uid": "pd-uid",
        "resourceVersion": "9",
    }
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementDecision",
        "metadata": metadata,
        "spec": json.loads(json.dumps(spec)),
    }


def test_a_decision_is_written_and_read_back_with_what_the_ledger_needs() -> None:
    obj = _object(placementdecision.to_spec(DECISION, [f"cause {i}" for i in range(14)], ASK))
    read.check(obj)
    facts = decisionfacts.decision_facts(obj)
    assert (facts.key, facts.workload_uid, facts.uid, facts.resource_version) == (
        KEY,
        "uid-1",
        "pd-uid",
        "9",
    )
    assert facts.shares == DECISION.shares == decisionfacts.shares(obj)
    terms = facts.terms
    assert (facts.seq, terms.wanted, facts.placed, terms.shortfall) == (7, 30, 24, 6)
    assert (terms.reason, terms.message, facts.inputs_hash) == (
        DECISION.reason,
        DECISION.message,
        "abcd",
    )
    assert facts.as_of == pytest.approx(DECISION.as_of, abs=1e-6)
    assert (terms.project, terms.tier, terms.shape) == ("ads", Tier.RESERVED, SHAPE)
    assert (terms.policy_name, terms.policy_origin, terms.unlimited_quota) == (
        "zonal",
        "match",
        True,
    )
    assert terms.violations == DECISION.violations
    assert terms.causes == tuple(f"cause {i}" for i in range(4, 14))


def test_decisions_that_differ_in_their_shares_only_have_their_terms_in_common() -> None:
    one, other = (
        decisionfacts.decision_facts(
            _object(placementdecision.to_spec(replace(DECISION, uid=uid), [], ASK))
        )
        for uid in ("uid-1", "uid-2")
    )
    assert one.terms is other.terms
    assert one.workload_uid != other.workload_uid
    short = replace(DECISION, shortfall=DECISION.shortfall + 1)
    assert (
        decisionfacts.decision_facts(_object(placementdecision.to_spec(short, [], ASK))).terms
        != one.terms
    )


def test_shares_of_a_job_set_keep_their_pieces() -> None:
    shares = (Share("east", 20, 5, 7, ((0, 9), (10, 19))),)
    decision = replace(DECISION, shares=shares, wanted=20, shortfall=0)
    had = Share("west", 5, 0, 0, ((20, 24),))
    obj = _object(
        placementdecision.to_spec(decision, [], replace(ASK, unit=Unit.SHARDS), given=[had])
    )
    assert obj["spec"]["shares"] == [
        {"cluster": "east", "seq": 7, "ranges": "0-9,10-19", "slots": 5}
    ]
    assert obj["spec"]["given"] == [{"cluster": "west", "ranges": "20-24"}]
    facts = decisionfacts.decision_facts(obj)
    assert (facts.shares, facts.given, facts.records_given) == (shares, (had,), True)
    read.check(obj)
    del obj["spec"]["given"]
    older = decisionfacts.decision_facts(obj)
    assert (older.given, older.records_given) == ((), False), (
        "made by a version that did not record it"
    )


def test_a_decision_that_nobody_wrote_is_read_without_raising() -> None:
    facts = decisionfacts.decision_facts(
        {"metadata": {"deletionTimestamp": "x"}, "spec": {"reason": 7, "shares": [3]}}
    )
    assert (facts.terms.reason, facts.terms.shape) == (Reason.PENDING_EVALUATION, None)
    assert (facts.shares, facts.deleting) == ((), True)


def test_verdicts_name_the_chosen_in_full_and_group_the_rejected() -> None:
    verdicts = placementdecision.to_spec(DECISION, [])["verdicts"]
    assert [row["cluster"] for row in verdicts["chosen"]] == ["east", "west"]
    assert verdicts["chosen"][0]["terms"] == {"headroom": 50, "held": 20}
    assert verdicts["rejected"] == [
        {
            "reason": "Tainted",
            "count": 5,
            "clusters": ["north-0", "north-1", "north-2"],
            "message": "Taint gpu keeps it away from north-0.",
        },
        {"reason": "Cordoned", "count": 1, "clusters": ["south"], "message": "It is cordoned."},
    ]


@pytest.mark.parametrize("clusters", [10, 200, 1000])
def test_verdicts_never_exceed_32_kib_and_lose_the_smallest_first(clusters: int) -> None:
    terms = tuple((f"term-{i}", i) for i in range(5))
    chosen = [
        Verdict(f"c-{i:04}", Reason.CHOSEN, "x" * 200, 9, clusters - i, 9, terms)
        for i in range(clusters)
    ]
    body = verdicttext.summarise(chosen)
    assert len(json.dumps(body, separators=(",", ":")).encode()) <= verdicttext.MAX_BYTES
    assert len(body["chosen"]) + body.get("chosenNotShown", 0) == clusters
    assert body["chosen"][0]["cluster"] == "c-0000"
    assert ("terms" in body["chosen"][0]) == (clusters == 10)


def test_a_profile_is_known_by_its_content_whatever_the_order_of_its_keys() -> None:
    one = {
        "metadata": {"name": "default", "uid": "x"},
        "spec": {"version": "1", "env": [{"name": "a", "value": "b"}]},
    }
    two = {
        "metadata": {"name": "other"},
        "spec": {"env": [{"value": "b", "name": "a"}], "version": "1"},
    }
    assert runtimeprofile.content_hash(one) == runtimeprofile.content_hash(two)
    assert runtimeprofile.content_hash({"spec": {"version": "2"}}) != runtimeprofile.content_hash(
        one
    )
    copy = runtimeprofile.member_copy(one, "fleet-1")
    assert copy["metadata"] == {
        "name": f"default-{runtimeprofile.content_hash(one)}",
        "labels": {FLEET_LABEL: "fleet-1"},
    }
    assert runtimeprofile.content_hash(copy) == runtimeprofile.content_hash(one)


@pytest.mark.parametrize("moment", [0.0, 1_700_000_000.5, 1_700_000_000.123456])
def test_times_come_back_as_the_same_instant(moment: float) -> None:
    assert raw.epoch_s(raw.rfc3339(moment)) == pytest.approx(moment, abs=1e-6)
    assert raw.epoch_s("not a time") == raw.epoch_s("2026-01-01T00:00:00") == 0.0
