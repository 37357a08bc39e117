"""Writes slices: renders what a member should hold, compares it with what it holds, and carries out
the difference as steps.

Called by dispatching, one action at a time per slice. What a slice needs in the member is created
first (`prerequisites`). Never adopts: an object that was there before is reported by the caller.
"""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from federator.api import membercluster
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.dispatch import drift
from federator.hub.dispatch.prerequisites import Prerequisites
from federator.hub.host import revisions
from federator.hub.host.controller import Controller, Tools
from federator.hub.host.revisions import Revisions
from federator.hub.members.member import Member
from federator.hub.records import slices, workloads
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kinds import overriding, registry, verbs
from federator.kinds.overriding import OverrideRefused
from federator.kinds.shared import environment
from federator.kinds.verbs import PodRules, SliceMark
from federator.kube import errors
from federator.model import names
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.names import WorkloadKey
from federator.model.steps import Create, Delete, ObjectRef, Patch, Step
from federator.scheduling.rollout import Action, ActionKind

log = logging.getLogger(__name__)

OVERRIDDEN_MAX: Final = 256
"""Overridden workloads that are remembered: all clusters of one pool ask for the same one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Two merge patches for one slice: the whole difference, and only the share."""

    whole: dict[str, Any]
    share_only: dict[str, Any]


