"""The verdict on a submission: where its workloads would be placed now, behind what they would
wait, or why no cluster admits them and what change would.

The engine decides as in the leader's next cycle, preemption included. Nothing is charged or
reserved: a later cycle may decide otherwise because others came first.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from federator.advice import quotas, search, trials
from federator.advice.trials import Stop, never
from federator.api import raw
from federator.hub.placing.offline import Situation
from federator.hub.query.verdicts import VerdictMakers
from federator.hub.records.workloads import Workload
from federator.model import plaintext
from federator.model.ask import Ask
from federator.model.decision import REFUSALS, Decision, Reason
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.scheduling.queueing_hints import FOR_ROOM
from federator.scheduling.write_order import Decided

FIXES_TRIED: Final = 24
"""Changes that are tried for one refused workload: a caller waits for the answer."""
FIXES_MAX: Final = 3
"""Changes in an answer. As soon as so many place all copies, no more are tried."""
QUICK_TRIALS: Final = 16
"""Decisions about changes in a short first part: other questions wait meanwhile."""
Whole = Callable[[], Situation]
Narrow = Callable[[WorkloadKey], Situation]
"""The situation of one workload as its owner may know it: others are in it as sums only."""


class Answer(StrEnum):
    """The verdict on a workload. The last of those of a submission is its own."""

    PLACED = "placed"
    QUEUED = "queued"
    REFUSED = "refused"


def verdict(
    whole: Whole, keys: Sequence[WorkloadKey], narrow: Narrow, stop: Stop = never
) -> dict[str, Any]:
    """The verdict on some workloads, decided in one cycle. `whole` makes the situation with all
    workloads, which costs more. One workload is decided without it if all of its copies have room,
    or none would have a place in an empty fleet: no other workload changes that. Raises
    `trials.Stopped`."""
    rows: list[dict[str, Any]] = []
    narrow = functools.cache(narrow)
    situation = narrow(keys[0])
    if len(keys) == 1:
        rows = _rows(situation, keys, narrow, stop, final=_Judge.depends_on_no_other)
    if not rows:
        situation = whole()
        rows = _rows(situation, keys, narrow, stop)
    return _document(situation, rows)


def quick(
    situation: Situation,
    keys: Sequence[WorkloadKey],
    narrow: Narrow,
    stop: Stop = never,
    refusals: bool = False,
) -> dict[str, Any] | None:
    """The verdict, if one decision is enough: all copies have room, or with `refusals` one workload
    is refused, and few decisions find the changes that admit it. None if it takes more. `situation`
    has all of these workloads, and others as sums."""
    final = _Judge.depends_on_no_other if refusals else _Judge.has_all
    left = itertools.count(QUICK_TRIALS, -1)
    try:
        rows = _rows(situation, keys, narrow, lambda: stop() or next(left) <= 0, final=final)
    except trials.Stopped:
        return None
    return _document(situation, rows) if rows else None


def _document(situation: Situation, rows: list[dict[str, Any]]) -> dict[str, Any]:
    order = tuple(Answer)
    worst = max((Answer(row["verdict"]) for row in rows), key=order.index)
    return {
        "verdict": str(worst),
        "asOf": raw.rfc3339(situation.snapshot.as_of),
        "workloads": rows,
    }


def _rows(
    situation: Situation,
    keys: Sequence[WorkloadKey],
    narrow: Narrow,
    stop: Stop,
    *,
    final: "Callable[[_Judge, Workload, Ask | None], bool] | None" = None,
) -> list[dict[str, Any]]:
    """The verdict on each workload; nothing if one of them is not `final`."""
    workloads = [situation.workloads[key] for key in keys]
    asked = [(workload, situation.ask_of(workload)) for workload in workloads]
    entries = [
        situation.entry(workload, ask, situation.snapshot)
        for workload, ask in asked
        if ask is not None
    ]
    made = situation.decide(entries, situation.snapshot).decided if entries else ()
    decided = {each.entry.ask.key: each for each in made}
    judge = _Judge(situation, decided, narrow, stop)
    if final is not None and not all(final(judge, *each) for each in asked):
        return []
    return [judge.row(*each) for each in asked]


def _lacks(made: Decided) -> bool:
    """Whether the workload gets less than it asks for."""
    return trials.missing(made.entry.ask, made.decision, made.entry.standing.done) > 0


@dataclass(frozen=True, slots=True)
class _Judge:
    """What the verdicts on the workloads of one submission have in common."""

    situation: Situation
    decided: Mapping[WorkloadKey, Decided]
    narrow: Narrow
    stop: Stop
    _fit: dict[WorkloadKey, bool] = field(default_factory=dict)
    """Whether any copy has a place in an empty fleet."""

    def has_all(self, workload: Workload, ask: Ask | None) -> bool:
        """Whether the workload gets all that it asks for, without preemption: `situation` knows no
        other workload that might leave."""
        made = self.decided.get(workload.key)
        if ask is None or made is None or made.decision.reason in REFUSALS:
            return False
        if made.decision.shares and not _lacks(made):
            return True
        self._fits(workload, ask)  # what is remembered of it serves the next questions
        return False

    def depends_on_no_other(self, workload: Workload, ask: Ask | None) -> bool:
        """Whether the workload gets all that it asks for without preemption, or has no place in an
        empty fleet."""
        made = self.decided.get(workload.key)
        if ask is None or made is None or made.decision.reason in REFUSALS:
            return False
        if made.decision.shares:
            return not _lacks(made)
        return not (ask.suspended or self._fits(workload, ask))

    def _fits(self, workload: Workload, ask: Ask) -> bool:
        if workload.key not in self._fit:
            self._fit[workload.key] = _fits_an_empty_fleet(self.situation, workload, ask)
        return self._fit[workload.key]

    def row(self, workload: Workload, ask: Ask | None) -> dict[str, Any]:
        key = workload.key
        row: dict[str, Any] = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if ask is None:
            return row | _refused(Reason.MISCONFIGURED, workload.problem)
        made = self.decided[key]
        decision = made.decision
        if decision.reason in REFUSALS:
            return row | _refused(decision.reason, decision.message)
        missing = trials.missing(ask, decision, made.entry.standing.done)
        shares = {share.cluster: copies_of(share) for share in decision.shares}
        row |= {
            "desired": ask.slots,
            "placed": max(ask.slots - missing, 0),
            "missing": missing,
            "clusters": [{"name": name, "copies": count} for name, count in sorted(shares.items())],
            "reason": str(decision.reason),
            "message": decision.message,
        }
        if shares or not missing:
            return row | {"verdict": str(Answer.PLACED)}
        if ask.suspended or self._fits(workload, ask):
            return (
                row
                | {"verdict": str(Answer.QUEUED)}
                | _waits(self.narrow(key), key, decision.reason)
            )
        fixes = _fixes(self.narrow(key), key, decision, missing, self.stop)
        return row | {"verdict": str(Answer.REFUSED), "fixes": fixes}


def _refused(reason: Reason, message: str) -> dict[str, Any]:
    return {"verdict": str(Answer.REFUSED), "reason": str(reason), "message": message, "fixes": []}


def _fits_an_empty_fleet(situation: Situation, workload: Workload, ask: Ask) -> bool:
    """Whether any copy would have a place if no other workload held anything: then it waits, and is
    not refused."""
    alone = replace(
        situation,
        workloads={workload.key: workload},
        records={},
        commitments=situation.empty.commitments,
        for_room=(),
    )
    snapshot = situation.empty.of(situation.snapshot)
    return bool(trials.decided(alone, workload, ask, snapshot).shares)


def _waits(situation: Situation, key: WorkloadKey, why: Reason) -> dict[str, Any]:
    """Its position in the queue and, if it waits for room, when it may be expected to start. The
    queue takes what nothing is decided about for work that waits for room, so `why` says it."""
    for position, waiter in quotas.queue(situation, starts_too=why in FOR_ROOM):
        if waiter.ask.key != key:
            continue
        place: dict[str, Any] = {"position": position, "ahead": position - 1}
        if waiter.expected is not None:
            low_s, high_s = waiter.expected.low_s, waiter.expected.high_s
            place |= {"from": plaintext.moment(low_s), "to": plaintext.moment(high_s)}
        return {"queue": place}
    return {}


def _fixes(
    situation: Situation, key: WorkloadKey, decision: Decision, missing: int, stop: Stop
) -> list[dict[str, Any]]:
    """Changes after which the engine would admit it, the best first."""
    advice = search.advise(
        situation, key, decision, missing, stop, singles=FIXES_TRIED, enough=FIXES_MAX
    )
    return [
        {"change": fix.text, "commands": list(fix.commands), "byOperator": fix.by_operator}
        for fix in advice.fixes[:FIXES_MAX]
    ]


VERDICT: Final = VerdictMakers(verdict, quick)
