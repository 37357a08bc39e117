"""A member process on an embedded cluster: whose copy a pod is, in whatever order its owners are
heard of.
"""

import asyncio
import json
from typing import Any

from federator.api import capacityfields
from federator.model.names import WorkloadKey
from tests.unit.member.memberworld import (
    MemberWorld,
    block,
    in_member,
    jobset,
    labels,
    service,
    template,
)

POD = "embedded.federator/"
HELD: dict[str, Any] = {"schedulingGates": [{"name": "example.com/hold"}]}
TOTAL = 32_000
"""CPU of the nodes, in thousandths."""


async def free_cpu(world: MemberWorld) -> int:
    """What the published report leaves."""
    status = (await world.get("ClusterCapacity", "cluster"))["status"]
    return capacityfields.to_capacity(status).free["cpu"]


@in_member()
async def test_copies_of_a_service_that_wait_for_a_node_are_charged_once(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=6, template=template("1", **HELD)))
    await asyncio.sleep(60)
    assert len(await world.names("Pod")) == 6
    assert await free_cpu(world) == TOTAL - 6000


@in_member()
async def test_copies_whose_replica_set_is_heard_of_late_are_charged_once_when_it_is(
    world: MemberWorld,
) -> None:
    await asyncio.sleep(5)
    await world.hear_late("/replicasets", 15)
    await world.create(service(replicas=6, template=template("1")))
    await asyncio.sleep(60)
    assert await free_cpu(world) == TOTAL - 6000


@in_member()
async def test_shards_whose_job_is_heard_of_late_are_charged_once_when_it_is(
    world: MemberWorld,
) -> None:
    await asyncio.sleep(5)
    await world.hear_late("/jobs", 15)
    await world.create(
        jobset(parallelism=4, template=template("1", annotations={POD + "run-seconds": "5000"}))
    )
    await asyncio.sleep(60)
    assert await free_cpu(world) == TOTAL - 4000


async def fail_pulls(world: MemberWorld) -> None:
    """Nothing but the pods' own statuses changes."""
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    told = {
        "name": "app",
        "image": "registry/app:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    for name in await world.names("Pod"):
        await world.patch(
            "Pod", name, {"status": {"containerStatuses": [told]}}, subresource="status"
        )


@in_member()
async def test_trouble_that_only_a_pod_tells_of_reaches_its_slice(world: MemberWorld) -> None:
    pods = template(annotations={POD + "start-delay-seconds": "5000"})
    await world.create(service(template=pods))
    await asyncio.sleep(30)
    await world.stop_controllers()
    await asyncio.sleep(30)
    await fail_pulls(world)
    await world.until_status("PinterestService", "web", reason="ImagePullFailed", within_s=10)
    await world.start_controllers()


@in_member()
async def test_trouble_that_was_heard_before_the_replica_set_reaches_the_slice_with_it(
    world: MemberWorld,
) -> None:
    await asyncio.sleep(5)
    await world.hear_late("/replicasets", 15)
    await world.create(service(replicas=6, template=template("100")))
    await asyncio.sleep(30)
    assert (await world.get("PinterestService", "web"))["status"]["reason"] == "Unschedulable"


@in_member()
async def test_a_deployment_is_a_slice_only_while_it_is_marked(world: MemberWorld) -> None:
    mark = "federation.pinterest.com/slice"
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "plain",
            "namespace": "feed",
            "labels": labels(),
            "annotations": {mark: json.dumps(block())},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "plain"}},
            "template": {**template(), "metadata": {"labels": {"app": "plain"}}},
        },
    }
    uid = (await world.create(body))["metadata"]["uid"]
    await asyncio.sleep(5)
    caches = world.process.caches
    assert caches.slice_of_pod(uid) == WorkloadKey("Deployment", "feed", "plain")
    await world.patch("Deployment", "plain", {"metadata": {"annotations": {mark: None}}})
    await asyncio.sleep(5)
    assert caches.slice_of_pod(uid) is None
    assert not caches.lives(uid)
