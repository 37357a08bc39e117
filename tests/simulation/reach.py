"""How clusters answer each life of a hub, as the process itself sees it: above every fault.

Rules that hold only between those who are well ask here. Told by `patience.Hearing`, the topmost
transport.
"""

import itertools
import math

SLOW_S = 1.0
"""An answer that takes longer is trouble."""
STILL_S = 12.0
"""A hub that sends nothing for so long may have stood still."""


class Reach:
    """Since when all is well. Times are virtual monotonic seconds."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._asking: dict[tuple[str, str], dict[int, float]] = {}
        self._trouble_s: dict[tuple[str, str], float] = {}
        self._asked_s: dict[str, float] = {}
        self._woke_s: dict[str, float] = {}

    def asks(self, life: str, cluster: str, now_s: float) -> int:
        """A request begins; its number is for `ends`."""
        if now_s - self._asked_s.get(life, now_s - 2 * STILL_S) > STILL_S:
            self._woke_s[life] = now_s
        self._asked_s[life] = now_s
        number = next(self._numbers)
        self._asking.setdefault((life, cluster), {})[number] = now_s
        return number

    def ends(self, life: str, cluster: str, number: int, now_s: float, *, well: bool) -> None:
        """It was answered, or given up."""
        begun_s = self._asking[life, cluster].pop(number)
        if not well or now_s - begun_s > SLOW_S:
            self._trouble_s[life, cluster] = now_s

    def well_since_s(self, life: str, cluster: str, now_s: float) -> float:
        """Since when every answer was good and in time; -inf for always, now where one is being
        waited for.
        """
        waiting = any(
            now_s - begun_s > SLOW_S for begun_s in self._asking.get((life, cluster), {}).values()
        )
        return now_s if waiting else self._trouble_s.get((life, cluster), -math.inf)

    def awake_since_s(self, life: str, now_s: float) -> float:
        """Since when it has never stood still, now if it does."""
        still = now_s - self._asked_s.get(life, 0.0) > STILL_S
        return now_s if still else self._woke_s.get(life, 0.0)
