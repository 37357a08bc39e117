"""The real control plane with stand-in nodes: enough of a cluster for workloads to run and to be
refused.
"""

import json

import pytest

from tests.controlplane import build, nodes
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane

pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.xdist_group("real servers with nodes")]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimitPerIndex: 0
  template:
    metadata:
      annotations: {embedded.federator/run-seconds: "0.2", embedded.federator/fail-indexes: "2"}
    spec: {restartPolicy: Never, containers: [{name: app, image: none}]}
"""


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Cluster:
    return control_plane.cluster("nodes", controllers=True, scheduler=True)


def checked(cluster: Cluster, *arguments: str, input: str | None = None) -> str:
    done = cluster.kubectl(*arguments, input=input)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_deployment_runs_on_stand_in_nodes(cluster: Cluster) -> None:
    checked(cluster, "create", "namespace", "deploys")
    with nodes.running(cluster, nodes.many("big", 2, cpu="16", memory="64Gi")):
        checked(
            cluster, "-n", "deploys", "create", "deployment", "web", "--image=none", "--replicas=10"
        )
        checked(
            cluster,
            "-n",
            "deploys",
            "wait",
            "--for=condition=Available",
            "deploy/web",
            "--timeout=60s",
        )
        pods = json.loads(checked(cluster, "-n", "deploys", "get", "pods", "-o", "json"))["items"]
        assert {pod["spec"]["nodeName"] for pod in pods} == {"big-0", "big-1"}
        checked(
            cluster,
            "-n",
            "deploys",
            "delete",
            "deployment",
            "web",
            "--cascade=foreground",
            "--timeout=60s",
        )
        assert (
            json.loads(checked(cluster, "-n", "deploys", "get", "pods", "-o", "json"))["items"]
            == []
        )


def test_a_job_ends_as_its_annotations_say(cluster: Cluster) -> None:
    checked(cluster, "create", "namespace", "jobs")
    with nodes.running(cluster, nodes.many("small", 1)):
        checked(cluster, "-n", "jobs", "apply", "-f", "-", input=JOB)
        checked(
            cluster, "-n", "jobs", "wait", "--for=condition=Failed", "job/work", "--timeout=60s"
        )
        status = json.loads(checked(cluster, "-n", "jobs", "get", "job", "work", "-o", "json"))[
            "status"
        ]
        assert (status["completedIndexes"], status["failedIndexes"]) == ("0,1,3", "2")


def test_the_scheduler_counts_what_nodes_offer(cluster: Cluster) -> None:
    checked(cluster, "create", "namespace", "tight")
    pod = {"metadata": {"name": "huge"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "99"}}  # type: ignore[index]
    with nodes.running(cluster, nodes.many("tight", 1, cpu="4", memory="8Gi")):
        status, _ = cluster.ask("/api/v1/namespaces/tight/pods", "POST", pod)
        assert status == 201
        checked(
            cluster,
            "-n",
            "tight",
            "wait",
            "--for=condition=PodScheduled=False",
            "pod/huge",
            "--timeout=60s",
        )
        _, live = cluster.ask("/api/v1/namespaces/tight/pods/huge")
        (condition,) = live["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert "Insufficient cpu" in condition["message"]


def test_rbac_is_on(cluster: Cluster) -> None:
    done = cluster.kubectl("get", "pods", user="nobody")
    assert done.returncode == 1
    assert 'User "nobody" cannot list resource "pods"' in done.stderr


def test_the_version_is_the_pinned_one(cluster: Cluster) -> None:
    status, version = cluster.ask("/version")
    assert (status, version["gitVersion"]) == (200, f"v{build.chosen()}")
