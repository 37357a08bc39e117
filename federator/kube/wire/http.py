"""The Transport to real API servers, on aiohttp, with its traps closed (F15, F34, F60;
"Own client").

No redirects, no proxies but the one it is given, no cookies, no inflating, no retries behind our
back, every wait bounded. Unary calls and watches have a connector each, so that a storm of watches
cannot starve writes.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from federator import __version__
from federator.kube import cancelling, errors, shortage
from federator.kube.wire.addresses import Guard
from federator.kube.wire.transport import Request

CONNECT_S = 5.0
"""Longest time for one TCP connection to be made, in seconds."""
QUEUE_S = 30.0
"""Longest wait for a connection of a watch, in seconds, TLS included; unary calls have their total.
"""
HEADER_BYTES = 16 * 1024
HEADERS_MAX = 100
KEPT_S = 15.0
"""How long a connection is kept that no request uses, in seconds: longer than from one probe of a
member to the next, and shorter than from one to the next but one. aiohttp takes the connection that
has rested longest, so two that probes use in turn would both stay otherwise, 45 KB each."""
_CHUNK_BYTES = 1024 * 1024


class Credentials(Protocol):
    """What goes into the Authorization header."""

    @property
    def certificates(self) -> int:
        """How often the client certificate has changed: connections show the one that they were
        made with."""
        ...

    async def authorization(self) -> str:
        """The Authorization header, "" for none."""
        ...

    async def refresh(self) -> bool:
        """Fetches them anew; False when they are as before."""
        ...


class StaticToken:
    """A bearer token that never changes by itself, or none."""

    __slots__ = ("_header",)
    certificates = 0

    def __init__(self, token: str = "") -> None:
        self._header = f"Bearer {token}" if token else ""

    def take(self, token: str) -> bool:
        """Shows another one from now on; False where none was shown."""
        if not self._header:
            return False
        self._header = f"Bearer {token}"
        return True

    async def authorization(self) -> str:
        return self._header

    async def refresh(self) -> bool:
        return False


@dataclass(frozen=True)
class Endpoint:
    """Where an API server is and how to speak to it."""

    server: str
    """`https://host:port`, possibly with a path."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """None only for plain http in a person's own kubeconfig."""
    credentials: Credentials = field(default_factory=StaticToken, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers that every request carries to act as another user."""
    tls_server_name: str = ""
    guard: Guard | None = None
    """Asked for every address before it is connected to."""
    proxy: str = ""
    """Only ever for a person's own kubeconfig."""
    lanes: int = 32
    """Unary requests that may run at once; more wait."""
    watches: int = 256
    spares: bool = False
    """Whether its connections leave the last descriptors of this process alone
    (`shortage.reserve`)."""
    user_agent: str = f"federator/{__version__}"


class HttpTransport:
    """Carries requests to one API server over HTTP/1.1. Make it and close it on the running
    loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._base = endpoint.server.rstrip("/")
        self._unary: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._former: aiohttp.ClientSession | None = None
        """Connections with the client certificate before, which end with their requests."""
        self._certificates = 0
        self._resolver: aiohttp.AsyncResolver | None = None
        self._closed = False

    async def request(self, request: Request) -> "HttpResponse":
        """Sends the request; raises `errors.Unreachable`, `errors.OwnShortage` where there is no
        descriptor for a connection, or `errors.Malformed` for an encoded body."""
        headers = CIMultiDict(request.headers)
        authorization = await self._authorization()
        if authorization:
            headers["authorization"] = authorization
        headers.extend(self.endpoint.impersonation)
        timeout = aiohttp.ClientTimeout(
            total=request.total_timeout_s,
            connect=QUEUE_S if request.total_timeout_s is None else None,
            sock_connect=CONNECT_S,
            sock_read=request.read_timeout_s,
        )
        await self._leave_former_certificate()
        with speaking_our_errors(self._base, self._spared()):
            response = await self._session(request).request(
                request.method,
                URL(self._base + target(request), encoded=True),
                headers=headers,
                data=request.body or None,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self.endpoint.tls_server_name or None,
                proxy=self.endpoint.proxy or None,
            )
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in ("", "identity"):
            response.close()
            raise errors.Malformed(
                f"{self._base}: the answer came {encoding[:20]}-encoded, which was not asked for."
            )
        return HttpResponse(response, self._base)

    async def refresh_credentials(self) -> bool:
        """Fetches the credentials anew; False when they are as before or cannot be had."""
        try:
            return await self.endpoint.credentials.refresh()
        except (OSError, ValueError):
            return False

    def take_token(self, token: str) -> bool:
        """Shows another token from the next request on; connections and watches stay as they
        are."""
        credentials = self.endpoint.credentials
        return isinstance(credentials, StaticToken) and credentials.take(token)

    async def close(self) -> None:
        self._closed = True
        for session in (self._unary, self._streams, self._former):
            if session is not None:
                await session.close()
        if self._resolver is not None:
            await self._resolver.close()
        self._unary = self._streams = self._former = self._resolver = None

    async def _authorization(self) -> str:
        try:
            return await self.endpoint.credentials.authorization()
        except (OSError, ValueError) as exc:
            raise errors.Unauthenticated(
                f"{self._base}: the credentials cannot be had ({str(exc)[:300]})."
            ) from exc

    async def _leave_former_certificate(self) -> None:
        """Makes new connections once the client certificate has changed: an API server goes by the
        one that a connection was made with, also when that has expired. Certificates live for
        hours, so that whatever ran on the connections before the former ones has ended."""
        now = self.endpoint.credentials.certificates
        if now == self._certificates:
            return
        self._certificates = now
        ended, self._former, self._unary = self._former, self._unary, None
        if ended is not None:
            await ended.close()

    def _session(self, request: Request) -> aiohttp.ClientSession:
        if self._closed:
            raise errors.Unreachable(f"{self._base}: this transport is closed.")
        if request.total_timeout_s is None:
            if self._streams is None:
                self._streams = self._new_session(self.endpoint.watches)
            return self._streams
        if self._unary is None:
            self._unary = self._new_session(self.endpoint.lanes)
        return self._unary

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        if shortage.is_short(self._spared()):
            raise shortage.of(self._base)
        if self._resolver is None:
            # Not by the loop's threads: uvloop has two lookups at once for all members, and the
            # names of a lost zone would keep those of all others waiting.
            self._resolver = aiohttp.AsyncResolver()
        connector = aiohttp.TCPConnector(
            ssl=self.endpoint.tls if self.endpoint.tls is not None else True,
            limit=limit,
            keepalive_timeout=KEPT_S,
            resolver=self._resolver,
            ttl_dns_cache=10,
            socket_factory=self._socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self.endpoint.user_agent, "Accept-Encoding": "identity"},
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            trust_env=False,
            requote_redirect_url=False,
            read_bufsize=_CHUNK_BYTES,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            max_headers=HEADERS_MAX,
        )
        # aiohttp sends PUT and DELETE a second time when a kept connection turns out to be closed;
        # a transport never sends anything twice. There is no public switch.
        session._retry_connection = False
        return session

    def _socket(self, info: Any) -> socket.socket:
        """The socket for one resolved address: the last moment at which it can be refused (DNS
        rebinding)."""
        family, kind, protocol, _, address = info
        if self.endpoint.guard is not None and (reason := self.endpoint.guard(str(address[0]))):
            raise _GuardRefused(reason)
        made = socket.socket(family, kind, protocol)
        try:
            shortage.refuse_if_beyond(made.fileno(), self._spared())
        except OSError:
            made.close()
            raise
        return made

    def _spared(self) -> int:
        """How many descriptors its connections leave alone."""
        return shortage.reserve() if self.endpoint.spares else 0


class _GuardRefused(OSError):
    """The guard refuses an address."""


class HttpResponse:
    """An answer over HTTP; the port's `Response`."""

    __slots__ = ("_peer", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, peer: str) -> None:
        self._response = response
        self._peer = peer
        self.status = response.status
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            key = name.lower()
            # A header that comes several times, as warnings do, is one list (RFC 9110).
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        self.headers: Mapping[str, str] = headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; raises `errors.Unreachable` when the stream breaks or falls
        silent."""
        content = self._response.content
        while True:
            with speaking_our_errors(self._peer):
                chunk = await content.readany()
            if not chunk:
                return
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The whole body; raises `errors.Malformed` beyond `limit` bytes."""
        length = self._response.content_length
        if length is not None and length > limit:
            raise errors.Malformed(
                f"{self._peer}: an answer of {length} bytes is beyond the limit of {limit}."
            )
        parts: list[bytes] = []
        size = 0
        content = self._response.content
        while True:
            with speaking_our_errors(self._peer):
                chunk = await content.readany()
            if not chunk:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                raise errors.Malformed(
                    f"{self._peer}: the answer is beyond the limit of {limit} bytes."
                )

    async def close(self) -> None:
        # A body read to its end has given its connection back already; any other connection is
        # worth nothing now, and a polite end of TLS would leave a socket behind when the loop ends
        # first.
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()
        await asyncio.sleep(0)


def target(request: Request) -> str:
    """Path and query as they are sent."""
    if not request.query:
        return request.path
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in request.query
    )
    return f"{request.path}?{query}"


