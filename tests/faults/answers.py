"""Faults of answers: throttled, in trouble, timed out with or without effect, cut short, or of
another program."""

import contextlib
import random
from collections.abc import AsyncIterator

from federator.kube.wire.transport import Response
from tests.faults import boxes
from tests.faults.requests import CannedResponse, refusal
from tests.faults.rows import (
    Episode,
    Injection,
    RequestFault,
    Sending,
    Stage,
    is_hub,
)

_JSON = {"content-type": "application/json"}
_HTML = {"content-type": "text/html; charset=utf-8"}
_PAGE = b"<!doctype html><html><body><h1>Welcome to the guest network</h1></body></html>"
_BODY_MAX = 64 * 1024 * 1024

_SUCCESS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'
_WRONG: tuple[tuple[int, bytes, dict[str, str]], ...] = (
    (200, _PAGE, _HTML),
    (200, b"", _JSON),
    (200, b"ok", {"content-type": "text/plain"}),
    (200, b"{}", _JSON),
    (200, b"[]", _JSON),
    (200, b"null", _JSON),
    (200, _SUCCESS, _JSON),
    (200, b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}', _JSON),
    (
        200,
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":""},"items":null}',
        _JSON,
    ),
    (200, b'{"kind":"Lease","metadata":{"name":null},"spec":7}', _JSON),
    (302, b"", {**_HTML, "location": "https://portal.example.com/login"}),
    (403, _PAGE, _HTML),
    (404, _PAGE, _HTML),
    (511, _PAGE, _HTML),
)
"""What other programs answer: (status, body, headers)."""


RETRY_AFTER_S = (0, 1, 1, 5, 30)
"""For how long a 429 asks to be left alone."""


async def _throttled(at: Injection) -> Response:
    wait_s = at.rng.choice(RETRY_AFTER_S)
    headers = {"retry-after": str(wait_s)} if at.rng.random() < 0.9 else {}
    return refusal(429, "TooManyRequests", "too many requests, please try again later", headers)


async def _server_trouble(at: Injection) -> Response:
    kind = at.rng.choice((500, 503, 504))
    if kind == 503:
        headers = {"retry-after": "2"} if at.rng.random() < 0.5 else {}
        return refusal(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
            headers,
        )
    if kind == 504:
        return refusal(
            504, "Timeout", "the server was unable to return a response in the time allotted"
        )
    return refusal(500, "InternalError", "Internal error occurred: etcdserver: leader changed")


async def _late_trouble(at: Injection) -> Response:
    """The request takes effect; the server says that it timed out."""
    response = await at.inner.request(at.request)
    await response.close()
    if at.rng.random() < 0.5:
        return refusal(504, "Timeout", "request timed out")
    return refusal(500, "InternalError", "Internal error occurred: etcdserver: request timed out")


async def _broken_answer(at: Injection) -> Response:
    """The request takes effect; what comes back is cut short, empty or another answer."""
    response = await at.inner.request(at.request)
    body = await response.read(_BODY_MAX)
    if at.rng.random() < 0.5 and len(body) > 1:
        return CannedResponse(
            response.status, body[: at.rng.randrange(1, len(body))], response.headers
        )
    return wrong(at.rng)


def wrong(rng: random.Random) -> CannedResponse:
    """An answer of something that is no API server."""
    return CannedResponse(*rng.choice(_WRONG))


@contextlib.asynccontextmanager
async def captive_portal(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """All that hubs ask of one member is answered by something else."""
    member = rng.choice(list(stage.members))
    always = rng.choice(_WRONG) if rng.random() < 0.7 else None

    box = boxes.answering(
        lambda sending: sending.cluster == member and is_hub(sending.process),
        lambda: wrong(rng) if always is None else CannedResponse(*always),
        lambda sending: stage.happened("captive-portal"),
    )
    with stage.boxes.standing(box):
        if rng.random() < 0.5:
            await stage.links.end_streams(member)
        yield


@contextlib.asynccontextmanager
async def slow_member(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Every request to one member takes so much longer."""
    member, delay_s = rng.choice(list(stage.members)), rng.uniform(5.0, 30.0)
    before = stage.links.touched["delay"]
    pairs = [(process, member) for process in (*stage.hubs, f"member-{member}")]
    for process, cluster in pairs:
        stage.links.slow(process, cluster, delay_s)
    try:
        yield
    finally:
        for process, cluster in pairs:
            stage.links.slow(process, cluster, 0.0)
        if stage.links.touched["delay"] > before:
            stage.happened("slow-member")


@contextlib.asynccontextmanager
async def slow_host(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """Every request of a hub to the host takes so much longer; leases are renewed all the same."""
    delay_s, before = rng.uniform(0.3, 1.2), stage.links.touched["delay"]
    for hub in stage.hubs:
        stage.links.slow(hub, "host", delay_s)
    try:
        yield
    finally:
        for hub in stage.hubs:
            stage.links.slow(hub, "host", 0.0)
        if stage.links.touched["delay"] > before:
            stage.happened("slow-host")


def any_request(sending: Sending) -> bool:
    return True


def a_call(sending: Sending) -> bool:
    """Not a stream."""
    return not sending.watches


def a_write(sending: Sending) -> bool:
    return sending.writes


ROWS = (
    Episode(
        "slow-member",
        "F33",
        "hubs and the member's own process",
        "answers come at once again after 20 to 90 s",
        slow_member,
        (20.0, 90.0),
    ),
    Episode(
        "slow-host",
        "F33",
        "hubs",
        "answers come at once again after 20 to 60 s",
        slow_host,
        (20.0, 60.0),
    ),
    Episode(
        "captive-portal",
        "F34",
        "hubs and one member",
        "the member answers again after 5 to 60 s",
        captive_portal,
        (5.0, 60.0),
    ),
    RequestFault("broken-answer", "F34", "a call", a_call, _broken_answer, 60, 60),
    RequestFault("throttled", "F40", "a request", any_request, _throttled, 100, 60),
    RequestFault("server-trouble", "F40", "a request", any_request, _server_trouble, 150, 100),
    RequestFault("late-trouble", "F40", "a write", a_write, _late_trouble, 150, 100),
)
