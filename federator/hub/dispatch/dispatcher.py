"""Dispatching: compares decisions with what members hold and carries out the next step, member by
member.

Every member has its own queue and workers, so a slow one costs only its own slices. A turn is
level-triggered: it plans the whole workload from memory and does its own cluster's part. Nothing is
deleted before the member's lists are in, and never without the uid it was judged by.
"""

import contextlib
import logging

from federator.hub.cache import profile_versions, restored
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.cache.router import Changed, MemberChanged, MemberTurn, SliceTurn
from federator.hub.dispatch.drift import Drift
from federator.hub.dispatch.slice_writer import SliceWriter
from federator.hub.host.controller import Controller, Tools
from federator.hub.host.in_force import SpecsInForce
from federator.hub.members.member import Member
from federator.hub.members.writes import Refusal
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kube import errors
from federator.kube.control.breaker import Breaker
from federator.kube.control.work_queue import WorkQueue
from federator.model import names
from federator.model.decision import Share
from federator.model.names import WorkloadKey
from federator.model.observation import MISSING
from federator.model.steps import RequeueAfter
from federator.scheduling.rollout import Action, ActionKind

log = logging.getLogger(__name__)

HOLD_RECHECK_S = 15.0
"""A held step is planned again when something about the workload changes, and at least this often.
"""

NO_EFFECT_S = 5.0
"""A slice that is not as it was written is written again after so long."""
FUTILE = (
    "it has drifted: {} writes in a row were changed back by somebody else, or were not kept by"
    " the API server;"
    " it is left alone for a while"
)
ENDING = "the namespace {} is being deleted there; the slice is made when that is over"
OVERRIDE_REFUSED = "OverrideRefused"
"""Reason of a slice that is not written, because the overrides of a policy do not fit it."""
CHANGES_WITHOUT_TEMPLATE = (ActionKind.UPDATE, ActionKind.DELETE, ActionKind.HOLD)
"""Actions that an override does not hold up: another share with the present template, and the end
of a slice."""
CLAIM_RECHECK_S = 0.5
"""A member that does not know yet which host it belongs to is looked at again after so long."""


