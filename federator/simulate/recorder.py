"""A live federation as a scenario: what `federator record` writes. Pure.

It is made from the host's objects, and from the history that the leader keeps of each workload.
What a decision does not depend on is left out: environments, commands and arguments of containers.
"""

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import capacityfields, membercluster, raw
from federator.api.placement import decisionfacts
from federator.kinds import registry
from federator.model import names
from federator.model.ask import Unit
from federator.model.errors import FieldError
from federator.model.fleet import Capacity, NodeRow
from federator.model.kubernetes import pod_security, quantity
from federator.model.names import WorkloadKey
from federator.model.resources import PODS, Resources
from federator.placement.verdicts import UNANSWERED
from federator.simulate.scenario import recorded
from federator.simulate.scenario.schema import RECORDING_VERSION

Obj = Mapping[str, Any]
POLICIES: Final = ("ClusterPlacementPolicy", "PlacementPolicy")
_KEPT: Final = ("name", "namespace", "uid", "generation", "labels", "creationTimestamp")
_CONFIG: Final = "config"
"""The files of a workload: of its spec's own fields the one that no decision reads."""
_SECRET: Final = frozenset({"env", "envFrom", "command", "args", "secrets", "config"})
"""Lists of containers and of `spec.runtime` that no decision reads, and that may hold what nobody
should pass on."""
_DRAIN: Final = "drain"
"""Of a sidecar that registers pods: how it does so is in its variables, which are left out."""
REPORTED_S: Final = 120.0
"""Seconds after which every report of a member shows that a job has ended."""
_FAILED: Final = "Failed=True"
_OVER: Final = ("Complete=True", _FAILED)


class NothingToRecord(ValueError):
    """There is no recording of this federation; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class History:
    """What the leader told of one workload."""

    entries: Sequence[Obj] = ()
    more: bool = False
    """Whether older entries were left out."""
    begins: float | None = None
    """Epoch seconds of the oldest entry about anything."""


@dataclass(slots=True)
class _Workload:
    """One workload on its way into the recording. Times are epoch seconds."""

    key: WorkloadKey
    obj: Obj
    created_s: int
    """When members could tell what fits of it, if it had to wait for that."""
    count: int
    decisions: list[Obj]
    shards: bool
    """Whether it is a job."""
    over_s: float | None = None
    failed: bool = False
    submit_s: int = 0
    scalings: list[tuple[int, int, Obj]] = field(default_factory=list)
    """(second, replicas, decision that followed) of edits of a service's replicas."""

    @property
    def first_seq(self) -> int | None:
        """Number of its first decision; None where the history does not reach back to it."""
        first = next(iter(self.decisions), None)
        return (
            raw.integer(first, "seq") if first is not None and first.get("from") is None else None
        )


def document(
    objs: Sequence[Obj], histories: Mapping[WorkloadKey, History], now_s: float
) -> dict[str, Any]:
    """The scenario. Raises NothingToRecord."""
    by_kind: dict[str, list[Obj]] = {}
    for obj in objs:
        by_kind.setdefault(raw.text(obj, "kind"), []).append(obj)
    clusters = by_kind.get("MemberCluster", [])
    if not clusters:
        raise NothingToRecord("the federation has no member, so there is no fleet to record")
    silent = [
        raw.text(cluster, "metadata", "name")
        for cluster in clusters
        if "capacity" not in raw.mapping(cluster, "status")
    ]
    if silent:
        raise NothingToRecord(f"{', '.join(silent)} has not reported its capacity yet")
    workloads = [
        _workload_of(kind, obj, histories)
        for kind in registry.WORKLOADS.values()
        for obj in by_kind.get(kind.kind, ())
        if raw.at(obj, "metadata", "deletionTimestamp") is None
    ]
    if not workloads:
        raise NothingToRecord("the federation has no workload, so there is nothing to replay")
    begin_s = min(workload.created_s for workload in workloads)
    for workload in workloads:
        workload.scalings = list(_scalings(workload))
    _submitted(workloads)
    until_s = max(int(now_s) - begin_s, *(workload.submit_s - begin_s for workload in workloads), 1)
    notes = [*_ours(workloads, histories), *_of_clusters(clusters)]
    fleet, foreign = _fleet(clusters, by_kind, workloads, now_s)
    return {
        "description": f"What federator record took from a live federation in {until_s:,} seconds.",
        "until": until_s,
        "fleet": {"occupied": True, "objects": fleet},
        "policies": [_bare(obj) for kind in POLICIES for obj in by_kind.get(kind, ())],
        "quotas": [_bare(obj) for obj in by_kind.get("FederatedQuota", ())],
        "invariants": [_bare(obj) for obj in by_kind.get("PlacementInvariant", ())],
        "demand": {
            "recording": {
                "version": RECORDING_VERSION,
                "begin": begin_s,
                "notes": [*notes, *foreign],
                "levels": _levels(by_kind.get("Namespace", ())),
                "profiles": [_bare(obj) for obj in by_kind.get("RuntimeProfile", ())],
                "works": [_work(workload, begin_s) for workload in workloads],
                "complete": True,
            }
        },
    }


