"""The first page: what needs a person, clusters by risk, what is used of each resource. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.dashboard import rows, text
from federator.dashboard.rows import AccountRow, ClusterRow, Health, WorkloadRow
from federator.dashboard.views import clusters as cluster_views

SHOWN_MAX: Final = 12
"""Entries of each part of the page; the rest is a link to a list."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs a person."""

    rank: int
    """The smallest is the most urgent."""
    tone: str
    subject: str
    href: str
    """The page of the subject."""
    why: str
    runbook: str
    """A page of docs/operating, with its section."""


CLUSTER_RUNBOOKS: Final = {
    "Unreachable": "lose-a-member",
    "AuthFailed": "clusters#the-hubs-token-in-a-member",
    "HostIdentityChanged": "restore#the-host-was-replaced",
    "NotReporting": "lose-a-member",
    "NotAsked": "descriptors",
}
"""Reason of Ready -> what to do."""
NOTE_RUNBOOKS: Final = {
    "Untrustworthy": "untrustworthy",
    "Authenticated": "clusters#the-hubs-token-in-a-member",
    "CredentialsRenewed": "clusters#the-hubs-token-in-a-member",
    "SlicesKnown": "restore",
}
HEALTH_RUNBOOKS: Final = {
    Health.STALLED: "index#symptom-what-you-see-what-to-do",
    Health.FAILED: "index#symptom-what-you-see-what-to-do",
    Health.SHORT: "index#symptom-what-you-see-what-to-do",
    Health.UNKNOWN: "lose-a-member",
}
REASON_RUNBOOKS: Final = {
    "QuotaExceeded": "quotas",
    "PriorityExceedsMax": "quotas",
    "ExceedsMaxQuota": "quotas",
    "NotAllowed": "quotas",
    "IdentityNotAllowed": "pod-security",
    "PodSecurityViolation": "pod-security",
    "NoMatchingCluster": "policies",
    "NoClusterAdmitted": "policies",
    "Misconfigured": "policies",
}
"""Reason of a condition -> what to do; it has precedence over the health."""
DEFAULT_RUNBOOK: Final = "index"


def view(
    workloads: Iterable[WorkloadRow],
    clusters: Sequence[ClusterRow] | None,
    accounts: Sequence[AccountRow] | None,
    now_s: float,
) -> dict[str, Any]:
    """The page. None for clusters or accounts that the reader may not list."""
    health: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    workloads = list(workloads)
    for row in workloads:
        health[row.health] += 1
        copies["desired"] += row.desired
        copies["ready"] += row.ready
    found = needs(workloads, clusters, accounts)
    shown = found[:SHOWN_MAX]
    return {
        "needs": [_shown(need) for need in shown],
        "moreNeeds": len(found) - len(shown),
        "workloads": sum(health.values()),
        "health": [
            {
                "health": str(kind),
                "tone": text.tone(kind),
                "count": health[kind],
                "href": f"/workloads?health={kind}",
            }
            for kind in Health
            if health[kind]
        ],
        "copies": {"desired": copies["desired"], "ready": copies["ready"]},
        "clusters": None
        if clusters is None
        else [
            cluster_views.line(row, now_s)
            for row in sorted(clusters, key=cluster_views.risk)[:SHOWN_MAX]
        ],
        "clusterCount": len(clusters or ()),
        "heat": None if clusters is None else heat(clusters),
    }


def needs(
    workloads: Iterable[WorkloadRow],
    clusters: Sequence[ClusterRow] | None,
    accounts: Sequence[AccountRow] | None,
) -> list[Need]:
    """All that needs a person, the most urgent first."""
    found = [need for row in clusters or () for need in _of_cluster(row)]
    found += [_of_workload(row) for row in workloads if row.health in HEALTH_RUNBOOKS]
    found += [
        Need(
            2, "bad", f"Account {row.name}", text.address("quota", row.name), row.problem, "quotas"
        )
        for row in accounts or ()
        if row.problem
    ]
    return sorted(found, key=lambda need: (need.rank, need.subject))


def _shown(need: Need) -> dict[str, Any]:
    return {
        "tone": need.tone,
        "subject": need.subject,
        "href": need.href,
        "why": need.why,
        "runbook": f"/runbooks/{need.runbook}",
    }


def _of_workload(row: WorkloadRow) -> Need:
    health = Health(row.health)
    runbook = REASON_RUNBOOKS.get(row.reason, HEALTH_RUNBOOKS[health])
    subject = f"{row.kind} {row.namespace}/{row.name}"
    href = text.address("workloads", row.kind, row.namespace, row.name)
    why = f"{row.health}: {row.message or row.reason}"
    return Need(3 + rows.WORST[row.health], text.tone(row.health), subject, href, why, runbook)


def _of_cluster(row: ClusterRow) -> Iterator[Need]:
    subject, href = f"Cluster {row.name}", text.address("clusters", row.name)
    if row.state != "Ready":
        runbook = CLUSTER_RUNBOOKS.get(row.state, DEFAULT_RUNBOOK)
        yield Need(0, "bad", subject, href, f"{row.state}: {row.message}", runbook)
    for note in row.notes:
        runbook = NOTE_RUNBOOKS.get(note.partition(":")[0], DEFAULT_RUNBOOK)
        yield Need(1, "warn", subject, href, note, runbook)


def heat(clusters: Sequence[ClusterRow]) -> dict[str, Any]:
    """How much of each resource of each cluster is in use, in percent; None where it has none."""
    present = {name for row in clusters for name, amount in row.allocatable.items() if amount}
    first = [name for name in ("cpu", "memory", "pods") if name in present]
    resources = [*first, *sorted(present - set(first))]
    return {
        "resources": resources,
        "rows": [
            {
                "cluster": row.name,
                "href": text.address("clusters", row.name),
                "used": [
                    text.percent(row.allocatable[name] - row.free[name], row.allocatable[name])
                    for name in resources
                ],
            }
            for row in clusters
        ],
    }
