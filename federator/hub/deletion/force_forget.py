"""Deletions that did not wait for an unreachable cluster because an operator said so, and what is
left to delete there when it returns.

`remember` writes a tombstone to the MemberCluster's status before the decision is released
(finalizing calls it). `turn` deletes in the cluster what is remembered, once it is reachable, and
removes the tombstone. Bounded: a full list takes no more, and the deletion stays blocked.
"""

import logging
from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.api.membercluster import FORGOTTEN_MAX
from federator.hub.cache.router import MemberChanged, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kube.control.work_queue import WorkQueue
from federator.model.names import WorkloadKey
from federator.model.steps import Delete, RequeueAfter

log = logging.getLogger(__name__)

RECHECK_S = 1.0


class Forgetting(Controller):
    """Keeps and settles the tombstones of given-up deletions. Keys of its queue are members'
    names."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("forgetting")
        self.state.signals.resumed.append(self.look)
        self.state.signals.on_member(
            MemberTurn.FORGOTTEN, lambda member: self.queue.add(member.name)
        )

    async def run(self) -> None:
        self.look()
        await self.queue.run(self.turn, workers=4)

    def look(self) -> None:
        """Queues every member."""
        for name in sorted(self.state.members):
            self.queue.add(name)

    async def remember(self, member: Member, record: Record) -> bool:
        """Records that this workload was given up in a member; False when the list is full. Raises
        ApiErrors."""
        entries = list(forgotten(member))
        if any(entry.get("workloadUID") == record.workload_uid for entry in entries):
            return True
        if len(entries) >= FORGOTTEN_MAX:
            return False
        key = record.key
        entry = {
            "workloadUID": record.workload_uid,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
        }
        await self._write(member, [*entries, entry])
        log.warning("%s: the deletion of %s does not wait for it any more", member.name, key)
        return True

    async def turn(self, name: str) -> RequeueAfter | None:
        """Deletes in one member what was given up there: only when it is reachable, and only by
        uid."""
        member = self.state.members.get(name)
        if (
            member is None
            or member.abandoned
            or not member.heard
            or not self.state.ready
            or self.state.paused
        ):
            return None
        entries = forgotten(member)
        left = [entry for entry in entries if self._still_there(member, entry)]
        if len(left) != len(entries):
            await self._write(member, left)
        if not left:
            return None
        if not member.claimed:
            self.state.signals.member_changed(MemberChanged.UNCLAIMED, member)
            return RequeueAfter(
                name, RECHECK_S, "it is being recorded there which host it belongs to"
            )
        for entry in left:
            await self._remove(member, key_of(entry))
        return RequeueAfter(name, RECHECK_S, "slices are being removed")

    def _still_there(self, member: Member, entry: Mapping[str, Any]) -> bool:
        key, uid = key_of(entry), raw.text(entry, "workloadUID")
        if key.kind not in registry.WORKLOADS:
            return False
        workload = self.state.workloads.get(key)
        if workload is not None and workload.uid == uid:
            return False  # the host was restored to a time at which it had not been deleted
        if not member.knows(key.kind):
            return True
        seen = member.contents.slice_of(key)
        return seen is not None and seen.serves(member.fleet, uid)

    async def _remove(self, member: Member, key: WorkloadKey) -> None:
        seen = member.contents.slice_of(key)
        if seen is None or seen.deleting or member.link.applier is None:
            return
        outcome = await member.link.applier.apply(
            Delete(registry.KINDS[key.kind].ref(key.namespace, key.name), seen.uid), key
        )
        if outcome.error is not None:
            log.info("%s: slice of %s not removed yet: %s", member.name, key, outcome.error)

    async def _write(self, member: Member, entries: list[Mapping[str, Any]]) -> None:
        meta = member.obj["metadata"]
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "status": {"forgotten": entries},
        }
        ref = registry.KINDS["MemberCluster"].ref("", member.name)
        self.state.observe_member(member, await self.host.patch(ref, body, subresource="status"))


def forgotten(member: Member) -> list[Mapping[str, Any]]:
    """The tombstones of one member."""
    return list(raw.objects(member.obj, "status", "forgotten"))


def key_of(entry: Mapping[str, Any]) -> WorkloadKey:
    return WorkloadKey(
        raw.text(entry, "kind"), raw.text(entry, "namespace"), raw.text(entry, "name")
    )
