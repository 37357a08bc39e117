"""Lives of processes: what belongs to one process between its start and its sudden end.

A task belongs to the life that its context names, and so does everything it starts. A life that is
over, or frozen, runs no callback: the virtual-time loop asks `keeper` before each. Nothing is
cancelled, so no `finally` of a killed process runs.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

from federator.kube.wire.transport import Response
from tests import virtual_time


class Life:
    """One life of one process. `on_death(life)` is called once, at the moment of its end."""

    def __init__(self, name: str, on_death: Callable[["Life"], None] | None = None) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.on_its_way = 0
        """Writes that have left this life and reach a server later, whether it lives by then or
        not."""
        self._on_death = on_death
        self._graves: list[asyncio.Future[NoReturn]] = []
        self._thawed: list[asyncio.Future[None]] = []

    @property
    def process(self) -> str:
        """The process whose life this is: `hub-0` of `hub-0#3`."""
        return self.name.partition("#")[0]

    def die(self) -> None:
        """SIGKILL: from now on nothing that this life does has any effect."""
        if not self.dead:
            self.dead = True
            if self._on_death is not None:
                self._on_death(self)

    def freeze(self) -> None:
        """SIGSTOP, a machine that is suspended, a loop that is blocked: time passes, nothing
        runs."""
        self.frozen = True

    def thaw(self) -> None:
        """Everything that became due meanwhile runs now, late."""
        if not self.frozen:
            return
        self.frozen = False
        loop = asyncio.get_running_loop()
        if isinstance(loop, virtual_time.VirtualTimeLoop) and not self.dead:
            loop.release(self)
        for waiter in self._thawed:
            if not waiter.done():
                waiter.set_result(None)
        self._thawed.clear()

    async def alive(self) -> None:
        """Returns at once, or when a frozen life thaws; never for a dead one."""
        while self.frozen and not self.dead:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._thawed.append(waiter)
            await waiter
        if self.dead:
            await self.rest()

    async def rest(self) -> NoReturn:
        """Where the calls of a dead process wait; kept, so that no `finally` runs because they were
        garbage-collected."""
        grave: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._graves.append(grave)
        await grave
        raise AssertionError("unreachable")


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)
"""Whose life the running task belongs to; None for the user and for everything inside the clusters.
"""


def keeper(handle: asyncio.Handle) -> Life | None:
    """For the virtual-time loop: the life that keeps this callback from running; None when it may
    run."""
    life: Life | None = handle._context.get(LIFE)  # type: ignore[attr-defined]  # every Handle has one
    return life if life is not None and (life.dead or life.frozen) else None


class MortalResponse:
    """An answer that is lost once the life is over, and comes later while the life is frozen."""

    def __init__(self, inner: Response, life: Life) -> None:
        self._inner = inner
        self._life = life
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body until death."""
        async for chunk in self._inner.chunks():
            await self._life.alive()
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The body, unless death comes first."""
        body = await self._inner.read(limit)
        await self._life.alive()
        return body

    async def close(self) -> None:
        await self._inner.close()
