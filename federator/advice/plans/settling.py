"""Where a fleet settles after edits: the scheduling cycle of the hub, again and again, until no
decision changes any more. Nothing is charged to the situation that is given.

Between two cycles every member is taken to report what arrived and what left. Moves are not paced,
nobody is given notice, and roll-outs end: `pacing` says how long that takes. What is due follows
from the same rule as in the hub (`scheduling.due`).
"""

import functools
import itertools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from federator.advice.plans import edits as editing
from federator.advice.plans import reports
from federator.advice.plans.edits import Edited
from federator.advice.trials import Stop, Stopped, never
from federator.api.placement import decidedfacts
from federator.hub.placing import move_budget, standing
from federator.hub.placing.offline import Situation
from federator.hub.records import decisions
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.ask import Ask, PodShape
from federator.model.decision import Decision, Reason
from federator.model.fleet import (
    Capacity,
    ClusterView,
    Commitment,
    FleetSnapshot,
    Views,
)
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.placement import inputs
from federator.placement.room import trails
from federator.placement.room.commitments import Commitments
from federator.placement.selection.leaving import OVERDUE, Allowance
from federator.scheduling import cycle
from federator.scheduling import due as due_rule
from federator.scheduling.entry import Entry
from federator.scheduling.queue import Queue
from federator.scheduling.write_order import Decided

ROUNDS_MAX: Final = 24
"""Cycles at most. A fleet settles after a few; what does not by then is reported as unsettled."""
CAUSE: Final = "planned"
_compared_parts = operator.attrgetter(
    *(each.name for each in fields(Ask) if each.name != "project_bound")
)
Moved = dict[str, int]
"""Copies by the budget under which they move: the name of a Required policy, `leaving.EVACUATION`,
or "" for the workload's own policy."""


@dataclass(slots=True)
class Settled:
    """The fleet once nothing changes any more."""

    situation: Situation
    """With the decisions that are in force then, and what they charge."""
    decisions: dict[WorkloadKey, Decision]
    """The last new decision of each workload that got one."""
    failed: dict[WorkloadKey, str]
    """Workloads that could not be decided because of an error, and which."""
    moved: dict[WorkloadKey, Moved]
    """Moved copies of each workload, by budget."""
    rounds: int
    unsettled: bool = False
    """It was still changing after `ROUNDS_MAX` cycles."""


@dataclass(frozen=True, slots=True)
class Base:
    """The fleet before the edits, once nothing changes any more."""

    situation: Situation
    stands: frozenset[WorkloadKey]
    """Workloads of which the decision at present stands."""


def undecided(present: Situation) -> list[WorkloadKey]:
    """The workloads without a decision that could get one, in order."""
    return sorted(
        key
        for key, workload in present.workloads.items()
        if key not in present.records
        and not workload.deleting
        and (ask := present.ask_of(workload)) is not None
        and not ask.suspended
    )


def unedited(present: Situation, stop: Stop = never) -> Base:
    """Where the fleet settles without any edit: what is still to be decided is no effect of an
    edit. The situation itself where nothing is. Raises `Stopped`."""
    known = present.stands & present.workloads.keys()
    run = _Run(present, editing.unedited(present), stop, unconcerned=known)
    run.until_settled()
    stands = known | run.stands
    if not run.decided:
        return Base(present, stands)
    return Base(run.situation(), stands - run.decided.keys())


def settle(base: Base, edited: Edited, stop: Stop = never) -> Settled:
    """Where the fleet settles after the edits. Raises `Stopped` once `stop` returns True."""
    run = _Run(base.situation, edited, stop, unconcerned=unconcerned(base, edited))
    run.until_settled()
    return Settled(
        run.situation(),
        run.decided,
        run.failed,
        run.moved,
        run.rounds,
        unsettled=run.rounds >= ROUNDS_MAX,
    )


