"""The hub's side of the history: notes entries at once; a thread writes them.

Noting never waits, and no error of the files stops the hub. Lost entries are counted, and an entry
reports them as soon as writing succeeds again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from federator.hub.history import entry as entries
from federator.hub.history.entry import HistoryEntry, Kind
from federator.hub.history.options import HistoryOptions
from federator.hub.history.segments import EntrySelection, Found, Segments
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.model.decision import Decision
from federator.status.conditions import Condition

log = logging.getLogger(__name__)

LINGER_S: Final = 0.5
"""Entries of so many seconds are written together."""
FAILED_S: Final = 10.0
"""Seconds between a failed write and the next attempt."""
Compute = Callable[[Callable[[Callable[[], bool]], Found]], Awaitable[Found]]


class Journal:
    """One per hub process. Without a folder nothing is kept, and `read` says so."""

    def __init__(
        self, options: HistoryOptions, clock: Clock, metrics: Metrics | None = None
    ) -> None:
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self._waiting: deque[HistoryEntry] = deque()
        self._lost = 0
        self._work = asyncio.Event()
        self._segments: Segments | None = None
        if options.directory:
            folder = Path(options.directory).expanduser()
            self._segments = Segments(
                folder, segment_bytes=options.segment_bytes, segments=options.segments
            )

    @property
    def kept(self) -> bool:
        """Whether there is a history."""
        return self._segments is not None

    def decided(
        self,
        workload: Workload,
        before: Record | None,
        decision: Decision,
        cause: str,
        why: str = "",
    ) -> None:
        """A decision is on the host. `why`: what led to it, as the beginning of its evidence."""
        if self.kept:
            key, uid, at = workload.key, workload.uid, self._clock.now()
            self._note(
                entries.of_decision(key, before, decision, at=at, cause=cause, uid=uid, why=why)
            )

    def turned(
        self,
        workload: Workload,
        was: Sequence[Mapping[str, Any]],
        now: Sequence[Condition],
        seq: int,
    ) -> None:
        """A workload's status is on the host."""
        if self.kept:
            key, uid, at = workload.key, workload.uid, self._clock.now()
            for entry in entries.of_conditions(key, was, now, at=at, seq=seq, uid=uid):
                self._note(entry)

    def cluster(self, name: str, reason: str, evidence: str, *, lost: bool) -> None:
        """A member has stopped, or has begun again, to accept new work."""
        was, now = ("Ready", "NotReady") if lost else ("NotReady", "Ready")
        if self.kept:
            key = f"MemberCluster/{name}"
            self._note(
                HistoryEntry(
                    at=self._clock.now(),
                    kind=Kind.CLUSTER,
                    key=key,
                    before=was,
                    after=now,
                    cause=reason,
                    evidence=evidence,
                )
            )

    def member_event(
        self, name: str, reason: str, evidence: str, turn: tuple[str, str] | None = None
    ) -> None:
        """Something happened to a member that leaves its readiness as it is. `turn`: what it was
        and what it is."""
        if self.kept:
            was, now = turn or (None, None)
            self._note(
                HistoryEntry(
                    at=self._clock.now(),
                    kind=Kind.CLUSTER,
                    key=f"MemberCluster/{name}",
                    before=was,
                    after=now,
                    cause=reason,
                    evidence=evidence,
                )
            )

    def _note(self, entry: HistoryEntry) -> None:
        if len(self._waiting) >= self._options.waiting_max:
            self._lose(1)
            return
        self._waiting.append(entry)
        self._work.set()

    async def lead(self, term: int, identity: str) -> None:
        """This hub begins to lead in this term: notes that, and the gap since it last led."""
        if self._segments is None:
            return
        now = self._clock.now()
        try:
            last = await asyncio.to_thread(self._segments.last_term)
        except OSError as trouble:
            log.warning("the history cannot be read: %s", trouble)
            last = None
        if last is not None and term > last[0] + 1:
            cause = f"other hubs led, or none, for {term - last[0] - 1} terms"
            self._note(HistoryEntry(at=now, kind=Kind.GAP, before=last[1], after=now, cause=cause))
        before = last[0] if last is not None else None
        self._note(
            HistoryEntry(
                at=now,
                kind=Kind.LEADER,
                before=before,
                after=term,
                cause="BeganToLead",
                evidence=identity,
            )
        )

    async def run(self) -> None:
        """Writes what was noted until cancelled; then the rest."""
        if self._segments is None:
            return
        try:
            while True:
                await self._work.wait()
                await asyncio.sleep(LINGER_S)
                if not await self._write(self._segments):
                    await asyncio.sleep(FAILED_S)
        finally:
            if self._waiting:
                await asyncio.shield(self._write(self._segments))

    async def _write(self, segments: Segments) -> bool:
        """Writes the waiting entries; returns whether that succeeded."""
        self._work.clear()
        batch = [*self._waiting]
        self._waiting.clear()
        if self._lost:
            cause = f"{self._lost} entries could not be written"
            batch.insert(0, HistoryEntry(at=self._clock.now(), kind=Kind.LOST, cause=cause))
        try:
            await asyncio.to_thread(segments.append, [entries.line(entry) for entry in batch])
        except OSError as trouble:
            log.warning("%d entries of the history could not be written: %s", len(batch), trouble)
            self._lose(len(batch) - (1 if self._lost else 0))
            return False
        self._lost = 0
        return True

    def _lose(self, count: int) -> None:
        self._lost += count
        if self._metrics is not None:
            self._metrics.child("federator_history_lost_total").inc(count)

    async def read(self, wanted: EntrySelection, compute: Compute) -> Found:
        """Reads entries in a thread of `compute`. Raises OSError, and what `compute` raises."""
        segments = self._segments
        if segments is None:
            return Found((), more=False, begins=None)
        return await compute(lambda stop: segments.read(wanted, stop))
