"""Carries out the episodes that a seed drew: each begins at its time, lasts, and is healed; at the
end all are.

An episode that fails in our hands fails the run: a fault that could not be done must not look like
one that was survived. Acts of hostile actors are done in the same way.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from tests.simulation import hostile
from tests.simulation.drawing import Turn, generator
from tests.simulation.world import World


class Nemesis:
    """The episodes of one run."""

    def __init__(self, world: World, turns: Sequence[Turn]) -> None:
        self._world = world
        self._turns = turns
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to count."""
        self._task = asyncio.create_task(self._run(), name="nemesis")

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, turn in enumerate(self._turns):
                group.create_task(self._do(number, turn), name=f"nemesis {turn.fault}")

    async def _do(self, number: int, turn: Turn) -> None:
        if await self._over_within(turn.start_s):
            return
        rng = generator(self._world.parameters.seed, f"turn {number} {turn.fault}")
        self._world.say(f"{'nemesis':12} {turn.fault} begins")
        async with hostile.EVENTS[turn.fault].befall(self._world, rng):
            await self._over_within(turn.lasts_s)
        self._world.say(f"{'nemesis':12} {turn.fault} is healed")

    async def _over_within(self, seconds: float) -> bool:
        """Waits; True at once when everything is to be healed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return self._over.is_set()

    async def finish(self) -> None:
        """Lets every episode begin at its time and run its course. Raises what failed."""
        assert self._task is not None
        await self._task

    async def heal(self) -> None:
        """Ends every episode now. Raises what failed."""
        self._over.set()
        await self.finish()
