"""What the federation's accounts wrote, and garbage collectors took away, as the servers' audit
logs have it, and what must hold of it at all times.

Used by the failure tests: nothing is applied twice, no `seq` falls, and a settled federation writes
nothing. Reads logs only.
"""

import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from federator.kinds import registry
from tests.controlplane import audit
from tests.controlplane.cluster import Cluster
from tests.e2e.federations import until

VERBS = frozenset({"create", "update", "patch", "delete"})
CREDENTIAL = "authentication.kubernetes.io/credential-id"
CALM_S = 5.0
"""Longer than anything waits that still has to be written: figures of capacity are computed,
written and copied to the host at intervals of a second each.
"""
CALM_WITHIN_S = 60.0
SLICES = {"pinterestservices": "PinterestService", "pinterestjobsets": "PinterestJobSet"}


@dataclass(frozen=True, slots=True)
class Write:
    """One write that an API server answered."""

    at_s: float
    """Seconds since the epoch, when it was done."""
    cluster: str
    account: str
    credential: str
    """Tells apart processes that share an account."""
    verb: str
    resource: str
    """With its subresource."""
    namespace: str
    name: str
    code: int
    uid: str = ""
    version: int = 0
    seq: int = 0
    """Of a slice or a decision as it was after this write; 0 for all else."""

    @property
    def taken(self) -> bool:
        return self.code < 300

    @property
    def row(self) -> str:
        return (
            f"{self.cluster}: {self.account} {self.verb} {self.resource} "
            f"{self.namespace}/{self.name} {self.code}"
        )


def read(clusters: Mapping[str, Cluster]) -> list[Write]:
    """Everything written so far, leases apart, in order of time."""
    found = [write for name, cluster in clusters.items() for write in _of(name, cluster)]
    return sorted(found, key=lambda write: write.at_s)


def _of(name: str, cluster: Cluster) -> Iterator[Write]:
    for line in audit.lines(audit.log_of(cluster.directory, cluster.name)):
        event = json.loads(line)
        ref = event.get("objectRef") or {}
        if event["verb"] not in VERBS or ref.get("resource") in (
            "leases",
            "selfsubjectaccessreviews",
            None,
        ):
            continue
        yield _write(name, event, ref)


def _write(cluster: str, event: Mapping[str, Any], ref: Mapping[str, Any]) -> Write:
    resource, sub = ref["resource"], ref.get("subresource", "")
    answer = event.get("responseObject") or {}
    meta = answer.get("metadata") or {}
    extra = event["user"].get("extra") or {}
    return Write(
        at_s=datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
        cluster=cluster,
        account=event["user"]["username"].rpartition(":")[2],
        credential=next(iter(extra.get(CREDENTIAL) or ()), ""),
        verb=event["verb"],
        resource=f"{resource}/{sub}" if sub else resource,
        namespace=ref.get("namespace", ""),
        name=ref.get("name") or meta.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        uid=meta.get("uid", ""),
        version=int(meta.get("resourceVersion") or 0),
        seq=_seq(resource, cluster, answer),
    )


def _seq(resource: str, cluster: str, obj: Mapping[str, Any]) -> int:
    if resource == "placementdecisions":
        return int((obj.get("spec") or {}).get("seq") or 0)
    if cluster == "host" or resource not in SLICES or "metadata" not in obj:
        return 0
    mark = registry.verbs_of(SLICES[resource]).read_mark(obj)
    return mark.seq if mark is not None else 0


def since(writes: Sequence[Write], at_s: float) -> list[Write]:
    """What was taken after a moment."""
    return [write for write in writes if write.at_s > at_s and write.taken]


def doubled(writes: Sequence[Write], namespace: str) -> list[str]:
    """Objects of the namespace that were created more than once although nobody deleted one in
    between.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    found = []
    for write in writes:
        key = (write.cluster, write.resource, write.name)
        if write.namespace != namespace or not write.taken or write.resource == "events":
            continue
        if write.verb == "delete":
            counts[key] = 0
        elif write.code == 201:
            counts[key] += 1
            if counts[key] == 2:
                found.append(f"{write.row} is the second of its name")
    return found


def fallen(writes: Sequence[Write]) -> list[str]:
    """Slices and decisions whose `seq` fell: by object, in order of the versions that its server
    gave.
    """
    histories: dict[tuple[str, str], list[Write]] = defaultdict(list)
    for write in writes:
        if write.taken and write.seq and "/" not in write.resource:
            histories[write.cluster, write.uid].append(write)
    found = []
    for history in histories.values():
        history.sort(key=lambda write: write.version)
        for before, after in itertools.pairwise(history):
            if after.seq < before.seq:
                found.append(f"{after.row}: seq {before.seq} -> {after.seq}")
    return found


def at_rest(clusters: Mapping[str, Cluster], seconds: float) -> None:
    """Leaves a settled federation alone: after a calm moment nothing is written any more, leases
    apart. Raises AssertionError with what was written. Events count too.
    """
    until(
        lambda: not _written_within(clusters, CALM_S),
        lambda: f"it does not come to rest: {_written_within(clusters, CALM_S)}",
        CALM_WITHIN_S,
    )
    none(_written_within(clusters, seconds), "written at rest")


def _written_within(clusters: Mapping[str, Cluster], seconds: float) -> list[str]:
    begun = time.time()
    time.sleep(seconds)
    return [write.row for write in since(read(clusters), begun)]


def none(rows: Sequence[str], what: str) -> None:
    """Raises AssertionError with the rows if there are any."""
    assert not rows, f"{len(rows)} {what}: {'; '.join(rows[:8])}"


def sound(writes: Sequence[Write], namespace: str) -> None:
    """Nothing of the namespace was created twice, and no seq fell anywhere. Raises
    AssertionError.
    """
    none(doubled(writes, namespace), "doubled")
    none(fallen(writes), "seqs fell")
