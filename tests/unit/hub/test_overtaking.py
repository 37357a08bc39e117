"""Slices that overtake others on their way to a member: what the member then reports does not
include those behind.
"""

import asyncio

from tests.unit.hub.world import World, play, service, small_fleet

PSVC = "PinterestService"
LARGE = "7500m"
"""One copy fills a node."""


async def given(world: World) -> list[int]:
    """Copies decided on, for each workload."""
    return [
        sum((await world.shares("feed", name)).values()) for name in ("early", "later", "third")
    ]


def test_room_of_a_slice_that_was_overtaken_is_promised_to_nobody_else() -> None:
    async def scenario(world: World) -> None:
        sent = world.meanwhile("a", "POST", "pinterestservices", lambda: asyncio.sleep(20))
        await world.create(PSVC, "feed", "early", service(3, LARGE))
        await asyncio.sleep(2)
        assert sent.is_set(), "its slice has been sent, and has not arrived"
        await world.create(PSVC, "feed", "later", service(1, "1"))
        await asyncio.sleep(6)
        assert await world.get(PSVC, "feed", "early", at="a") is None
        assert await world.get(PSVC, "feed", "later", at="a") is not None

        await world.create(PSVC, "feed", "third", service(3, LARGE))
        await asyncio.sleep(2)
        assert await given(world) == [3, 1, 0]
        await asyncio.sleep(120)
        assert await given(world) == [3, 1, 0]

    play(scenario, fleet=small_fleet(1))


def test_a_decision_that_is_heard_late_and_made_for_what_has_changed_is_made_again() -> None:
    """Of a write whose answer was lost nobody knows until it is heard of, and by then its policy
    may be gone.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        [decided] = await world.decisions()
        name, made_for = decided["metadata"]["name"], decided["spec"]["inputsHash"]
        await world.patch(
            "PlacementDecision", "feed", name, {"spec": {"inputsHash": "of-another-time"}}
        )
        await asyncio.sleep(2)
        [decided] = await world.decisions()
        assert decided["spec"]["inputsHash"] == made_for
        await world.settle(within_s=10)

    play(scenario)
