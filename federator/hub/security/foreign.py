"""Decisions that no hub of this host made: their seq is above everything that it has issued, or
they have no seal.

They are not obeyed (`HubState.observe_decision`). Because API servers accept no lower seq in their
place, the objects are deleted; then the workload's decision is written again, from the hub's memory
or, after a restart, from the slices in members. If they keep coming, each deletion waits longer.
"""

import logging
from collections import Counter

from federator.hub.host.controller import Controller, Tools
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model.names import DECISION_FINALIZER, ObjectName
from federator.model.steps import RequeueAfter

log = logging.getLogger(__name__)

REASON = "ForeignDecision"
PAUSE_S = 2.0
PAUSE_MAX_S = 300.0
"""Least and longest pause between two deletions of a decision with the same name."""
REMEMBERED = 1000


class Foreign(Controller):
    """Deletes them. Keys of its queue are (namespace, name) of decisions."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._removed: Counter[ObjectName] = Counter()
        self._due_s: dict[ObjectName, float] = {}
        self.queue: WorkQueue[ObjectName] = self.new_queue("foreign decisions")
        self.state.signals.refuse.append(lambda namespace, name: self.queue.add((namespace, name)))
        self.state.signals.resumed.append(self.look_at_all)

    async def run(self) -> None:
        self.look_at_all()
        await self.queue.run(self.turn, workers=2)

    def look_at_all(self) -> None:
        for name in sorted(self.state.refused):
            self.queue.add(name)

    async def turn(self, name: ObjectName) -> RequeueAfter | None:
        """Deletes one. Raises ApiErrors."""
        refused = self.state.refused.get(name)
        if refused is None or not self.state.ready or self.state.paused:
            return None
        now_s = self.clock.monotonic()
        if (wait_s := self._due_s.get(name, now_s) - now_s) > 0:
            return RequeueAfter(name, wait_s, "it was removed a short while ago")
        if not self._removed[name]:
            log.warning("decision %s/%s is removed: %s", *name, self.state.objection(refused))
        self._tell(name, refused)
        ref = registry.KINDS["PlacementDecision"].ref(*name)
        try:
            live = await self.host.get(ref)
            if live["metadata"].get("uid") != refused.uid:
                return None  # the watch shows the present one
            rest = [
                text
                for text in live["metadata"].get("finalizers") or ()
                if text != DECISION_FINALIZER
            ]
            version = live["metadata"]["resourceVersion"]
            body = {
                "metadata": {"finalizers": rest, "uid": refused.uid, "resourceVersion": version}
            }
            # Before the deletion: one that is being deleted and held by our finalizer would be a
            # tombstone, by which members are emptied. If this hub ends in between, the object
            # stands there as before, without finalizer, and is refused and removed by the next.
            await self.host.patch(ref, body)
            await self.host.delete(ref, uid=refused.uid)
        except errors.NotServed:
            raise
        except errors.NotFound:
            log.debug("decision %s/%s is gone already", *name)
        self._note_removed(name, now_s)
        self.state.drop_refused(*name, refused.uid)
        return None

    def _note_removed(self, name: ObjectName, now_s: float) -> None:
        if len(self._removed) >= REMEMBERED:
            self._removed.clear()
            self._due_s.clear()
        self._due_s[name] = now_s + min(PAUSE_S * 2 ** min(self._removed[name], 16), PAUSE_MAX_S)
        self._removed[name] += 1

    def _tell(self, name: ObjectName, refused: Record) -> None:
        """Writes an Event on the decision, and on its workload if that exists."""
        note = f"{self.state.objection(refused)}: the decision is not obeyed, and is removed"
        self.events.about_decision(name, refused, REASON, note)
        workload = self.state.workloads.get(refused.key)
        if workload is not None and workload.uid == refused.workload_uid:
            self.events.tell(
                refused.key,
                workload.uid,
                REASON,
                f"of {name[1]}: {note}",
                action="Place",
                warning=True,
            )
