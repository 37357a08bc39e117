"""The port to what signs the certificates of pods, and its implementation for the signer of the
cluster (`federator signer`)."""

import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from federator.runtime import web
from federator.runtime.web import Unreached

CERTIFICATES: Final = "/v1/certificates"
BUNDLE: Final = "/v1/bundle"
ASK_S: Final = 15.0
ANSWER_MAX: Final = 1 << 18
TEXT_MAX: Final = 400


class Denied(Exception):
    """The authority will not sign this. The message is for the owner of the workload."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Away(Exception):
    """The authority does not answer, or has to wait for its own. Ask again later."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its intermediates, and the roots to trust: PEM."""

    chain: str
    bundle: str


class Authority(Protocol):
    """Signs the request of this pod. It finds out by itself which pod that is."""

    async def sign(self, csr: str) -> Issued:
        """Raises Denied, Away."""

    async def bundle(self) -> str:
        """The roots to trust now: during a rotation the old and the new ones. Raises Away."""


class Signer:
    """The signer of the cluster over HTTPS. The pod proves itself with a bound token for the
    signer's audience, which the kubelet renews in its file."""

    def __init__(
        self, url: str, token: Path, trust: Callable[[], str], ask: web.Ask = web.ask
    ) -> None:
        """`trust`: PEM of the roots that the signer's own certificate is verified with."""
        self._over = ask
        self._url = url.rstrip("/")
        self._token = token
        self._trust = trust
        self._made: tuple[str, ssl.SSLContext] | None = None
        """The roots of last time, and the context that trusts them."""

    async def sign(self, csr: str) -> Issued:
        try:
            token = self._token.read_text("ascii").strip()
        except (OSError, ValueError) as bad:
            raise Away(f"the token of the pod cannot be read: {bad}") from None
        body = json.dumps({"csr": csr}).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        document = await self._ask("POST", CERTIFICATES, headers, body)
        return Issued(_pem(document, "chain"), _pem(document, "bundle"))

    async def bundle(self) -> str:
        return _pem(await self._ask("GET", BUNDLE, {}, b""), "bundle")

    async def _ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> dict[str, object]:
        try:
            roots = self._trust()
            if self._made is None or self._made[0] != roots:
                self._made = roots, web.trusting(roots)
        except (OSError, ValueError) as bad:
            raise Away(f"the trust bundle for the signer cannot be used: {bad}") from None
        try:
            got = await self._over(
                method,
                self._url + path,
                headers=headers,
                body=body,
                context=self._made[1],
                within_s=ASK_S,
                most=ANSWER_MAX,
            )
        except Unreached as bad:
            raise Away(f"the signer does not answer: {bad}") from None
        document = got.json()
        if got.status == 200:
            return document
        message = str(document.get("detail") or f"the signer answered {got.status}")[:TEXT_MAX]
        if got.status in (400, 401, 403):
            raise Denied(str(document.get("reason") or "Denied")[:80], message)
        raise Away(message)


def _pem(document: dict[str, object], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or "BEGIN CERTIFICATE" not in value:
        raise Away(f"the answer of the signer has no {name}")
    return value
