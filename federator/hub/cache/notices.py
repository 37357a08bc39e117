"""Which workloads have been told that copies of theirs will leave for another, and how many copies
were told to leave in the last minute.

In memory: a hub that begins gives notice anew, so that nobody ever has less than was said.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from federator.hub.options import HubOptions
from federator.hub.records.workloads import Workload
from federator.model.names import WorkloadKey
from federator.scheduling.admission import notice
from federator.scheduling.admission.notice import Pace
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Noticed

MINUTE_S: Final = 60.0
ROOM_S: Final = 120.0
"""So long it is waited for room to be seen free: pods have 30 s to stop, and then it is reported.
"""


@dataclass(slots=True)
class Notices:
    """Changed by placing only."""

    _given: dict[WorkloadKey, tuple[str, Noticed]] = field(default_factory=dict)
    """Who will leave -> its uid, and what it was told."""
    _took: dict[WorkloadKey, float] = field(default_factory=dict)
    """For whom others left for want of room -> when, in monotonic seconds."""
    _left: float = 0.0
    """Copies that were told to leave and still count for the pace."""
    _at_s: float = 0.0
    """When that was reckoned, in monotonic seconds."""

    def of(self, workload: Workload) -> Noticed | None:
        uid, noticed = self._given.get(workload.key, ("", None))
        return noticed if uid == workload.uid else None

    def text(self, workload: Workload) -> str:
        """What a workload is told; "" for nothing."""
        noticed = self.of(workload)
        return notice.sentence(noticed) if noticed is not None else ""

    def takes_room(self, key: WorkloadKey, now_s: float) -> bool:
        """Whether what others left for it may not be seen free yet."""
        return now_s - self._took.get(key, -ROOM_S) < ROOM_S

    def pace(self, now_s: float, options: HubOptions) -> Pace:
        """How many copies may be told to leave now. `now_s`: monotonic seconds."""
        a_minute = options.preempted_copies_a_minute
        self._left = max(self._left - (now_s - self._at_s) * a_minute / MINUTE_S, 0.0)
        self._at_s = now_s
        left = int(a_minute - self._left)
        return Pace(left, full=not self._left, next_s=MINUTE_S / a_minute if left > 0 else 1.0)

    def settle(self, made: Cycle) -> Iterator[WorkloadKey]:
        """Takes over what a cycle says. Yields those that are told something else now."""
        decided = {entry.key for entry in made.decided} - made.unsure
        news = {entry.key: (entry.uid, entry.noticed) for entry in made.notices}
        void = [key for key, (_, entry) in self._given.items() if entry.by in decided]
        for key in dict.fromkeys((*void, *news)):
            before = self._given.pop(key, None)
            if key in news:
                self._given[key] = news[key]
            if before != news.get(key):
                yield key
        self._left += made.preempted
        self._took |= dict.fromkeys(made.room_takers, self._at_s)

    def forget(self, key: WorkloadKey) -> list[WorkloadKey]:
        """A workload is gone: it leaves for nobody, and nobody for it. Returns who is told nothing
        any more."""
        self._given.pop(key, None)
        self._took.pop(key, None)
        void = [other for other, (_, entry) in self._given.items() if entry.by == key]
        for other in void:
            del self._given[other]
        return void
