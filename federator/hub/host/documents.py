"""Whole workloads of the host: a bounded cache of the latest ones, by resourceVersion. Others are
read again."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.api import raw
from federator.hub.records import workloads
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube import client as clients
from federator.kube import errors
from federator.model.names import WorkloadKey

OPEN_MAX = 64
"""Host objects that are kept decoded."""
FORMER_MAX = 256
"""Host objects that are kept as they were before their last change."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """One host object as JSON, without status and managed fields: a fifth of the size."""

    uid: str
    generation: int
    marks: bytes
    """Digest of labels and annotations, which change without the generation."""
    content: bytes
    summary: Workload | None
    """The summary of exactly this object without a profile; None when unknown."""


class Documents:
    """The most recently used host objects as JSON; others are read again."""

    def __init__(self, host: clients.Client, limit: int) -> None:
        self._host = host
        self._limit = limit
        self._kept: OrderedDict[WorkloadKey, _Kept] = OrderedDict()
        self._former: OrderedDict[WorkloadKey, _Kept] = OrderedDict()
        self._open: OrderedDict[WorkloadKey, tuple[_Kept, dict[str, Any]]] = OrderedDict()
        """The last objects that were fetched, decoded: all members ask for the same one at the same
        time."""

    @property
    def full(self) -> bool:
        """Whether another object replaces one. A first list has many, each as good as another."""
        return len(self._kept) >= self._limit

    def offer(
        self, key: WorkloadKey, obj: Mapping[str, Any], summary: Workload | None = None
    ) -> None:
        """Keeps an object that has just been read, unless only its status can be new. `summary` was
        made from it."""
        meta = obj["metadata"]
        uid, generation = meta.get("uid", ""), meta.get("generation", 0)
        marks = _marks(meta)
        kept = self._kept.get(key)
        if kept is None or (kept.uid, kept.generation, kept.marks) != (uid, generation, marks):
            if kept is not None and kept.uid == uid and kept.generation < generation:
                self._former[key] = kept
                self._former.move_to_end(key)
                while len(self._former) > FORMER_MAX:
                    self._former.popitem(last=False)
            content = {name: value for name, value in obj.items() if name != "status"}
            content["metadata"] = {
                name: value for name, value in meta.items() if name != "managedFields"
            }
            self._kept[key] = _Kept(uid, generation, marks, msgspec.json.encode(content), summary)
        self._kept.move_to_end(key)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def renewed(self, key: WorkloadKey, obj: Mapping[str, Any]) -> Workload | None:
        """The summary of an object that has changed in its status at most since it was kept; None
        otherwise, or when unknown."""
        kept, meta = self._kept.get(key), obj["metadata"]
        if (
            kept is None
            or kept.summary is None
            or kept.summary.profile
            or "deletionTimestamp" in meta
        ):
            return None
        same = (kept.uid, kept.generation) == (meta.get("uid", ""), meta.get("generation", 0))
        if not same or kept.marks != _marks(meta):
            return None
        return kept.summary.with_status(raw.mapping(obj, "status"), meta.get("resourceVersion", ""))

    def drop(self, key: WorkloadKey) -> None:
        for book in (self._kept, self._open, self._former):
            book.pop(key, None)

    def former(self, workload: Workload) -> Mapping[str, Any] | None:
        """The object before its generation last rose, if this process saw that recently."""
        kept = self._former.get(workload.key)
        if kept is None or kept.uid != workload.uid:
            return None
        document: dict[str, Any] = msgspec.json.decode(kept.content)
        return document

    async def fetch(self, workload: Workload) -> Mapping[str, Any] | None:
        """The object without its status in the version of `workload` or a later one, with the spec
        in force; None when it is gone. Callers must not change it. Raises ApiError."""
        kept = self._kept.get(workload.key)
        if kept is not None and kept.uid == workload.uid and kept.generation >= workload.generation:
            return workloads.composed(
                self._opened(workload.key, kept), workload.served, workload.generation
            )
        key = workload.key
        try:
            obj = await self._host.get(registry.KINDS[key.kind].ref(key.namespace, key.name))
        except errors.NotFound:
            return None
        if obj["metadata"].get("uid") != workload.uid:
            return None
        self.offer(key, obj)
        return workloads.composed(obj, workload.served, workload.generation)

    def _opened(self, key: WorkloadKey, kept: _Kept) -> dict[str, Any]:
        before = self._open.get(key)
        if before is not None and before[0] is kept:
            return before[1]
        document: dict[str, Any] = msgspec.json.decode(kept.content)
        self._open[key] = (kept, document)
        self._open.move_to_end(key)
        while len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)
        return document


def _marks(meta: Mapping[str, Any]) -> bytes:
    said = msgspec.json.encode((meta.get("labels"), meta.get("annotations")), order="sorted")
    return hashlib.blake2b(said, digest_size=16).digest()