def key_of(kind: str, obj: Obj) -> WorkloadKey:
    return names.key(
        kind, raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name")
    )


def _workload_of(kind: Any, obj: Obj, histories: Mapping[WorkloadKey, History]) -> _Workload:
    key = key_of(kind.kind, obj)
    entries = histories.get(key, History()).entries
    made = [
        entry
        for entry in entries
        if entry.get("kind") == "Decision" and entry.get("key") == str(key)
    ]
    born = int(raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp")))
    # One of the same name may have been deleted before: what is older than the object is of that.
    lived = [
        entry for entry in entries if _number(entry, "at") >= born and entry.get("key") == str(key)
    ]
    over = next((entry for entry in lived if str(entry.get("to", "")).startswith(_OVER)), None)
    decisions = [decision for decision in made if _number(decision, "at") >= born]
    decisions.sort(key=lambda decision: raw.integer(decision, "seq"))
    unanswered = _unanswered(decisions)
    if unanswered:
        decisions = [{**decisions[unanswered], "from": None}, *decisions[unanswered + 1 :]]
        born = int(_number(decisions[0], "at"))
    return _Workload(
        key,
        obj,
        born,
        kind.verbs.count(obj),
        decisions,
        kind.verbs.unit is Unit.SHARDS,
        over_s=_number(over, "at") if over is not None else None,
        failed=over is not None and str(over["to"]).startswith(_FAILED),
    )


def _unanswered(decisions: Sequence[Obj]) -> int:
    """How many of the decisions gave nothing because no member had counted the pods yet; 0 where no
    other follows. A simulated member counts them at once: the workload comes when others do too.
    """
    for at, entry in enumerate(decisions):
        if _counts(entry.get("to")) or UNANSWERED not in raw.text(entry, "evidence"):
            return at
    return 0


def _number(entry: Obj, name: str) -> float:
    value = entry.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _scalings(workload: _Workload) -> Iterator[tuple[int, int, Obj]]:
    """The edits of a service's replicas, as far as its decisions tell them; none where what they
    say is not the number of its object (strategy Duplicate gives each cluster that many).
    """
    decisions = [entry for entry in workload.decisions if raw.integer(entry, "wanted")]
    if (
        workload.shards
        or workload.first_seq is None
        or not decisions
        or raw.integer(decisions[-1], "wanted") != workload.count
    ):
        return
    for before, entry in itertools.pairwise(decisions):
        if raw.integer(entry, "wanted") != raw.integer(before, "wanted"):
            yield int(_number(entry, "at")), raw.integer(entry, "wanted"), entry


def _submitted(workloads: list[_Workload]) -> None:
    """Sorts by submission, which is in whole seconds: no work before one that was first decided on
    sooner, nor before the second in which a job ends that was over by then. So it is with scalings.
    """
    for workload in workloads:
        workload.submit_s = workload.created_s
    arrivals = [
        (_issued(workload.decisions[0]), workload, -1)
        for workload in workloads
        if workload.first_seq is not None
    ]
    # An edit that found no room leaves the shares and their number as they were: its place is that
    # of the newest number that had been issued by then.
    written = sorted(_issued(entry) for workload in workloads for entry in workload.decisions)
    newest = list(
        itertools.accumulate((seq for _, seq in sorted((at, seq) for seq, at in written)), max)
    )
    times = sorted(at for _, at in written)
    for workload in workloads:
        for at, (_, _, entry) in enumerate(workload.scalings):
            seq, at_s = _issued(entry)
            arrivals.append(
                ((max(seq, newest[bisect.bisect(times, at_s) - 1]), at_s), workload, at)
            )
    over = sorted(workload.over_s for workload in workloads if workload.over_s is not None)
    latest = 0
    for (_, decided_s), workload, at in sorted(arrivals, key=lambda arrival: arrival[0]):
        ended = bisect.bisect(over, decided_s)
        if ended:
            latest = max(latest, _end_s(over[ended - 1]))
        if at < 0:
            latest = workload.submit_s = max(workload.submit_s, latest)
        else:
            at_s, replicas, entry = workload.scalings[at]
            latest = max(at_s, latest)
            workload.scalings[at] = (latest, replicas, entry)
    workloads.sort(key=lambda workload: (workload.submit_s, workload.first_seq or 0, workload.key))


def _end_s(over_s: float) -> int:
    """The second in which a job ends in the recording: the first whole one in which it is over."""
    return math.ceil(over_s)


def _issued(entry: Obj) -> tuple[int, float]:
    """The number of a decision, and when it was written."""
    return raw.integer(entry, "seq"), _number(entry, "at")


def _work(workload: _Workload, begin_s: int) -> dict[str, Any]:
    decisions = [
        {
            "seq": raw.integer(entry, "seq"),
            "at": round(max(_number(entry, "at") - begin_s, 0.0), 3),
            "wanted": raw.integer(entry, "wanted"),
            "clusters": _counts(entry.get("to")),
        }
        for entry in workload.decisions
        if _counts(entry.get("from")) != _counts(entry.get("to")) and not _is_over(workload, entry)
    ]
    work: dict[str, Any] = {"submit": workload.submit_s - begin_s}
    if workload.first_seq is not None:
        work["cycle"] = _number(workload.decisions[0], "asOf")
    if workload.scalings:
        work["replicas"] = next(
            filter(None, (raw.integer(entry, "wanted") for entry in workload.decisions))
        )
        work["scalings"] = [
            {"at": at_s - begin_s, "replicas": replicas, "cycle": _number(entry, "asOf")}
            for at_s, replicas, entry in workload.scalings
        ]
    if workload.over_s is not None:
        work["runtime"] = max(_end_s(workload.over_s) - _began_s(workload), 0)
        if workload.failed:
            work["failed"] = True
    return {**work, "workload": _bare(workload.obj), "decisions": decisions}


def _is_over(workload: _Workload, entry: Obj) -> bool:
    """Whether it is a decision about a work that had ended: it takes away what nothing runs in."""
    return workload.over_s is not None and _number(entry, "at") >= workload.over_s


def _began_s(job: _Workload) -> int:
    """The second in which a job had a place for all its shards."""
    whole = (
        int(_number(entry, "at"))
        for entry in job.decisions
        if sum(_counts(entry.get("to")).values()) >= job.count
    )
    return max(next(whole, job.submit_s), job.submit_s)


def _counts(shares: object) -> dict[str, int]:
    if not isinstance(shares, Mapping):
        return {}
    return {
        str(cluster): count
        for cluster, count in sorted(shares.items())
        if isinstance(count, int) and count > 0
    }


def _ours(
    workloads: Sequence[_Workload], histories: Mapping[WorkloadKey, History]
) -> Iterator[str]:
    """What the history does not reach back to."""
    begins = max((history.begins or 0.0 for history in histories.values()), default=0.0)
    older = [
        workload
        for workload in workloads
        if workload.first_seq is None or histories[workload.key].more
    ]
    if older:
        yield (
            f"The history has no first decision of {len(older)} of {len(workloads)} workloads"
            f"{f'; it begins at epoch second {int(begins)}' if begins else ''}: what it "
            "lacks is not compared."
        )
    gaps = sum(
        any(entry.get("kind") in ("Gap", "Lost") for entry in history.entries)
        for history in histories.values()
    )
    if gaps:
        yield "The history has gaps: another hub led for a while, or entries were lost."
    yield (
        "Workloads that were deleted before the recording are not in it, nor is the room that "
        "they held."
    )


def _of_clusters(clusters: Sequence[Obj]) -> Iterator[str]:
    for cluster in clusters:
        ready = raw.condition(cluster, "Ready")
        if ready and ready.get("status") != "True":
            name, since = (
                raw.text(cluster, "metadata", "name"),
                raw.text(ready, "lastTransitionTime"),
            )
            yield (
                f"{name} was not ready when it was recorded (since {since}): it is replayed as "
                "ready."
            )


def _fleet(
    clusters: Sequence[Obj],
    by_kind: Mapping[str, list[Obj]],
    workloads: Sequence[_Workload],
    now_s: float,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The clusters without what the recorded workloads hold, and what others hold as sentences."""
    held = _held(by_kind, workloads, now_s)
    fleet, notes = [], []
    for obj in clusters:
        view = membercluster.to_view(obj, 0.0)
        assert view.capacity is not None
        rows = view.capacity.rows
        foreign = _foreign(rows, held.get(view.name, Resources()))
        capacity = Capacity(
            tuple(_occupied(rows, foreign)),
            packs=view.capacity.packs,
            machines=view.capacity.machines,
        )
        status = capacityfields.from_capacity(capacity, as_of_s=0.0)
        apis = (
            {"apis": list(raw.texts(obj, "status", "apis"))}
            if "apis" in raw.mapping(obj, "status")
            else {}
        )
        fleet.append({**_bare(obj), "status": {**apis, "capacity": status}})
        if foreign:
            said = ", ".join(
                f"{name} {amount}" for name, amount in quantity.render(foreign).items()
            )
            notes.append(
                f"{view.name}: others than the recorded workloads hold {said}; it is spread "
                "over its nodes by size,"
                " and stays occupied."
            )
    return fleet, notes


def _held(
    by_kind: Mapping[str, list[Obj]], workloads: Sequence[_Workload], now_s: float
) -> dict[str, Resources]:
    """Cluster -> what the recorded workloads hold, at most."""
    profiles = {raw.text(obj, "metadata", "name"): obj for obj in by_kind.get("RuntimeProfile", ())}
    shares: dict[WorkloadKey, dict[str, int]] = {}
    for obj in by_kind.get("PlacementDecision", ()):
        facts = decisionfacts.decision_facts(obj)
        shares[facts.key] = {share.cluster: share.slots for share in facts.shares}
    held: dict[str, Resources] = {}
    for workload in workloads:
        kind = registry.KINDS[workload.key.kind]
        assert kind.verbs is not None
        try:
            ask = recorded.ask_of(kind.verbs, workload.obj, profiles)
        except FieldError:
            continue  # nothing of it was ever placed
        holds = shares.get(workload.key, {})
        if workload.over_s is not None:
            holds = _lately(workload, ask.slots) if now_s - workload.over_s < REPORTED_S else {}
        requests = ask.shape.requests
        copy = requests if requests[PODS] else requests + Resources({PODS: 1})
        for cluster, copies in holds.items():
            held[cluster] = held.get(cluster, Resources()) + copy * copies
    return held


def _lately(job: _Workload, slots: int) -> dict[str, int]:
    """What a job that has just ended may still hold by the reports of the clusters."""
    most: dict[str, int] = {}
    for entry in job.decisions:
        for cluster, count in _counts(entry.get("to")).items():
            most[cluster] = min(max(most.get(cluster, 0), count), slots)
    return most


def _foreign(rows: Sequence[NodeRow], ours: Resources) -> Resources:
    """What neither is free nor ours."""
    used: dict[str, int] = {}
    for row in rows:
        for name, size in row.allocatable.items():
            used[name] = used.get(name, 0) + row.count * (size - min(row.free[name], size))
    return Resources(
        {name: amount - ours[name] for name, amount in used.items() if amount > ours[name]}
    )


def _occupied(rows: Sequence[NodeRow], foreign: Resources) -> Iterator[NodeRow]:
    """The rows with so much in use, each node by its size."""
    totals: dict[str, int] = {}
    for row in rows:
        for name, size in row.allocatable.items():
            totals[name] = totals.get(name, 0) + row.count * size
    for row in rows:
        free = {
            name: size - -(-foreign[name] * size // totals[name]) if totals[name] else size
            for name, size in row.allocatable.items()
        }
        yield NodeRow(
            count=row.count,
            allocatable=row.allocatable,
            free=Resources(free),
            model=row.model,
            family=row.family,
            taints=row.taints,
            podless=row.podless,
        )


def _levels(namespaces: Sequence[Obj]) -> dict[str, str]:
    levels = {
        raw.text(namespace, "metadata", "name"): pod_security.enforced(
            raw.mapping(namespace, "metadata", "labels")
        ).level
        for namespace in namespaces
    }
    return {
        name: str(level)
        for name, level in sorted(levels.items())
        if level is not pod_security.DEFAULT
    }


def _bare(obj: Obj) -> dict[str, Any]:
    """The object with what decisions read."""
    meta = raw.mapping(obj, "metadata")
    kept = {name: meta[name] for name in _KEPT if meta.get(name)}
    said = raw.mapping(meta, "annotations") if obj["kind"] == "Deployment" else {}
    ours = {name: text for name, text in said.items() if name.startswith(f"{names.FEDERATION}/")}
    if ours:
        kept["annotations"] = ours
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": kept,
        "spec": _without_secrets(
            {name: below for name, below in raw.mapping(obj, "spec").items() if name != _CONFIG}
        ),
    }


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _without_secrets(below)
            for name, below in value.items()
            if name != _DRAIN and not (name in _SECRET and isinstance(below, list))
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value