def unconcerned(base: Base, edited: Edited) -> frozenset[WorkloadKey]:
    """The workloads of which the decision stands after the edits because nothing differs that it is
    compared with: the workload, its ask, the clusters, and what says whether it may run."""
    before, after = base.situation, edited.situation
    beside = _Beside(before.snapshot, after.snapshot)
    same_rights = (
        after.snapshot.quotas is before.snapshot.quotas
        and after.snapshot.levels is before.snapshot.levels
    )
    same_workloads = not (edited.edited or edited.deleted) and len(after.workloads) == len(
        before.workloads
    )
    return frozenset(
        key
        for key in base.stands
        if (workload := after.workloads.get(key)) is not None
        and workload is before.workloads.get(key)
        and (ask := after.ask_of(workload)) is not None
        and (edited.same_asks or _same(ask, before.ask_of(workload)))
        and ((same_workloads and same_rights) or not ask.privileges.hosts)
        and (same_rights or after.refusal(ask, after.snapshot) is None)
        and beside.same_clusters(ask, before.records[key])
    )


def _same(ask: Ask, before: Ask | None) -> bool:
    """Whether a decision is compared with the same ask. Whether a quota binds the project to the
    namespace counts only where something new is placed."""
    if ask is before:
        return True
    return before is not None and _compared_parts(ask) == _compared_parts(before)


@dataclass(slots=True)
class _Beside:
    """The clusters before and after the edits."""

    before: FleetSnapshot
    after: FleetSnapshot
    _same_fleet: dict[int, tuple[Policy, bool]] = field(default_factory=dict)
    """By policy, which is kept so that its id stays its own."""
    _memos: tuple[dict[Any, Any], dict[Any, Any]] = field(default_factory=lambda: ({}, {}))
    _left: frozenset[str] = frozenset()
    """Clusters that copies leave, or have left."""

    def __post_init__(self) -> None:
        there = self.after.clusters
        staying = {name for name, view in there.items() if not view.empties}
        self._left = frozenset({*self.before.clusters, *there} - staying)

    def same_clusters(self, ask: Ask, record: Record) -> bool:
        """Whether the decision is compared with the same clusters, and leaves none of them."""
        if self.after.clusters is self.before.clusters:
            return True
        if any(portion.cluster in self._left for portion in record.facts.portions):
            return False
        policy = ask.policy
        kept = self._same_fleet.get(id(policy))
        if kept is None:
            was, now = (
                inputs.texts(ask, snapshot, memo)[1]
                for snapshot, memo in zip((self.before, self.after), self._memos, strict=True)
            )
            kept = self._same_fleet[id(policy)] = policy, was == now
        return kept[1]


@dataclass(slots=True)
class _Charges:
    """What all workloads hold, and what clusters report of it, while a run goes on."""

    commitments: Commitments
    charged: dict[WorkloadKey, Record | None] = field(default_factory=dict)
    """The workloads that are charged otherwise than at present, and by which decision."""
    leaving: dict[str, dict[PodShape, int]] = field(default_factory=dict)
    """Cluster -> what its report includes of copies that have left."""
    replacing: dict[str, dict[PodShape, int]] = field(default_factory=dict)
    """Cluster -> copies with other requests that have replaced some of these, by a decision that
    its report includes."""
    _reports: dict[str, tuple[Capacity, Capacity]] = field(default_factory=dict)
    """Cluster -> (its report, the same without these copies)."""

    def charge(
        self,
        key: WorkloadKey,
        record: Record | None,
        uid: str,
        after: Commitment | None,
        reported: Mapping[str, int],
    ) -> None:
        """Charges one workload for another decision than the present one. `reported`: cluster -> up
        to which decision its report includes copies."""
        made = self.commitments
        before = made.commitment(uid)
        had, has = trails.steps(before), trails.steps(after)
        flying = any(step[0] > reported.get(name, -1) for name, step in had.items())
        if flying or after is None:
            made.forget(uid)
        if after is not None:
            made.record(after)
        for name, (seq, shape, copies) in had.items():
            step = has.get(name)
            same = step is not None and step[0] == seq
            if seq > reported.get(name, -1) or (same and step is not None and step[1] == shape):
                continue
            if same and step is not None:
                _add(self.replacing, name, step[1], step[2])
            stays = step[2] if step is not None and step[1] == shape and not flying else 0
            if copies > stays:
                _add(self.leaving, name, shape, copies - stays)
            self._reports.pop(name, None)
        self.charged[key] = record

    def views(self, snapshot: FleetSnapshot) -> dict[str, ClusterView]:
        """The clusters as they report once the copies that leave have ended."""
        views = dict(snapshot.clusters)
        for name, copies in self.leaving.items():
            view = views.get(name)
            if view is None or view.capacity is None:
                continue
            last = self._reports.get(name)
            if last is None or last[0] is not view.capacity:
                after = reports.without(view.capacity, copies)
                last = view.capacity, reports.with_more(after, self.replacing.get(name, {}))
                self._reports[name] = last
            views[name] = replace(view, capacity=last[1])
        return views


