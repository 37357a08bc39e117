"""Cases of Kueue's tables as the objects that a cluster with Kueue would have."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

API = "kueue.x-k8s.io/v1beta2"
T0 = datetime(2026, 1, 1, tzinfo=UTC)
UNITS = {"h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
Row = dict[str, Any]


def objects(case: Row) -> list[Row]:
    given = case["input"]
    fair = "fair" in case["kind"]
    found = [*_settings(given, fair=fair), *_namespaces(given), *_flavors(given)]
    found += [_cohort(row) for row in given.get("cohorts") or ()]
    found += [_queue(row) for row in given["queues"]]
    waiting = given.get("pending") or [_incoming(given)]
    found += _local_queues(given, waiting)
    found += [_workload(row) for row in given["running"]]
    return found + [_workload(row) for row in waiting]


def stamp(text: str | None) -> str:
    """`T0-60s` as a time."""
    at = T0
    for sign, number, unit in re.findall(r"([+-])([\d.]+)(ms|h|m|s)", text or ""):
        at += timedelta(**{UNITS[unit]: float(sign + number)})
    return at.isoformat().replace("+00:00", "Z")


def _object(kind: str, name: str, spec: Row, **meta: Any) -> Row:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def _settings(given: Row, *, fair: bool) -> Iterator[Row]:
    """`fair`: Kueue was told to share fairly."""
    sharing: Row = {"preemptionStrategies": given.get("strategies") or []}
    yield {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        **({"fairSharing": sharing} if fair else {}),
    }


def _namespaces(given: Row) -> Iterator[Row]:
    rows = [*given["running"], *(given.get("pending") or ())]
    for name in sorted({row["namespace"] for row in rows if row.get("namespace")}):
        labels = {"dep": name.partition("-")[0]}
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }


def _flavors(given: Row) -> Iterator[Row]:
    """Each flavor has nodes of its own. In Kueue's table those that are called tainted are, and the
    one that is called nonexistent does not exist."""
    names = {
        flavor["flavor"]
        for row in (*given["queues"], *(given.get("cohorts") or ()))
        for group in row.get("groups") or ()
        for flavor in group
    }
    for name in sorted(names - {"nonexistent-flavor"} | {"default"}):
        spec: Row = {"nodeLabels": {f"nodes-{_group(given, name)}": name}}
        if "tainted" in name:
            spec["nodeTaints"] = [{"key": "instance", "value": "spot", "effect": "NoSchedule"}]
        yield _object("ResourceFlavor", name, spec)


def _group(given: Row, flavor: str) -> int:
    """Which group of resources a flavor is in."""
    rows = (*given["queues"], *(given.get("cohorts") or ()))
    found = (
        at
        for row in rows
        for at, group in enumerate(row.get("groups") or ())
        if any(entry["flavor"] == flavor for entry in group)
    )
    return max(found, default=0)


def _cohort(row: Row) -> Row:
    spec: Row = {"resourceGroups": _groups(row)}
    if row.get("parent"):
        spec["parentName"] = row["parent"]
    return _object("Cohort", row["name"], spec | _weight(row))


def _queue(row: Row) -> Row:
    spec: Row = {
        "resourceGroups": _groups(row),
        "namespaceSelector": row.get("namespaceSelector", {}),
        "queueingStrategy": row.get("queueing", "BestEffortFIFO"),
    }
    spec |= {"cohortName": row["cohort"]} if row.get("cohort") else {}
    spec |= {name: row[name] for name in ("preemption", "flavorFungibility") if name in row}
    return _object("ClusterQueue", row["name"], spec | _weight(row))


def _weight(row: Row) -> Row:
    return {"fairSharing": {"weight": row["fairWeight"]}} if "fairWeight" in row else {}


def _groups(row: Row) -> list[Row]:
    return [
        {
            "coveredResources": sorted({name for flavor in group for name in flavor["quotas"]}),
            "flavors": [
                {
                    "name": flavor["flavor"],
                    "resources": [
                        {
                            "name": name,
                            "nominalQuota": quota["nominal"],
                            **{key: quota[key] for key in quota if key.endswith("Limit")},
                        }
                        for name, quota in flavor["quotas"].items()
                    ],
                }
                for flavor in group
            ],
        }
        for group in row.get("groups") or ()
    ]


def _incoming(given: Row) -> Row:
    """The one that waits in a table of preemption, with the flavors that the table fixes."""
    flavors = [name for pods in given["flavorPerResource"].values() for name in pods.values()]
    selector = {f"nodes-{_group(given, name)}": name for name in flavors}
    return {**given["incoming"], "queue": given["targetQueue"], "selector": selector}


def _local_queues(given: Row, waiting: list[Row]) -> Iterator[Row]:
    queues = {row["name"] for row in given["queues"]}
    wanted = {
        (row.get("namespace", "default"), row.get("localQueue") or row["queue"], row["queue"])
        for row in (*given["running"], *waiting)
        if row.get("queue") in queues
    }
    for namespace, name, queue in sorted(wanted):
        yield _object("LocalQueue", name, {"clusterQueue": queue}, namespace=namespace)


def _workload(row: Row) -> Row:
    sets = row.get("podSets") or [{"name": "main", "count": 1, "requests": row.get("requests", {})}]
    selector = {"nodeSelector": row["selector"]} if "selector" in row else {}
    spec: Row = {
        "queueName": row.get("localQueue") or row.get("queue") or "",
        "podSets": [
            {
                "name": one["name"],
                "count": one["count"],
                **({"minCount": one["minCount"]} if one.get("minCount") else {}),
                "template": {
                    "spec": {"containers": [{"resources": {"requests": one["requests"]}}]}
                    | selector
                },
            }
            for one in sets
        ],
    }
    if "priority" in row:
        spec["priority"] = row["priority"]
    uid = (row.get("other", {}).get("UID") or [row["name"]])[0]
    meta = {"namespace": row.get("namespace", "default"), "uid": uid}
    meta["creationTimestamp"] = stamp(row.get("created"))
    made = _object("Workload", row["name"], spec, **meta)
    if "reserved" in row:
        made["status"] = _status(row["reserved"], sets)
    return made


def _status(reserved: Row, sets: list[Row]) -> Row:
    assigned = reserved.get("podSets") or [
        {
            "name": one["name"],
            "flavors": dict.fromkeys(one["requests"], reserved["flavor"]),
            "usage": one["requests"],
        }
        for one in sets
    ]
    at = stamp(reserved.get("at"))
    return {
        "admission": {
            "clusterQueue": reserved["queue"],
            "podSetAssignments": [
                {
                    "name": one["name"],
                    "flavors": one["flavors"],
                    "resourceUsage": one["usage"],
                    **({"count": one["count"]} if one.get("count") else {}),
                }
                for one in assigned
            ],
        },
        "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": at}],
    }
