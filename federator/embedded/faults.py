"""Faults as a decorator of the Transport, out of one table, on a seeded or an enumerated schedule.

Used by simulation tests and the campaign, on virtual time only. A killed process is never cancelled: its life is over,
so that nothing it still tries to send or hear gets through, and a new life is begun by whoever runs the world.
"""

import asyncio
import collections
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from federator.kube import errors
from federator.kube.transport import RefreshesCredentials, Request, Response, Transport


class Life:
    """One life of one process, from its start to its sudden death. `on_death(life)` is called once, at that moment."""

    def __init__(self, name: str, on_death: Callable[["Life"], None] | None = None) -> None:
        self.name = name
        self.dead = False
        self._on_death = on_death
        self._graves: list[asyncio.Future[NoReturn]] = []

    def die(self) -> None:
        """SIGKILL: from now on nothing that this life does has any effect."""
        if not self.dead:
            self.dead = True
            if self._on_death is not None:
                self._on_death(self)

    async def rest(self) -> NoReturn:
        """Where the calls of a dead process wait; kept, so that no `finally` runs because somebody collected them."""
        grave: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._graves.append(grave)
        await grave
        raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class Injection:
    """What a fault has to work with: the request it was chosen for, and the way on."""

    request: Request
    inner: Transport
    life: Life
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Fault:
    """One row: its number in FAULTS.md, the requests it can befall, and what happens then."""

    name: str
    number: str
    where: str
    """write, change (a write to an object that is there), read or watch."""
    how: Callable[[Injection], Awaitable[Response]]


async def _crash_before_write(at: Injection) -> Response:
    at.life.die()
    await at.life.rest()


async def _crash_after_write(at: Injection) -> Response:
    response = await at.inner.request(at.request)
    await response.close()
    at.life.die()
    await at.life.rest()


async def _lose_reply(at: Injection) -> Response:
    response = await at.inner.request(at.request)
    await response.close()
    raise errors.Unreachable(f"{at.request.method} {at.request.path}: the reply was lost.")


async def _conflict(at: Injection) -> Response:
    return CannedResponse(
        409,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Conflict",
            "code": 409,
            "message": "the object has been modified; please apply your changes to the latest version and try again",
        },
    )


async def _reset_watch(at: Injection) -> Response:
    return CutResponse(await at.inner.request(at.request), after_chunks=at.rng.randrange(4))


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("crash-before-write", "F1", "write", _crash_before_write),
        Fault("crash-after-write", "F2", "write", _crash_after_write),
        Fault("lost-reply", "F29", "write", _lose_reply),
        Fault("conflict", "F39", "change", _conflict),
        Fault("watch-reset", "F14", "watch", _reset_watch),
    )
}


def befalls(fault: Fault, request: Request) -> bool:
    """Whether the fault can happen to this request."""
    if ("watch", "true") in request.query:
        return fault.where == "watch"
    if request.method in ("GET", "HEAD"):
        return fault.where == "read"
    return fault.where == "write" or (fault.where == "change" and request.method in ("PUT", "PATCH", "DELETE"))


class Schedule(Protocol):
    """Says which fault, if any, befalls a request. `where` names the API server."""

    def pick(self, where: str, request: Request) -> Fault | None: ...


class Seeded:
    """Each fault with its own chance in a thousand, drawn from one generator; nothing after `stop`."""

    def __init__(self, rng: random.Random, per_mille: Mapping[str, int]) -> None:
        unknown = sorted(set(per_mille) - set(FAULTS))
        if unknown:
            raise ValueError(f"there is no fault {unknown[0]!r} in the table")
        self._rng = rng
        self._per_mille = dict(per_mille)
        self.stopped = False

    def stop(self) -> None:
        """Faults are over: the world may settle."""
        self.stopped = True

    def pick(self, where: str, request: Request) -> Fault | None:
        """The first fault of the table whose draw succeeds."""
        if self.stopped:
            return None
        for fault in FAULTS.values():
            chance = self._per_mille.get(fault.name, 0)
            if chance and befalls(fault, request) and self._rng.randrange(1000) < chance:
                return fault
        return None


class Exactly:
    """One fault at the n-th request that it can befall (counted from 0 over all API servers): for enumeration."""

    def __init__(self, name: str, nth: int) -> None:
        self._fault = FAULTS[name]
        self._nth = nth
        self.seen = 0
        """Requests so far that it could have befallen; a run without the fault tells how many there are."""

    def pick(self, where: str, request: Request) -> Fault | None:
        """The fault, once."""
        if not befalls(self._fault, request):
            return None
        self.seen += 1
        return self._fault if self.seen == self._nth + 1 else None


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
        if self._life.dead:
            await self._life.rest()
        fault = self._schedule.pick(self._where, request)
        if fault is None:
            response = await self._inner.request(request)
        else:
            self.fired[fault.name] += 1
            response = await fault.how(Injection(request, self._inner, self._life, self._rng))
        if self._life.dead:
            await self._life.rest()
        return MortalResponse(response, self._life)

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return isinstance(self._inner, RefreshesCredentials) and await self._inner.refresh_credentials()

    async def close(self) -> None:
        if not self._life.dead:
            await self._inner.close()


class MortalResponse:
    """An answer that nobody hears any more once the life is over."""

    def __init__(self, inner: Response, life: Life) -> None:
        self._inner = inner
        self._life = life
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body until death."""
        async for chunk in self._inner.chunks():
            if self._life.dead:
                await self._life.rest()
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The body, unless death comes first."""
        body = await self._inner.read(limit)
        if self._life.dead:
            await self._life.rest()
        return body

    async def close(self) -> None:
        await self._inner.close()


class CannedResponse:
    """An answer made here."""

    def __init__(self, status: int, body: Mapping[str, object]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = json.dumps(body).encode()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body at once."""
        yield self._body

    async def read(self, limit: int) -> bytes:
        """The body."""
        return self._body

    async def close(self) -> None:
        """There is no connection."""


class CutResponse:
    """A stream that breaks in the middle of the chunk after `after_chunks` whole ones."""

    def __init__(self, inner: Response, *, after_chunks: int) -> None:
        self._inner = inner
        self._left = after_chunks
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Whole chunks, half a chunk, the end of the connection."""
        async for chunk in self._inner.chunks():
            if self._left == 0:
                yield chunk[: len(chunk) // 2]
                raise errors.Unreachable("The connection was reset.")
            self._left -= 1
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The body, whole: only streams are cut."""
        return await self._inner.read(limit)

    async def close(self) -> None:
        await self._inner.close()
