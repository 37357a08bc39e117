"""What many slices need in a member is tried by one of them at a time, and not before its wait is
over.
"""

import asyncio

import pytest

from tests.unit.hub.test_profiles import sidecar
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
SERVICES = [f"web-{number}" for number in range(12)]
ONLY_A = {"clusters": {"names": ["a"]}}


async def held_in_a(world: World) -> int:
    found = [await world.get(PSVC, "feed", name, at="a") for name in SERVICES]
    return sum(one is not None for one in found)


@pytest.mark.parametrize(
    ("ending", "status", "most"),
    [
        ("/runtimeprofiles", 500, 12),
        ("/runtimeprofiles", 403, 12),
        ("/namespaces/feed", 500, 36),  # the client tries a read three times
    ],
)
def test_one_object_that_slices_share_is_tried_with_one_back_off(
    ending: str, status: int, most: int
) -> None:
    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await world.settle()
        world.answer("a", ending, status)
        for name in SERVICES:
            await world.create(PSVC, "feed", name, service(1, placement=ONLY_A))
        await asyncio.sleep(60)
        assert await held_in_a(world) == 0
        assert 3 <= world.answered[ending] <= most
        found = await world.get(PSVC, "feed", SERVICES[-1])
        assert found is not None
        told = found["status"]["clusterStatuses"][0]
        assert told["reason"] == ("ServerTrouble" if status == 500 else "Denied")

        world.clear()
        await asyncio.sleep(31)
        assert await held_in_a(world) == len(SERVICES)
        await world.settle()

    play(scenario)


def test_slices_that_need_the_same_profile_send_it_once() -> None:
    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await world.settle()
        world.hold_up("a", "/runtimeprofiles", 2.0)
        for name in SERVICES:
            await world.create(PSVC, "feed", name, service(1, placement=ONLY_A))
        await asyncio.sleep(4)
        assert await held_in_a(world) == len(SERVICES)
        assert world.writes["hub", "a", "POST", "runtimeprofiles"] == 1

    play(scenario)
