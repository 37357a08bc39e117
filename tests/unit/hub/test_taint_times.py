"""A NoExecute taint of a person that a workload tolerates for a time: the hub records since when it is
there, copies stay that long, also over a change of hubs, and leave at the pace of moves.
"""

import asyncio
from typing import Any

from tests.unit.hub.world import World, play, service

PSVC, CLUSTER = "PinterestService", "MemberCluster"


def staying(seconds: int, **more: Any) -> dict[str, Any]:
    toleration = {
        "key": "old",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }
    return {"placement": {"tolerations": [toleration], **more}}


async def taint(world: World, *taints: dict[str, Any]) -> None:
    await world.patch(CLUSTER, "", "a", {"spec": {"taints": list(taints)}})


async def times(world: World) -> list[dict[str, Any]]:
    obj = await world.get(CLUSTER, "", "a")
    assert obj is not None
    return list(obj["status"].get("taintTimes") or ())


OLD = {"key": "old", "effect": "NoExecute"}


def test_copies_stay_as_long_as_tolerated_also_when_another_hub_leads() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **staying(300)))
        await world.settle()
        before = await world.shares("feed", "web")
        await taint(world, OLD)
        await asyncio.sleep(150)
        recorded = await times(world)
        assert [entry["key"] for entry in recorded] == ["old"]
        assert await world.shares("feed", "web") == before
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(130)
        assert await world.shares("feed", "web") == before
        assert await times(world) == recorded
        await asyncio.sleep(60)
        await world.settle()
        assert "a" not in await world.shares("feed", "web")
        await taint(world)
        await asyncio.sleep(60)
        assert await times(world) == []

    play(scenario)


def test_copies_leave_within_the_move_budget_also_under_a_lazy_policy() -> None:
    async def scenario(world: World) -> None:
        placement = staying(60, moveBudget={"maxCopiesPerMinute": 1}, onPolicyChange="Lazy")
        await world.create(PSVC, "feed", "web", service(12, **placement))
        await world.settle()
        has = (await world.shares("feed", "web"))["a"]
        assert has >= 3
        await taint(world, OLD)
        await asyncio.sleep(90)
        left = (await world.shares("feed", "web"))["a"]
        assert has - 2 <= left < has
        await asyncio.sleep(60 * has)
        assert "a" not in await world.shares("feed", "web")

    play(scenario)
