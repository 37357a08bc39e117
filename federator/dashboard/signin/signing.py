"""Signing in and out: by a token of the host, a one-time link, or an OpenID Connect issuer."""

import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

from federator.dashboard import forms, render, sessions
from federator.dashboard.live import LIVE
from federator.dashboard.routes.route import RequestRefused
from federator.dashboard.sessions import Session, Sessions
from federator.dashboard.signin import browsing
from federator.dashboard.signin.browsing import Cookies
from federator.dashboard.signin.codeflow import CodeFlow
from federator.hub.query import access as accesses
from federator.hub.query.access import AUTHENTICATED, Access, User
from federator.kube.tlsserver import Incoming, Outgoing
from federator.model import plaintext
from federator.process.oidc.options import CALLBACK

log = logging.getLogger(__name__)

FORM_MAX: Final = 16 * 1024
SIGN_IN, SIGN_OUT = "/signin", "/signout"
LINK: Final = "/signin/link"
ISSUER: Final = "/signin/issuer"
OPEN: Final = frozenset({SIGN_IN, LINK, ISSUER, CALLBACK})
"""Addresses without a session."""
HTML: Final = "text/html; charset=utf-8"
FOREIGN: Final = "The form is not of your session. Nothing was changed."
OVER: Final = "Nobody has signed in, or the session is over."
UNSENT: Final = (
    "Your session is over. What you sent was not kept, and nothing was changed. Go back in your"
    " browser to copy what you entered, then sign in and send it again."
)


