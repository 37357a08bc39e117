"""The works that wait, by what they have in common: which of them are worth a decision when
something changes.

A hint of the hub's queue names what may have improved. A few works are all decided on again, as in
the hub. Of many that are alike (but for name and age) only as many as the change can help; the
others would be refused as before. So thousands of jobs may wait, and the end of one costs no
decision on each of them. What differs from the hub then: those that are left out do not count for
the share of their project in the order of a cycle.
"""

import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.model.names import WorkloadKey
from federator.placement.quota.quota import BY_QUOTA
from federator.scheduling.entry import Entry
from federator.scheduling.queue import NO_ROOM, NOBODY, NOTHING, Queue
from federator.scheduling.queueing_hints import Hint, HintKind, Waiting, may_help
from federator.scheduling.waiting.reservations import Reservation
from federator.scheduling.waiting.room_claims import Claims
from federator.simulate.engine.running import Running

FEW: Final = 8
"""So many works are all decided on again."""
_Age = tuple[float, WorkloadKey]


@dataclass(slots=True)
class _Line:
    """Works that wait for the same."""

    ask: Ask
    """Of one of them. It is kept so that nothing else has the identity of its parts."""
    waiting: Waiting
    """Of one of them."""
    alike: bool
    """Whether what is known of one of them is known of all."""
    ages: list[_Age] = field(default_factory=list)
    """First come first."""
    opened: list[str] = field(default_factory=list)
    """Clusters where room has come, less some that have none for it any more."""
    news: int = 0
    """`Backlog._news` when these were looked up."""

    @property
    def by_quota(self) -> bool:
        return self.waiting.reason in BY_QUOTA


@dataclass(frozen=True, slots=True)
class Room:
    """What the backlog asks of the world. Both may answer with more than there is, never with
    less."""

    in_cluster: Callable[[str, Ask], int]
    """How many such works the free nodes of a cluster hold."""
    of_quota: Callable[[Ask], int]
    """How many such works quota admits."""
    judged_together: Callable[[str], bool]
    """Whether the works of a project are judged with each other, by a tree of accounts that says
    something of order, domains or preemption: then none is left out."""


