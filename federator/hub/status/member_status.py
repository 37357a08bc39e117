"""Writes MemberCluster.status from what the hub knows of a member, and into its ClusterCapacity
what the hub asks.

Written on change only; capacity figures when they moved by more than a percent or include later
decisions, at most every half minute. No status contains a heartbeat.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from federator.api import (
    clustercapacity,
    federatedquota,
    membercluster,
    memberfields,
    raw,
    tainttimes,
)
from federator.api.membercluster import UNTRUSTWORTHY, Removal
from federator.hub.cache import restored
from federator.hub.cache.router import Changed, MemberChanged, MemberTurn
from federator.hub.cache.state import HubState
from federator.hub.members import claims, member_conditions
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.status import probe_status
from federator.kinds import registry
from federator.kube import client as clients
from federator.kube import clock as clocks
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.control.work_queue import WorkQueue
from federator.model import names, plaintext
from federator.model.accounts import QuotaAccount
from federator.model.ask import Tier
from federator.model.fleet import Capacity
from federator.model.kubernetes import diffs
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO, Resources
from federator.model.steps import RequeueAfter
from federator.placement.quota import accounts
from federator.placement.quota.domain_usage import usage_with_domains
from federator.placement.quota.quota import BY_QUOTA
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Usage, Uses
from federator.scheduling.governor import Health
from federator.status import conditions
from federator.status.conditions import Condition

log = logging.getLogger(__name__)

ACCOUNT_S = 3.0
"""Seconds between two writes of what accounts use: it is for users, decisions read the
commitments."""
LOOK_S = 60.0
"""Seconds between two searches for unknown slices; two searches in a row make a finding."""
LOOK_BATCH = 2000
"""Slices examined before other work gets its turn."""
OWNED = ("Ready", UNTRUSTWORTHY, *member_conditions.OWNED)
CLAIM_PAUSE_S = 3.0
"""Seconds between two attempts to claim a member, however many workloads wait for it."""
SETTLE_S = 0.5
"""Shapes and figures that arrive within so many seconds are written together."""


class Turned(Protocol):
    """Called when a member's Ready changes."""

    def __call__(self, member: Member, reason: str, note: str, *, lost: bool) -> None: ...


