"""Changes that open pages wait for, to renew themselves when something that they show has changed.

A page waits for topics. What its reader may not list is in none of them, so that not even the time
of a change of another tenant is sent.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator

Topic = tuple[str, str, str]
"""Kind, namespace and name; without a name all of a namespace, without both all of a kind."""


class Changes:
    """Notes changes, and wakes those that wait. Noting costs three look-ups, however many wait."""

    def __init__(self) -> None:
        self._waiting: dict[Topic, set[asyncio.Event]] = {}

    def note(self, kind: str, namespace: str, name: str) -> None:
        """An object has come, gone or changed."""
        for topic in {(kind, namespace, name), (kind, namespace, ""), (kind, "", "")}:
            for event in self._waiting.get(topic, ()):
                event.set()

    @contextlib.contextmanager
    def waited_for(self, topics: Iterable[Topic]) -> Iterator[asyncio.Event]:
        """An event that is set by every change of one of these."""
        event, wanted = asyncio.Event(), frozenset(topics)
        for topic in wanted:
            self._waiting.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            for topic in wanted:
                self._waiting[topic].discard(event)
                if not self._waiting[topic]:
                    del self._waiting[topic]