def _add(
    counts: dict[str, dict[PodShape, int]], cluster: str, shape: PodShape, copies: int
) -> None:
    there = counts.setdefault(cluster, {})
    there[shape] = there.get(shape, 0) + copies


@dataclass(slots=True)
class _Run:
    """One settling. `changed` has what was decided otherwise than at present."""

    present: Situation
    edited: Edited
    stop: Stop
    unconcerned: frozenset[WorkloadKey] = frozenset()
    """Workloads of which the decision stands until something moves: they are not compared."""
    stands: set[WorkloadKey] = field(default_factory=set)
    """Workloads of which the decision stood when all were looked at."""
    records: dict[WorkloadKey, Record] = field(default_factory=dict)
    changed: set[WorkloadKey] = field(default_factory=set)
    decided: dict[WorkloadKey, Decision] = field(default_factory=dict)
    failed: dict[WorkloadKey, str] = field(default_factory=dict)
    moved: dict[WorkloadKey, Moved] = field(default_factory=dict)
    rounds: int = 0
    rolled_out: bool = False
    """The copies of edited workloads are all as they are asked for now."""
    _open: frozenset[WorkloadKey] = frozenset()
    """Workloads of which the decision did not stand when all were looked at."""
    _charges: "_Charges | None" = None
    """What the decisions until then charge."""
    _queue: Queue = field(default_factory=Queue)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _caps: dict[WorkloadKey, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        after = self.edited.situation
        after.bindings()  # once, and not for each situation that is made of it
        if any(account.notice_s for account in after.snapshot.quotas):
            after.change_quotas(replace(account, notice_s=0) for account in after.snapshot.quotas)
        self.records = {
            key: record
            for key, record in after.records.items()
            if key not in self.edited.deleted and key in after.workloads
        }
        highest = max((record.seq for record in self.present.records.values()), default=0)
        for view in after.snapshot.clusters.values():
            if view.capacity is not None:
                highest = max(highest, view.capacity.includes_seq)
        self._numbers = itertools.count(highest + 1)

    def until_settled(self) -> None:
        """Cycles until nothing changes any more, once more when roll-outs have ended, and again
        when that leaves room for a drain that waited for it."""
        self.until_quiet(first=True)
        self.rolled_out = True
        self.until_quiet(first=False)
        while self._begins_drain():
            self.unconcerned = frozenset()
            self.until_quiet(first=True)

    def _begins_drain(self) -> bool:
        """Begins the first of the waiting drains that leaves no copy without a place now. The hub
        looks every few seconds while a drain waits."""
        views = self.edited.situation.snapshot.clusters
        waiting = [name for name, view in sorted(views.items()) if view.drain_waits]
        if not waiting or self.rounds >= ROUNDS_MAX:
            return False
        situation = self.situation()
        for name in waiting:
            if not editing.begin_drain(self.edited, situation, name):
                self.edited.warnings.append(
                    f"MemberCluster/{name}: its drain begins, because every copy has another place"
                    " then"
                )
                return True
        return False

    def until_quiet(self, *, first: bool) -> None:
        """Cycles until one changes nothing. `first`: everything is looked at; later what waits or
        moves, or was edited."""
        while self.rounds < ROUNDS_MAX:
            if self.stop():
                raise Stopped
            situation = self.situation()
            entries = list(self._due(situation, first=first))
            if not entries:
                return
            self.rounds += 1
            first = False
            if not self._cycle(entries, situation):
                return

    def situation(self) -> Situation:
        """The fleet as it is now in the plan: decisions in force, what they charge, and what
        members report."""
        after = self.edited.situation
        charges = self._charged(after.snapshot)
        return replace(
            after,
            snapshot=replace(after.snapshot, clusters=Views(charges.views(after.snapshot))),
            records=self.records,
            commitments=charges.commitments,
            _claims=None,
        )

    def _charged(self, snapshot: FleetSnapshot) -> "_Charges":
        """What all workloads hold now: of those since the last time what is new. A workload that
        changes once more is charged from the present again, and all others with it."""
        charges = self._charges
        changed = {
            key: self.records.get(key)
            for key in sorted({*self.changed, *self.edited.deleted})
            if charges is None
            or key not in charges.charged
            or charges.charged[key] is not self.records.get(key)
        }
        if charges is not None and not changed.keys().isdisjoint(charges.charged):
            charges, self._charges = None, None
            return self._charged(snapshot)
        if charges is None:
            charges = self._charges = _Charges(self.present.commitments.copy())
        reported = {
            name: view.capacity.includes_seq
            for name, view in snapshot.clusters.items()
            if view.capacity is not None
        }
        for key, record in changed.items():
            after = self._commitment(key, record) if record is not None else None
            charges.charge(key, record, self._uid_of(key), after, reported)
        return charges

    def _uid_of(self, key: WorkloadKey) -> str:
        workload = self.edited.situation.workloads.get(key) or self.present.workloads.get(key)
        assert workload is not None
        return workload.uid

    def _commitment(self, key: WorkloadKey, record: Record) -> Commitment | None:
        workload = self.edited.situation.workloads.get(key)
        return record.commitment(workload.ask if workload is not None else None)

    # -- what is due ----------------------------------------------------------

    def _due(self, situation: Situation, *, first: bool) -> Iterator[Entry]:
        memo: dict[Any, Any] = {}
        looked = frozenset() if first else self._restless()
        for key, workload in situation.workloads.items():
            if key in self.unconcerned if first else key not in looked:
                continue
            record = self.records.get(key)
            if not first and not self._may_change(key, record):
                continue
            ask = situation.ask_of(workload)
            if ask is None or ask.suspended or key in self.failed or workload.deleting:
                continue
            if first or key in self.edited.edited:
                refused = situation.refusal(ask, situation.snapshot) is not None
                waits = key in self._queue
                now = standing.compared(
                    situation.snapshot, ask, record, memo, refused=refused, inadmissible=waits
                )
                if due_rule.is_settled(now):
                    self.stands.add(key)
                    continue
            yield self._entry(situation, workload, ask)
        if first:
            unlike = situation.workloads.keys() - self.unconcerned - self.stands
            self._open = frozenset(unlike)

    def _restless(self) -> frozenset[WorkloadKey]:
        """Workloads that may have to be looked at again; the decisions of all others stand."""
        return self._open.union(self.changed, self._queue.keys(), self.edited.edited)

    def _may_change(self, key: WorkloadKey, record: Record | None) -> bool:
        """Whether something that a later report says could change its decision."""
        if key in self._queue or record is None:
            return True
        terms = record.terms
        return (
            (self.rolled_out and key in self.edited.edited)
            or terms.reason is not Reason.CHOSEN
            or terms.held_back > 0
            or terms.to_move > 0
        )

    def _entry(self, situation: Situation, workload: Workload, ask: Ask) -> Entry:
        """As the hub makes it, with no budget on moves but that of a Lazy policy, which none
        lifts."""
        key, record = workload.key, self.records.get(workload.key)
        entry = situation.entry(workload, ask, situation.snapshot)
        if key not in self._caps:
            edited = key in self.edited.edited
            self._caps[key] = {} if edited else entry.standing.capped
        replaced = self.rolled_out or key not in self.edited.edited
        own = replace(entry.standing, capped=self._caps[key], replaced=replaced)
        return replace(entry, standing=own, leave=functools.partial(self._leave, ask, record))

    def _leave(
        self, ask: Ask, record: Record | None, moving: int, forced: Mapping[str, int]
    ) -> Allowance:
        """All that may ever move, recorded by budget."""
        policy, own = ask.policy, moving - sum(forced.values())
        if move_budget.is_held(policy, record):
            own = 0
        own += forced.get(OVERDUE, 0)  # at the pace of its own policy, which may be Lazy
        taken = {name: copies for name, copies in forced.items() if copies and name != OVERDUE}
        taken |= {"": own} if own > 0 else {}
        there = self.moved.setdefault(ask.key, {})
        for name, copies in taken.items():
            there[name] = there.get(name, 0) + copies
        then = " when somebody asks for it: federator rebalance" if own < moving else ""
        return Allowance(sum(taken.values()), then)

    # -- one cycle ------------------------------------------------------------

    def _cycle(self, entries: list[Entry], situation: Situation) -> bool:
        """One cycle. Returns whether any decision changed."""

        def other(key: WorkloadKey) -> Entry | None:
            workload = situation.workloads.get(key)
            ask = situation.ask_of(workload) if workload is not None else None
            if workload is None or ask is None:
                return None
            return self._entry(situation, workload, ask)

        made = cycle.run(
            entries,
            self._queue,
            situation.with_peers(situation.snapshot),
            situation.commitments,
            seq=self._numbers.__next__,
            find=other,
        )
        for key, bug in made.failed.items():
            self.failed[key] = f"it cannot be decided: {bug}"
        changes = [self._take(decided, situation) for decided in made.decided]
        self._queue.settle(
            made.keys, made.inadmissible, made.reservations, made.claims, made.room_claims
        )
        return any(changes)

    def _take(self, decided: Decided, situation: Situation) -> bool:
        """Puts a decision in force. Returns whether it says anything new."""
        decision, key = decided.decision, decided.key
        before = self.records.get(key)
        if before is not None and decisions.says(before, decision):
            charges_less = self.rolled_out and standing.frees(before, decided.entry.charged)
            if decision.held_back or not charges_less:
                return False
        self.records[key] = _record(decided, situation.workloads[key], before)
        self.changed.add(key)
        self.decided[key] = decision
        return True


def _record(decided: Decided, workload: Workload, before: Record | None) -> Record:
    """The decision as the hub would read it after it was written."""
    decision, charged = decided.decision, decided.entry.charged
    generation = (decision.under or charged).generation
    was = before.terms.charged if before is not None else None
    if was is not None and generation == was.generation:
        content = was.content
    else:
        content = workload.content if generation == workload.generation else b""
    name = before.name if before is not None else decisions.name_of(decision.key, decision.uid)
    facts = decidedfacts.of(decision, charged, CAUSE, name=name, content=content)
    if before is None:
        return decisions.unsigned(facts)
    unfinished = decision.to_move or decision.held
    rebalanced = before.terms.rebalanced if unfinished else before.rebalance
    facts = decidedfacts.in_object(facts, before.uid, rebalanced)
    return decisions.unsigned(facts, before.rebalance)
