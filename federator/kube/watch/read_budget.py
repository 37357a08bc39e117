"""Processor time that reading the lists and watches of one server may take.

A server decides how long its lists are, how often its watches break and how many events they send,
so it decides how much work they are. Time is saved up while nothing is read, up to `most_s`, and
comes back at a small share of one processor. Watch events below a share of their own are not
charged. All reflectors of a server use one budget.
"""

import contextlib
from collections.abc import Iterator

from federator.kube import errors
from federator.kube.clock import Clock

SHARE = 0.05
"""Processor seconds that come back each second."""
WATCH_SHARE = 0.2
"""Processor seconds each second that watch events take without a charge: about 3,000 events of 4 KB
where benchmark I1 reads 50 us for one."""
WATCH_MOST_S = 2.0
"""So many of those are saved up at most: events come in bursts."""
RECOVERED = 0.5
"""A server that took everything has recovered when so much of `most_s` is saved up again."""


class ReadBudget:
    """The budget of one server. Virtual clocks measure no processor time."""

    def __init__(self, clock: Clock, most_s: float) -> None:
        """`most_s`: processor seconds that are saved up at most."""
        self.most_s = most_s
        self._clock = clock
        self._left_s = most_s
        self._watch_left_s = WATCH_MOST_S
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

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Charges handling watch events inside, beyond their own share. Must not wait."""
        begun_s = self._clock.processor()
        try:
            yield
        finally:
            self._refill()
            spent_s = self._clock.processor() - begun_s
            free_s = min(spent_s, self._watch_left_s)
            self._watch_left_s -= free_s
            self._left_s -= spent_s - free_s

    def check_list(self, cluster: str, plural: str) -> None:
        """Raises `errors.OverBudget` when nothing is left."""
        self._check(f"{cluster}: the list of {plural} was not read to its end")

    def check_watch(self, cluster: str, plural: str) -> None:
        """Raises `errors.OverBudget` when nothing is left."""
        if self._left_s <= 0:  # cheap, because it follows each batch of events
            self._check(f"{cluster}: the watch of {plural} was ended")

    def recovers_in_s(self) -> float:
        """Seconds until the server has recovered if nothing more is charged."""
        self._refill()
        lacking_s = RECOVERED * self.most_s - self._left_s
        return max(lacking_s / SHARE, 0.0)

    def _check(self, what: str) -> None:
        self._refill()
        if self._left_s <= 0:
            raise errors.OverBudget(
                f"{what}: the lists and watch events of this cluster have taken"
                f" {self.most_s:g} s of processor time, as much as they may at a time"
                " (hub.member_lists_processor_s)."
            )

    def _refill(self) -> None:
        now_s = self._clock.monotonic()
        if self._at_s is not None:
            passed_s = now_s - self._at_s
            self._left_s = min(self.most_s, self._left_s + SHARE * passed_s)
            self._watch_left_s = min(WATCH_MOST_S, self._watch_left_s + WATCH_SHARE * passed_s)
        self._at_s = now_s
