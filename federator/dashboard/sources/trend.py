"""Copies over time, by kind and namespace, so that a chart counts only what its reader may list.

Kept in memory from the start of the dashboard on. A pair takes room only when its figures change.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from federator.dashboard.sources.fleet import FleetCache
from federator.kube.clock import Clock

EVERY_S: Final = 60.0
SAMPLES_MAX: Final = 360
"""Six hours."""
CHUNK: Final = 2000
"""Workloads that are counted before other work gets its turn."""
Pair = tuple[str, str]
"""(kind, namespace)."""
Figures = tuple[int, int, int]
"""Copies, or shards: desired, placed, ready or done."""
NOTHING: Final[Figures] = (0, 0, 0)


@dataclass(slots=True)
class Trend:
    """Samples, the oldest first."""

    times: deque[float] = field(default_factory=deque)
    """When they were taken, in epoch seconds."""
    _changes: dict[Pair, deque[tuple[float, Figures]]] = field(default_factory=dict)
    """When the figures of a pair became these."""

    def add(self, now_s: float, counted: dict[Pair, Figures]) -> None:
        """Adds a sample, and forgets the oldest beyond `SAMPLES_MAX`."""
        self.times.append(now_s)
        while len(self.times) > SAMPLES_MAX:
            self.times.popleft()
        for pair in {*self._changes, *counted}:
            figures, changes = counted.get(pair, NOTHING), self._changes.setdefault(pair, deque())
            if not changes or changes[-1][1] != figures:
                changes.append((now_s, figures))
            while len(changes) > 1 and changes[1][0] <= self.times[0]:
                changes.popleft()
            if len(changes) == 1 and changes[0][1] == NOTHING:
                del self._changes[pair]

    def series(self, pairs: Iterable[Pair]) -> list[tuple[float, Figures]]:
        """(time, figures) of these pairs together."""
        wanted = [self._changes[pair] for pair in pairs if pair in self._changes]
        steps = sorted(
            ((at, (old, new)) for changes in wanted for at, old, new in _steps(changes)),
            key=lambda step: step[0],
        )
        total, waiting, series = NOTHING, iter(steps), list[tuple[float, Figures]]()
        step = next(waiting, None)
        for time in self.times:
            while step is not None and step[0] <= time:
                old, new = step[1]
                total = (
                    total[0] + new[0] - old[0],
                    total[1] + new[1] - old[1],
                    total[2] + new[2] - old[2],
                )
                step = next(waiting, None)
            series.append((time, total))
        return series


def _steps(changes: Iterable[tuple[float, Figures]]) -> Iterator[tuple[float, Figures, Figures]]:
    before = NOTHING
    for at, figures in changes:
        yield at, before, figures
        before = figures


async def counted(fleet: FleetCache) -> dict[Pair, Figures]:
    """The figures of all workloads now, in slices."""
    sums: dict[Pair, list[int]] = {}
    rows = iter(list(fleet.workloads()))
    while some := list(itertools.islice(rows, CHUNK)):
        for row in some:
            each = sums.setdefault((row.kind, row.namespace), [0, 0, 0])
            decision = fleet.decision(row.uid)
            each[0] += row.desired
            each[1] += decision.placed if decision is not None else 0
            each[2] += row.ready
        await asyncio.sleep(0)
    return {pair: (each[0], each[1], each[2]) for pair, each in sums.items()}


async def keep(trend: Trend, fleet: FleetCache, clock: Clock) -> None:
    """Takes samples until cancelled, from when the host was read."""
    for reflector in fleet.reflectors:
        await reflector.answered.wait()
    while True:
        trend.add(clock.now(), await counted(fleet))
        await asyncio.sleep(EVERY_S)
