"""Native statuses of all clusters in one status of the same shape, kind by kind."""

from collections.abc import Mapping
from typing import Any

import pytest

from federator.status import aggregate

Status = Mapping[str, Any]


def aggregated(obj: Mapping[str, Any], **statuses: Status) -> dict[str, Any] | None:
    """`statuses`: cluster -> status of its copy."""
    return aggregate.of(
        obj, [aggregate.MemberStatus(cluster, status) for cluster, status in statuses.items()]
    )


def conditions(*types: str, status: str = "True") -> list[dict[str, str]]:
    return [{"type": kind, "status": status} for kind in types]


@pytest.mark.parametrize("obj", [{}, {"kind": "ConfigMap"}, {"kind": "StatefulSet"}])
def test_a_kind_without_a_rule_has_no_aggregated_status(obj: Mapping[str, Any]) -> None:
    assert aggregated(obj, a={"replicas": 1}) is None


def test_a_deployment_has_the_sums_of_the_counters_that_a_cluster_reports() -> None:
    a = {"replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "observedGeneration": 7}
    b = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "readyReplicas": "2"}
    c = {"unavailableReplicas": 5}
    assert aggregated({"kind": "Deployment"}, a=a, b=b, c=c, d={}) == {
        "replicas": 6,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 1,
        "unavailableReplicas": 5,
    }


ONE, TWO, THREE = {"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}, {"hostname": "lb.example"}
BALANCED = {"kind": "Service", "spec": {"type": "LoadBalancer"}}


def balanced(*addresses: Mapping[str, str]) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": [*addresses]}}


@pytest.mark.parametrize("obj", [BALANCED, {"kind": "Ingress"}])
def test_a_load_balancer_has_each_address_of_all_clusters_once_by_cluster(
    obj: Mapping[str, Any],
) -> None:
    assert aggregated(obj, b=balanced(THREE, ONE), a=balanced(ONE, TWO)) == balanced(
        ONE, TWO, THREE
    )
    assert aggregated(obj, a={}, b={"loadBalancer": {"ingress": "none"}}) == {"loadBalancer": {}}


@pytest.mark.parametrize("spec", [{}, {"type": "ClusterIP"}])
def test_a_service_of_another_type_has_no_addresses(spec: Mapping[str, str]) -> None:
    assert aggregated({"kind": "Service", "spec": spec}, a=balanced(ONE)) == {}


def verdict(kind: str, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


DONE = conditions("SuccessCriteriaMet", "Complete")
FAILED = conditions("FailureTarget", "Failed")
JOBS: Mapping[str, tuple[Mapping[str, Status], Status]] = {
    "no cluster reports anything": ({"a": {}}, {}),
    "no cluster": ({}, {}),
    "counters and the earliest start": (
        {
            "a": {"active": 2, "ready": 1, "startTime": "2026-01-02T00:00:00Z"},
            "b": {"active": 1, "succeeded": 4, "failed": 3, "startTime": "2026-01-01T00:00:00Z"},
        },
        {"active": 3, "ready": 1, "succeeded": 4, "failed": 3, "startTime": "2026-01-01T00:00:00Z"},
    ),
    "complete in one of two clusters": (
        {"a": {"conditions": DONE, "completionTime": "2026-01-01T00:00:00Z"}, "b": {"active": 1}},
        {"active": 1},
    ),
    "a condition that is not true": (
        {"a": {"conditions": conditions("Complete", "Failed", status="False")}},
        {},
    ),
    "complete in its only cluster": (
        {"a": {"conditions": DONE}},
        {
            "conditions": [
                verdict("Complete", "Completed", "The Job completed in a."),
                verdict(
                    "SuccessCriteriaMet", "CompletionsReached", "All completions were reached in a."
                ),
            ]
        },
    ),
    "complete in both clusters, with the latest end": (
        {
            "a": {"conditions": DONE, "completionTime": "2026-01-03T00:00:00Z"},
            "b": {"conditions": DONE, "completionTime": "2026-01-02T00:00:00Z"},
        },
        {
            "completionTime": "2026-01-03T00:00:00Z",
            "conditions": [
                verdict("Complete", "Completed", "The Job completed in all 2 clusters."),
                verdict(
                    "SuccessCriteriaMet",
                    "CompletionsReached",
                    "All completions were reached in all 2 clusters.",
                ),
            ],
        },
    ),
    "failed in two clusters, complete in another": (
        {"a": {"conditions": DONE}, "c": {"conditions": FAILED}, "b": {"conditions": FAILED}},
        {"conditions": [verdict("Failed", "JobFailed", "The Job failed in b, c.")]},
    ),
}


@pytest.mark.parametrize("case", JOBS)
def test_a_job_ends_with_the_first_failure_or_when_all_clusters_are_complete(case: str) -> None:
    statuses, expected = JOBS[case]
    assert aggregated({"kind": "Job"}, **statuses) == expected


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_the_status_of_a_job_that_has_ended_does_not_change(end: str) -> None:
    ended = {"succeeded": 3, "conditions": conditions(end)}
    assert aggregated({"kind": "Job", "status": ended}, a={"active": 1}) == ended
    running = {"succeeded": 3, "conditions": conditions(end, status="False")}
    assert aggregated({"kind": "Job", "status": running}, a={"active": 1}) == {"active": 1}


@pytest.mark.parametrize(
    ("ready", "settled", "failed", "available", "progressing"),
    [
        (10, True, None, ("True", "MinimumReplicasAvailable"), ("True", "NewReplicaSetAvailable")),
        (8, False, None, ("True", "MinimumReplicasAvailable"), ("True", "ReplicaSetUpdated")),
        (7, False, None, ("False", "MinimumReplicasUnavailable"), ("True", "ReplicaSetUpdated")),
        (
            8,
            False,
            ("ProgressDeadlineExceeded", "a is late"),
            ("True", "MinimumReplicasAvailable"),
            ("False", "ProgressDeadlineExceeded"),
        ),
    ],
)
def test_a_deployment_has_the_conditions_that_tools_wait_for(
    ready: int,
    settled: bool,
    failed: tuple[str, str] | None,
    available: tuple[str, str],
    progressing: tuple[str, str],
) -> None:
    made = aggregate.deployment_conditions(
        wanted=10, ready=ready, max_unavailable=2, settled=settled, failed=failed
    )

    told = {one.type: (one.status, one.reason) for one in made}
    assert told == {"Available": available, "Progressing": progressing}


def test_a_paused_deployment_progresses_neither_nor_fails() -> None:
    """With the reason by which `kubectl rollout status` and Argo CD know that it is paused."""
    _, progressing = aggregate.deployment_conditions(
        wanted=10,
        ready=8,
        max_unavailable=2,
        settled=False,
        paused=True,
        failed=("Late", "a is late"),
    )

    assert (progressing.type, progressing.status, progressing.reason, progressing.message) == (
        "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused",
    )  # fmt: skip