class Dispatching(Controller):
    """Writes slices. One queue with its workers per member."""

    def __init__(
        self,
        tools: Tools,
        view: RolloutView,
        writer: SliceWriter,
        in_force: SpecsInForce,
        drift: Drift,
    ) -> None:
        super().__init__(tools)
        self.view = view
        self.in_force = in_force
        self.writer = writer
        self.drift = drift
        self.queues: dict[str, WorkQueue[WorkloadKey]] = {}
        self._breakers: dict[str, Breaker] = {}
        """Member -> whether its API server was reached by the last write."""
        self.holding: dict[WorkloadKey, set[str]] = {}
        """Clusters with a next step that waits for others of the same workload."""
        self._not_overridden: set[tuple[str, WorkloadKey]] = set()
        """Slices that are not written because of an override: the refusal stays as long."""
        self.state.signals.dispatch.append(self.spread)
        self.state.signals.aggregate.append(self.release)
        self.state.signals.on_member(MemberTurn.RELEASE, self._release_waiting)
        self.state.signals.on_slice(SliceTurn.DRIFT, self._note_drift)
        self.state.signals.on_slice(
            SliceTurn.DISPATCH, lambda member, key: self.look_at(member.name, key)
        )

    def queue_of(self, member: Member) -> WorkQueue[WorkloadKey]:
        queue = self.queues.get(member.name)
        if queue is None:
            queue = self.queues[member.name] = WorkQueue(
                f"dispatch-{member.name}",
                rng=self.rng,
                group=names.namespace_of,
                metrics=self.state.metrics,
            )
        return queue

    def _breaker_of(self, member: Member) -> Breaker:
        breaker = self._breakers.get(member.name)
        if breaker is None:
            breaker = self._breakers[member.name] = Breaker(self.clock.monotonic, self.rng)
        return breaker

    async def run(self, member: Member) -> None:
        """Serves one member until cancelled, and forgets its queue then: what waits in it is
        another leader's."""
        queue = self.queue_of(member)
        try:
            await queue.run(
                lambda key: self.turn(member, key), workers=self.state.options.lane_writes_in_flight
            )
        finally:
            if self.queues.get(member.name) is queue:
                self.forget(member.name)

    def forget(self, cluster: str) -> None:
        """A connection is closed. The next one gets a queue of its own, however long the workers of
        this one take to end."""
        self.queues.pop(cluster, None)
        self.writer.prerequisites.forget(cluster)
        self._not_overridden = {each for each in self._not_overridden if each[0] != cluster}
        self._breakers.pop(cluster, None)

    def spread(self, key: WorkloadKey) -> None:
        """Signals every member that has, or should have, a part of this workload."""
        for cluster in self.view.clusters(key):
            self.look_at(cluster, key)

    def look_at(self, cluster: str, key: WorkloadKey) -> None:
        """Signals one member only: the others are not concerned, or wait for it and are released
        when it changes."""
        queue = self.queues.get(cluster)
        if queue is not None:
            queue.add(key)

    def _note_drift(self, member: Member, key: WorkloadKey) -> None:
        """Drift in the first list is not reported: the former hub may have reported it."""
        report = (
            self.state.signals.heeded
            and key.kind in member.contents.stores
            and member.contents.stores[key.kind].synced
        )
        self.drift.heard(member, key, self.state.workloads.get(key), report=report)

    def release(self, key: WorkloadKey) -> None:
        """The workload has made progress: clusters that wait for others plan again."""
        for cluster in sorted(self.holding.get(key, ())):
            self.look_at(cluster, key)

    def _release_waiting(self, member: Member) -> None:
        """What the member reports counts again: its own steps and those of other clusters may have
        waited for that."""
        for key in list(self.holding):
            if member.name in self.view.clusters(key):
                self.state.changed(Changed.REACHED, key)

    async def turn(self, member: Member, key: WorkloadKey) -> RequeueAfter | None:
        """Does what is next for one workload in this member."""
        if (due := self._due(member, key)) is None:
            self._not_overridden.discard((member.name, key))
            return None
        workload, record = due
        if (wait := self._wait_for_hub(member, workload)) is not None:
            return wait
        served = await self.in_force.load(workload, record)
        if served is None:
            why = "the spec in force while an edit is held back is not loaded yet"
            return RequeueAfter(key, HOLD_RECHECK_S, why)
        if profile_versions.in_force(self.state, served) is None:
            self.state.changed(Changed.UNDERCHARGED, key)
            why = "its decision charges less than every known version of its profile asks for"
            return RequeueAfter(key, HOLD_RECHECK_S, why)
        seen = member.contents.slice_of(key)
        if why := await self.writer.refused(member, served):
            action = self._action(member, served, record, seen)
            self._not_overridden.add((member.name, key))
            if action is not None and action.kind is not ActionKind.DELETE:
                self._refused(member, key, Refusal(OVERRIDE_REFUSED, why, True))
            if action is None or action.kind not in CHANGES_WITHOUT_TEMPLATE:
                return None
        else:
            self._not_overridden.discard((member.name, key))
            if seen is not None and self.view.is_this(seen, served):
                await self._compare(member, served, record, seen)
        return await self._act(member, workload, served, record, seen)

    def _wait_for_hub(self, member: Member, workload: Workload) -> RequeueAfter | None:
        """Why nothing may be written before the hub has done something else; None when it may."""
        if restored.behind(self.state, workload):
            why = "members hold slices of later decisions: it is decided again first"
            return RequeueAfter(workload.key, HOLD_RECHECK_S, why)
        if not member.claimed:
            self.state.signals.member_changed(MemberChanged.UNCLAIMED, member)
            why = "the host's claim on the member is being written"
            return RequeueAfter(workload.key, CLAIM_RECHECK_S, why)
        return None

    async def _compare(
        self, member: Member, workload: Workload, record: Record, seen: SliceSeen
    ) -> None:
        """Reads a slice of unknown content, and writes a RuntimeProfile that it misses."""
        if not self.view.compared_now(member, workload, seen).compared:
            await self.writer.verify(member, workload, record, seen)
            # A status written before this could not say that the slice is up to date.
            self.state.changed(Changed.COMPARED, workload.key)
        if seen.observation.reason == MISSING:
            await self.writer.restore_profile(member, workload, seen)

    async def _act(
        self,
        member: Member,
        host: Workload,
        workload: Workload,
        record: Record,
        seen: SliceSeen | None,
    ) -> RequeueAfter | None:
        """Plans the next action and carries it out. `host` is the workload as the host has it,
        `workload` as members are to have it."""
        key = workload.key
        action = self._action(member, workload, record, seen)
        waits = action is not None and not _is_final(action, record.share_of(member.name))
        self._note_hold(key, member.name, waits)
        if action is None:
            self._left_as_it_is(member, workload, record, seen)
            return None
        if wait_s := self._wait_for_budget(record, action):
            return RequeueAfter(key, wait_s, "deletions are spread over time")
        if action.kind is not ActionKind.DELETE and self._stays_as_it_is(workload):
            self._accepted(member, key)
            return None
        if seen is not None and self._is_numbered_higher(member, workload, record, action, seen):
            why = "its slice has a higher seq than its decision"
            return RequeueAfter(key, HOLD_RECHECK_S, why)
        if action.kind in (ActionKind.NOTHING, ActionKind.HOLD):
            self._left_as_it_is(member, workload, record, seen)
        elif action.kind is ActionKind.CREATE and self.in_force.is_being_replaced(host, record):
            return RequeueAfter(key, HOLD_RECHECK_S, "it is decided again before its first slice")
        else:
            try:
                again = await self._do(member, workload, record, action)
            except errors.ApiError:
                # The queue retries with back-off. Progress elsewhere must not retry sooner.
                self._note_hold(key, member.name, waits=False)
                raise
            if again is not None:
                return again
            if self._overtaken(host, record):
                # A new decision without this cluster queued only the clusters that it names or
                # that were seen to hold a slice. It could not know what was just created here.
                self.queue_of(member).add(key)
        return RequeueAfter(key, HOLD_RECHECK_S, action.why) if waits else None

    def _due(self, member: Member, key: WorkloadKey) -> tuple[Workload, Record] | None:
        """The workload and its decision; None while nothing of them may reach this member."""
        workload = self.state.workloads.get(key)
        if not self.state.ready or self.state.paused or workload is None or workload.deleting:
            return None
        record = self.state.record_of(workload)
        if (
            record is None
            or record.deleting
            or (workload.ask is not None and workload.ask.suspended)
        ):
            return None
        if member.link.applier is None or not member.heard or member.abandoned:
            return None
        if not record.terms.held_back and self.state.unjudged(workload, record):
            return None  # placing says when it has
        return workload, record

    def _left_as_it_is(
        self, member: Member, workload: Workload, record: Record, seen: SliceSeen | None
    ) -> None:
        if seen is not None and self.view.is_as_decided(member, workload, seen):
            pins = self.view.pins(member, workload)
            self.drift.in_place(member, workload, record.share_of(member.name), pins)
        # a write without a response may have taken effect
        self._accepted(member, workload.key)

    def _is_numbered_higher(
        self, member: Member, workload: Workload, record: Record, action: Action, seen: SliceSeen
    ) -> bool:
        """Whether a slice to be changed has a higher seq than its share. API servers refuse a lower
        seq, so the decision must get a higher one first. Requests that, unless the slice changes
        its seq all the time."""
        if (
            action.kind is not ActionKind.UPDATE
            or seen.mark is None
            or not self.view.is_this(seen, workload)
        ):
            return False
        if seen.mark.seq <= record.mark(member.name):
            return False
        # A newer decision may have the higher seq already.
        current = self.state.record_of(workload) is record
        if current and workload.key not in member.seqs.disbelieved:
            member.seqs.observe_higher(workload.key)
            self.state.changed(Changed.NUMBERED, workload.key)
        return True

    def _stays_as_it_is(self, workload: Workload) -> bool:
        """Whether nothing of the workload's present content may reach a member: it cannot be read,
        or may not run. Checked last, because the decision in force may be older than that."""
        return workload.ask is None or self.state.refusal(workload) is not None

    def _wait_for_budget(self, record: Record, action: Action) -> float:
        """Seconds that a slice must stay when an edit of a policy or of labels moves its workload
        away; 0.0 when it may go now, or a person asked for it."""
        if action.kind is not ActionKind.DELETE or not record.terms.moved:
            return 0.0
        return self.state.may_delete(1, self.clock.monotonic())

    def _action(
        self, member: Member, workload: Workload, record: Record, seen: SliceSeen | None
    ) -> Action | None:
        """The next action in this member. A missing slice is created whatever the others hold, and
        one that is as decided is left alone. Most turns end there: examining all clusters in each
        cluster's turn would take time that grows with their square."""
        share = record.share_of(member.name)
        if share is not None and share.count > 0:
            if seen is None and member.knows(workload.key.kind):
                return Action(member.name, ActionKind.CREATE, count=share.count)
            if seen is not None and self.view.carries(member, workload, share, seen):
                return Action(member.name, ActionKind.NOTHING, count=share.count)
        return self.view.plan(workload, record).get(member.name)

    def _note_hold(self, key: WorkloadKey, cluster: str, waits: bool) -> None:
        held = self.holding.setdefault(key, set())
        (held.add if waits else held.discard)(cluster)
        if not held:
            self.holding.pop(key, None)

    def _overtaken(self, workload: Workload, record: Record) -> bool:
        """Whether there is a newer decision, or a newer state of the workload, than this turn
        read."""
        now = self.state.workloads.get(workload.key)
        return now is None or not now.asks_like(workload) or self.state.record_of(now) is not record

    async def _do(
        self, member: Member, workload: Workload, record: Record, action: Action
    ) -> RequeueAfter | None:
        """Carries an action out. A refusal by the member is kept for the status."""
        key = workload.key
        share, before = record.share_of(member.name), member.contents.slice_of(key)
        if share is not None and (
            before is None or before.mark is None or before.mark.seq < share.seq
        ):
            # decided by an earlier leader, perhaps
            self.state.commitments.in_flight(member.name, workload.uid, share.seq)
        want, now = self.writer.wish(workload, record, action), self.clock.monotonic()
        if action.kind is not ActionKind.DELETE and (
            until_s := member.writes.fights.paused_until_s(key, want, now)
        ):
            self._refused(
                member,
                key,
                Refusal("CannotConverge", FUTILE.format(self.state.options.futile_writes), True),
            )
            return RequeueAfter(key, until_s - now, "what is written there does not last")
        breaker = self._breaker_of(member)
        if wait_s := breaker.wait_s():
            self._refused(member, key, Refusal(errors.Unreachable.__name__, breaker.why, False))
            return RequeueAfter(key, wait_s, "its API server could not be reached just now")
        profile, pins = self.view.profile_of(workload), self.view.pins(member, workload)
        if action.kind is not ActionKind.DELETE and (
            waits := self.writer.prerequisites.wait(
                member, profile, key.namespace if action.kind is ActionKind.CREATE else ""
            )
        ):
            if (refusal := _refusal(waits[1], key)) is not None:
                self._refused(member, key, refusal)
            return RequeueAfter(key, waits[0], "what it needs there could not be created just now")
        undoes = self.drift.undoes(member, workload, share, pins)
        creates = action.kind is ActionKind.CREATE
        creating = member.writes.create(key) if creates else contextlib.nullcontext()
        try:
            with creating, breaker.passing():
                wrote = await self.writer.carry_out(member, workload, record, action)
        except errors.ApiError as error:
            if (refusal := _refusal(error, key)) is not None:
                self._refused(member, key, refusal)
            raise
        seen = member.contents.slice_of(key)
        comparison = self.view.compared(member, workload, share, seen) if seen is not None else None
        if wrote is not None:
            member.writes.fights.written(key, want, now)
            if undoes:
                self.drift.tell(member, workload, wrote)
            if comparison is not None and comparison.current:
                self.drift.in_place(member, workload, share, pins)
            elif comparison is not None and comparison.compared and _is_final(action, share):
                return RequeueAfter(key, NO_EFFECT_S, "the member did not keep what was written")
        self._accepted(member, key)
        return None

    def _refused(self, member: Member, key: WorkloadKey, why: Refusal) -> None:
        """Records a refusal. Only a new one is signalled: aggregation makes all members of the
        workload plan again, and they would be refused again at once."""
        if member.writes.observe_refusal(key, why):
            self.state.changed(Changed.ANSWERED, key)

    def _accepted(self, member: Member, key: WorkloadKey) -> None:
        """Clears a recorded refusal."""
        if (member.name, key) in self._not_overridden:
            return
        if member.writes.observe_accepted(key):
            self.state.changed(Changed.ANSWERED, key)


def _refusal(error: errors.ApiError, key: WorkloadKey) -> Refusal | None:
    """What the status says of a failed write: reason, message, and if it is permanent. None for a
    failure that says nothing about the slice."""
    if isinstance(error, errors.Denied):
        if errors.ends_namespace(error):
            return Refusal("NamespaceTerminating", ENDING.format(key.namespace), False)
        return Refusal("Denied", str(error), True)
    if isinstance(error, errors.Invalid | errors.AlreadyExists):
        return Refusal(type(error).__name__, str(error), True)
    if error.transient and not isinstance(error, errors.Conflict):
        return Refusal(type(error).__name__, str(error), False)
    return None


def _is_final(action: Action, share: Share | None) -> bool:
    """Whether nothing is left to do in this cluster after the action."""
    if action.kind is ActionKind.UPDATE:
        return share is not None and action.count == share.count and not action.keep_template
    return action.kind is not ActionKind.HOLD
