"""What stands before API servers for a while and answers in their place: proxies, portals, webhooks, rate limits.

Episodes put boxes up and take them away. A request that no box befalls goes on to the server as if there were none.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from federator.kube.wire.transport import RefreshesCredentials, Request, Response, Transport
from federator.sandbox.faults.rows import Sending


@dataclass(frozen=True, slots=True)
class Box:
    """`how` answers the requests that it befalls; it may ask the server behind it, with the same request or not."""

    befalls: Callable[[Sending], bool]
    how: Callable[[Sending, Transport], Awaitable[Response]]


class Boxes:
    """All boxes that stand now, the newest first in the way of a request."""

    def __init__(self) -> None:
        self._standing: list[Box] = []

    @contextlib.contextmanager
    def standing(self, box: Box) -> Iterator[None]:
        """The box stands while this is entered."""
        self._standing.append(box)
        try:
            yield
        finally:
            self._standing.remove(box)

    def befalling(self, sending: Sending) -> Box | None:
        """The box that answers this request."""
        return next((box for box in reversed(self._standing) if box.befalls(sending)), None)


class BoxTransport:
    """`inner` behind whatever stands before it."""

    def __init__(self, inner: Transport, boxes: Boxes, process: str, cluster: str) -> None:
        self._inner = inner
        self._boxes = boxes
        self._process = process
        self._cluster = cluster

    async def request(self, request: Request) -> Response:
        """The answer of a box, or of the server."""
        sending = Sending(self._process, self._cluster, request)
        box = self._boxes.befalling(sending)
        return await (self._inner.request(request) if box is None else box.how(sending, self._inner))

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return isinstance(self._inner, RefreshesCredentials) and await self._inner.refresh_credentials()

    async def close(self) -> None:
        await self._inner.close()