class Reporting:
    """Writes the status of MemberClusters and the questions to members."""

    def __init__(
        self,
        state: HubState,
        host: clients.Client,
        *,
        turned: Turned,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """`turned` is called when a member stops accepting new work, or starts again."""
        self.state = state
        self.host = host
        self.turned = turned
        self.clock = clock
        self.reports: WorkQueue[str] = WorkQueue("reporting", rng=rng, metrics=state.metrics)
        self.accounts: WorkQueue[str] = WorkQueue("accounts", rng=rng, metrics=state.metrics)
        self.questions: WorkQueue[str] = WorkQueue("asking", rng=rng, metrics=state.metrics)
        self._look_due: dict[str, float] = {}
        self._offered: dict[str, Resources] = {}
        """Member -> what its nodes have for the federation, as last reported."""
        self._short: Mapping[str, int] | None = None
        self._usage: Usage | None = None
        """Project -> workloads that lack copies because of a quota; None: to be counted."""
        self._figures_due: dict[str, float] = {}
        self._claim_due: dict[str, float] = {}
        state.signals.to_ask.append(self.ask_all)
        signals = state.signals
        signals.on_member(MemberTurn.REPORT, self.changed)
        signals.on_member(MemberTurn.FIGURES, self.counted)
        signals.on_member(MemberTurn.ASK, lambda member: self.questions.add(member.name))
        signals.on_member(
            MemberTurn.ASK_SOON, lambda member: self.questions.add_after(member.name, SETTLE_S)
        )
        signals.on_member(MemberTurn.CLAIM, self._claim)
        state.signals.on_booked.append(self.count_all)

    def count_all(self) -> None:
        """Decisions changed, and perhaps what accounts use."""
        self._short = self._usage = None
        for name in sorted(self.state.quotas):
            self.accounts.add_after(name, ACCOUNT_S)

    async def account(self, name: str) -> None:
        """Brings the status of one FederatedQuota up to date: the use of its projects, summed over
        decisions."""
        account = self.state.quotas.get(name)
        if account is None or not self.state.ready:
            return
        ref = registry.KINDS["FederatedQuota"].ref("", name)
        try:
            obj = await self.host.get(ref)
        except errors.NotFound:
            return
        every = tuple(account for _, account in sorted(self.state.quotas.items()))
        tree = self.state.commitments.tree(every)
        uses, projects = Uses(tree, self._usage_in(tree)), tree.under(name)
        usage = {
            tier: {
                resource: balances[name]
                for resource, balances in uses.balances(tree.path(name)[-1], tier).items()
            }
            for tier in Tier
        }
        status = federatedquota.to_status(
            account,
            usage,
            sum(map(self.state.commitments.placed, projects)),
            sum(self._short_of_quota().get(project, 0) for project in projects),
            self.state.commitments.terminating_in(set(tree.own(name))),
            alone=tree.alone(name),
        )
        live = obj.get("status") or {}
        status["conditions"] = conditions.merge(
            live.get("conditions"),
            (self._validity(account, tree),),
            self.clock.rfc3339(),
            (federatedquota.VALID,),
        )
        kept = {field: value for field, value in live.items() if field != "waiting"}
        patch = diffs.replacement_patch(live, {**kept, **status})
        if patch:
            version = obj["metadata"]["resourceVersion"]
            body = {"metadata": {"uid": account.uid, "resourceVersion": version}, "status": patch}
            await self.host.patch(ref, body, subresource="status")

    def _usage_in(self, tree: Tree) -> Usage:
        """What projects use, in the domains of their trees too: summed once until decisions
        change."""
        if self._usage is None:
            clusters = {
                name: raw.text_map(member.obj, "metadata", "labels")
                for name, member in self.state.members.items()
            }
            held = self.state.commitments
            self._usage = usage_with_domains(held.usage, held, tree, clusters)
        return self._usage

    def _short_of_quota(self) -> Mapping[str, int]:
        if self._short is None:
            self._short = Counter(
                record.terms.project
                for record in self.state.records.values()
                if record.terms.reason in BY_QUOTA
            )
        return self._short

    def _validity(self, account: QuotaAccount, tree: Tree) -> Condition:
        """The condition that says what is wrong with an account: the gravest reason, and all
        sentences."""
        capacity = sum_of(self._offered.get(member, ZERO) for member in self.state.members)
        troubles = accounts.troubles(account, tree, capacity)
        if not troubles:
            return Condition(federatedquota.VALID, conditions.TRUE, "Valid", "", account.generation)
        said = "; ".join(trouble.message for trouble in troubles)
        return Condition(
            federatedquota.VALID, conditions.FALSE, troubles[0].reason, said, account.generation
        )

    def _note_offered(self, member: Member) -> None:
        """Records what a member's nodes have; what accounts promise and name is checked again."""
        offered = ZERO
        if member.contents.report is not None:
            usable = memberfields.usable_permille(raw.text(member.obj, "spec", "usable"))
            has = member.contents.report.capacity.allocatable
            offered = has.scaled(usable).upper(Resources(dict.fromkeys(has, 1)))  # the names stay
        if self._offered.get(member.name, ZERO) != offered:
            self._offered[member.name] = offered
            self.count_all()

    def ask_all(self) -> None:
        for name in sorted(self.state.members):
            self.questions.add_after(name, SETTLE_S)

    def changed(self, member: Member) -> None:
        self._note_offered(member)
        self.reports.add(member.name)

    def counted(self, member: Member) -> None:
        """Its number of slices changed. Figures are written at intervals."""
        due_s = self._figures_due.get(member.name, 0.0) - self.clock.monotonic()
        self.reports.add_after(member.name, max(due_s, SETTLE_S))

    async def run(self) -> None:
        """Serves the queues until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reports.run(self.report, workers=8), name="reporting")
            group.create_task(self.accounts.run(self.account, workers=2), name="accounts")
            group.create_task(self.questions.run(self.ask, workers=8), name="asking")

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
        return RequeueAfter(name, LOOK_S, "slices of nobody are looked for")

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
        forgotten = {
            raw.text(entry, "workloadUID")
            for entry in raw.objects(member.obj, "status", "forgotten")
        }
        strangers = []
        for number, key in enumerate(member.contents.slice_keys()):
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
                clustercapacity.to_capacity(copied), fresh, permille, grows=grows
            ):
                fields["capacity"] = membercluster.to_status_capacity(
                    fresh, error="", as_of_s=self.clock.now()
                )
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
            self.turned(member, UNTRUSTWORTHY, str(doubt.get("message", "")), lost=True)
        if after and not before and was:
            self.turned(
                member, "Ready", f"It is heard again, after {was.get('reason', '')}.", lost=False
            )
        elif before and not after:
            self.turned(member, str(now.get("reason", "")), str(now.get("message", "")), lost=True)

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

    def _claim(self, member: Member) -> None:
        """A workload waits for this member to be claimed."""
        name, now = member.name, self.clock.monotonic()
        due = self._claim_due.get(name, now)
        if due <= now:
            self._claim_due[name] = now + CLAIM_PAUSE_S
        self.questions.add_after(name, max(0.0, due - now))

    async def ask(self, name: str) -> None:
        """Writes into the member's ClusterCapacity the shapes that decisions need, and the host's
        claim."""
        member = self.state.members.get(name)
        if (
            member is None
            or member.link.client is None
            or not member.contents.claim_known
            or member.released
            or member.abandoned
        ):
            return
        if member.link.reachability.state is not Reachability.LIVE:
            # it will be asked when it answers again; until then every try would be one more that is
            # lost
            return
        if member.duplicate_of or (
            member.other_host and member.other_host != claims.given_up(member.obj)
        ):
            return
        spec = clustercapacity.to_spec(self.state.shapes.values())
        asked = member.contents.report.shapes if member.contents.report is not None else ()
        news = {"spec": spec} if {shape["id"] for shape in spec["shapes"]} - set(asked) else {}
        if member.claimed and not news:
            return
        kind = registry.KINDS["ClusterCapacity"]
        ref = kind.ref("", clustercapacity.NAME)
        if not member.claimed and (trouble := await self._identity_trouble(member)):
            raise errors.Conflict(f"{name} is not claimed: {trouble}")
        claim = {"annotations": {claims.annotation(member.fleet): member.host_uid}}
        before = member.contents.report
        if before is None:
            body = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": ref.name, **claim},
            }
            try:
                member.note_capacity(await member.link.client.create(ref, {**body, "spec": spec}))
            except errors.AlreadyExists as meanwhile:
                # the watch will tell, in a moment
                raise errors.Conflict(str(meanwhile)) from meanwhile
        elif member.claimed:
            await member.link.client.patch(ref, {"metadata": {"uid": before.uid}, **news})
        else:
            # Two hosts that come at the same time: the version lets one of them have it, and the
            # other see that.
            meta = {"uid": before.uid, "resourceVersion": before.resource_version, **claim}
            member.note_capacity(await member.link.client.patch(ref, {"metadata": meta, **news}))
            log.info(
                "%s belongs to this host from now on (before: %s)", name, before.host or "nobody"
            )
            self.state.signals.member_changed(MemberChanged.CLAIMED, member)

    async def _identity_trouble(self, member: Member) -> str:
        """Reads its identity again before it is claimed: a cluster that was created anew at the
        same address has lost its claim (F35), and the next probe that asks may be a minute away.
        Raises ApiErrors."""
        if member.link.client is None:
            raise errors.Unreachable(f"{member.name}: there is no connection")
        uid = await member.link.client.kube_system_uid()
        trouble = member.identity_trouble(uid, member.host_uid)
        if uid != member.link.uid:
            trouble = trouble or f"it answers as {uid}, and was {member.link.uid} at the last probe"
        if trouble:
            member.link.meet_other(uid)
        return trouble


def _ready(member: Member) -> str:
    """The summary of a member that accepts work, or would, but for its drain or a contradiction."""
    drain, maintenance = member.vitals.drain, member.vitals.maintenance
    state = f"Untrustworthy ({member.trust.why})" if member.trust.why else "Ready"
    if drain is not None:
        return f"{state}; {drain.reason}: {drain.message}"
    if maintenance is not None and maintenance.reason in ("Announced", "UnderWay"):
        return f"{state}; Maintenance {maintenance.reason}: {maintenance.message}"
    return state


def sum_of(parts: Iterable[Resources]) -> Resources:
    total = ZERO
    for part in parts:
        total = total + part
    return total


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
