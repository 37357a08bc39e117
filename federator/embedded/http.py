"""An embedded API over HTTPS on loopback, for kubectl and for separate processes; and the
kubeconfig that leads there.

Real time only. Refuses to listen anywhere but on loopback; knows its callers by bearer token;
bounds bodies, headers and the time a body may take to arrive.
"""

import asyncio
import base64
import functools
import ipaddress
import logging
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Caller, json_answer
from federator.kube import kubeyaml, selfsigned
from federator.kube.login import tls

log = logging.getLogger(__name__)

BODY_MAX_BYTES = 3 * 1024 * 1024
"""As a real server limits request bodies."""
HEADER_MAX_BYTES = 16 * 1024
BODY_TIMEOUT_S = 30.0
HEAD_TIMEOUT_S = 15.0
"""How long a new connection may take to send its first request's head; aiohttp itself would wait
for ever."""
_SHUTDOWN_S = 1.0
_ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})


class NotLoopback(ValueError):
    """An embedded API may only listen on a loopback address."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The certificate of a server on loopback: `ca_pem` for its clients, `context` for itself."""

    ca_pem: bytes
    context: ssl.SSLContext


@functools.cache
def server_identity() -> ServerIdentity:
    """The identity of all servers of this process, for 127.0.0.1, ::1 and localhost. It is made
    anew by each process and never written to a file."""
    made = selfsigned.made(
        "federator embedded API",
        dns=("localhost",),
        addresses=("127.0.0.1", "::1"),
        now_s=time.time(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_certificate(context, made.cert_pem, made.key_pem)
    return ServerIdentity(made.ca_pem, context)


@dataclass(slots=True)
class HttpServer:
    """One listening server."""

    cluster: EmbeddedCluster
    url: str
    _runner: web.ServerRunner

    @property
    def ca_pem(self) -> bytes:
        """The authority that signed the server's certificate."""
        return server_identity().ca_pem

    async def close(self) -> None:
        """Stops listening and ends open requests."""
        await self._runner.cleanup()


async def serve(cluster: EmbeddedCluster, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    """Serves a cluster on `host` (loopback only), on a free port unless one is given. Raises
    `NotLoopback`, OSError."""
    if not ipaddress.ip_address(host).is_loopback:
        raise NotLoopback(
            f"an embedded API listens on loopback only; {host} is reachable from elsewhere"
        )
    runner = web.ServerRunner(_Listener(_Door(cluster)), shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    cluster.trust(server_identity().ca_pem.decode())
    site = web.TCPSite(runner, host, port, ssl_context=server_identity().context)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    shown = f"[{host}]" if ":" in host else host
    return HttpServer(cluster, f"https://{shown}:{runner.addresses[0][1]}", runner)


class _Listener(web.Server):
    """aiohttp's low-level server with every wait of a connection bounded."""

    def __init__(self, door: "_Door") -> None:
        super().__init__(
            self._handle,
            request_factory=self._request,
            # A reader that goes away ends its watch at once.
            handler_cancellation=True,
            access_log=None,
            max_line_size=HEADER_MAX_BYTES,
            max_field_size=HEADER_MAX_BYTES,
        )
        self._door = door
        self._waiting: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        self._waiting[handler] = loop.call_later(HEAD_TIMEOUT_S, transport.abort)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._arrived(handler)
        super().connection_lost(handler, exc)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._arrived(request.protocol)
        return await self._door.handle(request)

    def _arrived(self, handler: web.RequestHandler) -> None:
        timer = self._waiting.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=BODY_MAX_BYTES
        )


class _Door:
    """Turns HTTP requests into API requests and answers into responses."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._api = cluster.api

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        caller = self._caller(request)
        if caller is None:
            return _whole(_refusal(401, "Unauthorized", "Unauthorized"))
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {BODY_MAX_BYTES}"
            return _whole(_refusal(413, "RequestEntityTooLarge", message))
        except TimeoutError:
            return _whole(
                _refusal(408, "Timeout", f"the body did not arrive within {BODY_TIMEOUT_S:g} s")
            )
        headers: dict[str, str] = {}
        for name, value in request.headers.items():
            earlier = headers.get(name.lower())
            headers[name.lower()] = value if earlier is None else f"{earlier},{value}"
        query: dict[str, list[str]] = {}
        for name, value in request.query.items():
            query.setdefault(name, []).append(value)
        asked = ApiRequest(request.method, request.rel_url.raw_path, query, headers, body, caller)
        try:
            answer = self._api.handle(asked)
        except Exception as error:
            log.exception("the embedded API failed at %s %s", request.method, request.path)
            answer = _refusal(500, "InternalError", f"Internal error occurred: {error}")
        return _whole(answer) if answer.stream is None else await _streamed(request, answer)

    def _caller(self, request: web.BaseRequest) -> Caller | None:
        """The caller of the bearer token; None for a wrong token, and for no token where one is
        needed."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return _ANONYMOUS if request.path in _OPEN_PATHS else None
        return self._api.ctx.tokens.caller(token.strip()) if scheme.lower() == "bearer" else None


def _refusal(code: int, reason: str, message: str) -> Answer:
    return json_answer(refusals.Refusal(code, reason, message).status(), code)


def _whole(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers())


async def _streamed(request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
    stream = answer.stream
    response = web.StreamResponse(status=answer.status, headers=answer.headers())
    response.enable_chunked_encoding()
    if stream is None:
        return response
    try:
        await response.prepare(request)
        async for chunk in stream.chunks():
            await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        # The client has gone.
        pass
    finally:
        stream.close()
    return response


# Kubeconfigs


def kubeconfig(
    servers: Mapping[str, HttpServer], current: str, namespace: str = "default", token: str = ""
) -> str:
    """A kubeconfig with one context per name. `token`: instead of those of the administrators.
    Holds tokens: keep it private."""
    names = list(servers)
    text = yaml.dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": _cluster_entry(servers[name])} for name in names
            ],
            "users": [
                {"name": name, "user": {"token": token or servers[name].cluster.token}}
                for name in names
            ],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
                for name in names
            ],
            "current-context": current,
        },
        Dumper=kubeyaml.Dumper,
        sort_keys=False,
    )
    return str(text)


def _cluster_entry(server: HttpServer) -> dict[str, str]:
    return {
        "server": server.url,
        "certificate-authority-data": base64.b64encode(server.ca_pem).decode(),
    }


def write_kubeconfig(path: Path, servers: Mapping[str, HttpServer], current: str) -> None:
    """Writes the kubeconfig, readable by its owner only from the first byte on."""
    write_private(path, kubeconfig(servers, current))


def write_private(path: Path, text: str) -> None:
    """Replaces the file; readable by its owner only from the first byte on."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
    temporary.replace(path)


async def serve_all(clusters: Sequence[EmbeddedCluster]) -> dict[str, HttpServer]:
    """Serves several clusters, by name; when one cannot start, none stays."""
    servers: dict[str, HttpServer] = {}
    try:
        for cluster in clusters:
            servers[cluster.name] = await serve(cluster)
    except BaseException:
        for server in servers.values():
            await server.close()
        raise
    return servers
