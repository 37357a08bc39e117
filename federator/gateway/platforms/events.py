"""Events about submissions, on their objects. They expire: the record is the audit's file.

Each submission has an Event of its own until there are too many a second. Then those of one version
by one user share Events, which list them. So a burst of submissions costs the host few writes, and
no submission is left out.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from federator.kube import errors
from federator.kube.control.event_recorder import EventRecorder
from federator.model import plaintext
from federator.model.steps import EmitEvent, ObjectRef

log = logging.getLogger(__name__)

BURST: Final = 20.0
"""So many Events at once are written as they come, and then so many a second."""
A_SECOND: Final = 2.0
SHARED_S: Final = 2.0
"""Shared Events are written so often."""
IDS_MAX: Final = 35
"""Submissions of one shared Event: a note has 1024 bytes."""
GROUPS_MAX: Final = 500
"""Shared Events that wait at a time."""
WRITE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class News:
    """What happened to a submission; equal for those that share Events."""

    reason: str
    """Submitted or Cancelled."""
    namespace: str
    workflow: str
    version: str
    user: str
    verdict: str = ""


@dataclass(slots=True)
class _Shared:
    regarding: ObjectRef
    uid: str
    """Of the object of the last submission."""
    ids: list[str] = field(default_factory=list)


class Teller:
    """Of one gateway process. `events`: with the gateway's own account."""

    def __init__(self, events: EventRecorder, monotonic: Callable[[], float]) -> None:
        self._events = events
        self._monotonic = monotonic
        self._left, self._at_s = BURST, 0.0
        self._shared: dict[News, _Shared] = {}

    async def tell(self, news: News, identity: str, regarding: ObjectRef, uid: str) -> None:
        """Writes an Event, now or soon. One that cannot be written is logged."""
        if self._takes():
            await self._write(news, _Shared(regarding, uid, [identity]))
            return
        if news not in self._shared and len(self._shared) >= GROUPS_MAX:
            await self.flush()
        shared = self._shared.setdefault(news, _Shared(regarding, uid))
        shared.regarding, shared.uid = regarding, uid
        if identity not in shared.ids:
            shared.ids.append(identity)
        if len(shared.ids) >= IDS_MAX:
            del self._shared[news]
            await self._write(news, shared)

    async def run(self) -> None:
        """Writes shared Events, until cancelled."""
        while True:
            await asyncio.sleep(SHARED_S)
            await self.flush()

    async def flush(self) -> None:
        """Writes the shared Events that wait."""
        waiting, self._shared = self._shared, {}
        for news, shared in waiting.items():
            await self._write(news, shared)

    def _takes(self) -> bool:
        now_s = self._monotonic()
        self._left = min(BURST, self._left + (now_s - self._at_s) * A_SECOND)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    async def _write(self, news: News, shared: _Shared) -> None:
        note = plaintext.clipped(_note(news, shared.ids), 1000)
        event = EmitEvent(shared.regarding, shared.uid, news.reason, note, action="Submit")
        try:
            async with asyncio.timeout(WRITE_S):
                await self._events.record(event)
        except (errors.ApiError, TimeoutError) as trouble:
            what = f"{shared.regarding.kind}/{shared.regarding.name}"
            log.warning("an Event of %s cannot be written: %s", what, trouble)


def _note(news: News, ids: list[str]) -> str:
    which = f"submission {ids[0]}" if len(ids) == 1 else f"{len(ids)} submissions"
    what = " ".join(filter(None, (news.workflow, news.version)))
    verdict = f", {news.verdict}" if news.verdict else ""
    listed = "" if len(ids) == 1 else f": {', '.join(ids)}"
    return f"{which} of {what} by {news.user}{verdict}{listed}"
