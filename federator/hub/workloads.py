"""What the hub remembers of a workload on the host: a summary that decisions need, never the whole object.

`summarise` is the projection of the host's reflectors. Whole objects are read again when a slice is rendered, through
`Documents`, a bounded cache keyed by resourceVersion.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.api import kinds, raw, read
from federator.api.verbs import SliceMark, WorkloadVerbs
from federator.expand import asks
from federator.kube import client as clients
from federator.kube import clock as clocks
from federator.kube import errors
from federator.model import shards
from federator.model.ask import DEFAULT_POLICY, Ask, Unit
from federator.model.decision import Share
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.model.shards import Ranges

NEUTRAL_MARK = SliceMark(fleet="", workload_uid="", origin_generation=0, cluster="", seq=0)
"""The mark used where only the content of a slice matters, not whose it is."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload of the host, as last heard."""

    key: WorkloadKey
    uid: str
    generation: int
    resource_version: str
    deleting: bool
    labels: Mapping[str, str]
    ask: Ask | None
    """Under the default policy; None when `problem` says why it cannot be read."""
    placement: Mapping[str, Any]
    profile: str
    """Name of the RuntimeProfile its pods get, "" for none."""
    max_unavailable: int
    """Copies that may be missing while its shares move."""
    content: str
    """Digest of what every member would be given, whatever its share."""
    status: bytes
    """The live status as JSON: kept encoded, because it is read only when a fold writes."""
    problem: str = ""

    @property
    def verbs(self) -> WorkloadVerbs:
        return kinds.verbs_of(self.key.kind)

    def live_status(self) -> dict[str, Any]:
        """The live status, decoded."""
        found: dict[str, Any] = msgspec.json.decode(self.status)
        return found

    def stub(self) -> dict[str, Any]:
        """As much of the object as its status is made from."""
        return {"metadata": {"name": self.key.name, "namespace": self.key.namespace, "generation": self.generation}}

    def progress(self) -> "Progress":
        """Which shards the host's status records as done; empty for replicas."""
        if self.verbs.unit is not Unit.SHARDS:
            return Progress()
        status = self.live_status()
        return Progress(
            completed=read_ranges(raw.text(status, "completedIndexes")),
            failed=read_ranges(raw.text(status, "failedIndexes")),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Shards that are done for good."""

    completed: Ranges = ()
    failed: Ranges = ()

    @property
    def done(self) -> Ranges:
        return shards.union(self.completed, self.failed)


def read_ranges(text: str) -> Ranges:
    """The ranges of a status field; none for a text that is no set of indexes (somebody else wrote it)."""
    try:
        return shards.parse(text)
    except ValueError:
        return ()


def digest(value: Any) -> str:
    """A digest of decoded JSON that does not depend on the order of keys."""
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=12).hexdigest()


def summarise(kind: str, obj: Mapping[str, Any], profile: Mapping[str, Any] | None) -> Workload:
    """Total: whatever an API server can hold gives a summary, if need be one with a `problem`."""
    meta = obj["metadata"]
    key = WorkloadKey(kind, meta.get("namespace", ""), meta["name"])
    ask: Ask | None = None
    content, problem = "", ""
    placement: Mapping[str, Any] = {}
    try:
        if refused := read.host_problems(obj):
            raise refused[0]
        verbs = kinds.verbs_of(kind)
        placement = verbs.placement(obj)
        ask = asks.ask(obj, verbs, DEFAULT_POLICY, profile, created_s=created_s(obj))
        content = digest(neutral(verbs, obj))
    except FieldError as bad:
        problem = str(bad)
    return Workload(
        key=key,
        uid=meta.get("uid", ""),
        generation=raw.integer(meta, "generation"),
        resource_version=meta.get("resourceVersion", ""),
        deleting="deletionTimestamp" in meta,
        labels=raw.text_map(meta, "labels"),
        ask=ask,
        placement=placement,
        profile=kinds.verbs_of(kind).profile(obj),
        max_unavailable=kinds.verbs_of(kind).max_unavailable(obj),
        content=content,
        status=msgspec.json.encode(raw.mapping(obj, "status")),
        problem=problem,
    )


def neutral(verbs: WorkloadVerbs, obj: Mapping[str, Any]) -> dict[str, Any]:
    """The slice of nobody in particular: what all clusters' slices have in common."""
    return verbs.render_slice(obj, Share("", 0, 0), NEUTRAL_MARK)


def created_s(obj: Mapping[str, Any]) -> float:
    stamp = obj["metadata"].get("creationTimestamp")
    return clocks.parse(stamp) if isinstance(stamp, str) else 0.0


class Documents:
    """Whole host objects, the most recently used ones; the rest is read again."""

    def __init__(self, host: clients.Client, limit: int) -> None:
        self._host = host
        self._limit = limit
        self._kept: OrderedDict[WorkloadKey, Mapping[str, Any]] = OrderedDict()

    def offer(self, key: WorkloadKey, obj: Mapping[str, Any]) -> None:
        """Keeps an object that has just been seen anyway."""
        self._kept[key] = obj
        self._kept.move_to_end(key)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def drop(self, key: WorkloadKey) -> None:
        self._kept.pop(key, None)

    async def fetch(self, workload: Workload) -> Mapping[str, Any] | None:
        """The object as `workload` summarises it, or newer; None when it is gone. Raises ApiError."""
        kept = self._kept.get(workload.key)
        same = kept is not None and kept["metadata"].get("uid") == workload.uid
        if kept is not None and same and kept["metadata"].get("generation", 0) >= workload.generation:
            return kept
        key = workload.key
        try:
            obj = await self._host.get(kinds.KINDS[key.kind].ref(key.namespace, key.name))
        except errors.NotFound:
            return None
        if obj["metadata"].get("uid") != workload.uid:
            return None
        self.offer(key, obj)
        return obj
