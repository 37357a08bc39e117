"""One open watch: bytes cut into lines, lines decoded into events, silence ended by a deadline.

Opened by `Client.open_watch`, read by the reflector and by `Client.watch`. A broken last line is
dropped (F14).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from federator.kube import errors
from federator.kube.wire import decode
from federator.kube.wire.exchange import OBJECT_LIMIT
from federator.kube.wire.transport import Response

LINE_LIMIT = OBJECT_LIMIT
"""Longest event, in bytes; longer ones end the watch."""


class WatchStream:
    """The lines of one watch, and what they say. Not re-entrant; close it when done."""

    __slots__ = ("_chunks", "_decoder", "_part_bytes", "_parts", "_response", "_silence_s", "_what")

    def __init__(
        self,
        response: Response,
        *,
        silence_s: float,
        what: str,
        decoder: "msgspec.json.Decoder[decode.WatchEvent]" = decode.raw_event_decoder,
    ) -> None:
        self._response = response
        self._chunks: AsyncIterator[bytes] = response.chunks()
        self._silence_s = silence_s
        self._decoder = decoder
        self._what = what
        self._parts: list[bytes] = []
        self._part_bytes = 0

    async def batch(self) -> list[bytes] | None:
        """The next whole lines (at least one), each for `event`, or None at the end of the stream.

        Raises `errors.Unreachable` when the connection broke or stayed silent for `silence_s`, and
        `errors.Malformed` for a line beyond all bounds.
        """
        try:
            # Whole lines count, not bytes: a server that drips one byte a minute is silent.
            async with asyncio.timeout(self._silence_s):
                while True:
                    lines = self._lines_of(await anext(self._chunks))
                    if lines:
                        return lines
        except StopAsyncIteration:
            return None
        except TimeoutError as exc:
            raise errors.Unreachable(
                f"{self._what}: nothing was heard for {self._silence_s:g} s."
            ) from exc

    def event(self, line: bytes) -> decode.WatchEvent:
        """A line as an event. Called for one line after the other, so that no more than one object
        is held decoded.

        Raises `errors.Malformed` for what is no event.
        """
        try:
            return self._decoder.decode(line)
        except msgspec.ValidationError:
            return self._unexpected(line)
        except decode.BROKEN as exc:
            raise errors.Malformed(f"{self._what}: a line is no event ({exc}).") from exc

    async def close(self) -> None:
        """Gives the connection up."""
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()
        await self._response.close()

    def _unexpected(self, line: bytes) -> decode.WatchEvent:
        """A bookmark, an ERROR, or an object of another shape than the decoder's."""
        try:
            return decode.raw_event_decoder.decode(line)
        except decode.BROKEN as exc:
            raise errors.Malformed(f"{self._what}: a line is no event ({exc}).") from exc

    def _lines_of(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._keep(chunk)
            return []
        if self._parts:
            lines[0] = b"".join(self._parts) + lines[0]
            self._parts.clear()
            self._part_bytes = 0
        rest = lines.pop()
        if rest:
            self._keep(rest)
        return [line for line in lines if line and not line.isspace()]

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._part_bytes += len(part)
        if self._part_bytes > LINE_LIMIT:
            self._parts.clear()
            raise errors.Malformed(f"{self._what}: one event is longer than {LINE_LIMIT} bytes.")
