"""Makers of boxes: what answers in an API server's place, for the episodes and for tests.

`seen` is called with each request that the box answered.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from federator.kinds.kind import Kind
from federator.kube import errors
from federator.kube.wire.transport import Response, Transport
from tests.faults.requests import CannedResponse, refusal
from tests.faults.rows import Box, Sending, plural_of
from tests.faults.streams import EditedStream

Befalls = Callable[[Sending], bool]
Seen = Callable[[Sending], object]
JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_DISCOVERY_MAX = 1 << 24


def unauthorized() -> Response:
    """Of a server that does not know who asks."""
    return refusal(401, "Unauthorized", "Unauthorized")


def forbidden() -> Response:
    """Of a server that lets who asks do nothing."""
    return refusal(403, "Forbidden", 'forbidden: User "federator" cannot do that in this cluster')


def answering(
    befalls: Befalls, answer: Callable[[], Response], seen: Seen = lambda sending: None
) -> Box:
    """Gives these requests an answer of its own; the server does not hear of them."""

    async def how(sending: Sending, inner: Transport) -> Response:
        seen(sending)
        return answer()

    return Box(befalls, how)


def closing_watches(befalls: Befalls, seen: Seen) -> Box:
    """Ends each of these watches as soon as it has begun."""
    return answering(
        lambda sending: sending.watches and befalls(sending),
        lambda: CannedResponse(200, b"", JSON),
        seen,
    )


def failing(befalls: Befalls, error: Callable[[Sending], errors.ApiError]) -> Box:
    """Lets no connection be made for these requests; streams that are open go on."""

    async def how(sending: Sending, inner: Transport) -> Response:
        raise error(sending)

    return Box(befalls, how)


def holding_up(befalls: Befalls, meanwhile: Callable[[Sending], Awaitable[None]]) -> Box:
    """Passes these requests on when something else has happened."""

    async def how(sending: Sending, inner: Transport) -> Response:
        await meanwhile(sending)
        return await inner.request(sending.request)

    return Box(befalls, how)


def telling_late(befalls: Befalls, delay_s: float) -> Box:
    """What these watches tell takes so long to arrive, one event after the other."""

    async def late(groups: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
        async for group in groups:
            await asyncio.sleep(delay_s)
            yield b"".join(group)

    async def how(sending: Sending, inner: Transport) -> Response:
        return EditedStream(await inner.request(sending.request), late)

    return Box(lambda sending: sending.watches and befalls(sending), how)


def without_kind(kind: Kind, befalls: Befalls, seen: Seen) -> Box:
    """For these requests a kind is not served: discovery does not name it, its paths answer 404.
    Its objects stay."""
    root = f"/apis/{kind.api_version}/"

    def concerned(sending: Sending) -> bool:
        path = sending.request.path
        mine = path.startswith(root) and plural_of(path)[0] == kind.plural
        return befalls(sending) and (mine or path == "/apis")

    async def how(sending: Sending, inner: Transport) -> Response:
        if sending.request.path != "/apis":
            seen(sending)
            return CannedResponse(404, b"404 page not found\n", _TEXT)
        response = await inner.request(sending.request)
        document = msgspec.json.decode(await response.read(_DISCOVERY_MAX))
        for group in document["items"]:
            for version in group["versions"]:
                version["resources"] = [
                    resource
                    for resource in version["resources"]
                    if resource["resource"] != kind.plural
                ]
        return CannedResponse(response.status, msgspec.json.encode(document), response.headers)

    return Box(concerned, how)
