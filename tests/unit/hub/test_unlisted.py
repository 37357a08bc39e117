"""Members that answer, and do not list a kind they serve: told after a while, and served again as
soon as they do, or serve that kind no longer.
"""

import asyncio

from tests.unit.hub.test_probing import readiness, restart
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
BROKEN = (
    500,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"conversion '
    b"webhook"
    b' failed","code":500}',
)


async def listing_breaks(world: World) -> None:
    """A hub starts and cannot list the job sets of b."""
    await world.create(PSVC, "feed", "web", service(6))
    await world.settle()
    world.answer("b", "/pinterestjobsets", *BROKEN)
    await restart(world)


def test_a_member_whose_lists_fail_is_not_reporting_after_the_grace_until_they_are_in() -> None:
    async def scenario(world: World) -> None:
        await listing_breaks(world)
        before = await readiness(world, "b")
        await asyncio.sleep(30)
        assert await readiness(world, "b") == before
        await asyncio.sleep(60)
        assert (await readiness(world, "b"))[:2] == ("False", "NotReporting")
        assert (await readiness(world, "a"))[0] == "True"

        world.clear()
        await asyncio.sleep(90)
        assert (await readiness(world, "b"))[0] == "True"

    play(scenario)


def test_a_kind_that_is_served_no_longer_keeps_nothing_back_although_it_was_never_listed() -> None:
    async def scenario(world: World) -> None:
        await listing_breaks(world)
        await asyncio.sleep(120)
        world.serve_no_longer("b", "PinterestJobSet")
        await asyncio.sleep(400)
        assert (await readiness(world, "b"))[0] == "True"
        await world.create(PSVC, "feed", "new", service(6))
        await asyncio.sleep(30)
        assert "b" in await world.shares("feed", "new")
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

    play(scenario)
