"""Clusters that are drained in a simulation: which works have a turn to leave, by the function that
the hub asks.

Copies are ready as soon as they are bound here, so nothing is under way. Job sets run on for as
long as a drain lets them by default.
"""

import functools
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from federator.api.membercluster import DRAIN_JOBS_FINISH_S
from federator.model.names import WorkloadKey
from federator.placement.selection.leaving import EVACUATION, Allowance
from federator.scheduling import evacuation
from federator.scheduling.evacuation import Moved, Occupant

if TYPE_CHECKING:
    from federator.simulate.engine.running import Running

A_MINUTE: Final = 300
"""Copies that get another place in a minute: the hub's default `evacuated_copies_a_minute`."""


class Drains:
    """The clusters that are being drained, and the turns that were given."""

    def __init__(self) -> None:
        self.since_s: dict[str, int] = {}
        """Cluster -> when its drain began."""
        self.next_s: int | None = None
        """When somebody may have a turn that has none now; None when only another change can help.
        """
        self._history: deque[Moved] = deque()
        self._granted: dict[WorkloadKey, int] = {}

    @property
    def waits(self) -> bool:
        """Whether clusters are drained, or were when turns were given last."""
        return bool(self.since_s) or self.next_s is not None

    def give(self, live: Mapping[WorkloadKey, "Running"], now_s: int) -> list[WorkloadKey]:
        """The works that may leave now."""
        self.next_s = None
        self._granted.clear()
        if not self.since_s:
            return []
        while self._history and self._history[0].at_s <= now_s - evacuation.MINUTE_S:
            self._history.popleft()
        paced = evacuation.pace(
            (
                self._occupant(running, now_s)
                for running in live.values()
                if not self.since_s.keys().isdisjoint(running.places)
            ),
            A_MINUTE,
            self._history,
            now_s,
        )
        self._granted = {turn.key: turn.copies for turn in paced.turns}
        if any(not waits.stays for waits in paced.waits):
            self._look_at(now_s + int(evacuation.PORTION_S))
        return list(self._granted)

    def _occupant(self, running: "Running", now_s: int) -> Occupant:
        here = [name for name in running.places if name in self.since_s]
        until_s = max((self.since_s[name] + DRAIN_JOBS_FINISH_S for name in here), default=0)
        stays = (
            "its shards may run on"
            if running.is_job and running.running and until_s > now_s
            else ""
        )
        if stays:
            self._look_at(until_s)
        return Occupant(
            key=running.ask.key,
            tier=running.ask.tier,
            priority=running.ask.priority,
            copies=sum(running.copies(name) + running.pending.get(name, 0) for name in here),
            ready=running.ask.slots - running.missing,
            wanted=running.ask.slots,
            whole=running.is_job,
            stays=stays,
        )

    def _look_at(self, at_s: int) -> None:
        self.next_s = at_s if self.next_s is None else min(self.next_s, at_s)

    def allowance(
        self, key: WorkloadKey, now_s: int, moving: int, forced: Mapping[str, int]
    ) -> Allowance:
        """How many copies may move: all that an edit moves, and of those that leave drained
        clusters what has a turn.
        """
        leaving = forced.get(EVACUATION, 0)
        turn = min(self._granted.pop(key, 0), leaving)
        if turn:
            self._history.append(Moved(now_s, turn))
            self._look_at(now_s + int(evacuation.PORTION_S))
        return Allowance(moving - leaving + turn)

    def turn(self, key: WorkloadKey) -> int | None:
        """How many copies may leave drained clusters now; None while nothing is drained."""
        return self._granted.get(key, 0) if self.since_s else None

    def leave(self, key: WorkloadKey, now_s: int) -> "functools.partial[Allowance] | None":
        """What the engine asks before copies move; None while nothing is drained."""
        return functools.partial(self.allowance, key, now_s) if self.since_s else None
