"""The clock every controller is handed: monotonic seconds for waiting, wall time for what is
written into objects.

Both come from the running event loop, so the same controller lives on real and on virtual time.
Nothing above this floor reads `time` or `datetime.now`; a clock is an argument. Made once per
process (or per simulation) and shared.
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

T = TypeVar("T")

_read_elapsed: Callable[[], float] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Clock:
    """Wall time that advances with the event loop: `now() = wall_epoch_s + loop.time()`.

    `wall_epoch_s` is the wall time, in seconds since 1970, at which the loop's own time was zero.
    """

    __slots__ = ("_second", "_stamp", "wall_epoch_s")

    def __init__(self, wall_epoch_s: float) -> None:
        self.wall_epoch_s = wall_epoch_s
        self._second = -1
        self._stamp = ""

    def monotonic(self) -> float:
        """Seconds on the running loop's time axis; what sleeps and deadlines are measured on."""
        return asyncio.get_running_loop().time()

    def elapsed(self) -> float:
        """Seconds that have passed, read at this very moment, the machine's sleep included: what a
        lease runs out by.

        Never what a sleep is measured on: it may be ahead of `monotonic`.
        """
        return self.monotonic()

    def processor(self) -> float:
        """Processor seconds that this thread has used; differences count. On virtual time work
        takes none, so that it is the same in every run."""
        return 0.0

    def now(self) -> float:
        """Wall time in seconds since 1970."""
        return self.wall_epoch_s + self.monotonic()

    def rfc3339(self) -> str:
        """Now, to the second, as Kubernetes writes `metav1.Time` (`2024-05-01T10:00:00Z`)."""
        second = int(self.now())
        if second != self._second:
            self._second, self._stamp = second, stamp(second)
        return self._stamp

    def rfc3339_micro(self) -> str:
        """Now, to the microsecond, as Kubernetes writes `metav1.MicroTime`
        (`2024-05-01T10:00:00.000000Z`)."""
        return stamp_micro(self.now())


class RealClock(Clock):
    """Wall time read anew on every call, so that a stepped or suspended machine still writes true
    times."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0.0)

    def elapsed(self) -> float:
        # A loop may answer with the time at which its turn began (uvloop does): after a long turn
        # that is the past.
        return _read_elapsed()

    def processor(self) -> float:
        return time.thread_time()

    def now(self) -> float:
        return time.time()


SLICE_S: Final = 0.005
"""Seconds of work before other tasks get their turn. A number of items is no such bound: one
workload takes a microsecond or half a millisecond."""


class TimeSlices:
    """Slices of one piece of work on the event loop, which begins now. On virtual time work takes
    no time, so there all of it is one slice."""

    __slots__ = ("_begun_s", "_clock", "_most_s", "_since_s", "_took_s")

    def __init__(self, clock: Clock, most_s: float = SLICE_S) -> None:
        self._clock, self._most_s = clock, most_s
        self._begun_s = clock.elapsed()
        self._since_s, self._took_s = clock.processor(), 0.0

    @property
    def took_s(self) -> float:
        """Processor seconds of this work so far, without what other tasks took meanwhile."""
        return self._took_s + self._clock.processor() - self._since_s

    @property
    def used_up(self) -> bool:
        """Whether the present slice is over."""
        return self._clock.elapsed() - self._begun_s >= self._most_s

    async def give_way(self) -> None:
        """Lets other tasks run, and begins the next slice."""
        self._took_s = self.took_s
        await asyncio.sleep(0)
        self._begun_s, self._since_s = self._clock.elapsed(), self._clock.processor()


def parts(items: Iterable[T], clock: Clock) -> Iterator[Iterator[T]]:
    """These items in parts that take a slice each. A part must be used up before the next."""
    left = iter(items)
    for first in left:
        yield _part(first, left, TimeSlices(clock))


def _part(first: T, left: Iterator[T], slices: TimeSlices) -> Iterator[T]:
    yield first
    while not slices.used_up:
        try:
            following = next(left)
        except StopIteration:
            return
        yield following


async def in_slices(items: Iterable[T], clock: Clock) -> AsyncIterator[T]:
    """These items; between two of them other tasks get their turn when a slice is used up."""
    slices = TimeSlices(clock)
    for item in items:
        if slices.used_up:
            await slices.give_way()
        yield item


def stamp(epoch_s: float) -> str:
    """`epoch_s` (seconds since 1970, cut to whole seconds) as RFC 3339 in UTC."""
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_micro(epoch_s: float) -> str:
    """`epoch_s` as RFC 3339 in UTC with six decimals."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time with any offset. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time {text!r} has no offset")
    return moment.timestamp()
