"""Events on slices, in their own cluster: what `kubectl describe` shows there of a workload's
troubles, and of their end. What goes well from the start is told by the status alone.

Told on transitions of the conditions that this process writes. One task writes them from a bounded
queue, so that no status waits for an Event; one that cannot be written is dropped.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from federator.api import raw
from federator.kinds import registry
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.member.cache.rows import SliceRow
from federator.model.steps import EmitEvent
from federator.status import conditions

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

LASTS_S: Final = 5.0
"""A trouble that is over within so many seconds is not told: objects are made one after the
other."""
REPEAT_S: Final = 600.0
"""Seconds between two Events about a trouble that comes and goes."""
WAITING_MAX: Final = 1000
"""Queued Events beyond this are dropped: in a storm single transitions are of no use."""
QUIET: Final = frozenset(
    {"", "Progressing", "Applying", "RollingOut", "NotAvailable", "NotObserved"}
)
"""Reasons of a slice that is on its way, with nothing for anybody to look at."""
RESTORED: Final = "DriftRestored"
NAMED: Final = frozenset({"Conflict", "MissingDependency", RESTORED})
"""Conditions with a type that says more than their reason."""
TROUBLES: Final = ("Conflict", "MissingDependency", "Stalled", "Failed", RESTORED)
OVER: Final = frozenset({"Ready", "Completed"})
"""Reasons of Events that end a trouble."""
Told = tuple[str, str, bool]
"""Reason, note, and whether it is a warning."""


class Telling:
    """Writes Events on slices. One per process."""

    def __init__(self, applier: Applier, clock: Clock) -> None:
        self._applier = applier
        self._clock = clock
        self._told_s: OrderedDict[tuple[str, str], float] = OrderedDict()
        """(uid, reason) -> when it was last told, in monotonic seconds."""
        self._troubles: OrderedDict[str, frozenset[str]] = OrderedDict()
        """uid -> what troubles the slice now, by its last status."""
        self._open: OrderedDict[str, str] = OrderedDict()
        """uid -> the trouble that was told last, of slices that are not ready again."""
        self._queue: asyncio.Queue[tuple[float, EmitEvent]] = asyncio.Queue(WAITING_MAX)
        """(when to tell it, in monotonic seconds; what)"""
        self.dropped = 0

    def changed(self, row: SliceRow, was: Sequence[raw.Obj], now: Sequence[raw.Obj]) -> None:
        """The status of a slice was written, with these conditions instead of those."""
        present = frozenset(reason for reason, _, warning in news((), now) if warning)
        _keep(self._troubles, row.uid, present)
        regarding = registry.KINDS[row.key.kind].ref(row.key.namespace, row.key.name)
        for reason, note, warning in news(was, now, self._open.get(row.uid, "")):
            if reason in OVER:
                self._open.pop(row.uid, None)
            event = EmitEvent(regarding, row.uid, reason, note, warning=warning, action="Report")
            due_s = self._clock.monotonic() + (LASTS_S if warning else 0.0)
            try:
                self._queue.put_nowait((due_s, event))
            except asyncio.QueueFull:
                self.dropped += 1

    async def run(self) -> None:
        """Writes queued Events until cancelled."""
        while True:
            due_s, event = await self._queue.get()
            await asyncio.sleep(max(due_s - self._clock.monotonic(), 0.0))
            if event.warning and not self._counts(event):
                continue
            outcome = await self._applier.apply(event)
            if outcome.error is not None:
                self.dropped += 1
                log.debug("event dropped: %s", outcome.error)

    def _counts(self, event: EmitEvent) -> bool:
        """Whether a trouble is one still, and was not told a short while ago."""
        if event.reason not in self._troubles.get(event.uid, ()):
            return False
        _keep(self._open, event.uid, event.reason)
        now_s, which = self._clock.monotonic(), (event.uid, event.reason)
        told_s = self._told_s.get(which, float("-inf"))
        again = now_s - told_s < REPEAT_S
        _keep(self._told_s, which, told_s if again else now_s)
        return not again


def _keep(book: OrderedDict[K, V], key: K, value: V) -> None:
    """Notes it as the newest, and forgets the oldest of too many."""
    book[key] = value
    book.move_to_end(key)
    while len(book) > WAITING_MAX:
        book.popitem(last=False)


def news(was: Sequence[raw.Obj], now: Sequence[raw.Obj], trouble: str = "") -> Iterator[Told]:
    """What is told of a change of conditions: each trouble once, by its own reason. `trouble`: what
    was told last, while it is not over."""
    seen: set[str] = set()
    for kind in TROUBLES:
        before, after = (conditions.find(some, kind) or raw.NO_FIELDS for some in (was, now))
        begun = after.get("status") == conditions.TRUE
        if begun and _said(before) != _said(after):
            reason = kind if kind in NAMED else _said(after)[1]
            seen.add(reason)
            yield reason, _note(after), kind != RESTORED
    before, after = (conditions.find(some, "Ready") or raw.NO_FIELDS for some in (was, now))
    state, reason = _said(after)
    if state == conditions.FALSE and reason not in QUIET | seen and reason != _said(before)[1]:
        yield reason, _note(after), True
    elif state == conditions.TRUE and _said(before) != (state, reason):
        if reason == "Completed" and was:
            yield reason, _note(after), False
        elif trouble:
            yield "Ready", f"is ready again, after {trouble}", False


def _said(condition: raw.Obj) -> tuple[str, str]:
    return raw.text(condition, "status"), raw.text(condition, "reason")


def _note(condition: raw.Obj) -> str:
    return raw.sentence(condition, "message") or raw.text(condition, "reason")
