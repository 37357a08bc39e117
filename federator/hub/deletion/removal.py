"""Removing: a deleted MemberCluster stays until the cluster is empty, or released as its operator
asked.

Every MemberCluster has our finalizer. A deletion drains the cluster (`placing.draining`), at the
pace of all drains; what cannot leave is named in the condition Removing. In the end it is proven
that no slice of ours is left, everything else we made there is deleted, and the finalizer is
removed. With the annotation `Orphan` everything stays where it is and only decisions drop the
cluster. `Lost` does the same for an unreachable cluster, and remembers what it holds as stale
(`departed`).
"""

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from federator.api import membercluster, raw
from federator.api.membercluster import Removal
from federator.hub.cache.router import Changed, MemberChanged, MemberTurn
from federator.hub.deletion.departed import Departed
from federator.hub.deletion.tidying import Tidying
from federator.hub.host import decision_writer
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.records import slices
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model.fleet import serves
from federator.model.names import CLUSTER_FINALIZER, FLEET_LABEL, WorkloadKey
from federator.model.steps import RequeueAfter
from federator.status.conditions import TRUE, Condition

log = logging.getLogger(__name__)

RECHECK_S = 2.0
"""Seconds between two checks of a removal, and between two writes of its condition."""
WAITING_RECHECK_S = 15.0
"""The same for a removal that waits for a change that will be signalled."""
SHOWN = 3
"""Workloads that are named among those that remain."""
COUNTED = 1000
"""Slices of one kind that are counted where there should be none."""


