"""Events on the user's objects, on transitions only; the history gets the same. Best effort: an
Event that cannot be written is dropped and counted.

One task writes them from a queue, so that no decision or write waits for an Event. They do not
count towards the write budget.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from federator.hub.history.journal import Journal
from federator.hub.members.member import Member
from federator.hub.records import decisions
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.model.decision import Decision, Reason
from federator.model.names import ObjectName, WorkloadKey
from federator.model.rules.invariant import Invariant
from federator.model.steps import EmitEvent, ObjectRef
from federator.status.conditions import Condition

log = logging.getLogger(__name__)

PLACED = "Placed"
"""Reason in the history of a decision that only gives copies. It is no Event."""
REPEAT_S = 600.0
"""Seconds between two Events about a problem that comes and goes."""
WAITING_MAX = 1000
"""Queued Events beyond this are dropped: in a storm single transitions are of no use."""


class Events:
    """Writes Events on users' objects, and notes the same in the journal."""

    def __init__(self, host: Applier, clock: Clock, journal: Journal) -> None:
        self._host = host
        self._journal = journal
        self._clock = clock
        self._reported_s: OrderedDict[ObjectName, float] = OrderedDict()
        """(uid, reason) -> when that problem was last reported, in monotonic seconds."""
        self._queue: asyncio.Queue[EmitEvent] = asyncio.Queue(WAITING_MAX)
        self.dropped = 0

    def placed(
        self,
        workload: Workload,
        before: Record | None,
        decision: Decision,
        evacuated: tuple[str, str] | None = None,
    ) -> None:
        """Reports what a written decision changed, if a user would care. `evacuated`: the reason
        and the cause, where it takes copies out of clusters that are being emptied."""
        now = {share.cluster: share.count for share in decision.shares}
        was = {share.cluster: share.count for share in before.shares} if before is not None else {}
        reason, why = evacuated or (_named(was, now, before, decision), "")
        self._journal.decided(workload, before, decision, reason, why)
        # A decision that only gives copies is in the decision and the condition already: nobody has
        # to act, and a thousand new services would cost a thousand writes.
        if now != was and reason not in ("Preempted", PLACED):
            where = (
                ", ".join(f"{cluster} {count}" for cluster, count in sorted(now.items()))
                or "nowhere"
            )
            note = (
                f"{sum(now.values())} of {decision.wanted} placed:"
                f" {where}{f' ({why})' if why else _cause(before, decision)}"
            )
            self.tell(workload.key, workload.uid, reason, note, action="Place")
        short_before = before.terms.shortfall if before is not None else 0
        fewer = decision.shortfall and (decision.shortfall != short_before or before is None)
        if fewer or decisions.left(before, decision):
            chosen = decision.reason is Reason.CHOSEN  # nothing is missing, and copies left
            self.tell(
                workload.key,
                workload.uid,
                Reason.PREEMPTED.value if chosen else decision.reason.value,
                decision.message,
                action="Place",
                warning=True,
            )

        held_before = before.terms.reason if before is not None and before.terms.held else None
        held = decision.held and not decision.shortfall and decision.reason is not Reason.CHOSEN
        if held and decision.reason is not held_before:
            self.tell(
                workload.key,
                workload.uid,
                decision.reason.value,
                decision.message,
                action="Place",
                warning=True,
            )

        if decision.surplus and not (before is not None and before.terms.surplus):
            self.tell(
                workload.key,
                workload.uid,
                "CopiesKept",
                decision.message,
                action="Place",
                warning=True,
            )

    def turned(self, member: Member, reason: str, note: str, *, lost: bool) -> None:
        """A member has stopped, or has begun again, to accept new work."""
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = registry.KINDS["MemberCluster"].ref("", member.name)
        self._enqueue(EmitEvent(regarding, uid, reason, note, warning=lost, action="Probe"))
        self._journal.cluster(member.name, reason, note, lost=lost)

    def changed(
        self,
        workload: Workload,
        was: Sequence[Mapping[str, Any]],
        now: Sequence[Condition],
        record: Record | None,
    ) -> None:
        """A workload's status was written: its changed conditions go into the history."""
        self._journal.turned(workload, was, now, record.seq if record is not None else 0)

    def repeats(self, uid: str, reason: str) -> bool:
        """Whether this problem of this workload was reported recently: crashing pods come and
        go."""
        now_s = self._clock.monotonic()
        reported_s = self._reported_s.pop((uid, reason), float("-inf"))
        again = now_s - reported_s < REPEAT_S
        self._reported_s[uid, reason] = reported_s if again else now_s
        while len(self._reported_s) > WAITING_MAX:
            self._reported_s.popitem(last=False)
        return again

    def about_decision(self, name: ObjectName, record: Record, reason: str, note: str) -> None:
        """An Event on a PlacementDecision of a workload that is gone."""
        regarding = registry.KINDS["PlacementDecision"].ref(*name)
        self._enqueue(EmitEvent(regarding, record.uid, reason, note, warning=True, action="Delete"))

    def about_cluster(
        self, member: Member, reason: str, note: str, *, warning: bool = False
    ) -> None:
        """An Event on a MemberCluster that is being removed, and an entry of the history."""
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = registry.KINDS["MemberCluster"].ref("", member.name)
        self._enqueue(EmitEvent(regarding, uid, reason, note, warning=warning, action="Remove"))
        self._journal.member_event(member.name, reason, note)

    def drain(self, member: Member, reason: str, note: str, *, warning: bool = False) -> None:
        """An Event on a MemberCluster that is drained, or no more, and an entry of the history."""
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = registry.KINDS["MemberCluster"].ref("", member.name)
        self._enqueue(EmitEvent(regarding, uid, reason, note, warning=warning, action="Drain"))
        self._journal.member_event(member.name, reason, note)

    def late(self, member: Member, note: str) -> None:
        """A Warning on a MemberCluster of which nodes did not come, and an entry of the history."""
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = registry.KINDS["MemberCluster"].ref("", member.name)
        event = EmitEvent(regarding, uid, "ScaleUpLate", note, warning=True, action="ScaleUp")
        self._enqueue(event)
        self._journal.member_event(member.name, "ScaleUpLate", note)

    def noted(self, member: Member, reason: str, note: str, was: str, now: str) -> None:
        """An entry of the history alone: its condition says it already, or a person did it."""
        self._journal.member_event(member.name, reason, note, (was, now))

    def member_went_back(self, member: Member) -> None:
        """An Event on a MemberCluster."""
        note = (
            "its API server tells of an older state than before, as after a restore; its slices"
            " are compared anew"
        )
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = registry.KINDS["MemberCluster"].ref("", member.name)
        self._enqueue(
            EmitEvent(regarding, uid, "MemberWentBack", note, warning=True, action="Compare")
        )

    def about_invariant(self, invariant: Invariant, reason: str, note: str, warning: bool) -> None:
        """An Event on a PlacementInvariant."""
        regarding = registry.KINDS["PlacementInvariant"].ref("", invariant.name)
        event = EmitEvent(regarding, invariant.uid, reason, note, warning=warning, action="Check")
        self._enqueue(event)

    def about_space(self, name: str, uid: str, reason: str, note: str) -> None:
        """A Warning on a namespace of the host."""
        regarding = ObjectRef("v1", "namespaces", "", name, "Namespace")
        self._enqueue(EmitEvent(regarding, uid, reason, note, warning=True, action="Delete"))

    def tell(
        self,
        key: WorkloadKey,
        uid: str,
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
        warning: bool = False,
    ) -> None:
        """Queues one Event on a workload. When too many wait, it is dropped and counted."""
        regarding: ObjectRef = registry.KINDS[key.kind].ref(key.namespace, key.name)
        self._enqueue(EmitEvent(regarding, uid, reason, note, warning=warning, action=action))

    def _enqueue(self, event: EmitEvent) -> None:
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Writes queued Events until cancelled."""
        while True:
            outcome = await self._host.apply(await self._queue.get())
            if outcome.error is not None:
                self.dropped += 1
                log.debug("event dropped: %s", outcome.error)


def _named(
    was: Mapping[str, int], now: Mapping[str, int], before: Record | None, decision: Decision
) -> str:
    """The reason of an Event on shares: Placed, Preempted, Scaled (a user changed the count),
    Rebalanced (replicas moved), or why it waits when no share changed."""
    if before is None:
        return PLACED
    if decisions.left(before, decision):
        return "Preempted"
    if before.terms.wanted != decision.wanted:
        return "Scaled"
    if now == was and decision.shortfall:
        return decision.reason.value
    return PLACED if sum(now.values()) > sum(was.values()) else "Rebalanced"


def _cause(before: Record | None, decision: Decision) -> str:
    """The sentence when an edit of the workload or of its policy made replicas move; ""
    otherwise."""
    if before is None or before.terms.wanted != decision.wanted:
        return ""
    name = decision.policy_name or decision.policy_origin
    if before.terms.policy_name != decision.policy_name:
        before_name = before.terms.policy_name or before.terms.policy_origin
        return f" (under policy {name}, before {before_name})"
    if before.facts.inputs_hash != decision.inputs_hash:
        return f" (its spec, its policy {name} or what it chooses from was edited)"
    return ""
