"""StatefulSets and DaemonSets."""

import asyncio

from federator.embedded.controllers import NodePool
from federator.embedded.storage.revisions import DELETED, Event
from tests.unit.embedded.controllers.clusters import RESOURCES, Cluster, Obj, play, template


def stateful(replicas: int = 3, pod: Obj | None = None, **spec: object) -> Obj:
    full = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        **spec,
    }
    return {"metadata": {"name": "db"}, "spec": {**full, "template": pod or template("db")}}


def daemon(pod: Obj | None = None, **spec: object) -> Obj:
    full = {"selector": {"matchLabels": {"app": "agent"}}, **spec}
    return {"metadata": {"name": "agent"}, "spec": {**full, "template": pod or template("agent")}}


def names(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.pods()]


def deletions(cluster: Cluster) -> dict[str, float]:
    """When each pod went, filled from now on, in that order."""
    gone: dict[str, float] = {}

    def on_pod(event: Event) -> None:
        if event.type is DELETED:
            gone[event.key[1]] = asyncio.get_running_loop().time()

    cluster.store.subscribe(RESOURCES["Pod"], on_pod)
    return gone


def test_ordinals_start_one_after_the_other() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("StatefulSet", stateful())
        await cluster.pass_s(0.5)
        assert names(cluster) == ["db-0"]
        await cluster.pass_s(1)
        assert names(cluster) == ["db-0", "db-1"]
        await cluster.pass_s(5)
        status = cluster.status("StatefulSet", "db")
        assert (
            status["readyReplicas"],
            status["updatedReplicas"],
            status["availableReplicas"],
        ) == (3, 3, 3)
        assert status["currentRevision"] == status["updateRevision"]
        second = cluster.get("Pod", "db-1")
        assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("db-1", "db")
        assert second["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"

    play(story)


def test_parallel_sets_start_at_once_and_claims_outlive_scaling() -> None:
    async def story(cluster: Cluster) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        }
        cluster.create(
            "StatefulSet", stateful(podManagementPolicy="Parallel", volumeClaimTemplates=[claim])
        )
        await cluster.pass_s(0.5)
        assert names(cluster) == ["db-0", "db-1", "db-2"]
        await cluster.pass_s(5)
        cluster.edit("StatefulSet", "db", replicas=1)
        await cluster.pass_s(5)
        assert names(cluster) == ["db-0"]
        claims = cluster.all("PersistentVolumeClaim")
        assert [one["metadata"]["name"] for one in claims] == [
            "data-db-0",
            "data-db-1",
            "data-db-2",
        ]
        assert {one["status"]["phase"] for one in claims} == {"Bound"}

    play(story)


def test_claims_that_are_to_go_go_with_their_ordinal_and_with_their_set() -> None:
    """By the garbage collector, when the pod has gone: data is not taken from under it."""

    async def story(cluster: Cluster) -> None:
        claim = {"metadata": {"name": "data"}, "spec": {}}
        gone = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        made = stateful(volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=gone)

        def claims() -> list[str]:
            return [one["metadata"]["name"] for one in cluster.all("PersistentVolumeClaim")]

        cluster.create("StatefulSet", made)
        await cluster.pass_s(10)
        assert claims() == ["data-db-0", "data-db-1", "data-db-2"]
        first = cluster.all("PersistentVolumeClaim")[0]["metadata"]["uid"]
        cluster.edit("StatefulSet", "db", replicas=1)
        await cluster.pass_s(10)
        assert claims() == ["data-db-0"]
        cluster.edit("StatefulSet", "db", replicas=2)
        await cluster.pass_s(10)
        kept, new = cluster.all("PersistentVolumeClaim")
        assert kept["metadata"]["uid"] == first
        assert [one["kind"] for one in new["metadata"]["ownerReferences"]] == ["StatefulSet"]
        cluster.delete("StatefulSet", "db")
        await cluster.pass_s(10)
        assert (names(cluster), claims()) == ([], [])

    play(story)


