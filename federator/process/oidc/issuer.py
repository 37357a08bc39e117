"""An OpenID Connect issuer: its discovery document and its keys, read when needed and kept.

A token with an unknown key makes the keys be read again, because issuers rotate them. Unknown keys
are remembered, and keys are read at most once in some seconds, so that invented tokens send an
issuer no more than that. Addresses come from the configuration and the issuer's own document, never
from a token.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from federator.api import decoding
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.login import tls
from federator.kube.wire import addresses
from federator.kube.wire.http import Endpoint, HttpTransport
from federator.model.errors import FieldError
from federator.process.oidc import keys, tokens
from federator.process.oidc.keys import KeySet
from federator.process.oidc.tokens import Identity, Rejected, Trust

log = logging.getLogger(__name__)

DISCOVERY: Final = "/.well-known/openid-configuration"
FRESH_S: Final = 900.0
"""Keys that were read so long ago are read again at the next token."""
STALE_S: Final = 3600.0
"""While the issuer does not answer, its keys count for so long after they were read."""
PAUSE_S: Final = 10.0
"""Seconds between two readings, of which the first may have failed."""
UNKNOWN_S: Final = 60.0
"""A key that the issuer did not have is not looked for again for so long."""
UNKNOWN_MAX: Final = 1024
READ_S: Final = 5.0
BODY_MAX: Final = 512 * 1024

Connect = Callable[[str], Client]
"""A client for `https://host[:port]`, without credentials."""


class Unavailable(Exception):
    """The issuer's keys are not known, and it does not answer: the token may be valid."""


def connecting(*, ca_pem: bytes = b"", allow_loopback: bool = False) -> Connect:
    """Connects to issuers that show a certificate of this authority (empty: one that the machine
    trusts). Addresses of metadata services are refused; those of this machine too, unless
    `allow_loopback`. Raises ValueError for material that is no certificate."""
    context = tls.client_context(ca_pem=ca_pem)
    guard = addresses.member_guard(allow_loopback=allow_loopback)

    def connect(server: str) -> Client:
        return Client(HttpTransport(Endpoint(server, tls=context, guard=guard)), "issuer")

    return connect


class Issuer:
    """One issuer. `allow_http` allows addresses without TLS, for an issuer on this machine in
    tests."""

    def __init__(
        self, trust: Trust, connect: Connect, *, clock: Clock, allow_http: bool = False
    ) -> None:
        self.trust = trust
        self._connect = connect
        self._clock = clock
        self._allow_http = allow_http
        self._split(trust.issuer, "issuer")
        self._clients: dict[str, Client] = {}
        self._keys = KeySet()
        self._document: Mapping[str, Any] = {}
        self._read_s = -STALE_S
        """When the keys were read, on the monotonic clock."""
        self._tried_s = -PAUSE_S
        self._unknown: OrderedDict[str, float] = OrderedDict()
        self._reading = asyncio.Lock()

    async def verified(self, token: str) -> Identity:
        """The caller of a token. Raises `Rejected`, and `Unavailable`."""
        given = tokens.parse(token)
        tokens.check_head(given, self.trust)
        key_set = await self._keys_for(given.kid)
        return tokens.verify(given, key_set, self.trust, self._clock.now())

    async def document(self) -> Mapping[str, Any]:
        """The discovery document, such as for its `token_endpoint`. Raises `Unavailable`."""
        await self._refreshed(FRESH_S)
        if not self._document:
            raise Unavailable("the issuer does not answer, or its discovery document is not valid")
        return self._document

    def endpoint(self, document: Mapping[str, Any], name: str) -> str:
        """An address from the discovery document, such as `token_endpoint`. Raises FieldError for
        one that would be used without TLS."""
        self._split(document.get(name), name)
        return str(document[name])

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The answer to a form at an address from `endpoint`. Raises `errors.ApiError`."""
        client, path = self._at(url)
        return await client.raw(
            "POST", path, (), body, headers=headers, timeout_s=READ_S, body_limit=BODY_MAX
        )

    async def close(self) -> None:
        """Ends its connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def _keys_for(self, kid: str) -> KeySet:
        if not (self._reading.locked() and self._usable and self._keys.has(kid)):
            await self._refreshed(FRESH_S)
        now = self._clock.monotonic()
        if not self._usable:
            raise Unavailable("the keys of the token's issuer cannot be read now")
        if not self._keys.has(kid) and self._unknown.get(kid, 0.0) <= now:
            await self._refreshed(PAUSE_S)
            if not self._keys.has(kid):
                self._remember(kid)
        return self._keys

    @property
    def _usable(self) -> bool:
        return self._clock.monotonic() - self._read_s < STALE_S

    def _remember(self, kid: str) -> None:
        # Counted from the last reading: a key that is published after it is found in time.
        self._unknown[kid] = self._tried_s + UNKNOWN_S
        self._unknown.move_to_end(kid)
        while len(self._unknown) > UNKNOWN_MAX:
            self._unknown.popitem(last=False)

    async def _refreshed(self, age_s: float) -> None:
        """Reads document and keys if they are older than that, and were not just tried."""
        async with self._reading:
            now = self._clock.monotonic()
            if now - self._read_s < age_s or now - self._tried_s < PAUSE_S:
                return
            self._tried_s = now
            try:
                document = self._checked(await self._get(self.trust.issuer.rstrip("/") + DISCOVERY))
                key_set = keys.read(await self._get(document["jwks_uri"]))
            except errors.ApiError as trouble:
                log.warning("the issuer %s does not answer: %s", self.trust.issuer, trouble)
                return
            except FieldError as bad:
                log.warning("the issuer %s cannot be used: %s", self.trust.issuer, bad)
                return
            self._document, self._keys, self._read_s = document, key_set, now

    def _checked(self, text: bytes) -> Mapping[str, Any]:
        document = decoding.from_json(text, keys.LIMITS)
        if not isinstance(document, dict) or document.get("issuer") != self.trust.issuer:
            raise FieldError("issuer", "the discovery document is that of another issuer")
        self._split(document.get("jwks_uri"), "jwks_uri")
        return document

    async def _get(self, url: str) -> bytes:
        client, path = self._at(url)
        return await client.raw("GET", path, timeout_s=READ_S, body_limit=BODY_MAX)

    def _at(self, url: str) -> tuple[Client, str]:
        """A client for the server of an address, and the rest of the address."""
        parts = self._split(url, "url")
        server = f"{parts.scheme}://{parts.netloc}"
        if server not in self._clients:
            self._clients[server] = self._connect(server)
        return self._clients[server], f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"

    def _split(self, url: Any, what: str) -> SplitResult:
        """The parts of an address that may be asked. Raises FieldError."""
        schemes = ("https", "http") if self._allow_http else ("https",)
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
            usable = parts.scheme in schemes and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.username is not None or parts.fragment or not url.isprintable():
            raise FieldError(what, "must be an https address without a user and a fragment")
        return parts


class Issuers:
    def __init__(self, issuers: Iterable[Issuer]) -> None:
        self._issuers = {issuer.trust.issuer: issuer for issuer in issuers}

    def claims_to_be_of(self, token: str) -> Issuer | None:
        """The trusted issuer that a token names; None for others, such as the tokens of service
        accounts. Nothing is verified by that."""
        try:
            return self._issuers.get(tokens.parse(token).issuer)
        except Rejected:
            return None

    async def close(self) -> None:
        """Ends the connections to all."""
        for issuer in self._issuers.values():
            await issuer.close()
