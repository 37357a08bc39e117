"""Cells of workloads and of what they claim that take more than a look at a field, as the printers
of Kubernetes 1.37 make them. Used by `columns` only."""

from collections.abc import Mapping
from typing import Any

from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages, pod_rows, rowcells
from federator.kube import clock

Own = Mapping[str, Any]


def deployment(obj: JsonObject, now: float) -> Own:
    status = rowcells.status_of(obj)
    return {
        **stateful_set(obj, now),
        "Up-to-date": status.get("updatedReplicas", 0),
        "Available": status.get("availableReplicas", 0),
    }


def stateful_set(obj: JsonObject, now: float) -> Own:
    ready = rowcells.status_of(obj).get("readyReplicas", 0)
    return {"Ready": f"{ready}/{obj['spec'].get('replicas', 0)}"}


def daemon_set(obj: JsonObject, now: float) -> Own:
    return {"Node Selector": rowcells.labels_text(rowcells.pod_of(obj).get("nodeSelector"))}


_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""(condition that is True, word shown) in the order they are tried; the empty one means being
deleted."""


def job(obj: JsonObject, now: float) -> Own:
    spec, status = obj["spec"], rowcells.status_of(obj)
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1" + (f" of {parallelism}" if parallelism > 1 else "")
    true = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    if "deletionTimestamp" in obj["metadata"]:
        true.add("")
    start, end = status.get("startTime"), status.get("completionTime")
    return {
        "Status": next((word for condition, word in _JOB_STATES if condition in true), "Running"),
        "Completions": completions,
        "Duration": "" if not start else ages.since(start, clock.parse(end) if end else now),
    }


def cron_job(obj: JsonObject, now: float) -> Own:
    status = rowcells.status_of(obj)
    last = status.get("lastScheduleTime")
    return {
        "Suspend": str(obj["spec"].get("suspend", "<unset>")),
        "Active": len(status.get("active") or ()),
        "Last Schedule": ages.since(last, now) if last else rowcells.NONE,
    }


def disruption_budget(obj: JsonObject, now: float) -> Own:
    spec = obj.get("spec") or {}
    return {
        "Min Available": str(spec.get("minAvailable", "N/A")),
        "Max Unavailable": str(spec.get("maxUnavailable", "N/A")),
    }


def autoscaler(obj: JsonObject, now: float) -> Own:
    spec, status = obj["spec"], rowcells.status_of(obj)
    target = spec["scaleTargetRef"]
    wanted = [
        pod_rows.metric(metric, status.get("currentMetrics") or [], i)
        for i, metric in enumerate(spec.get("metrics") or [])
    ]
    return {
        "Reference": f"{target['kind']}/{target['name']}",
        "Targets": ", ".join(wanted) or rowcells.NONE,
        "MinPods": str(spec.get("minReplicas", "<unset>")),
        "MaxPods": spec.get("maxReplicas", 0),
        "Replicas": status.get("currentReplicas", 0),
    }


def claim(obj: JsonObject, now: float) -> Own:
    status, is_bound = rowcells.status_of(obj), (obj.get("spec") or {}).get("volumeName")
    return {
        "Status": rowcells.phase_of(obj),
        "Capacity": (status.get("capacity") or {}).get("storage", "") if is_bound else "",
        "Access Modes": rowcells.access_modes(status.get("accessModes") if is_bound else ()),
    }


def quota(obj: JsonObject, now: float) -> Own:
    status = rowcells.status_of(obj)
    used = status.get("used") or {}
    rows = [
        (name, f"{name}: {used.get(name, '0')}/{hard}")
        for name, hard in sorted((status.get("hard") or {}).items())
    ]
    return {
        "Request": ", ".join(text for name, text in rows if not name.startswith("limits.")),
        "Limit": ", ".join(text for name, text in rows if name.startswith("limits.")),
    }
