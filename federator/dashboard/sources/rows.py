"""Rows: what the dashboard keeps of an object of the host. Pure.

Rows are small, because a federation has 100,000 workloads: a page about a single object reads that
object from the host again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from federator.api import capacityfields, memberfields, raw, submissions
from federator.api.raw import Obj
from federator.api.submissions import Record
from federator.kinds.kind import Kind
from federator.model import interning, plaintext, shards
from federator.model.ask import Unit
from federator.model.resources import Resources

MESSAGE_MAX: Final = 300
"""Characters of a message in a row; the page of the object has all of it."""


class Health(StrEnum):
    """How a workload stands, from its conditions; the worst comes first."""

    STALLED = "Stalled"
    """It waits for a person."""
    FAILED = "Failed"
    SHORT = "Short"
    """It lacks copies."""
    UNKNOWN = "Unknown"
    """A cluster that has a part of it is silent."""
    NOT_READY = "NotReady"
    PROGRESSING = "Progressing"
    PENDING = "Pending"
    """The hub has not reported on it yet."""
    SUSPENDED = "Suspended"
    READY = "Ready"
    COMPLETE = "Complete"


WORST: Final[Mapping[str, int]] = {str(health): at for at, health in enumerate(Health)}
TROUBLED: Final = (Health.STALLED, Health.FAILED, Health.SHORT, Health.UNKNOWN, Health.NOT_READY)


@dataclass(frozen=True, slots=True)
class SubmissionRow:
    """The last submission of a workload through the gateway."""

    id: str
    workflow: str
    artifact: str
    version: str
    digest: str
    commit: str
    branch: str
    verdict: str
    state: str
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    kind: str
    namespace: str
    name: str
    uid: str
    account: str
    """Its project."""
    tier: str
    priority: int
    desired: int
    ready: int
    """Copies that are ready; of a job set the shards that are done."""
    health: str
    reason: str
    message: str
    since: str
    """When it last began to lack copies; "" while it lacks none."""
    created: str
    summary: str
    edited: str = ""
    """When a person or a program last changed more than the status; "" since it was created."""
    edited_by: str = ""
    """The program that did, as it names itself."""
    running: int = 0
    """Shards, or pods of a training job, that run now."""
    failed: int = 0
    """Shards that have failed for good."""
    submission: SubmissionRow | None = None
    """None for a workload that was not submitted through the gateway."""


@dataclass(frozen=True, slots=True)
class CronRow:
    """One object that makes workloads on a schedule."""

    kind: str
    namespace: str
    name: str
    schedule: str
    suspended: bool
    active: int
    """Runs that have not ended."""
    last: str
    """Scheduled time of the newest run."""
    next: str
    """When the next run is due."""
    missed: int
    trouble: str
    """Why it makes no runs; "" while it does."""
    summary: str


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """What is decided about one workload."""

    uid: str
    """Of the workload."""
    placed: int
    shortfall: int
    shares: tuple[tuple[str, int], ...]
    """(cluster, copies), by name."""
    at: str = ""
    """When it was decided."""
    cause: str = ""
    """What led to it."""


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One member."""

    name: str
    state: str
    """Ready, or the reason for which it is not."""
    message: str
    since: str
    version: str
    nodes: int
    slices: int
    cordoned: bool
    leaving: str
    """Why work leaves it: `Draining`, `Removing` and so on; "" when none does."""
    notes: tuple[str, ...]
    """Conditions that are not as wanted, as sentences."""
    labels: tuple[tuple[str, str], ...]
    allocatable: Resources
    free: Resources
    usable: str
    exact: bool
    as_of: str
    """When it reported its capacity."""


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One FederatedQuota."""

    name: str
    parent: str
    projects: tuple[str, ...]
    workloads: int
    waiting: int
    summary: str
    tiers: tuple[tuple[str, tuple[tuple[str, Obj], ...]], ...]
    """(tier, (figure, amounts by resource)), as spec and status write them."""
    problem: str
    """What is wrong with it; "" when nothing is."""


def workload(kind: Kind, obj: Obj) -> WorkloadRow | None:
    """The row of a workload; None for a native object that no hub reports on."""
    verbs = kind.verbs
    assert verbs is not None
    status, meta = raw.mapping(obj, "status"), raw.mapping(obj, "metadata")
    placed = raw.condition(obj, "Placed")
    if verbs.carried and not placed:
        return None
    health = health_of(obj)
    trouble = _trouble(obj, health)
    wanted = desired(kind, obj)
    text = interning.text
    return WorkloadRow(
        kind.kind,
        text(raw.text(meta, "namespace")),
        raw.text(meta, "name"),
        text(raw.text(meta, "uid")),  # its decision has it too
        text(verbs.project(obj)),
        text(str(verbs.tier(obj))),
        verbs.priority(obj),
        wanted,
        ready(kind, obj),
        health,
        text(raw.text(trouble, "reason")),
        text(plaintext.clipped(raw.text(trouble, "message"), MESSAGE_MAX)),
        raw.text(placed, "lastTransitionTime") if placed.get("status") == "False" else "",
        text(raw.text(meta, "creationTimestamp")),
        text(raw.text(status, "summary")),
        *edited(meta),
        raw.figure(status, "running") if verbs.unit is Unit.SHARDS else 0,
        raw.figure(status, "failed") if verbs.unit is Unit.SHARDS else 0,
        submission(obj),
    )


def submission(obj: Obj) -> SubmissionRow | None:
    """The last submission of a workload; None where it has none."""
    newest = submissions.read(obj)[:1]
    return next((submitted(each, submissions.state_of(obj)[0]) for each in newest), None)


def submitted(record: Record, state: str) -> SubmissionRow:
    """The row of one submission. Texts that many submissions have in common are interned."""
    text = interning.text
    return SubmissionRow(
        text(record.id),  # other objects of the submission have it too
        text(record.workflow),
        text(record.artifact),
        text(record.version),
        text(record.digest),
        text(record.commit),
        text(record.branch),
        text(record.verdict),
        state,
        text(record.by),
        text(record.at),
    )


def cron(kind: Kind, obj: Obj) -> CronRow:
    """The row of an object that makes workloads on a schedule."""
    status, is_ready = raw.mapping(obj, "status"), raw.condition(obj, "Ready")
    trouble = raw.text(is_ready, "message") if is_ready.get("status") == "False" else ""
    return CronRow(
        kind.kind,
        interning.text(raw.text(obj, "metadata", "namespace")),
        raw.text(obj, "metadata", "name"),
        raw.text(obj, "spec", "schedule"),
        raw.flag(obj, "spec", "suspend"),
        raw.figure(status, "activeRuns"),
        raw.text(status, "lastScheduleTime"),
        raw.text(status, "nextScheduleTime"),
        raw.figure(status, "missedRuns"),
        plaintext.clipped(trouble, MESSAGE_MAX),
        raw.text(status, "summary"),
    )


OURS: Final = ("federator", "federator-member")
"""Field managers of the hub: what it writes is no edit of a person."""


def edited(meta: Obj) -> tuple[str, str]:
    """(when, by which program) more than the status was last changed, by the managed fields; ""
    where that was its creation."""
    last = max(
        (
            (raw.text(each, "time"), interning.text(raw.text(each, "manager")))
            for each in raw.objects(meta, "managedFields")
            if raw.text(each, "subresource") != "status" and raw.text(each, "manager") not in OURS
        ),
        default=("", ""),
    )
    return last if last[0] > raw.text(meta, "creationTimestamp") else ("", "")


def desired(kind: Kind, obj: Obj) -> int:
    """Copies or shards that it is to have; of a daemon the nodes."""
    reported = raw.at(obj, "status", "desired")
    assert kind.verbs is not None
    return reported if isinstance(reported, int) else kind.verbs.count(obj)


def ready(kind: Kind, obj: Obj) -> int:
    """Copies that are ready, or shards that are done."""
    assert kind.verbs is not None
    status = raw.mapping(obj, "status")
    if kind.verbs.unit is Unit.SHARDS:
        complete = raw.condition(obj, "Complete").get("status") == "True"
        return desired(kind, obj) if complete else raw.figure(status, "done")
    reported = raw.at(status, "ready")
    return reported if isinstance(reported, int) else raw.figure(status, "readyReplicas")


def health_of(obj: Obj) -> str:
    """Its health, by the conditions of its status."""
    states = {
        raw.text(condition, "type"): raw.text(condition, "status")
        for condition in raw.objects(obj, "status", "conditions")
    }
    ladder = (
        ("Failed", "True", Health.FAILED),
        ("Complete", "True", Health.COMPLETE),
        ("Suspended", "True", Health.SUSPENDED),
        ("Stalled", "True", Health.STALLED),
        ("Placed", "False", Health.SHORT),
        ("Ready", "Unknown", Health.UNKNOWN),
        ("Reconciling", "True", Health.PROGRESSING),
        ("Ready", "True", Health.READY),
        ("Ready", "False", Health.NOT_READY),
    )
    return next(
        (str(health) for kind, value, health in ladder if states.get(kind) == value),
        str(Health.PENDING),
    )


def _trouble(obj: Obj, health: str) -> Obj:
    """The condition that says why."""
    by_health = {
        Health.STALLED: "Stalled",
        Health.FAILED: "Failed",
        Health.SHORT: "Placed",
        Health.COMPLETE: "Complete",
        Health.SUSPENDED: "Suspended",
    }
    return raw.condition(obj, by_health.get(Health(health), "Ready"))


def decision(obj: Obj) -> DecisionRow | None:
    """The row of a PlacementDecision; None for one that names no workload."""
    spec = raw.mapping(obj, "spec")
    uid = raw.text(spec, "workload", "uid")
    if not uid:
        return None
    shares = tuple(
        (interning.text(raw.text(share, "cluster")), copies_of(share))
        for share in raw.objects(spec, "shares")
    )
    return DecisionRow(
        interning.text(uid),
        raw.figure(spec, "placed"),
        raw.figure(spec, "shortfall"),
        interning.value(shares),
        raw.text(spec, "asOf"),
        interning.text(plaintext.clipped(_last_cause(spec), MESSAGE_MAX)),
    )


def _last_cause(spec: Obj) -> str:
    last = raw.items(spec, "causes")[-1:]
    return last[0] if last and isinstance(last[0], str) else raw.text(spec, "reason")


def copies_of(share: Obj) -> int:
    """Copies, shards, or of a daemon nodes."""
    if "ranges" in share:
        return shards.size(raw.ranges(share, "ranges"))
    return raw.figure(share, "replicas") or raw.figure(share, "nodes")


_LEAVING: Final = ("Removing", "FailingOver", "Dead", "Draining")
_BAD: Final[Mapping[str, str]] = {
    "Untrustworthy": "True",
    "Authenticated": "False",
    "ClockSynced": "False",
    "Watching": "False",
    "Listing": "False",
    "SlicesKnown": "False",
    "CredentialsRenewed": "False",
}
"""Conditions of a cluster -> the value that means trouble."""


def cluster(obj: Obj) -> ClusterRow:
    condition = raw.condition(obj, "Ready")
    is_ready = condition.get("status") == "True"
    capacity = capacityfields.to_capacity(raw.mapping(obj, "status", "capacity"))
    notes = [
        f"{kind}: {raw.text(each, 'message') or raw.text(each, 'reason')}"
        for kind, bad in _BAD.items()
        if (each := raw.condition(obj, kind)).get("status") == bad
    ]
    leaving = next(
        (kind for kind in _LEAVING if raw.condition(obj, kind).get("status") == "True"), ""
    )
    return ClusterRow(
        raw.text(obj, "metadata", "name"),
        "Ready" if is_ready else raw.text(condition, "reason") or "Unknown",
        raw.text(condition, "message") or ("" if condition else "The hub has not reported on it."),
        raw.text(condition, "lastTransitionTime"),
        raw.text(obj, "status", "version"),
        raw.figure(obj, "status", "capacity", "nodeCount"),
        raw.figure(obj, "status", "slices"),
        raw.flag(obj, "spec", "cordoned"),
        leaving,
        tuple(notes),
        tuple(sorted(raw.text_map(obj, "metadata", "labels").items())),
        capacity.allocatable,
        capacity.free,
        raw.text(obj, "spec", "usable") or "100%",
        capacity.exact,
        raw.text(obj, "status", "capacity", "asOf"),
    )


def usable(row: ClusterRow) -> int:
    """Thousandths of its nodes that may be filled."""
    return memberfields.usable_permille(row.usable)


_FIGURES: Final = ("guaranteed", "max", "borrowingLimit", "lendingLimit")
_USED: Final = ("used", "borrowed", "lent", "terminating")


def account(obj: Obj) -> AccountRow:
    """The row of a FederatedQuota."""
    spec, status = raw.mapping(obj, "spec"), raw.mapping(obj, "status")
    limits = raw.mapping(spec, "tiers")
    usage = {raw.text(each, "tier"): each for each in raw.objects(status, "usage")}
    tiers = []
    for tier in ("Reserved", "OnDemand", "Preemptible"):
        figures = _figures(raw.mapping(limits, tier), usage.get(tier, {}))
        if any(amounts for _, amounts in figures):
            tiers.append((tier, figures))
    valid = raw.condition(obj, "Valid")
    return AccountRow(
        raw.text(obj, "metadata", "name"),
        raw.text(spec, "parent"),
        raw.texts(spec, "projects"),
        raw.figure(status, "workloads"),
        raw.figure(status, "waiting"),
        raw.text(status, "summary"),
        tuple(tiers),
        raw.text(valid, "message") if valid.get("status") == "False" else "",
    )


def _figures(limits: Obj, usage: Obj) -> tuple[tuple[str, Obj], ...]:
    given: list[tuple[str, Any]] = [(name, raw.mapping(limits, name)) for name in _FIGURES]
    if not limits.get("guaranteed"):
        given[0] = ("guaranteed", raw.mapping(usage, "guaranteed"))
    given += [(name, raw.mapping(usage, name)) for name in _USED]
    return tuple((name, amounts) for name, amounts in given if amounts)
