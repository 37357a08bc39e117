"""Processor time that reading the lists of one server may take.

A server decides how long its lists are and how often its watches break, so it decides how much work
they are. Time is saved up while nothing is listed, up to `most_s`, and comes back at a small share
of one processor. All reflectors of a server use one budget.
"""

import contextlib
from collections.abc import Iterator

from federator.kube import errors
from federator.kube.clock import Clock

SHARE = 0.05
"""Processor seconds that come back each second."""


class ListBudget:
    """The budget of one server. Virtual clocks measure no processor time."""

    def __init__(self, clock: Clock, most_s: float) -> None:
        """`most_s`: processor seconds that are saved up at most."""
        self.most_s = most_s
        self._clock = clock
        self._left_s = most_s
        self._at_s: float | None = None

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Charges what is done inside, which must not wait."""
        begun_s = self._clock.processor()
        try:
            yield
        finally:
            self._refill()
            self._left_s -= self._clock.processor() - begun_s

    def check(self, cluster: str, plural: str) -> None:
        """Raises `errors.OverBudget` when nothing is left."""
        self._refill()
        if self._left_s <= 0:
            raise errors.OverBudget(
                f"{cluster}: the list of {plural} was not read to its end: its lists have taken"
                f" {self.most_s:g} s of processor time, as much as they may at a time"
                " (hub.member_lists_processor_s)."
            )

    def _refill(self) -> None:
        now_s = self._clock.monotonic()
        if self._at_s is not None:
            self._left_s = min(self.most_s, self._left_s + SHARE * (now_s - self._at_s))
        self._at_s = now_s
