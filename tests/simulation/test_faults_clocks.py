"""What the rows about wall clocks promise: nobody's lease, health or work depends on what time
somebody says it is.
"""

import asyncio

import pytest

from tests.simulation import solo
from tests.simulation.script import perform
from tests.simulation.world import World

pytestmark = pytest.mark.long


def test_wall_clocks_that_jump_cost_no_lease_and_move_nothing() -> None:
    async def story(world: World) -> None:
        before, leader = solo.shares(world), world.life(world.leader()).name
        for name in ("hub-clock-jump", "host-clock-jump"):
            for draw in range(5):
                async with solo.happening(world, name, draw=draw):
                    await asyncio.sleep(30)
                    assert world.life(world.leader()).name == leader
                    assert solo.shares(world) == before
                await asyncio.sleep(5)
        await perform(solo.service("new", 1), world.host)
        await solo.settled(world)
        assert "new" in solo.shares(world)

    solo.tell(story)


def test_a_member_with_a_wrong_clock_stays_ready_and_keeps_its_work() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        for draw in range(4):
            async with solo.happening(world, "member-clock-off", draw=draw):
                await asyncio.sleep(60)
                for name in world.members:
                    assert (
                        solo.conditions(solo.one_of(world, "MemberCluster", name))["Ready"][0]
                        == "True"
                    )
                assert solo.shares(world) == before
            await solo.settled(world)

    solo.tell(story)
