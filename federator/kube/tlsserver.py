"""A small HTTP server on aiohttp, over TLS but on loopback, with every byte, wait and connection
bounded.

What is served is somebody else's: a handler gets `Incoming` and gives `Outgoing`. The handler
authorizes the caller, from the Authorization header or the client certificate, before anything else
of the request is looked at. A body is read only when the handler asks for it, and then up to the
bound that it says.
"""

import asyncio
import contextlib
import ipaddress
import logging
import math
import ssl
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from federator.kube.login import tls
from federator.model.errors import FieldError

log = logging.getLogger(__name__)
_protocol_log = logging.getLogger(f"{__name__}.protocol")

HEAD_MAX_BYTES = 16 * 1024
"""Of the request line, and of each header; tokens with many groups are some kilobytes long."""
HANDSHAKE_S = 5.0
HEAD_S = 5.0
"""A new connection must have sent its first request's head within this time, in seconds."""
IDLE_S = 30.0
BODY_S = 10.0
"""A body must have arrived within this time, in seconds, once it is asked for."""
ANSWER_S = 60.0
"""The whole of an answer, made and read, takes at most this long."""
RELOAD_S = 60.0
"""The files of a certificate are looked at again after so many seconds."""
STREAM_S = 900.0
"""The same of a stream. Its reader opens another one."""
CONNECTIONS_MAX = 256
CONNECTIONS_OF_ONE_ADDRESS = 64
_CHUNK_BYTES = 64 * 1024
_SHUTDOWN_S = 1.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a verified client certificate says of its holder."""

    name: str
    """Its common name; "" where it has none."""
    groups: tuple[str, ...] = ()
    """Its organisations."""
    uris: tuple[str, ...] = ()
    """Its alternative names that are URIs."""
    emails: tuple[str, ...] = ()
    """Its alternative names that are mail addresses."""
    ends_s: float = math.inf
    """When it ends, in epoch seconds. A connection may outlive it."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request. Its secrets do not show in its repr."""

    method: str
    path: str
    """Percent-encoded, as it was sent."""
    query: str = ""
    """As it was sent. The handler reads it only after it knows the caller."""
    authorization: str = field(default="", repr=False)
    certificate: Certificate | None = None
    impersonates: bool = False
    """Whether it asks to act as another user (any header Impersonate-*)."""
    acts_as: tuple[str, ...] = ()
    """That user and the groups (Impersonate-Group)."""
    address: str = ""
    """Where it comes from."""
    has_body: bool = False
    body_bytes: int | None = None
    """The length of the body by the request's head; None where that does not say it."""
    read_body: Callable[[int], Awaitable[bytes]] | None = field(default=None, repr=False)
    """The body, of at most so many bytes. Raises `BodyRefused`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By lower-case name; of a repeated header the first."""


