"""The work queue of every controller: signals collapse, one worker per key, failures wait longer
each time.

However often a key is signalled while its turn runs, exactly one more turn follows. A turn gets a
key, never an event. `run` serves keys one by one, `run_batches` many at a time (placing). A failing
turn never ends the process.
"""

import asyncio
import collections
import heapq
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from federator.kube import backoff, cancelling, errors
from federator.kube.control.fair_queue import FairQueue
from federator.model.steps import RequeueAfter

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)

Answer = RequeueAfter | Iterable[RequeueAfter] | None

MIN_DELAY_S = 0.001
"""Floor for delays, in seconds: a shorter timer can fire before its due time and be set again for
ever."""

LARGE_BYTES: Final = 1 << 16
"""A dict of this size gives its memory back when it is empty. It keeps by itself what the most keys
took that it ever had: a hub that starts queues every workload."""

BURST = 4
"""A batch lingers when the one before it was begun less than so many times the lingering ago."""


class QueueMeter(Protocol):
    """Where a queue reports; `metrics.Metrics` is one."""

    def queue_added(self, queue: str, depth: int) -> None: ...
    def queue_started(self, queue: str, depth: int, waited_s: float) -> None: ...
    def queue_done(self, queue: str, worked_s: float) -> None: ...
    def queue_failed(self, queue: str, error: str) -> None: ...


class Batch(list[K]):
    """Keys with turns that began together. Each turn may end by itself; the others end with the
    batch."""

    def __init__(self, queue: "WorkQueue[K]", keys: Iterable[K]) -> None:
        super().__init__(keys)
        self._queue = queue
        self.held = dict.fromkeys(self)
        """Keys with turns that have not ended, in order."""

    def join(self, key: K) -> bool:
        """Adds a key and begins its turn now. False for a key that has its turn already, waits for
        it, or has failed and is to be tried again later."""
        if key in self.held or not self._queue.begin(key):
            return False
        self.held[key] = None
        return True

    def ended(self, key: K, error: BaseException | None = None) -> None:
        """The turn of this key is over: when it is signalled, it need not wait for the others of
        the batch. With an error it comes again, later with each failure."""
        if key in self.held:
            del self.held[key]
            if error is None:
                self._queue.succeed(key)
            else:
                self._queue.fail(key, error)
            self._queue.done(key)


