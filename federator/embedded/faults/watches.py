"""Faults of lists and watches: streams that break, lie, repeat themselves or never say a word."""

from collections.abc import AsyncIterator

from federator.embedded.faults.rows import Injection, RequestFault, Sending
from federator.kube import errors
from federator.kube.transport import Response


async def _reset_watch(at: Injection) -> Response:
    return CutResponse(await at.inner.request(at.request), after_chunks=at.rng.randrange(4))


class CutResponse:
    """A stream that breaks in the middle of the chunk after `after_chunks` whole ones."""

    def __init__(self, inner: Response, *, after_chunks: int) -> None:
        self._inner = inner
        self._left = after_chunks
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Whole chunks, half a chunk, the end of the connection."""
        async for chunk in self._inner.chunks():
            if self._left == 0:
                yield chunk[: len(chunk) // 2]
                raise errors.Unreachable("The connection was reset.")
            self._left -= 1
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The body, whole: only streams are cut."""
        return await self._inner.read(limit)

    async def close(self) -> None:
        await self._inner.close()


def a_watch(sending: Sending) -> bool:
    return sending.watches


ROWS = (RequestFault("watch-reset", "F14", "a watch", a_watch, _reset_watch, 300, 150),)
