"""How many requests the gateway takes: a bucket of tokens for each user, and a bounded number at a
time for all."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
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
    """A bounded number of submissions at a time, and a bounded number that wait."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._gate = asyncio.Semaphore(options.submissions_at_once)
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn, as soon as there is one. Raises `Problem` 503 when too many wait."""
        if self._waiting >= self._options.submissions_waiting:
            raise Problem(
                503,
                "Overloaded",
                "The gateway works on as many submissions as it can. Nothing was created.",
                retry_after_s=2,
            )
        self._waiting += 1
        try:
            await self._gate.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._gate.release()
