"""One open watch: bytes cut into lines, lines decoded into events, silence ended by a deadline.

Opened by `Client.open_watch`, read by the reflector and by `Client.watch`. A broken last line is dropped (F14); what
came before a bad line is still delivered before the error.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from federator.kube import decode, errors
from federator.kube.transport import Response

LINE_LIMIT = 32 * 1024 * 1024
"""Longest event, in bytes; longer ones end the watch."""


class WatchStream:
    """Events of one watch, a list per chunk of the connection. Not re-entrant; close it when done."""

    __slots__ = ("_chunks", "_part_bytes", "_parts", "_pending", "_response", "_silence_s", "_what")

    def __init__(self, response: Response, *, silence_s: float, what: str) -> None:
        self._response = response
        self._chunks: AsyncIterator[bytes] = response.chunks()
        self._silence_s = silence_s
        self._what = what
        self._parts: list[bytes] = []
        self._part_bytes = 0
        self._pending: errors.ApiError | None = None

    async def batch(self) -> list[decode.RawEvent] | None:
        """The next events (at least one), or None at the end of the stream.

        Raises `errors.Unreachable` when the connection broke or stayed silent for `silence_s`, and `errors.Malformed`
        for a line that is no event.
        """
        try:
            # Whole events count, not bytes: a server that drips one byte a minute is silent.
            async with asyncio.timeout(self._silence_s):
                while True:
                    if self._pending is not None:
                        raise self._pending
                    events = self._events_of(await anext(self._chunks))
                    if events:
                        return events
        except StopAsyncIteration:
            return None
        except TimeoutError as exc:
            raise errors.Unreachable(f"{self._what}: nothing was heard for {self._silence_s:g} s.") from exc

    async def close(self) -> None:
        """Gives the connection up."""
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()
        await self._response.close()

    def _events_of(self, chunk: bytes) -> list[decode.RawEvent]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._keep(chunk)
            return []
        if self._parts:
            lines[0] = b"".join(self._parts) + lines[0]
            self._parts.clear()
            self._part_bytes = 0
        rest = lines.pop()
        events: list[decode.RawEvent] = []
        read = decode.event_decoder.decode
        try:
            for line in lines:
                if line and not line.isspace():
                    events.append(read(line))
        except decode.BROKEN as exc:
            self._pending = errors.Malformed(f"{self._what}: a line is no event ({exc}).")
            return events
        if rest:
            self._keep(rest)
        return events

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._part_bytes += len(part)
        if self._part_bytes > LINE_LIMIT:
            self._parts.clear()
            self._pending = errors.Malformed(f"{self._what}: one event is longer than {LINE_LIMIT} bytes.")
