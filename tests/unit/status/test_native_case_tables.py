"""Health and aggregation of native kinds against the peers' case tables; what is left out is named
with its reason.
"""

from collections.abc import Mapping
from typing import Any

from federator.status import aggregate, health
from tests import casetables

LATER = "this kind is carried or expanded by a later issue"
LEFT_OUT = {
    "Pod": "pods are never carried; the member reads their troubles instead",
    "PersistentVolume": "cluster-scoped storage is never carried",
    "PersistentVolumeClaim": LATER,
    "JobFinished": "a helper of the peer; our rule is part of the Job cases",
    "PodDisruptionBudget": LATER,
    "DaemonSet": "a PinterestDaemon adds up its nodes itself, and a plain one is not carried",
    "StatefulSet": LATER,
    "ReplicaSet": "ReplicaSets belong to their Deployment and are never carried",
    "HorizontalPodAutoscaler": LATER,
    "CronJob": LATER,
}


def without_words(status: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions compare by type, status and reason: sentences are each project's own."""
    plain = dict(status)
    if "conditions" in plain:
        plain["conditions"] = [
            {name: c.get(name) for name in ("type", "status", "reason")}
            for c in plain["conditions"]
        ]
    return plain


def check_aggregation(case: Mapping[str, Any]) -> None:
    given = case["input"]
    members = [
        aggregate.MemberStatus(m["cluster"], m.get("status") or {}) for m in given["memberStatuses"]
    ]
    got = aggregate.of(given["object"], members) or {}
    want = case["expected"]["status"]
    if "note" in case["expected"]:
        got = {name: value for name, value in got.items() if name in want}
    if got == {"loadBalancer": {}}:
        got = {}
    assert without_words(got) == without_words(want), case["name"]
    for condition in got.get("conditions", ()):
        failed = [m.cluster for m in members if "Failed" in str(m.status.get("conditions"))]
        assert all(cluster in condition["message"] for cluster in failed)


def check_health(case: Mapping[str, Any]) -> None:
    obj = {"kind": case["kind"], **case["input"]["object"]}
    got = health.of(obj)
    assert got.healthy == case["expected"]["healthy"], case["name"]
    assert got.healthy or got.message.endswith(".")


def test_aggregation_agrees_with_the_case_table() -> None:
    cases = casetables.cases("status_aggregation_native")
    taken = [case for case in cases if case["kind"] in aggregate.AGGREGATORS]
    assert {case["kind"] for case in cases} == set(aggregate.AGGREGATORS) | (
        LEFT_OUT.keys() - {"ReplicaSet"}
    )
    assert len(taken) == 14
    for case in taken:
        check_aggregation(case)


def test_health_agrees_with_the_case_table() -> None:
    cases = casetables.cases("status_health_native")
    taken = [case for case in cases if case["kind"] in health.HEALTH]
    assert {case["kind"] for case in cases} <= set(health.HEALTH) | LEFT_OUT.keys()
    assert len(taken) == 17
    for case in taken:
        check_health(case)


def test_a_failed_job_is_ill_and_a_running_one_is_well() -> None:
    assert health.of({"kind": "Job", "status": {"active": 3}}).healthy
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "too many",
    }
    got = health.of({"kind": "Job", "status": {"conditions": [failed]}})
    assert (got.healthy, got.reason) == (False, "BackoffLimitExceeded")


def test_a_route_is_well_once_its_gateways_have_taken_all_of_it() -> None:
    def route(*parents: Any) -> health.Health:
        return health.of({"kind": "HTTPRoute", "status": {"parents": list(parents)}})

    taken = {"conditions": [{"type": "Accepted", "status": "True"}]}
    refused = {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound"}
    assert route(taken).healthy
    assert route().reason == "NotAccepted"
    found = route(taken, {"conditions": [{**refused, "message": "no such Service"}]})
    assert (found.healthy, found.reason, found.message) == (
        False,
        "BackendNotFound",
        "no such Service",
    )


def test_an_export_is_well_unless_its_controller_says_otherwise() -> None:
    def export(*conditions: Any) -> health.Health:
        return health.of({"kind": "ServiceExport", "status": {"conditions": list(conditions)}})

    assert export().healthy
    assert export({"type": "Valid", "status": "True"}).healthy
    clash = {"type": "Conflict", "status": "True", "reason": "PortConflict", "message": "ports"}
    assert (export(clash).reason, export(clash).message) == ("PortConflict", "ports")


def test_a_strange_status_is_judged_and_never_raises() -> None:
    strange: Any
    for kind in health.HEALTH:
        for strange in (
            None,
            [],
            "x",
            {"loadBalancer": 3, "conditions": {"a": 1}, "updatedReplicas": "many"},
        ):
            health.of({"kind": kind, "status": strange, "spec": {"replicas": 1}})
