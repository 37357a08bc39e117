"""Events about submissions, on their objects. They expire, and some may be missing: the record is
the audit's file.

Each submission has an Event of its own until there are too many a second. Then those of one version
by one user share Events, which list them. So a burst of submissions costs the host few writes, and
no request waits for them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from federator.kube import errors
from federator.kube.control.event_recorder import NOTE_MAX, EventRecorder
from federator.model import plaintext
from federator.model.steps import EmitEvent, ObjectRef

log = logging.getLogger(__name__)

BURST: Final = 20.0
"""So many submissions at once have an Event of their own, and then so many a second."""
A_SECOND: Final = 2.0
SHARED_S: Final = 2.0
"""A shared Event takes further submissions for so long, unless it is full before."""
BATCHES_MAX: Final = 500
"""Events that wait to be written. What comes beyond them has none."""
USER_MAX: Final = 100
"""Characters of the user in a note, so that identifiers have room."""
WRITE_S: Final = 2.0
LAST_S: Final = 5.0
"""What still waits at the end of the process is written within this time."""


@dataclass(frozen=True, slots=True)
class SubmissionEvent:
    """What happened to a submission; equal for those that share Events."""

    reason: str
    """Submitted or Cancelled."""
    namespace: str
    workflow: str
    version: str
    user: str
    verdict: str = ""


@dataclass(slots=True)
class _Batch:
    """An Event that is to be written."""

    about: SubmissionEvent
    regarding: ObjectRef
    uid: str
    """Of the object of the last submission."""
    due_s: float
    ids: list[str]


class EventBatcher:
    """Of one gateway process. `events`: with the gateway's own account."""

    def __init__(self, events: EventRecorder, monotonic: Callable[[], float]) -> None:
        self._events = events
        self._monotonic = monotonic
        self._left, self._at_s = BURST, 0.0
        self._waiting: list[_Batch] = []
        self._open: dict[SubmissionEvent, _Batch] = {}
        """Of those that wait, the ones that take further submissions."""
        self._added = asyncio.Event()
        self._missing = 0
        """Submissions without an Event since that was last logged."""

    def add(self, about: SubmissionEvent, identity: str, regarding: ObjectRef, uid: str) -> None:
        """An Event is written soon. One that cannot be written is logged."""
        now_s = self._monotonic()
        batch = self._open.get(about)
        if batch is not None and identity in batch.ids:
            return
        alone = self._takes(now_s)
        if not alone and batch is not None:
            if len(_note(about, [*batch.ids, identity]).encode()) <= NOTE_MAX:
                batch.regarding, batch.uid = regarding, uid
                batch.ids.append(identity)
                return
            batch.due_s = now_s  # it is full
            del self._open[about]
        if len(self._waiting) >= BATCHES_MAX:
            self._missing += 1
            return
        batch = _Batch(about, regarding, uid, now_s + (0 if alone else SHARED_S), [identity])
        self._waiting.append(batch)
        if not alone:
            self._open[about] = batch
        self._added.set()

    async def run(self) -> None:
        """Writes Events when they are due, until cancelled."""
        while True:
            self._added.clear()
            batch = min(self._waiting, key=lambda each: each.due_s, default=None)
            wait_s = None if batch is None else batch.due_s - self._monotonic()
            if batch is not None and wait_s is not None and wait_s <= 0:
                await self._write(batch)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._added.wait()

    async def flush(self) -> None:
        """Writes all Events that wait, at the end of the process."""
        try:
            async with asyncio.timeout(LAST_S):
                while self._waiting:
                    await self._write(self._waiting[0])
        except TimeoutError:
            self._missing += sum(len(each.ids) for each in self._waiting)
        self._log_missing()

    def _takes(self, now_s: float) -> bool:
        self._left = min(BURST, self._left + (now_s - self._at_s) * A_SECOND)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    async def _write(self, batch: _Batch) -> None:
        """The batch waits until it is written or refused, whatever ends this."""
        if self._open.get(batch.about) is batch:
            del self._open[batch.about]
        self._log_missing()
        about = batch.about
        note = _note(about, batch.ids)
        event = EmitEvent(batch.regarding, batch.uid, about.reason, note, action="Submit")
        try:
            async with asyncio.timeout(WRITE_S):
                if await self._events.record(event) is None:  # its object has too many
                    self._missing += len(batch.ids)
        except (errors.ApiError, TimeoutError) as trouble:
            what = f"{batch.regarding.kind}/{batch.regarding.name}"
            log.warning("an Event of %s cannot be written: %s", what, trouble)
        self._waiting.remove(batch)

    def _log_missing(self) -> None:
        if self._missing:
            log.warning("%d submissions have no Event, because there are too many", self._missing)
            self._missing = 0


def _note(about: SubmissionEvent, ids: list[str]) -> str:
    which = f"submission {ids[0]}" if len(ids) == 1 else f"{len(ids)} submissions"
    what = " ".join(filter(None, (about.workflow, about.version)))
    verdict = f", {about.verdict}" if about.verdict else ""
    listed = "" if len(ids) == 1 else f": {', '.join(ids)}"
    user = plaintext.clipped(about.user, USER_MAX)
    return plaintext.visible(f"{which} of {what} by {user}{verdict}{listed}")
