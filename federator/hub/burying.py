"""Burying: a decision whose workload is gone empties the members and only then lets go of its finalizer.

The decision is the tombstone. Members that cannot be reached keep it alive, and are named
(`spec.deletion.waitingFor`), until they return or are removed from the fleet. Nothing is deleted in a member before
its lists are in.
"""

import logging
import random

from federator.api import kinds
from federator.hub.events import Events
from federator.hub.records import Record
from federator.hub.slices import SliceSeen
from federator.hub.state import HubState
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.queue import WorkQueue
from federator.model.names import DECISION_FINALIZER
from federator.model.steps import Delete, Revisit

log = logging.getLogger(__name__)

RECHECK_S = 1.0
BLOCKED_RECHECK_S = 15.0


class Burying:
    """Takes decisions through their end."""

    def __init__(self, state: HubState, host: clients.Client, events: Events, *, rng: random.Random) -> None:
        self.state = state
        self.host = host
        self.events = events
        self.queue: WorkQueue[tuple[str, str]] = WorkQueue("burying", rng=rng, metrics=state.metrics)
        state.signals.to_bury.append(lambda namespace, name: self.queue.add((namespace, name)))

    async def run(self) -> None:
        await self.queue.run(self.turn, workers=self.state.options.host_writes_in_flight)

    async def turn(self, name: tuple[str, str]) -> Revisit | None:
        """One decision: still needed, to be deleted, or to be emptied and let go."""
        record = self.state.records.get(name)
        if record is None or not self.state.ready or self.state.paused:
            return None
        workload = self.state.workloads.get(record.key)
        if workload is not None and workload.uid == record.workload_uid and not record.deleting:
            return None
        kind = kinds.KINDS["PlacementDecision"]
        ref = kind.ref(*name)
        if not record.deleting:
            await self._confirm_absence(record)
            try:
                await self.host.delete(ref, uid=record.uid)
            except errors.NotFound:
                self._gone(name, record)
                return None
            return Revisit(name, RECHECK_S, "the deletion is on its way")
        blocked, busy = await self._empty(record)
        if busy:
            return Revisit(name, RECHECK_S, "slices are being removed")
        await self._say_blocked(name, record, blocked)
        if blocked:
            return Revisit(name, BLOCKED_RECHECK_S, f"not heard: {', '.join(blocked)}")
        await self._let_go(name, record)
        return None

    async def _confirm_absence(self, record: Record) -> None:
        """Reads the workload itself before its decision goes: absence in a cache is not proof enough for a delete."""
        kind = kinds.KINDS[record.key.kind]
        try:
            found = await self.host.get(kind.ref(record.key.namespace, record.key.name))
        except errors.NotServed:
            raise  # the kind is not served, or something else answered: that proves no workload's absence
        except errors.NotFound:
            return
        if found["metadata"].get("uid") == record.workload_uid:
            raise errors.Conflict(f"{record.key} is still there", reason="Conflict")

    async def _empty(self, record: Record) -> tuple[tuple[str, ...], bool]:
        """Deletes what reachable members hold. Returns the clusters that cannot be asked, and whether slices remain."""
        busy = False
        for seen in self.state.slices_with_uid(record.key, record.workload_uid):
            member = self.state.members[seen.cluster]
            if not member.heard or member.applier is None:
                continue
            busy = True
            if not member.claimed:
                self.state.signals.claim(member.name)
                continue
            if seen.deleting:
                continue
            ref = kinds.KINDS[record.key.kind].ref(record.key.namespace, record.key.name)
            outcome = await member.applier.apply(Delete(ref, seen.uid), record.key)
            if outcome.error is not None:
                log.info("%s: slice of %s not removed yet: %s", seen.cluster, record.key, outcome.error)
        blocked = tuple(
            cluster
            for cluster in sorted(record.clusters | {seen.cluster for seen in self._unheard_slices(record)})
            if (holder := self.state.members.get(cluster)) is not None and not holder.heard
        )
        return blocked, busy

    def _unheard_slices(self, record: Record) -> list[SliceSeen]:
        return [
            seen
            for seen in self.state.slices_with_uid(record.key, record.workload_uid)
            if not self.state.members[seen.cluster].heard
        ]

    async def _say_blocked(self, name: tuple[str, str], record: Record, blocked: tuple[str, ...]) -> None:
        """Names on the decision, once per change, who keeps it from going."""
        if blocked == record.facts.waiting_for:
            return
        deletion = {
            "reason": "DeletionBlocked",
            "message": f"Waiting for {len(blocked)} clusters that are not heard: {', '.join(blocked)}."[:1024],
            "waitingFor": list(blocked),
        }
        patch = {"metadata": {"uid": record.uid}, "spec": {"deletion": deletion if blocked else None}}
        try:
            await self.host.patch(kinds.KINDS["PlacementDecision"].ref(*name), patch)
        except errors.NotFound:
            self._gone(name, record)
            return
        if blocked:
            log.info("deletion of %s is blocked by %s", record.key, ", ".join(blocked))
            self.events.about_decision(
                name, record, "DeletionBlocked", f"waiting for clusters that are not heard: {', '.join(blocked)}"
            )

    async def _let_go(self, name: tuple[str, str], record: Record) -> None:
        ref = kinds.KINDS["PlacementDecision"].ref(*name)
        try:
            live = await self.host.get(ref)
            if live["metadata"].get("uid") != record.uid:
                self._gone(name, record)
                return
            rest = [text for text in live["metadata"].get("finalizers") or () if text != DECISION_FINALIZER]
            await self.host.patch(
                ref,
                {
                    "metadata": {
                        "finalizers": rest,
                        "uid": record.uid,
                        "resourceVersion": live["metadata"]["resourceVersion"],
                    }
                },
            )
        except errors.NotFound:
            log.debug("decision %s/%s is gone already", *name)
        log.info("let go of %s", record.key)
        self._gone(name, record)

    def _gone(self, name: tuple[str, str], record: Record) -> None:
        self.state.drop_record(*name, record.uid)
        self.state.books.forget(record.workload_uid)
        self.state.signals.place(record.key)
        self.state.signals.freed()
