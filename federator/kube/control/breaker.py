"""A circuit breaker: while a server cannot be reached, one request at a time tries it.

Without it everything that waits for a server that is gone tries by itself, each with a back-off of
its own: a thousand objects are a thousand requests every few seconds (F40).
"""

import contextlib
import random
from collections.abc import Callable, Iterator

from federator.kube import errors
from federator.kube.backoff import Backoff

FAILURES = 3
"""So many requests in a row find the server gone before others wait: one lost answer says little.
"""
BUSY_S = 0.5
"""While a request tries whether the server is there, others look again after so long."""


class Breaker:
    """Closed: requests pass. Open: they wait. Half open, when the wait is over: one passes."""

    __slots__ = ("_backoff", "_failed", "_now", "_trying", "_until_s", "why")

    def __init__(
        self,
        now: Callable[[], float],
        rng: random.Random,
        *,
        base_s: float = 1.0,
        cap_s: float = 10.0,
    ) -> None:
        """`now()`: monotonic time in seconds; `base_s`, `cap_s`: first and longest wait."""
        self._now = now
        self._backoff = Backoff(rng, base_s=base_s, cap_s=cap_s, floor=0.5)
        self._failed = 0
        """Requests in a row that no answer came to."""
        self._until_s = 0.0
        self._trying = False
        self.why = ""
        """What the last request met with that found the server gone; "" while it is closed."""

    def wait_s(self) -> float:
        """In how many seconds a request may be tried; 0.0 for now."""
        if not self.why:
            return 0.0
        if self._trying:
            return BUSY_S
        return max(0.0, self._until_s - self._now())

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """For the request: any answer closes the breaker, none again and again opens it."""
        alone = bool(self.why)
        self._trying = self._trying or alone
        try:
            yield
        except errors.Unreachable as gone:
            self._failed += 1
            # what was on its way when it opened tells nothing new
            if alone or (not self.why and self._failed >= FAILURES):
                self.why = str(gone)
                self._until_s = self._now() + self._backoff.next()
            raise
        except errors.OwnShortage:
            raise  # nothing was sent
        except errors.ApiError:
            self._close()
            raise
        else:
            self._close()
        finally:
            if alone:
                self._trying = False

    def _close(self) -> None:
        self.why, self._failed = "", 0
        self._backoff.reset()
