"""Server-sent events for open pages: each says that something on the page has changed, and nothing
else. The page then fetches itself, and its rights are checked as always.

A stream ends after less time than an answer may take, and the browser opens the next one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from typing import Final

from federator.dashboard.sessions import Session
from federator.dashboard.sources.changes import Changes, Topic

LIVE: Final = "/live"
STREAM_S: Final = 45.0
"""Shorter than `tlsserver.ANSWER_S`."""
REST_S: Final = 2.0
"""Events of a page are so far apart at least."""
BEAT_S: Final = 15.0
"""A comment after so much silence shows that the other side is still there."""
STREAMS_MAX: Final = 96
"""Fewer than the connections of one address, so that pages still get through an ingress."""
OF_ONE_SESSION: Final = 4
"""Browsers open six connections to a server; with all of them taken no page would load."""
CHANGED: Final = b"event: changed\ndata: 1\n\n"
BEGIN: Final = b"retry: 3000\n\n"


class Live:
    """The open streams."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._open: Counter[bytes] = Counter()
        """By session."""

    @property
    def open(self) -> int:
        return self._open.total()

    def full(self, reader: Session) -> bool:
        """Whether this reader, or all together, have as many streams as there may be. The page then
        renews itself now and then."""
        return self.open >= STREAMS_MAX or self._open[reader.ident] >= OF_ONE_SESSION

    async def stream(self, reader: Session, topics: Iterable[Topic]) -> AsyncGenerator[bytes, None]:
        """The events of one page, until its time is over or it is closed."""
        ident, loop = reader.ident, asyncio.get_running_loop()
        ends_s = loop.time() + STREAM_S
        self._open[ident] += 1
        try:
            with self._changes.waited_for(topics) as changed:
                yield BEGIN
                while (left_s := ends_s - loop.time()) > 0:
                    try:
                        async with asyncio.timeout(min(left_s, BEAT_S)):
                            await changed.wait()
                    except TimeoutError:
                        yield b":\n\n"
                        continue
                    changed.clear()
                    yield CHANGED
                    await asyncio.sleep(REST_S)
        finally:
            self._open[ident] -= 1
            if not self._open[ident]:
                del self._open[ident]
