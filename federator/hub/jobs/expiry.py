"""Expiry: a job set that has ended is deleted when its time to live is over, as the TTL controller
of Kubernetes deletes Jobs.

The hub deletes its object on the host; the decision on it is the tombstone by which members are
emptied. Ended is what the host's status says, and it is read again before anything is deleted: a
leader that has just taken over, or a watch that lags, deletes nothing on its own word.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.hub.host.controller import Controller, Tools
from federator.hub.records import workloads
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import names
from federator.model.names import WorkloadKey
from federator.model.steps import Delete, RequeueAfter

log = logging.getLogger(__name__)


class Expiry(Controller):
    """Deletes job sets after their time to live. The keys of its queue are those of the job
    sets."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[WorkloadKey] = self.new_queue("expiry", group=names.namespace_of)
        self.state.signals.aggregate.append(self.look)
        self.state.signals.stated.append(self.look)
        self.state.signals.resumed.append(self.look_everywhere)

    async def run(self) -> None:
        """Serves the queue until cancelled, while this hub leads."""
        self.look_everywhere()
        await self.queue.run(self.turn, workers=4)

    def look_everywhere(self) -> None:
        for key in self.state.workloads:
            self.look(key)

    def look(self, key: WorkloadKey) -> None:
        """Something about the workload changed. That it has ended is often its last news, told by
        our own status alone."""
        workload = self.state.workloads.get(key)
        if workload is not None and workload.end_rules.ttl_s is not None:
            self.queue.add(key)

    async def turn(self, key: WorkloadKey) -> RequeueAfter | None:
        """One workload. Raises ApiErrors."""
        workload = self.state.workloads.get(key)
        if workload is None or workload.deleting or not self.state.ready or self.state.paused:
            return None
        wait_s = self._left_s(workload, workload.live_status())
        if wait_s == math.inf:
            return None
        if wait_s > 0:
            return RequeueAfter(key, wait_s, "its time to live")
        ref = registry.KINDS[key.kind].ref(key.namespace, key.name)
        try:
            live = await self.host.get(ref)
        except errors.NotFound:
            return None
        read = workloads.summarise(key.kind, live, None)
        if (wait_s := self._left_s(read, raw.mapping(live, "status"))) > 0:
            return RequeueAfter(key, wait_s, "its time to live") if wait_s < math.inf else None
        version = raw.text(live, "metadata", "resourceVersion")
        log.info("%s: its time to live is over", key)
        outcome = await self.applier.apply(Delete(ref, read.uid, resource_version=version), key)
        if outcome.error is not None and not outcome.gone:
            raise outcome.error
        return None

    def _left_s(self, workload: Workload, status: Mapping[str, Any]) -> float:
        """Seconds that it still stays; infinity while it has not ended, or without a limit."""
        ended_s, ttl_s = ended_at_s(status), workload.end_rules.ttl_s
        if ttl_s is None or ended_s is None or workload.deleting:
            return math.inf
        return ended_s + ttl_s - self.clock.now()


def ended_at_s(status: Mapping[str, Any]) -> float | None:
    """When it ended by its status, in seconds since 1970; None while it has not."""
    for kind in ("Complete", "Failed"):
        shown = raw.condition({"status": status}, kind)
        if shown.get("status") == "True":
            return raw.epoch_s(raw.text(shown, "lastTransitionTime"))
    return None
