"""Counts writes that do not last, so that no fight over an object goes on for ever
(F45, F47). Pure.

The same wish written again and again within a short time is a fight with a client that changes it
back, or with a server that does not keep it; drift that is repaired now and then is none. Used for
slices by the hub, for natives by members.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Tries:
    """How often the same wish was written in a row."""

    want: str
    count: int
    last_s: float
    paused_until_s: float = 0.0


FORGOTTEN_AT_ONCE = 64
"""Old tries that are forgotten with each new one, so that very many of them never cost a long
pause."""


class WriteFightDetector(Generic[K]):
    """The tries of every object that was written lately. `want` is a digest of what was wished for.

    Tries that are too old to count are forgotten, and with them objects that are gone: the absence
    of an object alone forgets nothing, for deleting it each time is a fight as well.
    """

    def __init__(self, *, writes: int, window_s: float, pause_s: float) -> None:
        self._writes = writes
        self._window_s = window_s
        self._pause_s = pause_s
        self._tries: OrderedDict[K, Tries] = OrderedDict()
        """The latest written stands last."""

    def written(self, key: K, want: str, now_s: float) -> None:
        """Counts a write."""
        self._forget_old(now_s)
        tries = self._tries.pop(key, None)
        if tries is None or tries.want != want or now_s - tries.last_s > self._window_s:
            self._tries[key] = Tries(want, 1, now_s)
            return
        self._tries[key] = tries
        tries.count += 1
        tries.last_s = now_s
        if tries.count >= self._writes:
            tries.paused_until_s = now_s + self._pause_s

    def __len__(self) -> int:
        """Objects of which tries are remembered."""
        return len(self._tries)

    def _forget_old(self, now_s: float) -> None:
        for _ in range(FORGOTTEN_AT_ONCE):
            key = next(iter(self._tries), None)
            if key is None:
                return
            oldest = self._tries[key]
            if max(oldest.last_s + self._window_s, oldest.paused_until_s) >= now_s:
                return
            del self._tries[key]

    def of(self, key: K, want: str) -> Tries | None:
        """The tries of this very wish."""
        tries = self._tries.get(key)
        return tries if tries is not None and tries.want == want else None

    def paused_until_s(self, key: K, want: str, now_s: float) -> float:
        """Until when the object is left alone, 0.0 when it is not."""
        tries = self.of(key, want)
        return tries.paused_until_s if tries is not None and tries.paused_until_s > now_s else 0.0

    def forget(self, key: K) -> None:
        self._tries.pop(key, None)