class SignIn:
    """Begins and ends sessions. `flow`: None where no issuer is configured. `cookies` is called for
    every request: the port of a server is known once it listens."""

    def __init__(
        self,
        access: Access,
        sessions_: Sessions,
        cookies: Callable[[], Cookies],
        flow: CodeFlow | None = None,
    ) -> None:
        self._access = access
        self._sessions = sessions_
        self._cookies = cookies
        self._flow = flow

    async def answer(self, request: Incoming) -> Outgoing:
        """At an address of `OPEN`. Raises `RequestRefused`, and `access.AccessRefused` while
        the host does not answer."""
        if request.path == SIGN_IN and request.method == "POST":
            return await self._by_token(request)
        if request.method != "GET" or request.has_body:
            raise RequestRefused(405, "Only a token on the sign-in page is sent by POST.")
        given = browsing.parameters(request.query)
        if request.path == LINK:
            return await self._by_link(request, given.get("key", ""))
        if request.path == SIGN_IN:
            return await self._page(given.get("next", ""), "", status=200, left="left" in given)
        if self._flow is None:
            raise RequestRefused(404, "No issuer is configured here (oidc.issuer_url).")
        if request.path == ISSUER:
            begun = await self._flow.begin(browsing.local(given.get("next", "")))
            kept = self._cookies().set(self._cookies().issued, begun.cookie, sessions.SIGN_IN_S)
            return Outgoing(303, b"", HTML, {"Location": begun.url, "Set-Cookie": kept})
        cookie = browsing.cookies(request).get(self._cookies().issued, "")
        identity, where = await self._flow.finish(given, cookie)
        return self._by_issuer(User(identity.user, (*identity.groups, AUTHENTICATED)), where)

    async def session(self, request: Incoming) -> Session | None:
        """The session of the cookie, as long as the host knows its token. Raises
        `access.AccessRefused` 503 while the host does not answer."""
        key = browsing.cookies(request).get(self._cookies().session, "")
        refresh = request.headers.get("hx-request") == "true" or request.path == LIVE
        session = self._sessions.get(key, refresh=refresh) if key else None
        if session is None or not session.token:
            return session
        try:
            session.user = await self._access.authenticate(_as_bearer(request, session.token))
        except accesses.AccessRefused as refused:
            if refused.status != 401:
                raise
            self._sessions.end(session)
            return None
        return session

    def stranger(self, request: Incoming) -> Outgoing:
        """Nobody has signed in: a redirect for a browser that opens a page. Raises `RequestRefused`
        401 for all else."""
        if request.path == LIVE or browsing.wants_json(request, {}):
            raise RequestRefused(401, OVER)
        if request.method != "GET":
            raise RequestRefused(401, UNSENT if forms.same_origin(request.headers) else OVER)
        where = f"{SIGN_IN}?{urlencode({'next': browsing.target(request)})}"
        if request.headers.get("hx-request") == "true":
            return Outgoing(401, b"", HTML, {"HX-Redirect": where})
        return Outgoing(303, b"", HTML, {"Location": where})

    async def sign_out(self, request: Incoming, session: Session) -> Outgoing:
        """Ends the session. The sign-in page then says where to sign out at the issuer."""
        if request.method != "POST":
            raise RequestRefused(405, "The button on a page signs out.")
        form = await forms.read(request, FORM_MAX)
        if not sessions.same_csrf(session, form.get("csrf", "")):
            raise RequestRefused(403, FOREIGN)
        self._sessions.end(session)
        gone = self._cookies().set(self._cookies().session, "", 0)
        where = SIGN_IN if session.token else f"{SIGN_IN}?left=yes"
        return Outgoing(303, b"", HTML, {"Location": where, "Set-Cookie": gone})

    # -- ways -----------------------------------------------------------------

    async def _by_token(self, request: Incoming) -> Outgoing:
        form = await forms.read(request, FORM_MAX)
        cookie = browsing.cookies(request).get(self._cookies().form, "")
        where = form.get("next", "")
        if not self._sessions.is_form(cookie, form.get("csrf", "")):
            return await self._page(where, "The form was too old. Try again.")
        token = form.get("token", "").strip()
        if not token:
            return await self._page(where, "Paste a token.")
        return await self._with_token(request, token, where)

    async def _by_link(self, request: Incoming, key: str) -> Outgoing:
        token = self._sessions.redeem(key)
        if not token:
            raise RequestRefused(
                403, "This link was used, or is too old. The program that printed it makes another."
            )
        return await self._with_token(request, token, "/")

    async def _with_token(self, request: Incoming, token: str, where: str) -> Outgoing:
        """Begins a session, if the host knows the token."""
        try:
            user = await self._access.authenticate(_as_bearer(request, token))
        except accesses.AccessRefused as refused:
            if refused.status != 401:
                raise
            return await self._page(where, "The host does not know this token.")
        headers = {"Location": browsing.local(where), "Set-Cookie": self._begun(user, token)}
        return Outgoing(303, b"", HTML, headers)

    def _by_issuer(self, user: User, where: str) -> Outgoing:
        """A page that leads on by itself. After a redirect the browser would still be coming from
        the issuer's site, and keep the cookie of the session back."""
        page = render.html("signedin.html.j2", _frame("Signed in"), {"next": where})
        return Outgoing(200, page, HTML, {"Set-Cookie": self._begun(user, "")})

    def _begun(self, user: User, token: str) -> str:
        """The cookie of a new session."""
        session = self._sessions.begin(user, token)
        log.info("%s has signed in", plaintext.clipped(user.name, 200))
        lasts_s = sessions.LONGEST_S if token else sessions.ISSUED_S
        return self._cookies().set(self._cookies().session, session.key, lasts_s)

    async def _page(
        self, where: str, trouble: str, *, status: int = 401, left: bool = False
    ) -> Outgoing:
        cookie, csrf = self._sessions.form()
        after, flow = browsing.local(where), self._flow
        view = {
            "csrf": csrf,
            "next": after,
            "trouble": trouble,
            "issuer": flow.name if flow is not None else "",
            "begin": f"{ISSUER}?{urlencode({'next': after})}",
            "left": left,
            "end": await flow.end_address() if flow is not None and left else "",
        }
        kept = self._cookies().set(self._cookies().form, cookie, sessions.SIGN_IN_S)
        page = render.html("signin.html.j2", _frame("Sign in"), view)
        return Outgoing(status, page, HTML, {"Set-Cookie": kept})


def _frame(title: str) -> dict[str, Any]:
    """That of a page without a reader."""
    return {
        "title": title,
        "reader": "",
        "navigation": [],
        "warnings": [],
        "notes": [],
        "refreshes": False,
        "json": "",
    }


def _as_bearer(request: Incoming, token: str) -> Incoming:
    return Incoming("GET", "/", authorization=f"Bearer {token}", address=request.address)


def link(base: str, secret: str) -> str:
    """The address of a one-time link."""
    return f"{base}{LINK}?key={quote(secret, safe='')}"