class Removing(Controller):
    """Owns the finalizer of MemberClusters. Keys of its queue are members' names."""

    def __init__(self, tools: Tools, *, departed: Departed, tidying: Tidying) -> None:
        super().__init__(tools)
        self.departed = departed
        self.tidying = tidying
        self.queue: WorkQueue[str] = self.new_queue("removing")
        self._event_reasons: dict[str, str] = {}
        """Uid of the MemberCluster -> the reason in its last Event."""
        self.state.signals.resumed.append(self.look_everywhere)
        self.state.signals.on_member(MemberTurn.REMOVE, lambda member: self.queue.add(member.name))

    async def run(self) -> None:
        self.look_everywhere()
        await self.queue.run(self.turn, workers=4)

    def look_everywhere(self) -> None:
        for name in sorted(self.state.members):
            self.queue.add(name)

    async def turn(self, name: str) -> RequeueAfter | None:
        """One member: adds the finalizer while it is in the fleet, and carries its removal on when
        it is deleted. Raises ApiErrors."""
        member = self.state.members.get(name)
        if member is None or not self.state.ready:
            return None
        held = CLUSTER_FINALIZER in raw.texts(member.obj, "metadata", "finalizers")
        if member.removal is Removal.NONE:
            if not held and not self.state.paused:
                await self._write_finalizers(
                    member, [*raw.texts(member.obj, "metadata", "finalizers"), *_OURS]
                )
            return None
        if not held:
            return None  # another finalizer keeps it: nothing is left for us to do
        if self.state.paused:
            self._say(member, "Paused", "Nothing is moved or removed until `federator resume`.")
            return None
        named = [
            record for _, record in sorted(self.state.records.items()) if name in record.clusters
        ]
        if member.abandoned:
            return await self._abandon(member, named)
        return await self._empty(member, named)

    # -- emptied --------------------------------------------------------------

    async def _empty(self, member: Member, named: Sequence[Record]) -> RequeueAfter | None:
        """Deletes everything that we made there."""
        if not member.heard:
            return await self._unheard(member, named)
        if member.removal is Removal.LOST:
            log.info(
                "%s was to be given up as lost, and is heard: it is emptied as any other",
                member.name,
            )
        present = self._slices(member)
        if present or named:
            reason, message = self._remaining(member, named, present)
            self._say(member, reason, message)
            if present and not member.claimed:
                self.state.signals.member_changed(MemberChanged.UNCLAIMED, member)
            return RequeueAfter(member.name, RECHECK_S, message)
        if missed := await self._still_there(member):
            self._say(
                member, "Emptying", f"Slices are there that were not seen before: {_shown(missed)}."
            )
            return RequeueAfter(
                member.name, WAITING_RECHECK_S, "its watches have still to show what it holds"
            )
        member.observe_release()
        stays = await self.tidying.leave(member)
        await self._finish(
            member, "Removed", "It was emptied." + "".join(f" {text}" for text in stays)
        )
        return None

    async def _unheard(self, member: Member, named: Sequence[Record]) -> RequeueAfter | None:
        """Its content cannot be read. A member that never joined and was given nothing holds
        nothing of ours."""
        never = not raw.text(member.obj, "status", "clusterUID") and not member.link.uid
        if never and not named and member.known_or_unknown:
            await self._finish(member, "Removed", "It was never reachable and had no copies.")
            return None
        _, why = member.readiness()
        also = f" {_workloads(named, member.name)} are there by their decisions." if named else ""
        message = (
            f"It cannot be emptied: {why}.{also} If it is gone for good, run `federator cluster"
            f" remove {member.name}"
            " --lost`."
        )
        self._say(member, "NotHeard", message)
        return RequeueAfter(member.name, WAITING_RECHECK_S, "it is not heard")

    def _slices(self, member: Member) -> list[WorkloadKey]:
        """Its slices of this federation, by its watches and the responses to our own writes."""
        keys = dict.fromkeys((*member.contents.slice_keys(), *member.contents.own_writes))
        return [
            key
            for key in keys
            if (seen := member.contents.slice_of(key)) is not None and seen.ours(member.fleet)
        ]

    def _remaining(
        self, member: Member, named: Sequence[Record], present: Sequence[WorkloadKey]
    ) -> tuple[str, str]:
        """(reason, message): what is still there, and why it does not move."""
        name = member.name
        shown = (
            f"{_workloads(named, name)} remain" if named else f"Slices of {_shown(present)} remain"
        )
        stays = _stays(member)
        stuck = [
            record
            for record in named
            if record.share_of(name) is not None
            and (str(record.key) in stays or self._is_left_alone(record))
        ]
        if suspended := [record for record in stuck if self._is_left_alone(record)]:
            names = _shown([record.key for record in suspended])
            return "Suspended", f"{shown}. Suspended workloads are left as they are: {names}."
        if stuck:
            stayers = _shown([record.key for record in stuck])
            why = stays[str(stuck[0].key)].removesuffix(".")
            return "NowhereToGo", f"{shown}. These cannot leave: {stayers}: {why}."
        keys = {record.key for record in named} | {
            key for key in present if key in self.state.workloads
        }
        forgotten = {
            raw.text(entry, "workloadUID")
            for entry in raw.objects(member.obj, "status", "forgotten")
        }
        strange = [
            key for key in present if key not in keys and not self._is_known(member, key, forgotten)
        ]
        if strange and not named:
            return "UnknownSlices", (
                f"Slices that no workload of this host accounts for are there: {_shown(strange)}."
                " Delete them there, or"
                f" leave them with `federator cluster remove {name} --orphan`."
            )
        return "Emptying", f"{shown}; they leave at the pace of drains, as in status.drain."

    def _is_known(self, member: Member, key: WorkloadKey, forgotten: set[str]) -> bool:
        """Whether a slice without a decision is being handled already."""
        seen = member.contents.slice_of(key)
        if seen is None or seen.mark is None or seen.deleting:
            return True
        return (
            seen.mark.workload_uid in forgotten or seen.mark.workload_uid in self.state.tombstones
        )

    def _is_left_alone(self, record: Record) -> bool:
        """Whether it is not placed again: it is suspended, or may not run as it is written."""
        workload = self.state.workloads.get(record.key)
        if workload is None or workload.ask is None:
            return False
        return workload.ask.suspended or self.state.refusal(workload) is not None

    async def _still_there(self, member: Member) -> list[WorkloadKey]:
        """Slices of ours by fresh lists from the cluster that joined: the first of each kind, if
        any. Raises ApiErrors."""
        client = member.link.client
        if client is None or member.link.reachability.state is not Reachability.LIVE:
            raise errors.Unreachable(f"{member.name}: there is no connection")
        left: list[WorkloadKey] = []
        for kind in registry.WORKLOADS.values():
            if not serves(member.link.apis, kind.kind):
                continue
            chosen = f"{FLEET_LABEL}={member.fleet}"
            ours = functools.partial(_ours, kind.kind, member)
            left += await client.collect(
                kind.api_version, kind.plural, ours, most=COUNTED, label_selector=chosen
            )
        if (uid := await client.kube_system_uid()) != member.link.uid:
            raise errors.Conflict(
                f"{member.name} answers as {uid}, and was {member.link.uid} at the last probe"
            )
        return left

    # -- abandoned ------------------------------------------------------------

    async def _abandon(self, member: Member, named: Sequence[Record]) -> RequeueAfter | None:
        """Everything there stays: first decisions drop the cluster, then its object goes."""
        lost = member.removal is Removal.LOST
        if lost and not member.duplicate_of and not member.other_host:
            await self.departed.remember(member)
        if named:
            for record in named:
                await self._drop(record, member.name)
            self._say(
                member,
                "LettingGo",
                f"{_workloads(named, member.name)} are being placed without it.",
            )
            return RequeueAfter(member.name, RECHECK_S, "decisions still name it")
        if member.duplicate_of:
            await self._finish(
                member, "Removed", f"It was the same cluster as {member.duplicate_of}, which stays."
            )
        elif member.other_host:
            await self._finish(
                member, "Removed", f"What is there belongs to the host {member.other_host}."
            )
        elif lost:
            stale = (
                " What it held is removed if it joins again."
                if membercluster.recorded_uid(member.obj)
                else ""
            )
            await self._finish(
                member, "RemovedAsLost", f"It was given up without being emptied.{stale}"
            )
        else:
            return await self._orphan(member)
        return None

    async def _drop(self, record: Record, cluster: str) -> None:
        """Queues a decision without the cluster, or removes the cluster from one that is not made
        again."""
        workload = self.state.workloads.get(record.key)
        live = (
            workload is not None and workload.uid == record.workload_uid and not workload.deleting
        )
        placed = (
            workload is not None and workload.ask is not None and not self._is_left_alone(record)
        )
        clear = not any(other.deleting for other in self.state.records_of(record.key))
        if live and placed and clear and not self.state.refuses_native(record.key.kind):
            self.state.changed(Changed.DROPPED, record.key)
            return
        written = await decision_writer.strike(
            self.host, record, cluster, self.state.next_seq(), self.state.seals
        )
        if written is not None:
            new = self.state.read_record(written)
            self.state.observe_decision(record.key.namespace, new)
            if (commitment := new.commitment()) is not None:
                self.state.commitments.record(commitment)
        self.state.changed(Changed.STRUCK, record.key)

    async def _orphan(self, member: Member) -> RequeueAfter | None:
        """Removes the host's claim from the cluster."""
        if not member.heard or member.link.client is None:
            _, why = member.readiness()
            message = (
                f"It does not know yet that it is nobody's: {why}. If it is gone for good, run"
                " `federator cluster"
                f" remove {member.name} --lost`."
            )
            self._say(member, "NotHeard", message)
            return RequeueAfter(member.name, WAITING_RECHECK_S, "it is not heard")
        present = self._slices(member)
        member.observe_release()
        await self.tidying.release(member)
        left = (
            f" {len(present)} slices run on there beside what replaces them: {_shown(present)}."
            if present
            else ""
        )
        await self._finish(
            member, "Orphaned", f"It was left as it is.{left}", warning=bool(present)
        )
        return None

    # -- told and written -----------------------------------------------------

    def _say(self, member: Member, reason: str, message: str) -> None:
        """Sets the condition Removing, and writes an Event when its reason changes."""
        condition = Condition("Removing", TRUE, reason, message)
        if member.vitals.removal == condition:
            return
        member.vitals.observe_removal(condition)
        self.state.signals.member_changed(MemberChanged.SAID, member)
        uid = str(member.obj["metadata"].get("uid", ""))
        if self._event_reasons.get(uid) != reason:
            self._event_reasons[uid] = reason
            waits = reason not in ("Emptying", "LettingGo")
            self.events.about_cluster(
                member, "RemovalWaits" if waits else "Removing", message, warning=waits
            )

    async def _finish(
        self, member: Member, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Removes the finalizer."""
        rest = [
            text
            for text in raw.texts(member.obj, "metadata", "finalizers")
            if text != CLUSTER_FINALIZER
        ]
        self.events.about_cluster(member, reason, message, warning=warning)
        await self._write_finalizers(member, rest)
        uid = str(member.obj["metadata"].get("uid", ""))
        self._event_reasons.pop(uid, None)
        log.info("%s left the fleet: %s", member.name, message)

    async def _write_finalizers(self, member: Member, finalizers: list[str]) -> None:
        meta = member.obj["metadata"]
        body = {
            "metadata": {
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
                "finalizers": finalizers,
            }
        }
        try:
            answer = await self.host.patch(
                registry.KINDS["MemberCluster"].ref("", member.name), body
            )
        except errors.NotServed:
            raise
        except errors.NotFound:
            return
        self.state.observe_member(member, answer)


_OURS = (CLUSTER_FINALIZER,)


def _stays(member: Member) -> dict[str, str]:
    """Workloads that cannot leave it now, as Kind/namespace/name, and why, by the last look of its
    drain. Those that only wait for the pace are not among them."""
    return {
        raw.text(entry, "workload"): raw.text(entry, "why")
        for entry in raw.objects(member.vitals.drained or {}, "stays")
    }


def _ours(kind: str, member: Member, obj: Mapping[str, Any]) -> WorkloadKey | None:
    """The key of a slice of ours; None for any other object."""
    seen = slices.summarise(kind, member.name, obj)
    return seen.key if seen.ours(member.fleet) else None


def _shown(keys: Sequence[WorkloadKey]) -> str:
    """Some of the keys, and the number of others."""
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(str(key) for key in keys[:SHOWN]) + more


def _workloads(named: Sequence[Record], cluster: str) -> str:
    """`12 copies of 3 workloads (PinterestService/feed/web 9, ...)`, by decisions."""
    counts = [
        (record.key, share.count if (share := record.share_of(cluster)) else 0) for record in named
    ]
    total = sum(count for _, count in counts)
    most = sorted(counts, key=lambda count: (-count[1], count[0]))
    shown = ", ".join(
        f"{key} {count}" if count else f"{key} leaving" for key, count in most[:SHOWN]
    )
    more = f" and {len(most) - SHOWN} more" if len(most) > SHOWN else ""
    copies, workloads = (
        "copy" if total == 1 else "copies",
        "workload" if len(named) == 1 else "workloads",
    )
    return f"{total} {copies} of {len(named)} {workloads} ({shown}{more})"
