"""A Transport to a real API server, as plain as can be: for tests that must not rest on the transport they test.

cluster.py hands it out; node stand-ins and the contract suite speak through it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
from yarl import URL

from federator.kube import errors
from federator.kube.transport import Request


class PlainResponse:
    """One answer of aiohttp as a `transport.Response`."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.status = answer.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in answer.headers.items()}

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise errors.Unreachable(f"The answer broke off: {error!r}.") from error

    async def read(self, limit: int) -> bytes:
        body = b""
        async for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                raise errors.Malformed(f"The answer is longer than {limit} bytes.")
        return body

    async def close(self) -> None:
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()  # a polite end of TLS would outlive the test's loop
        self._answer.close()
        await asyncio.sleep(0)


class PlainTransport:
    """One aiohttp session for one server and one bearer token. Made inside a running loop or not; used in one loop."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._context = ssl.create_default_context(cafile=str(ca_file))
        self._session: aiohttp.ClientSession | None = None

    async def request(self, request: Request) -> PlainResponse:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=2**20)
        url = URL(self._url + request.path, encoded=True).with_query(list(request.query))
        timeout = aiohttp.ClientTimeout(request.total_timeout_s, sock_connect=5, sock_read=request.read_timeout_s)
        try:
            answer = await self._session.request(
                request.method,
                url,
                headers={**self._headers, **request.headers},
                data=request.body or None,
                timeout=timeout,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise errors.Unreachable(f"{request.method} {request.path}: {error!r}.") from error
        return PlainResponse(answer)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # lets the connector's transports close before the loop does
