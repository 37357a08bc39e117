"""Deployments and ReplicaSets: rolling updates, revisions, pause, Recreate, conditions,
adoption.
"""

import pytest

from federator.embedded.controllers import NodePool
from federator.embedded.controllers.workloads import rolling
from federator.embedded.controllers.workloads.rolling import SetView
from tests.unit.embedded.controllers.clusters import RESOURCES, Cluster, deployment, play, template

BIG = [NodePool(20, {"cpu": "64", "memory": "256Gi", "pods": "250"})]


def test_a_new_deployment_becomes_available_and_reports_every_count() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=4))
        await cluster.pass_s(0.5)
        assert (
            cluster.condition("Deployment", "web", "Available")["reason"]
            == "MinimumReplicasUnavailable"
        )
        assert cluster.status("Deployment", "web")["unavailableReplicas"] == 4
        await cluster.pass_s(5)
        status = cluster.status("Deployment", "web")
        assert {name: value for name, value in status.items() if name != "conditions"} == {
            "observedGeneration": 1,
            "replicas": 4,
            "updatedReplicas": 4,
            "readyReplicas": 4,
            "availableReplicas": 4,
            "terminatingReplicas": 0,
        }
        progressing = cluster.condition("Deployment", "web", "Progressing")
        (replica_set,) = cluster.all("ReplicaSet")
        name = replica_set["metadata"]["name"]
        assert progressing["reason"] == "NewReplicaSetAvailable"
        assert progressing["message"] == f'ReplicaSet "{name}" has successfully progressed.'
        assert cluster.condition("Deployment", "web", "Available")["status"] == "True"
        web = cluster.get("Deployment", "web")
        assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert web["metadata"]["generation"] == 1
        digest = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert name == f"web-{digest}"
        assert replica_set["spec"]["selector"]["matchLabels"] == {
            "app": "web",
            "pod-template-hash": digest,
        }

    play(story)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [
        (10, "25%", "25%"),
        (10, 0, 1),
        (10, 3, 0),
        (3, "25%", "25%"),
        (50, "10%", "10%"),
        (7, "100%", "50%"),
    ],
)
def test_a_rolling_update_keeps_to_surge_and_availability_at_every_write(
    replicas: int, surge: int | str, unavailable: int | str
) -> None:
    async def story(cluster: Cluster) -> None:
        limits = {"maxSurge": surge, "maxUnavailable": unavailable}
        strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
        pod = template(annotations={"start-delay-seconds": "1-4"})
        cluster.create("Deployment", deployment(replicas=replicas, strategy=strategy, pod=pod))
        await cluster.pass_s(10)
        most, floor = rolling.limits({"strategy": strategy}, replicas)
        seen: list[tuple[int, int]] = []

        def watch(_event: object) -> None:
            live = [pod for pod in cluster.all("Pod") if "deletionTimestamp" not in pod["metadata"]]
            ready = 0
            for pod in live:
                conditions = pod["status"].get("conditions") or ()
                ready += any(
                    entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions
                )
            seen.append((sum(one["spec"]["replicas"] for one in cluster.all("ReplicaSet")), ready))

        cluster.store.subscribe(RESOURCES["Pod"], watch)
        cluster.edit(
            "Deployment",
            "web",
            template=template(cpu="200m", annotations={"start-delay-seconds": "1-4"}),
        )
        await cluster.pass_s(120)
        assert cluster.status("Deployment", "web")["updatedReplicas"] == replicas
        assert len(cluster.pods()) == replicas
        assert min(ready for _, ready in seen) >= replicas - floor
        assert max(asked for asked, _ in seen) <= replicas + most

    play(story, BIG)


def test_revisions_count_up_and_a_template_that_returns_takes_its_old_set() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=2))
        await cluster.pass_s(5)
        first = cluster.all("ReplicaSet")[0]["metadata"]["name"]
        cluster.edit("Deployment", "web", template=template(cpu="150m"))
        await cluster.pass_s(20)
        cluster.edit("Deployment", "web", template=template())
        await cluster.pass_s(20)
        web = cluster.get("Deployment", "web")
        assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        back = cluster.get("ReplicaSet", first)
        assert back["spec"]["replicas"] == 2
        assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert len(cluster.all("ReplicaSet")) == 2

    play(story)


def test_old_sets_beyond_the_history_limit_are_deleted() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=1, revisionHistoryLimit=1))
        for size in range(4):
            cluster.edit("Deployment", "web", template=template(cpu=f"{size + 1}00m"))
            await cluster.pass_s(20)
        revisions = sorted(
            one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
            for one in cluster.all("ReplicaSet")
        )
        assert revisions == ["3", "4"]

    play(story)


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=2))
        await cluster.pass_s(5)
        cluster.edit("Deployment", "web", paused=True, replicas=3, template=template(cpu="300m"))
        await cluster.pass_s(5)
        assert len(cluster.all("ReplicaSet")) == 1
        assert len(cluster.pods("Running")) == 3
        assert cluster.condition("Deployment", "web", "Progressing")["reason"] == "DeploymentPaused"
        assert cluster.status("Deployment", "web")["observedGeneration"] == 2
        cluster.edit("Deployment", "web", paused=False)
        await cluster.pass_s(20)
        assert len(cluster.all("ReplicaSet")) == 2
        assert cluster.status("Deployment", "web")["updatedReplicas"] == 3
        assert (
            cluster.condition("Deployment", "web", "Progressing")["reason"]
            == "NewReplicaSetAvailable"
        )

    play(story)


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    async def story(cluster: Cluster) -> None:
        slow = {"stop-seconds": "5"}
        cluster.create(
            "Deployment", deployment(pod=template(annotations=slow), strategy={"type": "Recreate"})
        )
        await cluster.pass_s(5)
        cluster.edit("Deployment", "web", template=template(cpu="200m"))
        await cluster.pass_s(4)
        assert len(cluster.all("ReplicaSet")) == 1
        assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods())
        await cluster.pass_s(10)
        assert len(cluster.pods("Running")) == 3
        assert len(cluster.all("ReplicaSet")) == 2

    play(story)


