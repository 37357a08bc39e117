"""The in-process transport: the client's requests carried to an embedded server without sockets, on
real or virtual time.

Every request costs one turn of the event loop, no more; there are no artificial delays. Faults and
latencies are decorators of the transport, not part of it.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Mapping

from federator.embedded.rest.api import Api
from federator.embedded.storage.messages import Answer, ApiRequest, Caller
from federator.kube import errors
from federator.kube.wire.transport import Request, Response


class InProcessTransport:
    """Speaks to one embedded server as one caller."""

    def __init__(self, api: Api, caller: Caller, name: str) -> None:
        self._api = api
        self._caller = caller
        self._name = name
        self._closed = False
        self._open: dict[int, InProcessResponse] = {}
        self._opened = 0

    async def request(self, request: Request) -> Response:
        """Hands the request over and returns the head of the answer. Raises `errors.Unreachable`
        once closed."""
        await asyncio.sleep(0)
        if self._closed:
            raise errors.Unreachable(f"the connection to {self._name} is closed")
        query: dict[str, list[str]] = {}
        for name, value in request.query:
            query.setdefault(name, []).append(value)
        headers: dict[str, str] = {}
        for name, value in request.headers.items():
            earlier = headers.get(name.lower())  # a mapping with repeated names has them all
            headers[name.lower()] = value if earlier is None else f"{earlier},{value}"
        asked = ApiRequest(request.method, request.path, query, headers, request.body, self._caller)
        answer = self._api.handle(asked)
        if answer.stream is None:
            return InProcessResponse(answer, self._api.date(), request.read_timeout_s, self._name)
        self._opened += 1
        number = self._opened
        forget = functools.partial(self._open.pop, number, None)
        response = InProcessResponse(
            answer, self._api.date(), request.read_timeout_s, self._name, forget
        )
        self._open[number] = response
        return response

    async def close(self) -> None:
        """Ends every stream that is still open."""
        self._closed = True
        for response in list(self._open.values()):
            await response.close()


class InProcessResponse:
    """An answer as the client's `Response`."""

    def __init__(
        self,
        answer: Answer,
        date: str,
        read_timeout_s: float,
        name: str,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = {**answer.headers(), "date": date}
        self._answer = answer
        self._read_timeout_s = read_timeout_s
        self._name = name
        self._on_close = on_close
        self._closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body; a stream that is silent for longer than the read time-out raises
        `errors.Unreachable`."""
        stream = self._answer.stream
        if stream is None:
            if self._answer.body:
                yield self._answer.body
            return
        lines = stream.chunks()
        while not self._closed:
            try:
                async with asyncio.timeout(self._read_timeout_s):
                    chunk = await anext(lines, None)
            except TimeoutError:
                await self.close()
                silence = (
                    f"{self._name} was silent for {self._read_timeout_s:g} s on an open stream"
                )
                raise errors.Unreachable(silence) from None
            if chunk is None:
                break
            yield chunk
        await self.close()

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises `errors.Malformed` beyond `limit` bytes."""
        if self._answer.stream is None:
            body = self._answer.body
        else:
            body = b""
            async for chunk in self.chunks():
                body += chunk
                if len(body) > limit:
                    break
        if len(body) > limit:
            raise errors.Malformed(f"{self._name} answered with more than {limit} bytes")
        return body

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._answer.stream is not None:
            self._answer.stream.close()
        if self._on_close is not None:
            self._on_close()
