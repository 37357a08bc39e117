"""A batch is looked at in slices of time: what happens between two of them loses nothing."""

import asyncio
from typing import Any

from federator.kube.clock import Clock
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
MANY = 40


class Working(Clock):
    """Each look at it takes ten milliseconds, so every item of long work is a slice of its own."""

    __slots__ = ("worked_s",)

    def __init__(self, wall_epoch_s: float) -> None:
        super().__init__(wall_epoch_s)
        self.worked_s = 0.0

    def elapsed(self) -> float:
        self.worked_s += 0.01
        return self.monotonic() + self.worked_s


class Sliced(World):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        clock = Working(self.federation.clock.wall_epoch_s)
        self.federation.clock_of = lambda process: clock


def test_edits_and_deletions_between_two_slices_are_obeyed() -> None:
    async def scenario(world: World) -> None:
        names = [f"s{number}" for number in range(MANY)]
        await asyncio.gather(*(world.create(PSVC, "feed", name, service(3)) for name in names))
        changes = [
            world.patch(PSVC, "feed", name, {"spec": {"replicas": 5}}) for name in names[::3]
        ]
        away = {"spec": {"cordoned": True}}
        await asyncio.gather(
            *changes,
            *(world.delete(PSVC, "feed", name) for name in names[1::3]),
            world.patch("MemberCluster", "", "a", away),
        )
        await world.settle()

        for number, name in enumerate(names):
            shares = await world.shares("feed", name)
            assert sum(shares.values()) == (5, 0, 3)[number % 3], name
            for cluster in world.federation.members:
                found = await world.get(PSVC, "feed", name, at=cluster)
                assert (found is not None) == (cluster in shares), (name, cluster)

    play(scenario, world_of=Sliced)
