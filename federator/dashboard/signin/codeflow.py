"""Sign-in through an OpenID Connect issuer: the authorization code flow with PKCE (RFC 7636).

State, nonce and verifier are derived from a cookie of the browser and a key of this process, so
that an answer counts only in the browser that began, and nothing is kept for a sign-in that nobody
finishes.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from federator.api import decoding
from federator.dashboard.routes.route import RequestRefused
from federator.dashboard.sessions import SIGN_IN_S
from federator.kube import errors
from federator.model import plaintext
from federator.model.errors import FieldError
from federator.process.oidc.issuer import Issuer, Unavailable
from federator.process.oidc.options import OidcOptions
from federator.process.oidc.tokens import Identity, Rejected

log = logging.getLogger(__name__)

SCOPES: Final = ("profile", "email", "groups")
"""Beside `openid`, asked for where the issuer says that it supports them."""
ANSWER_MAX: Final = decoding.Limits(size=128 * 1024, depth=8, nodes=4096)
AGAIN: Final = "Sign in again."


@dataclass(frozen=True, slots=True)
class Begun:
    """Where the browser goes, and the cookie that binds the answer to it."""

    url: str
    cookie: str


class CodeFlow:
    """Sign-ins at one issuer. `draw` returns a new secret as text; `now_s` reads a monotonic
    clock."""

    def __init__(
        self,
        issuer: Issuer,
        options: OidcOptions,
        draw: Callable[[], str],
        now_s: Callable[[], float],
    ) -> None:
        self._issuer = issuer
        self._options = options
        self._draw = draw
        self._now_s = now_s
        self._key = draw().encode()

    @property
    def name(self) -> str:
        """The issuer as people know it."""
        return urlsplit(self._options.issuer_url).netloc

    async def begin(self, where: str) -> Begun:
        """A sign-in that leads to `where`. Raises `RequestRefused`."""
        document = await self._document()
        supported = document.get("scopes_supported")
        listed = supported if isinstance(supported, list) else []
        after = base64.urlsafe_b64encode(where.encode()).decode().rstrip("=")
        cookie = f"{self._now_s() + SIGN_IN_S:.0f}.{self._draw()}.{after}"
        challenge = hashlib.sha256(self._derived("verifier", cookie).encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._options.client_id,
            "redirect_uri": self._options.redirect_url,
            "scope": " ".join(["openid", *(scope for scope in SCOPES if scope in listed)]),
            "state": self._derived("state", cookie),
            "nonce": self._derived("nonce", cookie),
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        url = self._endpoint(document, "authorization_endpoint")
        return Begun(f"{url}{'&' if '?' in url else '?'}{urlencode(query)}", cookie)

    async def finish(self, answer: Mapping[str, str], cookie: str) -> tuple[Identity, str]:
        """The person that has signed in, and the address to go to. `answer`: the parameters with
        which the issuer sent the browser back. Raises `RequestRefused`."""
        where = self._checked(answer, cookie)
        document = await self._document()
        stated = document.get("authorization_response_iss_parameter_supported") is True
        if (
            answer.get("iss", "" if stated else self._options.issuer_url)
            != self._options.issuer_url
        ):
            raise RequestRefused(403, f"The answer is not by the issuer that was asked. {AGAIN}")
        if "error" in answer:
            why = plaintext.clipped(answer["error"], 80)
            raise RequestRefused(401, f"{self.name} did not sign you in: {why}. {AGAIN}")
        if not answer.get("code"):
            raise RequestRefused(400, f"The answer of {self.name} has no code. {AGAIN}")
        token = await self._exchanged(document, answer["code"], cookie)
        return await self._identity(token, cookie), where

    async def end_address(self) -> str:
        """Where a person signs out at the issuer; "" where it does not say."""
        try:
            document = await self._issuer.document()
            url = self._issuer.endpoint(document, "end_session_endpoint")
        except (Unavailable, FieldError):
            return ""
        query = urlencode({"client_id": self._options.client_id})
        return f"{url}{'&' if '?' in url else '?'}{query}"

    async def close(self) -> None:
        """Ends the connections to the issuer."""
        await self._issuer.close()

    # -- parts ----------------------------------------------------------------

    def _derived(self, purpose: str, cookie: str) -> str:
        digest = hmac.digest(self._key, f"{purpose}:{cookie}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _checked(self, answer: Mapping[str, str], cookie: str) -> str:
        """The address to go to, by the cookie that this process made. Raises `RequestRefused`."""
        given, wanted = answer.get("state", ""), self._derived("state", cookie)
        ends, _, rest = cookie.partition(".")
        fits = hmac.compare_digest(given.encode(), wanted.encode())
        if not fits or float(ends) < self._now_s():
            raise RequestRefused(
                403,
                "This answer belongs to no sign-in that this browser has begun within"
                f" {SIGN_IN_S / 60:.0f} minutes. {AGAIN}",
            )
        after = rest.rpartition(".")[2]
        return base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode()

    async def _document(self) -> Mapping[str, Any]:
        try:
            return await self._issuer.document()
        except Unavailable:
            raise RequestRefused(
                503, f"{self.name} does not answer. Try again in a minute."
            ) from None

    def _endpoint(self, document: Mapping[str, Any], name: str) -> str:
        try:
            return self._issuer.endpoint(document, name)
        except FieldError as bad:
            log.warning("the issuer %s cannot be used: %s", self._options.issuer_url, bad)
            raise RequestRefused(502, f"{self.name} does not offer this way to sign in.") from None

    async def _exchanged(self, document: Mapping[str, Any], code: str, cookie: str) -> str:
        """The ID token for a code. Raises `RequestRefused`."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._options.redirect_url,
            "client_id": self._options.client_id,
            "code_verifier": self._derived("verifier", cookie),
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if self._options.client_secret_file:
            headers["authorization"] = await self._basic()
        url = self._endpoint(document, "token_endpoint")
        try:
            body = await self._issuer.post(url, urlencode(form).encode(), headers)
            given = decoding.from_json(body, ANSWER_MAX)
        except errors.Unreachable:
            raise RequestRefused(503, f"{self.name} does not answer. {AGAIN}") from None
        except (errors.ApiError, FieldError) as refused:
            log.warning("%s did not exchange a code: %s", self._options.issuer_url, refused)
            raise RequestRefused(401, f"{self.name} did not confirm the sign-in. {AGAIN}") from None
        token = given.get("id_token") if isinstance(given, dict) else None
        if not isinstance(token, str):
            raise RequestRefused(401, f"{self.name} gave no ID token. {AGAIN}")
        return token

    async def _basic(self) -> str:
        """The client's own credential (RFC 6749, 2.3.1). Raises `RequestRefused`."""
        try:
            text = await asyncio.to_thread(
                Path(self._options.client_secret_file).read_text, encoding="utf-8"
            )
        except (OSError, UnicodeDecodeError) as bad:
            log.warning("the file oidc.client_secret_file cannot be read: %s", type(bad).__name__)
            raise RequestRefused(503, "The dashboard cannot read its client secret.") from None
        pair = f"{quote(self._options.client_id, safe='')}:{quote(text.strip(), safe='')}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    async def _identity(self, token: str, cookie: str) -> Identity:
        try:
            identity = await self._issuer.verified(token)
        except Rejected as why:
            log.warning("an ID token of %s is rejected: %s", self._options.issuer_url, why)
            raise RequestRefused(401, f"The sign-in does not count: {why}. {AGAIN}") from None
        except Unavailable:
            raise RequestRefused(503, f"The keys of {self.name} cannot be read. {AGAIN}") from None
        given, wanted = identity.claims.get("nonce"), self._derived("nonce", cookie)
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), wanted.encode()):
            raise RequestRefused(401, f"The ID token is not of this sign-in (nonce). {AGAIN}")
        if identity.claims.get("azp", self._options.client_id) != self._options.client_id:
            raise RequestRefused(401, f"The ID token is for another program (azp). {AGAIN}")
        return identity
