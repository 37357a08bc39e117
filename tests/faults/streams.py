"""Watch streams taken apart into lines and put together differently: the means of the faults that
befall streams.

An edit gets whole lines, as they come, and gives chunks. What it holds back it must give before the
stream ends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from federator.kube.wire.transport import Response

Edit = Callable[[AsyncIterator[list[bytes]]], AsyncIterator[bytes]]
"""From groups of whole lines (each with its newline) to what the reader gets."""


class EditedStream:
    """An answer whose stream was edited on the way."""

    def __init__(self, inner: Response, edit: Edit) -> None:
        self._inner = inner
        self._edit = edit
        self.status = inner.status
        self.headers = inner.headers

    def chunks(self) -> AsyncIterator[bytes]:
        """What the edit makes of it; an answer that is no stream is left alone."""
        return (
            self._edit(lines(self._inner.chunks())) if self.status == 200 else self._inner.chunks()
        )

    async def read(self, limit: int) -> bytes:
        """The body, whole: only streams are edited."""
        return await self._inner.read(limit)

    async def close(self) -> None:
        await self._inner.close()


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The whole lines of each chunk; a chunk of a server of ours never ends within one."""
    async for chunk in chunks:
        if complete := chunk.splitlines(keepends=True):
            yield complete


async def gathered(
    groups: AsyncIterator[list[bytes]], within_s: float
) -> AsyncIterator[list[bytes]]:
    """Groups put together that come within so many seconds of the first one."""
    pending: asyncio.Task[list[bytes] | None] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(_next(groups))
            batch = await pending
            pending = None
            if batch is None:
                return
            deadline = asyncio.get_running_loop().time() + within_s
            while (left_s := deadline - asyncio.get_running_loop().time()) > 0:
                pending = pending or asyncio.ensure_future(_next(groups))
                done, _ = await asyncio.wait([pending], timeout=left_s)
                if not done or (more := pending.result()) is None:
                    break
                batch, pending = [*batch, *more], None
            yield batch
    finally:
        if pending is not None:
            pending.cancel()


async def _next(groups: AsyncIterator[list[bytes]]) -> list[bytes] | None:
    return await anext(groups, None)


def subject(line: bytes) -> tuple[str, str, str] | None:
    """(type, namespace, name) of an event's object; None for a bookmark and for what is no event of
    an object."""
    try:
        event = msgspec.json.decode(line)
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return None
        meta = event["object"]["metadata"]
        return event["type"], meta.get("namespace", ""), meta["name"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
