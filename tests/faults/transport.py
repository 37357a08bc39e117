"""A process's way to one API server: faults of single requests, the process's own death, and boxes
in between."""

import collections
import random

from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport
from tests.faults.lives import Life, MortalResponse
from tests.faults.rows import Boxes, Injection, Sending
from tests.faults.schedules import Schedule


class FaultTransport:
    """`inner` as one life of one process sees it through a schedule of faults. `fired` counts them
    by name."""

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
        return (
            isinstance(self._inner, RefreshesCredentials)
            and await self._inner.refresh_credentials()
        )

    async def close(self) -> None:
        if not self._life.dead:
            await self._inner.close()


class BoxTransport:
    """`inner` behind whatever stands before it."""

    def __init__(self, inner: Transport, boxes: Boxes, process: str, cluster: str) -> None:
        self._inner = inner
        self._boxes = boxes
        self._process = process
        self._cluster = cluster

    async def request(self, request: Request) -> Response:
        """The answer of a box, or of the server."""
        sending = Sending(self._process, self._cluster, request)
        box = self._boxes.befalling(sending)
        return await (
            self._inner.request(request) if box is None else box.how(sending, self._inner)
        )

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return (
            isinstance(self._inner, RefreshesCredentials)
            and await self._inner.refresh_credentials()
        )

    async def close(self) -> None:
        await self._inner.close()
