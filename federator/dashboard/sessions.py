"""Sessions of signed-in people, in the memory of this process only: a restart signs everybody out.

The browser holds a random key and nothing else. The Kubernetes token stays here, because the leader
is asked with it. Time and chance are arguments.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from federator.hub.query.access import User

IDLE_S: Final = 3600.0
"""A session without a request of a person for so long ends. The refreshes of an open page do not
count."""
LONGEST_S: Final = 12 * 3600.0
ISSUED_S: Final = 3600.0
"""A session by an OpenID Connect issuer, which is not asked again meanwhile, lasts so long."""
SIGN_IN_S: Final = 600.0
"""A form of the sign-in page is accepted for so long."""
SESSIONS_MAX: Final = 5000
"""The session that was used longest ago ends when there is another."""
SESSIONS_OF_ONE_USER: Final = 20
LINK_S: Final = 12 * 3600.0
"""A one-time link is accepted for so long."""


@dataclass(slots=True)
class Session:
    """A signed-in person."""

    key: str = field(repr=False)
    """The value of the cookie."""
    user: User
    token: str = field(repr=False)
    """The person's Kubernetes token; "" for a person with a name that an issuer has confirmed."""
    csrf: str = field(repr=False)
    """Every form that changes something carries it."""
    ends_s: float
    used_s: float
    said: str = ""
    """What the next page says first: what came of a form."""

    @property
    def ident(self) -> bytes:
        """Distinguishes sessions in caches; the key is not to lie around in them."""
        return hashlib.sha256(self.key.encode()).digest()


class Sessions:
    """The sessions of one dashboard. `draw` returns a new secret of at least 128 bits as text;
    `now_s` reads a monotonic clock."""

    def __init__(self, draw: Callable[[], str], now_s: Callable[[], float]) -> None:
        self._draw = draw
        self._now_s = now_s
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        """By digest of the key, so that a lookup takes no time that depends on a secret. The one
        that was used longest ago is first."""
        self._key = draw().encode()
        self._links: dict[bytes, tuple[float, str]] = {}

    def begin(self, user: User, token: str) -> Session:
        """A new session; the browser never chooses its key."""
        now = self._now_s()
        ends_s = now + (LONGEST_S if token else ISSUED_S)
        session = Session(self._draw(), user, token, self._draw(), ends_s, now)
        of_user = [ident for ident, each in self._sessions.items() if each.user.name == user.name]
        for ident in of_user[: max(len(of_user) - SESSIONS_OF_ONE_USER + 1, 0)]:
            del self._sessions[ident]
        self._sessions[session.ident] = session
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session

    def get(self, key: str, *, refresh: bool = False) -> Session | None:
        """The session of a cookie; None when there is none, or it is over. `refresh`: an open page
        asks by itself."""
        ident, now = hashlib.sha256(key.encode()).digest(), self._now_s()
        session = self._sessions.get(ident)
        if session is None:
            return None
        if now - session.used_s > IDLE_S or now > session.ends_s:
            del self._sessions[ident]
            return None
        if not refresh:
            session.used_s = now
            self._sessions.move_to_end(ident)
        return session

    def end(self, session: Session) -> None:
        """Signs out."""
        self._sessions.pop(session.ident, None)

    # -- the sign-in form -----------------------------------------------------

    def form(self) -> tuple[str, str]:
        """(cookie, hidden field) of a sign-in form: only a page of ours knows the pair."""
        cookie = f"{self._now_s() + SIGN_IN_S:.0f}.{self._draw()}"
        return cookie, self._signed(cookie)

    def is_form(self, cookie: str, given: str) -> bool:
        """Whether a sign-in form is ours, and not too old."""
        ends = cookie.partition(".")[0]
        in_time = ends.isascii() and ends.isdecimal() and float(ends) >= self._now_s()
        return in_time and hmac.compare_digest(self._signed(cookie).encode(), given.encode())

    def _signed(self, cookie: str) -> str:
        return hmac.digest(self._key, cookie.encode(), hashlib.sha256).hex()

    # -- one-time links -------------------------------------------------------

    def link(self, token: str) -> str:
        """The secret of a link that signs in once, with this token."""
        secret = self._draw()
        ends_s = self._now_s() + LINK_S
        self._links[hashlib.sha256(secret.encode()).digest()] = (ends_s, token)
        return secret

    def redeem(self, secret: str) -> str:
        """The token of a link, which counts no more from now on; "" for one that was used, or is
        too old, or never was."""
        ends_s, token = self._links.pop(hashlib.sha256(secret.encode()).digest(), (0.0, ""))
        return token if ends_s >= self._now_s() else ""


def same_csrf(session: Session, given: str) -> bool:
    """Whether a form carries the secret of its session."""
    return hmac.compare_digest(session.csrf.encode(), given.encode())
