"""The records a store keeps: versions of objects, changes, and per resource a shelf of both.

Made and filled by `store.Store`; read by watches. Plain data with the history window's arithmetic;
no clock, no I/O.
"""

import bisect
from collections.abc import Callable
from typing import Any, Final

import msgspec

from federator.embedded.storage import refusals
from federator.embedded.storage.resources import ResourceInfo

JsonObject = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

_encode = msgspec.json.Encoder().encode


class Revision:
    """One version of one object.

    `obj` must not be changed; `encoded()` is its JSON, made once and shared by all readers.
    """

    __slots__ = ("_encoded", "number", "obj")

    def __init__(self, obj: JsonObject, number: int) -> None:
        self.obj = obj
        self.number = number
        self._encoded: bytes | None = None

    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = _encode(self.obj)
        return self._encoded

    @property
    def key(self) -> Key:
        metadata = self.obj["metadata"]
        return (metadata.get("namespace", ""), metadata["name"])


class Event:
    """One change. `current` of a DELETED event is the last state, stamped with the version of the
    deletion."""

    __slots__ = ("current", "key", "number", "previous", "resource", "type")

    def __init__(
        self,
        type_: str,
        resource: ResourceInfo,
        key: Key,
        current: Revision,
        previous: Revision | None,
    ) -> None:
        self.type = type_
        self.resource = resource
        self.key = key
        self.number = current.number
        self.current = current
        self.previous = previous


Callback = Callable[[Event], None]


class Subscription:
    """A standing interest in changes. `close()` ends it at once and may be called twice."""

    __slots__ = ("_callbacks", "callback")

    def __init__(self, callbacks: list[Callback], callback: Callback) -> None:
        self._callbacks = callbacks
        self.callback = callback
        callbacks.append(callback)

    def close(self) -> None:
        # By identity: two subscriptions may hold equal bound methods.
        for index, callback in enumerate(self._callbacks):
            if callback is self.callback:
                del self._callbacks[index]
                return


class Shelf:
    """All objects of one resource, with the recent history that watches resume from."""

    __slots__ = ("_ordered", "callbacks", "events", "floor", "spaces")

    def __init__(self, floor: int) -> None:
        self.spaces: dict[str, dict[str, Revision]] = {}
        self._ordered: list[Revision] | None = None
        """Everything in order, as long as nothing changes: a list read in chunks is not sorted for
        each of them."""
        self.events: list[Event] = []
        self.callbacks: list[Callback] = []
        self.floor = floor
        """The version up to which history is gone (or never was)."""

    def get(self, key: Key) -> Revision | None:
        space = self.spaces.get(key[0])
        return None if space is None else space.get(key[1])

    def keep(self, event: Event, limit: int) -> None:
        """Takes note of a change that was just made."""
        self._ordered = None
        events = self.events
        events.append(event)
        if len(events) > 2 * limit:
            # Trimmed by halves, so that one append costs O(1) on average.
            self.floor = events[-limit - 1].number
            del events[:-limit]

    def since(self, number: int) -> list[Event]:
        if number < self.floor:
            raise refusals.expired(f"too old resource version: {number} ({self.floor})")
        start = bisect.bisect_right(self.events, number, key=lambda event: event.number)
        return self.events[start:]

    def items(self, namespace: str | None) -> "list[Revision]":
        """Current versions ordered by (namespace, name)."""
        if namespace is not None:
            return ordered(self.spaces, namespace)
        if self._ordered is None:
            self._ordered = ordered(self.spaces, None)
        return self._ordered.copy()


def ordered(spaces: dict[str, dict[str, Revision]], namespace: str | None) -> list[Revision]:
    if namespace is not None:
        names = spaces.get(namespace, {})
        return [names[name] for name in sorted(names)]
    return [spaces[space][name] for space in sorted(spaces) for name in sorted(spaces[space])]
