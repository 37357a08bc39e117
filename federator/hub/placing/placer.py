"""Placing: takes a batch of keys, runs one scheduling cycle over them, and writes its decisions.

Batches are decided one at a time, because room and quota are shared. The decisions of a batch are
charged before the next batch is decided, so that several batches may be written concurrently. The
cycle decides; this module collects its inputs and writes what changed, with a version check. After
a conflict the key is queued again. A decision is on the host before any member gets it.
"""

import asyncio
import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from federator.api.placement import placementdecision
from federator.hub.cache import policying, profile_versions, progress, restored, rollout_view
from federator.hub.cache.router import Changed, MemberTurn, SliceTurn
from federator.hub.host import decision_writer
from federator.hub.host.controller import Controller, Tools
from federator.hub.host.in_force import SpecsInForce
from federator.hub.members.member import Member
from federator.hub.metering import figures
from federator.hub.placing import move_budget, unschedulable
from federator.hub.placing.first_reports import FirstReports
from federator.hub.placing.move_budget import MoveBuckets
from federator.hub.placing.pledges import Pledges
from federator.hub.placing.unschedulable import UnschedulableCaps
from federator.hub.records import decisions
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kube import errors
from federator.kube.clock import in_slices
from federator.kube.control.work_queue import Batch, WorkQueue
from federator.model import names
from federator.model.ask import Admitted, Ask, Disruptions
from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.names import WorkloadKey
from federator.placement import inputs
from federator.placement.policy import tolerating
from federator.placement.policy.permitted import NotPermitted
from federator.placement.selection.leaving import everywhere
from federator.scheduling import cycle, write_order
from federator.scheduling import due as due_rule
from federator.scheduling.admission.notice import Pace
from federator.scheduling.cycle import Cycle
from federator.scheduling.due import TurnAction
from federator.scheduling.entry import Entry, Standing, as_charged, no_mark
from federator.scheduling.queue import Queue
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.scheduling.write_order import Decided, Effect

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Due:
    """A key of a batch that needs a decision."""

    workload: Workload
    asked: Ask
    record: Record | None
    inputs: str
    refused: NotPermitted | None = None
    """Why it may not run as it is written."""

    @property
    def ask(self) -> Ask:
        """What is charged: for a refused workload what runs of it, not what it asks for now."""
        if self.refused is None or self.record is None:
            return self.asked
        return as_charged(self.asked, self.record.terms.charged)


