"""The leader gate, before every write of a process that may act only while it leads: the last thing
before the wire.

Wrapped around the transports of all writers, so that there is one place to check. Reads pass
always: a standby keeps its caches warm.
"""

from collections.abc import Callable

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire.transport import (
    RefreshesCredentials,
    Request,
    Response,
    TakesToken,
    Transport,
)

READS = frozenset({"GET", "HEAD"})


class LeaderGate:
    """`inner`, with writes let through only while `may_write()` says so at the moment of
    sending."""

    def __init__(
        self, inner: Transport, may_write: Callable[[], bool], short: Callable[[str], object] = str
    ) -> None:
        self._inner = inner
        self._may_write = may_write
        self._short = short
        """Told why a request could not be sent for want of something of our own."""

    async def request(self, request: Request) -> Response:
        """Passed on. Raises `errors.NotLeading` for a write that may not be made: nothing was
        sent."""
        if request.method not in READS and not self._may_write():
            raise errors.NotLeading(
                f"{request.method} {request.path}: not sent, another hub may lead."
            )
        try:
            return await self._inner.request(request)
        except errors.OwnShortage as shortage:
            self._short(str(shortage))
            raise

    async def refresh_credentials(self) -> bool:
        """Passed on."""
        return (
            isinstance(self._inner, RefreshesCredentials)
            and await self._inner.refresh_credentials()
        )

    def take_token(self, token: str) -> bool:
        """Passed on."""
        return isinstance(self._inner, TakesToken) and self._inner.take_token(token)

    async def close(self) -> None:
        await self._inner.close()


def behind_gate(
    client: Client, may_write: Callable[[], bool], short: Callable[[str], object] = str
) -> Client:
    """The same client, behind the leader gate."""
    return client.on(LeaderGate(client.transport, may_write, short))
