"""Kubernetes Events of the main transitions, bounded in number and in rate.

Bursts beyond the bucket are dropped and repeats are counted on one object, as client-go's recorder
does; when a cluster holds more than `limit` events, the oldest go. Events are for people; no
controller reads them.
"""

import collections
import random
from typing import Any, Final

from federator.embedded.controllers.kinds import Kinds
from federator.embedded.storage import refusals
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock

_BURST: Final = 200.0
_PER_SECOND: Final = 5.0


class Recorder:
    """Writes events for one cluster. `limit` 0 writes none."""

    def __init__(
        self, store: Store, clock: Clock, rng: random.Random, kinds: Kinds, *, limit: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._kinds = kinds
        self._limit = limit
        self._tokens = min(_BURST, float(limit))
        self._filled_at: float | None = None
        self._names: collections.OrderedDict[tuple[str, str, str], tuple[str, str]] = (
            collections.OrderedDict()
        )

    def emit(
        self, about: JsonObject, reason: str, message: str, component: str, *, warning: bool = False
    ) -> None:
        """Records one event about a stored object, or drops it when there are too many."""
        if not self._take():
            return
        same = (about["metadata"]["uid"], reason, message)
        key = self._names.get(same)
        now = self._clock.rfc3339()
        if key is not None:
            revision = self._store.get(self._kinds.events, *key)
            if revision is not None:
                event = revision.obj
                self._store.update(
                    self._kinds.events, {**event, "count": event["count"] + 1, "lastTimestamp": now}
                )
                return
        namespace = about["metadata"].get("namespace") or "default"
        if self._closing(namespace):
            return
        name = f"{about['metadata']['name']}.{self._rng.getrandbits(64):016x}"
        try:
            self._store.create(
                self._kinds.events,
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": name, "namespace": namespace},
                    "involvedObject": reference(about),
                    "reason": reason,
                    "message": message,
                    "source": {"component": component},
                    "firstTimestamp": now,
                    "lastTimestamp": now,
                    "count": 1,
                    "type": "Warning" if warning else "Normal",
                    "eventTime": None,
                    "reportingComponent": component,
                    "reportingInstance": "",
                },
            )
        except refusals.Refusal:
            return  # the same random name twice: an event less
        self._names[same] = (namespace, name)
        self._forget_oldest()

    def _take(self) -> bool:
        if self._limit <= 0:
            return False
        now = self._clock.monotonic()
        if self._filled_at is not None:
            self._tokens = min(_BURST, self._tokens + (now - self._filled_at) * _PER_SECOND)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _closing(self, namespace: str) -> bool:
        revision = self._store.get(self._kinds.namespaces, "", namespace)
        return revision is not None and "deletionTimestamp" in revision.obj["metadata"]

    def _forget_oldest(self) -> None:
        while len(self._names) > self._limit:
            _, (namespace, name) = self._names.popitem(last=False)
            if self._store.get(self._kinds.events, namespace, name) is not None:
                self._store.delete(self._kinds.events, namespace, name)


def reference(about: JsonObject) -> JsonObject:
    """An ObjectReference to it."""
    metadata = about["metadata"]
    involved: dict[str, Any] = {
        "kind": about["kind"],
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": about["apiVersion"],
        "resourceVersion": metadata["resourceVersion"],
    }
    return {field: value for field, value in involved.items() if value}
