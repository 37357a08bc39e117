"""The user behind a request, and how the host is asked as that user.

A token of a trusted OpenID Connect issuer is verified here, and the host is asked with the
gateway's own account, which acts as the user (impersonation). So is a client certificate of a
trusted authority, where there is no token; the handshake has verified it, and no header of a
proxy stands in for it. Any other token is one of the host: a
TokenReview names its user, and the host is asked with that very token. So the gateway never acts as
a user or a group with a name that begins with `system:`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from multidict import CIMultiDict

from federator.gateway.api.problems import Problem
from federator.gateway.certificates import Certificates
from federator.hub.query import access as accesses
from federator.hub.query.access import Access, User
from federator.kube.client import Client
from federator.kube.tlsserver import Incoming
from federator.kube.wire.transport import Request, Response, Transport
from federator.process.oidc.issuer import Issuers, Unavailable
from federator.process.oidc.options import RESERVED
from federator.process.oidc.tokens import Rejected

_ASKS: Final = "A bearer token is needed: of the host, or of a trusted issuer."
_ASKS_TOO: Final = (
    "A bearer token of the host or of a trusted issuer is needed, or a client certificate of a"
    " trusted authority."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request."""

    user: User
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """What requests to the host carry so that they are the user's."""
    impersonated: bool

    @property
    def name(self) -> str:
        return self.user.name


class Acting:
    """A Transport to the host that carries a user's headers."""

    def __init__(self, transport: Transport, headers: tuple[tuple[str, str], ...]) -> None:
        self._transport = transport
        self._headers = headers

    async def request(self, request: Request) -> Response:
        headers: CIMultiDict[str] = CIMultiDict(request.headers)
        headers.extend(self._headers)
        return await self._transport.request(
            Request(
                request.method,
                request.path,
                request.query,
                headers,
                request.body,
                request.read_timeout_s,
                request.total_timeout_s,
            )
        )

    async def close(self) -> None:
        """The transport is that of all users."""


class Callers:
    """Authenticates, and makes clients. `own` has the gateway's account; `bare` shows no
    credentials of its own, and carries tokens of the host."""

    def __init__(
        self,
        access: Access,
        issuers: Issuers,
        own: Client,
        bare: Transport,
        certificates: Certificates | None = None,
    ) -> None:
        """`certificates`: None where client certificates do not count."""
        self._access = access
        self._certificates = certificates
        self._issuers = issuers
        self._own = own
        self._bare = bare

    async def authenticate(self, request: Incoming) -> Caller:
        """The user. Raises `Problem` 401, 403, 429 or 503. Reads nothing but the head."""
        if request.impersonates:
            raise Problem(403, "Forbidden", "The gateway does not let users act as others.")
        if self._certificates is not None and not request.authorization:
            if request.certificate is None:
                raise Problem(401, "Unauthorized", _ASKS_TOO)
            return _impersonated(*self._certificates.user(request.certificate))
        scheme, _, token = request.authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            raise Problem(401, "Unauthorized", _ASKS)
        if (issuer := self._issuers.claims_to_be_of(token)) is not None:
            try:
                identity = await issuer.verified(token)
                return _impersonated(identity.user, identity.groups)
            except Rejected as why:
                sentence = str(why)
                raise Problem(
                    401, "Unauthorized", f"{sentence[:1].upper()}{sentence[1:]}."
                ) from None
            except Unavailable as why:
                sentence = f"{str(why)[:1].upper()}{str(why)[1:]}."
                raise Problem(503, "IssuerUnavailable", sentence, retry_after_s=5) from None
        try:
            user = await self._access.authenticate(request)
        except accesses.AccessRefused as refused:
            raise of_access(refused) from None
        return Caller(user, (("authorization", f"Bearer {token}"),), impersonated=False)

    def client(self, caller: Caller) -> Client:
        """A client of the host that sends requests as the user."""
        base = self._own.transport if caller.impersonated else self._bare
        return self._own.on(Acting(base, caller.headers))


def _impersonated(name: str, groups: Sequence[str]) -> Caller:
    """A verified user. Names of Kubernetes itself never get here; this is the last look before
    they would count."""
    if any(each.startswith(RESERVED) for each in (name, *groups)):
        raise Problem(403, "Forbidden", "The gateway does not act as users of Kubernetes itself.")
    headers = [("impersonate-user", name)]
    headers += [("impersonate-group", group) for group in groups]
    user = User(name, (*groups, accesses.AUTHENTICATED))
    return Caller(user, tuple(headers), impersonated=True)


def of_access(refused: accesses.AccessRefused) -> Problem:
    """The same refusal as a problem."""
    return Problem(
        refused.status,
        refused.reason,
        f"{refused.message[:1].upper()}{refused.message[1:]}.",
        retry_after_s=refused.retry_after_s,
    )