@contextlib.contextmanager
def speaking_our_errors(peer: str, spared: int = 0) -> Iterator[None]:
    """Turns the ways in which a connection fails into `errors.Unreachable`, the original kept as
    the cause; those that are this process's own into `errors.OwnShortage`. `spared`: descriptors
    that the connection leaves alone."""
    try:
        yield
    except asyncio.CancelledError as exc:
        if cancelling.is_ours():
            raise
        raise errors.Unreachable(
            f"{peer}: the connection was closed while this waited for it."
        ) from exc
    except TimeoutError as exc:
        raise errors.Unreachable(f"{peer}: no answer in time.") from exc
    except aiohttp.ClientConnectorCertificateError as exc:
        raise errors.Unreachable(f"{peer}: its certificate is not one that was agreed on.") from exc
    except aiohttp.ClientHttpProxyError as exc:
        raise errors.Unreachable(f"{peer}: its proxy answers with status {exc.status}.") from exc
    except aiohttp.ClientConnectorError as exc:
        # A name that cannot be looked up, or several addresses that failed, do not tell why.
        if shortage.is_ours(exc.os_error) or (
            exc.os_error.errno is None and shortage.is_short(spared)
        ):
            raise shortage.of(peer) from exc
        what = "its proxy " if isinstance(exc, aiohttp.ClientProxyConnectionError) else ""
        refused = isinstance(exc.os_error, _GuardRefused)
        kind = errors.AddressRefused if refused else errors.Unreachable
        raise kind(f"{peer}: {what}cannot be connected to ({_why(exc)}).") from exc
    except aiohttp.ClientResponseError as exc:
        raise errors.Malformed(f"{peer}: the answer is no HTTP that can be read.") from exc
    except (aiohttp.ClientError, OSError, ValueError) as exc:
        if shortage.is_ours(exc):
            raise shortage.of(peer) from exc
        raise errors.Unreachable(f"{peer}: the connection broke ({type(exc).__name__}).") from exc


def _why(exc: aiohttp.ClientConnectorError) -> str:
    """A short reason without addresses."""
    problem = exc.os_error
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    return (
        problem.strerror or type(problem).__name__
        if problem.errno
        else str(problem)[:80] or type(problem).__name__
    )
