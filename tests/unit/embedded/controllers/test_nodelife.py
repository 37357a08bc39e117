"""Nodes that are down, tainted or gone, and what becomes of their pods."""

from federator.embedded.controllers import NodePool
from tests.unit.embedded.controllers.clusters import RESOURCES, Cluster, deployment, play


def set_ready(cluster: Cluster, name: str, value: str) -> None:
    node = cluster.get("Node", name)
    others = [one for one in node["status"]["conditions"] if one["type"] != "Ready"]
    conditions = [*others, {"type": "Ready", "status": value}]
    cluster.store.update(
        RESOURCES["Node"], {**node, "status": {**node["status"], "conditions": conditions}}
    )


def test_pods_of_a_node_that_is_down_lose_readiness_at_once_and_get_it_back_with_the_node() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=6))
        await cluster.pass_s(5)
        set_ready(cluster, "node-0", "Unknown")
        await cluster.pass_s(5)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 4
        assert len(cluster.pods()) == 6
        taints = cluster.get("Node", "node-0")["spec"]["taints"]
        assert [(one["key"], one["effect"]) for one in taints] == [
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        ]
        set_ready(cluster, "node-0", "True")
        await cluster.pass_s(5)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 6
        assert "taints" not in cluster.get("Node", "node-0")["spec"]
        await cluster.pass_s(600)
        assert len(cluster.pods()) == 6

    play(story)


def test_pods_are_evicted_after_five_minutes_and_go_when_the_node_comes_back() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=6))
        await cluster.pass_s(5)
        set_ready(cluster, "node-0", "False")
        await cluster.pass_s(290)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 4
        await cluster.pass_s(20)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 6
        stuck = [one for one in cluster.pods() if "deletionTimestamp" in one["metadata"]]
        assert {one["spec"]["nodeName"] for one in stuck} == {"node-0"}
        await cluster.pass_s(3600)
        assert len(cluster.pods()) == 8
        set_ready(cluster, "node-0", "True")
        await cluster.pass_s(5)
        assert len(cluster.pods()) == 6

    play(story)


def test_a_no_execute_taint_drives_pods_away_that_do_not_tolerate_it() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=4))
        await cluster.pass_s(5)
        cluster.edit("Node", "node-0", taints=[{"key": "broken", "effect": "NoExecute"}])
        await cluster.pass_s(5)
        assert {one["spec"]["nodeName"] for one in cluster.pods()} == {"node-1"}
        assert cluster.status("Deployment", "web")["readyReplicas"] == 4

    play(story, [NodePool(2)])


def test_pods_of_a_deleted_node_are_replaced_soon() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=4))
        await cluster.pass_s(5)
        cluster.delete("Node", "node-0")
        await cluster.pass_s(60)
        assert {one["spec"]["nodeName"] for one in cluster.pods()} == {"node-1"}
        assert cluster.status("Deployment", "web")["readyReplicas"] == 4

    play(story, [NodePool(2)])


def test_a_pod_that_was_starting_when_its_node_went_down_starts_when_it_is_back() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=2))
        await cluster.pass_s(0.5)
        set_ready(cluster, "node-0", "False")
        await cluster.pass_s(30)
        assert len(cluster.pods("Running")) == 1
        set_ready(cluster, "node-0", "True")
        await cluster.pass_s(5)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 2

    play(story, [NodePool(2)])