class BodyRefused(ValueError):
    """The body is too long, encoded, or does not arrive. The message is for the caller."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One answer."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None
    """The body as it comes to be, in place of `body`. It is closed when the caller goes away, and
    after `STREAM_S`."""


Handler = Callable[[Incoming], Awaitable[Outgoing]]


def server_context(cert_pem: bytes, key_pem: bytes, clients_pem: bytes = b"") -> ssl.SSLContext:
    """A context that shows this certificate. With the authorities `clients_pem`, it asks clients
    for a certificate, and ends the handshake with one of another authority. Raises ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        tls.load_certificate(context, cert_pem, key_pem)
        if clients_pem:
            # A resumed session would keep a certificate of a removed authority. Without
            # tickets TLS 1.3 resumes none; TLS 1.2 has a cache that cannot be turned off here.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
            context.load_verify_locations(cadata=clients_pem.decode("ascii"))
            context.verify_mode = ssl.CERT_OPTIONAL
    except (ssl.SSLError, UnicodeDecodeError) as exc:
        raise ValueError("the certificates or the key cannot be used for TLS") from exc
    return context


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a server listens, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port."""
    cert_file: str = ""
    """PEM certificate; empty: plain HTTP, on loopback only."""
    key_file: str = ""
    clients_ca_file: str = ""
    """PEM authorities of client certificates; empty: clients are not asked for one."""

    @classmethod
    def parsed(cls, text: str, cert_file: str = "", key_file: str = "") -> "Listen":
        """From `HOST:PORT`. Raises FieldError for what must not be served."""
        where = cls(*address(text), cert_file, key_file)
        where.check()
        return where

    def check(self) -> None:
        """Raises FieldError for what must not be served."""
        if bool(self.cert_file) != bool(self.key_file):
            raise FieldError("cert_file", "a certificate and its key are needed, or neither")
        if self.clients_ca_file and not self.cert_file:
            raise FieldError(
                "cert_file", "is needed to ask clients for certificates: plain HTTP has none"
            )
        if not self.cert_file and not is_loopback(self.host):
            raise FieldError(
                "listen",
                f"{self.host} is reachable from elsewhere, so a certificate is needed (--cert-file,"
                " --key-file); without one only loopback is served",
            )

    def url(self, port: int) -> str:
        """The address of a server that listens on this port."""
        scheme = "https" if self.cert_file else "http"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"

    def files(self) -> tuple[bytes, bytes, bytes]:
        """Certificate, key, and the authorities of clients. Raises OSError."""
        clients = Path(self.clients_ca_file).read_bytes() if self.clients_ca_file else b""
        return Path(self.cert_file).read_bytes(), Path(self.key_file).read_bytes(), clients


class CertificateFiles:
    """The certificate of a server, and the authorities of its clients. Both follow their files
    while `run` runs. `server` names the server in logs."""

    def __init__(self, listen: Listen, server: str) -> None:
        self._listen = listen
        self._server = server
        self._shown = (b"", b"", b"")
        self._newest: ssl.SSLContext | None = None
        self._clients: weakref.WeakKeyDictionary[ssl.SSLContext, bytes] = (
            weakref.WeakKeyDictionary()
        )
        """Context -> the authorities of clients with which it was made."""
        self.context: ssl.SSLContext | None = None
        """None before `load`, and for plain HTTP. Stays the same."""

    async def load(self) -> None:
        """Reads the files, if there are any. Raises FieldError for files that are no certificate,
        and OSError."""
        if not self._listen.cert_file:
            return
        shown = await asyncio.to_thread(self._listen.files)
        try:
            self.context = await asyncio.to_thread(self._made, shown)
        except ValueError as bad:
            raise FieldError("cert_file", str(bad)) from None
        self._shown, self._newest = shown, self.context
        # An authority cannot be removed from a context, so changes make another one.
        self.context.sni_callback = self._use_newest

    def _made(self, files: tuple[bytes, bytes, bytes]) -> ssl.SSLContext:
        if self._listen.clients_ca_file and not files[2].strip():
            raise ValueError("the file of the clients' authorities is empty")
        context = server_context(*files)
        self._clients[context] = files[2]
        return context

    def _use_newest(self, connection: ssl.SSLObject, *_: Any) -> None:
        """Called in the handshake of each connection, with a server name or without one."""
        assert self._newest is not None
        connection.context = self._newest

    def trusts(self, connection: ssl.SSLObject) -> bool:
        """Whether the authorities of clients are still those with which the connection was
        made."""
        return self._clients.get(connection.context) == self._shown[2]

    async def run(self) -> None:
        """Looks at the files again and again, until cancelled."""
        while self.context is not None:
            await asyncio.sleep(RELOAD_S)
            await self.look()

    async def look(self) -> None:
        """Uses the files from the next connection on when they are others; the old ones are kept
        while they cannot be read."""
        try:
            files = await asyncio.to_thread(self._listen.files)
            if files != self._shown:
                # A half-written pair is refused.
                self._newest = await asyncio.to_thread(self._made, files)
                self._shown = files
                log.info("%s uses the certificates that are in its files now", self._server)
        except (OSError, ValueError, ssl.SSLError):
            log.warning("the certificates of %s cannot be read; the old ones stay", self._server)


def address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises FieldError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise FieldError("listen", "must be HOST:PORT, such as 127.0.0.1:8600")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class TlsServer:
    """Listens from `start` to `close`. What is loaded into its context meanwhile is for new
    connections."""

    def __init__(
        self,
        handler: Handler,
        *,
        of_one_address: int = CONNECTIONS_OF_ONE_ADDRESS,
        trusts: Callable[[ssl.SSLObject], bool] = lambda _: True,
    ) -> None:
        """`trusts`: whether the certificate that the client of a connection has shown counts."""
        self._web = _Connections(handler, of_one_address, trusts)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Returns the port (useful where 0 was asked for). `context`: None for plain HTTP, which
        only a server on loopback may speak. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._web,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_S if context is not None else None,
            backlog=128,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stops listening and ends what is open."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await self._web.shutdown(_SHUTDOWN_S)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a record of aiohttp is about a fault of this program. Its records of requests that
    cannot be read quote them, with tokens and cookies, and every connection can cause them."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_protocol_log.addFilter(_is_ours)


class _Protocol(web.RequestHandler):
    """Answers requests that cannot be read without their text: aiohttp quotes the line, and an
    answer with a token in it ends in logs of proxies and CI systems."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        text = message if status >= 500 else "The request cannot be read as HTTP."
        return super().handle_error(request, status, exc, text)


