"""What is wrong with a member, or that nothing is but for its room: shared by the scenarios of probes
and their campaign.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from federator.embedded.controllers.services import Services
from federator.model.steps import ObjectRef
from tests.faults import boxes
from tests.unit.hub.world import World, between

Breaks = Callable[[World, str], Awaitable[None]]


async def notes_of_nodes(world: World, cluster: str, notes: Mapping[str, str | None]) -> None:
    """Annotations of all nodes, by which the stand-in of kubelets goes."""
    at = world.member(cluster)
    for node in (await at.list("v1", "nodes")).items:
        ref = ObjectRef("v1", "nodes", "", node["metadata"]["name"], "Node")
        await at.patch(ref, {"metadata": {"annotations": dict(notes)}})


async def never_ready(world: World, cluster: str) -> None:
    """Pods that start from now on never become ready."""
    await notes_of_nodes(world, cluster, {"embedded.federator/never-ready": "true"})


async def kubelets_dead(world: World, cluster: str) -> None:
    """No kubelet reports any more."""
    at = world.member(cluster)
    for node in (await at.list("v1", "nodes")).items:
        ref = ObjectRef("v1", "nodes", "", node["metadata"]["name"], "Node")
        dead = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        others = [each for each in node["status"]["conditions"] if each["type"] != "Ready"]
        status = {"status": {"conditions": [*others, dead]}}
        await at.patch(ref, status, subresource="status")


async def no_endpoints(world: World, cluster: str) -> None:
    """Services get no endpoints any more."""
    controllers = world.federation.members[cluster].controllers
    assert controllers is not None
    for controller in controllers._controllers:
        if isinstance(controller, Services):
            controller.steps = lambda: iter(())  # type: ignore[method-assign]


async def refuses(world: World, cluster: str) -> None:
    """Admission of the cluster refuses what the member process makes of a service."""
    asked = between(f"member-{cluster}", cluster)
    world.put(
        boxes.answering(
            lambda sending: (
                sending.writes and asked(sending) and "/deployments" in sending.request.path
            ),
            boxes.forbidden,
        )
    )


async def full(world: World, cluster: str) -> None:
    """All its room is taken, by pods of others on its one node."""
    container = {"name": "all", "image": "all:1", "resources": {"requests": {"cpu": "7990m"}}}
    labels = {"app": "all"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    ref = ObjectRef("apps/v1", "deployments", "default", "all", "Deployment")
    meta = {"name": "all", "namespace": "default"}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    await world.member(cluster).create(ref, obj)


BROKEN: Final[Mapping[str, Breaks]] = {
    "never-ready": never_ready,
    "kubelets-dead": kubelets_dead,
    "no-endpoints": no_endpoints,
    "refuses": refuses,
}
