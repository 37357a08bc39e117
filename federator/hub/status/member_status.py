"""Writes MemberCluster.status from what the hub knows of a member.

Written on change only; capacity figures when they moved by more than a percent or include later
decisions, at most every half minute. No status contains a heartbeat.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from federator.api import (
    capacityfields,
    membercluster,
    raw,
    tainttimes,
)
from federator.api.membercluster import UNTRUSTWORTHY, Removal
from federator.hub.cache import restored
from federator.hub.cache.router import Changed, MemberChanged, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members import member_conditions
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.status import probe_status
from federator.kinds import registry
from federator.kube import clock as clocks
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import names, plaintext
from federator.model.fleet import Capacity
from federator.model.kubernetes import diffs
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.model.steps import RequeueAfter
from federator.scheduling.governor import Health
from federator.status import conditions
from federator.status.conditions import Condition

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""Seconds between two searches for unknown slices; two searches in a row make a finding."""
LOOK_ALL_S = 600.0
"""Seconds between two searches through all slices. Others look only at slices that have changed, or
have lost what accounts for them: a search through 100,000 takes half a second of a processor."""
LOOK_BATCH = 2000
"""Slices examined before other work gets its turn."""
OWNED = ("Ready", UNTRUSTWORTHY, *member_conditions.OWNED)
SETTLE_S = 0.5
"""Figures that arrive within so many seconds are written together."""