class Placing(Controller):
    """The only writer of the shares in PlacementDecisions."""

    def __init__(self, tools: Tools, caps: UnschedulableCaps, in_force: SpecsInForce) -> None:
        super().__init__(tools)
        self.caps = caps
        caps.on_late = self.events.late
        self.in_force = in_force
        self.queue: WorkQueue[WorkloadKey] = self.new_queue("placing", group=names.namespace_of)
        self.inadmissible = Queue()
        """Workloads that wait for something, and the hints that could help each."""
        self.moves = MoveBuckets(self.state, clock=self.clock, later=self.queue.add_after)
        self.first_reports = FirstReports(self.state, clock=self.clock, again=self.queue.add_after)
        self.gaps = figures.Gaps(self.state.commitments, self.state.metrics)
        self._pledges = Pledges()
        self._asks = policying.Asks()
        self._unheard: dict[WorkloadKey, str] = {}
        """Key -> uid of workloads with a first decision that may have been written or not."""
        self._vetted: dict[WorkloadKey, tuple[str, int, bytes]] = {}
        """(uid, generation, content) up to which edits stay within the decision in force."""
        self.state.signals.place.append(self.queue.add)
        freed = Hint(HintKind.QUOTA), Hint(HintKind.WORKLOADS)
        self.state.signals.freed.append(lambda: self.requeue(*freed))
        self.state.signals.on_member(
            MemberTurn.HINT_CLUSTER,
            lambda member: self.requeue(Hint(HintKind.CLUSTER, member.name)),
        )
        self.state.signals.on_member(
            MemberTurn.HINT_ROOM, lambda member: self.requeue(Hint(HintKind.ROOM, member.name))
        )
        self.state.signals.on_slice(SliceTurn.CAPS, self._note_slice)

    async def run(self) -> None:
        options = self.state.options
        await self.queue.run_batches(
            self.turn,
            most=options.batch_size,
            linger_s=options.batch_linger_s,
            at_once=options.batches_at_once,
        )

    def requeue(self, *hints: Hint) -> None:
        """Room, quota or membership changed: queues the workloads that this could help."""
        for key in self.inadmissible.requeued_by(*hints):
            self.queue.add(key)

    def _note_slice(self, member: Member, key: WorkloadKey) -> None:
        """A slice changed: pods that its scheduler could not bind may have to move, and the last
        copy may be gone that is charged for what was in force before."""
        if (in_s := self.caps.note(key, member.contents.slice_of(key), member.name)) is not None:
            self.queue.add_after(key, in_s)
        workload = self.state.workloads.get(key)
        record = self.state.record_of(workload) if workload is not None else None
        if workload is None or not rollout_view.may_free(workload.wants, record):
            return  # nearly always: what quotas charge besides is not looked up
        if rollout_view.frees(self.state, self.asked(workload), workload, record):
            self.queue.add(key)

    async def turn(self, batch: Batch[WorkloadKey]) -> None:
        """One batch: looks at its keys in slices of time, decides synchronously, then writes
        concurrently, decisions that free something first. The turn of a workload ends when its own
        decision is written. A record that is replaced while others are looked at is a conflict.
        """
        if self.state.paused:
            return
        snapshot = self.state.snapshot(self.clock)
        memo: dict[Any, Any] = {}
        due = {
            item.workload.key: item
            async for key in in_slices(list(batch), self.clock)
            if (item := self._due(key, snapshot, memo)) is not None
        }
        for key in batch:
            if key not in due:
                batch.ended(key)
        if not due:
            return
        made = cycle.run(
            [self._entry(item) for item in due.values()],
            self.inadmissible,
            snapshot,
            self.state.commitments,
            seq=self.state.next_seq,
            find=functools.partial(self._victim, snapshot, due, batch),
            pace=self._pace(),
        )
        self.gaps.note(made.decided, snapshot)
        self._assume(made, due)
        for key, bug in made.failed.items():
            batch.ended(key, bug)
        await self._write_all(made, due, batch)

    def _pace(self) -> Pace:
        """How many may be told now to leave for others."""

        def budget(key: WorkloadKey) -> Disruptions | None:
            workload = self.state.workloads.get(key)
            ask = workload.ask if workload is not None else None
            return ask.disruptions if ask is not None else None

        state = self.state
        return state.notices.pace(self.clock.monotonic(), state.options, budget)

    def _victim(
        self, now: FleetSnapshot, due: dict[WorkloadKey, Due], batch: Batch[Any], key: WorkloadKey
    ) -> Entry | None:
        """One that may have to leave for one that is due, unless its own turn runs or is near."""
        workload = self.state.workloads.get(key)
        if workload is None or due_rule.look(self._presence(key, workload)) is not TurnAction.LOOK:
            return None
        ask = self.asked(workload)
        if ask is None or not batch.join(key):
            return None
        hashed, refused = inputs.inputs_hash(ask, now, {}), self.state.refusal(workload)
        due[key] = Due(workload, ask, self.state.record_of(workload), hashed, refused)
        return self._entry(due[key])

    def _entry(self, item: Due) -> Entry:
        """The cycle's input for a workload that is due."""
        return Entry(
            ask=item.asked,
            standing=self.standing(item.workload, item.record),
            leave=self.moves.leave(item.asked, item.record),
            anew=self.moves.goes_home(item.asked.key),
            refused=item.refused,
            noticed=self.state.notices.of(item.workload),
            may_leave=self.moves.turn(item.asked.key),
            native=self.state.refuses_native(item.asked.key.kind),
        )

    def standing(self, workload: Workload, record: Record | None) -> Standing:
        """What a workload has, by its decision and by its members' reports."""
        state, key = self.state, workload.key
        overtaken = self.overtaken(key)
        void = (
            record is not None and not overtaken and self.in_force.came_to_nothing(workload, record)
        )
        admitted = None if void else self._admitted(workload, record)
        asked, support = self.asked(workload), None
        if record is not None:
            support = profile_versions.support(state, workload, record, asked, admitted)
        return Standing(
            held=() if void else self.holdings(workload, record),
            recorded=record.recorded if record is not None else None,
            admitted=admitted,
            support=support,
            replaced=rollout_view.wholly_replaced(state, asked, workload, record),
            capped=self.caps.capped(key),
            done=progress.done(state, workload, record),
            ended=workload.progress().ending is not None,
            mark=lambda cluster: restored.mark(state, record, cluster),
            overtaken=overtaken,
            refusing=restored.refusing(state, workload) if overtaken else frozenset(),
            marks=restored.marks(state, workload, record),
            may_run=progress.may_run(state, workload, record, self.clock.now()),
            empty=progress.emptied(state, workload),
        )

    def as_now(self, workload: Workload) -> Standing:
        """A copy of the standing of a workload, or of an edit, for a trial in another thread."""
        standing = self.standing(workload, self.state.record_of(workload))
        cached = self.state.workloads.get(workload.key)
        pods_as_they_are = cached is not None and cached.content == workload.content
        return dataclasses.replace(
            standing, mark=no_mark, capped=standing.capped if pods_as_they_are else {}
        )

    def _assume(self, made: Cycle, due: Mapping[WorkloadKey, Due]) -> None:
        """Charges the decisions from now on, although they are not written yet."""
        now_s = self.clock.monotonic()
        for decided in made.decided:
            item = due[decided.key]
            if decided.entry.standing.overtaken:
                restored.count_overtaken(self.state, item.workload, now_s)
                if (in_s := restored.believe_again(self.state, decided.key, now_s)) > 0:
                    self.queue.add_after(decided.key, in_s)
            restored.numbered(self.state, decided.decision)
            self.state.commitments.assume(decided.after)
            self.moves.note(decided.entry.ask, decided.decision)
        self.inadmissible.settle(
            made.keys, made.inadmissible, made.reservations, made.claims, made.room_claims
        )
        for key in self.state.notices.settle(made):
            self.state.changed(Changed.STANDS, key)
        for key, in_s in made.requeues.items():
            self.queue.add_after(key, in_s)

    async def _write_all(
        self, made: Cycle, due: Mapping[WorkloadKey, Due], batch: Batch[WorkloadKey]
    ) -> None:
        """Writes a batch in waves. If a wave fails, decisions that rely on what it should have
        freed are made again."""
        async with self._pledges.made() as pledge:
            complete, accepted = True, list[Decided]()
            for which, wave in made.write_order:
                if which is Effect.TAKES:
                    pledge.settle(kept=complete)
                if which is not Effect.FREES:
                    complete = complete and await pledge.earlier_kept()
                if not complete:
                    for decided in wave:
                        self._restore(due[decided.key], decided)
                        self.queue.add(decided.key)
                    continue
                async with asyncio.TaskGroup() as group:
                    turns = [
                        group.create_task(self._written(due[decided.key], decided, batch))
                        for decided in wave
                    ]
                kept = [decided for decided, turn in zip(wave, turns, strict=True) if turn.result()]
                complete = len(kept) == len(wave)
                accepted += kept
            pledge.settle(kept=complete)
        self.requeue(*made.released_hints, *self._of_workloads(accepted))
        signals = self.state.signals
        (signals.freed if made.hints_of(accepted) else signals.booked)()

    def _of_workloads(self, written: Sequence[Decided]) -> Iterator[Hint]:
        """Hints for those that other workloads drew after them, or kept away, until now."""
        rules = self.state.rules
        if rules.relating:
            for namespace in sorted(filter(rules.relates, write_order.relocated(written))):
                yield Hint(HintKind.WORKLOADS, namespace=namespace)

    async def _written(self, item: Due, decided: Decided, batch: Batch[WorkloadKey]) -> bool:
        trouble = await self._commit(item, decided)
        batch.ended(decided.key, trouble)
        return trouble is None

    def _due(self, key: WorkloadKey, snapshot: FleetSnapshot, memo: dict[Any, Any]) -> Due | None:
        """What has to be decided for a key; None when the decision in force is still right. `memo`
        caches what the batch has computed from the snapshot. The rule is `scheduling.due`."""
        workload = self.state.workloads.get(key)
        self._forget_unheard(key, workload)
        verdict = due_rule.look(self._presence(key, workload))
        if verdict is TurnAction.FORGET or workload is None:
            self._forget(key, workload)
            return None
        if verdict is TurnAction.LEAVE:
            self.requeue(*self.inadmissible.forget(key))
            return None
        if (in_s := self.caps.refresh(key)) is not None:
            self.queue.add_after(key, in_s)
        restored.believe_again(self.state, key, self.clock.monotonic())
        if verdict is TurnAction.WAIT:
            return None
        ask = self.asked(workload)
        assert ask is not None
        refused = self.state.refusal(workload)
        for component in ask.components:
            if not component.shape.plain and self.state.want_shape(component.shape):
                self.state.signals.ask_members()
        record = self.state.record_of(workload)
        if record is None and self.first_reports.holds(workload):
            return None
        wait_s = self.in_force.first_slice_wait_s(workload, record) if record is not None else 0.0
        if wait_s > 0:
            self.queue.add_after(key, wait_s)
            return None
        present = inputs_hash = inputs.inputs_hash(ask, snapshot, memo)
        if (in_s := tolerating.ends_in_s(ask, snapshot)) is not None:
            self.queue.add_after(key, in_s)
        recorded = record.facts.inputs_hash if record is not None else ""
        if inputs.unchanged(recorded, present, ask, snapshot, memo):
            inputs_hash = recorded  # an older release may have hashed the same inputs otherwise
        self._judge(workload, record, inputs_hash, refused)
        if recorded == inputs_hash:
            self.state.commitments.describe(ask)
        if due_rule.is_settled(self._compared(ask, workload, record, inputs_hash, refused)):
            return None
        if inputs_hash != present:
            self.state.judge(key, present)  # which is what the new decision is made for
        return Due(workload, ask, record, inputs_hash, refused)

    def _presence(self, key: WorkloadKey, workload: Workload | None) -> due_rule.Presence:
        """What is known of a workload before its inputs are compared."""
        if workload is None or workload.deleting or workload.ask is None:
            return due_rule.Presence(there=False)
        hosts_own = False
        if self.state.refuses_native(key.kind):
            ask = self.asked(workload)
            hosts_own = ask is not None and ask.policy.origin == "default"
        return due_rule.Presence(
            suspended=workload.ask.suspended,
            decision_deleting=any(record.deleting for record in self.state.records_of(key)),
            place_taken=self.state.refused_of(workload) is not None,
            hosts_own=hosts_own,
            namespace_known=key.namespace in self.state.spaces,
        )

    def _forget(self, key: WorkloadKey, workload: Workload | None) -> None:
        self.requeue(*self.inadmissible.forget(key))
        for other in self.state.notices.forget(key):
            self.state.changed(Changed.STANDS, other)
        self._vetted.pop(key, None)
        self.moves.forget(key)
        if workload is not None:
            self.state.changed(Changed.JUDGED, key)
        else:
            self.caps.drop(key)

    def _judge(
        self,
        workload: Workload,
        record: Record | None,
        inputs_hash: str,
        refused: NotPermitted | None,
    ) -> None:
        """Records that a workload was evaluated with these inputs, if they are new."""
        key = workload.key
        if self.state.evaluated.get(key) == inputs_hash:
            return
        same = record is not None and record.facts.inputs_hash == inputs_hash
        # Share the record's string: there are a hundred thousand of them.
        self.state.judge(
            key, record.facts.inputs_hash if record is not None and same else inputs_hash
        )
        # its status may still say that it is being placed
        self.state.changed(Changed.JUDGED, key)
        if record is None or not same:
            return
        if refused is None:  # what may not run is never in force
            self._vet(workload, record)
        # members wait for this where it asks for something else than is charged
        self.state.changed(Changed.IN_FORCE, key)

    def _compared(
        self,
        ask: Ask,
        workload: Workload,
        record: Record | None,
        inputs_hash: str,
        refused: NotPermitted | None,
    ) -> due_rule.Comparison:
        """The decision in force compared with what is asked for now."""
        if record is None:
            return due_rule.Comparison(decided=False)
        terms = record.terms
        return due_rule.Comparison(
            same_inputs=record.facts.inputs_hash == inputs_hash,
            inadmissible=workload.key in self.inadmissible,
            chosen=terms.reason is Reason.CHOSEN,
            for_all=everywhere(ask),
            moving=terms.to_move > 0 or record.rebalance != terms.rebalanced,
            overtaken=self.overtaken(workload.key),
            lost=record.lost,
            refused=refused is not None,
            unstopped=progress.unstopped(workload, record),
            open_shards=bool(progress.open_shards(self.state, workload)),
            capped=self.caps.exceeded(workload.key, record),
            leaves=self.moves.granted(workload.key) > 0,
            vacated=bool(rollout_view.vacated(self.state, record)),
            stopped=self._stopped(workload, record),
            frees=rollout_view.frees(self.state, ask, workload, record),
        )

    def _stopped(self, workload: Workload, record: Record) -> bool:
        """Whether shards have stopped where the decision says that they may still run. Until then
        they are looked for again and again, whether or not other shards wait for them."""
        if not record.facts.may_run:
            return False
        present = progress.may_run(self.state, workload, record, self.clock.now())
        if record.facts.may_run.keys() <= present.keys():
            self.queue.add_after(workload.key, cycle.STOPS_S)
            return False
        return True

    def _vet(self, workload: Workload, record: Record) -> None:
        """The decision in force fits the workload's present content, whatever its generation."""
        charged = record.terms.charged
        if (
            charged is not None
            and not record.terms.held_back
            and charged.generation != workload.generation
        ):
            self._vetted[workload.key] = (workload.uid, workload.generation, workload.content)

    def _admitted(self, workload: Workload, record: Record | None) -> Admitted | None:
        """What the decision in force charges; None without a decision, or when it does not say."""
        if record is None or (charged := record.terms.charged) is None:
            return None
        uid, vetted, content = self._vetted.get(workload.key, ("", 0, b""))
        if (served := rollout_view.served_requests(self.state, workload, record)) is not None:
            shape = dataclasses.replace(charged.shape, requests=served)
            return dataclasses.replace(charged, shape=shape)
        if record.terms.held_back or uid != workload.uid or vetted <= charged.generation:
            return charged
        return dataclasses.replace(charged, generation=vetted, content=content)

    def _content(self, item: Due, generation: int) -> bytes:
        """Digest of the content that is charged, by the generation that asked for it."""
        if generation == item.workload.generation:
            return item.workload.content
        admitted = self._admitted(item.workload, item.record)
        charged = item.record.terms.charged if item.record is not None else None
        entries = [entry for entry in (admitted, charged) if entry is not None]
        return next((entry.content for entry in entries if entry.generation == generation), b"")

    def overtaken(self, key: WorkloadKey) -> bool:
        """Whether members hold slices of later decisions: the host was restored from a backup."""
        workload = self.state.workloads.get(key)
        return workload is not None and restored.behind(self.state, workload)

    def asked(self, workload: Workload) -> Ask | None:
        """The workload's ask under the policies in force; None when it cannot be read."""
        return self._asks.of(workload, self.state.rules, self.state.bindings())

    def holdings(self, workload: Workload, record: Record | None) -> tuple[Holding, ...]:
        """What the workload has, by its decision and by its members' reports."""
        return decisions.holdings(restored.shares(self.state, workload, record), record)

    def _stands(self, item: Due, record: Record, decision: Decision) -> bool:
        """Whether the decision in force says all that a new one does."""
        if not decisions.says(record, decision) or self.overtaken(item.workload.key):
            return False
        frees = item.refused is None and rollout_view.frees(
            self.state, item.ask, item.workload, record
        )
        return not (frees or record.lost or rollout_view.vacated(self.state, record))

    async def _commit(self, item: Due, decided: Decided) -> errors.ApiError | None:
        """Writes a decision if it says anything new. Returns the error when it could not."""
        decision = decided.decision
        key, record = item.workload.key, item.record
        if record is not None and self._stands(item, record, decision):
            self.state.changed(Changed.STANDS, key)
            return None
        try:
            revision = await self._revision(item, decision)
            async with self.applier.lane.slot(key.namespace):
                obj = await self._write(item, decision, revision)
        except errors.ApiError as trouble:
            self.moves.refund(item.ask, decision.moved)
            takes = write_order.effect(decided.before, decided.after) is not Effect.FREES
            if not (takes and decision_writer.may_be_written(trouble)):
                self._restore(item, decided)
            elif item.record is None:
                self._unheard[key] = item.workload.uid
            return trouble
        record = self.state.read_record(obj)
        self.state.stand_again(record.workload_uid)
        news = self.state.observe_decision(key.namespace, record)
        self.events.placed(item.workload, item.record, decision, self.moves.evacuated(item.record))
        figures.count(self.state.metrics, item.record, decision)
        if item.record is not None and item.record.terms.held_back and not decision.held_back:
            await self.in_force.drop(key, item.record.terms.revision)
        elif item.record is not None and decision.held_back and item.record.uid != record.uid:
            await self.in_force.adopt(item.workload, record)
        log.info(
            "placed",
            extra={
                "workload": str(key),
                "seq": decision.seq,
                "shares": {share.cluster: share.count for share in decision.shares},
                "shortfall": decision.shortfall,
                "reason": decision.reason.value,
            },
        )
        if news:  # else the watch was faster and has signalled it
            self.state.changed(Changed.WRITTEN, key)
            now = self.state.workloads.get(key)
            if now is None or now.uid != record.workload_uid:
                # It was deleted during the write, when there was no decision to finalize yet.
                self.state.changed(Changed.GONE, key)
        return None

    async def _revision(self, item: Due, decision: Decision) -> str:
        """Names the object that keeps the spec in force while an edit is held back; "" for none."""
        if not decision.held_back or item.record is None:
            return ""
        return await self.in_force.keep(item.workload, item.record)

    def _restore(self, item: Due, decided: Decided) -> None:
        """Charges the decision in force again, in place of one that could not be written."""
        record = self.state.record_of(item.workload)
        if record is item.record and decided.before is not None:
            self.state.commitments.record(decided.before, undone=True)
        elif record is None:
            self.state.commitments.forget(item.workload.uid)
        elif (heard := record.commitment(item.workload.ask)) is not None:
            self.state.commitments.record(heard)

    def _forget_unheard(self, key: WorkloadKey, workload: Workload | None) -> None:
        """Releases the charge of a workload that is gone, until its decision turns up after all."""
        uid = self._unheard.pop(key, "")
        gone = uid and (workload is None or workload.uid != uid)
        if gone and all(record.workload_uid != uid for record in self.state.records_of(key)):
            self.state.commitments.forget(uid)
            self.state.signals.freed()

    async def _write(self, item: Due, decision: Decision, revision: str) -> Mapping[str, Any]:
        leaving = rollout_view.still_leaving(self.state, item.record, decision)
        record = item.record
        decision = dataclasses.replace(
            decision, moved=move_budget.moved(record, decision, decision.as_of)
        )
        rebalanced = ""
        if record is not None:
            unfinished = decision.to_move or decision.held
            rebalanced = record.terms.rebalanced if unfinished else record.rebalance
        spec = placementdecision.to_spec(
            decision,
            self._causes(item, decision),
            item.ask,
            leaving,
            rebalanced=rebalanced,
            **rollout_view.still_given(self.state, record, decision),
            revision=revision,
            content=self._content(item, (decision.under or item.ask).generation),
            failovers=self.moves.failovers(record, decision),
        )
        key, uid, seals = item.workload.key, item.workload.uid, self.state.seals
        if seal := seals.of(key.namespace, decisions.name_of(key, uid), spec):
            spec["seal"] = seal
        try:
            written = await decision_writer.write(self.host, key, uid, item.record, spec)
        except errors.AlreadyExists:  # an earlier creation took effect, and was not answered
            there = await decision_writer.read(self.host, key, uid)
            if self.state.observe_decision(key.namespace, self.state.read_record(there)):
                self.state.changed(Changed.WRITTEN, key)
            raise
        seals.kept(written)
        return written

    def _causes(self, item: Due, decision: Decision) -> tuple[str, ...]:
        """What led to this decision, in a few words, after the causes of the earlier ones."""
        record = item.record
        earlier = record.terms.causes if record is not None else ()
        if self.overtaken(item.workload.key):
            return (*earlier, "members hold slices of later decisions")
        if record is None:
            return ("created",)
        if decision.preempted is not None and decisions.left(record, decision):
            return (*record.terms.causes, f"copies left for {decision.preempted.by}")
        if item.refused is not None:
            return (*record.terms.causes, f"generation {item.workload.generation} may not run")
        if (evacuated := self.moves.evacuated(record)) is not None:
            return (*record.terms.causes, evacuated[1])
        unbound = unschedulable.CAUSE if self.caps.exceeded(item.workload.key, record) else ""
        if record.facts.inputs_hash != item.inputs:
            policy = item.ask.policy.name or item.ask.policy.origin
            cause = f"generation {item.workload.generation} under policy {policy}"
            cause += f", and {unbound}" if unbound else ""
        elif unbound:
            cause = unbound
        elif abandoned := rollout_view.abandoned(self.state, record):
            cause = f"{', '.join(abandoned[:3])} left the fleet"
        elif not record.terms.shortfall and (vacated := rollout_view.vacated(self.state, record)):
            cause = f"nothing is left in {', '.join(vacated[:3])}"
        else:
            cause = "room or quota changed"
        return (*record.terms.causes, cause)
