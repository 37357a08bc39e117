"""Watches: the stream of changes of one collection, from a version on, with bookmarks.

A `Watch` takes note of store events as they happen and makes lines of them when its reader asks. It
ends on close, after `timeoutSeconds`, or when its reader is too slow; silence between events is
broken by a bookmark about once a minute.
"""

import asyncio
import collections
import functools
from collections.abc import AsyncIterator, Callable

import msgspec

from federator.embedded.rest import field_selectors, reading, views
from federator.embedded.rest.field_selectors import Predicate
from federator.embedded.schema import event_groups
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Target
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import ADDED, DELETED, MODIFIED, Event, Revision
from federator.embedded.storage.store import Store

BOOKMARK_EVERY_S = 60.0
"""About how often a watch that asked for bookmarks gets one."""

DEFAULT_TIMEOUT_S = (1800, 3600)
"""A watch without timeoutSeconds ends at a random time in this range, as with
--min-request-timeout=1800."""

BACKLOG_MAX = 20_000
"""Changes a reader may lag behind before its watch is ended; it resumes from the last version it
saw."""

_CHUNK_LINES = 256
_BOOKMARK = "BOOKMARK"
_INITIAL_END = "INITIAL_END"

_Item = tuple[str, Revision | int]
"""(event type, object), or (_BOOKMARK | _INITIAL_END, version)."""