class Reporting(Controller):
    """Writes the status of MemberClusters."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.reports: WorkQueue[str] = self.new_queue("reporting")
        self._look_due: dict[str, float] = {}
        self._looked_at_all: dict[str, tuple[frozenset[str], float]] = {}
        """Member -> uids that were forgotten at the last search through all slices, and when."""
        self._figures_due: dict[str, float] = {}
        signals = self.state.signals
        signals.on_member(MemberTurn.REPORT, self.changed)
        signals.on_member(MemberTurn.FIGURES, self.counted)

    def changed(self, member: Member) -> None:
        self.reports.add(member.name)

    def counted(self, member: Member) -> None:
        """Its number of slices changed. Figures are written at intervals."""
        due_s = self._figures_due.get(member.name, 0.0) - self.clock.monotonic()
        self.reports.add_after(member.name, max(due_s, SETTLE_S))

    async def run(self) -> None:
        """Serves the queue until cancelled."""
        await self.reports.run(self.report, workers=8)

    async def report(self, name: str) -> RequeueAfter | None:
        """Brings one MemberCluster's status up to date."""
        member = self.state.members.get(name)
        if member is None or not (member.known_or_unknown or member.link.reachability.trusted):
            return None
        live = member.obj.get("status") or {}
        if (patience_s := self._patience(member, live)) > 0:
            return RequeueAfter(
                name,
                patience_s,
                "it may still be heard, and what it holds be listed: that is no loss yet",
            )
        await self._look_for_strangers(member)
        self._heed_pardon(member, live)
        want = self._probed(member, live, self._verdict(member, live))
        wait_s = 0.0
        figures = self._figures(member, live)
        if figures:
            wait_s = max(0.0, self._figures_due.get(name, 0.0) - self.clock.monotonic())
            want |= {} if wait_s else figures
        patch = diffs.replacement_patch(live, self._without_drain(member, {**live, **want}))
        member.observe_reported()
        if patch:
            meta = member.obj["metadata"]
            body = {
                "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
                "status": patch,
            }
            try:
                ref = registry.KINDS["MemberCluster"].ref("", name)
                self.state.observe_member(
                    member, await self.host.patch(ref, body, subresource="status")
                )
                self._tell_turn(member, live, want)
            except errors.NotFound:
                return None
            except errors.Conflict:
                # What is known of it is old, and a silent watch would keep it so for minutes (F15).
                answer = await self.host.get(ref)
                if answer["metadata"].get("uid") == meta["uid"]:
                    member.observe_object(answer)
                raise
        if figures and not wait_s:
            self._figures_due[name] = (
                self.clock.monotonic() + self.state.options.capacity_copy_interval_s
            )
        if wait_s:
            return RequeueAfter(
                name, min(wait_s, LOOK_S), "figures are copied at most twice a minute"
            )
        return RequeueAfter(name, LOOK_S, "slices without a workload are searched")

    def _without_drain(self, member: Member, status: dict[str, Any]) -> dict[str, Any]:
        """The status without the figures of a drain that nobody wishes any more."""
        lost = membercluster.declared_dead(member.obj) or membercluster.unreachable(member.obj)
        wished = member.drain is not None or lost
        if member.vitals.drained is None and not wished:
            status.pop("drain", None)
        return status

    def _heed_pardon(self, member: Member, live: Mapping[str, Any]) -> None:
        """An operator trusts a cluster again. The request names the time of the verdict that it
        ends, so that it ends no later one."""
        doubt = conditions.find(live.get("conditions"), UNTRUSTWORTHY) or {}
        word = raw.text_map(member.obj["metadata"], "annotations").get(names.TRUST_ANNOTATION, "")
        if member.trust.held_against is None or not word or word != doubt.get("lastTransitionTime"):
            return
        for subject in member.trust.pardon():
            if isinstance(subject, WorkloadKey):
                # a member that still contradicts itself is marked again
                self.state.changed(Changed.PARDONED, subject)
        self.state.heard_seq(member, member.recount_seq(), self.clock.monotonic())
        self.state.signals.member_changed(MemberChanged.DOUBTED, member)

    def _patience(self, member: Member, live: Mapping[str, Any]) -> float:
        """Seconds for which a member that was Ready before this process started is not yet called
        lost (F22, F27), or one that answers but cannot be listed is not called NotReporting."""
        now = self.clock.monotonic()
        since_s = member.observe_content(known=member.known_or_unknown, now_s=now)
        if not member.known_or_unknown:
            return since_s + self.state.options.unready_after_s - now
        if member.link.reachability.heard_at_s is not None or member.link.reason not in (
            "Unreachable",
            "AuthFailed",
        ):
            return 0.0
        if not conditions.is_true(live.get("conditions"), "Ready"):
            return 0.0
        return member.link.reachability.patience_s(self.state.options.unready_after_s)

    async def _look_for_strangers(self, member: Member) -> None:
        """Counts, at intervals, the slices that nothing on the host accounts for (F51)."""
        now = self.clock.monotonic()
        if not (self.state.ready and member.heard) or now < self._look_due.get(member.name, now):
            return
        self._look_due[member.name] = now + LOOK_S - SETTLE_S
        forgotten = frozenset(
            raw.text(entry, "workloadUID")
            for entry in raw.objects(member.obj, "status", "forgotten")
        )
        strangers: list[WorkloadKey] = []
        for number, key in enumerate(self._to_search(member, forgotten, now)):
            if number % LOOK_BATCH == LOOK_BATCH - 1:
                await asyncio.sleep(0)
            seen = member.contents.slice_of(key)
            if (
                seen is not None
                and seen.mark is not None
                and seen.mark.workload_uid not in forgotten
            ):
                strangers += [key] if restored.is_stranger(self.state, member, key) else []
        member.vitals.note_strangers(strangers)

    def _to_search(
        self, member: Member, forgotten: frozenset[str], now_s: float
    ) -> list[WorkloadKey]:
        """The slices that may be strangers: all of them now and then; those that have changed
        since, and those that were strangers at the last search."""
        touched = member.contents.take_touched()
        uids, looked_s = self._looked_at_all.get(member.name, (forgotten, -math.inf))
        if touched is None or uids != forgotten or now_s - looked_s >= LOOK_ALL_S:
            self._looked_at_all[member.name] = forgotten, now_s
            return member.contents.slice_keys()
        return sorted(touched | member.vitals.met)

    def _figures(self, member: Member, live: Mapping[str, Any]) -> dict[str, Any]:
        """The capacity figures to show, if they have changed; empty otherwise. Copied at
        intervals."""
        fields: dict[str, Any] = {}
        slices = member.contents.slices_held
        if member.heard and live.get("slices") != slices:
            fields["slices"] = slices
        rate = member.vitals.success
        shown = {"percent": rate.shown // 10, "avoided": rate.avoided}
        known = live.get("success")
        if rate.as_of_s is not None and known != shown and (known or rate.shown < 1000):
            fields["success"] = shown
        if member.contents.report is not None:
            fresh, copied = member.contents.report.capacity, live.get("capacity")
            permille = self.state.options.capacity_copy_permille
            grows = bool(raw.objects(member.obj, "spec", "scaleUp"))
            if copied is None or moved(
                capacityfields.to_capacity(copied), fresh, permille, grows=grows
            ):
                fields["capacity"] = capacityfields.from_capacity(fresh, as_of_s=self.clock.now())
        return fields

    def _verdict(self, member: Member, live: Mapping[str, Any]) -> dict[str, Any]:
        """Whether it accepts new work, and its identity."""
        ready, why = member.readiness()
        unknown = (
            member.link.reachability.state is Reachability.UNREACHABLE
            or member.unready_reason == membercluster.NOT_ASKED
        )
        state = conditions.TRUE if ready else conditions.UNKNOWN if unknown else conditions.FALSE
        reason = "Ready" if ready else member.unready_reason
        condition = Condition(
            "Ready", state, reason, "" if ready else f"{why[:1].upper()}{why[1:]}."
        )
        doubt = member.trust.condition()
        shown = (condition, *([doubt] if doubt is not None else ()), *member.vitals.conditions())
        # Of a removal that began before this process did, what was said stands until it is looked
        # at.
        begun = member.removal is not Removal.NONE and member.vitals.removal is None
        unseen = member.vitals.drain is None
        kept = {
            "Removing": begun,
            membercluster.DRAINING: unseen and member.drain is not None,
            membercluster.DEAD: unseen and membercluster.declared_dead(member.obj),
            membercluster.FAILING_OVER: unseen and membercluster.unreachable(member.obj),
            membercluster.MAINTENANCE: member.vitals.maintenance is None
            and bool(raw.objects(member.obj, "spec", "maintenance")),
        }
        owned = tuple(kind for kind in OWNED if not kept.get(kind))
        heard = self._last_heard(member, live)
        return {
            **({"lastHeard": heard} if heard or "lastHeard" in live else {}),
            "observedGeneration": member.obj["metadata"].get("generation", 0),
            "conditions": conditions.merge(
                live.get("conditions"), shown, self.clock.rfc3339(), owned
            ),
            **({"drain": drained} if (drained := member.vitals.drained) is not None else {}),
            **self._taints(member, live),
            "unknownSlices": len(member.vitals.strangers),
            "clusterUID": member.link.uid
            if member.link.uid == member.identity
            else live.get("clusterUID", ""),
            "hostUID": member.other_host,
            "version": member.link.version or live.get("version", ""),
            "apis": sorted(member.link.apis) or live.get("apis") or [],
            "summary": plaintext.clipped(
                member.vitals.removal.message
                if member.vitals.removal
                else _ready(member)
                if ready
                else why,
                plaintext.STATUS_MAX,
            ),
        }

    def _taints(self, member: Member, live: Mapping[str, Any]) -> dict[str, Any]:
        """When taints of people were seen first; and the hub's own. That of a cluster that is
        unreachable is set once and goes when it answers, also before the governor looks again,
        which looks at no cluster that is being removed; until it has looked first, what a former
        leader set stands."""
        times = tainttimes.times(member.obj, live, self.clock.rfc3339())
        timed = {"taintTimes": times} if times or raw.objects(live, "taintTimes") else {}
        has = bool(raw.objects(live, "taints"))
        if member.health is Health.UNREACHABLE and not has and not member.is_current:
            return {"taints": membercluster.hub_taint(self.clock.rfc3339()), **timed}
        return {"taints": [], **timed} if has and member.is_current else timed

    def _probed(
        self, member: Member, live: Mapping[str, Any], want: Mapping[str, Any]
    ) -> dict[str, Any]:
        gated, now = self.state.gated(member), self.clock.rfc3339()
        return probe_status.with_probe(member, live, want, gated=gated, now=now)

    def _tell_turn(self, member: Member, live: Mapping[str, Any], want: Mapping[str, Any]) -> None:
        if probe_status.opened(live, want):
            self.state.signals.member_changed(MemberChanged.OPENED, member)
        was, now = (
            conditions.find(status.get("conditions"), "Ready") or {} for status in (live, want)
        )
        before, after = was.get("status") == conditions.TRUE, now.get("status") == conditions.TRUE
        doubted, doubt = (
            conditions.find(status.get("conditions"), UNTRUSTWORTHY) or {}
            for status in (live, want)
        )
        if doubt and not doubted:
            self.events.turned(member, UNTRUSTWORTHY, str(doubt.get("message", "")), lost=True)
        if after and not before and was:
            self.events.turned(
                member, "Ready", f"Reachable again, after {was.get('reason', '')}.", lost=False
            )
        elif before and not after:
            self.events.turned(
                member, str(now.get("reason", "")), str(now.get("message", "")), lost=True
            )

    def _last_heard(self, member: Member, live: Mapping[str, Any]) -> str | None:
        """When a silent member, or a member with a silent member process, was last heard; None
        while neither is silent."""
        if member.is_current:
            return member.process.silent_since or None
        if (
            isinstance(last_heard := live.get("lastHeard"), str)
            or member.link.reachability.heard_at_s is None
        ):
            return last_heard
        return clocks.stamp(
            self.clock.now() - (self.clock.monotonic() - member.link.reachability.heard_at_s)
        )


def _ready(member: Member) -> str:
    """The summary of a member that accepts work, or would, but for its drain or a contradiction."""
    drain, maintenance = member.vitals.drain, member.vitals.maintenance
    state = f"Untrustworthy ({member.trust.why})" if member.trust.why else "Ready"
    if drain is not None:
        return f"{state}; {drain.reason}: {drain.message}"
    if maintenance is not None and maintenance.reason in ("Announced", "UnderWay"):
        return f"{state}; Maintenance {maintenance.reason}: {maintenance.message}"
    return state


def moved(before: Capacity, after: Capacity, permille: int, *, grows: bool = False) -> bool:
    """Whether a plan made from `before` would be wrong by more than a little: other decisions that
    are included, which the plan would charge again, other machines or taints, a shape that fits no
    longer or again, what a namespace allows, or free room that differs by more than so many
    thousandths of the allocatable.
    Copies that fit follow from the room and are not worth a write of their own. `grows`: it states
    nodes that it can add, so pods that wait for some count too.

    With 100 CPU allocatable and 10 permille, free room of 40.0 to 41.1 CPU has moved; 40.0 to 40.9
    has not.
    """
    if before.includes_seq != after.includes_seq:
        return True
    if before.copies.keys() != after.copies.keys() or before.allocatable != after.allocatable:
        return True
    if any(bool(count) != bool(after.copies[shape]) for shape, count in before.copies.items()):
        return True
    if _machines(before) != _machines(after) or before.machines != after.machines:
        return True
    if grows and before.waiting != after.waiting:
        return True
    if before.rules != after.rules or before.quotas != after.quotas:
        return True
    total, difference = after.allocatable, _spread(before.free, after.free)
    return any(
        amount * 1000 > permille * max(total[name], 1) for name, amount in difference.items()
    )


def _machines(capacity: Capacity) -> Counter[tuple[str, str, tuple[Taint, ...]]]:
    """Number of nodes by GPU model, family and taints."""
    machines: Counter[tuple[str, str, tuple[Taint, ...]]] = Counter()
    for row in capacity.rows:
        machines[row.model, row.family, tuple(sorted(row.taints))] += row.count
    return machines


def _spread(left: Resources, right: Resources) -> Resources:
    return Resources({name: abs(left[name] - right[name]) for name in left.keys() | right.keys()})
