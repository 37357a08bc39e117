"""The clusters and a single cluster. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.api import membercluster, raw
from federator.api.raw import Obj
from federator.dashboard import listing, text
from federator.dashboard.listing import Page, Spec
from federator.dashboard.sources.rows import WORST, ClusterRow, DecisionRow, WorkloadRow
from federator.model.resources import ZERO, Resources


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


def line(row: ClusterRow, now_s: float) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload with a part of it in a cluster."""

    workload: WorkloadRow
    copies: int


HOLDERS: Final[Spec[Holder]] = Spec(
    facets={
        "kind": lambda row: (row.workload.kind,),
        "namespace": lambda row: (row.workload.namespace,),
        "health": lambda row: (row.workload.health,),
        "account": lambda row: (row.workload.account,),
    },
    sorts={
        "copies": lambda row: row.copies,
        "health": lambda row: WORST.get(row.workload.health, 0),
        "account": lambda row: row.workload.account,
        "namespace": lambda row: row.workload.namespace,
        "name": lambda row: (row.workload.name, row.workload.namespace, row.workload.kind),
    },
    text=lambda row: f"{row.workload.namespace}/{row.workload.name}".lower(),
    sort="-copies",
)
HOLDER_COLUMNS: Final = (
    ("Workload", "name"),
    ("Namespace", "namespace"),
    ("Copies there", "copies"),
    ("Health", "health"),
    ("Account", "account"),
)


def holders(name: str, held: Iterable[tuple[WorkloadRow, DecisionRow]]) -> Iterator[Holder]:
    """What runs in a cluster, of these workloads with their decisions."""
    for workload, decision in held:
        copies = sum(copies for cluster, copies in decision.shares if cluster == name)
        if copies:
            yield Holder(workload, copies)


def head(name: str, page: str) -> dict[str, Any]:
    """What all pages of a cluster begin with. `page`: "" or "drain"."""
    tabs = (("Summary", ""), ("Drain forecast", "drain"))
    return {
        "name": name,
        "tabs": [
            {
                "title": title,
                "href": text.address("clusters", name, *filter(None, (tab,))),
                "current": tab == page,
            }
            for title, tab in tabs
        ],
    }


def single(
    row: ClusterRow, obj: Obj, page: Page[Holder], copies: int, now_s: float
) -> dict[str, Any]:
    """One cluster. `page`: what runs there of the workloads that the reader may see; `copies`: of
    all of these."""
    return {
        **line(row, now_s),
        **head(row.name, ""),
        "usable": row.usable,
        "asOf": row.as_of,
        "reportAge": text.age(row.as_of, now_s),
        "exact": row.exact,
        "lastHeard": raw.text(obj, "status", "lastHeard"),
        "success": _success(obj),
        "probe": _probe(obj, now_s),
        "drain": _drain(obj),
        "conditions": conditions(obj, now_s),
        "taints": [_taint(taint) for taint in raw.objects(obj, "spec", "taints")],
        "capacity": _capacity(row, obj, now_s),
        "scaleUp": [_class(entry) for entry in raw.objects(obj, "spec", "scaleUp")],
        "holders": [_holder(each.workload, each.copies) for each in page.rows],
        "headers": listing.headers(page.query, HOLDERS, HOLDER_COLUMNS),
        "filters": page.filters(),
        "paging": page.paging(),
        "query": page.query.text,
        "sort": page.query.sort,
        "path": page.query.path,
        "copies": copies,
        "commands": [
            f"federator cluster check {row.name}",
            f"federator explain mc/{row.name}",
            f"federator drill {row.name}",
            f"federator cluster cordon {row.name}",
            f"federator cluster drain {row.name}",
        ],
    }


def _success(obj: Obj) -> dict[str, Any] | None:
    """How well work starts and ends there; None while nothing has failed."""
    status = raw.mapping(obj, "status", "success")
    if not status:
        return None
    avoided = raw.flag(status, "avoided")
    percent = raw.figure(status, "percent")
    return {
        "percent": percent,
        "avoided": avoided,
        "tone": "bad" if avoided else "good" if percent >= GOOD_PERCENT else "warn",
    }


GOOD_PERCENT: Final = 80
"""From this success rate on a cluster is not avoided any more."""
_PROBED: Final[Mapping[str, str]] = {"Passed": "good", "Failed": "bad"}


def _probe(obj: Obj, now_s: float) -> dict[str, Any] | None:
    """The last probe with workloads; None where there was none."""
    probe = raw.mapping(obj, "status", "probe")
    if not probe:
        return None
    result = raw.text(probe, "result")
    return {
        "result": result or "NotRun",
        "tone": _PROBED.get(result, "warn"),
        "stage": raw.text(probe, "stage"),
        "message": raw.text(probe, "message"),
        "finishedAt": raw.text(probe, "finishedAt"),
        "age": text.age(raw.text(probe, "finishedAt"), now_s),
        "runningSince": raw.text(probe, "runningSince"),
        "gated": bool(raw.text(probe, "gateSince")),
        "tiers": [
            {
                "tier": raw.text(each, "tier"),
                "result": raw.text(each, "result"),
                "tone": _PROBED.get(raw.text(each, "result"), "warn"),
                "stage": raw.text(each, "stage"),
                "message": raw.text(each, "message"),
            }
            for each in raw.objects(probe, "tiers")
        ],
    }


def _drain(obj: Obj) -> dict[str, Any] | None:
    """How far its drain is; None without one."""
    drain = raw.mapping(obj, "status", "drain")
    if not drain:
        return None
    return {
        "since": raw.text(drain, "since"),
        "copies": raw.figure(drain, "copies"),
        "left": raw.figure(drain, "left"),
        "underWay": raw.figure(drain, "underWay"),
        "estimatedEnd": raw.text(drain, "estimatedEnd"),
    }


def forced_drain(obj: Obj) -> dict[str, Any]:
    """The cluster as an operator would write it to drain it, whatever has no other place."""
    meta = raw.mapping(obj, "metadata")
    kept = ("name", "labels", "annotations")
    return {
        "apiVersion": raw.text(obj, "apiVersion"),
        "kind": raw.text(obj, "kind"),
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {**raw.mapping(obj, "spec"), "drain": {"force": True}},
    }


def _capacity(row: ClusterRow, obj: Obj, now_s: float) -> list[dict[str, Any]]:
    """What its nodes have of each resource, and would have once its autoscaler added all it can."""
    after = row.allocatable + _addable(obj, now_s)
    resources = [name for name, amount in after.items() if amount]
    whole, free, grown = (text.amounts(each) for each in (row.allocatable, row.free, after))
    return [
        {
            "resource": name,
            "allocatable": whole.get(name, "0"),
            "free": free.get(name, "0"),
            "used": _used(row, name),
            "afterScaleUp": grown.get(name, "0"),
        }
        for name in sorted(resources, key=lambda name: (name not in ("cpu", "memory"), name))
    ]


def _addable(obj: Obj, now_s: float) -> Resources:
    """What the nodes offer that its autoscaler can add now."""
    view = membercluster.to_view(obj, now_s)
    machines = view.capacity.machines if view.capacity is not None else {}
    total = ZERO
    for each in view.scale_up:
        more = max(each.most - machines.get(each.instance_type, 0), 0)
        total += each.allocatable * more
    return total


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
