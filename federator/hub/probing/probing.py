"""Probes clusters with workloads while this hub leads: on request, at the gate of a
ClusterStandard, and on a schedule. `stages` decides, and this carries it out.

The workloads of a probe take the way of all workloads: placing, quota, dispatching, the member
process. A run lives in memory alone. A new leader finds what the former one made by its label,
removes it, and begins again where a probe is still due.
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import maintenance, memberfields, raw
from federator.api.membercluster import Removal
from federator.hub.cache.router import MemberChanged, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.probing import stages
from federator.hub.probing.stages import (
    RETRY_S,
    SEVERITY,
    Cause,
    Do,
    Probe,
    ProbeEnd,
    ProbeSight,
    Result,
    Room,
    Want,
    Work,
)
from federator.hub.records.workloads import Workload
from federator.kinds import probes
from federator.kinds.verbs import DEFAULT_PROFILE
from federator.kube import errors
from federator.kube.control.applier import StepResult
from federator.kube.control.work_queue import WorkQueue
from federator.kube.metrics import Samples
from federator.model import names, plaintext
from federator.model.ask import Tier
from federator.model.names import WorkloadKey
from federator.model.steps import Create, Delete, Patch, RequeueAfter
from federator.placement.room import capacity

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Between two looks at a probe that runs."""
TURN_S: Final = 5.0
"""Between two looks of a cluster that waits until others are probed."""
FAILED: Final = "federator_workload_probe_failed"
PROBES: Final = "federator_workload_probes_total"


@dataclass(slots=True)
class Run:
    """A probe of one cluster in all its tiers."""

    uid: str
    """Of its MemberCluster."""
    request: str
    began: str
    """RFC 3339."""
    image: str
    parts: dict[Tier, Probe] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return all(probe.over for probe in self.parts.values())