def test_a_new_template_rolls_from_the_highest_ordinal_down_to_the_partition() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("StatefulSet", stateful(updateStrategy={"rollingUpdate": {"partition": 1}}))
        await cluster.pass_s(10)
        gone: list[str] = []
        cluster.store.subscribe(
            RESOURCES["Pod"], lambda e: gone.append(e.key[1]) if e.type == "DELETED" else None
        )
        cluster.edit("StatefulSet", "db", template=template("db", cpu="200m"))
        await cluster.pass_s(30)
        assert gone == ["db-2", "db-1"]
        status = cluster.status("StatefulSet", "db")
        assert status["updatedReplicas"] == 2
        assert status["currentRevision"] != status["updateRevision"]
        cluster.edit("StatefulSet", "db", updateStrategy={"rollingUpdate": {"partition": 0}})
        await cluster.pass_s(30)
        status = cluster.status("StatefulSet", "db")
        assert status["currentRevision"] == status["updateRevision"]

    play(story)


def test_as_many_pods_roll_at_once_as_may_be_unavailable() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "StatefulSet", stateful(updateStrategy={"rollingUpdate": {"maxUnavailable": "70%"}})
        )
        await cluster.pass_s(10)
        gone = deletions(cluster)
        cluster.edit("StatefulSet", "db", template=template("db", cpu="200m"))
        await cluster.pass_s(30)
        assert list(gone) == ["db-2", "db-1", "db-0"]
        assert gone["db-1"] - gone["db-2"] < 0.5
        assert gone["db-0"] - gone["db-1"] > 1  # not before the others are ready again

    play(story)


def test_pods_that_are_away_anyway_are_replaced_at_once_where_they_start_in_parallel() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "StatefulSet", stateful(podManagementPolicy="Parallel", pod=template("db", cpu="99"))
        )
        await cluster.pass_s(5)
        assert cluster.status("StatefulSet", "db").get("readyReplicas", 0) == 0
        gone = deletions(cluster)
        cluster.edit("StatefulSet", "db", template=template("db", cpu="100m"))
        await cluster.pass_s(5)
        assert list(gone) == ["db-2", "db-1", "db-0"]
        assert gone["db-0"] - gone["db-2"] < 0.5
        assert cluster.status("StatefulSet", "db")["readyReplicas"] == 3

    play(story)


def test_scaling_down_takes_the_highest_ordinal_first() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("StatefulSet", stateful())
        await cluster.pass_s(10)
        cluster.edit("StatefulSet", "db", replicas=1)
        await cluster.pass_s(0.5)
        going = [
            pod["metadata"]["name"]
            for pod in cluster.pods()
            if "deletionTimestamp" in pod["metadata"]
        ]
        assert going == ["db-2"]
        await cluster.pass_s(5)
        assert names(cluster) == ["db-0"]

    play(story)


def test_every_fitting_node_has_its_daemon_and_new_nodes_get_one() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("DaemonSet", daemon(pod=template("agent", nodeSelector={"pool": "a"})))
        await cluster.pass_s(5)
        assert sorted(pod["spec"]["nodeName"] for pod in cluster.pods()) == ["a-0", "a-1", "a-2"]
        status = cluster.status("DaemonSet", "agent")
        assert (
            status["desiredNumberScheduled"],
            status["numberReady"],
            status["numberAvailable"],
        ) == (3, 3, 3)
        node = cluster.get("Node", "a-0")
        late = {"name": "late", "labels": node["metadata"]["labels"]}
        cluster.create("Node", {"metadata": late, "spec": {}, "status": node["status"]})
        await cluster.pass_s(5)
        assert cluster.status("DaemonSet", "agent")["numberReady"] == 4
        cluster.edit("Node", "a-0", unschedulable=True)
        await cluster.pass_s(5)
        assert cluster.status("DaemonSet", "agent")["numberReady"] == 4

    play(
        story,
        [NodePool(3, labels={"pool": "a"}, name="a"), NodePool(2, labels={"pool": "b"}, name="b")],
    )


def test_daemons_are_replaced_one_at_a_time() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("DaemonSet", daemon())
        await cluster.pass_s(5)
        ready: list[int] = []

        def watch(_event: object) -> None:
            ready.append(cluster.status("DaemonSet", "agent").get("numberReady", 0))

        cluster.store.subscribe(RESOURCES["DaemonSet"], watch)
        cluster.edit("DaemonSet", "agent", template=template("agent", cpu="200m"))
        await cluster.pass_s(60)
        assert min(ready) == 3
        status = cluster.status("DaemonSet", "agent")
        assert (status["updatedNumberScheduled"], status["numberReady"]) == (4, 4)

    play(story, [NodePool(4)])