def test_a_deadline_that_is_brought_forward_while_another_is_waited_for_passes_in_time() -> None:
    async def story(cluster: Cluster) -> None:
        stuck = template(annotations={"never-ready": "true"})
        cluster.create("Deployment", deployment(pod=stuck, progressDeadlineSeconds=600))
        await cluster.pass_s(20)
        cluster.edit("Deployment", "web", progressDeadlineSeconds=15)
        await cluster.pass_s(20)
        assert (
            cluster.condition("Deployment", "web", "Progressing")["reason"]
            == "ProgressDeadlineExceeded"
        )

    play(story)


def test_a_rollout_that_makes_no_progress_passes_its_deadline_once() -> None:
    async def story(cluster: Cluster) -> None:
        stuck = template(annotations={"never-ready": "true"})
        cluster.create("Deployment", deployment(pod=stuck, progressDeadlineSeconds=30))
        await cluster.pass_s(20)
        assert (
            cluster.condition("Deployment", "web", "Progressing")["reason"] == "ReplicaSetUpdated"
        )
        await cluster.pass_s(20)
        progressing = cluster.condition("Deployment", "web", "Progressing")
        assert (progressing["status"], progressing["reason"]) == (
            "False",
            "ProgressDeadlineExceeded",
        )
        assert progressing["message"].endswith("has timed out progressing.")
        before = cluster.writes.copy()
        await cluster.pass_s(3600)
        assert cluster.writes == before

    play(story)


def test_min_ready_seconds_delay_availability() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(minReadySeconds=10))
        await cluster.pass_s(6)
        status = cluster.status("Deployment", "web")
        assert status["readyReplicas"] == 3
        assert "availableReplicas" not in status
        await cluster.pass_s(10)
        assert cluster.status("Deployment", "web")["availableReplicas"] == 3

    play(story)


def test_scaling_in_the_middle_of_a_rollout_is_shared_in_proportion() -> None:
    async def story(cluster: Cluster) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        cluster.create("Deployment", deployment(replicas=10, strategy=strategy))
        await cluster.pass_s(5)
        cluster.edit("Deployment", "web", template=template(annotations={"never-ready": "true"}))
        await cluster.pass_s(5)
        assert sorted(one["spec"]["replicas"] for one in cluster.all("ReplicaSet")) == [5, 8]
        cluster.edit("Deployment", "web", replicas=15)
        await cluster.pass_s(5)
        assert sorted(one["spec"]["replicas"] for one in cluster.all("ReplicaSet")) == [7, 11]

    play(story, BIG)


def test_a_deleted_pod_is_replaced() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=2))
        await cluster.pass_s(5)
        victim = cluster.pods()[0]["metadata"]["name"]
        cluster.delete("Pod", victim)
        await cluster.pass_s(5)
        names = [pod["metadata"]["name"] for pod in cluster.pods("Running")]
        assert len(names) == 2
        assert victim not in names

    play(story)


def test_a_pod_without_its_label_is_released_and_replaced_and_adopted_when_it_is_back() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=2))
        await cluster.pass_s(5)
        pod = cluster.pods()[0]
        name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
        cluster.relabel("Pod", name, {"app": "debug"})
        await cluster.pass_s(5)
        assert "ownerReferences" not in cluster.get("Pod", name)["metadata"]
        assert len(cluster.pods("Running")) == 3
        cluster.relabel("Pod", name, labels)
        await cluster.pass_s(5)
        assert len(cluster.pods("Running")) == 2

    play(story)


def test_scaling_down_takes_pods_that_are_not_ready_first() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=3))
        await cluster.pass_s(5)
        good = {pod["metadata"]["name"] for pod in cluster.pods()}
        node = cluster.all("Node")[0]
        annotated = {**node["metadata"], "annotations": {"embedded.federator/never-ready": "true"}}
        for one in cluster.all("Node"):
            cluster.store.update(
                RESOURCES["Node"],
                {**one, "metadata": {**annotated, "name": one["metadata"]["name"]}},
            )
        cluster.edit("Deployment", "web", replicas=5)
        await cluster.pass_s(5)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 3
        cluster.edit("Deployment", "web", replicas=3)
        await cluster.pass_s(5)
        assert {pod["metadata"]["name"] for pod in cluster.pods()} == good

    play(story)


def test_a_settled_cluster_writes_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=5))
        await cluster.pass_s(60)
        before = cluster.writes.copy()
        steps = cluster.controllers.steps if cluster.controllers else 0
        await cluster.pass_s(36000)
        assert cluster.writes == before
        assert cluster.controllers is not None
        assert cluster.controllers.steps - steps < 5

    play(story)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 10, (3, 2)),
        (0, 0, 10, (0, 1)),
        ("1%", "1%", 3, (1, 0)),
        (1, "200%", 3, (1, 3)),
        (5, 0, 0, (0, 0)),
    ],
)
def test_surge_rounds_up_and_unavailable_rounds_down(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    spec = {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}
    assert rolling.limits(spec, replicas) == expected


def test_unhealthy_old_pods_go_before_healthy_ones() -> None:
    old = [SetView("old-a", "1", 6, 6, None, None), SetView("old-b", "2", 4, 1, None, None)]
    new = SetView("new", "3", 0, 0, None, None)
    assert rolling.shrink_old(old, new, 10, 2) == {"old-b": 2}
