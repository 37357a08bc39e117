"""Dispatching: compares decisions with what members hold and carries out the next step, member by member.

Every member has its own queue and workers, so a slow one costs only its own slices. A turn is level-triggered: it
plans the whole workload from memory and does its own cluster's part. Nothing is deleted before the member's lists are
in, and never without the uid it was judged by.
"""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Mapping
from typing import Any

from federator.api import kinds
from federator.hub import slices, stepping, workloads
from federator.hub.members import Member
from federator.hub.records import Record
from federator.hub.slices import SliceSeen, Verified
from federator.hub.state import HubState
from federator.hub.stepping import Action, Do, Held
from federator.hub.workloads import Documents, Workload
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.queue import WorkQueue
from federator.model import names, shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef, Revisit

log = logging.getLogger(__name__)

HOLD_RECHECK_S = 15.0
"""A held step is planned again when something about the workload changes, and at least this often."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Two merge patches for one slice: all of what differs, and just the share."""

    whole: dict[str, Any]
    share_only: dict[str, Any]


class Dispatching:
    """Writes slices. One queue with its workers per member."""

    def __init__(self, state: HubState, documents: Documents, *, rng: random.Random) -> None:
        self.state = state
        self.documents = documents
        self.rng = rng
        self.queues: dict[str, WorkQueue[WorkloadKey]] = {}
        self.holding: dict[WorkloadKey, set[str]] = {}
        """Clusters whose next step waits for others of the same workload."""
        state.signals.to_dispatch.append(self.spread)

    def queue_of(self, member: Member) -> WorkQueue[WorkloadKey]:
        found = self.queues.get(member.name)
        if found is None:
            found = self.queues[member.name] = WorkQueue(
                f"dispatch-{member.name}", rng=self.rng, metrics=self.state.metrics
            )
        return found

    async def run(self, member: Member) -> None:
        """Serves one member until cancelled."""
        await self.queue_of(member).run(
            lambda key: self.turn(member, key), workers=self.state.options.lane_writes_in_flight
        )

    def forget(self, member: Member) -> None:
        self.queues.pop(member.name, None)

    def spread(self, key: WorkloadKey) -> None:
        """Signals every member that has, or should have, a part of this workload."""
        for cluster in self._clusters(key):
            queue = self.queues.get(cluster)
            if queue is not None:
                queue.add(key)

    def release(self, key: WorkloadKey) -> None:
        """Something about the workload moved: clusters that wait for the others plan again."""
        for cluster in sorted(self.holding.get(key, ())):
            queue = self.queues.get(cluster)
            if queue is not None:
                queue.add(key)

    def _clusters(self, key: WorkloadKey) -> list[str]:
        workload = self.state.workloads.get(key)
        found = set(self.state.slices_of(key))
        if workload is not None and (record := self.state.record_of(workload)) is not None:
            found |= record.clusters
        return sorted(found)

    async def turn(self, member: Member, key: WorkloadKey) -> Revisit | None:
        """This member's part of one workload."""
        workload = self.state.workloads.get(key)
        if not self.state.ready or self.state.paused or workload is None or workload.deleting:
            return None
        record = self.state.record_of(workload)
        if record is None or record.deleting or (workload.ask is not None and workload.ask.suspended):
            return None
        client = member.client
        if client is None or not member.heard:
            return None
        seen = member.slice_of(key)
        if seen is not None and self._is_this(seen, workload) and member.verified.of(seen) is None:
            await self._verify(member, client, workload, record, seen)
        action = self.plan(workload, record).get(member.name)
        waits = action is not None and not _is_final(action, record.share_of(member.name))
        held = self.holding.setdefault(key, set())
        (held.add if waits else held.discard)(member.name)
        if not held:
            self.holding.pop(key, None)
        if action is not None and action.do not in (Do.NOTHING, Do.HOLD):
            await self._do(member, client, workload, record, action)
        return Revisit(key, HOLD_RECHECK_S, action.why) if action is not None and waits else None

    def _is_this(self, seen: SliceSeen, workload: Workload) -> bool:
        fleet = self.state.options.fleet
        return seen.ours(fleet) and seen.mark is not None and seen.mark.workload_uid == workload.uid

    def plan(self, workload: Workload, record: Record) -> Mapping[str, Action]:
        """What is next in every cluster of this workload, from memory only."""
        held = {cluster: self._held(cluster, workload, record) for cluster in self._clusters(workload.key)}
        actions = stepping.plan(
            workload.ask.unit if workload.ask is not None else Unit.REPLICAS,
            record.shares,
            held,
            max_unavailable=workload.max_unavailable,
            max_clusters_at_once=record.facts.max_clusters_at_once,
        )
        return {action.cluster: action for action in actions}

    def _held(self, cluster: str, workload: Workload, record: Record) -> Held:
        member = self.state.members.get(cluster)
        if member is None or not member.heard:
            return Held(cluster, known=False, exists=cluster in self.state.slices_of(workload.key))
        seen = member.slice_of(workload.key)
        if seen is None:
            return Held(cluster, known=True)
        observed = seen.observation
        share = record.share_of(cluster)
        verified = member.verified.of(seen)
        content = self.content_of(workload)
        template_current = verified is None or verified.content == content
        current = (
            verified is not None
            and verified.content == content
            and share is not None
            and verified.share == slices.share_digest(share, self._profile_text(workload))
        )
        return Held(
            cluster,
            known=True,
            exists=True,
            ours=seen.ours(self.state.options.fleet),
            same_workload=self._is_this(seen, workload) and not seen.deleting,
            current=current,
            template_current=template_current,
            count=observed.desired,
            ready=observed.ready,
            healthy=verified is not None
            and template_current
            and observed.observed_generation >= observed.generation
            and observed.updated >= observed.desired
            and observed.ready >= observed.desired,
            safe=self._safe(workload, seen),
        )

    def _safe(self, workload: Workload, seen: SliceSeen) -> bool:
        """Whether the host's status holds everything this slice completed (the host's copy is the durable truth)."""
        observed, recorded = seen.observation, workload.progress()
        return not shards.minus(observed.completed, recorded.completed) and not shards.minus(
            observed.failed, shards.union(recorded.failed, recorded.completed)
        )

    def content_of(self, workload: Workload) -> str:
        return f"{workload.content}/{self._profile_text(workload)}"

    def _profile(self, workload: Workload) -> tuple[str, str]:
        """Name and hash of the RuntimeProfile this workload's pods get; empty where there is none."""
        name = workload.profile
        found = self.state.profiles.get(name) if name else None
        return (name, found["hash"]) if found is not None else ("", "")

    def _profile_text(self, workload: Workload) -> str:
        return "-".join(self._profile(workload))

    async def _verify(
        self, member: Member, client: clients.Client, workload: Workload, record: Record, seen: SliceSeen
    ) -> None:
        """Reads a slice that this process has not compared yet, and remembers what it covers."""
        obj = await self.documents.fetch(workload)
        if obj is None:
            return
        live = await client.get(self._ref(workload.key))
        share = record.share_of(member.name) or Share(member.name, seen.observation.desired, 0, record.seq)
        self._remember(member, workload, obj, live, share)

    def _remember(
        self, member: Member, workload: Workload, obj: Mapping[str, Any], live: Mapping[str, Any], share: Share
    ) -> Difference:
        """Compares the live object with what it should be, notes the verdict, and returns what to write."""
        verbs, fleet, profile = workload.verbs, self.state.options.fleet, self._profile(workload)
        mark = verbs.read_mark(live)
        kept = slices.render(
            verbs, obj, share, fleet=fleet, profile=profile, origin=mark.origin_generation if mark is not None else None
        )
        found = slices.difference(live, kept)
        part = slices.share_part(found, kept, workloads.neutral(verbs, obj))
        member.verified.entries[workload.key] = Verified(
            uid=live["metadata"].get("uid", ""),
            live=slices.live_digest(live),
            content=self.content_of(workload) if found == part else "",
            share="" if found else slices.share_digest(share, "-".join(profile)),
        )
        if not found:
            return Difference({}, {})
        return Difference(slices.difference(live, slices.render(verbs, obj, share, fleet=fleet, profile=profile)), part)

    def _ref(self, key: WorkloadKey) -> ObjectRef:
        return kinds.KINDS[key.kind].ref(key.namespace, key.name)

    async def _do(
        self, member: Member, client: clients.Client, workload: Workload, record: Record, action: Action
    ) -> None:
        key = workload.key
        try:
            if action.do is Do.DELETE:
                await self._delete(member, client, key)
            else:
                await self._write(member, client, workload, record, action)
        except (errors.Invalid, errors.Denied, errors.AlreadyExists) as refusal:
            member.refused[key] = (type(refusal).__name__, str(refusal), True)
            self.state.signals.fold(key)
            raise
        except errors.ApiError as trouble:
            if trouble.transient and not isinstance(trouble, errors.Conflict):
                member.refused[key] = (type(trouble).__name__, str(trouble), False)
                self.state.signals.fold(key)
            raise
        if member.refused.pop(key, None) is not None:
            self.state.signals.fold(key)

    async def _delete(self, member: Member, client: clients.Client, key: WorkloadKey) -> None:
        seen = member.slice_of(key)
        if seen is None or not member.synced:
            return
        log.info("removing slice", extra={"workload": str(key), "cluster": member.name})
        try:
            await client.delete(self._ref(key), uid=seen.uid)
        except errors.NotFound:
            return

    async def _write(
        self, member: Member, client: clients.Client, workload: Workload, record: Record, action: Action
    ) -> None:
        obj = await self.documents.fetch(workload)
        if obj is None:
            return
        share = record.share_of(member.name)
        if share is None:
            share = Share(member.name, action.count, 0, record.seq)
        elif action.count != share.count and share.count:
            share = dataclasses.replace(share, count=action.count)
        profile = self._profile(workload)
        await self.ensure_profile(member, client, profile)
        if action.do is Do.CREATE:
            want = slices.render(workload.verbs, obj, share, fleet=self.state.options.fleet, profile=profile)
            live = await self._create(member, client, workload.key, want)
        else:
            live = await client.get(self._ref(workload.key))
            found = self._remember(member, workload, obj, live, share)
            patch = found.share_only if action.keep_template else found.whole
            if not patch:
                return
            meta = live["metadata"]
            patch.setdefault("metadata", {}).update(uid=meta["uid"], resourceVersion=meta["resourceVersion"])
            live = await client.patch(self._ref(workload.key), patch)
        self._remember(member, workload, obj, live, share)
        member.note(slices.summarise(workload.key.kind, member.name, live))
        log.info(
            "wrote slice",
            extra={"workload": str(workload.key), "cluster": member.name, "do": action.do.value, "count": share.count},
        )

    async def _create(
        self, member: Member, client: clients.Client, key: WorkloadKey, want: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """POSTs the slice; makes the namespace when it turns out to be missing."""
        ref = self._ref(key)
        if key.namespace in member.namespaces:
            try:
                return await client.create(ref, want)
            except errors.NotFound:
                member.namespaces.discard(key.namespace)
        await self.ensure_namespace(member, client, key.namespace)
        return await client.create(ref, want)

    async def ensure_namespace(self, member: Member, client: clients.Client, namespace: str) -> None:
        """Makes the namespace if it is not there. Ours is marked; one that is there already is taken as it is."""
        ref = ObjectRef("v1", "namespaces", "", namespace, "Namespace")
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {names.FLEET_LABEL: self.state.options.fleet}},
        }
        try:
            await client.get(ref)
        except errors.NotFound:
            try:
                await client.create(ref, body)
            except errors.AlreadyExists:
                log.debug("namespace %s appeared in %s meanwhile", namespace, member.name)
        member.namespaces.add(namespace)

    async def ensure_profile(self, member: Member, client: clients.Client, profile: tuple[str, str]) -> None:
        """Copies the pinned version of a RuntimeProfile to the member, once."""
        copy = "-".join(profile)
        if not profile[0] or copy in member.profiles:
            return
        kind = kinds.KINDS["RuntimeProfile"]
        body = self.state.profiles[profile[0]]["copy"]
        try:
            await client.create(kind.ref("", body["metadata"]["name"]), body)
        except errors.AlreadyExists:
            log.debug("profile %s is already in %s", copy, member.name)
        member.profiles.add(copy)


def _is_final(action: Action, share: Share | None) -> bool:
    """Whether nothing will be left to do in this cluster once the action is done."""
    if action.do is Do.UPDATE:
        return share is not None and action.count == share.count and not action.keep_template
    return action.do is not Do.HOLD


async def serve(dispatching: Dispatching, member: Member) -> None:
    """Runs one member's lane; its end by cancellation forgets the queue."""
    try:
        await dispatching.run(member)
    except asyncio.CancelledError:
        dispatching.forget(member)
        raise
