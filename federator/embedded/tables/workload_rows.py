"""Table rows of workloads and what they claim, as the printers of Kubernetes 1.37 make them. Used
by `columns` only."""

from typing import Any

from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages, pod_rows, rowcells


def deployment(obj: JsonObject, now: float) -> list[Any]:
    status = rowcells.status_of(obj)
    ready = f"{status.get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"
    counts = [ready, status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [
        rowcells.name_of(obj),
        *counts,
        rowcells.age_of(obj, now),
        *rowcells.containers_of(rowcells.pod_of(obj)),
        rowcells.selector_text(obj["spec"].get("selector")),
    ]


def replica_set(obj: JsonObject, now: float) -> list[Any]:
    status = rowcells.status_of(obj)
    counts = [
        obj["spec"].get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
    ]
    return [
        rowcells.name_of(obj),
        *counts,
        rowcells.age_of(obj, now),
        *rowcells.containers_of(rowcells.pod_of(obj)),
        rowcells.selector_text(obj["spec"].get("selector")),
    ]


def stateful_set(obj: JsonObject, now: float) -> list[Any]:
    ready = f"{rowcells.status_of(obj).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"
    return [
        rowcells.name_of(obj),
        ready,
        rowcells.age_of(obj, now),
        *rowcells.containers_of(rowcells.pod_of(obj)),
    ]


def daemon_set(obj: JsonObject, now: float) -> list[Any]:
    status, pod = rowcells.status_of(obj), rowcells.pod_of(obj)
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [status.get(field, 0) for field in fields]
    wide = [*rowcells.containers_of(pod), rowcells.selector_text(obj["spec"].get("selector"))]
    return [
        rowcells.name_of(obj),
        *counts,
        rowcells.labels_text(pod.get("nodeSelector")),
        rowcells.age_of(obj, now),
        *wide,
    ]


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


def job(obj: JsonObject, now: float) -> list[Any]:
    spec, status = obj["spec"], rowcells.status_of(obj)
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1" + (f" of {parallelism}" if parallelism > 1 else "")
    true = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    if "deletionTimestamp" in obj["metadata"]:
        true.add("")
    state = next((word for condition, word in _JOB_STATES if condition in true), "Running")
    start, end = status.get("startTime"), status.get("completionTime")
    took = "" if not start else ages.since(start, ages.epoch(end) if end else now)
    wide = [
        *rowcells.containers_of(rowcells.pod_of(obj)),
        rowcells.selector_text(spec.get("selector")),
    ]
    return [rowcells.name_of(obj), state, completions, took, rowcells.age_of(obj, now), *wide]


def cron_job(obj: JsonObject, now: float) -> list[Any]:
    spec, status = obj["spec"], rowcells.status_of(obj)
    last = status.get("lastScheduleTime")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    pod = (job.get("template") or {}).get("spec") or {}
    suspend = str(spec.get("suspend", "<unset>"))
    cells = [
        spec.get("schedule"),
        spec.get("timeZone") or rowcells.NONE,
        suspend,
        len(status.get("active") or ()),
    ]
    seen = ages.since(last, now) if last else rowcells.NONE
    return [
        rowcells.name_of(obj),
        *cells,
        seen,
        rowcells.age_of(obj, now),
        *rowcells.containers_of(pod),
        rowcells.selector_text(job.get("selector")),
    ]


def disruption_budget(obj: JsonObject, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    bounds = [str(spec.get(field, "N/A")) for field in ("minAvailable", "maxUnavailable")]
    return [
        rowcells.name_of(obj),
        *bounds,
        rowcells.status_of(obj).get("disruptionsAllowed", 0),
        rowcells.age_of(obj, now),
    ]


def autoscaler(obj: JsonObject, now: float) -> list[Any]:
    spec, status = obj["spec"], rowcells.status_of(obj)
    target = spec["scaleTargetRef"]
    wanted = [
        pod_rows.metric(metric, status.get("currentMetrics") or [], i)
        for i, metric in enumerate(spec.get("metrics") or [])
    ]
    counts = [
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
    ]
    return [
        rowcells.name_of(obj),
        f"{target['kind']}/{target['name']}",
        ", ".join(wanted) or rowcells.NONE,
        *counts,
        rowcells.age_of(obj, now),
    ]


def claim(obj: JsonObject, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, rowcells.status_of(obj)
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    volume = spec.get("volumeName") or ""
    size = (status.get("capacity") or {}).get("storage", "") if volume else ""
    modes = rowcells.access_modes(status.get("accessModes")) if volume else ""
    cells = [phase, volume, size, modes, spec.get("storageClassName") or ""]
    attributes = spec.get("volumeAttributesClassName") or "<unset>"
    return [
        rowcells.name_of(obj),
        *cells,
        attributes,
        rowcells.age_of(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def quota(obj: JsonObject, now: float) -> list[Any]:
    status = rowcells.status_of(obj)
    used = status.get("used") or {}
    rows = [
        (name, f"{name}: {used.get(name, '0')}/{hard}")
        for name, hard in sorted((status.get("hard") or {}).items())
    ]
    requests = ", ".join(text for name, text in rows if not name.startswith("limits."))
    limits = ", ".join(text for name, text in rows if name.startswith("limits."))
    return [rowcells.name_of(obj), requests, limits, rowcells.age_of(obj, now)]
