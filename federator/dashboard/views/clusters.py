"""The clusters and a single cluster. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard import listing, text
from federator.dashboard.listing import Page, Query, Spec
from federator.dashboard.rows import ClusterRow, DecisionRow, WorkloadRow


def risk(row: ClusterRow) -> tuple[int, int, str]:
    """The smallest needs a look first: not ready, work that leaves it, what contradicts, cordoned,
    and then the fullest."""
    if row.state != "Ready":
        level = 0
    elif row.leaving:
        level = 1
    elif row.notes or not row.nodes:
        level = 2
    elif row.cordoned:
        level = 3
    else:
        level = 4
    used = [
        text.percent(amount - row.free[name], amount) or 0
        for name, amount in row.allocatable.items()
        if name in ("cpu", "memory")
    ]
    return level, -max(used, default=0), row.name


SPEC: Final[Spec[ClusterRow]] = Spec(
    facets={
        "state": lambda row: (row.state,),
        "region": lambda row: tuple(value for name, value in row.labels if name == "region"),
        "zone": lambda row: tuple(value for name, value in row.labels if name == "zone"),
    },
    sorts={
        "risk": risk,
        "nodes": lambda row: row.nodes,
        "slices": lambda row: row.slices,
        "version": lambda row: row.version,
        "name": lambda row: row.name,
    },
    text=lambda row: " ".join(
        (row.name, *(f"{name}={value}" for name, value in row.labels))
    ).lower(),
    sort="risk",
)
COLUMNS: Final = (
    ("Cluster", "name"),
    ("State", "risk"),
    ("CPU used", ""),
    ("Memory used", ""),
    ("Nodes", "nodes"),
    ("Workloads", "slices"),
    ("Version", "version"),
)
HOLDERS_MAX: Final = 200
"""Workloads that the page of a cluster lists, the largest first."""


def line(row: ClusterRow, now_s: float) -> dict[str, Any]:
    """One row of a table of clusters."""
    level = risk(row)[0]
    return {
        "name": row.name,
        "href": text.address("clusters", row.name),
        "state": row.state,
        "tone": ("bad", "warn", "warn", "idle", "good")[level],
        "notes": [
            *((f"{row.leaving}",) if row.leaving else ()),
            *(("Cordoned",) if row.cordoned else ()),
            *((row.message,) if row.state != "Ready" and row.message else ()),
            *row.notes,
        ],
        "since": text.age(row.since, now_s),
        "version": row.version,
        "nodes": row.nodes,
        "slices": row.slices,
        "cpuUsed": _used(row, "cpu"),
        "memoryUsed": _used(row, "memory"),
        "labels": dict(row.labels),
    }


def _used(row: ClusterRow, resource: str) -> int | None:
    whole = row.allocatable[resource]
    return text.percent(whole - row.free[resource], whole)


def view(page: Page[ClusterRow], now_s: float) -> dict[str, Any]:
    """The list."""
    return {
        "headers": listing.headers(page.query, SPEC, COLUMNS),
        "rows": [line(row, now_s) for row in page.rows],
        "filters": page.filters(),
        "paging": page.paging(),
        "query": page.query.text,
        "sort": page.query.sort,
        "path": page.query.path,
    }


def single(
    row: ClusterRow,
    obj: Obj,
    holders: Iterable[tuple[WorkloadRow, DecisionRow]],
    now_s: float,
) -> dict[str, Any]:
    """One cluster. `holders`: the workloads that the reader may see, with their decisions."""
    held = sorted(
        (
            (copies, workload)
            for workload, decision in holders
            for cluster, copies in decision.shares
            if cluster == row.name
        ),
        key=lambda pair: (-pair[0], pair[1].kind, pair[1].namespace, pair[1].name),
    )
    return {
        **line(row, now_s),
        "usable": row.usable,
        "asOf": row.as_of,
        "reportAge": text.age(row.as_of, now_s),
        "exact": row.exact,
        "lastHeard": raw.text(obj, "status", "lastHeard"),
        "conditions": conditions(obj, now_s),
        "taints": [_taint(taint) for taint in raw.objects(obj, "spec", "taints")],
        "capacity": _capacity(row),
        "scaleUp": [_class(entry) for entry in raw.objects(obj, "spec", "scaleUp")],
        "holders": [_holder(workload, copies) for copies, workload in held[:HOLDERS_MAX]],
        "holderCount": len(held),
        "copies": sum(copies for copies, _ in held),
        "allHolders": Query("/workloads", {"cluster": row.name}).address(),
        "commands": [
            f"federator cluster check {row.name}",
            f"federator explain mc/{row.name}",
            f"federator drill {row.name}",
            f"federator cluster cordon {row.name}",
            f"federator cluster drain {row.name}",
        ],
    }


def _capacity(row: ClusterRow) -> list[dict[str, Any]]:
    """What its nodes have of each resource."""
    resources = [name for name, amount in row.allocatable.items() if amount]
    whole, free = text.amounts(row.allocatable), text.amounts(row.free)
    return [
        {
            "resource": name,
            "allocatable": whole.get(name, "0"),
            "free": free.get(name, "0"),
            "used": _used(row, name),
        }
        for name in sorted(resources, key=lambda name: (name not in ("cpu", "memory"), name))
    ]


def _holder(workload: WorkloadRow, copies: int) -> dict[str, Any]:
    """A workload with a part of it in the cluster."""
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "href": text.address("workloads", workload.kind, workload.namespace, workload.name),
        "copies": copies,
        "health": workload.health,
        "tone": text.tone(workload.health),
        "account": workload.account,
    }


def _taint(taint: Mapping[str, Any]) -> str:
    value = raw.text(taint, "value")
    return f"{raw.text(taint, 'key')}{f'={value}' if value else ''}:{raw.text(taint, 'effect')}"


def _class(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A class of nodes that an autoscaler can add."""
    return {
        "name": raw.text(entry, "name"),
        "max": raw.figure(entry, "max"),
        "minutes": raw.figure(entry, "minutes"),
        "price": raw.text(entry, "pricePerHour"),
        "shape": raw.text_map(entry, "shape"),
    }


_WANTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "Reconciling",
            "Stalled",
            "Failed",
            "Removing",
            "FailingOver",
            "Dead",
            "Draining",
            "Untrustworthy",
            "SpreadViolated",
            "MovesWithoutRoom",
            "DecisionRefused",
            "ProfileHeldBack",
            "ProjectRefused",
            "Reclaiming",
        ),
        "False",
    ),
    **dict.fromkeys(("Suspended", "Paused", "Maintenance", "QuotaUnlimited"), ""),
}
"""Condition -> the status that is all right; "" for either. All others are wanted True."""


def conditions(obj: Obj, now_s: float) -> list[dict[str, Any]]:
    """The conditions of an object, in its own order."""
    listed: Sequence[Obj] = raw.objects(obj, "status", "conditions")
    return [
        {
            "type": raw.text(each, "type"),
            "status": raw.text(each, "status"),
            "tone": _tone(raw.text(each, "type"), raw.text(each, "status")),
            "reason": raw.text(each, "reason"),
            "message": raw.text(each, "message"),
            "since": raw.text(each, "lastTransitionTime"),
            "age": text.age(raw.text(each, "lastTransitionTime"), now_s),
        }
        for each in listed
    ]


def _tone(kind: str, status: str) -> str:
    wanted = _WANTED.get(kind, "True")
    if not wanted:
        return "idle"
    return "good" if status == wanted else "warn" if status == "Unknown" else "bad"


def known(cluster_rows: Iterable[ClusterRow], name: str) -> ClusterRow | None:
    """The row of a cluster; None where there is none."""
    return next((row for row in cluster_rows if row.name == name), None)