class WorkQueue(Generic[K]):
    """Keys to be worked on. Bounded by the number of distinct keys, whatever the number of signals.

    `group` makes it fair: keys of one group that has many wait for each other, not those of other
    groups. `base_s`, `cap_s`: first and longest wait of a key after transient failures; `stuck_s`:
    the least wait after a failure that trying again does not help by itself.
    """

    def __init__(
        self,
        name: str,
        *,
        rng: random.Random,
        group: Callable[[K], Hashable] | None = None,
        base_s: float = 0.05,
        cap_s: float = 60.0,
        stuck_s: float = 5.0,
        metrics: QueueMeter | None = None,
    ) -> None:
        self.name = name
        self.failures = 0
        """Turns that ended in an exception that is no ApiError: each is a bug."""
        self._rng = rng
        self._base_s = base_s
        self._cap_s = cap_s
        self._stuck_s = stuck_s
        self._metrics = metrics
        self._ready: FairQueue[K] = FairQueue(group)
        self._waiting: dict[K, float] = {}  # in `_ready`, with the time of the first signal
        self._signalled_last = 0.0
        self._taken_last = float("-inf")
        """When a batch was last begun."""
        self._running: dict[K, float] = {}
        self._again: dict[K, float] = {}  # signalled while running
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._failed: dict[K, int] = {}
        self._waiters: collections.deque[asyncio.Future[None]] = collections.deque()
        self._starved_waiters: collections.deque[asyncio.Future[None]] = collections.deque()
        """Waiters for keys of starved groups: woken while nobody else is free to take them."""
        self._gathering = asyncio.Lock()
        self._takers = 0
        """Callers that wait for a batch of any groups, or gather one."""
        self._spawn: Callable[[], None] | None = None
        """Makes one worker more, unless there are as many as there may be."""
        self._workers = 0

    def __len__(self) -> int:
        """Keys ready to be taken."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing is ready and nothing runs (keys may still be due later)."""
        return not self._ready and not self._running

    @property
    def pending(self) -> int:
        """Keys ready, running or due later."""
        return len(set(self._waiting) | set(self._running) | set(self._due))

    def add(self, key: K) -> None:
        """Signals that `key` needs a turn. While its turn runs, it gets exactly one more."""
        if key in self._waiting or key in self._again:
            return
        now = asyncio.get_running_loop().time()
        if now == self._signalled_last:
            # one object for all that are signalled together: they may be very many
            now = self._signalled_last
        self._signalled_last = now
        if key in self._running:
            self._again[key] = now
            return
        self._enqueue(key, now)

    def add_after(self, key: K, delay_s: float) -> None:
        """Signals `key` in `delay_s` seconds; of several such signals the earliest counts."""
        if delay_s <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + max(delay_s, MIN_DELAY_S)
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._timers, (due, next(self._order), key))
        if len(self._timers) > 2 * len(self._due) + 64:
            self._timers = [entry for entry in self._timers if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._timers)
        self._set_timer()

    async def get(self, *, starved: bool = False) -> K:
        """Waits for a key and takes it; `done` must follow. `starved`: only of a starved group."""
        waiters = self._starved_waiters if starved else self._waiters
        while not self._ready.ready(starved=starved):
            waiter = asyncio.get_running_loop().create_future()
            waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Hand a wake-up that already reached us to the next in line, or it would be lost
                # with us.
                if waiter.done() and not waiter.cancelled() and self._ready:
                    _wake(waiters)
                raise
        return self._take(starved=starved)

    async def take_batch(
        self, most: int, linger_s: float = 0.0, *, starved: bool = False
    ) -> list[K]:
        """Waits for a key, then up to `linger_s` seconds for more; at most `most` keys, each to be
        given to `done`.

        A key that comes after a silence is taken at once: others are unlikely to follow soon.

        One batch is gathered at a time, so that keys which became ready together are in one: taken
        by several they would be worked on in the order in which they became ready.
        """
        if starved:
            return await self._gather(most, linger_s, starved=True)
        self._takers += 1
        try:
            async with self._gathering:
                return await self._gather(most, linger_s, starved=False)
        finally:
            self._takers -= 1
            if not self._takers and self._starved_waiters and self._ready.ready(starved=True):
                _wake(self._starved_waiters)

    async def _gather(self, most: int, linger_s: float, *, starved: bool) -> list[K]:
        batch = [await self.get(starved=starved)]
        before, self._taken_last = self._taken_last, asyncio.get_running_loop().time()
        crowded = (
            self._ready or len(self._running) > 1 or self._taken_last - before < BURST * linger_s
        )
        if linger_s > 0 and crowded and len(self._ready) + 1 < most:
            try:
                await asyncio.sleep(linger_s)
            except asyncio.CancelledError:
                self.done(batch[0])
                self.add(batch[0])
                raise
        while len(batch) < most and self._ready.ready(starved=starved):
            batch.append(self._take(starved=starved))
        return batch

    def runs(self, key: K) -> bool:
        """Whether the turn of this key has begun and not ended."""
        return key in self._running

    def backs_off(self, key: K) -> bool:
        """Whether its last turn failed, and it is to be tried again later."""
        return key in self._failed

    def begin(self, key: K) -> bool:
        """Begins the turn of a key that was not signalled, to be given to `done`. False when its
        turn runs or is waited for, also after a failure: a turn for the sake of another key would
        fail again, as often as that one comes."""
        if key in self._running or key in self._waiting or self.backs_off(key):
            return False
        self._running[key] = asyncio.get_running_loop().time()
        self._ready.began(key)
        return True

    def done(self, key: K) -> None:
        """The turn of `key` has ended; it is queued again if it was signalled meanwhile."""
        begun = self._running.pop(key)
        self._ready.ended(key)
        if self._metrics is not None:
            self._metrics.queue_done(self.name, asyncio.get_running_loop().time() - begun)
        signalled = self._again.pop(key, None)
        if signalled is not None:
            self._enqueue(key, signalled)
        else:
            self._wake_starved(key)

    def succeed(self, key: K) -> None:
        """Forgets the failures of `key`."""
        self._failed.pop(key, None)

    def fail(self, key: K, error: BaseException) -> float:
        """Counts a failed turn and schedules the next; returns its delay in seconds (Retry-After is
        obeyed)."""
        count = self._failed.get(key, 0) + 1
        self._failed[key] = count
        delay_s = backoff.delay(self._rng, count, base_s=self._base_s, cap_s=self._cap_s)
        told_s, helps = _advice(error)
        if not helps:
            delay_s = max(delay_s, self._stuck_s * self._rng.uniform(1.0, 2.0))
        if told_s:
            delay_s = max(delay_s, told_s * self._rng.uniform(1.0, 1.25))
        self.add_after(key, delay_s)
        self._report(key, error, delay_s)
        return delay_s

    async def run(self, handler: Callable[[K], Awaitable[Answer]], workers: int = 1) -> None:
        """Serves keys with at most `workers` workers until cancelled. The handler may return when
        to look again.

        One worker is always there; others are spawned when a key is ready and all are busy, and
        leave when none is: of a thousand queues most are idle, and sixteen tasks that wait for
        nothing cost more than all else of a member.
        """
        async with asyncio.TaskGroup() as group:

            def spawn() -> None:
                if self._workers < workers:
                    self._workers += 1
                    group.create_task(
                        self._work(handler, spawned=True),
                        name=f"queue {self.name} worker {self._workers}",
                    )

            self._workers, self._spawn = 1, spawn
            try:
                for _ in range(len(self._ready) - 1):
                    spawn()
                await self._work(handler)
            finally:
                self._spawn = None

    async def run_batches(
        self,
        handler: Callable[[Batch[K]], Awaitable[Answer]],
        *,
        most: int,
        linger_s: float = 0.0,
        at_once: int = 1,
    ) -> None:
        """Serves batches of keys until cancelled, `at_once` of them side by side. A failed batch
        backs off all of its keys with turns that have not ended.

        One more serves starved groups alone: what is new there does not wait for a thousand
        keys of others that are in work.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(at_once + 1):
                working = self._work_batches(handler, most, linger_s, starved=number == at_once)
                group.create_task(working, name=f"queue {self.name} batches {number}")

    async def _work_batches(
        self,
        handler: Callable[[Batch[K]], Awaitable[Answer]],
        most: int,
        linger_s: float,
        *,
        starved: bool,
    ) -> None:
        while True:
            batch = Batch(self, await self.take_batch(most, linger_s, starved=starved))
            try:
                self._requeue(await cancelling.contained(handler(batch)))
            except asyncio.CancelledError:
                for key in batch.held:
                    self.add(key)
                raise
            except Exception as exc:  # a failure is data (invariant 20)
                for key in batch.held:
                    self.fail(key, exc)
            else:
                for key in batch.held:
                    self.succeed(key)
            finally:
                for key in batch.held:
                    self.done(key)
            # A handler that never waits must not keep everything else on this loop from running: of
            # a hundred thousand keys that need nothing there are hundreds of batches.
            await asyncio.sleep(0)

    async def _work(
        self, handler: Callable[[K], Awaitable[Answer]], *, spawned: bool = False
    ) -> None:
        """Serves keys one by one; a spawned worker leaves when none is ready."""
        try:
            while self._ready or not spawned:
                await self._serve(await self.get(), handler)
                # A handler that never waits must not keep everything else on this loop from
                # running.
                await asyncio.sleep(0)
        finally:
            self._workers -= 1

    async def _serve(self, key: K, handler: Callable[[K], Awaitable[Answer]]) -> None:
        try:
            self._requeue(await cancelling.contained(handler(key)))
        except asyncio.CancelledError:
            self.add(key)  # the next worker of this queue repeats a turn that was cut short
            raise
        except Exception as exc:  # a failure is data (invariant 20)
            self.fail(key, exc)
        else:
            self.succeed(key)
        finally:
            self.done(key)

    def _requeue(self, answer: Answer) -> None:
        if answer is None:
            return
        for requeue in (answer,) if isinstance(answer, RequeueAfter) else answer:
            self.add_after(requeue.key, requeue.after_s)

    def _report(self, key: K, error: BaseException, delay_s: float) -> None:
        kind = type(error).__name__
        if self._metrics is not None:
            self._metrics.queue_failed(self.name, kind)
        if isinstance(error, errors.ApiError):
            log.info(
                "queue %s: %s failed (%s: %s); again in %.2f s",
                self.name,
                key,
                kind,
                error,
                delay_s,
            )
            return
        self.failures += 1
        log.error(
            "queue %s: the turn of %s broke; again in %.2f s",
            self.name,
            key,
            delay_s,
            exc_info=error,
        )

    def _enqueue(self, key: K, signalled: float) -> None:
        self._waiting[key] = signalled
        self._ready.append(key)
        if self._metrics is not None:
            self._metrics.queue_added(self.name, len(self._ready))
        if _wake(self._waiters):
            return
        self._wake_starved(key)
        if self._spawn is not None:
            self._spawn()

    def _wake_starved(self, key: K) -> None:
        if not self._takers and self._starved_waiters and self._ready.is_starved(key):
            _wake(self._starved_waiters)

    def _take(self, *, starved: bool = False) -> K:
        key = self._ready.popleft(starved=starved)
        signalled = self._waiting.pop(key)
        _give_back(self._waiting)
        now = asyncio.get_running_loop().time()
        self._running[key] = now
        if self._metrics is not None:
            self._metrics.queue_started(self.name, len(self._ready), now - signalled)
        return key

    def _set_timer(self) -> None:
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        if not self._timers:
            return
        due = self._timers[0][0]
        if self._timer is not None:
            # Not `when()`: for what is due within a millisecond uvloop gives a handle that does not
            # know it.
            if not self._timer.cancelled() and self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._fire_timer, due)
        self._timer_at = due

    def _fire_timer(self, due_now: float) -> None:
        self._timer = None
        # A loop may fire a hair early by its own clock; what the timer was set for is due all the
        # same.
        now = max(asyncio.get_running_loop().time(), due_now)
        while self._timers and self._timers[0][0] <= now:
            due, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        _give_back(self._due)
        self._set_timer()


def _give_back(keys: dict[K, float]) -> None:
    if not keys and keys.__sizeof__() > LARGE_BYTES:
        keys.clear()


def _wake(waiters: collections.deque[asyncio.Future[None]]) -> bool:
    """Wakes the one that waits longest; whether there was one."""
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return True
    return False


def _advice(error: BaseException) -> tuple[float, bool]:
    """(how long the server asked us to wait, in seconds; whether trying again can help by
    itself)."""
    if isinstance(error, errors.ApiError):
        return error.retry_after_s or 0.0, error.transient
    if isinstance(error, BaseExceptionGroup):
        parts = [_advice(part) for part in error.exceptions]
        return max(asked_s for asked_s, _ in parts), all(helps for _, helps in parts)
    return 0.0, False
