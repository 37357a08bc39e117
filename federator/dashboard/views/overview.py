"""The first page: what needs a person, clusters by risk, what is used of each resource. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import text
from federator.dashboard.sources import rows
from federator.dashboard.sources.rows import AccountRow, ClusterRow, Health, WorkloadRow
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
    waiting_needs = needs(workloads, clusters, accounts)
    shown = waiting_needs[:SHOWN_MAX]
    return {
        "needs": [_shown(need) for need in shown],
        "moreNeeds": len(waiting_needs) - len(shown),
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
    waiting_needs = [need for row in clusters or () for need in _of_cluster(row)]
    waiting_needs += [_of_workload(row) for row in workloads if row.health in HEALTH_RUNBOOKS]
    waiting_needs += [
        Need(
            2, "bad", f"Account {row.name}", text.address("quota", row.name), row.problem, "quotas"
        )
        for row in accounts or ()
        if row.problem
    ]
    return sorted(waiting_needs, key=lambda need: (need.rank, need.subject))


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


def drill(answer: Obj) -> dict[str, Any]:
    """The losses that leave copies without a place, the worst first. `answer`: the leader's."""
    rows: list[dict[str, Any]] = [
        {
            "cluster": raw.text(each, "cluster"),
            "href": text.address("clusters", raw.text(each, "cluster"), "drain"),
            "missing": {
                tier: copies
                for tier, copies in raw.mapping(each, "missing").items()
                if isinstance(copies, int) and copies > 0
            },
            "copies": raw.figure(each, "copies"),
            "recovery": text.lasting(_seconds(raw.at(each, "recoverySeconds"))),
        }
        for each in raw.objects(answer, "clusters")
    ]
    uncovered = [row for row in rows if row["missing"]]
    uncovered.sort(key=lambda row: (-sum(row["missing"].values()), row["cluster"]))
    return {
        "trouble": "",
        "rows": uncovered[:SHOWN_MAX],
        "covered": len(rows) - len(uncovered),
    }


def _seconds(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and abs(value) < 1e9 else 0.0


POINTS_MAX: Final = 180
"""Points of a line: more would not be seen."""
WIDTH: Final = 600
HEIGHT: Final = 120
LINES: Final = ("desired", "placed", "ready")


def trend(series: Sequence[tuple[float, tuple[int, int, int]]]) -> dict[str, Any] | None:
    """Copies and shards over time, as lines and as a table; None before there are two samples."""
    if len(series) < 2:
        return None
    every = max(-(-len(series) // POINTS_MAX), 1)
    points = [*series[:-1:every], series[-1]]
    first_s, last_s = points[0][0], points[-1][0]
    most = max(1, *(value for _, figures in points for value in figures))

    def at(time_s: float, value: int) -> str:
        along = WIDTH * (time_s - first_s) / max(last_s - first_s, 1e-9)
        return f"{along:.1f},{HEIGHT * (1 - value / most):.1f}"

    table = [*points[:: max(len(points) // 12, 1)][:12], points[-1]]
    said = ", ".join(
        f"{name} {points[0][1][n]} to {points[-1][1][n]}" for n, name in enumerate(LINES)
    )
    return {
        "most": most,
        "since": text.lasting(last_s - first_s),
        "label": f"Copies and shards in the last {text.lasting(last_s - first_s)}: {said}",
        "lines": [
            {
                "name": name,
                "now": points[-1][1][n],
                "points": " ".join(at(time_s, figures[n]) for time_s, figures in points),
            }
            for n, name in enumerate(LINES)
        ],
        "table": [
            {"at": raw.rfc3339(time_s), **dict(zip(LINES, figures, strict=True))}
            for time_s, figures in dict.fromkeys(table)
        ],
    }
