"""Finalizing: a decision on a deleted workload keeps its finalizer until its members are empty.

A decision that somebody deleted although its workload exists is released at once and written again.

The decision is the tombstone. Unreachable members keep it, and are named in
`spec.deletion.waitingFor`, until they return or are removed from the fleet. Nothing is deleted in a
member before its lists are in. When many workloads vanish at once, a budget spreads the deletions
over time.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from federator.hub.cache.router import Changed, MemberChanged
from federator.hub.deletion.absence import AbsenceProof
from federator.hub.deletion.force_forget import Forgetting
from federator.hub.deletion.release import ending_step
from federator.hub.host import decision_writer
from federator.hub.host.controller import Controller, Tools
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import ORPHAN, cascade
from federator.kinds import registry
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model.names import DECISION_FINALIZER, ObjectName, WorkloadKey
from federator.model.steps import RequeueAfter

log = logging.getLogger(__name__)

RECHECK_S = 1.0
BLOCKED_RECHECK_S = 15.0


class Finalizing(Controller):
    """Carries decisions through their deletion."""

    def __init__(
        self, tools: Tools, forgetting: Forgetting, *, hand_on: Callable[[], Awaitable[bool]] | None
    ) -> None:
        """`hand_on` publishes the tombstones for the next leader, and returns False when that may
        have failed; None without a second hub."""
        super().__init__(tools)
        self._note = hand_on
        self.forgetting = forgetting
        self._absence = AbsenceProof(self.state)
        self._paid: set[str] = set()
        """Uids of decisions with slices that the budget has allowed to be deleted."""
        self._released: dict[str, set[str]] = {}
        """Uid of a workload -> uids of released slices. Members refuse the hub a second write,
        which it would send before the watch shows the first."""
        self._waiting: set[ObjectName] = set()
        """Decisions with slices that wait for the budget."""
        self._rechecks: Counter[ObjectName] = Counter()
        """How often each decision was examined again without a signal."""
        self.queue: WorkQueue[ObjectName] = self.new_queue("burying")
        self.state.signals.finalize.append(
            lambda namespace, name: self.queue.add((namespace, name))
        )

    async def _hand_on(self) -> bool:
        return self._note is None or await self._note()

    async def run(self) -> None:
        await self.queue.run(self.turn, workers=self.state.options.host_writes_in_flight)

    async def turn(self, name: ObjectName) -> RequeueAfter | None:
        """One decision: still needed, to be deleted, or to be emptied and released."""
        record = self.state.records.get(name)
        if record is None:
            self._count_waiting(name, waits=False)
            self._rechecks.pop(name, None)
            return None
        if not self.state.ready or self.state.paused:
            return None
        workload = self.state.workloads.get(record.key)
        lives = workload is not None and workload.uid == record.workload_uid
        if workload is not None and lives and record.deleting and not workload.deleting:
            if not await is_there(self.host, record.key, record.workload_uid):
                return self._recheck(name, "its workload goes, too, as its watch is about to tell")
            # Until it is written anew only the Lease tells the next leader that, should the
            # workload go in between, what members hold of it may be removed.
            self.state.prove_gone(record.workload_uid)
            if not await self._hand_on():
                return self._recheck(name, "the lease does not name the finalized decision yet")
            await self._release(name, record)
            self.state.lose_record(*name, record.uid)
            return None
        if workload is not None and lives and not record.deleting and not workload.cascade:
            self._count_waiting(name, waits=False)
            await self._own(name, record)
            return None
        if workload is not None and lives and workload.cascade == ORPHAN and not record.orphaned:
            if not record.lost:
                # As a garbage collector does: from now on the decision says it, also when the
                # workload is gone.
                return await self._disown(name, record)
            record = record.as_orphaned()
        return await self._end(name, record)

    async def _end(self, name: ObjectName, record: Record) -> RequeueAfter | None:
        """Empties members, or releases what they hold, and removes the decision."""
        if record.lost:
            return await self._finalize_lost(name, record)
        if wait := await self._wait_for_budget(name, record):
            return wait
        kind = registry.KINDS["PlacementDecision"]
        ref = kind.ref(*name)
        if not record.deleting:
            await confirm_ending(self.host, record.key, record.workload_uid)
            try:
                answer = await self.host.delete(ref, uid=record.uid)
            except errors.NotFound:
                self._gone(name, record)
                return None
            if answer.get("kind") != ref.kind:
                return self._recheck(name, "the deletion is on its way")
            # The answer shows the decision as it now is: a watch that lags would have it deleted
            # every second.
            record = self.state.read_record(answer)
            self.state.observe_decision(name[0], record)
        blocked, busy = await self._empty(record)
        if busy:
            return self._recheck(name, "slices are being removed")
        if blocked := await self._give_up(record, blocked):
            await self._say_blocked(name, record, blocked)
            return RequeueAfter(name, BLOCKED_RECHECK_S, f"not heard: {', '.join(blocked)}")
        if unproven := await self._absence.unproven(record):
            return self._recheck(name, f"it is not proven that {', '.join(unproven)} hold nothing")
        # The decision is the proof until it goes. From then on only the Lease tells the next leader
        # that a slice which comes late may be removed. None is removed of an orphaned workload.
        if not record.orphaned:
            self.state.prove_gone(record.workload_uid)
        if not await self._hand_on():
            return self._recheck(name, "the lease does not say yet which workloads are finalized")
        await self._finish(name, record)
        return None

    async def _own(self, name: ObjectName, record: Record) -> None:
        """Gives a decision of an earlier release its owner reference, and one that lost it. A
        workload that is being deleted gets none: a garbage collector may just have removed it."""
        await self._say(name, record, "")
        if record.owned or record.lost:
            return
        if await is_there(self.host, record.key, record.workload_uid):
            written = await decision_writer.set_owner(self.host, record, owned=True)
            if written is not None:
                self.state.observe_decision(name[0], self.state.read_record(written))

    async def _disown(self, name: ObjectName, record: Record) -> RequeueAfter | None:
        """Records on the decision that its workload is deleted with the policy Orphan."""
        await confirm_ending(self.host, record.key, record.workload_uid)
        written = await decision_writer.set_owner(self.host, record, owned=False)
        if written is not None:
            self.state.observe_decision(name[0], self.state.read_record(written))
        return self._recheck(name, "what its members hold is to be released")

    async def _finalize_lost(self, name: ObjectName, record: Record) -> RequeueAfter | None:
        """A decision without an object, on a workload that is gone: the tombstone allows removing
        its slices, also those of unreachable members when they return."""
        await confirm_ending(self.host, record.key, record.workload_uid)
        if not record.orphaned:
            self.state.prove_gone(record.workload_uid)
        if not await self._hand_on():
            return self._recheck(name, "the lease does not say yet which workloads are finalized")
        slices = sum(1 for _ in self.state.slices_with_uid(record.key, record.workload_uid))
        if slices and record.workload_uid not in self._paid and not record.orphaned:
            if wait_s := self.state.may_delete(slices, self.clock.monotonic()):
                return RequeueAfter(
                    name, min(wait_s, BLOCKED_RECHECK_S), "deletions are spread over time"
                )
            self._paid.add(record.workload_uid)
        if (await self._empty(record))[1]:
            return self._recheck(name, "slices are being removed")
        self._gone(name, record)
        return None

    def _recheck(self, name: ObjectName, why: str) -> RequeueAfter:
        """Watches show the result of a deletion; a silent watch must not repeat it every second."""
        delay_s = min(RECHECK_S * 2 ** min(self._rechecks[name], 8), BLOCKED_RECHECK_S)
        self._rechecks[name] += 1
        return RequeueAfter(name, delay_s, why)

    async def _wait_for_budget(self, name: ObjectName, record: Record) -> RequeueAfter | None:
        """The requeue of a deletion while too many were made lately; None when it may go on. A
        release deletes nothing."""
        if record.uid in self._paid or record.orphaned:
            return None
        slices = sum(1 for _ in self.state.slices_with_uid(record.key, record.workload_uid))
        wait_s = self.state.may_delete(max(slices, 1), self.clock.monotonic())
        if wait_s == 0.0:
            self._paid.add(record.uid)
            self._count_waiting(name, waits=False)
            return None
        if name not in self._waiting:
            log.warning(
                "the deletion of %s waits for the budget of slices deleted in a minute", record.key
            )
        self._count_waiting(name, waits=True)
        rate = self.state.deletions_a_minute
        message = (
            f"The workload is gone from the host. Its {slices} slices wait, because at most {rate}"
            " slices are deleted in a minute (settings hub.deletions_permille and"
            " hub.deletions_floor)."
        )
        await self._say(name, record, "DeletionBudget", message)
        return RequeueAfter(name, min(wait_s, BLOCKED_RECHECK_S), "deletions are spread over time")

    def _count_waiting(self, name: ObjectName, *, waits: bool) -> None:
        (self._waiting.add if waits else self._waiting.discard)(name)
        if self.state.metrics is not None:
            self.state.metrics.child("federator_deletions_waiting").set(len(self._waiting))

    async def _give_up(self, record: Record, blocked: tuple[str, ...]) -> tuple[str, ...]:
        """The clusters that the deletion still waits for, without those that an operator gave
        up."""
        left = []
        for cluster in blocked:
            member = self.state.holder(cluster)
            if (
                cluster in record.given_up
                and member is not None
                and (record.orphaned or await self.forgetting.remember(member, record))
            ):
                continue  # what it was to release stays there with its mark, and is reported
            left.append(cluster)
        return tuple(left)

    async def _empty(self, record: Record) -> tuple[tuple[str, ...], bool]:
        """Deletes what reachable members hold. Returns the unreachable clusters, and whether slices
        remain."""
        busy = False
        for seen in self.state.slices_with_uid(record.key, record.workload_uid):
            member = self.state.members[seen.cluster]
            if not member.knows(record.key.kind) or member.link.applier is None:
                continue
            busy = True
            self._absence.seen(record, seen.cluster)
            if not member.claimed:
                self.state.signals.member_changed(MemberChanged.UNCLAIMED, member)
                continue
            if seen.deleting or seen.uid in self._released.get(record.workload_uid, ()):
                continue
            ref = registry.KINDS[record.key.kind].ref(record.key.namespace, record.key.name)
            step = ending_step(record, ref, seen.uid)
            outcome = await member.link.applier.apply(step, record.key)
            if outcome.error is not None:
                log.info(
                    "%s: slice of %s not removed yet: %s", seen.cluster, record.key, outcome.error
                )
                self._tell_refused(record, seen.cluster, outcome.error)
            elif record.orphaned:
                self._released.setdefault(record.workload_uid, set()).add(seen.uid)
        blocked = tuple(
            cluster
            for cluster in sorted(
                record.clusters | {seen.cluster for seen in self._hidden_slices(record)}
            )
            if (holder := self.state.holder(cluster)) is not None
            and not holder.knows(record.key.kind)
        )
        return blocked, busy

    def _tell_refused(self, record: Record, cluster: str, error: errors.ApiError) -> None:
        """Manifests of an earlier release in a member allow no release."""
        refused = record.orphaned and isinstance(error, errors.Denied)
        if refused and not self.events.repeats(record.uid, "ReleaseRefused"):
            note = f"{cluster} refuses to release its object: apply deploy/member there. {error}"
            name = (record.key.namespace, record.name)
            self.events.about_decision(name, record, "ReleaseRefused", note[:1024])

    def _hidden_slices(self, record: Record) -> list[SliceSeen]:
        return [
            seen
            for seen in self.state.slices_with_uid(record.key, record.workload_uid)
            if not self.state.members[seen.cluster].knows(record.key.kind)
        ]

    async def _say_blocked(
        self, name: ObjectName, record: Record, blocked: tuple[str, ...]
    ) -> None:
        """Names on the decision, once per change, the clusters that block its deletion."""
        if blocked == record.terms.waiting_for:
            return
        waits = (
            f"{len(blocked)} clusters that are unreachable or do not serve {record.key.kind}:"
            f" {', '.join(blocked)}"
        )
        await self._say(name, record, "DeletionBlocked", f"Waiting for {waits}.", blocked)
        log.info("deletion of %s is blocked by %s", record.key, ", ".join(blocked))
        self.events.about_decision(name, record, "DeletionBlocked", f"waiting for {waits}")

    async def _say(
        self,
        name: ObjectName,
        record: Record,
        reason: str,
        message: str = "",
        blocked: tuple[str, ...] = (),
    ) -> None:
        """Writes on the decision, once per change, why it still exists; "" for no reason."""
        if (reason, blocked) == (record.terms.deletion_reason, record.terms.waiting_for):
            return
        deletion = (
            {"reason": reason, "message": message[:1024], "waitingFor": list(blocked)}
            if reason
            else None
        )
        patch = {"metadata": {"uid": record.uid}, "spec": {"deletion": deletion}}
        try:
            written = await self.host.patch(registry.KINDS["PlacementDecision"].ref(*name), patch)
        except errors.NotFound:
            self._gone(name, record)
            return
        self.state.observe_decision(name[0], self.state.read_record(written))

    async def _finish(self, name: ObjectName, record: Record) -> None:
        await self._release(name, record)
        log.info("finalized %s: no member holds anything of it", record.key)
        self._gone(name, record)

    async def _release(self, name: ObjectName, record: Record) -> None:
        """Removes our finalizer from the decision if it is still there. Raises ApiErrors."""
        ref = registry.KINDS["PlacementDecision"].ref(*name)
        try:
            live = await self.host.get(ref)
            if live["metadata"].get("uid") != record.uid:
                return
            rest = [
                text
                for text in live["metadata"].get("finalizers") or ()
                if text != DECISION_FINALIZER
            ]
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

    def _gone(self, name: ObjectName, record: Record) -> None:
        self._paid -= {record.uid, record.workload_uid}
        self._absence.forget(record.uid)
        self._released.pop(record.workload_uid, None)
        self._rechecks.pop(name, None)
        self._count_waiting(name, waits=False)
        self.state.forget_decision(*name, record.uid)
        self.state.changed(Changed.ENDED, record.key)
        self.state.signals.freed()


async def is_there(host: clients.Client, key: WorkloadKey, uid: str) -> bool:
    """Reads the workload itself: presence in a cache does not prove that its decision may be
    released. Raises ApiErrors."""
    meta = await _live_meta(host, key, uid)
    return meta is not None and not meta.get("deletionTimestamp")


async def confirm_ending(host: clients.Client, key: WorkloadKey, uid: str) -> None:
    """The same for a workload that may also be there and wait, with a finalizer of the garbage
    collector, until its members are empty or released."""
    meta = await _live_meta(host, key, uid)
    if meta is not None and not cascade(meta):
        raise errors.Conflict(f"{key} is still there", reason="Conflict")


async def confirm_absence(host: clients.Client, key: WorkloadKey, uid: str) -> None:
    """Reads the workload itself: absence in a cache does not justify a deletion. Raises
    `errors.Conflict` while it exists, and other ApiErrors."""
    if await _live_meta(host, key, uid) is not None:
        raise errors.Conflict(f"{key} is still there", reason="Conflict")


async def _live_meta(host: clients.Client, key: WorkloadKey, uid: str) -> Mapping[str, Any] | None:
    """Metadata of the workload with this uid; None where it is gone."""
    live = await host.find(registry.KINDS[key.kind].ref(key.namespace, key.name))
    return live["metadata"] if live is not None and live["metadata"].get("uid") == uid else None
