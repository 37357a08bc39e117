"""From a request to a page. Knows no socket: `server` puts it behind one.

The order is the point: static files and probes first, then the session, then the address, the
rights, and last what is shown. Whatever goes wrong is a page that says so.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from federator.dashboard import forms, listing, pages, render, sessions
from federator.dashboard.routes.route import Refused, Request, Route, Sources
from federator.dashboard.sessions import Session, Sessions
from federator.hub.query import access as accesses
from federator.hub.query.access import Access
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.model import plaintext
from federator.model.errors import FieldError

log = logging.getLogger(__name__)

PATH_MAX: Final = 1024
QUERY_MAX: Final = 4096
FORM_MAX: Final = 16 * 1024
COOKIES_MAX: Final = 8192
REFRESH_S: Final = 10
"""An open page renews itself after so many seconds."""
SIGN_IN, SIGN_OUT, LINK = "/signin", "/signout", "/signin/link"
OPEN: Final = frozenset({"/healthz", "/readyz", SIGN_IN, LINK})
"""Addresses without a session, beside static files."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    # not no-referrer: forms would then send `Origin: null`
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_HTML: Final = "text/html; charset=utf-8"
_FOREIGN: Final = "The form is not of your session. Nothing was changed."
_STATUS_TITLES: Final[Mapping[int, str]] = {
    400: "This address cannot be read",
    401: "Sign in",
    403: "You may not see this",
    404: "Not found",
    405: "This cannot be done here",
    429: "Too many requests",
    500: "The dashboard failed",
    502: "No answer",
    503: "Not now",
}


@dataclass(frozen=True, slots=True)
class Cookies:
    """The names of the two cookies. With TLS the browser itself keeps them to this origin
    (`__Host-`). Without TLS, on loopback, no browser lets that name in everywhere; the port is in
    the name, because cookies do not distinguish ports."""

    secure: bool
    port: int = 0

    @property
    def session(self) -> str:
        return self._named("session")

    @property
    def form(self) -> str:
        return self._named("form")

    def _named(self, name: str) -> str:
        prefix = "__Host-federator" if self.secure else f"federator-{self.port}"
        return f"{prefix}-{name}"

    def set(self, name: str, value: str, max_age_s: float) -> str:
        """The value of Set-Cookie."""
        secure = "; Secure" if self.secure else ""
        return f"{name}={value}; Path=/; Max-Age={max_age_s:.0f}; HttpOnly; SameSite=Strict{secure}"


