"""A member process on an embedded cluster: pods that have failed and lie there say why something is
missing, and nothing when nothing is.
"""

import asyncio
import json

from tests.unit.member.memberworld import (
    MemberWorld,
    block,
    in_member,
    jobset,
    labels,
    service,
    template,
)

RUN = "embedded.federator/run-seconds"
NOTE = "federation.pinterest.com/member-status"


async def evict_one(world: MemberWorld) -> None:
    failed = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    await world.patch(
        "Pod", (await world.names("Pod"))[0], {"status": failed}, subresource="status"
    )


@in_member()
async def test_a_service_is_well_again_once_an_evicted_copy_is_replaced(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await evict_one(world)
    await world.until_status("PinterestService", "web", healthy=False)
    await world.until_status("PinterestService", "web", healthy=True, reason=None)
    assert len(await world.names("Pod")) == 4


@in_member()
async def test_while_a_copy_is_missing_the_evicted_one_is_the_reason(world: MemberWorld) -> None:
    pods = template(annotations={"embedded.federator/start-delay-seconds": "40"})
    await world.create(service(template=pods))
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await evict_one(world)
    await world.until_status("PinterestService", "web", reason="Evicted", ready=2, within_s=10)
    await world.until_status("PinterestService", "web", healthy=True, reason=None)


@in_member()
async def test_a_job_set_completes_although_an_attempt_of_a_shard_had_failed(
    world: MemberWorld,
) -> None:
    await world.create(jobset(template=template(annotations={RUN: "3"})))
    await world.until_status("PinterestJobSet", "crunch", running=4)
    await evict_one(world)
    await world.until_status("PinterestJobSet", "crunch", done=10, healthy=True, reason=None)


@in_member()
async def test_a_carried_deployment_bears_no_note_of_a_pod_that_was_replaced(
    world: MemberWorld,
) -> None:
    app = {"app": "plain"}
    meta = {
        "name": "plain",
        "namespace": "feed",
        "labels": labels(),
        "annotations": {"federation.pinterest.com/slice": json.dumps(block())},
    }
    pods = template(annotations={"embedded.federator/start-delay-seconds": "20"})
    pods["metadata"]["labels"] = app
    spec = {"replicas": 2, "selector": {"matchLabels": app}, "template": pods}
    await world.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    )
    await world.until_status("Deployment", "plain", readyReplicas=2)
    await evict_one(world)
    await asyncio.sleep(10)
    noted = (await world.get("Deployment", "plain"))["metadata"]["annotations"]
    assert json.loads(noted[NOTE])["reason"] == "Evicted"
    await world.until_status("Deployment", "plain", readyReplicas=2)
    await asyncio.sleep(30)
    assert NOTE not in (await world.get("Deployment", "plain"))["metadata"]["annotations"]
