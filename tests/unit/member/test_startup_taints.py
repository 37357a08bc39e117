"""A daemon that is ready takes its start-up taint from the node, and no other one."""

import asyncio
from typing import Any

from federator.embedded.controllers import NodePool
from tests.unit.member.memberworld import MemberWorld, block, in_member, labels, template

KIND = "PinterestDaemon"
TAINT = {"key": "pinterest.com/starting", "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "ads", "effect": "NoSchedule"}
NODES = (NodePool(count=3, allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"}),)
DELAY = "embedded.federator/start-delay-seconds"


def daemon(delay_s: int = 0, **spec: Any) -> dict[str, Any]:
    pods = template("100m", {DELAY: str(delay_s)}, tolerations=[{"key": "dedicated"}])
    pods["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": KIND,
        "metadata": {"name": "agent", "namespace": "feed", "labels": labels()},
        "spec": {"template": pods, "slice": block(), "startupTaint": TAINT, **spec},
    }


async def node_names(world: MemberWorld) -> list[str]:
    return [node["metadata"]["name"] for node in (await world.client.list("v1", "nodes")).items]


async def taint(world: MemberWorld, name: str, *taints: dict[str, str]) -> None:
    await world.client.patch(world.ref("Node", name), {"spec": {"taints": list(taints)}})


async def taints_of(world: MemberWorld, name: str) -> list[Any]:
    return list((await world.client.get(world.ref("Node", name)))["spec"].get("taints", []))


@in_member(nodes=NODES)
async def test_a_node_loses_the_taint_when_the_daemon_is_ready_there(world: MemberWorld) -> None:
    first, second, third = await node_names(world)
    await taint(world, first, OTHER, TAINT)
    await taint(world, second, TAINT)
    await world.create(daemon(delay_s=20))
    await world.until_status(KIND, "agent", starting=2)
    assert await taints_of(world, first) == [OTHER, TAINT]

    await world.until_status(KIND, "agent", ready=3)
    await asyncio.sleep(5)

    assert [await taints_of(world, name) for name in (first, second, third)] == [[OTHER], [], []]
    assert "starting" not in (await world.get(KIND, "agent"))["status"]
    world.log.clear()
    await asyncio.sleep(60)
    assert not [line for line in world.log if "clustercapacities" not in line]


@in_member(nodes=NODES)
async def test_a_node_that_comes_later_loses_it_too(world: MemberWorld) -> None:
    (first, *_) = await node_names(world)
    await world.create(daemon())
    await world.until_status(KIND, "agent", ready=3)
    await taint(world, first, TAINT)
    await asyncio.sleep(5)
    assert await taints_of(world, first) == []


@in_member(nodes=NODES)
async def test_without_being_asked_taints_stay(world: MemberWorld) -> None:
    (first, *_) = await node_names(world)
    plain = daemon()
    del plain["spec"]["startupTaint"]
    await taint(world, first, TAINT)
    await world.create(plain)
    await world.until_status(KIND, "agent", ready=2)
    await asyncio.sleep(10)
    assert await taints_of(world, first) == [TAINT]
    assert not [line for line in world.log if "/nodes/" in line]
