"""A member process says on the slice what it put back after somebody else changed or deleted it,
and nothing of what it wrote itself.
"""

import asyncio
from typing import Any

from federator.model.steps import ObjectRef
from tests.unit.member.memberworld import MemberWorld, in_member, service, template


async def put_back(world: MemberWorld) -> list[str]:
    """Messages of the condition, if it is there."""
    status: dict[str, Any] = (await world.get("PinterestService", "web")).get("status") or {}
    return [
        one["message"] for one in status.get("conditions") or () if one["type"] == "DriftRestored"
    ]


@in_member()
async def test_a_native_that_somebody_changed_or_deleted_is_told_on_the_slice(
    world: MemberWorld,
) -> None:
    await world.create(service(loadBalancers=[{"port": 80, "protocol": "http", "path": "/"}]))
    await world.until_status("PinterestService", "web", ready=3)
    await asyncio.sleep(30)
    assert await put_back(world) == []

    await world.patch("Deployment", "web", {"spec": {"replicas": 1}})
    await asyncio.sleep(30)
    (changed,) = await put_back(world)
    assert changed.startswith("Deployment feed/web was changed (spec.replicas); put back at 20")

    ref = ObjectRef("v1", "services", "feed", "web", "Service")
    await world.client.delete(ref, uid=(await world.get("Service", "web"))["metadata"]["uid"])
    await asyncio.sleep(30)
    (deleted,) = await put_back(world)
    assert deleted.startswith("Service feed/web was deleted; put back at 20")
    assert await world.get("Service", "web")


@in_member()
async def test_what_the_member_process_writes_itself_is_no_drift_and_a_restart_writes_nothing(
    world: MemberWorld,
) -> None:
    await world.create(service(loadBalancers=[{"port": 80, "protocol": "http", "path": "/"}]))
    await world.until_status("PinterestService", "web", ready=3)
    for edit in (
        {"replicas": 5, "slice": {"seq": 6}},
        {"template": template(annotations={"a": "b"}), "slice": {"seq": 7}},
        {"template": {"metadata": {"annotations": {"a": None}}}, "slice": {"seq": 8}},
        {"loadBalancers": None, "slice": {"seq": 9}},
        {
            "loadBalancers": [{"port": 80, "protocol": "http", "path": "/"}],
            "replicas": 3,
            "slice": {"seq": 10},
        },
    ):
        await world.patch("PinterestService", "web", {"spec": edit})
        await asyncio.sleep(10)
    assert await put_back(world) == []

    await world.patch("Deployment", "web", {"spec": {"replicas": 1}})
    await asyncio.sleep(60)
    told = await put_back(world)
    assert len(told) == 1
    before = len(world.log)
    await world.restart_member()
    await asyncio.sleep(60)
    assert world.log[before:] == []
    assert await put_back(world) == told


@in_member()
async def test_drift_that_comes_again_soon_is_not_told_anew(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3)
    await world.patch("Deployment", "web", {"spec": {"replicas": 1}})
    await asyncio.sleep(200)
    first = await put_back(world)
    assert len(first) == 1
    await world.patch("Deployment", "web", {"spec": {"replicas": 2}})
    await asyncio.sleep(200)
    assert await put_back(world) == first
    await asyncio.sleep(300)
    await world.patch("Deployment", "web", {"spec": {"replicas": 2}})
    await asyncio.sleep(60)
    assert await put_back(world) not in ([], first)