class SliceWriter(Controller):
    """Turns actions into requests to one member at a time."""

    def __init__(
        self, tools: Tools, view: RolloutView, history: Revisions, prerequisites: Prerequisites
    ) -> None:
        super().__init__(tools)
        self.view = view
        self.prerequisites = prerequisites
        self.history = history
        self._overridden: dict[tuple[Any, ...], Mapping[str, Any] | OverrideRefused] = {}
        """Workloads as they are under some overrides, or why they cannot be."""

    async def verify(
        self, member: Member, workload: Workload, record: Record, seen: SliceSeen
    ) -> None:
        """Reads a slice that this process has not compared yet, and records the result. Raises
        ApiErrors."""
        obj = await self.documents.fetch(workload)
        if obj is None or member.link.client is None:
            return
        live = await member.link.client.get(_ref(workload.key))
        share = record.share_of(member.name) or Share(
            member.name, seen.observation.desired, 0, record.mark(member.name)
        )
        obj = self._given(member, workload, obj)
        fetched = slices.summarise(workload.key.kind, member.name, live)
        self._compare(member, workload, obj, live, share, seen=fetched)
        if fetched.resource_version != seen.resource_version:
            # The verdict is about a state that the watch has not shown yet, and may not show for
            # long: filed, or every turn until then would read it again.
            member.note(fetched)

    async def restore_profile(self, member: Member, workload: Workload, seen: SliceSeen) -> None:
        """Restores the copy of the RuntimeProfile that a slice misses. An earlier version cannot be
        restored, but then the slice is being updated to the present one. Raises ApiErrors."""
        profile, mark = self.view.profile_of(workload), seen.mark
        if (
            member.link.client is None
            or mark is None
            or mark.rules.profile != profile
            or not profile[0]
        ):
            return
        await self.prerequisites.profile_again(member, profile)

    async def carry_out(
        self, member: Member, workload: Workload, record: Record, action: Action
    ) -> tuple[str, ...] | None:
        """Creates, updates or deletes one slice. Returns the changed fields, none for a created
        slice, and None when nothing was written into it. Raises ApiErrors."""
        if action.kind is ActionKind.DELETE:
            await self._delete(member, workload)
            return None
        obj = await self.documents.fetch(workload)
        if obj is None or obj["metadata"].get("generation", 0) != workload.generation:
            # gone, or newer than what was judged: the watch brings that, and with it the next turn
            return None
        changed: tuple[str, ...] = ()
        given, action = self._possible(member, workload, obj, action)
        share = record.share_of(member.name) or Share(
            member.name, action.count, 0, record.mark(member.name)
        )
        if not share.ranges and action.count != share.count:
            share = structs.replace(share, count=action.count, slots=action.count)
        await self.prerequisites.profile(member, self.view.profile_of(workload))
        if not self._stands(workload, record):
            return None
        if action.kind is ActionKind.CREATE:
            rules = self._new_rules(member, workload)
            if (repeats := workload.verbs.repeats) is not None:
                # What the other clusters have run is not for one that joins them to run again.
                rules = dataclasses.replace(rules, ran_until_s=repeats.last(workload.live_status()))
            want = self._rendered(workload, given, share, rules)
            live = await self._create(member, workload, want)
            seen = member.contents.made(member.name, workload.key.kind, live)
        else:
            updated = await self._update(
                member, workload, record, (obj, given), share, keep_template=action.keep_template
            )
            if updated is None:
                return None
            live, changed = updated
            seen = slices.summarise(workload.key.kind, member.name, live)
        if not self._proven(member, workload, share, seen):
            # Only the count may have been written: then the answer says nothing of the template.
            answered = not action.keep_template
            self._compare(member, workload, given, live, share, seen=seen, answered=answered)
        member.note(seen)
        log.info(
            "%s: %s slice of %s, share %d",
            member.name,
            action.kind.value.lower(),
            workload.key,
            share.count,
        )
        return changed

    def wish(self, workload: Workload, record: Record, action: Action) -> str:
        """What an action wants a slice to be, as a digest: equal digests are equal wishes."""
        share = record.share_of(action.cluster)
        given = (
            f"{share.slots}/{share.seq}/{share.ranges}"
            if share is not None
            else str(record.mark(action.cluster))
        )
        pins = self.view.pins(self.state.members[action.cluster], workload)
        content = f"{workload.content.hex()}/{'-'.join(pins)}"
        return names.short_hash(
            content, given, str(action.count), str(action.keep_template), length=16
        )

    def _rendered(
        self,
        workload: Workload,
        obj: Mapping[str, Any],
        share: Share,
        rules: PodRules,
        origin: int | None = None,
    ) -> dict[str, Any]:
        fleet = self.state.options.fleet
        return slices.render(workload.verbs, obj, share, fleet=fleet, rules=rules, origin=origin)

    def _new_rules(self, member: Member, workload: Workload) -> PodRules:
        """By which rules pods are made there from now on, and what they are told. A kind that is
        carried as it is has no rules."""
        report, profile = member.contents.report, self.view.profile_of(workload)
        overrides = self.view.overrides(member, workload).digest
        expander = verbs.newest_common(report.expander) if report is not None else verbs.BARE
        if workload.verbs.carried or expander == verbs.BARE:
            return PodRules(profile, verbs.BARE, overrides=overrides)
        project = workload.ask.project if workload.ask is not None else ""
        owner, labels = self.state.bindings().owner(project), membercluster.labels(member.obj)
        facts = environment.of_cluster(project, owner, labels)
        return PodRules(profile, expander, facts, overrides=overrides)

    def _is_old(self, workload: Workload, mark: SliceMark) -> bool:
        """Whether the workload or its profile has changed since a slice was written."""
        old = mark.origin_generation < workload.generation
        return old or mark.rules.profile != self.view.profile_of(workload)

    def _differs(self, member: Member, workload: Workload, mark: SliceMark) -> bool:
        """The same, or what policies change of it in this cluster."""
        overrides = self.view.overrides(member, workload).digest
        return self._is_old(workload, mark) or mark.rules.overrides != overrides

    async def refused(self, member: Member, workload: Workload) -> str:
        """Why the overrides of its policies cannot be applied to the workload in this cluster, as a
        sentence; "" when they can, or there are none. Raises ApiErrors."""
        if not self.view.overrides(member, workload):
            return ""
        obj = await self.documents.fetch(workload)
        try:
            if obj is not None:
                self._given(member, workload, obj)
        except OverrideRefused as bad:
            return str(bad)
        return ""

    def _possible(
        self, member: Member, workload: Workload, obj: Mapping[str, Any], action: Action
    ) -> tuple[Mapping[str, Any], Action]:
        """The workload as it is in this cluster, and the action. Where an override is refused, a
        slice may get another share and keeps its template. Raises OverrideRefused."""
        try:
            return self._given(member, workload, obj), action
        except OverrideRefused:
            if action.kind is not ActionKind.UPDATE:
                raise
            return obj, dataclasses.replace(action, keep_template=True)

    def _given(
        self, member: Member, workload: Workload, obj: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The workload as it is in this cluster. Raises OverrideRefused."""
        there = self.view.overrides(member, workload)
        if not there:
            return obj
        known = self.state.profiles.get(workload.profile)
        profile = known["object"] if known is not None else None
        version = known["hash"] if known is not None else ""
        key = (workload.uid, workload.generation, workload.content, there.digest, version)
        kept = self._overridden.get(key)
        if kept is None:
            try:
                kept = overriding.applied(obj, workload.verbs, there, profile)
            except OverrideRefused as bad:
                kept = bad
            if len(self._overridden) >= OVERRIDDEN_MAX:
                self._overridden.clear()
            self._overridden[key] = kept
        if isinstance(kept, OverrideRefused):
            raise kept
        return kept

    def _proven(self, member: Member, workload: Workload, share: Share, seen: SliceSeen) -> bool:
        """Whether digest, mark and count of a live slice show that it is as it should be: then it
        need not be rendered again."""
        fleet, profile = self.state.options.fleet, self.view.profile_of(workload)
        proven = self._proves_itself(member, workload, seen) and slices.carries(
            seen, workload, share, fleet, profile
        )
        if proven:
            member.writes.verified.forget(workload.key)
        return proven

    def _proves_itself(self, member: Member, workload: Workload, seen: SliceSeen) -> bool:
        """Not where policies change something: the digest is that of the workload as written."""
        proven = slices.proves_itself(seen, workload)
        return proven and not self.view.overrides(member, workload)

    def _compare(
        self,
        member: Member,
        workload: Workload,
        obj: Mapping[str, Any],
        live: Mapping[str, Any],
        share: Share,
        *,
        seen: SliceSeen,
        answered: bool = False,
    ) -> Difference:
        """Compares the live object with what it should be, records the verdict, and returns what to
        write. `obj`: the workload as it is in this cluster. `answered`: `live` is the response to
        our own write."""
        mark = workload.verbs.read_mark(live)
        fresh = same = self._new_rules(member, workload)
        if mark is not None:
            same = slices.as_known(mark, fresh.profile, fresh.overrides)
            fresh = dataclasses.replace(fresh, ran_until_s=mark.rules.ran_until_s)
        kept = self._rendered(
            workload, obj, share, same, mark.origin_generation if mark is not None else None
        )
        difference = slices.difference(live, kept, answered=answered)
        part = slices.share_part(difference, kept, workloads.neutral(workload.verbs, obj))
        if mark is not None and mark.rules.profile != fresh.profile:
            # another version of it is a rollout, which has its own turn
            part = slices.without(part, ("profile",))
        if mark is not None and mark.rules.overrides != fresh.overrides:
            part = slices.without(part, ("overrides",))  # and so are other overrides
        if self._proves_itself(member, workload, seen):
            member.writes.verified.forget(workload.key)
        else:
            content = workload.content if difference == part else b""
            as_decided = None if difference else share
            member.writes.verified.note(
                seen, content, fresh.profile, as_decided, overrides=fresh.overrides
            )
        if not difference:
            return Difference({}, {})
        anew = mark is None or revisions.rolls_out(
            self._differs(member, workload, mark), difference
        )
        want = self._rendered(workload, obj, share, fresh if anew else same)
        return Difference(slices.difference(live, want), part)

    def _stands(self, workload: Workload, record: Record) -> bool:
        """Whether members may still have what this turn was begun for. While a member answers
        slowly the decision may be replaced, so that copies which were to go are needed again; or
        the pods may come to ask for more than the decision charges, by a changed RuntimeProfile."""
        now = self.state.workloads.get(workload.key)
        if now is None or self.state.record_of(workload) is not record:
            return False
        return bool(record.terms.held_back) or not self.state.unjudged(now, record)

    async def _update(
        self,
        member: Member,
        workload: Workload,
        record: Record,
        objs: tuple[Mapping[str, Any], Mapping[str, Any]],
        share: Share,
        *,
        keep_template: bool,
    ) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
        """Patches the difference if nobody has written since it was read. `objs`: the workload as
        the host has it, and as it is in this cluster. Returns the response and the changed fields;
        None without a difference, or when it is overtaken (`_stands`)."""
        obj, given = objs
        if member.link.client is None:
            return None
        ref = _ref(workload.key)
        live = await member.link.client.get(ref)
        if not self._stands(workload, record):
            return None
        seen = slices.summarise(workload.key.kind, member.name, live)
        if self._proven(member, workload, share, seen):
            return None
        patches = self._compare(member, workload, given, live, share, seen=seen)
        patch = patches.share_only if keep_template else patches.whole
        if not patch:
            return None
        mark, profile = seen.mark, self.view.profile_of(workload)
        if mark is not None and revisions.rolls_out(self._is_old(workload, mark), patch):
            proven = self.view.was_given(workload, seen)
            await self.history.before_roll_out(workload, obj, profile, live if proven else None)
        meta = live["metadata"]
        step = Patch(ref, patch, uid=meta["uid"], resource_version=meta["resourceVersion"])
        return await _done(member, step, workload.key), drift.fields_of(patch)

    async def _create(
        self, member: Member, workload: Workload, want: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Creates the slice, and its namespace when that turns out to be missing."""
        key = workload.key
        step = Create(_ref(key), want)
        if ("Namespace", key.namespace) in member.writes.existing:
            try:
                return await _done(member, step, key)
            except errors.NotServed:
                raise  # the kind is missing, not the namespace
            except errors.NotFound:
                member.writes.observe_missing("Namespace", key.namespace)
        await self.prerequisites.namespace(member, key.namespace)
        record = self.state.record_of(workload)
        if record is None or record.deleting or record.share_of(member.name) is None:
            # A member that answers slowly: meanwhile the workload was deleted or moved, and its end
            # may be over.
            raise errors.Conflict(
                f"{key} is not wanted in {member.name} any more", reason="Conflict"
            )
        return await _done(member, step, key)

    async def _delete(self, member: Member, workload: Workload) -> None:
        key = workload.key
        seen = member.contents.slice_of(key)
        if seen is None or not member.synced:
            return
        log.info("%s: delete slice of %s", member.name, key)
        # Gone only when its pods are: until then they are charged, and no other cluster may run its
        # ordinals or exclusive shards.
        step = Delete(_ref(key), seen.uid, propagation="Foreground")
        if registry.verbs_of(key.kind).unit is not Unit.SHARDS:
            await _done(member, step, key)
            return
        try:
            # What its shards completed since it was heard of would be lost with it, and run again
            # elsewhere.
            step = dataclasses.replace(step, resource_version=seen.resource_version)
            await _done(member, step, key)
        except errors.Conflict:
            if member.link.client is not None:
                member.note(
                    slices.summarise(key.kind, member.name, await member.link.client.get(_ref(key)))
                )
            raise


def _ref(key: WorkloadKey) -> ObjectRef:
    return registry.KINDS[key.kind].ref(key.namespace, key.name)


async def _done(member: Member, step: Step, key: WorkloadKey) -> Mapping[str, Any]:
    """Carries a step out in the member's lane. Raises its error."""
    if member.link.applier is None:
        raise errors.Unreachable(f"{member.name}: there is no connection")
    outcome = await member.link.applier.apply(step, key.namespace)
    if outcome.error is not None:
        raise outcome.error
    return outcome.obj or {}
