"""Authentication and authorization of a request: the host decides both, for every request.

A bearer token goes to the host's TokenReview; a client certificate was verified in the handshake
with the host's authority for clients. Each right is then checked by SubjectAccessReview. Tokens are
never kept. Only the user of a token's hash is kept, for some seconds.
"""

import asyncio
import dataclasses
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from federator.api import raw
from federator.hub.query.router import Right
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.tlsserver import Incoming
from federator.model.steps import ObjectRef

T = TypeVar("T")
REMEMBERED_S = 10.0
"""Seconds for which the host's answer about a token is used, accepted or not."""
REMEMBERED_MAX = 1024
REVIEW_S = 5.0
"""Seconds after which a review without an answer has failed."""
REVIEWS_AT_ONCE = 16
"""Concurrent reviews on the host; others wait."""
REVIEWS_WAITING_MAX = 64
"""With so many reviews waiting, further requests are refused with a retry."""
UNKNOWN_AT_ONCE = 4
"""Of them, reviews of tokens that the host did not accept lately. Callers with an accepted token do
not wait for those."""
UNKNOWN_WAITING_MAX = 32
UNKNOWN_OF_ONE_ADDRESS = 8
"""Requests with such tokens at once from one address."""
KNOWN_S = 600.0
"""Seconds for which a token that the host accepted keeps its place. Its right to anything ends
sooner: it is reviewed again after `REMEMBERED_S`."""
AUTHENTICATED = "system:authenticated"
SYSTEM = "system:"
"""Users and groups of Kubernetes itself: nobody asks for them."""
FOR_READERS = Right("ask", "federation.pinterest.com", "readers")
"""The right to ask for other users, which the dashboard has for people with names that an issuer
has confirmed. API servers have no such resource: it counts here only, and changes nothing."""
NAMED_MAX = 512
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


