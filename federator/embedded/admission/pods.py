"""What the default admission plugins of a real API server add to a new Pod, and its quality of
service class.

The service account token volume is left out: embedded clusters run no containers, and it would
triple the size of a pod.
"""

from typing import Any, Final

_GRACE_S: Final = 300
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM_PRIORITIES: Final = {
    "system-node-critical": 2000001000,
    "system-cluster-critical": 2000000000,
}


def admit(pod: dict[str, Any], priorities: dict[str, int] | None = None) -> None:
    """Adds tolerations, service account and priority in place. `priorities` maps the cluster's
    PriorityClasses."""
    spec = pod["spec"]
    account = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    tolerate(spec)
    classes = {**_SYSTEM_PRIORITIES, **(priorities or {})}
    spec.setdefault("priority", classes.get(spec.get("priorityClassName", ""), 0))
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def tolerate(spec: dict[str, Any]) -> None:
    """Adds the tolerations of nodes in trouble in place, to new pods and to changed ones."""
    tolerations = list(spec.get("tolerations") or ())
    for taint in _TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _GRACE_S,
                }
            )
    spec["tolerations"] = tolerations


def _tolerates(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", "") in ("", taint) and toleration.get("effect", "") in (
        "",
        "NoExecute",
    )


def quality(spec: dict[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, from the cpu and memory of all containers of a pod
    spec."""
    requests: dict[str, str] = {}
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        asked, limits = (
            {
                name: amount
                for name, amount in (resources.get(kind) or {}).items()
                if name in ("cpu", "memory") and amount != "0"
            }
            for kind in ("requests", "limits")
        )
        requests |= asked | limits
        guaranteed = (
            guaranteed and len(limits) == 2 and all(asked.get(k, v) == v for k, v in limits.items())
        )
    if not requests:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
