"""How long to wait before trying again, and how often we may: full jitter, a ceiling, and a budget.

Used by the client (reads), reflectors, queues, lanes and the supervisor. Chance is an injected
generator.
"""

import random


class Backoff:
    """Delays that double from `base_s` to at most `cap_s`, each drawn uniformly from (floor,
    ceiling] (full jitter)."""

    __slots__ = ("_base_s", "_cap_s", "_floor", "_rng", "failures")

    def __init__(
        self, rng: random.Random, *, base_s: float, cap_s: float, floor: float = 0.1
    ) -> None:
        self._rng = rng
        self._base_s = base_s
        self._cap_s = cap_s
        self._floor = floor
        """Smallest share of the ceiling that is drawn: pure full jitter may draw almost nothing
        many times over."""
        self.failures = 0
        """Failures in a row so far."""

    def next(self) -> float:
        """Counts one more failure; seconds to wait before trying again."""
        self.failures += 1
        return delay(
            self._rng, self.failures, base_s=self._base_s, cap_s=self._cap_s, floor=self._floor
        )

    def reset(self) -> None:
        """A success: the next failure starts from `base_s` again."""
        self.failures = 0


def delay(
    rng: random.Random, failures: int, *, base_s: float, cap_s: float, floor: float = 0.1
) -> float:
    """Seconds to wait after `failures` (>= 1) failures in a row."""
    ceiling = min(cap_s, base_s * 2.0 ** min(failures - 1, 60))
    return ceiling * rng.uniform(floor, 1.0)


class RetryBudget:
    """Retries that a stream of calls has earned: each call earns `share` of one, `most` are kept.

    When everything fails, retries therefore add at most `SHARE` to the load instead of multiplying
    it (F40).
    """

    __slots__ = ("_left",)
    SHARE, MOST = 0.1, 10.0

    def __init__(self) -> None:
        self._left = self.MOST

    def earn(self) -> None:
        """One first try was made."""
        self._left = min(self.MOST, self._left + self.SHARE)

    def spend(self) -> bool:
        """Takes one retry out of the budget; False when there is none."""
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
