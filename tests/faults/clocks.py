"""Wall clocks that jump and drift: one for every process and every cluster of a simulated world.

Only the wall time goes wrong. Monotonic time is the loop's and right everywhere, as on a real
machine.
"""

from federator.kube.clock import Clock


class ProcessClock(Clock):
    """A clock that is right until it is made to jump or drift."""

    __slots__ = ("_anchor_s", "_drift", "_offset_s")

    def __init__(self, wall_epoch_s: float) -> None:
        super().__init__(wall_epoch_s)
        self._offset_s = 0.0
        self._drift = 0.0
        self._anchor_s = 0.0

    @property
    def wrong_by_s(self) -> float:
        """How far it is ahead of the true time."""
        return self._offset_s + self._drift * (self.monotonic() - self._anchor_s)

    def jump(self, by_s: float) -> None:
        """The wall time is set to another one."""
        self._settle()
        self._offset_s += by_s

    def drift(self, by: float) -> None:
        """From now on it runs faster by this part of a second per second, 0.0 for the right
        speed."""
        self._settle()
        self._drift = by

    def put_right(self) -> None:
        """Shows the true time again, at the right speed."""
        self._offset_s = self._drift = 0.0

    def _settle(self) -> None:
        self._offset_s = self.wrong_by_s
        self._anchor_s = self.monotonic()

    def now(self) -> float:
        return super().now() + self.wrong_by_s
