"""The smallest number that is enough, where more is not always better.

Waiting is not monotone: a part of 36 % of a fleet may wait longer than 35 %, because rounding down
gives other clusters. So the answer is the smallest number that is enough together with every larger
one that was tried; smaller ones that were enough too are told beside it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

GRID: Final = 8
"""Numbers that are tried at once between one that is enough and one that is not."""
RUNGS: Final = 3
"""Numbers that are tried at once on the way down."""

Judge = Callable[[Sequence[int]], Mapping[int, bool]]
"""Whether each number is enough."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """What a search came to."""

    number: int | None
    """None: the largest number is not enough either."""
    below: int | None = None
    """The next smaller number that was tried and is not enough; None where all smaller ones are."""
    islands: tuple[int, ...] = ()
    """Still smaller numbers that are enough."""


def smallest(low: int, high: int, judge: Judge) -> Smallest:
    """The smallest number from `low` to `high` that is enough with all larger ones tried."""
    tried = dict(judge([high]))
    if not tried[high]:
        return Smallest(None)
    for rungs in _ladder(low, high):
        tried |= judge(rungs)
        if not all(tried[number] for number in rungs):
            break
    while True:
        best, below = _edge(tried)
        floor = low if below is None else below + 1
        candidates = _spread(floor, best - 1)
        if not candidates:
            islands = [number for number in tried if tried[number] and number < best]
            return Smallest(best, below, tuple(sorted(islands)))
        tried |= judge(candidates)


def _ladder(low: int, high: int) -> Iterator[list[int]]:
    """Numbers from the top at distances that double, a few at once: far too small ones, with which
    a simulation takes longest, are not tried where larger ones are not enough."""
    distance, rungs = 1, list[int]()
    while high - distance > low:
        rungs.append(high - distance)
        distance *= 2
        if len(rungs) == RUNGS:
            yield rungs
            rungs = []
    yield [*rungs, low] if low < high else rungs


def _edge(tried: Mapping[int, bool]) -> tuple[int, int | None]:
    """The smallest number of the unbroken run from the top, and what ends the run."""
    best = max(tried)
    for number in sorted(tried, reverse=True):
        if not tried[number]:
            return best, number
        best = number
    return best, None


def _spread(low: int, high: int) -> list[int]:
    """At most GRID numbers from `low` to `high`, evenly spread, both ends among them."""
    count = high - low + 1
    if count <= GRID:
        return list(range(low, high + 1))
    return sorted({low + (high - low) * at // (GRID - 1) for at in range(GRID)})


def enough_above(low: int, most: int, judge: Judge) -> Smallest:
    """The smallest number from `low` on, without a bound that is likely: doubled until it is enough
    or more than `most`."""
    high = max(low, 1)
    while high < most and not judge([high])[high]:
        high *= 2
    return smallest(low, min(high, most), judge)
