"""What browsers send with a request: cookies, parameters, and the address to come back to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

from federator.kube.tlsserver import Incoming
from federator.model import plaintext
from federator.model.errors import FieldError

COOKIES_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class Cookies:
    """The names of the cookies. With TLS the browser itself keeps them to this origin (`__Host-`).
    Without TLS, on loopback, no browser lets that name in everywhere; the port is in the name,
    because cookies do not distinguish ports."""

    secure: bool
    port: int = 0

    @property
    def session(self) -> str:
        return self._named("session")

    @property
    def form(self) -> str:
        return self._named("form")

    @property
    def issued(self) -> str:
        """Of a sign-in that the browser has begun at an issuer."""
        return self._named("issued")

    def _named(self, name: str) -> str:
        prefix = "__Host-federator" if self.secure else f"federator-{self.port}"
        return f"{prefix}-{name}"

    def set(self, name: str, value: str, max_age_s: float) -> str:
        """The value of Set-Cookie. The browser comes back from an issuer by a link of another site,
        so the cookie for it is Lax."""
        secure = "; Secure" if self.secure else ""
        site = "Lax" if name == self.issued else "Strict"
        return f"{name}={value}; Path=/; Max-Age={max_age_s:.0f}; HttpOnly; SameSite={site}{secure}"


def cookies(request: Incoming) -> dict[str, str]:
    """By name; none where they cannot be read."""
    try:
        jar = SimpleCookie(request.headers.get("cookie", "")[:COOKIES_MAX])
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


def parameters(query: str) -> dict[str, str]:
    """Raises FieldError for a query that cannot be read, or gives a parameter twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        raise FieldError("", "the query cannot be read") from None
    given: dict[str, str] = {}
    for name, text in pairs:
        if name in given:
            raise FieldError(plaintext.clipped(name, 40), "is given twice")
        given[name] = text
    return given


def wants_json(request: Incoming, given: Mapping[str, str]) -> bool:
    """Raises FieldError for another format."""
    if "format" in given and given["format"] not in ("json", "html"):
        raise FieldError("format", "must be json or html")
    asked = given.get("format") == "json" or "format=json" in request.query.split("&")
    return asked or request.headers.get("accept", "").startswith("application/json")


def local(where: str) -> str:
    """The address to go to after signing in: on this server only."""
    safe = where.startswith("/") and not where.startswith(("//", "/\\"))
    return where if safe and where.isascii() and where.isprintable() and "\\" not in where else "/"


def target(request: Incoming) -> str:
    """The address of a request on this server."""
    return f"{request.path}?{request.query}" if request.query else request.path
