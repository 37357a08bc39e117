"""Pods that their namespace's Pod Security level forbids: what controllers say, and how they try
again.

Reasons, messages and pace are those of a real controller manager 1.36 beside its API server.
"""

from typing import Any

import pytest

from federator.embedded.controllers import NodePool
from tests.unit.embedded.controllers.clusters import Cluster, Obj, deployment, job, play, template
from tests.unit.embedded.controllers.test_sets import daemon, stateful

LABEL = "pod-security.kubernetes.io/enforce"
SENTENCE = 'is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'


def hostile(app: str, **spec: Any) -> Obj:
    return template(app, hostPID=True, **spec)


def guard(cluster: Cluster, **labels: str) -> None:
    cluster.relabel("Namespace", "default", {LABEL: "baseline", **labels})


def failed(cluster: Cluster, kind: str) -> list[Obj]:
    return [
        event
        for event in cluster.all("Event")
        if event["reason"] == "FailedCreate" and event["involvedObject"]["kind"] == kind
    ]


def free(cluster: Cluster) -> None:
    cluster.relabel("Namespace", "default", {})


def test_a_deployment_says_why_it_has_no_pods_and_recovers() -> None:
    async def story(cluster: Cluster) -> None:
        guard(cluster)
        cluster.create("Deployment", deployment(pod=hostile("web")))
        await cluster.pass_s(5)
        assert cluster.pods() == []
        (owned,) = cluster.all("ReplicaSet")
        of_set = cluster.condition("ReplicaSet", owned["metadata"]["name"], "ReplicaFailure")
        assert (of_set["status"], of_set["reason"]) == ("True", "FailedCreate")
        assert of_set["message"].startswith(f'pods "{owned["metadata"]["name"]}-')
        assert of_set["message"].endswith(SENTENCE)
        whole = cluster.condition("Deployment", "web", "ReplicaFailure")
        assert (whole["status"], whole["reason"], whole["message"]) == (
            "True",
            "FailedCreate",
            of_set["message"],
        )
        assert cluster.status("Deployment", "web")["unavailableReplicas"] == 3
        events = failed(cluster, "ReplicaSet")
        assert events[0]["message"].startswith('Error creating: pods "web-')
        assert events[0]["type"] == "Warning"

        free(cluster)
        await cluster.pass_s(30)
        assert len(cluster.pods("Running")) == 3
        assert cluster.condition("Deployment", "web", "ReplicaFailure") == {}
        assert cluster.condition("ReplicaSet", owned["metadata"]["name"], "ReplicaFailure") == {}
        assert cluster.condition("Deployment", "web", "Available")["status"] == "True"

    play(story, events=500)


def test_what_runs_stays_when_a_roll_out_is_refused() -> None:
    async def story(cluster: Cluster) -> None:
        guard(cluster)
        cluster.create("Deployment", deployment())
        await cluster.pass_s(10)
        cluster.edit("Deployment", "web", template=hostile("web"))
        await cluster.pass_s(10)
        assert len(cluster.pods("Running")) == 3
        assert cluster.condition("Deployment", "web", "ReplicaFailure")["message"].endswith(
            SENTENCE
        )
        cluster.edit("Deployment", "web", template=template("web", cpu="50m"))
        await cluster.pass_s(60)
        assert cluster.condition("Deployment", "web", "ReplicaFailure") == {}

    play(story)


def test_it_is_tried_again_twice_as_late_each_time() -> None:
    async def story(cluster: Cluster) -> None:
        guard(cluster)
        cluster.create("Deployment", deployment(pod=hostile("web")))
        await cluster.pass_s(3600)
        # 5 ms doubled up to 1,000 s: 18 tries come to 655 s, four more to 3,600 s.
        assert 15 <= len(failed(cluster, "ReplicaSet")) <= 24

    play(story, events=500)


@pytest.mark.parametrize(
    ("kind", "obj", "says"),
    [
        (
            "StatefulSet",
            stateful(pod=hostile("db")),
            'Create Pod db-0 in StatefulSet db failed error: pods "db-0" ',
        ),
        ("DaemonSet", daemon(pod=hostile("agent")), 'Error creating: pods "agent-'),
        ("Job", job(pod=hostile("work", restartPolicy="Never")), 'Error creating: pods "work-'),
        (
            "Job",
            job(
                pod=hostile("work", restartPolicy="Never"), completions=3, completionMode="Indexed"
            ),
            'Error creating: pods "work-0-',
        ),
    ],
)
def test_the_others_say_it_in_events_and_go_on_once_they_may(
    kind: str, obj: Obj, says: str
) -> None:
    async def story(cluster: Cluster) -> None:
        guard(cluster)
        cluster.create(kind, obj)
        await cluster.pass_s(10)
        assert cluster.pods() == []
        events = failed(cluster, kind)
        assert all(
            event["message"].startswith(says) and event["message"].endswith(SENTENCE)
            for event in events
        )
        assert 1 <= sum(event["count"] for event in events) <= 12
        free(cluster)
        await cluster.pass_s(60)
        assert cluster.pods()
        if kind == "Job":
            assert cluster.condition("Job", "work", "Complete")["status"] == "True"

    play(story, [NodePool(2)], events=500)


def test_a_job_that_may_make_no_pod_has_failed_none() -> None:
    async def story(cluster: Cluster) -> None:
        guard(cluster)
        cluster.create("Job", job(pod=hostile("work", restartPolicy="Never"), backoffLimit=1))
        await cluster.pass_s(900)
        status = cluster.status("Job", "work")
        assert not {"failed", "conditions", "active"} & set(status)

    play(story)


def test_pods_of_a_namespace_without_a_level_are_made() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(pod=hostile("web")))
        await cluster.pass_s(5)
        assert len(cluster.pods("Running")) == 3

    play(story)
