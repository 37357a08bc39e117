"""A work queue with workers, for tests of which key has its turn when."""

import asyncio
import random
from typing import Any

from federator.kube.control.work_queue import WorkQueue


def queue(**options: Any) -> WorkQueue[str]:
    return WorkQueue("test", rng=random.Random(3), **options)


class Served:
    """A queue with workers; each turn of a key is noted with its time."""

    def __init__(self, work: WorkQueue[str], handler: Any, workers: int = 2) -> None:
        self.work = work
        self.turns: list[tuple[str, float]] = []
        self._handler = handler
        self._task = asyncio.create_task(work.run(self._turn, workers))

    async def _turn(self, key: str) -> Any:
        self.turns.append((key, asyncio.get_running_loop().time()))
        return await self._handler(key)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled()
