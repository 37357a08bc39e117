"""Workloads that received notice of preemption, and the number of copies preempted in the last
minute.

Notices are kept in memory. A new leader gives notice again, so that no workload has less time than
its notice states. It reads the former leader's preemptions of the last minute in the decisions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from federator.hub.options import HubOptions
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.ask import Disruptions
from federator.model.names import WorkloadKey
from federator.scheduling.admission import budgets, notice
from federator.scheduling.admission.budgets import Budgets, Gone
from federator.scheduling.admission.notice import NoticesGiven, Pace
from federator.scheduling.cycle import Cycle
from federator.scheduling.entry import Noticed

MINUTE_S: Final = 60.0


@dataclass(slots=True)
class Notices:
    """Changed by placing only."""

    _given: NoticesGiven = field(default_factory=NoticesGiven)
    _gone: list[tuple[float, str, str, int]] = field(default_factory=list)
    """(when, uid, cluster, copies) of those with a disruption budget that left in the last minute;
    in monotonic seconds, oldest first."""
    _left: float = 0.0
    """Copies that were told to leave and still count for the pace."""
    _at_s: float = 0.0
    """When that was reckoned, in monotonic seconds."""

    def begin(self, records: Iterable[Record], now_s: float, wall_s: float) -> None:
        """A term begins: copies that decisions of the last minute say were preempted count, under
        any leader. A decision tells neither when each copy left nor from where, so more may count
        than left in that minute, and in each cluster; never less. `now_s`: monotonic seconds.
        `wall_s`: epoch seconds."""
        self._left, self._at_s, self._gone = 0.0, now_s, []
        for record in records:
            gone, ago_s = record.terms.preempted, max(wall_s - record.facts.as_of, 0.0)
            if gone is None or ago_s >= MINUTE_S:
                continue
            if notice.has_pace(record.terms.tier, gone.why):
                self._left += gone.copies
            self._gone += [
                (now_s - ago_s, record.workload_uid, share.cluster, gone.copies)
                for share in record.shares
            ]
        self._gone.sort()

    def of(self, workload: Workload) -> Noticed | None:
        return self._given.of(workload.key, workload.uid)

    def text(self, workload: Workload) -> str:
        """What a workload is told; "" for nothing."""
        noticed = self.of(workload)
        return notice.sentence(noticed) if noticed is not None else ""

    def pace(
        self,
        now_s: float,
        options: HubOptions,
        budget: Callable[[WorkloadKey], Disruptions | None],
    ) -> Pace:
        """How many copies may be told to leave now. `now_s`: monotonic seconds. `budget`: what a
        workload allows of its own."""
        a_minute = options.preempted_copies_a_minute
        self._left = max(self._left - (now_s - self._at_s) * a_minute / MINUTE_S, 0.0)
        self._at_s = now_s
        left = int(a_minute - self._left)
        next_s = MINUTE_S / a_minute if left > 0 else 1.0
        gone = self._lately(now_s)
        until_s = self._gone[0][0] + budgets.MINUTE_S - now_s if self._gone else budgets.MINUTE_S
        own = Budgets(budget, gone, until_s)
        return Pace(left, full=not self._left, next_s=next_s, budgets=own)

    def _lately(self, now_s: float) -> Gone:
        self._gone = [left for left in self._gone if now_s - left[0] < budgets.MINUTE_S]
        gone: dict[str, dict[str, int]] = {}
        for _, uid, cluster, copies in self._gone:
            there = gone.setdefault(uid, {})
            there[cluster] = there.get(cluster, 0) + copies
        return gone

    def settle(self, made: Cycle) -> list[WorkloadKey]:
        """Takes over what a cycle says. Returns those that are told something else now."""
        self._left += made.preempted
        self._gone += [(self._at_s, *left) for left in made.left]
        return self._given.settle(made.settled, made.notices)

    def forget(self, key: WorkloadKey) -> list[WorkloadKey]:
        """A workload is gone: it is neither a victim nor a preemptor any more. Returns the victims
        that lose their notice."""
        return self._given.forget(key)
