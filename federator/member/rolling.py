"""Rolls what native objects and pods say up onto the slice's status, with the first useful reason
when something is not ready.

At most one write per slice and `roll_up_interval_s`, only the difference, nothing when equal: a
second pass after settling writes nothing. Mere progress after a change of the slice waits that long
too, so that a quick change costs one write. While slices are being expanded, a status without news
that matters waits longer, not to be in their way. A plain Deployment has its native status; what
that cannot say goes into one annotation.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from federator.api import raw
from federator.kinds.labels import MEMBER_STATUS_ANNOTATION
from federator.kube import clock as clocks
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.store import version_number
from federator.member import everynode, gangs, nativefigures, terminating
from federator.member.cache import jobs, rows
from federator.member.cache.rows import NativeRow, SliceRow
from federator.member.cache.stores import Stores, slice_ref
from federator.member.expansion import results
from federator.member.expansion.expanding import Expander
from federator.member.expansion.results import Result
from federator.member.options import MemberOptions
from federator.member.telling import Telling
from federator.member.terminating import Terminating
from federator.model import shards
from federator.model.ask import Unit
from federator.model.ending import FAILURE_POLICY
from federator.model.kubernetes import diffs
from federator.model.names import WorkloadKey
from federator.model.observation import (
    Gang,
    NodeFigures,
    Phase,
    RepeatFigures,
    SliceObservation,
)
from federator.model.shards import Ranges
from federator.model.steps import Patch, RequeueAfter
from federator.status import conditions, health, reasons
from federator.status.conditions import Condition
from federator.status.reasons import Finding

DEADLINE = "ProgressDeadlineExceeded"
_NEW_IN_STATUS = frozenset({"template", "natives", "nodesWithout"})
"""What an earlier version did not write: alone it is no reason for a write, or an upgrade would
write every slice."""
PATIENCE_S = 30.0
"""Seconds that a status without news that matters may wait for slices that are being expanded. News
that matters brings a turn of its own."""
MIN_LOOK_S = 1.0
"""The shortest wait for the next look at a gang, in seconds."""
REFUSAL_LASTS_S = 900.0
"""How old the last word on refused pods may be. A Job's controller tries again each minute at the
latest."""


class Done(NamedTuple):
    """The shards of a slice that have ended, as its status said at our first look and its Jobs have
    said since."""

    uid: str
    completed: Ranges
    failed: Ranges


class RollUp:
    """Writes slice statuses. One per process. `busy` returns whether slices are being expanded."""

    def __init__(
        self,
        caches: Stores,
        expander: Expander,
        applier: Applier,
        *,
        options: MemberOptions,
        clock: Clock,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._caches = caches
        self._expander = expander
        self._applier = applier
        self._options = options
        self._clock = clock
        self.telling = Telling(applier, clock)
        self._busy = busy
        self._written_at_s: dict[WorkloadKey, float] = {}
        self._moving_since_s: dict[WorkloadKey, float] = {}
        """Since when there is something to say of a slice that is still on its way to its present
        generation."""
        self._gang_due_s: dict[WorkloadKey, float] = {}
        """Seconds until a gang has to be looked at again, by its last look."""
        self._written: dict[WorkloadKey, SliceRow] = {}
        """The slice as our last write left it, until the watch has caught up."""
        self._done: dict[WorkloadKey, Done] = {}
        self._terminating = Terminating(caches)

    async def turn(self, key: WorkloadKey) -> RequeueAfter | None:
        """Brings one slice's status up to date. Raises ApiErrors that trying again may help."""
        row = self._caches.slice(key)
        if row is None or row.deleting or self._expander.mark_of(row) is None:
            for book in (self._written_at_s, self._moving_since_s, self._written, self._done):
                book.pop(key, None)
            self._gang_due_s.pop(key, None)
            self._terminating.forget(key)
            return None
        result = self._expander.results.get(key)
        if result is None or result.uid != row.uid:
            return None  # the expander's first turn signals when it is through
        now = self._clock.monotonic()
        due_s = float("-inf")
        if row.verbs.carried:
            patch, interval_s = (
                self._annotation_patch(row, result),
                self._options.annotation_interval_s,
            )
        else:
            (patch, moving, mute), interval_s = (
                self._status_patch(row, result),
                self._options.roll_up_interval_s,
            )
            if moving:
                since_s = self._moving_since_s.setdefault(key, now)
                due_s = since_s + (
                    max(PATIENCE_S, interval_s) if mute and self._busy() else interval_s
                )
        if patch is None:
            return self._later(key)
        interval_s = max(interval_s, terminating.interval_s(patch, row))
        wait_s = max(due_s, self._written_at_s.get(key, float("-inf")) + interval_s) - now
        if wait_s > 0:
            return RequeueAfter(key, wait_s, "statuses are written at most so often")
        was = self._newest(row).obj()
        outcome = await self._applier.apply(patch, key)
        if outcome.gone:
            return None
        if outcome.error is not None:
            raise outcome.error
        self._written_at_s[key] = self._clock.monotonic()
        self._moving_since_s.pop(key, None)
        if outcome.obj is not None:
            self._written[key] = rows.slice_row(key.kind, outcome.obj)
            self.telling.changed(row, *(_conditions(row, obj) for obj in (was, outcome.obj)))
        return self._later(key)

    def _later(self, key: WorkloadKey) -> RequeueAfter | None:
        """The next look at a gang with pending pods, or after a roll-back: no event brings it."""
        due_s = self._gang_due_s.get(key, math.inf)
        if due_s == math.inf:
            return None
        return RequeueAfter(key, max(due_s, MIN_LOOK_S), "pods of a gang wait for each other")

    def _newest(self, row: SliceRow) -> SliceRow:
        """The slice as last heard or written, whichever is newer."""
        written = self._written.get(row.key)
        if written is None:
            return row
        if written.uid == row.uid and version_number(written.resource_version) > version_number(
            row.resource_version
        ):
            return written
        del self._written[row.key]
        return row

    # -- our kinds ------------------------------------------------------------

    def _status_patch(self, row: SliceRow, result: Result) -> tuple[Patch | None, bool, bool]:
        """What to write; whether it only says that the slice is on its way, without trouble; and
        whether it has no news that matters: the last status was not well, and nothing got worse or
        ended."""
        newest = self._newest(row)
        live = raw.mapping(newest.obj(), "status")
        family = self._caches.family_of(row.uid)
        seen = self._observe(row, result, live, family)
        ours = [_ready(seen), *results.conditions_of(result)]
        if seen.stalled:
            ours.append(
                Condition(
                    "Stalled", conditions.TRUE, DEADLINE, seen.message, seen.observed_generation
                )
            )
        if seen.broken:
            # Said as long as the slice is there, whatever becomes of the Job that told it.
            ours.append(
                Condition(
                    "Failed", conditions.TRUE, FAILURE_POLICY, seen.broken, seen.observed_generation
                )
            )
        merged = conditions.merge(
            live.get("conditions"), ours, self._clock.rfc3339(), results.OWNED
        )
        status = row.verbs.slice_status(seen, merged)
        if status is not None:
            status |= raw.present({"natives": nativefigures.natives(family)})
        patch = diffs.replacement_patch(live, status) if status is not None else {}
        if all(name in _NEW_IN_STATUS and name not in live for name in patch):
            return None, False, False
        moving = (
            not seen.healthy
            and not seen.reason
            and raw.integer(live, "observedGeneration") < row.generation
        )
        # The version, because API servers do not compare the uid of a status: what an earlier slice
        # of this name completed must never be told of the present one.
        version = newest.resource_version
        step = Patch(
            slice_ref(row.key), {"status": patch}, "status", uid=row.uid, resource_version=version
        )
        before = row.verbs.observe({"status": live}, "", True)
        moving = moving and (seen.gang is None or seen.gang.phase is _phase(before))
        return step, moving, moving and not before.healthy and _no_less(before, seen)

    def _observe(
        self, row: SliceRow, result: Result, live: Mapping[str, Any], family: list[NativeRow]
    ) -> SliceObservation:
        """What is to be said of the slice now. `live` is its present status, `family` all that it
        was expanded to, and what came of that."""
        natives = [native for native in family if native.owner_uid == row.uid]
        crews = self._caches.crews_of(row, family)
        own_trouble = ("", "")
        if row.verbs.gang is not None:
            figures, own_trouble = self._gang_figures(row, result, family, live)
        elif row.verbs.unit is Unit.SHARDS:
            figures = self._shard_figures(row, natives, live)
        elif row.verbs.repeats is not None:
            figures, own_trouble = self._repeat_figures(row, natives, live)
        else:
            figures = nativefigures.of_replicas(row, natives)
            if row.verbs.every_node:
                figures["nodes"] = self._with_reasons(row, figures["nodes"])
        if row.verbs.ordinals is not None and (mark := self._expander.mark_of(row)) is not None:
            named = row.verbs.ordinals.sets(row.key.name, mark.ranges)
            figures["blocks"] = nativefigures.blocks(named, natives)
        enough, lacks = figures.pop("enough"), figures.pop("lacks", "")
        lacks = lacks or f"{figures['ready']} of {figures['desired']} are ready."
        finding = self.finding(row, crews, complete=enough)
        native_reason, native_message, well = nativefigures.native_health(natives)
        judgement = result.judgement
        if not native_reason and (refusal := self._refusal(family)):
            native_reason, native_message = reasons.REFUSED, refusal
        reason = judgement.reason or own_trouble[0] or finding.reason or native_reason
        message = judgement.message or own_trouble[1] or finding.message or native_message
        observed = result.observed and result.generation == row.generation
        observed = observed and nativefigures.acted_on(natives)
        before = raw.integer(live, "observedGeneration")
        # No other cluster could run what a daemon's node has no room for.
        unschedulable = 0 if row.verbs.every_node else finding.unschedulable
        unbound_s = _epoch_s(finding.unschedulable_since)
        if row.verbs.gang is not None:  # all of it waits, or nothing does
            unschedulable = int(bool(unschedulable or own_trouble[0]))
            unbound_s = unbound_s or figures["gang"].since_s
        figures |= nativefigures.rollout(row, natives, live, observed)
        figures |= self._terminating.of(row, crews, figures)
        return SliceObservation(
            cluster="",
            known=True,
            exists=True,
            uid=row.uid,
            generation=row.generation,
            observed_generation=row.generation if observed else min(before, row.generation),
            healthy=observed and well and enough and not reason,
            reason=reason,
            message=message or ("" if enough else lacks),
            unschedulable=unschedulable,
            unschedulable_since_s=unbound_s if unschedulable else 0.0,
            **figures,
        )

    def _shard_figures(
        self, row: SliceRow, natives: list[NativeRow], live: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Shards: what was once recorded stays recorded, whatever becomes of the Job that told
        it."""
        own = [native for native in natives if native.key[0] == "Job"]
        seen = row.verbs.observe({"status": live}, "", True)
        known = self._done.get(row.key)
        # What somebody else has written since our first look counts for nothing, and is put right.
        if known is not None and known.uid == row.uid:
            completed, failed = known.completed, known.failed
        else:
            completed, failed = seen.completed, seen.failed
        for job in own:
            completed = shards.union(completed, jobs.completed(job))
            failed = shards.union(failed, jobs.failed(job))
        failed = shards.minus(failed, completed)
        self._done[row.key] = Done(row.uid, completed, failed)
        mark = self._expander.mark_of(row)
        mine = shards.normal(mark.ranges) if mark is not None else ()
        active, ready = jobs.running(own)
        left = shards.size(shards.minus(mine, shards.union(completed, failed)))
        return {
            "desired": shards.size(mine),
            "ready": ready,
            "active": active,
            "actual": active,
            "completed": completed,
            "failed": failed,
            "finished": left == 0,
            "broken": seen.broken or next(filter(None, map(jobs.broken, own)), ""),
            "enough": active >= min(left, row.verbs.slots(row.obj())),
        }

    def _gang_figures(
        self, row: SliceRow, result: Result, family: list[NativeRow], live: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, str]]:
        """A gang is one shard: complete or failed with its components, once and for all. Also why
        it was rolled back."""
        verbs, obj = row.verbs.gang, row.obj()
        assert verbs is not None
        before = row.verbs.observe({"status": live}, "", True)
        mark = self._expander.mark_of(row)
        mine = shards.normal(mark.ranges) if mark is not None else ()
        seen = gangs.look(family, verbs.roles(obj), verbs.completes(obj))
        completed, failed = before.completed, before.failed
        if not completed and not failed:
            completed, failed = (mine, ()) if seen.complete else ((), mine if seen.failed else ())
        ended = bool(completed or failed)
        finding = self.finding(row, self._caches.crews_of(row, family))
        waiting_s = _epoch_s(finding.unschedulable_since) if finding.unschedulable else None
        moment = gangs.Moment(
            now_s=self._clock.now(),
            timeout_s=verbs.timeout_s(obj),
            ready_to_begin=result.observed and not result.judgement.reason,
            waiting_since_s=waiting_s,
            uid=mark.workload_uid if mark is not None else row.uid,
        )
        gang, again_s = gangs.advance(before.gang or Gang(), seen, moment)
        self._gang_due_s[row.key] = math.inf if ended else again_s
        runs = not ended and seen.running
        return {
            "desired": shards.size(mine),
            "ready": int(runs and seen.ready),
            "active": int(runs),
            "actual": int(any(role.active for role in seen.roles)),
            "completed": completed,
            "failed": failed,
            "finished": ended,
            "enough": ended or runs,
            "lacks": seen.lacks,
            "gang": gang,
        }, gangs.why_rolled_back(gang, moment.uid) if not ended else ("", "")

    def _repeat_figures(
        self, row: SliceRow, natives: list[NativeRow], live: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, str]]:
        """What the cluster runs by itself: there once its CronJob is, whether a run is active or
        not. The times that were once recorded stay, whatever becomes of the CronJob that told them.
        Also why its last run failed."""
        assert row.verbs.repeats is not None
        before = row.verbs.observe({"status": live}, "", True).repeats or RepeatFigures()
        crons = [native for native in natives if native.key[0] == "CronJob"]
        runs = [run for cron in crons for run in self._caches.natives_of(cron.uid)]
        copies = row.verbs.count(row.obj()) if crons else 0
        last_s = _latest_s(crons, "lastScheduleTime")
        if last_s <= row.verbs.repeats.after(row.obj()):
            last_s = 0  # where it was told to begin: nothing has run yet
        figures = RepeatFigures(
            active=sum(len(raw.items(cron.status, "active")) for cron in crons),
            last_s=max(before.last_s, last_s),
            done_s=max(before.done_s, _latest_s(crons, "lastSuccessfulTime")),
            stopped=all(raw.flag(cron.spec, "suspend") for cron in crons),
        )
        self._expander.ran(row.key, figures.last_s)
        return {
            "desired": row.verbs.count(row.obj()),
            "ready": copies,
            "updated": copies,
            "actual": copies,
            "repeats": figures,
            "enough": bool(crons),
            "lacks": "It has no CronJob yet.",
        }, jobs.failed_run(runs, row.verbs.repeats.due_of)

    def _with_reasons(self, row: SliceRow, figures: NodeFigures) -> NodeFigures:
        """The figures of a daemon, with the nodes that still have its start-up taint, and why nodes
        do not have it."""
        nodes = [node for _, node in sorted(self._caches.nodes.items().items())]
        asks = row.verbs.startup_taint
        taint = asks(row.obj()) if asks is not None else None
        starting = sum(taint in node.taints for node in nodes) if taint is not None else 0
        if figures.ready >= len(nodes):
            return replace(figures, starting=starting)
        crews = set(self._caches.crews_of(row))
        pods = {
            pod.node: pod
            for pod in self._caches.pods.items().values()
            if pod.controller_uid in crews and not pod.ended
        }
        pod_spec = raw.mapping(row.verbs.pod_template(row.obj()), "spec")
        return replace(figures, starting=starting, without=everynode.without(pod_spec, nodes, pods))

    def _refusal(self, natives: list[NativeRow]) -> str:
        """Why the API server takes no pods of a Job: no status of a Job says it."""
        since_s = self._clock.now() - REFUSAL_LASTS_S
        lacking = (
            native for native in natives if native.key[0] == "Job" and jobs.lacks_pods(native)
        )
        return next(filter(None, (self._caches.refusal(job.uid, since_s) for job in lacking)), "")

    def finding(self, row: SliceRow, crews: Sequence[str], *, complete: bool = False) -> Finding:
        """The first useful reason over the slice's pods, which these controllers have made.
        `complete`: no copy and no shard of it is missing."""
        commitments = self._caches.commitments
        troubles = [trouble for crew in crews for trouble in commitments.troubles(crew)]
        if not complete:
            troubles += self._caches.mount_troubles(row.key.namespace, crews)
        return reasons.first(troubles, complete=complete)

    # -- plain Deployments ----------------------------------------------------

    def _annotation_patch(self, row: SliceRow, result: Result) -> Patch | None:
        """Says in an annotation what the native status cannot: why pods are not ready. Removed when
        there is nothing to say."""
        live = self._newest(row).obj()
        crews, judgement = self._caches.crews_of(row), result.judgement
        finding = self.finding(row, crews, complete=health.of(live).healthy)
        status: dict[str, Any] = {}
        if reason := judgement.reason or finding.reason:
            mark = self._expander.mark_of(row)
            status = {"message": judgement.message or finding.message, "reason": reason}
            status |= {"seq": mark.seq} if mark is not None else {}
        if finding.unschedulable:
            status["unschedulable"] = {
                "count": finding.unschedulable,
                "since": finding.unschedulable_since,
            }
        if ending := self._terminating.of_carried(row, crews, live):
            status["terminating"] = ending
        text = json.dumps(status, sort_keys=True, separators=(",", ":")) if status else None
        annotations = raw.mapping(live, "metadata", "annotations")
        if annotations.get(MEMBER_STATUS_ANNOTATION) == text:
            return None
        body = {"metadata": {"annotations": {MEMBER_STATUS_ANNOTATION: text}}}
        return Patch(slice_ref(row.key), body, uid=row.uid)


def _phase(seen: SliceObservation) -> Phase:
    return seen.gang.phase if seen.gang is not None else Phase.ADMITTING


def _conditions(row: SliceRow, obj: Mapping[str, Any]) -> list[raw.Obj]:
    """The conditions of a slice; of a carried object, what our note on it comes to."""
    if not row.verbs.carried:
        return raw.objects(obj, "status", "conditions")
    seen = row.verbs.observe(obj, "", True)
    status, reason = (conditions.FALSE, seen.reason) if seen.reason else (conditions.TRUE, "Ready")
    return [{"type": "Ready", "status": status, "reason": reason, "message": seen.message}]


def _no_less(before: SliceObservation, seen: SliceObservation) -> bool:
    """Whether no copy fewer is ready than was told, and no shard more has ended."""
    ended = (before.completed, before.failed) == (seen.completed, seen.failed)
    return ended and seen.ready >= before.ready and seen.active >= before.active


def _ready(seen: SliceObservation) -> Condition:
    """Whether this cluster's part is as it should be."""
    generation = seen.observed_generation
    if seen.healthy:
        done = seen.finished and seen.desired > 0
        return Condition("Ready", conditions.TRUE, "Completed" if done else "Ready", "", generation)
    return Condition(
        "Ready", conditions.FALSE, seen.reason or "Progressing", seen.message, generation
    )


def _latest_s(natives: list[NativeRow], field: str) -> int:
    return max((int(raw.epoch_s(raw.text(native.status, field))) for native in natives), default=0)


def _epoch_s(stamp: str) -> float:
    try:
        return clocks.parse(stamp)
    except ValueError:
        return 0.0
