"""Clusters that were removed as lost: what they still hold is stale, and is deleted when they join
again.

The hub cannot reach them, so the host remembers them in one ConfigMap: cluster uid -> the seq up to
which everything there is stale. When such a cluster joins again, under any name, it gets no new
work until all slices up to that seq are gone; then its entry is deleted. Bounded: beyond `KEPT`
clusters the oldest entry is dropped, and what that cluster holds is only reported (UnknownSlices).

That a MemberCluster is gone is confirmed by reading it by name, never by its absence from a list.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import membercluster, raw
from federator.hub.cache.router import MemberChanged, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.records.slices import SliceSeen
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import names
from federator.model.fleet import serves
from federator.model.names import WorkloadKey
from federator.model.steps import Delete, ObjectRef, RequeueAfter

log = logging.getLogger(__name__)

OBJECT = "federator-departed"
"""ConfigMap in the system namespace; one key per cluster, a hash of its uid."""
KEPT = 256
RECHECK_S = 1.0
SLOW_RECHECK_S = 15.0


@dataclass(frozen=True, slots=True)
class GivenUp:
    """One cluster that was given up."""

    uid: str
    """Uid of its kube-system namespace."""
    name: str
    """Its former name."""
    seq: int
    """Everything there with this seq or a lower one is stale."""


def parse(data: Mapping[str, str]) -> dict[str, GivenUp]:
    """The entries by uid, oldest first; unreadable ones are left out."""
    entries = []
    for text in data.values():
        parts = text.split(" ")
        if len(parts) == 3 and parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 20:
            entries.append(GivenUp(uid=parts[2], name=parts[1], seq=int(parts[0])))
    return {entry.uid: entry for entry in sorted(entries, key=lambda entry: (entry.seq, entry.uid))}


def render(entries: Mapping[str, GivenUp]) -> dict[str, str]:
    """The data of the ConfigMap, the newest entries only."""
    newest = sorted(entries.values(), key=lambda entry: (entry.seq, entry.uid))[-KEPT:]
    return {
        names.short_hash(entry.uid, length=16): f"{entry.seq} {entry.name} {entry.uid}"
        for entry in newest
    }


class Departed(Controller):
    """The list, and the cleaning of listed clusters that are back. Keys of its queue are members'
    names."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.entries: dict[str, GivenUp] = {}
        """Uid of the cluster -> its entry."""
        self._version = ""
        """resourceVersion of the list as it was last read or written; "" where there is none."""
        self.queue: WorkQueue[str] = self.new_queue("departed")
        self.state.signals.resumed.append(self.look_everywhere)
        self.state.signals.on_member(MemberTurn.DEPARTED, self.look)

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(
            "v1", "configmaps", self.state.options.system_namespace, OBJECT, "ConfigMap"
        )

    async def load(self) -> None:
        """Reads the list, before anything is decided. Raises ApiErrors."""
        configmap = await self.host.find(self.ref)
        if configmap is None:
            self.entries, self._version = {}, ""
        else:
            self._note(configmap)

    async def confirms(self, cluster: str, uid: str = "") -> bool:
        """Whether the host confirms, by a read by name, that the MemberCluster (with that uid, if
        given) is gone. Lists and watches may come from an API server that lags behind (F11). Raises
        ApiErrors."""
        try:
            member = await self.host.find(registry.KINDS["MemberCluster"].ref("", cluster))
        except errors.Denied as refused:
            # An upgrade that left the manifests as they were: as before, lists are believed, rather
            # than nobody leads.
            log.warning(
                "%s left the list, and nobody can be asked by name (apply deploy/host/access): %s",
                cluster,
                refused,
            )
            return True
        return member is None or (bool(uid) and raw.text(member, "metadata", "uid") != uid)

    async def run(self) -> None:
        self.look_everywhere()
        await self.queue.run(self.turn, workers=2)

    def look_everywhere(self) -> None:
        for member in self.state.members.values():
            self.look(member)

    def look(self, member: Member) -> None:
        """Its identity was read: a listed cluster gets no new work before it is clean."""
        entry = self.entries.get(member.identity)
        if entry is None:
            member.observe_cleaning("")
            return
        member.seqs.observe(
            entry.seq
        )  # whatever it gets from now on is newer than everything stale
        if not member.cleaning:
            member.observe_cleaning(
                "it was removed as lost, and what it held at that time is removed first"
            )
        self.queue.add(member.name)

    async def remember(self, member: Member) -> None:
        """Records that a cluster was given up. Raises ApiErrors."""
        uid = membercluster.recorded_uid(member.obj)
        if not uid or uid in self.entries or " " in uid:
            return  # its identity is unknown: it never answered
        seq = max(self.state.next_seq(), member.seqs.highest)
        entries = {**self.entries, uid: GivenUp(uid, member.name, seq)}
        await self._write(entries)
        log.warning(
            "%s (%s) was given up as lost; what it holds is removed if it joins again",
            member.name,
            uid,
        )

    async def turn(self, name: str) -> RequeueAfter | None:
        """Deletes the stale slices of one member that is back. Raises ApiErrors."""
        member = self.state.members.get(name)
        if (
            member is None
            or not self.state.ready
            or self.state.paused
            or not member.heard
            or member.abandoned
        ):
            return None
        entry = self.entries.get(member.identity)
        if entry is None or member.identity != member.link.uid:
            return None
        if any(
            not member.knows(kind) for kind in registry.WORKLOADS if serves(member.link.apis, kind)
        ):
            return RequeueAfter(name, SLOW_RECHECK_S, "what it holds is still being listed")
        stale = list(self._stale(member, entry))
        if not stale:
            await self._write({uid: kept for uid, kept in self.entries.items() if uid != entry.uid})
            member.observe_cleaning("")
            log.info("%s is clean of what it held when it was given up", name)
            self.state.signals.member_changed(MemberChanged.CLEANED, member)
            return None
        if not member.claimed:
            self.state.signals.member_changed(MemberChanged.UNCLAIMED, member)
            return RequeueAfter(
                name, RECHECK_S, "it is being recorded there which host it belongs to"
            )
        for key, seen in stale:
            if seen.deleting or member.link.applier is None:
                continue
            if wait_s := self.state.may_delete(1, self.clock.monotonic()):
                return RequeueAfter(
                    name, min(wait_s, SLOW_RECHECK_S), "deletions are spread over time"
                )
            log.info(
                "%s: removing the slice of %s, which is of the time before it was given up",
                name,
                key,
            )
            outcome = await member.link.applier.apply(
                Delete(registry.KINDS[key.kind].ref(key.namespace, key.name), seen.uid), key
            )
            if outcome.error is not None:
                log.info("%s: stale slice of %s not removed yet: %s", name, key, outcome.error)
        return RequeueAfter(name, RECHECK_S, "stale slices are being removed")

    def _stale(self, member: Member, entry: GivenUp) -> Iterator[tuple[WorkloadKey, SliceSeen]]:
        for key in dict.fromkeys((*member.contents.slice_keys(), *member.contents.own_writes)):
            seen = member.contents.slice_of(key)
            if (
                seen is None
                or seen.mark is None
                or not seen.ours(member.fleet)
                or seen.mark.seq > entry.seq
            ):
                continue
            if not any(
                self._decided(record.share_of(member.name), seen)
                for record in self.state.records_of(key)
            ):
                yield key, seen

    @staticmethod
    def _decided(share: Any, seen: SliceSeen) -> bool:
        """Whether the slice is of a decision in force: the host was restored to a time before the
        cluster was lost."""
        return share is not None and seen.mark is not None and share.seq == seen.mark.seq

    async def _write(self, entries: Mapping[str, GivenUp]) -> None:
        """Replaces the list if nobody has written it since it was read, and creates it where there
        is none. After a refusal it is read again, and the next turn begins with what is there.
        Raises ApiErrors."""
        meta = {"name": self.ref.name, "namespace": self.ref.namespace}
        if self._version:
            meta["resourceVersion"] = self._version
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": render(entries)}
        try:
            self._note(await self.host.patch(self.ref, body, kind="apply", force=True))
        except errors.ApiError:
            await self._read_again()
            raise

    async def _read_again(self) -> None:
        """Like `load`, but what is known stays when a person has deleted the list."""
        known = self.entries
        await self.load()
        if not self._version:
            self.entries = known

    def _note(self, configmap: Mapping[str, Any]) -> None:
        self.entries = parse(raw.text_map(configmap, "data"))
        self._version = raw.text(configmap, "metadata", "resourceVersion")
