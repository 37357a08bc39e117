"""Server-sent events for open pages: each says that something on the page has changed, and nothing
else. The page then fetches itself, and its rights are checked as always.

A stream ends after less time than an answer may take, and the browser opens the next one. It ends
sooner when its session or one of its reader's rights has ended: that is checked before each event.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any, Final

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
OF_ONE_USER: Final = 12
"""In all sessions of a user, so that eight people can follow pages at the same time."""
CHANGED: Final = b"event: changed\ndata: 1\n\n"
BEGIN: Final = b"retry: 3000\n\n"
BEAT: Final = b":\n\n"
Valid = Callable[[], Awaitable[bool]]
"""Whether the reader may still have this stream."""


class Live:
    """The open streams."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._open: Counter[bytes] = Counter()
        """By session."""
        self._of_user: Counter[str] = Counter()

    @property
    def open(self) -> int:
        return self._open.total()

    def full(self, reader: Session) -> bool:
        """Whether this session, its user, or all together have as many streams as there may be. The
        page then renews itself now and then."""
        return (
            self.open >= STREAMS_MAX
            or self._open[reader.ident] >= OF_ONE_SESSION
            or self._of_user[reader.user.name] >= OF_ONE_USER
        )

    async def stream(
        self, reader: Session, topics: Iterable[Topic], valid: Valid
    ) -> AsyncGenerator[bytes, None]:
        """The events of one page, until its time is over, it is closed, or it is not `valid`."""
        ident, user, loop = reader.ident, reader.user.name, asyncio.get_running_loop()
        ends_s = loop.time() + STREAM_S
        self._open[ident] += 1
        self._of_user[user] += 1
        try:
            with self._changes.waited_for(topics) as changed:
                yield BEGIN
                while (left_s := ends_s - loop.time()) > 0:
                    try:
                        async with asyncio.timeout(min(left_s, BEAT_S)):
                            await changed.wait()
                        said = CHANGED
                        changed.clear()
                    except TimeoutError:
                        said = BEAT
                    if not await valid():
                        return
                    yield said
                    if said is CHANGED:
                        await asyncio.sleep(REST_S)
        finally:
            _less(self._open, ident)
            _less(self._of_user, user)


def _less(counts: Counter[Any], key: object) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
