"""Where answers are computed that read the hub's memory: in the snapshot worker, or in a thread of
the hub.

A question is a function of a module with picklable arguments. It gets the world, then these, then
a function that says when to stop.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from federator.hub.cache.state import HubState
from federator.hub.snapshot.following import Follower, Log, Lost
from federator.hub.snapshot.places import Kind, Places
from federator.hub.snapshot.world import StateCopy
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.threads import Stop

log = logging.getLogger(__name__)

T = TypeVar("T")
STARTS: Final = "federator_snapshot_starts_total"
AHEAD_S: Final = 30.0
"""Seconds after which a hub that leads starts the worker, unless somebody asks before: until then
it has more urgent things to do."""
LOOK_S: Final = 1.0
TRIES: Final = 2
"""How often one question is computed: once more if its process ends, which may be its own doing."""
BACKOFF_S: Final = (0.0, 0.0, 5.0, 30.0)
"""Seconds between two starts, the more often it ended the longer."""
STEADY_S: Final = 60.0
"""A worker that has lived so long starts the next one immediately."""


class Broken(Exception):
    """The worker is not running, or ended at each attempt."""


class Compute(Protocol):
    """Computes an answer on the hub's memory. Raises what the work raises, `places.Full`, `Broken`,
    and TimeoutError."""

    async def __call__(self, kind: Kind, work: Callable[..., T], *arguments: Any) -> T: ...


class InProcess:
    """Computes on a copy in this process, by a function such as `kube.threads.Threads`."""

    def __init__(
        self, state: Callable[[], HubState], clock: Clock, compute: Callable[..., Any]
    ) -> None:
        self._state = state
        self._clock = clock
        self._compute = compute

    async def __call__(self, kind: Kind, work: Callable[..., T], *arguments: Any) -> T:
        world = StateCopy.of(self._state(), self._clock)

        def computed(stop: Stop) -> T:
            return work(world, *arguments, stop)

        answer: T = await self._compute(computed)
        return answer


class Snapshots:
    """Computes in the snapshot worker of the hub that leads. `state` is called for every question,
    because a hub may start again in the same process."""

    def __init__(
        self,
        state: Callable[[], HubState],
        clock: Clock,
        *,
        shared: int,
        timeout_s: float,
        metrics: Metrics | None = None,
        log_as: Log = ("INFO", "auto"),
    ) -> None:
        self._state = state
        self._clock = clock
        self._log_as = log_as
        self._places = Places(shared)
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._follower: Follower | None = None
        self._closed = False
        self._starting = asyncio.Lock()
        self._begun_s = 0.0
        self._ends = 0
        """How often in a row it ended soon after its start."""

    @property
    def pid(self) -> int:
        """The worker's process; 0 while there is none."""
        follower = self._follower
        return follower.pid if follower is not None and not follower.ended.is_set() else 0

    async def __call__(self, kind: Kind, work: Callable[..., T], *arguments: Any) -> T:
        until_s = self._clock.monotonic() + self._timeout_s
        async with asyncio.timeout(self._timeout_s), self._places.taken(kind):
            for _ in range(TRIES):
                follower = await self._following()
                left_s = until_s - self._clock.monotonic()
                try:
                    answer: T = await follower.ask(kind, left_s, work, arguments)
                except Lost:
                    continue
                return answer
            raise Broken

    async def run(self) -> None:
        """Keeps a worker while this hub leads, until cancelled."""
        led_since_s: float | None = None
        try:
            while True:
                state, now_s = self._state(), self._clock.monotonic()
                if not (state.leading and state.ready):
                    led_since_s = None
                    await self._drop()
                elif led_since_s is None:
                    led_since_s = now_s
                elif now_s - led_since_s >= AHEAD_S:
                    await self._ahead()
                await asyncio.sleep(LOOK_S)
        finally:
            await self.close()

    async def close(self) -> None:
        """Ends the worker for good: open questions and later ones raise `Broken`."""
        self._closed = True
        await self._drop()

    async def _drop(self) -> None:
        """Ends the worker. The next question starts another one if this hub leads."""
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.end()

    async def _ahead(self) -> None:
        """Starts the worker before anybody asks, if it may be started now."""
        try:
            await self._following()
        except Broken:
            log.debug("the snapshot worker is started again later")

    async def _following(self) -> Follower:
        """The worker that follows the present memory. Raises `Broken`, also on a standby."""
        async with self._starting:
            state, follower = self._state(), self._follower
            if self._closed or not state.leading:
                raise Broken
            if follower is not None and follower.state is state and not follower.ended.is_set():
                return follower
            if follower is not None:
                await self._drop()
                self._reckon(follower, state)
            wait_s = self._begun_s + BACKOFF_S[min(self._ends, len(BACKOFF_S) - 1)]
            if self._ends and self._clock.monotonic() < wait_s:
                raise Broken
            self._begun_s = self._clock.monotonic()
            follower = Follower(state, self._clock, self._metrics, self._log_as)
            try:
                await follower.begin()
            except OSError as trouble:
                self._ends += 1
                log.warning("the snapshot worker cannot be started: %s", trouble)
                raise Broken from None
            if self._closed:  # meanwhile
                await follower.end()
                raise Broken
            if self._metrics is not None:
                self._metrics.child(STARTS).inc()
            log.info("the snapshot worker is process %d", follower.pid)
            self._follower = follower
            return follower

    def _reckon(self, ended: Follower, state: HubState) -> None:
        """Counts the ends of workers that followed this memory."""
        lived_s = self._clock.monotonic() - self._begun_s
        short = ended.state is state and lived_s < STEADY_S
        self._ends = self._ends + 1 if short else 0
