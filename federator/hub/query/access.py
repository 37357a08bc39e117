"""Who sends a request, and whether they may: the host decides, for every request.

A bearer token goes to the host's TokenReview; a client certificate was verified in the handshake
with the host's authority for clients. Each right is then checked by SubjectAccessReview. Tokens are
never kept: only whose token a hash was, for some seconds.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.api import raw
from federator.hub.query.router import Right
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.tlsserver import Incoming
from federator.model.steps import ObjectRef

REMEMBERED_S = 10.0
"""Seconds for which the host's answer about a token is used, accepted or not."""
REMEMBERED_MAX = 1024
REVIEW_S = 5.0
"""Seconds after which a review without an answer has failed."""
REVIEWS_AT_ONCE = 16
"""Concurrent reviews on the host; others wait."""
REVIEWS_WAITING_MAX = 64
"""With so many reviews waiting, further requests are refused with a retry."""
AUTHENTICATED = "system:authenticated"
_TOKENS = ObjectRef("authentication.k8s.io/v1", "tokenreviews", "", "", "TokenReview")
_RIGHTS = ObjectRef(
    "authorization.k8s.io/v1", "subjectaccessreviews", "", "", "SubjectAccessReview"
)


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, as the host says."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Refused(Exception):
    """The request is refused: an HTTP status, a Kubernetes reason, and a sentence."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


class Access:
    """Sends reviews to the host. `reviews` must work whether or not this hub leads: a review
    changes nothing."""

    def __init__(self, reviews: Client, *, clock: Clock) -> None:
        self._reviews = reviews
        self._clock = clock
        self._cached_users: OrderedDict[bytes, tuple[float, User | None]] = OrderedDict()
        self._gate = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._waiting = 0

    async def who(self, request: Incoming) -> User:
        """The user. Raises `Refused` 401 for none, 503 while the host does not answer."""
        scheme, _, token = request.authorization.partition(" ")
        if request.authorization:
            if scheme.lower() != "bearer" or not token.strip():
                raise Refused(
                    401, "Unauthorized", "a bearer token or a client certificate is needed"
                )
            return await self._of_token(token.strip())
        if request.certificate is not None:
            return User(request.certificate.name, (*request.certificate.groups, AUTHENTICATED))
        raise Refused(401, "Unauthorized", "a bearer token or a client certificate is needed")

    async def allow(self, user: User, rights: tuple[Right, ...], namespace: str) -> None:
        """Returns when the user has all these rights in the namespace; "" for rights on what has
        none. Raises `Refused` 403 otherwise."""
        allowed = await asyncio.gather(*(self._may(user, right, namespace) for right in rights))
        missing = [str(right) for right, yes in zip(rights, allowed, strict=True) if not yes]
        if missing:
            where = f'in the namespace "{namespace}" of the host' if namespace else "on the host"
            raise Refused(
                403, "Forbidden", f'user "{user.name}" cannot {" and ".join(missing)} {where}'
            )

    async def _of_token(self, token: str) -> User:
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        cached = self._cached_users.get(digest)
        if cached is None or cached[0] <= now:
            user = await self._review(token)
            self._cached_users[digest] = (now + REMEMBERED_S, user)
            while len(self._cached_users) > REMEMBERED_MAX:
                self._cached_users.popitem(last=False)
        else:
            user = cached[1]
        if user is None:
            raise Refused(401, "Unauthorized", "the host does not know this token")
        return user

    async def _review(self, token: str) -> User | None:
        body = {"apiVersion": _TOKENS.api_version, "kind": _TOKENS.kind, "spec": {"token": token}}
        status = await self._asked(_TOKENS, body)
        name = raw.text(status, "user", "username")
        if status.get("authenticated") is not True or not name:
            return None
        user = raw.mapping(status, "user")
        return User(
            name,
            tuple(raw.texts(user, "groups")),
            raw.text(user, "uid"),
            raw.mapping(user, "extra"),
        )

    async def _may(self, user: User, right: Right, namespace: str) -> bool:
        attributes = {
            "namespace": namespace,
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
            "name": right.name,
        }
        spec: dict[str, Any] = {
            "resourceAttributes": {name: text for name, text in attributes.items() if text},
            "user": user.name,
            "groups": list(user.groups),
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = dict(user.extra)
        status = await self._asked(
            _RIGHTS, {"apiVersion": _RIGHTS.api_version, "kind": _RIGHTS.kind, "spec": spec}
        )
        return status.get("allowed") is True and status.get("denied") is not True

    async def _asked(self, ref: ObjectRef, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status of a review. Its body may hold a token, so no error text of it is passed
        on."""
        if self._waiting >= REVIEWS_WAITING_MAX:
            raise Refused(
                429, "TooManyRequests", "too many reviews wait for the host", retry_after_s=1
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(REVIEW_S), self._gate:
                answer = await self._reviews.create(ref, body)
        except (errors.ApiError, TimeoutError) as trouble:
            why = "may not be asked" if isinstance(trouble, errors.Denied) else "cannot be asked"
            sentence = f"the host {why} by this hub who you are and what you may ({ref.plural})"
            raise Refused(503, "ServiceUnavailable", sentence, retry_after_s=2) from None
        finally:
            self._waiting -= 1
        return raw.mapping(answer, "status")
