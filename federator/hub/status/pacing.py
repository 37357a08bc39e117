"""When the status of a workload has to wait: the host has refused the last one, or dispatch is
paused and others get their first status before.

During a pause a first status says that dispatch is paused, of each workload the same, and the first
decision replaces it. So these statuses have a rate, and nearly stand still while many workloads
come: one costs the host twice as much as the creation of a workload.
"""

import heapq
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federator.hub.cache.state import HubState
from federator.hub.records.workloads import Workload
from federator.kube import backoff
from federator.model.names import WorkloadKey

FIRST_S = 0.05
"""Seconds between two first statuses during a pause."""
BURST, BURST_S = 20, 1.0
"""It is a burst while so many workloads come within so many seconds."""
BURST_PACE = 0.1
"""First statuses during a burst, as a part of those at other times."""
BURST_LOOK_S = 0.5
"""A workload does not ask again sooner during a burst."""
NOW_S = 0.001
"""Sums of times are no more exact than that."""
LOOK_S = 60.0
"""A workload asks again so often whether an earlier turn has become free."""
REFUSED_BASE_S, REFUSED_CAP_S = 1.0, 15.0
"""First and longest wait, in seconds, after the host refused a status. Members' reports go on
changing it meanwhile, and each change would be refused again. Short, because no signal tells when a
webhook gives way."""


class FirstStatuses:
    """The turns of workloads that wait for their first status during a pause. Turns have a time of
    their own, which passes slowly during a burst."""

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._due_s: dict[WorkloadKey, float] = {}
        self._next_s = 0.0
        """When the first turn is that nobody has had."""
        self._free_s: list[float] = []
        """Earlier turns of workloads that have gone; a heap."""
        self._came_s: deque[float] = deque(maxlen=BURST)
        """When the last workloads came (monotonic)."""
        self._seen_s = 0.0
        """When the time of turns was read last (monotonic)."""
        self._time_s = 0.0
        """The time of turns then."""

    def wait_s(self, workload: Workload, live: Mapping[str, Any], now_s: float) -> float:
        """Seconds until a status of the workload may be written, or it asks again; 0 for one that
        is not its first, or says something else. `live`: what it has; `now_s` is monotonic."""
        if self._state.pause is None:
            self._due_s.clear()
            self._free_s.clear()
            self._came_s.clear()
            self._next_s = 0.0
            return 0.0
        if live or workload.problem or self._state.record_of(workload) is not None:
            self.forget(workload.key)
            return 0.0
        due_s = self._due_s.get(workload.key)
        if due_s is None:
            self._came_s.append(now_s)
        burst = len(self._came_s) == BURST and now_s - self._came_s[0] < BURST_S
        self._time_s += (now_s - self._seen_s) * (BURST_PACE if burst else 1.0)
        self._seen_s = now_s
        due_s = self._turn_s(workload.key, due_s)
        left_s = due_s - self._time_s
        if left_s < NOW_S:
            return 0.0
        return min(max(left_s, BURST_LOOK_S) if burst else left_s, LOOK_S)

    def _turn_s(self, key: WorkloadKey, due_s: float | None) -> float:
        """Its turn: `due_s`, or one that is free and earlier."""
        now_s = self._time_s
        while self._free_s and self._free_s[0] < now_s:
            heapq.heappop(self._free_s)
        if due_s is None:
            if not self._due_s:
                self._free_s.clear()
                self._next_s = min(self._next_s, now_s + FIRST_S)
            due_s = heapq.heappop(self._free_s) if self._free_s else max(now_s, self._next_s)
            self._next_s = max(self._next_s, due_s + FIRST_S)
        elif self._free_s and self._free_s[0] < due_s:
            due_s = heapq.heapreplace(self._free_s, due_s)
        self._due_s[key] = due_s
        return due_s

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone, or has a status."""
        due_s = self._due_s.pop(key, None)
        if due_s is not None:
            heapq.heappush(self._free_s, due_s)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A workload with a status that the host refused: in which version, how often in a row, and
    until when none is sent (monotonic)."""

    version: str
    times: int
    until_s: float


class RefusedStatuses:
    """Workloads with a last status that the host refused."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._refused: dict[WorkloadKey, _Refused] = {}

    def wait_s(self, workload: Workload, now_s: float) -> float:
        """Seconds before the next status may be sent, because the host refused the last one; 0 when
        somebody has changed the object since, which may have removed the cause."""
        refused = self._refused.get(workload.key)
        if refused is None or refused.version != workload.resource_version:
            self.forget(workload.key)
            return 0.0
        return refused.until_s - now_s

    def note(self, workload: Workload, now_s: float) -> None:
        """The host has refused its status."""
        before = self._refused.get(workload.key)
        times = before.times + 1 if before is not None else 1
        wait_s = backoff.delay(
            self._rng, times, base_s=REFUSED_BASE_S, cap_s=REFUSED_CAP_S, floor=0.5
        )
        self._refused[workload.key] = _Refused(workload.resource_version, times, now_s + wait_s)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone, or the host took a status."""
        self._refused.pop(key, None)
