"""Writes slices: renders what a member should hold, compares it with what it holds, and carries out
the difference as steps.

Called by dispatching, one action at a time per slice. What a slice needs in the member is created
first (`prerequisites`). Never adopts: an object that was there before is reported by the caller.
"""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from federator.api import membercluster
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.cache.state import HubState
from federator.hub.dispatch import drift
from federator.hub.dispatch.prerequisites import Prerequisites
from federator.hub.host import revisions
from federator.hub.host.documents import Documents
from federator.hub.host.revisions import Revisions
from federator.hub.members.member import Member
from federator.hub.records import slices, workloads
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kinds import registry, verbs
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


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Two merge patches for one slice: the whole difference, and only the share."""

    whole: dict[str, Any]
    share_only: dict[str, Any]


class SliceWriter:
    """Turns actions into requests to one member at a time."""

    def __init__(
        self,
        state: HubState,
        view: RolloutView,
        documents: Documents,
        history: Revisions,
        prerequisites: Prerequisites,
    ) -> None:
        self.state = state
        self.view = view
        self.prerequisites = prerequisites
        self.documents = documents
        self.history = history

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
        share = record.share_of(member.name) or Share(
            member.name, action.count, 0, record.mark(member.name)
        )
        if not share.ranges and action.count != share.count:
            share = dataclasses.replace(share, count=action.count, slots=action.count)
        await self.prerequisites.profile(member, self.view.profile_of(workload))
        if not self._stands(workload, record):
            return None
        if action.kind is ActionKind.CREATE:
            rules = self._new_rules(member, workload)
            if (repeats := workload.verbs.repeats) is not None:
                # What the other clusters have run is not for one that joins them to run again.
                rules = dataclasses.replace(rules, ran_until_s=repeats.last(workload.live_status()))
            want = self._rendered(workload, obj, share, rules)
            live = await self._create(member, workload, want)
            seen = member.contents.made(member.name, workload.key.kind, live)
        else:
            updated = await self._update(
                member, workload, record, obj, share, keep_template=action.keep_template
            )
            if updated is None:
                return None
            live, changed = updated
            seen = slices.summarise(workload.key.kind, member.name, live)
        if not self._proven(member, workload, share, seen):
            # Only the count may have been written: then the answer says nothing of the template.
            answered = not action.keep_template
            self._compare(member, workload, obj, live, share, seen=seen, answered=answered)
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
        content = f"{workload.content.hex()}/{'-'.join(self.view.profile_of(workload))}"
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
        expander = verbs.newest_common(report.expander) if report is not None else verbs.BARE
        if workload.verbs.carried or expander == verbs.BARE:
            return PodRules(profile, verbs.BARE)
        project = workload.ask.project if workload.ask is not None else ""
        owner, labels = self.state.bindings().owner(project), membercluster.labels(member.obj)
        return PodRules(profile, expander, environment.of_cluster(project, owner, labels))

    def _is_old(self, workload: Workload, mark: SliceMark) -> bool:
        """Whether the workload or its profile has changed since a slice was written."""
        old = mark.origin_generation < workload.generation
        return old or mark.rules.profile != self.view.profile_of(workload)

    def _proven(self, member: Member, workload: Workload, share: Share, seen: SliceSeen) -> bool:
        """Whether digest, mark and count of a live slice show that it is as it should be: then it
        need not be rendered again."""
        fleet, profile = self.state.options.fleet, self.view.profile_of(workload)
        proven = slices.proves_itself(seen, workload) and slices.carries(
            seen, workload, share, fleet, profile
        )
        if proven:
            member.writes.verified.forget(workload.key)
        return proven

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
        write. `answered`: it is the response to our own write."""
        mark = workload.verbs.read_mark(live)
        fresh = same = self._new_rules(member, workload)
        if mark is not None:
            same = slices.as_known(mark, fresh.profile)
            fresh = dataclasses.replace(fresh, ran_until_s=mark.rules.ran_until_s)
        kept = self._rendered(
            workload, obj, share, same, mark.origin_generation if mark is not None else None
        )
        difference = slices.difference(live, kept, answered=answered)
        part = slices.share_part(difference, kept, workloads.neutral(workload.verbs, obj))
        if mark is not None and mark.rules.profile != self.view.profile_of(workload):
            # another version of it is a rollout, which has its own turn
            part = slices.without_profile(part)
        if slices.proves_itself(seen, workload):
            member.writes.verified.forget(workload.key)
        else:
            content = workload.content if difference == part else b""
            member.writes.verified.note(
                seen, content, self.view.profile_of(workload), None if difference else share
            )
        if not difference:
            return Difference({}, {})
        anew = mark is None or revisions.rolls_out(self._is_old(workload, mark), difference)
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
        obj: Mapping[str, Any],
        share: Share,
        *,
        keep_template: bool,
    ) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
        """Patches the difference if nobody has written since it was read. Returns the response and
        the changed fields; None without a difference, or when it is overtaken (`_stands`)."""
        if member.link.client is None:
            return None
        ref = _ref(workload.key)
        live = await member.link.client.get(ref)
        if not self._stands(workload, record):
            return None
        seen = slices.summarise(workload.key.kind, member.name, live)
        if self._proven(member, workload, share, seen):
            return None
        patches = self._compare(member, workload, obj, live, share, seen=seen)
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
