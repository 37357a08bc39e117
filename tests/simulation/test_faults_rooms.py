"""What the rows about room that goes promise: who cannot be bound is given elsewhere, who runs
stays where he is.
"""

import asyncio

import pytest

from federator.model.steps import ObjectRef
from tests.faults.episodes import rooms
from tests.simulation import solo
from tests.simulation.script import SERVICE
from tests.simulation.setting import UNSCHEDULABLE_AFTER_S
from tests.simulation.world import World

pytestmark = pytest.mark.long

WEB = ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "web", SERVICE)
MOVED_S = UNSCHEDULABLE_AFTER_S + 30.0


def _ready(world: World) -> int:
    return int((solo.one_of(world, SERVICE, "web").get("status") or {}).get("ready", 0))


def test_who_takes_the_room_of_one_cluster_keeps_nobody_from_running_in_another() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "room-taken"):
            await world.host.patch(WEB, {"spec": {"replicas": 24}})
            await asyncio.sleep(MOVED_S)
            assert _ready(world) == 24

    solo.tell(story)


def test_what_a_drained_machine_held_finds_another_one_and_nobody_leaves_the_cluster() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "node-drained"):
            await asyncio.sleep(MOVED_S)
            assert (solo.shares(world), _ready(world)) == (before, 4)

    solo.tell(story)


def test_what_a_cluster_without_an_open_machine_held_is_given_elsewhere() -> None:
    async def story(world: World) -> None:
        (node,) = rooms.nodes(world, "a")
        assert solo.shares(world)["web"]["a"] == 2
        assert await rooms.drain(world, "a", node)
        await asyncio.sleep(MOVED_S)
        assert (solo.shares(world)["web"], _ready(world)) == ({"b": 4}, 4)
        await rooms.uncordon(world, "a", node)

    solo.tell(story, solo.world(nodes=1))


def test_copies_on_a_lost_machine_are_not_counted_and_not_moved() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "node-lost"):
            await asyncio.sleep(MOVED_S)
            assert solo.shares(world) == before
            assert _ready(world) < 4
        await solo.settled(world)
        assert (solo.shares(world), _ready(world)) == (before, 4)

    solo.tell(story)
