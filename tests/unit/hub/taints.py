"""What a member's nodes do to its pods in tests: taints on all of them, pods thrown out."""

from federator.model.steps import ObjectRef
from tests.unit.hub.world import World


async def taint_all(world: World, cluster: str, nodes: int) -> None:
    """From now on its nodes turn away new pods."""
    for index in range(nodes):
        ref = ObjectRef("v1", "nodes", "", f"{cluster}-0-{index}", "Node")
        taints = [{"key": "broken", "effect": "NoSchedule"}]
        await world.member(cluster).patch(ref, {"spec": {"taints": taints}})


async def throw_out(world: World, cluster: str, pods: int) -> None:
    client = world.member(cluster)
    for pod in (await client.list("v1", "pods", "feed")).items[:pods]:
        ref = ObjectRef("v1", "pods", "feed", pod["metadata"]["name"], "Pod")
        await client.delete(ref, uid=pod["metadata"]["uid"])
