"""How many requests the gateway takes: a bucket of tokens for each user, and a bounded number at a
time for all."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from federator.gateway.api.problems import Problem
from federator.gateway.options import GatewayOptions

USERS_MAX: Final = 10_000
"""Users with remembered buckets; the least recent is forgotten."""


class Buckets:
    """A bucket of tokens for each user. `now_s` reads a monotonic clock."""

    def __init__(self, options: GatewayOptions, now_s: Callable[[], float]) -> None:
        self._options = options
        self._now_s = now_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, user: str) -> None:
        """Takes a token. Raises `Problem` 429 with the seconds until there is one."""
        now, most = self._now_s(), float(self._options.burst)
        left, since = self._buckets.pop(user, (most, now))
        left = min(most, left + (now - since) * self._options.requests_a_second)
        self._buckets[user] = (max(left - 1.0, 0.0) if left >= 1.0 else left, now)
        while len(self._buckets) > USERS_MAX:
            self._buckets.popitem(last=False)
        if left < 1.0:
            wait_s = max(1, round((1.0 - left) / self._options.requests_a_second + 0.5))
            raise Problem(
                429,
                "TooManyRequests",
                f"You may send {self._options.requests_a_second:g} requests a second on average.",
                retry_after_s=wait_s,
            )


class Turns:
    """A bounded number of submissions at a time, and a bounded number that wait. One user has at
    most half of both, so that submissions from one slow store leave turns for others."""

    def __init__(self, options: GatewayOptions) -> None:
        self.gate = asyncio.Semaphore(options.submissions_at_once)
        self._waiting_max = options.submissions_waiting
        self._half = max(options.submissions_at_once // 2, 1)
        self._half_waiting = max(options.submissions_waiting // 2, 1)
        self.waiting = 0
        self._users: dict[str, _OfUser] = {}

    @contextlib.asynccontextmanager
    async def place(self, user: str) -> AsyncIterator["Place"]:
        """A place among those that wait. Raises `Problem` 503 when there is none."""
        of_user = self._users.get(user) or _OfUser(asyncio.Semaphore(self._half))
        if self.waiting >= self._waiting_max or of_user.waiting >= self._half_waiting:
            raise Problem(
                503,
                "Overloaded",
                "The gateway works on as many submissions as it can. Nothing was created.",
                retry_after_s=2,
            )
        self._users[user] = of_user
        of_user.requests += 1
        place = Place(self, of_user)
        place.waits(1)
        try:
            yield place
        finally:
            place.waits(-1)
            of_user.requests -= 1
            if not of_user.requests:
                del self._users[user]


@dataclass(frozen=True, slots=True)
class Place:
    """Of one submission."""

    turns: Turns
    of_user: "_OfUser"

    def waits(self, change: int) -> None:
        """Counts it among those that wait, or no more."""
        self.turns.waiting += change
        self.of_user.waiting += change

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn, as soon as there is one."""
        async with self.of_user.gate, self.turns.gate:
            self.waits(-1)
            try:
                yield
            finally:
                self.waits(1)


@dataclass(slots=True)
class _OfUser:
    """The submissions of one user."""

    gate: asyncio.Semaphore
    requests: int = 0
    waiting: int = 0
