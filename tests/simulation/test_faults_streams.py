"""What the rows about reads and watches promise: nothing is deleted on doubt, and whatever was missed is caught up."""

import asyncio
from collections import Counter

import pytest

from federator.api import kinds
from federator.embedded.revisions import DELETED, Event
from tests.simulation import solo
from tests.simulation.world import World

SCALED = 6


async def scale(world: World, name: str = "web", replicas: int = SCALED) -> None:
    ref = kinds.KINDS["PinterestService"].ref("feed", name)
    await world.user("host").patch(ref, {"spec": {"replicas": replicas}})


def copies(world: World, name: str = "web") -> int:
    return sum(solo.shares(world)[name].values())


def deletions(world: World) -> Counter[str]:
    """Objects of ours that are deleted in members from now on, by kind and name."""
    found: Counter[str] = Counter()

    def note(event: Event) -> None:
        obj = event.current.obj
        if event.type is DELETED and (obj["kind"] in kinds.WORKLOADS or obj["kind"] in ("Service", "ConfigMap")):
            found[f"{obj['kind']} {obj['metadata']['name']}"] += 1

    for name in world.members:
        world.clusters[name].store.subscribe_all(note)
    return found


@pytest.mark.parametrize("name", ["expired-event", "nonsense-event", "repeated-events"])
def test_streams_that_break_off_or_lie_delete_nothing_and_hide_nothing(name: str) -> None:
    async def story(world: World) -> None:
        gone = deletions(world)
        async with solo.befalling(world, name, 600):
            for cluster in world.clusters:
                await world.links.end_streams(cluster)
            await scale(world)
            await asyncio.sleep(40)
        await solo.settled(world, 120.0)
        assert copies(world) == SCALED
        assert not gone

    solo.tell(story)
