"""The query port behind a socket: its certificate, the authority of its clients, and what the Lease
says of it.

One for each hub process. Certificates from files, and the host's authority for clients, are looked
at again once a minute: new connections get what is new.
"""

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from federator.api import raw
from federator.hub.query import announcing
from federator.hub.query.access import Access
from federator.hub.query.announcing import Announcement
from federator.hub.query.options import QueryOptions
from federator.hub.query.port import QueryPort
from federator.hub.query.questions import Sources
from federator.kube import errors, tlsserver
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.login import tls
from federator.kube.metrics import Metrics
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef
from federator.process import certifying

log = logging.getLogger(__name__)

REFRESH_S = 60.0
READ_S = 5.0
CLIENT_CA = ObjectRef(
    "v1", "configmaps", "kube-system", "extension-apiserver-authentication", "ConfigMap"
)
"""Where an API server publishes the authority for client certificates that it accepts, for servers
next to it."""


class QueryServer:
    """Listens from `start` to `close`; `refresh` runs meanwhile. `reviews` is a client of the host
    that no gate of the leader's holds back, on a connection of its own."""

    def __init__(
        self,
        reviews: Client,
        sources: Callable[[], Sources],
        leader: Callable[[], str],
        *,
        options: QueryOptions,
        clock: Clock,
        metrics: Metrics | None = None,
        closes: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        port = QueryPort(Access(reviews, clock=clock), sources, leader, metrics=metrics)
        self._server = tlsserver.TlsServer(port.answer)
        self._reviews = reviews
        self._options = options
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._closes = closes
        """Closes what answers are computed with, at the end."""
        self._shown = b""
        """Digest of the certificate that is shown."""
        self._trusted = ""
        """Authorities of clients that the context knows."""

    async def start(self, holder: str) -> Announcement:
        """Listens, and returns what to announce. Raises FieldError for files that are no
        certificate and for an address that cannot be reached from elsewhere, and OSError."""
        options = self._options
        if options.cert_file:
            cert_pem, key_pem, ca_pem = await asyncio.to_thread(_files, options)
            server_name = (
                announcing.address(options.advertise, options.host, 0)
                .rpartition(":")[0]
                .strip("[]")
            )
        else:
            server_name = announcing.SERVER_NAME
            cert_pem, key_pem, ca_pem = await certifying.made(
                "federator query port", server_name, self._clock.now()
            )
        try:
            self._context = tlsserver.server_context(cert_pem, key_pem)
        except ValueError as bad:
            raise FieldError("query.cert_file", str(bad)) from None
        self._shown = _digest(cert_pem, key_pem)
        announcing.address(options.advertise, options.host, 1)  # refused before anything listens
        port = await self._server.start(options.host, options.port, self._context)
        log.info("the query port listens on %s:%d", options.host, port)
        address = announcing.address(options.advertise, options.host, port)
        return Announcement(holder, address, server_name, ca_pem.decode("ascii"))

    async def refresh(self) -> None:
        """Keeps certificates as they should be, until cancelled."""
        while True:
            await self._trust_clients()
            if self._options.cert_file:
                await self._reload()
            await asyncio.sleep(REFRESH_S)

    async def close(self) -> None:
        await self._server.close()
        if self._closes is not None:
            await self._closes()

    async def _trust_clients(self) -> None:
        """Client certificates that the host takes are taken from now on. Where it says nothing of
        them, tokens are."""
        assert self._context is not None
        try:
            configmap = await self._reviews.get(CLIENT_CA, timeout_s=READ_S)
        except errors.ApiError as trouble:
            # A host of the sandbox has none; one that does not answer is asked again.
            log.debug(
                "the host does not publish its authority for client certificates: %s", trouble
            )
            return
        given = raw.text(configmap, "data", "client-ca-file")
        if given and given != self._trusted:
            try:
                self._context.load_verify_locations(cadata=given)
            except (ssl.SSLError, ValueError):
                log.warning(
                    "the host's authority for client certificates cannot be read; only tokens are"
                    " taken"
                )
                return
            self._context.verify_mode = ssl.CERT_OPTIONAL
            self._trusted = given

    async def _reload(self) -> None:
        """Shows the certificate of the files, when it is another one. The old one is kept while
        they cannot be read."""
        assert self._context is not None
        try:
            cert_pem, key_pem, _ = await asyncio.to_thread(_files, self._options)
            if _digest(cert_pem, key_pem) != self._shown:
                # a half-written pair is refused
                await asyncio.to_thread(tlsserver.server_context, cert_pem, key_pem)
                tls.load_certificate(self._context, cert_pem, key_pem)
                self._shown = _digest(cert_pem, key_pem)
                log.info("the query port shows the certificate that is in its file now")
        except (OSError, ValueError, ssl.SSLError):
            log.warning(
                "the certificate of the query port cannot be read again; the old one is kept"
            )


def _files(options: QueryOptions) -> tuple[bytes, bytes, bytes]:
    paths = (options.cert_file, options.key_file, options.ca_file)
    cert, key, ca = (Path(path).read_bytes() for path in paths)
    return cert, key, ca


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"\0".join(parts)).digest()
