"""What the rows about the network promise: a member nobody can reach loses nothing and moves
nothing.
"""

import asyncio

import pytest

from tests.simulation import solo
from tests.simulation.world import World

pytestmark = pytest.mark.long


def test_a_member_that_falls_silent_is_not_ready_within_forty_seconds_and_nothing_moves() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "hub-member-silent"):
            await asyncio.sleep(60)
            silent = [
                name
                for name in world.members
                if solo.conditions(solo.one_of(world, "MemberCluster", name))["Ready"]
                == ("Unknown", "Unreachable")
            ]
            assert len(silent) == 1
            assert solo.shares(world) == before
        await solo.settled(world)
        assert solo.shares(world) == before

    solo.tell(story)
