"""Events on the user's object, on transitions only. Best effort: an Event that cannot be written is dropped and
counted.

Queued and written by one task, so that no decision or write ever waits for an Event. Counted apart from the write
budget.
"""

import asyncio
import logging

from federator.api import kinds
from federator.hub.members import Member
from federator.hub.records import Record
from federator.hub.workloads import Workload
from federator.kube.applier import Applier
from federator.model.decision import Decision
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef, Tell

log = logging.getLogger(__name__)

WAITING_MAX = 1000
"""More Events than this are not worth keeping: somebody watches a storm, not a transition."""


class Events:
    """The hub's voice on users' objects."""

    def __init__(self, host: Applier) -> None:
        self._host = host
        self._queue: asyncio.Queue[Tell] = asyncio.Queue(WAITING_MAX)
        self.dropped = 0

    def placed(self, workload: Workload, before: Record | None, decision: Decision) -> None:
        """Tells what a written decision changed, if a person would care."""
        now = {share.cluster: share.count for share in decision.shares}
        was = {share.cluster: share.count for share in before.shares} if before is not None else {}
        if now != was:
            where = ", ".join(f"{cluster} {count}" for cluster, count in sorted(now.items())) or "nowhere"
            note = f"{sum(now.values())} of {decision.wanted} placed: {where}"
            self.tell(workload.key, workload.uid, "Placed" if before is None else "Rebalanced", note, action="Place")
        short_before = before.terms.shortfall if before is not None else 0
        if decision.shortfall and (decision.shortfall != short_before or before is None):
            self.tell(workload.key, workload.uid, decision.reason.value, decision.message, action="Place", warning=True)

        held_before = before.terms.reason if before is not None and before.terms.held else None
        if decision.held and not decision.shortfall and decision.reason is not held_before:
            self.tell(workload.key, workload.uid, decision.reason.value, decision.message, action="Place", warning=True)

    def about_decision(self, name: tuple[str, str], record: Record, reason: str, note: str) -> None:
        """An Event on a PlacementDecision: the workload it speaks of is gone."""
        regarding = kinds.KINDS["PlacementDecision"].ref(*name)
        self._enqueue(Tell(regarding, record.uid, reason, note, warning=True, action="Delete"))

    def about_cluster(self, member: Member, reason: str, note: str, *, warning: bool = False) -> None:
        """An Event on a MemberCluster that is being removed."""
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = kinds.KINDS["MemberCluster"].ref("", member.name)
        self._enqueue(Tell(regarding, uid, reason, note, warning=warning, action="Remove"))

    def member_went_back(self, member: Member) -> None:
        """An Event on a MemberCluster."""
        note = "its API server tells of an older state than before, as after a restore; its slices are compared anew"
        uid = str(member.obj["metadata"].get("uid", ""))
        regarding = kinds.KINDS["MemberCluster"].ref("", member.name)
        self._enqueue(Tell(regarding, uid, "MemberWentBack", note, warning=True, action="Compare"))

    def tell(
        self, key: WorkloadKey, uid: str, reason: str, note: str, *, action: str = "Reconcile", warning: bool = False
    ) -> None:
        """Queues one Event on a workload; when too many wait, it is dropped and counted."""
        regarding: ObjectRef = kinds.KINDS[key.kind].ref(key.namespace, key.name)
        self._enqueue(Tell(regarding, uid, reason, note, warning=warning, action=action))

    def _enqueue(self, event: Tell) -> None:
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