class Port:
    """Answers for one dashboard. `cookies` is called for every request: the port of a server is
    known once it listens."""

    def __init__(
        self,
        sources: Sources,
        access: Access,
        sessions_: Sessions,
        cookies: Callable[[], Cookies],
    ) -> None:
        self._sources = sources
        self._access = access
        self._sessions = sessions_
        self._cookies = cookies

    async def answer(self, request: Incoming) -> Outgoing:
        """Total: whatever goes wrong is an answer."""
        try:
            given = await self._answered(request)
        except Exception:  # a bug of ours must not end the server, nor show what it was about
            log.exception("the dashboard failed at %s", plaintext.clipped(request.path, 200))
            given = self._failure(request, None, 500, "The log of the dashboard says why.")
        return Outgoing(given.status, given.body, given.content_type, {**HEADERS, **given.headers})

    async def _answered(self, request: Incoming) -> Outgoing:
        if len(request.path) > PATH_MAX or len(request.query) > QUERY_MAX:
            return self._failure(request, None, 400, "The address is too long.")
        if request.path.startswith("/static/"):
            return _static(request)
        if request.path in ("/healthz", "/readyz"):
            return self._probe(request.path)
        session = None
        try:
            if request.path == SIGN_IN:
                return await self._sign_in(request)
            if request.path == LINK:
                return await self._link(request)
            session = await self._session(request)
            if session is None:
                return self._stranger(request)
            if request.path == SIGN_OUT:
                return await self._sign_out(request, session)
            return await self._page(request, session)
        except Refused as refused:
            return self._failure(request, session, refused.status, refused.message)
        except accesses.Refused as refused:
            headers = {"Retry-After": str(refused.retry_after_s)} if refused.retry_after_s else {}
            message = f"{refused.message[:1].upper()}{refused.message[1:]}."
            return self._failure(request, session, refused.status, message, headers)
        except (FieldError, BodyRefused) as bad:
            return self._failure(request, session, 400, f"{bad}.")

    def _probe(self, path: str) -> Outgoing:
        ready = path == "/healthz" or self._sources.fleet.ready
        body = b"ok\n" if ready else b"host: not read yet\n"
        return Outgoing(200 if ready else 503, body, "text/plain; charset=utf-8")

    # -- pages ----------------------------------------------------------------

    async def _page(self, request: Incoming, session: Session) -> Outgoing:
        matched = pages.matching(request.path)
        if matched is None:
            raise Refused(404, "There is no such page.")
        route, given = matched
        parameters = _parameters(request.query)
        route.check(parameters, listing.COMMON)
        form = await self._form_of(request, session, route)
        asked = Request(session, request.path, given, parameters, form)
        shown = await route.show(self._sources, asked)
        if _wants_json(request, parameters):
            return Outgoing(shown.status, render.data(shown.view))
        frame = await self._frame(request, session, route, parameters)
        frame |= {"title": shown.title, "notes": [*frame["notes"], *shown.notes]}
        return Outgoing(shown.status, render.html(route.template, frame, shown.view), _HTML)

    async def _form_of(
        self, request: Incoming, session: Session, route: Route
    ) -> dict[str, str] | None:
        """What was sent to a page; None for a page that is read."""
        if request.method == "POST" and route.form_max:
            form = await forms.read(request, route.form_max)
            if not sessions.same_csrf(session, form.pop("csrf", "")):
                raise Refused(403, _FOREIGN)
            return form
        if request.method != "GET" or request.has_body:
            raise Refused(405, "Pages are read by GET.")
        return None

    async def _frame(
        self,
        request: Incoming,
        session: Session | None,
        route: Route | None,
        parameters: Mapping[str, str],
    ) -> dict[str, Any]:
        """What every page has."""
        live = parameters.get("live", "") != "off"
        rest = {name: text for name, text in parameters.items() if name not in listing.COMMON}
        warnings = [*(await self._sources.fleet.banner()).lines] if session is not None else []

        def here(**more: str) -> str:
            query = urlencode({**rest, **more})
            return f"{request.path}?{query}" if query else request.path

        return {
            "title": "",
            "reader": session.user.name if session is not None else "",
            "csrf": session.csrf if session is not None else "",
            "navigation": pages.navigation(route) if session is not None else [],
            "warnings": [*warnings, *self._sources.fleet.troubles] if session else [],
            "notes": [],
            "refreshes": route is not None and route.refreshes,
            "live": live,
            "refresh": f"every {REFRESH_S}s",
            "here": here() if live else here(live="off"),
            "toggle": here(live="off") if live else here(),
            "json": here(format="json"),
        }

    def _failure(
        self,
        request: Incoming,
        session: Session | None,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> Outgoing:
        """A page, or an object, that says what is wrong."""
        view = {
            "status": status,
            "title": _STATUS_TITLES.get(status, "Refused"),
            "message": message,
        }
        if _wants_json(request, {}):
            return Outgoing(status, render.data(view), headers=headers or {})
        frame = {
            "title": view["title"],
            "reader": session.user.name if session is not None else "",
            "csrf": session.csrf if session is not None else "",
            "navigation": pages.navigation(None) if session is not None else [],
            "warnings": [],
            "notes": [],
            "refreshes": False,
            "json": "",
        }
        return Outgoing(status, render.html("failure.html.j2", frame, view), _HTML, headers or {})

    # -- sessions -------------------------------------------------------------

    async def _session(self, request: Incoming) -> Session | None:
        """The session of the cookie, as long as the host knows its token. Raises
        `access.Refused` 503 while the host does not answer."""
        key = _cookies(request).get(self._cookies().session, "")
        refresh = request.headers.get("hx-request") == "true"
        session = self._sessions.get(key, refresh=refresh) if key else None
        if session is None:
            return None
        try:
            session.user = await self._access.authenticate(_as_bearer(request, session.token))
        except accesses.Refused as refused:
            if refused.status != 401:
                raise
            self._sessions.end(session)
            return None
        return session

    def _stranger(self, request: Incoming) -> Outgoing:
        """Nobody has signed in: a redirect for a browser that opens a page, 401 for all else."""
        if request.method != "GET" or _wants_json(request, {}):
            return self._failure(
                request, None, 401, "Nobody has signed in, or the session is over."
            )
        where = f"{SIGN_IN}?{urlencode({'next': _target(request)})}"
        if request.headers.get("hx-request") == "true":
            return Outgoing(401, b"", _HTML, {"HX-Redirect": where})
        return Outgoing(303, b"", _HTML, {"Location": where})

    async def _sign_in(self, request: Incoming) -> Outgoing:
        if request.method == "POST":
            form = await forms.read(request, FORM_MAX)
            cookie = _cookies(request).get(self._cookies().form, "")
            if not self._sessions.is_form(cookie, form.get("csrf", "")):
                return self._sign_in_page(form.get("next", ""), "The form was too old. Try again.")
            token = form.get("token", "").strip()
            if not token:
                return self._sign_in_page(form.get("next", ""), "Paste a token.")
            return await self._begin(request, token, form.get("next", ""))
        if request.method != "GET" or request.has_body:
            raise Refused(405, "A token is sent by POST.")
        return self._sign_in_page(_parameters(request.query).get("next", ""), "", status=200)

    def _sign_in_page(self, where: str, trouble: str, *, status: int = 401) -> Outgoing:
        cookie, csrf = self._sessions.form()
        frame = {
            "title": "Sign in",
            "reader": "",
            "navigation": [],
            "warnings": [],
            "notes": [],
            "refreshes": False,
            "json": "",
        }
        view = {"csrf": csrf, "next": local(where), "trouble": trouble}
        kept = self._cookies().set(self._cookies().form, cookie, sessions.SIGN_IN_S)
        page = render.html("signin.html.j2", frame, view)
        return Outgoing(status, page, _HTML, {"Set-Cookie": kept})

    async def _begin(self, request: Incoming, token: str, where: str) -> Outgoing:
        """Begins a session, if the host knows the token."""
        try:
            user = await self._access.authenticate(_as_bearer(request, token))
        except accesses.Refused as refused:
            if refused.status != 401:
                raise
            return self._sign_in_page(where, "The host does not know this token.")
        session = self._sessions.begin(user, token)
        log.info("%s has signed in", plaintext.clipped(user.name, 200))
        kept = self._cookies().set(self._cookies().session, session.key, sessions.LONGEST_S)
        return Outgoing(303, b"", _HTML, {"Location": local(where), "Set-Cookie": kept})

    async def _link(self, request: Incoming) -> Outgoing:
        """A one-time link."""
        if request.method != "GET" or request.has_body:
            raise Refused(405, "A link is opened by GET.")
        token = self._sessions.redeem(_parameters(request.query).get("key", ""))
        if not token:
            raise Refused(
                403, "This link was used, or is too old. The program that printed it makes another."
            )
        return await self._begin(request, token, "/")

    async def _sign_out(self, request: Incoming, session: Session) -> Outgoing:
        if request.method != "POST":
            raise Refused(405, "The button on a page signs out.")
        form = await forms.read(request, FORM_MAX)
        if not sessions.same_csrf(session, form.get("csrf", "")):
            raise Refused(403, _FOREIGN)
        self._sessions.end(session)
        gone = self._cookies().set(self._cookies().session, "", 0)
        return Outgoing(303, b"", _HTML, {"Location": SIGN_IN, "Set-Cookie": gone})


def local(where: str) -> str:
    """The address to go to after signing in: on this server only."""
    safe = where.startswith("/") and not where.startswith(("//", "/\\"))
    return where if safe and where.isascii() and where.isprintable() and "\\" not in where else "/"


def _target(request: Incoming) -> str:
    return f"{request.path}?{request.query}" if request.query else request.path


def _as_bearer(request: Incoming, token: str) -> Incoming:
    return Incoming("GET", "/", authorization=f"Bearer {token}", address=request.address)


def _parameters(query: str) -> dict[str, str]:
    """Raises FieldError for a query that cannot be read, or gives a parameter twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        raise FieldError("", "the query cannot be read") from None
    parameters: dict[str, str] = {}
    for name, text in pairs:
        if name in parameters:
            raise FieldError(plaintext.clipped(name, 40), "is given twice")
        parameters[name] = text
    return parameters


def _wants_json(request: Incoming, parameters: Mapping[str, str]) -> bool:
    if "format" in parameters and parameters["format"] not in ("json", "html"):
        raise FieldError("format", "must be json or html")
    asked = parameters.get("format") == "json" or "format=json" in request.query.split("&")
    return asked or request.headers.get("accept", "").startswith("application/json")


def _cookies(request: Incoming) -> dict[str, str]:
    try:
        jar = SimpleCookie(request.headers.get("cookie", "")[:COOKIES_MAX])
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


def _static(request: Incoming) -> Outgoing:
    name = request.path.removeprefix("/static/")
    if name not in render.STATIC or request.method != "GET":
        return Outgoing(404, b"not found\n", "text/plain; charset=utf-8")
    tag = f'"{render.digest(name)}"'
    kept = {"ETag": tag, "Cache-Control": "public, max-age=86400"}
    if request.headers.get("if-none-match") == tag:
        return Outgoing(304, b"", render.STATIC[name], kept)
    return Outgoing(200, render.static(name), render.STATIC[name], kept)


def link(base: str, secret: str) -> str:
    """The address of a one-time link."""
    return f"{base}{LINK}?key={quote(secret, safe='')}"
