"""Status aggregation: folds the reports of all members about a workload into its host status, and
writes it when it differs.

At once when a workload has settled or its conditions changed; otherwise at most once a second per
workload. An unsettled first status also waits a second, so that a quick placement costs one status
write in all.
"""

import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from federator.api import raw
from federator.hub.cache import cutting, progress
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.cache.router import Changed
from federator.hub.host.controller import Controller, Tools
from federator.hub.metering.readiness import Readiness
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.hub.status import pins, transitions
from federator.hub.status.pacing import FirstStatuses, RefusedStatuses
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import names, scaleup
from federator.model.ask import Unit
from federator.model.decision import Reason
from federator.model.kubernetes import diffs
from federator.model.names import WorkloadKey
from federator.model.observation import SliceObservation
from federator.model.steps import Patch, RequeueAfter
from federator.placement.quota import quota
from federator.scheduling import rollout
from federator.status import aggregate, conditions, verdict
from federator.status.conditions import Condition
from federator.status.facts import DecisionInput
from federator.status.fold import Desired, Fold, Refusal, fold

log = logging.getLogger(__name__)

WAITS = "status writes are at least a second apart"
PACED = "first statuses during a pause are written one by one"
REFUSED = "the host refused its last status"


class StatusAggregation(Controller):
    """The only writer of host statuses of workloads."""

    def __init__(self, tools: Tools, view: RolloutView, readiness: Readiness) -> None:
        super().__init__(tools)
        self.view = view
        self._readiness = readiness
        self.queue: WorkQueue[WorkloadKey] = self.new_queue("gathering", group=names.namespace_of)
        self._not_before: dict[WorkloadKey, float] = {}
        """Monotonic time before which an unsettled status of this workload is not written."""
        self._refused = RefusedStatuses(self.rng)
        self._pinned: set[WorkloadKey] = set()
        """Workloads that keep a version of their RuntimeProfile for a time."""
        self._first = FirstStatuses(self.state)
        self.state.signals.aggregate.append(self.queue.add)

    async def run(self) -> None:
        await self.queue.run(self.turn, workers=self.state.options.host_writes_in_flight)

    async def turn(self, key: WorkloadKey) -> RequeueAfter | None:
        """Folds one workload, and writes its status when it is due."""
        workload = self.state.workloads.get(key)
        if workload is None or not self.state.ready or self.state.refuses_native(key.kind):
            self._not_before.pop(key, None)
            self._refused.forget(key)
            self._readiness.forget(key)
            self._first.forget(key)
            self._pinned.discard(key)
            for member in self.state.members.values() if workload is None else ():
                self.state.hold_against(member, key, None, self.clock.monotonic())
            return None
        if self._was_placed(workload) and self.state.record_of(workload) is None:
            # its decision is still to be heard of, by a list that was not old, or to be made again
            return None
        now, wait = self.clock.monotonic(), self.state.options.status_interval_s
        if self.on_its_way(workload) and now < (
            due := self._not_before.setdefault(key, now + wait)
        ):
            # what exactly it will say then need not be known yet
            return RequeueAfter(key, due - now, WAITS)
        live = workload.live_status()
        if (waits_s := self._first.wait_s(workload, live, now)) > 0:
            return RequeueAfter(key, waits_s, PACED)
        result = self._fold(workload, live)
        record = self.state.record_of(workload)
        reason = record.terms.reason if record is not None else None
        self._readiness.note(workload, reason, result)
        self._follow_end(workload, result)
        self._follow_pin(workload)
        patch = self._patch(workload, live, result)
        if not patch:
            if now >= self._not_before.get(key, now):
                self._not_before.pop(key, None)
            return None
        moving = conditions.find(live.get("conditions"), "Reconciling")
        if not (result.settled and (moving is None or moving.get("status") == conditions.TRUE)):
            due = self._not_before.setdefault(key, now if result.settled else now + wait)
            if now < due:
                return RequeueAfter(key, due - now, WAITS)
        if (waits_s := self._refused.wait_s(workload, now)) > 0:
            return RequeueAfter(key, waits_s, REFUSED)
        await self._write(workload, live, patch, result)
        self._follow_end(self.state.workloads.get(key, workload), result)
        self._not_before[key] = self.clock.monotonic() + wait
        return None

    def _was_placed(self, workload: Workload) -> bool:
        """Whether its status, which outlives hubs, names clusters: then it had a decision that this
        hub must not forget (invariant 19)."""
        return (
            workload.ask is not None
            and not workload.deleting
            and bool(workload.live_status().get("clusterStatuses"))
        )

    def on_its_way(self, workload: Workload) -> bool:
        """Whether a quick check shows that it has not settled: no decision yet, or a cluster with a
        share has no slice or too few ready replicas. Most signals come in that phase: every pod of
        a rollout in twenty clusters sends some."""
        if (
            workload.ask is None
            or workload.ask.suspended
            or workload.verbs.unit is not Unit.REPLICAS
        ):
            return False
        record = self.state.record_of(workload)
        if record is None:
            return True
        seen = self.state.slices_of(workload.key)
        for share in record.shares:
            slice_seen = seen.get(share.cluster)
            if share.count > 0 and (
                slice_seen is None or slice_seen.observation.ready != share.count
            ):
                return True
        return False

    def fold(self, workload: Workload) -> Fold:
        """The workload over all members, from memory."""
        return self._fold(workload, workload.live_status())

    def _fold(self, workload: Workload, status: Mapping[str, Any]) -> Fold:
        record = self.state.record_of(workload)
        ask, recorded = workload.ask, workload.progress()
        served = self.state.serving(workload, record)
        suspended = ask is not None and ask.suspended
        start = raw.text(status, "startTime")
        wanted = Desired(
            generation=workload.generation,
            unit=workload.verbs.unit,
            count=self._count(workload, record),
            suspended=suspended,
            halted=workload.halted,
            in_force=served.generation if served is not workload else 0,
            deleting=workload.deleting,
            every_node=workload.verbs.every_node,
            max_unavailable=workload.max_unavailable,
            scaled=workload.scaled,
            paused=self.state.pause.facts if self.state.pause is not None else None,
            previous_observed_generation=_integer(status.get("observedGeneration")),
            previous_completed=recorded.completed,
            previous_failed=recorded.failed,
            end_rules=workload.end_rules,
            previous_ending=recorded.ending,
            start_time=start,
            now=self.clock.rfc3339(),
            overdue=start != "" and self._left_s(workload, start) <= 0,
            pin=pins.pinned(self.state, workload),
        )
        observations, refusals, in_flight, waiting = self._gathered(served, record)
        placing = self._placing(workload, record)
        if placing is not None:
            short = (name for name, why in in_flight.items() if rollout.NO_ROOM in why)
            placing = dataclasses.replace(placing, without_room=tuple(sorted(short)))
        return fold(
            wanted,
            placing,
            observations,
            refusals=refusals,
            in_flight=in_flight,
            waiting_turns=waiting,
        )

    def _follow_end(self, workload: Workload, result: Fold) -> None:
        """Looks again at the deadline, which brings no event of its own. Once the end is recorded,
        placing takes the slots of shards that need not run any more."""
        key, record = workload.key, self.state.record_of(workload)
        if result.start_time and not result.finished:
            self.queue.add_after(key, self._left_s(workload, result.start_time))
        if record is not None and progress.unstopped(workload, record):
            self.state.changed(Changed.DECIDED, key)

    def _follow_pin(self, workload: Workload) -> None:
        """Looks again when the pin of a version ends soon and when it ends, which brings no event
        of its own. Then its pods get the present version."""
        key = workload.key
        next_s = pins.next_s(self.state, workload)
        if next_s is not None:
            self._pinned.add(key)
            self.queue.add_after(key, next_s)
        elif key in self._pinned:
            self._pinned.discard(key)
            self.state.changed(Changed.PROFILE, key)

    def _left_s(self, workload: Workload, start: str) -> float:
        """Seconds until the deadline of a job set with a first shard that began at `start`."""
        deadline_s = workload.end_rules.deadline_s
        return (
            math.inf if deadline_s is None else raw.epoch_s(start) + deadline_s - self.clock.now()
        )

    def _count(self, workload: Workload, record: Record | None) -> int:
        """The count asked for: for replicas by the decision (a policy may multiply them), for
        shards by the spec (a decision leaves out those that finished in clusters that are gone from
        it)."""
        ask = workload.ask
        if (
            record is not None
            and workload.verbs.unit is Unit.REPLICAS
            and not (ask is not None and ask.suspended)
        ):
            return record.terms.wanted
        return ask.count if ask is not None else 0

    def _placing(self, workload: Workload, record: Record | None) -> DecisionInput | None:
        if workload.problem:
            return DecisionInput(
                shortfall=0, reason=Reason.MISCONFIGURED, message=workload.problem, current=True
            )
        if record is None:
            return None
        ask, quotas = workload.ask, self.state.quotas.values()
        refused = quota.refusal(ask, quotas) if ask is not None else ""
        foreign = self.state.refused_of(workload)
        spoken_for = ask is not None and bool(quota.accounts_of(ask.project, quotas))
        return DecisionInput(
            shares=record.shares,
            shortfall=record.terms.shortfall,
            reason=record.terms.reason,
            message=record.terms.message,
            current=self.state.is_current(workload, record),
            unlimited_quota=ask is not None and not (refused or spoken_for),
            violations=record.terms.violations,
            project=ask.project if ask is not None else "",
            held=record.terms.held,
            to_move=record.terms.to_move,
            decision_refused=self.state.objection(foreign) if foreign is not None else "",
            held_back=record.terms.held_back > 0,
            profile_held_back=bool(record.terms.held_profile),
            project_refused=refused,
            surplus=record.terms.surplus,
            scaling=self._scaling(workload, record),
            notice=self.state.notices.text(workload),
        )

    def _scaling(self, workload: Workload, record: Record) -> str:
        """What its copies wait for in clusters that have to add nodes."""
        coming = []
        for cluster, here in scaleup.by_cluster(record.terms.additions).items():
            seen = self.state.slices_of(workload.key).get(cluster)
            share = record.share_of(cluster)
            waiting = share.slots if share is not None else 0
            if seen is not None and _began(seen.observation):
                waiting = seen.observation.unschedulable
            if share is not None and waiting > 0:
                nodes = " and ".join(added.text for added in here)
                most = sum(added.copies for added in here)
                coming.append(f"{min(waiting, most)} in {cluster} for {nodes}")
        return f"Copies wait for nodes to be added: {'; '.join(coming)}." if coming else ""

    def _gathered(
        self, workload: Workload, record: Record | None
    ) -> tuple[list[SliceObservation], list[Refusal], dict[str, str], set[str]]:
        observations: list[SliceObservation] = []
        refusals: list[Refusal] = []
        in_flight: dict[str, str] = {}
        waiting: set[str] = set()
        seen = self.state.slices_of(workload.key)
        clusters = set(seen) | (set(record.clusters) if record is not None else set())
        actions = self.view.plan(workload, record) if record is not None else {}
        for cluster in sorted(clusters):
            member = self.state.holder(cluster)
            if member is None:
                continue
            slice_seen = seen.get(cluster)
            if slice_seen is not None and not slice_seen.ours(self.state.options.fleet):
                if record is None or cluster not in record.clusters:
                    continue  # it conflicts with nothing
                refusals.append(
                    Refusal(
                        cluster,
                        "Conflict",
                        f"an object named {workload.key.namespace}/{workload.key.name} is not this"
                        " fleet's",
                        True,
                    )
                )
                # nothing of ours is there
                observations.append(SliceObservation(cluster, known=member.heard))
                continue
            observations.append(self._observed(workload, record, cluster, slice_seen))
            if (refused := member.writes.refused.get(workload.key)) is not None:
                refusals.append(Refusal(cluster, *refused))
            action = actions.get(cluster)
            if action is not None and action.why and member.heard:
                in_flight[cluster] = action.why
                if action.why == rollout.NOT_REACHED:
                    waiting.add(cluster)
        return observations, refusals, in_flight, waiting

    def _observed(
        self, workload: Workload, record: Record | None, cluster: str, seen: SliceSeen | None
    ) -> SliceObservation:
        member = self.state.members[cluster]
        if seen is None or not self.view.is_this(seen, workload):
            self.state.hold_against(member, workload.key, None, self.clock.monotonic())
            return SliceObservation(cluster, known=member.knows(workload.key.kind))
        mark, profile = seen.mark, self.view.profile_of(workload)
        origin = mark.origin_generation if mark is not None else 0
        overrides = self.view.overrides(member, workload).digest
        made_with = (mark.rules.profile, mark.rules.overrides) if mark is not None else None
        outdated = made_with is not None and made_with != (profile, overrides)
        if self.view.compared(member, workload, None, seen).content:
            # What this slice says is what the present generation says: it needs no write to have
            # caught up.
            origin = workload.generation
        observed, against = cutting.heard(self.state, workload, record, seen)
        contradiction = against[0] if against and member.heard else None
        self.state.hold_against(member, workload.key, contradiction, self.clock.monotonic())
        return dataclasses.replace(
            observed,
            uid=seen.uid,
            seq=mark.seq if mark is not None else 0,
            origin_generation=origin,
            outdated=outdated,
            known=member.speaks_of(workload.key.kind),
            deleting=seen.deleting,
            unheard=_capital(member.process.why()) if member.heard else "",
        )

    def _patch(self, workload: Workload, live: Mapping[str, Any], result: Fold) -> dict[str, Any]:
        native = registry.KINDS[workload.key.kind].model is None
        shown = (
            (*result.conditions, *_native_conditions(workload, result))
            if native
            else result.conditions
        )
        owned = (*verdict.OWNED, *aggregate.OWNED)
        merged = conditions.merge(live.get("conditions"), shown, self.clock.rfc3339(), owned)
        record = self.state.record_of(workload)
        want = workload.verbs.host_status(
            workload.stub(), result, merged, policy=_policy_shown(record)
        )
        if not native:
            return diffs.replacement_patch(live, want)
        want |= {
            name: count
            for name, count in self._native_counters(workload).items()
            if name != "updatedReplicas"
        }
        # The status of a native kind comes back with fields that its server fills in: those are not
        # ours to compare.
        return diffs.merge_patch(live, want) | {name: None for name in live if name not in want}

    def _native_counters(self, workload: Workload) -> dict[str, Any]:
        """Sums of a carried native kind's own counters over the reachable members. Only the fold
        knows which replicas are updated: a cluster with the former template calls all of its own
        updated."""
        record = self.state.record_of(workload)
        members = [
            aggregate.MemberStatus(cluster, cutting.counters(workload, record, seen))
            for cluster, seen in self.state.slices_of(workload.key).items()
            if self.state.members[cluster].heard and self.view.is_this(seen, workload)
        ]
        counters = aggregate.of({"kind": workload.key.kind}, members) or {}
        return {name: count for name, count in counters.items() if count}

    async def _write(
        self, workload: Workload, live: Mapping[str, Any], patch: Mapping[str, Any], result: Fold
    ) -> None:
        key = workload.key
        ref = registry.KINDS[key.kind].ref(key.namespace, key.name)
        # The version keeps this from landing on a re-creation of the same name: for a status, API
        # servers take the uid from the object that is there, and do not compare.
        step = Patch(
            ref,
            {"status": patch},
            "status",
            uid=workload.uid,
            resource_version=workload.resource_version,
        )
        outcome = await self.applier.apply(step, key.namespace)
        if outcome.gone:
            return
        if isinstance(outcome.error, errors.Invalid | errors.Denied | errors.ServerTrouble):
            self._refused.note(workload, self.clock.monotonic())
        if outcome.error is not None:
            raise outcome.error
        self._refused.forget(key)
        if outcome.obj is not None:
            self.state.observe_status(key, workload.uid, outcome.obj)
        self._tell_transitions(workload, live, result)

    def _tell_transitions(self, workload: Workload, live: Mapping[str, Any], result: Fold) -> None:
        was = raw.objects(live, "conditions")
        self.events.changed(workload, was, result.conditions, self.state.record_of(workload))
        for transition in transitions.of(live, result):
            if not (
                transition.reason in transitions.TROUBLES
                and self.events.repeats(workload.uid, transition.reason)
            ):
                self.events.tell(
                    workload.key,
                    workload.uid,
                    transition.reason,
                    transition.note,
                    warning=transition.warning,
                )

    def settled(self) -> tuple[bool, list[str]]:
        """Whether every workload has settled, and a sentence for each that has not.

        A job set has settled when the shards that clusters were given have finished; its conditions
        are steady earlier, while it runs as decided.
        """
        waiting = list(self.unsettled())
        return not waiting, waiting

    def unsettled(self) -> Iterator[str]:
        """A sentence for each workload that has not settled, computed one by one."""
        for key, workload in sorted(self.state.workloads.items()):
            result = self.fold(workload)
            if not result.settled:
                yield f"{key}: {result.waiting_for}"
            elif (
                result.unit is Unit.SHARDS
                and not result.finished
                and any(row.share > row.completed + row.failed for row in result.rows)
            ):
                yield f"{key}: {result.summary}"
            elif self._patch(workload, workload.live_status(), result):
                yield f"{key}: its status is still to be written"


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _native_conditions(workload: Workload, result: Fold) -> tuple[Condition, ...]:
    return aggregate.deployment_conditions(
        wanted=result.desired,
        ready=result.ready_lo,
        max_unavailable=workload.max_unavailable,
        settled=result.settled,
        paused=workload.halted,
        failed=_given_up(result),
    )


def _given_up(result: Fold) -> tuple[str, str] | None:
    """Reason and message of a rollout that is stuck, in the words of `kubectl rollout`."""
    stalled = next(
        (condition for condition in result.conditions if condition.type == "Stalled"), None
    )
    if stalled is None or stalled.status != conditions.TRUE:
        return None
    return (verdict.DEADLINE_EXCEEDED if result.timed_out else stalled.reason), stalled.message


def _policy_shown(record: Record | None) -> str:
    """The policy's name; a policy inside the workload's spec has none."""
    if record is None:
        return ""
    return record.terms.policy_name or record.terms.policy_origin


def _began(observed: SliceObservation) -> bool:
    """Whether its scheduler has looked at the copies."""
    return bool(observed.unschedulable or observed.ready or observed.active)