class _Connections(web.Server):
    """aiohttp's low-level server with its connections counted, and each wait bounded."""

    def __init__(
        self, handler: Handler, of_one_address: int, trusts: Callable[[ssl.SSLObject], bool]
    ) -> None:
        super().__init__(
            self._answer,
            request_factory=self._made,
            handler_cancellation=True,  # a caller that went away needs no complete answer
            access_log=None,
            logger=_protocol_log,
            keepalive_timeout=IDLE_S,
            lingering_time=0.0,  # what follows a head is not read
            auto_decompress=False,  # a small body must not become a large one
            max_line_size=HEAD_MAX_BYTES,
            max_field_size=HEAD_MAX_BYTES,
        )
        self._ask = handler
        self._of_one_address = of_one_address
        self._trusts = trusts
        self._timers: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._addresses: dict[web.RequestHandler, str] = {}
        self._by_address: Counter[str] = Counter()

    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        address = str((transport.get_extra_info("peername") or ("",))[0])
        self._addresses[handler] = address
        self._by_address[address] += 1
        crowded = self._by_address[address] > self._of_one_address
        if crowded or len(self._addresses) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._timers[handler] = asyncio.get_running_loop().call_later(HEAD_S, transport.abort)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._arrived(handler)
        address = self._addresses.pop(handler, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
        super().connection_lost(handler, exc)

    def _arrived(self, handler: web.RequestHandler) -> None:
        timer = self._timers.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _made(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=1)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._arrived(request.protocol)
        response = web.StreamResponse()
        try:
            async with asyncio.timeout(ANSWER_S) as limit:
                given = await self._ask(_incoming(request, self._trusts))
                response.set_status(given.status)
                response.headers.update(
                    {
                        "Content-Type": given.content_type,
                        "Cache-Control": "no-store",
                        "X-Content-Type-Options": "nosniff",
                        **given.headers,
                    }
                )
                if given.stream is None:
                    response.content_length = len(given.body)
                if given.status == 401 or (request.can_read_body and not request.content.is_eof()):
                    response.force_close()  # a stranger keeps no connection; a rest is not read
                await response.prepare(request)
                # Bytes after the head of an answer to HEAD would be read as the next answer.
                body = given.body if request.method != "HEAD" else b""
                for begin in range(0, len(body), _CHUNK_BYTES):
                    await response.write(body[begin : begin + _CHUNK_BYTES])
                if given.stream is not None:
                    limit.reschedule(asyncio.get_running_loop().time() + STREAM_S)
                    async with contextlib.aclosing(given.stream) as parts:
                        async for part in parts:
                            await response.write(part)
                await response.write_eof()
        except TimeoutError:
            log.info("a request was given up after %g s", ANSWER_S)
            _abort(request)
        except ConnectionError:
            _abort(request)
        return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _incoming(request: web.BaseRequest, trusts: Callable[[ssl.SSLObject], bool]) -> Incoming:
    transport = request.transport
    shown = transport.get_extra_info("peercert") if transport is not None else None
    if transport is not None and shown and not trusts(transport.get_extra_info("ssl_object")):
        shown = None
    return Incoming(
        method=request.method,
        path=request.rel_url.raw_path,
        query=request.rel_url.raw_query_string,
        authorization=_single_value(request.headers.getall("Authorization", ())),
        certificate=_certificate(shown) if shown else None,
        impersonates=any(name.lower().startswith("impersonate-") for name in request.headers),
        acts_as=(
            request.headers.get("Impersonate-User", ""),
            *request.headers.getall("Impersonate-Group", ()),
        ),
        address=request.remote or "",
        has_body=request.can_read_body,
        body_bytes=request.content_length,
        read_body=lambda most: _body(request, most),
        headers={name.lower(): request.headers[name] for name in request.headers},
    )


def _single_value(values: Sequence[str]) -> str:
    """The value of a header that must not be given twice: a proxy may check another one than this
    server. What is no value of any scheme counts as none."""
    return values[0] if len(values) == 1 else "several" if values else ""


async def _body(request: web.BaseRequest, most: int) -> bytes:
    """What was sent, as it was sent. Raises `BodyRefused`."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise BodyRefused("a body must not be encoded (Content-Encoding)")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while not request.content.at_eof():
                body += await request.content.readany()
                if len(body) > most:
                    raise BodyRefused(f"a body of more than {most} bytes is not read")
    except TimeoutError:
        raise BodyRefused(f"the body did not arrive within {BODY_S:g} s") from None
    return bytes(body)


def _certificate(shown: Mapping[str, Any]) -> Certificate:
    """A certificate that the handshake has verified. Name and groups as an API server reads
    them."""
    fields = [pair for part in shown.get("subject") or () for pair in part]
    names = [value for name, value in fields if name == "commonName"]
    others = shown.get("subjectAltName") or ()
    return Certificate(
        names[-1] if names else "",
        tuple(value for name, value in fields if name == "organizationName"),
        tuple(value for name, value in others if name == "URI"),
        tuple(value for name, value in others if name == "email"),
        ssl.cert_time_to_seconds(shown["notAfter"]),
    )
