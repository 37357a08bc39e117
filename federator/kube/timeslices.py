"""Long work on the event loop, in slices of time: other tasks get their turn after some
milliseconds of it, however many items that are.

A count of items is no such bound: one workload takes a microsecond or half a millisecond.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.005
"""Seconds of work before other tasks get their turn."""


class Watch(Protocol):
    """What tells how long the work has taken; `clock.Clock` is one. On virtual time work takes no
    time, so there all of it is one slice."""

    def elapsed(self) -> float: ...


class TimeSlices:
    """The slices of one piece of work, which begins now."""

    __slots__ = ("_begun_s", "_most_s", "_watch")

    def __init__(self, watch: Watch, most_s: float = SLICE_S) -> None:
        self._watch, self._most_s = watch, most_s
        self._begun_s = watch.elapsed()

    @property
    def used_up(self) -> bool:
        """Whether the present slice is over."""
        return self._watch.elapsed() - self._begun_s >= self._most_s

    async def give_way(self) -> None:
        """Lets other tasks run, and begins the next slice."""
        await asyncio.sleep(0)
        self._begun_s = self._watch.elapsed()


def parts(items: Iterable[T], watch: Watch) -> Iterator[Iterator[T]]:
    """These items in parts that take a slice each. A part must be used up before the next."""
    left = iter(items)
    for first in left:
        yield _part(first, left, TimeSlices(watch))


def _part(first: T, left: Iterator[T], slices: TimeSlices) -> Iterator[T]:
    yield first
    while not slices.used_up:
        try:
            following = next(left)
        except StopIteration:
            return
        yield following


async def in_slices(items: Iterable[T], watch: Watch) -> AsyncIterator[T]:
    """These items; between two of them other tasks get their turn when a slice is used up."""
    slices = TimeSlices(watch)
    for item in items:
        if slices.used_up:
            await slices.give_way()
        yield item
