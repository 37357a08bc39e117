"""Failback: copies go back to a cluster that they left because it was lost, once it has been well
for a time, at the pace of all evacuations, and only when that is worth the move.

Worth it is what the scheduling cycle says: divided as if nothing ran yet, by the order and the
scores of its policy, the workload would have more there than it has. Decisions on the host record
which clusters a workload left (`failovers`); job sets do not come back, because a moved shard
starts again.
"""

import itertools
from collections.abc import Collection, Sequence
from typing import Final

from federator.hub.evacuation.governing import Governing
from federator.hub.host.controller import Controller, Tools
from federator.hub.placing.placer import Placing
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.ask import Ask, Unit
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.scheduling import evacuation
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import Evacuation, Moved, Occupant

LOOKED_AT: Final = 32
"""Workloads for which a return is rehearsed in one turn."""
WRITTEN_S: Final = 60.0
"""A decision that was made is on the host by then, or was not written."""
AGAIN_S: Final = 600.0
"""A return that is not worth it, or has no room, is looked at again after this."""


class Returning(Controller):
    """The workloads that are away from home, and those that may go back now."""

    def __init__(self, tools: Tools, placing: Placing, governing: Governing) -> None:
        super().__init__(tools)
        self.placing = placing
        self.governing = governing
        self.away: dict[WorkloadKey, float] = {}
        """Workloads with a decision that records a cluster that copies left, or soon will, and
        since when that is so."""
        self._stays: dict[WorkloadKey, float] = {}
        """Workloads for which a return was not worth it, and when it is looked at again."""
        self._sent: set[WorkloadKey] = set()
        """Workloads that have a turn to go back and have not used it."""

    def begin(self) -> None:
        """A term begins: decisions say which workloads are away."""
        self._stays.clear()
        self._sent.clear()
        now_s = self.clock.monotonic()
        self.away = {
            record.key: now_s
            for record in self.state.records.values()
            if any(left.copies for left in record.terms.failovers)
        }

    def turns(
        self,
        a_minute: int,
        given: Sequence[Moved],
        now_s: float,
        busy: Collection[WorkloadKey],
    ) -> tuple[Evacuation, ...]:
        """Gives turns to those that may go back now."""
        homes: dict[WorkloadKey, str] = {}
        occupants: list[Occupant] = []
        for key in sorted(self.away):
            if len(occupants) >= LOOKED_AT:
                break
            if key in busy or self._stays.get(key, 0.0) > now_s:
                continue
            if (candidate := self._candidate(key, now_s)) is not None:
                homes[key], occupant = candidate
                occupants.append(occupant)
        paced = evacuation.pace(occupants, a_minute, given, now_s)
        for turn in paced.turns:
            self._sent.add(turn.key)
            self.placing.moves.send_home(turn.key, homes[turn.key], turn.copies)
        return paced.turns

    def stays(self, key: WorkloadKey) -> bool:
        """A turn was not used: if it was one to go back, it is not given again for a while."""
        if key not in self._sent:
            return False
        self._sent.discard(key)
        self._stays[key] = self.clock.monotonic() + AGAIN_S
        return True

    def moved(self, key: WorkloadKey) -> None:
        """A turn of this workload was used."""
        self._sent.discard(key)
        self.away[key] = self.clock.monotonic()

    def is_sent(self, key: WorkloadKey) -> bool:
        """Whether it has a turn to go back."""
        return key in self._sent

    def _candidate(self, key: WorkloadKey, now_s: float) -> tuple[str, Occupant] | None:
        workload = self.state.workloads.get(key)
        record = self.state.record_of(workload) if workload is not None else None
        if workload is None or record is None or not record.terms.failovers:
            if now_s - self.away[key] > WRITTEN_S:
                del self.away[key]
                self.governing.forget(key)
            return None
        ask = self.placing.asked(workload)
        if ask is None or ask.suspended or ask.unit is not Unit.REPLICAS:
            return None
        if not all(self._answers(name) for name in record.clusters):
            return None  # divided anew, it would leave a silent cluster before its time
        for left in reversed(record.terms.failovers):
            if not left.copies:
                continue
            if not self.governing.may_return(ask.policy.failover, key, left.cluster):
                continue
            gains = self._gains(workload, record, ask, left.cluster)
            if gains > 0:
                copies = min(gains, left.copies)
                return left.cluster, _occupant(record, ask, copies)
            self._stays[key] = now_s + AGAIN_S
        return None

    def _answers(self, name: str) -> bool:
        member = self.state.members.get(name)
        return member is not None and member.answers

    def _gains(self, workload: Workload, record: Record, ask: Ask, home: str) -> int:
        """Copies that the cluster would have more if the workload were divided anew."""
        standing = self.placing.as_now(workload)
        refused = self.state.refusal(workload)
        if refused is not None:
            return 0
        numbers = itertools.count(self.state.issued + 1)
        decided = evacuation.anew(
            Entry(ask=ask, standing=standing, anew=True),
            self.state.snapshot(self.clock),
            self.state.commitments,
            numbers.__next__,
        )
        if decided is None or decided.shortfall > record.terms.shortfall:
            return 0
        after = next((copies_of(share) for share in decided.shares if share.cluster == home), 0)
        before = record.share_of(home)
        return after - (copies_of(before) if before is not None else 0)


def _occupant(record: Record, ask: Ask, copies: int) -> Occupant:
    return Occupant(
        key=record.key,
        tier=ask.tier,
        priority=ask.priority,
        copies=copies,
        wanted=sum(copies_of(share) for share in record.shares),
    )