class Watch:
    """One open watch. `chunks()` yields whole lines, as many as are there (at most 256 at once)."""

    def __init__(
        self, view: views.View, namespace: str | None, matches: Predicate | None, after: int
    ) -> None:
        self._view = view
        self._namespace = namespace
        self._matches = matches
        self._after = after
        self._items: collections.deque[_Item] = collections.deque()
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self._headers_due = True
        self._on_close: list[Callable[[], None]] = []

    def on_close(self, undo: Callable[[], None]) -> None:
        """Registers what must be given back when the watch ends (its subscription, its timers)."""
        self._on_close.append(undo)

    def close(self) -> None:
        """Ends the stream: what is queued can still be read, then the reader sees the end."""
        if self._closed:
            return
        self._closed = True
        for undo in self._on_close:
            undo()
        self._on_close.clear()
        self._notify()

    def take_initial(self, revisions: list[Revision]) -> None:
        """Queues the present objects as ADDED events."""
        matches = self._matches
        self._items.extend(
            (ADDED, item) for item in revisions if matches is None or matches(item.obj)
        )

    def take_bookmark(self, number: int, *, initial_end: bool = False) -> None:
        """Queues a bookmark. It replaces one that has not been read yet."""
        if self._closed:
            return
        if self._items and self._items[-1][0] is _BOOKMARK and not initial_end:
            self._items.pop()
        self._items.append((_INITIAL_END if initial_end else _BOOKMARK, number))
        self._notify()

    def take(self, event: Event) -> None:
        """Queues a change as this watch sees it: entering the selection is ADDED, leaving it is
        DELETED."""
        if event.number <= self._after or (
            self._namespace is not None and event.key[0] != self._namespace
        ):
            return
        item = self._seen(event)
        if item is None:
            return
        if len(self._items) >= BACKLOG_MAX:
            self.close()
            return
        self._items.append(item)
        self._notify()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The lines as they come, until the watch ends."""
        try:
            while True:
                if self._items:
                    yield b"".join(
                        [self._line(self._items.popleft()) for _ in range(self._ready())]
                    )
                elif self._closed:
                    return
                else:
                    self._wake = asyncio.get_running_loop().create_future()
                    await self._wake
        finally:
            self.close()

    def _ready(self) -> int:
        return min(len(self._items), _CHUNK_LINES)

    def _seen(self, event: Event) -> _Item | None:
        matches, type_ = self._matches, event.type
        if matches is None:
            return (type_, event.current)
        was = event.previous is not None and matches(event.previous.obj)
        now = type_ is not DELETED and matches(event.current.obj)
        if now:
            return (MODIFIED if was else ADDED, event.current)
        if not was or event.previous is None:
            return None
        # Gone from the selection: the last state that was in it, at the version of the change.
        metadata = {**event.previous.obj["metadata"], "resourceVersion": str(event.number)}
        return (DELETED, Revision({**event.previous.obj, "metadata": metadata}, event.number))

    def _line(self, item: _Item) -> bytes:
        type_, content = item
        headers, self._headers_due = self._headers_due, False
        if isinstance(content, int):
            return self._view.bookmark(content, initial_end=type_ is _INITIAL_END, headers=headers)
        return self._view.event(type_, content, headers)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class _Failed:
    """A watch that could not begin: one ERROR line and the end, with status 200, as a real server
    answers."""

    def __init__(self, refusal: refusals.Refusal) -> None:
        self._refusal = refusal

    def close(self) -> None:
        """There is nothing to end."""

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(self._refusal.status())


def watch(store: Store, request: ApiRequest, target: Target, definitions: ResourceInfo) -> Answer:
    """Opens a watch on a collection, or on one object when the path names one. That of a custom
    resource ends with its definition."""
    view = views.view(request, target.info, store.clock.now)
    field_text = request.param("fieldSelector")
    if target.name:
        field_text = ",".join(part for part in (field_text, f"metadata.name={target.name}") if part)
    matches = field_selectors.predicate(target.info, request.param("labelSelector"), field_text)
    given = request.param("resourceVersion")
    number = reading.parse_version(given) if given else 0
    stream_initial = _streams_initial(request)
    bookmarks = request.flag("allowWatchBookmarks")
    home = event_groups.home(target.info)
    opened = Watch(view, target.namespace, matches, 0 if stream_initial or number == 0 else number)
    if stream_initial or (number == 0 and stream_initial is None):
        reading.check_not_ahead(store, given)
        opened.take_initial(store.items(home, target.namespace))
        if stream_initial and bookmarks:
            opened.take_bookmark(store.revision, initial_end=True)
    after = None if number == 0 or stream_initial else number
    try:
        subscription = store.subscribe(home, opened.take, after=after)
    except refusals.Refusal as refusal:
        return Answer(stream=_Failed(refusal))
    opened.on_close(subscription.close)
    if not target.info.is_builtin:
        end = functools.partial(_end_with_definition, opened, target.info)
        opened.on_close(store.subscribe(definitions, end).close)
    _arm(store, opened, request, bookmarks)
    return Answer(stream=opened)


def _end_with_definition(opened: Watch, info: ResourceInfo, event: Event) -> None:
    if event.type is DELETED and event.key[1] == f"{info.plural}.{info.group}":
        opened.close()


def _streams_initial(request: ApiRequest) -> bool | None:
    """`sendInitialEvents`: True, False, or None when it is not given."""
    match, field, errors = request.param("resourceVersionMatch"), "resourceVersionMatch", []
    if "sendInitialEvents" not in request.query:
        if not match:
            return None
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(field_errors.forbidden(field, why))
    elif match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(field_errors.forbidden(field, why))
    if match and match != "NotOlderThan":
        errors.append(field_errors.not_supported(field, match, ("NotOlderThan",)))
    if errors:
        raise reading.list_options(*errors)
    return request.flag("sendInitialEvents")


def _arm(store: Store, opened: Watch, request: ApiRequest, bookmarks: bool) -> None:
    """Sets the watch's end and its bookmarks."""
    loop = asyncio.get_running_loop()
    text = request.param("timeoutSeconds")
    timeout_s = float(text) if text.isascii() and text.isdigit() else 0.0
    if timeout_s <= 0:
        timeout_s = float(store.rng.randint(*DEFAULT_TIMEOUT_S))
    timers: dict[str, asyncio.TimerHandle] = {}

    def expire() -> None:
        if bookmarks:
            opened.take_bookmark(store.revision)
        opened.close()

    def mark() -> None:
        opened.take_bookmark(store.revision)
        timers["bookmark"] = loop.call_later(BOOKMARK_EVERY_S, mark)

    timers["end"] = loop.call_later(timeout_s, expire)
    if bookmarks:
        timers["bookmark"] = loop.call_later(BOOKMARK_EVERY_S, mark)

    def disarm() -> None:
        for timer in timers.values():
            timer.cancel()

    opened.on_close(disarm)
