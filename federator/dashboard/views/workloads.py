"""The list of workloads. Pure."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from federator.dashboard import listing, text
from federator.dashboard.listing import Page, Query, Spec
from federator.dashboard.sources import rows
from federator.dashboard.sources.rows import DecisionRow, WorkloadRow

Decided = Callable[[str], DecisionRow | None]
"""uid -> what is decided about the workload."""
COLUMNS: Final = (
    ("Workload", "name"),
    ("Namespace", "namespace"),
    ("Health", "health"),
    ("Ready", "ready"),
    ("Desired", "desired"),
    ("Clusters", ""),
    ("Account", "account"),
    ("Age", "age"),
)


def spec(decided: Decided) -> Spec[WorkloadRow]:
    """What the list can be asked."""
    return Spec(
        facets={
            "kind": lambda row: (row.kind,),
            "namespace": lambda row: (row.namespace,),
            "health": lambda row: (row.health,),
            "cluster": lambda row: _clusters(decided(row.uid)),
            "account": lambda row: (row.account,),
        },
        sorts={
            "health": lambda row: rows.WORST[row.health],
            "namespace": lambda row: row.namespace,
            "ready": lambda row: row.ready,
            "desired": lambda row: row.desired,
            "account": lambda row: row.account,
            "age": lambda row: row.created,
            "name": lambda row: (row.name, row.namespace, row.kind),
        },
        text=lambda row: f"{row.namespace}/{row.name} {row.account}".lower(),
        sort="health",
    )


def _clusters(decision: DecisionRow | None) -> tuple[str, ...]:
    return tuple(cluster for cluster, _ in decision.shares) if decision is not None else ()


def line(row: WorkloadRow, decision: DecisionRow | None, now_s: float) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "namespace": row.namespace,
        "name": row.name,
        "href": text.address("workloads", row.kind, row.namespace, row.name),
        "account": row.account,
        "tier": row.tier,
        "health": row.health,
        "tone": text.tone(row.health),
        "message": row.message if row.health not in ("Ready", "Complete") else "",
        "desired": row.desired,
        "ready": row.ready,
        "placed": decision.placed if decision is not None else 0,
        "clusters": len(decision.shares) if decision is not None else 0,
        "age": text.age(row.created, now_s),
    }


def view(page: Page[WorkloadRow], decided: Decided, now_s: float) -> dict[str, Any]:
    """The list."""
    return {
        "headers": listing.headers(page.query, spec(decided), COLUMNS),
        "rows": [line(row, decided(row.uid), now_s) for row in page.rows],
        "filters": page.filters(),
        "paging": page.paging(),
        "query": page.query.text,
        "sort": page.query.sort,
        "path": page.query.path,
    }


def waiting(
    workloads: Iterable[WorkloadRow], decided: Decided, now_s: float, most: int
) -> tuple[list[dict[str, Any]], int]:
    """(the workloads that lack copies, those that have waited longest first; how many there are in
    all)."""
    lacking = []
    for row in workloads:
        decision = decided(row.uid)
        missing = decision.shortfall if decision is not None else 0
        if missing or row.health == rows.Health.SHORT:
            lacking.append((row, missing))
    lacking.sort(
        key=lambda pair: (pair[0].since or pair[0].created, pair[0].namespace, pair[0].name)
    )
    shown = [
        {
            **line(row, decided(row.uid), now_s),
            "priority": row.priority,
            "missing": missing or max(row.desired - row.ready, 0),
            "since": row.since,
            "waits": text.age(row.since, now_s),
            "reason": row.reason,
            "why": text.address("workloads", row.kind, row.namespace, row.name, "why"),
        }
        for row, missing in lacking[:most]
    ]
    return shown, len(lacking)


def of_account(name: str) -> str:
    """The list of an account's workloads."""
    return Query("/workloads", {"account": name}).address()
