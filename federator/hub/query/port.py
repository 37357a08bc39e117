"""One request to the query port, from the caller's identity to the answer. Knows no socket:
`serving` puts it behind one.

The order is the point: the caller's identity, then bounds, then whether this hub leads. Only then
is the request read; what it needs is asked of the host, and then it is answered. Every refusal is a
Kubernetes Status.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from federator.hub.query import questions, router, selection
from federator.hub.query.access import Access, AccessRefused, User
from federator.hub.query.questions import Sources
from federator.hub.query.router import Question, Route
from federator.hub.snapshot.places import Kind
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.model.errors import FieldError

log = logging.getLogger(__name__)

PATH_MAX = 1024
BY_OBJECT_AT_ONCE = 3
"""Requests at once that are large, and are read before it is known what their sender may."""
BY_OBJECT_OF_ONE_USER = 2
"""Of those, so that one user cannot take all."""
REASON_NOT_LEADING = "NotLeading"


class QueryPort:
    """Answers for one hub. `leader` names the hub that leads, "" when none is known; `sources`
    is called for every request, because a hub may start again in the same process.
    """

    def __init__(
        self,
        access: Access,
        sources: Callable[[], Sources],
        leader: Callable[[], str],
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self._access = access
        self._sources = sources
        self._leader = leader
        self._metrics = metrics
        self._running = 0
        self._by_user: Counter[tuple[str, Kind | None]] = Counter()
        """Requests of each user, by the class of what they compute."""
        self._by_object = 0
        """Requests of which the body is read before it is known what their sender may."""

    async def answer(self, request: Incoming) -> Outgoing:
        """Total: whatever goes wrong is an answer, and one that names nothing of what went wrong
        inside."""
        asked = "other"
        known = False
        try:
            # Before anything is counted: an unknown caller takes no place of a known one.
            user = await self._access.authenticate(request)
            self._running += 1
            known = True
            if self._running > self._sources().options.requests_at_once:
                raise AccessRefused(
                    429, "TooManyRequests", "too many requests at once", retry_after_s=1
                )
            route, given = self._routed(request)
            asked = route.name
            answer = await self._answered(request, user, route, given)
            sent = Outgoing(200, msgspec.json.encode(answer))
        except AccessRefused as refused:
            sent = status(refused.status, refused.reason, refused.message, refused.retry_after_s)
        except (FieldError, BodyRefused) as bad:
            sent = status(400, "BadRequest", str(bad))
        except Exception:  # a bug of ours must not end the port, nor show what it was about
            log.exception("the query port failed at %s", asked)
            sent = status(500, "InternalError", "the query port failed; its log says why")
        finally:
            self._running -= int(known)
        if self._metrics is not None:
            self._metrics.child("federator_query_requests_total", asked, str(sent.status)).inc()
        return sent

    def _routed(self, request: Incoming) -> tuple[Route, dict[str, str]]:
        """The row that a path asks for. Raises `AccessRefused`."""
        self._refuse_standby()
        for route in questions.ROUTES if len(request.path) <= PATH_MAX else ():
            if (given := route.match(request.path)) is None:
                continue
            if request.method != route.method or (request.has_body and not route.body_max):
                how = "POST with a body" if route.body_max else "GET without a body"
                raise AccessRefused(405, "MethodNotAllowed", f"{route.name} is asked by {how}")
            return route, questions.completed(given)
        raise AccessRefused(
            404, "NotFound", "there is no such question; see docs/reference/query-port.md"
        )

    def _refuse_standby(self) -> None:
        state = self._sources().state
        if state.leading and state.ready:
            return
        if state.leading:
            raise AccessRefused(
                503,
                REASON_NOT_LEADING,
                "this hub has begun to lead and is not ready yet",
                retry_after_s=2,
            )
        named = self._leader()
        leader = f"{named} leads" if named else "no leader is known"
        raise AccessRefused(
            503, REASON_NOT_LEADING, f"this hub does not lead; {leader}", retry_after_s=2
        )

    async def _answered(
        self, request: Incoming, user: User, route: Route, given: Mapping[str, str]
    ) -> Mapping[str, Any] | msgspec.Raw:
        sources = self._sources()
        holder = user.name, route.kind
        most = sources.options.requests_of_one_user
        if route.by_object:
            most = min(most, BY_OBJECT_OF_ONE_USER)
        if self._by_user[holder] >= most:
            raise AccessRefused(
                429, "TooManyRequests", "you have too many requests at once", retry_after_s=1
            )
        if route.by_object and self._by_object >= BY_OBJECT_AT_ONCE:
            raise AccessRefused(429, "TooManyRequests", "too many plans at once", retry_after_s=5)
        self._by_user[holder] += 1
        self._by_object += int(route.by_object)
        try:
            rights = tuple(right.filled(given) for right in route.rights)
            # The gateway asks for each of its submissions, with one account.
            lately = route.kind is Kind.VERDICT
            await self._access.allow(user, rights, given["namespace"], lately=lately)
            may = functools.partial(self._access.may, user)
            question = Question(given, router.parameters(route, request.query), may=may)
            if route.body_max and request.read_body:
                length = request.body_bytes
                if route.allow_large and (length is None or length > router.LARGE_BYTES):
                    await route.allow_large(question)
                question = replace(question, body=await request.read_body(route.body_max))
            what = f"{given['plural']} {given['namespace']}/{given.get('name', '')}"
            log.info("%s of %s for %s", route.name, what, selection.text(user.name))
            return await route.answer(sources, question)
        finally:
            self._by_object -= int(route.by_object)
            self._by_user[holder] -= 1
            if not self._by_user[holder]:
                del self._by_user[holder]


def status(code: int, reason: str, message: str, retry_after_s: int = 0) -> Outgoing:
    """A refusal as an API server words it."""
    details: dict[str, Any] = {"retryAfterSeconds": retry_after_s} if retry_after_s else {}
    if code == 404:
        details["name"] = "query"  # what names an object is an answer, and not a proxy's page
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Outgoing(code, msgspec.json.encode(body), headers=headers)
