"""The Table row of a pod: what `kubectl get pods` says about its containers, as the printers of
Kubernetes 1.37 derive it.

Also the metric cell of an autoscaler, the other row that needs more than a line.
"""

from typing import Any

from federator.embedded.storage.revisions import JsonObject
from federator.embedded.tables import ages

_NONE = "<none>"


def cells(pod: JsonObject, now: float) -> dict[str, Any]:
    """The cells of a pod that take more than a look at a field, by column."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    ready, total, reason, restarts, restarted_at = _summary(spec, status)
    if "deletionTimestamp" in metadata:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in {"Succeeded", "Failed"}:
            reason = "Terminating"
    since = f" ({ages.since(restarted_at, now)} ago)" if restarts and restarted_at else ""
    return {
        "Ready": f"{ready}/{total}",
        "Status": reason,
        "Restarts": f"{restarts}{since}",
        "IP": (status.get("podIPs") or [{}])[0].get("ip") or _NONE,
        "Readiness Gates": _gates(spec, status),
    }


def _summary(spec: JsonObject, status: JsonObject) -> tuple[int, int, str, int, str]:
    """(ready containers, all containers, status word, restarts, time of the last restart)."""
    sidecars = {
        c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    reason = status.get("reason") or status.get("phase") or ""
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initial = status.get("initContainerStatuses") or []
    ready, stuck = _initial(initial, sidecars, len(spec.get("initContainers") or ()))
    if stuck and conditions.get("Initialized", {}).get("status") != "True":
        return ready, total, stuck, *_restarts(initial)
    main = status.get("containerStatuses") or []
    running, word, failure = _main(main)
    reason = word or reason
    if reason == "Completed":
        if running and conditions.get("Ready", {}).get("status") == "True":
            reason = "Running"
        elif failure:
            reason = failure
        elif running:
            reason = "NotReady"
    counted = [c for c in initial if c["name"] in sidecars] + main
    return ready + running, total, reason, *_restarts(counted)


def _initial(statuses: list[JsonObject], sidecars: set[str], count: int) -> tuple[int, str]:
    """(ready sidecars, why the pod is still initialising or "")."""
    ready = 0
    for index, container in enumerate(statuses):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            return ready, "Init:" + _ended(terminated)
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return ready, f"Init:{waiting['reason']}"
        return ready, f"Init:{index}/{count}"
    return ready, ""


def _main(statuses: list[JsonObject]) -> tuple[int, str, str]:
    """(running and ready containers, the first container's word or "", the word of one that failed
    or "")."""
    running, word, failure = 0, "", ""
    for container in reversed(statuses):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            word = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            word = _ended(state["terminated"])
            if state["terminated"].get("exitCode", 0) != 0:
                failure = word
        elif container.get("ready") and state.get("running") is not None:
            running += 1
    return running, word, failure


def _ended(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _restarts(statuses: list[JsonObject]) -> tuple[int, str]:
    times = [
        ((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        for c in statuses
    ]
    return sum(c.get("restartCount", 0) for c in statuses), max(times, default="")


def _gates(spec: JsonObject, status: JsonObject) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return _NONE
    true = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    return f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}"


def metric(wanted: JsonObject, current: list[JsonObject], index: int) -> str:
    """One metric of an autoscaler: `cpu: 40%/80%`, `<unknown>` where nothing is measured."""
    kind = wanted.get("type", "")
    source = wanted.get(kind[:1].lower() + kind[1:]) or {}
    target = source.get("target") or {}
    name = source.get("name") or (source.get("metric") or {}).get("name") or kind
    measured = current[index] if index < len(current) else {}
    now = (measured.get(kind[:1].lower() + kind[1:]) or {}).get("current") or {}
    if "averageUtilization" in target:
        shown = f"{now['averageUtilization']}%" if "averageUtilization" in now else "<unknown>"
        return f"{name}: {shown}/{target['averageUtilization']}%"
    wanted_value = target.get("averageValue") or target.get("value") or "<auto>"
    return f"{name}: {now.get('averageValue') or now.get('value') or '<unknown>'}/{wanted_value}"
