"""A host that refuses the decision of a workload that leaves, for another or because its cluster is
lost, is not asked over and over; and nobody else waits for it."""

import asyncio

from tests.unit.hub.test_reclaim import tree
from tests.unit.hub.test_refused_statuses import refusal
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


def test_a_refused_victim_is_tried_ever_later_and_leaves_in_the_end() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        own = {"projects": ["other"], "tiers": {"OnDemand": {"guaranteed": {"cpu": "4"}}}}
        await world.create("FederatedQuota", "", "other", own)
        await world.create(PSVC, "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        (decision,) = await world.decisions()
        refused = f"placementdecisions/{decision['metadata']['name']}"
        world.answer("host", refused, *refusal(500, "InternalError"))

        await world.create(PSVC, "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(5)
        assert 1 <= world.answered[refused] <= 12
        await world.create(PSVC, "other", "page", service(2, "100m", project="other"))
        await asyncio.sleep(5)
        assert sum((await world.shares("other", "page")).values()) == 2
        assert sum((await world.shares("ads", "web")).values()) == 8

        world.clear()
        await asyncio.sleep(120)
        assert sum((await world.shares("feed", "api")).values()) == 3
        assert sum((await world.shares("ads", "web")).values()) == 5

    play(scenario)


def test_a_decision_that_is_refused_while_a_cluster_is_lost_is_tried_ever_later() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        (decision,) = await world.decisions()
        refused = f"placementdecisions/{decision['metadata']['name']}"
        (lost, *_) = await world.shares("feed", "web")
        await world.cut(lost)
        world.answer("host", refused, *refusal(403, "Forbidden"))
        await asyncio.sleep(900)
        assert 1 <= world.answered[refused] <= 40

        world.clear()
        await asyncio.sleep(120)
        assert lost not in await world.shares("feed", "web")
        assert sum((await world.shares("feed", "web")).values()) == 4

    play(scenario)
