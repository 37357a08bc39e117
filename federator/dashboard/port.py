"""From a request to a page. Knows no socket: `server` puts it behind one.

The order is the point: static files and probes first, then the session, then the address, the
rights, and last what is shown. Whatever goes wrong is a page that says so.
"""

import functools
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from federator.dashboard import forms, listing, pages, render, sessions
from federator.dashboard.live import LIVE, Live
from federator.dashboard.routes.route import Request, RequestRefused, Route, Sources
from federator.dashboard.sessions import Session
from federator.dashboard.signin import browsing, signing
from federator.dashboard.signin.signing import SignIn
from federator.hub.query import access as accesses
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.model import plaintext
from federator.model.errors import FieldError

log = logging.getLogger(__name__)

PATH_MAX: Final = 1024
QUERY_MAX: Final = 4096
REFRESH_S: Final = 10
"""An open page renews itself after so many seconds."""
LIVE_REFRESH_S: Final = 30
"""The same of a page that is told of changes: its ages change too."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
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
_EVENTS: Final = "text/event-stream"
_STATUS_TITLES: Final[Mapping[int, str]] = {
    400: "This address cannot be read",
    401: "Sign in",
    403: "You may not see this",
    404: "Not found",
    405: "This cannot be done here",
    409: "Changed meanwhile",
    422: "This is not possible",
    429: "Too many requests",
    500: "The dashboard failed",
    502: "No answer",
    503: "Not now",
}


class Port:
    """Answers for one dashboard."""

    def __init__(self, sources: Sources, sign_in: SignIn) -> None:
        self._sources = sources
        self._sign_in = sign_in
        self.live = Live(sources.fleet.changes)

    async def answer(self, request: Incoming) -> Outgoing:
        """Total: whatever goes wrong is an answer."""
        try:
            given = await self._answered(request)
        except Exception:  # a bug of ours must not end the server, nor show what it was about
            log.exception("the dashboard failed at %s", plaintext.clipped(request.path, 200))
            given = self._failure(request, None, 500, "The log of the dashboard says why.")
        return replace(given, headers={**HEADERS, **given.headers})

    async def _answered(self, request: Incoming) -> Outgoing:
        if len(request.path) > PATH_MAX or len(request.query) > QUERY_MAX:
            return self._failure(request, None, 400, "The address is too long.")
        if request.path.startswith("/static/"):
            return _static(request)
        if request.path in PROBES:
            return self._probe(request.path)
        session = None
        try:
            if request.path in signing.OPEN:
                return await self._sign_in.answer(request)
            session = await self._sign_in.session(request)
            if session is None:
                return self._sign_in.stranger(request)
            if request.path == signing.SIGN_OUT:
                return await self._sign_in.sign_out(request, session)
            if request.path == LIVE:
                return await self._events(request, session)
            return await self._page(request, session)
        except RequestRefused as refused:
            return self._failure(request, session, refused.status, refused.message)
        except accesses.AccessRefused as refused:
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
            raise RequestRefused(404, "There is no such page.")
        route, given = matched
        parameters = browsing.parameters(request.query)
        route.check(parameters, listing.COMMON)
        form = await self._form_of(request, session, route)
        asked = Request(session, request.path, given, parameters, form)
        shown = await route.show(self._sources, asked)
        if browsing.wants_json(request, parameters):
            return Outgoing(shown.status, render.data(shown.view))
        if shown.location:
            session.said = shown.view["done"]
            return Outgoing(303, b"", signing.HTML, {"Location": shown.location})
        frame = await self._frame(request, session, route, parameters)
        said, session.said = session.said, ""
        frame |= {"title": shown.title, "notes": [*filter(None, (said,)), *shown.notes]}
        return Outgoing(shown.status, render.html(route.template, frame, shown.view), signing.HTML)

    async def _events(self, request: Incoming, session: Session) -> Outgoing:
        """The changes of a page. Without content where there may be no more streams: a browser does
        not ask again then."""
        if request.method != "GET" or request.has_body:
            raise RequestRefused(405, "Changes are read by GET.")
        parameters = browsing.parameters(request.query)
        path, _, query = parameters.get("of", "").partition("?")
        route, given = pages.matching(path) or (None, {})
        if route is None or route.live is None:
            raise RequestRefused(404, "There is no such page, or it is not told of changes.")
        find = functools.partial(
            route.live,
            self._sources,
            Request(session, path, given, browsing.parameters(query)),
        )
        topics = await find()
        if self.live.full(session):
            return Outgoing(204, b"", _EVENTS)

        async def valid() -> bool:
            try:
                return await self._sign_in.session(request) is session and await find() == topics
            except (RequestRefused, accesses.AccessRefused):
                return False

        return Outgoing(200, b"", _EVENTS, stream=self.live.stream(session, topics, valid))

    async def _form_of(
        self, request: Incoming, session: Session, route: Route
    ) -> dict[str, str] | None:
        """What was sent to a page; None for a page that is read."""
        if request.method == "POST" and route.form_max:
            form = await forms.read(request, route.form_max)
            if not sessions.same_csrf(session, form.pop("csrf", "")):
                raise RequestRefused(403, signing.FOREIGN)
            return form
        if request.method != "GET" or request.has_body:
            raise RequestRefused(405, "Pages are read by GET.")
        return None

    async def _frame(
        self,
        request: Incoming,
        session: Session | None,
        route: Route | None,
        parameters: Mapping[str, str],
    ) -> dict[str, Any]:
        live = parameters.get("live", "") != "off"
        follows = route is not None and route.live is not None and live
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
            "live_from": f"{LIVE}?{urlencode({'of': here()})}" if follows else "",
            "refresh": f"changed, every {LIVE_REFRESH_S}s" if follows else f"every {REFRESH_S}s",
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
            "title": _STATUS_TITLES.get(status, "RequestRefused"),
            "message": message,
        }
        if browsing.wants_json(request, {}):
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
        return Outgoing(
            status, render.html("failure.html.j2", frame, view), signing.HTML, headers or {}
        )


def _static(request: Incoming) -> Outgoing:
    name = request.path.removeprefix("/static/")
    if name not in render.STATIC or request.method != "GET":
        return Outgoing(404, b"not found\n", "text/plain; charset=utf-8")
    tag = f'"{render.digest(name)}"'
    kept = {"ETag": tag, "Cache-Control": "public, max-age=86400"}
    if request.headers.get("if-none-match") == tag:
        return Outgoing(304, b"", render.STATIC[name], kept)
    return Outgoing(200, render.static(name), render.STATIC[name], kept)
