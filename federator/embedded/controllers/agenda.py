"""Things to do later and things to do now: one timer for everybody, and queues without duplicates.

The agenda rounds due times up to a tenth of a second, so that a thousand pods starting together are
one batch and one wake-up. Nothing polls: without entries there is no timer.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

TICKS_PER_SECOND = 10


class Dirty(Generic[K]):
    """An ordered set used as a queue: a key waits at most once, in the order of its first
    mention."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[K, None] = {}

    def add(self, key: K) -> None:
        self._keys[key] = None

    def drain(self) -> Iterator[K]:
        """Takes keys out until none is left; keys added meanwhile are drained too."""
        keys = self._keys
        while keys:
            key = next(iter(keys))
            del keys[key]
            yield key

    def __bool__(self) -> bool:
        return bool(self._keys)


class Backoff:
    """Tries again after each failure of a key, twice as late as the time before, as a rate-limited
    work queue does."""

    __slots__ = ("_agenda", "_failures", "_first_s", "_most_s", "_retry", "_waiting")

    def __init__(
        self,
        agenda: "Agenda",
        retry: Callable[[Any], None],
        *,
        first_s: float = 0.005,
        most_s: float = 1000.0,
    ) -> None:
        self._agenda = agenda
        self._retry = retry
        self._first_s = first_s
        self._most_s = most_s
        self._failures: dict[Any, int] = {}
        self._waiting: set[Any] = set()

    def failed(self, key: Hashable) -> None:
        """Calls `retry(key)` later, once however often the key fails until then."""
        if key in self._waiting:
            return
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self._waiting.add(key)
        self._agenda.after(min(self._most_s, self._first_s * 2 ** min(count, 30)), self._again, key)

    def forget(self, key: Hashable) -> None:
        """The key did well, or is gone."""
        self._failures.pop(key, None)

    def waits(self, key: Hashable) -> bool:
        """Whether the time to try again has not come."""
        return key in self._waiting

    def _again(self, key: Any) -> None:
        self._waiting.discard(key)
        self._retry(key)


class Agenda:
    """Calls actions when their time has come. Actions only mark work; they cannot be taken back, so
    they must check."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called from a loop timer when something is due."""
        self._wake = wake
        self._ticks: list[int] = []
        self._actions: dict[int, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = -1

    def after(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """Calls `action(*args)` no earlier than `seconds` from now (loop time), less than 0.1 s
        late."""
        due = asyncio.get_running_loop().time() + seconds
        tick = math.ceil(due * TICKS_PER_SECOND - 1e-6)
        waiting = self._actions.get(tick)
        if waiting is None:
            heapq.heappush(self._ticks, tick)
            self._actions[tick] = [(action, args)]
        else:
            waiting.append((action, args))

    def at_once(self, action: Callable[..., None], *args: Any) -> None:
        """Calls `action(*args)` and wakes everybody: something outside has happened."""
        action(*args)
        self._wake()

    def collect(self) -> None:
        """Runs what is due."""
        now = asyncio.get_running_loop().time() * TICKS_PER_SECOND + 1e-6
        while self._ticks and self._ticks[0] <= now:
            for action, args in self._actions.pop(heapq.heappop(self._ticks)):
                action(*args)

    def arm(self) -> None:
        """Sets the timer for the earliest entry. Called before going to sleep."""
        if not self._ticks:
            return
        tick = self._ticks[0]
        if self._timer is not None and self._armed_for == tick:
            return
        self.close()
        self._armed_for = tick
        self._timer = asyncio.get_running_loop().call_at(tick / TICKS_PER_SECOND, self._ring)

    def close(self) -> None:
        """Stops the timer; entries stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._wake()