class Probing(Controller):
    """Keys of its queue are names of clusters. Owns the workloads in the namespace of probes."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("probing")
        self._runs: dict[str, Run] = {}
        self._failed: dict[str, bool] = {}
        """Cluster -> whether its last probe failed."""
        self.state.signals.on_member(MemberTurn.PROBE, lambda member: self.queue.add(member.name))
        self.state.signals.resumed.append(self.look_everywhere)

    async def run(self) -> None:
        """Serves the queue until cancelled, while this hub leads."""
        self._runs.clear()
        self.look_everywhere()
        for workload in self._made():
            self.queue.add(workload.labels[names.PROBE_LABEL])
        try:
            await self.queue.run(self.turn, workers=4)
        finally:
            self._runs.clear()
            self._failed.clear()
            self._publish()

    def look_everywhere(self) -> None:
        for name in sorted(self.state.members):
            self.queue.add(name)

    async def turn(self, name: str) -> RequeueAfter | None:
        """One cluster: what its probe needs now, or whether one is due. Raises ApiErrors."""
        if not self.state.ready:
            return None
        run, member = self._runs.get(name), self.state.members.get(name)
        if run is not None:
            await self._go_on(name, run)
            if run.over:
                del self._runs[name]
                self._tell(name, run)
            return RequeueAfter(name, LOOK_S, "its probe goes on")
        left = [made.key for made in self._made() if made.labels[names.PROBE_LABEL] == name]
        if left:
            for key in left:
                await self._delete(key)
            return RequeueAfter(name, LOOK_S, "what an earlier probe made is being removed")
        return self._begin(member) if member is not None else None

    def _made(self) -> Iterator[Workload]:
        """What probes have made and the host still has."""
        for key in self.state.workloads_in(names.PROBES):
            workload = self.state.workloads.get(key)
            if workload is not None and names.PROBE_LABEL in workload.labels:
                yield workload

    # -- beginning ---------------------------------------------------------------------------------

    def _begin(self, member: Member) -> RequeueAfter | None:
        """Begins a probe when one is due."""
        name, last = member.name, raw.mapping(member.obj, "status", "probe")
        cause, left_s = stages.due(self._want(member), last, self.clock.now())
        if cause is None:
            if raw.text(last, "runningSince"):
                self._say(member, {"runningSince": None})  # it began with a former leader
            until_s = min(left_s, RETRY_S)  # a clock may be set
            return RequeueAfter(name, until_s, "its next probe") if left_s < 1e9 else None
        why = self._unable(member)
        request, now = self._request(member), self.clock.rfc3339()
        tiers = self._tiers(member)
        if why:
            if cause is Cause.ASKED:
                verdict = ProbeEnd(Result.NOT_RUN, None, why)
                self._report(member, request, now, dict.fromkeys(tiers or Tier, verdict))
            return None if cause is not Cause.SCHEDULE else self._later(name, RETRY_S)
        if any(self.state.records_of(key) for tier in Tier for key in _keys(name, tier)):
            return RequeueAfter(name, LOOK_S, "what an earlier probe left is being removed")
        if len(self._runs) >= self.state.options.workload_probes_at_once:
            return self._later(name, TURN_S)
        run = self._runs[name] = Run(_uid(member), request, now, self._image())
        for tier in tiers:
            run.parts[tier] = stages.begun(tier, self.clock.monotonic())
        log.info("probing %s in %s (%s)", name, ", ".join(tiers), cause)
        self._say(member, {"runningSince": now})
        return RequeueAfter(name, 0.0, "its probe begins")

    def _later(self, name: str, after_s: float) -> RequeueAfter:
        return RequeueAfter(name, after_s, "it waits for its turn")

    def _want(self, member: Member) -> Want:
        wish = self.state.probe_wish(member)
        ready = raw.text(raw.condition(member.obj, "Ready"), "status") == "True"
        return Want(
            request=self._request(member),
            waits=wish.gate and ready and bool(memberfields.unproven(member.obj)),
            every_s=wish.every_s or self.state.options.workload_probe_interval_s,
        )

    def _request(self, member: Member) -> str:
        """The request that was not dealt with yet; "" for none."""
        asked = raw.text_map(member.obj["metadata"], "annotations").get(names.PROBE_ANNOTATION, "")
        handled = (member.vitals.probe or {}).get("request")
        handled = handled or raw.text(member.obj, "status", "probe", "request")
        asked = plaintext.clipped(asked, plaintext.STATUS_MAX)
        return asked if asked != handled else ""

    def _tiers(self, member: Member) -> list[Tier]:
        """The tiers that are probed: those of the standards that the cluster takes."""
        wanted = self.state.probe_wish(member).tiers or frozenset(Tier)
        taken = raw.texts(member.obj, "spec", "tiers") or list(Tier)
        return [tier for tier in Tier if tier in wanted and tier in taken]

    def _unable(self, member: Member) -> str:
        """Why the cluster cannot be probed now, as a sentence; "" when it can."""
        why = self._halted(member)
        if why:
            return why
        if not self._tiers(member):
            return "The cluster takes none of the tiers that its ClusterStandards name."
        ready, trouble = member.readiness()
        return "" if ready else f"The cluster is not ready: {trouble}."

    def _halted(self, member: Member | None) -> str:
        """Why no probe may go on in the cluster, as a sentence; "" when it may. A cluster that
        falls silent halts none: it fails the stage that it is in."""
        if member is None:
            return "The cluster has left the federation."
        if self.state.paused:
            return "The federation is paused."
        if member.removal is not Removal.NONE:
            return "The cluster is being removed."
        if member.drain is not None:
            return "The cluster is being drained."
        closed = maintenance.closed(member.obj, self.clock.now())
        return f"The cluster {closed}." if closed else ""

    def _image(self) -> str:
        """The image of a probe's pods."""
        entry = self.state.profiles.get(DEFAULT_PROFILE)
        profile = entry["object"] if entry is not None else None
        return probes.image_of(self.state.options.workload_probe_image, profile)

    # -- going on ----------------------------------------------------------------------------------

    async def _go_on(self, name: str, run: Run) -> None:
        member = self.state.members.get(name)
        if member is not None and _uid(member) != run.uid:
            member = None  # another cluster has joined under its name
        for tier, before in list(run.parts.items()):
            seen = self._seen(name, tier, member)
            probe, do = stages.step(before, seen, self.clock.monotonic())
            run.parts[tier] = await self._carry_out(name, run, probe, do)

    def _seen(self, name: str, tier: Tier, member: Member | None) -> ProbeSight:
        works = {key.kind: self._work(key, member) for key in _keys(name, tier)}
        room = self._room(probes.key_of(probes.SERVICE, name, tier), member)
        silence = ""
        if member is not None and not member.heard:
            silence = member.readiness()[1] or "the cluster is not heard"
        return ProbeSight(
            service=works[probes.SERVICE],
            jobs=works[probes.JOB_SET],
            traces=any(self.state.records_of(key) for key in _keys(name, tier)),
            room=room,
            silence=silence,
            halted=self._halted(member),
        )

    def _work(self, key: WorkloadKey, member: Member | None) -> Work | None:
        workload = self.state.workloads.get(key)
        if workload is None:
            return None
        row = member.contents.slice_of(key) if member is not None else None
        return work_of(workload, row.observation.unschedulable > 0 if row is not None else False)

    def _room(self, key: WorkloadKey, member: Member | None) -> Room | None:
        workload = self.state.workloads.get(key)
        report = member.contents.report if member is not None else None
        if workload is None or workload.ask is None or report is None:
            return None
        rows, shape = report.capacity.rows, workload.ask.shape
        empty = [dataclasses.replace(row, free=row.allocatable) for row in rows]
        return Room(capacity.copies(rows, shape) > 0, capacity.copies(empty, shape) > 0)

    async def _carry_out(self, name: str, run: Run, probe: Probe, do: Do | None) -> Probe:
        """Carries out what is to be done; returns the probe as it is after that."""
        tier, image = probe.tier, run.image
        match do:
            case None:
                return probe
            case Do.REMOVE:
                for key in _keys(name, tier):
                    await self._delete(key)
                return probe
            case Do.MAKE_SERVICE:
                outcome = await self._create(probes.service(name, tier, image))
            case Do.MAKE_JOBS:
                outcome = await self._create(probes.jobs(name, tier, image))
            case Do.ROLL:
                key = probes.key_of(probes.SERVICE, name, tier)
                body = probes.next_revision(name, tier, image)
                outcome = await self.applier.apply(Patch(probes.ref_of(key), body), key)
                if outcome.obj is not None:
                    return stages.rolled(probe, raw.integer(outcome.obj, "metadata", "generation"))
        error = outcome.error
        if error is None or error.transient or isinstance(error, errors.AlreadyExists):
            return probe
        return stages.refused(probe, str(error), self.clock.monotonic())

    async def _create(self, obj: Mapping[str, Any]) -> StepResult:
        key = names.key(obj["kind"], names.PROBES, obj["metadata"]["name"])
        return await self.applier.apply(Create(probes.ref_of(key), obj), key)

    async def _delete(self, key: WorkloadKey) -> None:
        workload = self.state.workloads.get(key)
        if workload is None or workload.deleting:
            return
        outcome = await self.applier.apply(Delete(probes.ref_of(key), workload.uid), key)
        if outcome.error is not None and not outcome.gone and not outcome.error.transient:
            log.warning("the probe %s could not be deleted: %s", key, outcome.error)

    # -- telling -----------------------------------------------------------------------------------

    def _tell(self, name: str, run: Run) -> None:
        member = self.state.members.get(name)
        if member is None or _uid(member) != run.uid:
            return
        verdicts = {tier: probe.verdict for tier, probe in run.parts.items()}
        known = {tier: verdict for tier, verdict in verdicts.items() if verdict is not None}
        self._report(member, run.request, run.began, known)

    def _report(
        self, member: Member, request: str, began: str, verdicts: Mapping[Tier, ProbeEnd]
    ) -> None:
        """Writes down what came of a probe, and tells people of a change."""
        worst = max(verdicts.values(), key=lambda verdict: SEVERITY.index(verdict.result))
        news = fields_of(verdicts, worst)
        news |= {"startedAt": began, "finishedAt": self.clock.rfc3339(), "runningSince": None}
        if request:
            news["request"] = request
        if worst.result is Result.PASSED:
            news["passedAt"] = began
        before = raw.word(raw.mapping(member.obj, "status", "probe"), "result")
        log.info("probe of %s: %s %s", member.name, worst.result, worst.message)
        if worst.result is Result.FAILED and before != worst.result:
            self.events.drain(member, "ProbeFailed", news["message"], warning=True)
        elif worst.result is Result.PASSED and before == Result.FAILED:
            self.events.drain(member, "ProbePassed", "Its probe passes again.")
        if self.state.metrics is not None:
            self.state.metrics.child(PROBES, member.name, worst.result.value).inc()
        if worst.result is not Result.NOT_RUN:
            self._failed[member.name] = worst.result is Result.FAILED
        self._publish()
        self._say(member, news)

    def _say(self, member: Member, news: Mapping[str, Any]) -> None:
        member.vitals.observe_probe(news)
        self.state.signals.member_changed(MemberChanged.SAID, member)

    def _publish(self) -> None:
        if self.state.metrics is not None:
            self._failed = {
                name: failed for name, failed in self._failed.items() if name in self.state.members
            }
            samples: Samples = {
                FAILED: {(name,): float(failed) for name, failed in self._failed.items()}
            }
            self.state.metrics.publish(samples)


