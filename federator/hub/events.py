"""Events on the user's object, on transitions only. Best effort: an Event that cannot be written is dropped and
counted.

Queued and written by one task, so that no decision or write ever waits for an Event. Counted apart from the write
budget.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any

from federator.api import kinds
from federator.hub.records import Record
from federator.hub.workloads import Workload
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.clock import Clock
from federator.model.decision import Decision
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024
"""Bytes of a note that the API takes."""


class Events:
    """The hub's voice on users' objects."""

    def __init__(self, host: clients.Client, *, clock: Clock, rng: random.Random, limit: int = 1000) -> None:
        self._host = host
        self._clock = clock
        self._rng = rng
        self._queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(limit)
        self.dropped = 0

    def placed(self, workload: Workload, before: Record | None, decision: Decision) -> None:
        """Tells what a written decision changed, if a person would care."""
        now = {share.cluster: share.count for share in decision.shares}
        was = {share.cluster: share.count for share in before.shares} if before is not None else {}
        if now != was:
            where = ", ".join(f"{cluster} {count}" for cluster, count in sorted(now.items())) or "nowhere"
            note = f"{sum(now.values())} of {decision.wanted} placed: {where}"
            self.tell(workload.key, workload.uid, "Placed" if before is None else "Rebalanced", note, action="Place")
        short_before = before.facts.shortfall if before is not None else 0
        if decision.shortfall and (decision.shortfall != short_before or before is None):
            self.tell(workload.key, workload.uid, decision.reason.value, decision.message, action="Place", warning=True)

    def about_decision(self, name: tuple[str, str], record: Record, reason: str, note: str) -> None:
        """An Event on a PlacementDecision: the workload it speaks of is gone."""
        kind = kinds.KINDS["PlacementDecision"]
        regarding = ObjectRef(kind.api_version, kind.plural, name[0], name[1], kind.kind)
        self._enqueue(regarding, record.uid, reason, note, action="Delete", warning=True)

    def tell(
        self, key: WorkloadKey, uid: str, reason: str, note: str, *, action: str = "Reconcile", warning: bool = False
    ) -> None:
        """Queues one Event on a workload; when too many wait, it is dropped and counted."""
        regarding = kinds.KINDS[key.kind].ref(key.namespace, key.name)
        self._enqueue(regarding, uid, reason, note, action=action, warning=warning)

    def _enqueue(self, regarding: ObjectRef, uid: str, reason: str, note: str, *, action: str, warning: bool) -> None:
        stamp = self._clock.rfc3339_micro()
        name = f"{regarding.name}.{self._rng.getrandbits(64):016x}"
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": regarding.namespace},
            "eventTime": stamp,
            "reportingController": "federation.pinterest.com/hub",
            "reportingInstance": "federator-hub",
            "action": action,
            "reason": reason,
            "type": "Warning" if warning else "Normal",
            "note": note[:NOTE_LIMIT],
            "regarding": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": uid,
            },
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Writes queued Events until cancelled."""
        while True:
            event = await self._queue.get()
            meta = event["metadata"]
            try:
                await self._host.create(
                    ObjectRef("events.k8s.io/v1", "events", meta["namespace"], meta["name"], "Event"), event
                )
            except errors.ApiError as trouble:
                self.dropped += 1
                log.debug("event dropped: %s", trouble)
