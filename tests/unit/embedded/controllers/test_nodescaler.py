"""The cluster autoscaler stand-in: nodes come for pods that wait, and go when they stand empty."""

from federator.embedded.controllers import NodePool
from tests.unit.embedded.controllers.clusters import Cluster, Obj, deployment, play, template

FOUR = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def service(replicas: int, cpu: str) -> Obj:
    return deployment("web", replicas, template("web", cpu=cpu))


def names(cluster: Cluster) -> list[str]:
    return sorted(node["metadata"]["name"] for node in cluster.all("Node"))


def pool(**more: object) -> NodePool:
    return NodePool(1, FOUR, most=3, start_s=60.0, idle_s=300.0, **more)  # type: ignore[arg-type]


def test_nodes_come_for_pods_that_wait_and_no_more_than_they_need() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", service(3, "3"))
        await cluster.pass_s(50)
        assert (names(cluster), len(cluster.pods("Running"))) == (["node-0"], 1)
        await cluster.pass_s(30)
        assert names(cluster) == ["node-0", "node-1", "node-2"]
        assert len(cluster.pods("Running")) == 3

    play(story, [pool()])


def test_a_pool_grows_to_its_most_and_shrinks_when_nodes_are_empty() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", service(5, "3"))
        await cluster.pass_s(100)
        assert len(names(cluster)) == 3
        assert len(cluster.pods("Pending")) == 2
        cluster.delete("Deployment", "web")
        await cluster.pass_s(250)
        assert len(names(cluster)) == 3
        await cluster.pass_s(200)
        assert names(cluster) == []

    play(story, [pool()])


def test_nodes_of_a_pool_that_delivers_nothing_never_come() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", service(2, "3"))
        await cluster.pass_s(3600)
        assert (names(cluster), len(cluster.pods("Pending"))) == (["node-0"], 1)

    play(story, [NodePool(1, FOUR, most=3, start_s=None)])


def test_nodes_vanish_with_their_pods_and_are_ordered_again() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", service(2, "3"))
        await cluster.pass_s(70)
        assert names(cluster) == ["node-0", "node-1"]
        await cluster.pass_s(100)
        assert names(cluster) == ["node-0"]
        await cluster.pass_s(110)
        assert len(names(cluster)) == 2

    play(story, [pool(lives_s=90.0)])


def test_a_pod_that_no_node_of_the_pool_holds_orders_none() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", service(1, "5"))
        await cluster.pass_s(600)
        assert names(cluster) == []

    play(story, [pool()])
