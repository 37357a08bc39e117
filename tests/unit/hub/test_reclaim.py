"""A guarantee that was lent comes back: in the running hub, both sides told."""

import asyncio
from typing import Any

from tests.unit.hub.world import World, play, service


def below(cpu: str, project: str, **more: Any) -> dict[str, Any]:
    tiers = {"OnDemand": {"guaranteed": {"cpu": cpu}}}
    return {"parent": "company", "projects": [project], "tiers": tiers, **more}


def test_a_lent_guarantee_comes_back_copy_by_copy_and_both_sides_are_told() -> None:
    async def scenario(world: World) -> None:
        total = {"tiers": {"OnDemand": {"guaranteed": {"cpu": "4"}}}}
        await world.create("FederatedQuota", "", "company", total)
        await world.create("FederatedQuota", "", "ads", below("2", "ads"))
        rules = {"preemption": {"reclaim": "Any"}}
        await world.create("FederatedQuota", "", "feed", below("2", "feed", **rules))
        await world.create("PinterestService", "ads", "web", service(8, "500m", project="ads"))
        await world.settle()
        assert sum((await world.shares("ads", "web")).values()) == 8, "ads has borrowed 2 cpu"

        await world.create("PinterestService", "feed", "api", service(2, "500m", project="feed"))
        await asyncio.sleep(60)
        await world.settle()

        assert sum((await world.shares("feed", "api")).values()) == 2
        assert sum((await world.shares("ads", "web")).values()) == 6, "no more than is needed"
        placed = await world.condition("PinterestService", "ads", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "Preempted")
        assert "2 copies left for PinterestService/feed/api of project feed" in placed["message"]

    play(scenario)
