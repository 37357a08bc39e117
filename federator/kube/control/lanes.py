"""One lane per cluster: how many writes run at once, in which order keys get their turn, and when
to stop knocking.

The limit grows by one per full round of good answers and halves on 429, silence or answers far
slower than usual. A cluster that has not answered several times in a row is left alone for a while;
other lanes go on (F33, F40).
"""

import asyncio
import collections
import contextlib
import random
from collections.abc import AsyncIterator, Hashable
from typing import Protocol

from federator.kube import backoff, errors
from federator.kube.clock import Clock

BREAKER_FAILURES = 5
"""So many calls in a row without an answer close the lane for a while."""
SLOW_FACTOR = 4.0
"""An answer this many times slower than usual counts as a sign of overload ..."""
SLOW_MIN_S = 0.5
"""... if it took at least this long, in seconds."""
_HALVE_AGAIN_S = 0.5
WAITERS_MAX = 10_000
"""Callers that may wait; more are refused, to be tried again."""


class LaneClosed(errors.Throttled):
    """The lane let nothing through: no request was made."""


class LaneMeter(Protocol):
    """Where a lane reports; `metrics.Metrics` is one."""

    def lane(self, cluster: str, limit: int, running: int, waiting: int) -> None: ...


class Lane:
    """Bounded, fair, adaptive access to one cluster. `limit` is the ceiling of calls in flight."""

    def __init__(
        self,
        cluster: str,
        *,
        limit: int = 16,
        clock: Clock,
        rng: random.Random,
        metrics: LaneMeter | None = None,
    ) -> None:
        self.cluster = cluster
        self.ceiling = limit
        self.limit = float(limit)
        """Calls that may run at once now; fractions are progress towards the next one."""
        self.running = 0
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._queues: collections.OrderedDict[Hashable, collections.deque[asyncio.Future[None]]] = (
            collections.OrderedDict()
        )
        self._waiting = 0
        self._usual_s = 0.0
        self._shrunk_at = float("-inf")
        self._not_before = float("-inf")
        self._unanswered = 0
        self._pauses = backoff.Backoff(rng, base_s=1.0, cap_s=30.0, floor=0.5)
        self._trial = False

    @property
    def open(self) -> bool:
        """Whether a call would be let in or queued now rather than refused."""
        return self._clock.monotonic() >= self._not_before and not (self._broken and self._trial)

    @property
    def waiting(self) -> int:
        """Callers waiting for a slot."""
        return self._waiting

    @contextlib.asynccontextmanager
    async def slot(self, key: Hashable = "") -> AsyncIterator[None]:
        """Holds one slot. Keys take turns. What the body raises shows how the cluster does.

        Raises `LaneClosed` at once (with the time to wait) while the cluster asked for quiet or is
        left alone.
        """
        self._refuse_if_quiet()
        await self._enter(key)
        trial = False
        try:
            trial = self._let_in()
            begun = self._clock.monotonic()
            yield
            self._answered(self._clock.monotonic() - begun)
        except errors.ApiError as exc:
            self._failed(exc)
            raise
        finally:
            if trial:
                self._trial = False
            self._leave()

    # -- waiting in turn ------------------------------------------------------

    async def _enter(self, key: Hashable) -> None:
        if self.running < int(self.limit) and not self._waiting:
            self.running += 1
            return
        if self._waiting >= WAITERS_MAX:
            raise LaneClosed(
                f"{self.cluster}: {self._waiting} calls wait already.", retry_after_s=1.0
            )
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, collections.deque()).append(place)
        self._waiting += 1
        self._report()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave()  # the slot was ours already
            else:
                self._waiting -= 1
            raise

    def _leave(self) -> None:
        self.running -= 1
        self._admit()
        self._report()

    def _admit(self) -> None:
        """Gives free slots to waiters, one key after the other."""
        while self._queues and self.running < max(1, int(self.limit)):
            key, places = next(iter(self._queues.items()))
            place = places.popleft()
            if places:
                self._queues.move_to_end(key)
            else:
                del self._queues[key]
            if place.cancelled():
                continue
            self._waiting -= 1
            self.running += 1
            place.set_result(None)

    # -- how the cluster does -------------------------------------------------

    @property
    def _broken(self) -> bool:
        return self._unanswered >= BREAKER_FAILURES

    def _refuse_if_quiet(self) -> None:
        left_s = self._not_before - self._clock.monotonic()
        if left_s > 0:
            raise LaneClosed(
                f"{self.cluster}: left alone for {left_s:.1f} s more.", retry_after_s=left_s
            )

    def _let_in(self) -> bool:
        """Called with a slot in hand: False for an ordinary call, True for the one that tries a
        silent cluster."""
        self._refuse_if_quiet()
        if not self._broken:
            return False
        if self._trial:
            raise LaneClosed(
                f"{self.cluster}: one call is trying whether it answers.", retry_after_s=1.0
            )
        self._trial = True
        return True

    def _answered(self, took_s: float) -> None:
        self._unanswered = 0
        self._pauses.reset()
        usual_s = self._usual_s or took_s
        self._usual_s = usual_s + 0.1 * (min(took_s, 2 * usual_s) - usual_s)
        if took_s >= SLOW_MIN_S and took_s > SLOW_FACTOR * usual_s:
            self._shrink()
        else:
            self.limit = min(float(self.ceiling), self.limit + 1.0 / self.limit)

    def _failed(self, exc: errors.ApiError) -> None:
        if isinstance(exc, LaneClosed | errors.OwnShortage):
            return  # nothing was sent: no word on how the cluster does
        if isinstance(exc, errors.Throttled):
            self._shrink()
            if exc.retry_after_s:
                self._be_quiet(exc.retry_after_s * self._rng.uniform(1.0, 1.25))
        elif isinstance(exc, errors.Unreachable):
            self._shrink()
            self._unanswered += 1
            if self._broken:
                self._be_quiet(self._pauses.next())
        else:
            self._unanswered = 0  # an answer, if no welcome one

    def _shrink(self) -> None:
        """Halves the limit, at most once per half second: one overload fails many calls at the
        same time."""
        now = self._clock.monotonic()
        if now - self._shrunk_at >= _HALVE_AGAIN_S:
            self._shrunk_at = now
            self.limit = max(1.0, self.limit / 2)

    def _be_quiet(self, pause_s: float) -> None:
        self._not_before = max(self._not_before, self._clock.monotonic() + pause_s)

    def _report(self) -> None:
        if self._metrics is not None:
            self._metrics.lane(self.cluster, int(self.limit), self.running, self._waiting)
