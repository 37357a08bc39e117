"""Make before break: while copies move, for whatever reason, as many stay ready as before. The
replacements take a minute to start, and maxUnavailable would let a quarter go.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from federator.cli.planning import rebalance
from federator.kinds import registry
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef
from tests.unit.hub.taints import taint_all, throw_out
from tests.unit.hub.world import World, play, service, small_fleet

PSVC, CLUSTER, POLICY = "PinterestService", "MemberCluster", "ClusterPlacementPolicy"
COPIES = 12
WEB = WorkloadKey(PSVC, "feed", "web")


async def cluster(world: World, **spec: Any) -> None:
    await world.patch(CLUSTER, "", "a", {"spec": spec})


async def unlabelled(world: World) -> None:
    await world.patch(CLUSTER, "", "a", {"metadata": {"labels": {"use": None}}})


async def narrowed(world: World) -> None:
    names = {"clusters": {"names": ["b", "c"]}}
    await world.host.patch(registry.KINDS[POLICY].ref("", "where"), {"spec": names})


async def tainted(world: World) -> None:
    await cluster(world, taints=[{"key": "old", "value": "yes", "effect": "NoExecute"}])


async def drained(world: World) -> None:
    await cluster(world, drain={})


async def removed(world: World) -> None:
    await world.delete(CLUSTER, "", "a")


MOVES: dict[str, Callable[[World], Awaitable[None]]] = {
    "label": unlabelled,
    "policy": narrowed,
    "taint": tainted,
    "drain": drained,
    "removal": removed,
}


def slow(seconds: int = 60) -> dict[str, Any]:
    spec = service(COPIES)
    spec["template"]["metadata"] = {
        "annotations": {"embedded.federator/start-delay-seconds": str(seconds)}
    }
    return spec


async def made(world: World, seconds: int = 60) -> None:
    """A service that starts slowly, under a policy that chooses clusters by their labels."""
    for name in world.federation.members:
        await world.patch(CLUSTER, "", name, {"metadata": {"labels": {"use": "web"}}})
    policy = registry.KINDS[POLICY]
    await world.host.create(
        policy.ref("", "where"),
        {
            "apiVersion": policy.api_version,
            "kind": POLICY,
            "metadata": {"name": "where"},
            "spec": {"clusters": {"selector": {"matchLabels": {"use": "web"}}}},
        },
    )
    await world.create(PSVC, "feed", "web", slow(seconds))
    await world.settle(600)
    assert (await world.shares("feed", "web"))["a"] > 0
    assert await world.ready_replicas("feed", "web") == COPIES


async def least_until(
    world: World, done: Callable[[], Awaitable[bool]], *, each_s: float = 1.0
) -> int:
    """The fewest copies that were ready before it was done."""
    lowest = await world.ready_replicas("feed", "web")
    for _ in range(400):
        await asyncio.sleep(each_s)
        lowest = min(lowest, await world.ready_replicas("feed", "web"))
        if await done():
            return lowest
    raise AssertionError(f"not done: {await world.shares('feed', 'web')}")


def gone_from_a(world: World) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        left = await world.get("Deployment", "feed", "web", at="a")
        return left is None and "a" not in await world.shares("feed", "web")

    return gone


@pytest.mark.parametrize("how", MOVES)
def test_no_move_lowers_the_ready_count_while_another_cluster_has_room(how: str) -> None:
    async def scenario(world: World) -> None:
        await made(world)
        await MOVES[how](world)
        assert await least_until(world, gone_from_a(world)) == COPIES
        assert await world.condition(PSVC, "feed", "web", "MovesWithoutRoom") == {}

    play(scenario)


def test_a_rebalance_keeps_copies_until_others_are_ready() -> None:
    async def scenario(world: World) -> None:
        await made(world)
        before = (await world.shares("feed", "web"))["a"]
        await drained(world)
        await least_until(world, gone_from_a(world))
        await cluster(world, drain=None)
        await asyncio.sleep(60)
        await rebalance.ask(world.host, {WEB})

        async def filled() -> bool:
            deployment = await world.get("Deployment", "feed", "web", at="a") or {}
            return bool((deployment.get("status") or {}).get("readyReplicas", 0) == before)

        assert await least_until(world, filled) == COPIES

    play(scenario, fleet=small_fleet(2))


def test_fewer_replicas_leave_at_once() -> None:
    async def scenario(world: World) -> None:
        await made(world)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(5)
        assert await world.ready_replicas("feed", "web") == 5

    play(scenario)


def test_a_copy_that_was_not_ready_before_a_move_does_not_hold_it_up() -> None:
    """Neither in a cluster to which copies move, nor in another."""

    async def scenario(world: World) -> None:
        await made(world, 1)
        await asyncio.sleep(700)
        node = ObjectRef("v1", "nodes", "", "b-0-0", "Node")
        never = "embedded.federator/never-ready"
        await world.member("b").patch(node, {"metadata": {"annotations": {never: "true"}}})
        await throw_out(world, "b", 1)
        await asyncio.sleep(5)
        await world.member("b").patch(node, {"metadata": {"annotations": {never: None}}})
        assert await world.ready_replicas("feed", "web") == COPIES - 1
        await drained(world)
        assert await least_until(world, gone_from_a(world)) == COPIES - 1

    play(scenario, fleet=small_fleet(nodes=1))


def test_a_move_without_room_uses_max_unavailable_and_a_condition_reports_it() -> None:
    """The machines of b refuse the replacements after the decision, and there is no third cluster."""

    async def scenario(world: World) -> None:
        await made(world)
        share = (await world.shares("feed", "web"))["a"]
        await drained(world)
        await asyncio.sleep(10)
        assert await world.shares("feed", "web") == {"b": COPIES}
        await taint_all(world, "b", 4)
        client = world.member("b")
        for pod in (await client.list("v1", "pods", "feed")).items:
            if pod["status"].get("phase") != "Running":
                ref = ObjectRef("v1", "pods", "feed", pod["metadata"]["name"], "Pod")
                await client.delete(ref, uid=pod["metadata"]["uid"])
        await asyncio.sleep(40)
        assert await world.ready_replicas("feed", "web") == COPIES
        await asyncio.sleep(80)
        assert await world.ready_replicas("feed", "web") == COPIES - COPIES // 4
        assert (await world.shares("feed", "web")) == {"b": COPIES}
        said = await world.condition(PSVC, "feed", "web", "MovesWithoutRoom")
        assert (said["status"], said["reason"]) == ("True", "NoRoomToSurge")
        assert "leave a before" in said["message"]
        assert share > COPIES // 4

    play(scenario, fleet=small_fleet(2))


def test_a_restart_lacks_no_more_than_max_unavailable_over_all_clusters() -> None:
    async def scenario(world: World) -> None:
        limits = {"maxUnavailable": 1, "maxSurge": 0}
        await world.create(PSVC, "feed", "web", service(6, updateStrategy=limits))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 3, "b": 3}
        restarted = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
        await world.patch(PSVC, "feed", "web", {"spec": {"template": restarted}})

        async def done() -> bool:
            found = await world.get(PSVC, "feed", "web")
            return found is not None and found["status"].get("updatedReplicas") == 6

        assert await least_until(world, done, each_s=0.25) == 5

    play(scenario, fleet=small_fleet(2))