class AccessRefused(Exception):
    """The request is refused: an HTTP status, a Kubernetes reason, and a sentence."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        """It is raised in the snapshot worker too, and passed on."""
        return _refused, (self.status, self.reason, self.message, self.retry_after_s)


def _is_reader(name: str) -> bool:
    return bool(name) and name.isprintable() and not name.lower().startswith(SYSTEM)


def _refused(status: int, reason: str, message: str, retry_after_s: int) -> AccessRefused:
    return AccessRefused(status, reason, message, retry_after_s=retry_after_s)


class Access:
    """Sends reviews to the host. `reviews` must work whether or not this hub leads: a review
    changes nothing."""

    def __init__(self, reviews: Client, *, clock: Clock) -> None:
        self._reviews = reviews
        self._clock = clock
        self._cached_users: OrderedDict[bytes, tuple[float, User | None]] = OrderedDict()
        self._known: OrderedDict[bytes, float] = OrderedDict()
        """Hashes of tokens that the host accepted, until when they keep their place."""
        self._had: OrderedDict[bytes, float] = OrderedDict()
        """Hashes of users with a right that they had, until when it counts for `had_lately`."""
        self._reviews_of_known = _Places(REVIEWS_AT_ONCE - UNKNOWN_AT_ONCE, REVIEWS_WAITING_MAX)
        self._reviews_of_unknown = _Places(UNKNOWN_AT_ONCE, UNKNOWN_WAITING_MAX)
        self._unknown: Counter[str] = Counter()
        """Requests with unknown tokens that wait for the host, by address."""

    async def authenticate(self, request: Incoming) -> User:
        """The user. Raises `AccessRefused` 401 for none, 403 for one that asks for another without
        the right `FOR_READERS`, 503 while the host does not answer."""
        if request.impersonates:
            return await self._for_reader(request)
        scheme, _, token = request.authorization.partition(" ")
        if request.authorization:
            if scheme.lower() != "bearer" or not token.strip():
                raise AccessRefused(
                    401, "Unauthorized", "a bearer token or a client certificate is needed"
                )
            if not token.isascii():
                # No token has such bytes, and they could not be hashed or sent to the host.
                raise AccessRefused(401, "Unauthorized", "the bearer token is not ASCII text")
            return await self._of_token(token.strip(), request.address)
        if request.certificate is not None and request.certificate.name:
            return User(request.certificate.name, (*request.certificate.groups, AUTHENTICATED))
        raise AccessRefused(401, "Unauthorized", "a bearer token or a client certificate is needed")

    async def _for_reader(self, request: Incoming) -> User:
        """The user named by an account with that right. Without it, an answer with the rights
        of the account would show more than was asked for."""
        account = await self.authenticate(dataclasses.replace(request, impersonates=False))
        await self.allow(account, (FOR_READERS,), "")
        name, groups = request.acts_as[0], request.acts_as[1:]
        named = [name, *groups]
        if len(named) > NAMED_MAX or not all(map(_is_reader, named)):
            raise AccessRefused(
                403, "Forbidden", f"nobody asks for users or groups of {SYSTEM}, or without a name"
            )
        return User(name, (*groups, AUTHENTICATED))

    async def allow(
        self, user: User, rights: tuple[Right, ...], namespace: str, *, lately: bool = False
    ) -> None:
        """Returns when the user has all these rights in the namespace; "" for rights on what has
        none. With `lately` a right counts that the user had within the last seconds. Raises
        `AccessRefused` 403 otherwise."""
        if lately and all(self.had_lately(user, right, namespace) for right in rights):
            return
        allowed = await asyncio.gather(*(self.may(user, right, namespace) for right in rights))
        missing = [str(right) for right, yes in zip(rights, allowed, strict=True) if not yes]
        if missing:
            where = f'in the namespace "{namespace}" of the host' if namespace else "on the host"
            raise AccessRefused(
                403, "Forbidden", f'user "{user.name}" cannot {" and ".join(missing)} {where}'
            )

    async def _of_token(self, token: str, address: str) -> User:
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        cached = self._cached_users.get(digest)
        if cached is None or cached[0] <= now:
            if self._known.get(digest, 0.0) > now:
                user = await self._review(token, self._reviews_of_known)
            else:
                user = await self._review_unknown(token, address)
            _remember(self._cached_users, digest, (now + REMEMBERED_S, user))
            if user is not None:
                _remember(self._known, digest, now + KNOWN_S)
        else:
            user = cached[1]
        if user is None:
            raise AccessRefused(401, "Unauthorized", "the host does not know this token")
        return user

    async def _review_unknown(self, token: str, address: str) -> User | None:
        """Of a token that anybody may have invented."""
        if self._unknown[address] >= UNKNOWN_OF_ONE_ADDRESS:
            raise AccessRefused(
                429,
                "TooManyRequests",
                f"{UNKNOWN_OF_ONE_ADDRESS} requests from your address wait until the host knows"
                " their tokens; try again after one of them has been answered",
                retry_after_s=1,
            )
        self._unknown[address] += 1
        try:
            return await self._review(token, self._reviews_of_unknown)
        finally:
            self._unknown[address] -= 1
            if not self._unknown[address]:
                del self._unknown[address]

    async def _review(self, token: str, places: "_Places") -> User | None:
        body = {"apiVersion": _TOKENS.api_version, "kind": _TOKENS.kind, "spec": {"token": token}}
        status = await self._asked(_TOKENS, body, places)
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

    def had_lately(self, user: User, right: Right, namespace: str) -> bool:
        """Whether the host said within the last `REMEMBERED_S` that the user has this right. Only
        for rights that the host checks again, and for those of the gateway's own account."""
        return self._had.get(_digest(user, right, namespace), 0.0) > self._clock.monotonic()

    async def may(self, user: User, right: Right, namespace: str) -> bool:
        """Whether the user has this right. Raises `AccessRefused` 503 while the host does not
        answer."""
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
            _RIGHTS,
            {"apiVersion": _RIGHTS.api_version, "kind": _RIGHTS.kind, "spec": spec},
            self._reviews_of_known,
        )
        allowed = status.get("allowed") is True and status.get("denied") is not True
        if allowed:
            until_s = self._clock.monotonic() + REMEMBERED_S
            _remember(self._had, _digest(user, right, namespace), until_s)
        else:
            self._had.pop(_digest(user, right, namespace), None)
        return allowed

    async def _asked(
        self, ref: ObjectRef, body: Mapping[str, Any], places: "_Places"
    ) -> Mapping[str, Any]:
        """The status of a review. Its body may hold a token, so no error text of it is passed
        on."""
        if places.waiting >= places.waiting_max:
            raise AccessRefused(
                429, "TooManyRequests", "too many reviews wait for the host", retry_after_s=1
            )
        places.waiting += 1
        try:
            async with asyncio.timeout(REVIEW_S), places.gate:
                answer = await self._reviews.create(ref, body)
        except (errors.ApiError, TimeoutError) as trouble:
            why = "may not" if isinstance(trouble, errors.Denied) else "cannot"
            sentence = f"this hub {why} ask the host for your identity and rights ({ref.plural})"
            raise AccessRefused(503, "ServiceUnavailable", sentence, retry_after_s=2) from None
        finally:
            places.waiting -= 1
        return raw.mapping(answer, "status")


class _Places:
    """Reviews at the host at once; others wait, up to a bound."""

    def __init__(self, at_once: int, waiting_max: int) -> None:
        self.gate = asyncio.Semaphore(at_once)
        self.waiting_max = waiting_max
        self.waiting = 0


def _digest(user: User, right: Right, namespace: str) -> bytes:
    shown = (user.name, user.groups, user.uid, sorted(user.extra.items()), right, namespace)
    return hashlib.sha256(repr(shown).encode()).digest()


def _remember(cache: OrderedDict[bytes, T], digest: bytes, value: T) -> None:
    """Keeps the value as the newest of a bounded number."""
    cache[digest] = value
    cache.move_to_end(digest)
    while len(cache) > REMEMBERED_MAX:
        cache.popitem(last=False)
