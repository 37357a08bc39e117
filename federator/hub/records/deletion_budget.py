"""How many slices may be deleted because their workloads are gone from the host (F50), or
because an edit of a policy or of labels moves them. Pure.

A host that lost objects by accident looks like a host where users deleted them. So deletions are
spread over time: a share of all slices per minute, and at least a floor, below which nothing waits.
"""

MINUTE_S = 60.0
WHOLE = 1000


class DeletionBudget:
    """A token bucket that holds what one minute allows, and fills in one minute.

    With 10,000 slices and 50 permille it holds 500 and refills 8.3 slices per second.
    """

    __slots__ = ("_at_s", "_floor", "_left", "_permille")

    def __init__(self, *, floor: int, permille: int) -> None:
        self._floor = max(floor, 1)
        self._permille = permille
        self._left: float | None = None
        self._at_s = 0.0

    def rate(self, total: int) -> int:
        """Slices per minute while there are `total` in all members."""
        return max(self._floor, total * self._permille // WHOLE)

    def wait_s(self, cost: int, total: int, now_s: float) -> float:
        """Seconds until that many slices may be deleted at once; 0.0 for now."""
        if self._permille >= WHOLE:
            return 0.0
        rate = self.rate(total)
        left = self._refilled(rate, now_s)
        # A request larger than the bucket passes when it is full, and is paid off afterwards.
        lacking = min(cost, rate) - left
        return lacking * MINUTE_S / rate if lacking > 0 else 0.0

    def take(self, cost: int, total: int, now_s: float) -> float:
        """Like `wait_s`; takes the slices from the bucket when the wait is 0.0."""
        wait_s = self.wait_s(cost, total, now_s)
        if wait_s == 0.0 and self._left is not None:
            self._left -= cost
        return wait_s

    def _refilled(self, rate: int, now_s: float) -> float:
        if self._left is None:
            self._left = float(rate)
        self._left = min(float(rate), self._left + max(0.0, now_s - self._at_s) * rate / MINUTE_S)
        self._at_s = now_s
        return self._left