class Backlog(Queue):
    """The inadmissible works of a simulation. It gives the same answers as the hub's queue, less
    those that are known to help nobody."""

    def __init__(self, live: Mapping[WorkloadKey, Running], room: Room) -> None:
        super().__init__()
        self._live = live
        self._room = room
        self._lines: dict[object, _Line] = {}
        self._of_kind: dict[object, object] = {}
        """What works that are alike have in common -> the last line that some of them joined."""
        self._place: dict[WorkloadKey, tuple[object, _Age]] = {}
        """Work -> its line, and its place there."""
        self._opened: set[str] = set()
        """Clusters where room has come since nothing was due."""
        self._news = 0
        """How often room has come."""
        self._sure = True
        """Whether nothing has changed since then but room and quota."""
        self.thinned = False
        """Whether works were left out since then."""

    def settle(
        self,
        decided: Iterable[WorkloadKey],
        inadmissible: Mapping[WorkloadKey, Waiting],
        reservations: Mapping[str, Reservation] = NOTHING,
        claims: Mapping[WorkloadKey, Entry] = NOBODY,
        room_claims: Claims = NO_ROOM,
    ) -> None:
        if not inadmissible and not self._inadmissible:
            self.reservations = reservations
            return
        super().settle(decided, inadmissible, reservations, claims, room_claims)
        for key, waiting in inadmissible.items():
            self._line_up(key, waiting)

    def forget(self, key: WorkloadKey) -> tuple[Hint, ...]:
        if self._place:
            self._leave(key)
        return super().forget(key)

    def requeued_by(self, *hints: Hint) -> list[WorkloadKey]:
        """The works that one of these hints may help, first come first."""
        for hint in hints:
            if hint.kind is HintKind.ROOM:
                self._opened.add(hint.cluster)
                self._news += 1
            elif hint.kind is HintKind.CLUSTER or not hint.projects:
                self._sure = False
        helped = [
            (line, helpful)
            for line in self._lines.values()
            if (helpful := [hint for hint in hints if may_help(hint, line.waiting)])
        ]
        many = sum(len(line.ages) for line, _ in helped) > FEW
        asked: list[_Age] = []
        for line, helpful in helped:
            most = self._most(line, helpful) if many and self._as_one(line) else None
            if most is not None and most < len(line.ages):
                self.thinned = True
                asked += line.ages[:most]
            else:
                asked += line.ages
        return [key for _, key in sorted(asked)]

    def joined(self, running: Running) -> bool:
        """Where many wait, a work that has just come waits beside others that are alike, if a
        decision on it would say what theirs said. Whether it does.
        """
        if len(self._inadmissible) <= FEW or running.work.recorded is not None:
            return False
        line = self._lines.get(self._of_kind.get(_kind(running.ask)))
        if line is None or not self._is_hopeless(line):
            return False
        key = running.ask.key
        self.settle([key], {key: replace(line.waiting, key=key)})
        return True

    def reason(self, key: WorkloadKey) -> Reason:
        """What a work in the backlog waits for."""
        return self._inadmissible[key].reason

    def hopeless(self, running: Running) -> bool:
        """Whether a decision on this work would say again what the last one said, whatever was
        given to others since it was asked for."""
        place = self._place.get(running.ask.key)
        return place is not None and self._is_hopeless(self._lines[place[0]])

    def _is_hopeless(self, line: _Line) -> bool:
        if line.waiting.by_workloads or not self._sure or not self._as_one(line):
            return False
        if line.by_quota:
            return self._room.of_quota(line.ask) == 0
        if line.news != self._news:
            within = line.waiting.clusters
            line.opened = [name for name in self._opened if within is None or name in within]
            line.news = self._news
        # until room comes there is only less: what is full is not asked again
        while line.opened and not self._room.in_cluster(line.opened[-1], line.ask):
            line.opened.pop()
        return not line.opened

    def at_rest(self) -> None:
        """Nothing is due any more: a work that waits now waits for what comes."""
        self._opened.clear()
        self._news += 1
        self._sure = True
        self.thinned = False

    def _as_one(self, line: _Line) -> bool:
        return line.alike and not self._room.judged_together(line.ask.project)

    def _most(self, line: _Line, helpful: Iterable[Hint]) -> int | None:
        """How many works of the line these hints can help at most; None for all."""
        most = 0
        for hint in helpful:
            if hint.kind is HintKind.ROOM:
                most += self._room.in_cluster(hint.cluster, line.ask)
            elif hint.kind is HintKind.CLUSTER or not hint.projects or not line.by_quota:
                return None
            else:
                most += self._room.of_quota(line.ask)
        return most

    def _line_up(self, key: WorkloadKey, waiting: Waiting) -> None:
        running = self._live[key]
        likeness = _likeness(running, waiting)
        if likeness != key:
            self._of_kind[_kind(running.ask)] = likeness
        before = self._place.get(key)
        if before is not None and before[0] == likeness:
            return
        self._leave(key)
        line = self._lines.get(likeness)
        if line is None:
            line = self._lines[likeness] = _Line(running.ask, waiting, alike=likeness != key)
        age = (running.ask.created_s, key)
        bisect.insort(line.ages, age)
        self._place[key] = (likeness, age)

    def _leave(self, key: WorkloadKey) -> None:
        place = self._place.pop(key, None)
        if place is None:
            return
        likeness, age = place
        line = self._lines[likeness]
        del line.ages[bisect.bisect_left(line.ages, age)]
        if not line.ages:
            del self._lines[likeness]


def _likeness(running: Running, waiting: Waiting) -> object:
    """What works have in common of which one can stand for the other. A work stands for itself if
    it was recorded, holds something, was scaled, or had to leave.
    """
    ask, decision = running.ask, running.decision
    if (
        running.work.recorded is not None
        or running.shares
        or running.scalings
        or (decision is not None and decision.preempted is not None)
    ):
        return ask.key
    return (_kind(ask), waiting.reason, waiting.clusters)


def _kind(ask: Ask) -> object:
    """All that a decision reads of an ask for which nothing was decided yet, but name and age."""
    return (
        id(ask.policy),
        id(ask.shape),
        ask.count,
        ask.whole,
        ask.key.kind,
        ask.key.namespace,
        ask.project,
        ask.tier,
        ask.priority,
    )
