"""A decision that is created while the answer gets lost takes what it takes, also before its watch
tells of it."""

import asyncio

from tests.unit.hub.test_former_charges import LIMITS, PSVC, running, spec
from tests.unit.hub.world import World, play


def test_a_creation_that_was_not_answered_stays_charged_when_it_is_found_to_exist() -> None:
    """The hub tries again, and is told that the decision exists."""

    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", LIMITS)
        await world.settle()
        world.lose_reply("host", "POST", "placementdecisions")

        async def mute() -> None:
            world.mute("host")

        muted = world.meanwhile("host", "POST", "placementdecisions", mute)
        web = spec(PSVC, "600m", "app:1", {}) | {"project": "feed"}
        await world.create(PSVC, "feed", "web", web)
        await muted.wait()
        charged = world.federation.hub.state.commitments
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert len(charged) == 1
        assert sum((await world.shares("feed", "web")).values()) == 6

        await world.unmute()
        await world.settle()
        assert await running(world) == 3600

    play(scenario)
