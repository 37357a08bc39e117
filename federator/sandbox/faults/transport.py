"""A process's way to one API server, with the faults of single requests and the process's own death in between."""

import collections
import random

from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport
from federator.sandbox.faults.lives import Life, MortalResponse
from federator.sandbox.faults.rows import Injection, Sending
from federator.sandbox.faults.schedules import Schedule


class FaultTransport:
    """`inner` as one life of one process sees it through a schedule of faults. `fired` counts them by name."""

    def __init__(
        self,
        inner: Transport,
        schedule: Schedule,
        life: Life,
        *,
        rng: random.Random,
        where: str = "host",
        fired: collections.Counter[str] | None = None,
    ) -> None:
        self._inner = inner
        self._schedule = schedule
        self._life = life
        self._rng = rng
        self._where = where
        self.fired: collections.Counter[str] = collections.Counter() if fired is None else fired

    async def request(self, request: Request) -> Response:
        """The answer, unless a fault or death comes between."""
        await self._life.alive()
        fault = self._schedule.pick(Sending(self._life.process, self._where, request))
        if fault is None:
            response = await self._inner.request(request)
        else:
            self.fired[fault.name] += 1
            response = await fault.how(Injection(request, self._inner, self._life, self._rng))
        await self._life.alive()
        return MortalResponse(response, self._life)

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return isinstance(self._inner, RefreshesCredentials) and await self._inner.refresh_credentials()

    async def close(self) -> None:
        if not self._life.dead:
            await self._inner.close()