def fields_of(verdicts: Mapping[Tier, ProbeEnd], worst: ProbeEnd) -> dict[str, Any]:
    """Results as fields of `status.probe`; empty texts are None."""
    tier = next(tier for tier, verdict in verdicts.items() if verdict is worst)
    message = f"{tier.value}: {worst.message}" if worst.message and worst.stage else worst.message
    return {
        "result": worst.result.value,
        "stage": worst.stage.value if worst.stage is not None else None,
        "message": plaintext.clipped(message) or None,
        "tiers": [
            {
                "tier": tier.value,
                "result": verdict.result.value,
                **raw.present(
                    {
                        "stage": verdict.stage.value if verdict.stage is not None else "",
                        "message": plaintext.clipped(verdict.message),
                    }
                ),
            }
            for tier, verdict in verdicts.items()
        ],
    }


def work_of(workload: Workload, unschedulable: bool) -> Work:
    """A workload of a probe by its status on the host."""
    status = workload.live_status()
    placed, ready = (raw.condition({"status": status}, kind) for kind in ("Placed", "Ready"))
    rows = raw.objects(status, "clusterStatuses")
    row = rows[0] if rows else raw.NO_FIELDS
    refused = raw.text(placed, "status") == "False"
    said = raw.text(placed, "message") if refused else raw.text(row, "message")
    return Work(
        generation=workload.generation,
        observed=raw.integer(status, "observedGeneration"),
        placed=raw.figure(status, "placed"),
        actual=raw.figure(status, "replicas"),
        ready=raw.figure(status, "ready"),
        updated=raw.figure(status, "updatedReplicas"),
        done=raw.figure(status, "done"),
        failed=raw.figure(status, "failed"),
        refusal=raw.word(placed, "reason") if refused else "",
        unschedulable=unschedulable,
        message=said or raw.sentence(ready, "message"),
    )


def _keys(cluster: str, tier: Tier) -> list[WorkloadKey]:
    return [probes.key_of(kind, cluster, tier) for kind in probes.KINDS]


def _uid(member: Member) -> str:
    return raw.text(member.obj, "metadata", "uid")
