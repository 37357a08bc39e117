"""How one request is made: deadline, answer read within bounds, error typed, credentials refreshed
once, reads retried.

Used by the client only. A write is sent once; after `errors.Unreachable` it is unknown whether it
took effect.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from multidict import CIMultiDict, MultiMapping

from federator.kube import backoff, errors
from federator.kube.wire import decode
from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport

BODY_LIMIT = 32 * 1024 * 1024
"""Largest answer that is read, in bytes (security checklist, "Own client")."""
OBJECT_LIMIT = 8 * 1024 * 1024
"""The same of one object: etcd takes 1.5 MiB, and hardly anybody sets it to more than a few times
that."""
SMALL_LIMIT = 1024 * 1024
"""The same of what every cluster has and keeps small, and of a refusal: a lease, a namespace."""
WORD_LIMIT = 64 * 1024
"""The same of what is a word or two: whether it is ready, which version it is."""
READ_TRIES = 4
"""A read is sent at most this often."""
LONGEST_WAIT_S = 5.0
"""A read does not sleep longer than this before it tries again; a server that asks for more gets
its caller to wait."""

Query = tuple[tuple[str, str], ...]


class RequestMeter(Protocol):
    """Where requests are reported; `metrics.Metrics` is one."""

    def request(
        self, cluster: str, verb: str, resource: str, code: str, seconds: float
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the client's, before it is a request. `verb` and `resource` name it in metrics
    and messages."""

    verb: str
    resource: str
    method: str
    path: str
    query: Query = ()
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0
    """Deadline of the whole call, tries and waits included, in seconds."""
    safe: bool = False
    """A read: sending it again does no harm."""
    body_limit: int = BODY_LIMIT
    """Largest answer that is read, in bytes."""


class Exchange:
    """Carries calls to one API server."""

    def __init__(
        self,
        transport: Transport,
        cluster: str,
        *,
        rng: random.Random,
        metrics: RequestMeter | None = None,
    ) -> None:
        self.transport = transport
        self._cluster = cluster
        self._rng = rng
        self._metrics = metrics
        self._budget = backoff.RetryBudget()

    def what(self, call: Call) -> str:
        """The call in words, for messages."""
        return f"{self._cluster}: {call.verb} {call.path}"

    async def send(self, call: Call) -> bytes:
        """The body of the 2xx answer. Raises an ApiError, within `call.timeout_s`."""
        return (await self.send_with_headers(call))[0]

    async def send_with_headers(self, call: Call) -> tuple[bytes, Mapping[str, str]]:
        """Body and headers of the 2xx answer. Raises an ApiError, within `call.timeout_s`."""
        try:
            async with asyncio.timeout(call.timeout_s):
                return await (self._patiently(call) if call.safe else self._once(call))
        except TimeoutError as exc:
            raise self._no_answer(call) from exc

    async def open(self, call: Call, *, silence_s: float) -> Response:
        """The 2xx answer of a watch, its body still to come and bounded by silence only."""
        try:
            async with asyncio.timeout(call.timeout_s):
                return await self._begin(call, read_timeout_s=silence_s, total_timeout_s=None)
        except TimeoutError as exc:
            raise self._no_answer(call) from exc

    async def _patiently(self, call: Call) -> tuple[bytes, Mapping[str, str]]:
        self._budget.earn()
        waits = backoff.Backoff(self._rng, base_s=0.1, cap_s=2.0)
        loop = asyncio.get_running_loop()
        # Not left to the caller's timeout alone: one that fires together with the transport's own
        # is swallowed by it.
        deadline = loop.time() + call.timeout_s
        while True:
            try:
                return await self._once(call)
            except (errors.Unreachable, errors.Throttled, errors.ServerTrouble) as exc:
                wait_s = max(waits.next(), exc.retry_after_s or 0.0)
                if (
                    waits.failures >= READ_TRIES
                    or wait_s > LONGEST_WAIT_S
                    or loop.time() + wait_s >= deadline
                ):
                    raise
                if not self._budget.spend():
                    raise
            await asyncio.sleep(wait_s)

    async def _once(self, call: Call) -> tuple[bytes, Mapping[str, str]]:
        response = await self._begin(
            call, read_timeout_s=call.timeout_s, total_timeout_s=call.timeout_s
        )
        try:
            return await response.read(call.body_limit), response.headers
        finally:
            await response.close()

    async def _begin(
        self, call: Call, *, read_timeout_s: float, total_timeout_s: float | None
    ) -> Response:
        """Sends the request and returns a 2xx answer, its body still to be read; raises what
        anything else means."""
        refreshed = False
        while True:
            request = Request(
                call.method,
                call.path,
                call.query,
                self._headers(call),
                call.body,
                read_timeout_s,
                total_timeout_s,
            )
            response = await self._metered(call, request)
            if 200 <= response.status < 300:
                return response
            problem = await self._problem(call, response)
            if (
                refreshed
                or not isinstance(problem, errors.Unauthenticated)
                or not await self._refresh()
            ):
                raise problem
            # A refused request was not carried out, so that even a write may be sent again, once.
            refreshed = True

    async def _metered(self, call: Call, request: Request) -> Response:
        if self._metrics is None:
            return await self.transport.request(request)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        code = "unreachable"
        try:
            response = await self.transport.request(request)
            code = str(response.status)
            return response
        except errors.OwnShortage:
            code = "own_shortage"
            raise
        finally:
            self._metrics.request(
                self._cluster, call.verb, call.resource, code, loop.time() - begun
            )

    async def _problem(self, call: Call, response: Response) -> errors.ApiError:
        try:
            body = await response.read(SMALL_LIMIT)
        except errors.Malformed:
            body = b""
        finally:
            await response.close()
        return decode.error(response.status, response.headers, body, self.what(call))

    async def _refresh(self) -> bool:
        transport = self.transport
        return isinstance(transport, RefreshesCredentials) and await transport.refresh_credentials()

    def _headers(self, call: Call) -> Mapping[str, str]:
        given, number = call.headers, f"{self._rng.getrandbits(64):016x}"
        # groups of a user are a repeated header
        headers = CIMultiDict(given) if isinstance(given, MultiMapping) else dict(given)
        headers.setdefault("accept", "application/json")
        headers.setdefault("x-request-id", number)
        return headers

    def _no_answer(self, call: Call) -> errors.Unreachable:
        return errors.Unreachable(f"{self.what(call)}: no answer within {call.timeout_s:g} s.")
