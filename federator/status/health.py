"""Health of native objects: one function per kind, one table row each in `HEALTH`.

Used by the member's status reports. Objects are dicts from an API server; missing values and wrong
types count as absent, and no status raises.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from federator.status import conditions

Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Health:
    """`healthy`; otherwise a CamelCase reason and a sentence with numbers."""

    healthy: bool
    reason: str = ""
    message: str = ""


WELL = Health(True)


def of(obj: Obj) -> Health:
    """The health of a native object. A kind without a row has no status: existing is enough."""
    judge = HEALTH.get(str(obj.get("kind", "")))
    return WELL if judge is None else judge(obj)


def deployment(obj: Obj) -> Health:
    """Healthy when its controller has observed the present spec and every wanted replica is updated
    and available."""
    if behind := _not_observed(obj):
        return behind
    wanted = _number(_part(obj, "spec"), "replicas", 1)
    status = _part(obj, "status")
    if failed := failed_deployment(obj):
        return Health(False, *failed)
    if (updated := _number(status, "updatedReplicas")) < wanted:
        return Health(
            False, "RollingOut", f"{updated} of {wanted} replicas run the current template."
        )
    if (available := _number(status, "availableReplicas")) < updated:
        return Health(False, "NotAvailable", f"{available} of {updated} replicas are available.")
    return WELL


def failed_deployment(obj: Obj) -> tuple[str, str] | None:
    """Reason and message of a Deployment that cannot create its pods, or made no progress within
    progressDeadlineSeconds; None for any other."""
    live = _part(obj, "status").get("conditions")
    for kind, state in (("ReplicaFailure", conditions.TRUE), ("Progressing", conditions.FALSE)):
        condition = conditions.find(live if isinstance(live, list) else None, kind)
        if condition is not None and condition.get("status") == state:
            return str(condition.get("reason") or kind), str(
                condition.get("message") or "It does not say why."
            )
    return None


def deadline_exceeded(obj: Obj) -> bool:
    """Whether the Deployment's controller gave up the rollout of its present generation."""
    live = _part(obj, "status").get("conditions")
    condition = conditions.find(live if isinstance(live, list) else None, "Progressing")
    late = condition is not None and condition.get("status") == conditions.FALSE
    return late and _not_observed(obj) is None


def daemon_set(obj: Obj) -> Health:
    """Healthy when its controller has observed the present spec, and each node that is to have a
    pod has an available one of the present template."""
    if behind := _not_observed(obj):
        return behind
    status = _part(obj, "status")
    wanted = _number(status, "desiredNumberScheduled")
    if (updated := _number(status, "updatedNumberScheduled")) < wanted:
        return Health(False, "RollingOut", f"{updated} of {wanted} nodes run the current template.")
    if (available := _number(status, "numberAvailable")) < updated:
        return Health(False, "NotAvailable", f"It is available on {available} of {updated} nodes.")
    return WELL


def stateful_set(obj: Obj) -> Health:
    """Healthy when its controller has observed the present spec and every wanted ordinal is updated
    and available."""
    if behind := _not_observed(obj):
        return behind
    wanted = _number(_part(obj, "spec"), "replicas", 1)
    status = _part(obj, "status")
    if (updated := _number(status, "updatedReplicas")) < wanted:
        return Health(
            False, "RollingOut", f"{updated} of {wanted} ordinals run the current template."
        )
    if (available := _number(status, "availableReplicas")) < wanted:
        return Health(False, "NotAvailable", f"{available} of {wanted} ordinals are available.")
    return WELL


def service(obj: Obj) -> Health:
    """Only a load balancer waits for something: its address."""
    if _part(obj, "spec").get("type") != "LoadBalancer" or _addresses(obj):
        return WELL
    return Health(
        False, "NoLoadBalancer", "The Service waits for the address of its load balancer."
    )


def ingress(obj: Obj) -> Health:
    """Healthy once an ingress controller has published an address."""
    if _addresses(obj):
        return WELL
    return Health(False, "NoLoadBalancer", "The Ingress waits for an address from its controller.")


def route(obj: Obj) -> Health:
    """Healthy once a Gateway has taken it, and every one that it names has taken all of it."""
    parents = _part(obj, "status").get("parents")
    if not isinstance(parents, list) or not parents:
        return Health(False, "NotAccepted", "The HTTPRoute waits for the Gateway that it names.")
    for parent in parents:
        live = _part({"parent": parent}, "parent").get("conditions")
        for kind in ("Accepted", "ResolvedRefs"):
            condition = conditions.find(live if isinstance(live, list) else None, kind)
            if condition is not None and condition.get("status") == conditions.FALSE:
                return _said(condition, "NotAccepted", "The Gateway does not take the HTTPRoute.")
    return WELL


def export(obj: Obj) -> Health:
    """Healthy unless its controller says that it cannot be exported."""
    live = _part(obj, "status").get("conditions")
    for kind, state in (("Valid", conditions.FALSE), ("Conflict", conditions.TRUE)):
        condition = conditions.find(live if isinstance(live, list) else None, kind)
        if condition is not None and condition.get("status") == state:
            return _said(condition, "NotExported", "The Service is not exported.")
    return WELL


def _said(condition: Obj, reason: str, message: str) -> Health:
    return Health(
        False, str(condition.get("reason") or reason), str(condition.get("message") or message)
    )


def job(obj: Obj) -> Health:
    """Healthy unless it has failed; a running one is healthy."""
    status = _part(obj, "status")
    live = status.get("conditions")
    failed = conditions.find(live if isinstance(live, list) else None, "Failed")
    if failed is None or failed.get("status") != conditions.TRUE:
        return WELL
    return _said(failed, "JobFailed", "The Job has failed.")


def carrier(obj: Obj) -> Health:
    """A JobSet or a TrainJob: healthy unless it has failed."""
    live = _part(obj, "status").get("conditions")
    failed = conditions.find(live if isinstance(live, list) else None, "Failed")
    if failed is None or failed.get("status") != conditions.TRUE:
        return WELL
    kind = str(obj.get("kind", ""))
    return _said(failed, f"{kind}Failed", f"The {kind} has failed.")


HEALTH: Mapping[str, Callable[[Obj], Health]] = {
    "Deployment": deployment,
    "DaemonSet": daemon_set,
    "StatefulSet": stateful_set,
    "Service": service,
    "Ingress": ingress,
    "HTTPRoute": route,
    "ServiceExport": export,
    "Job": job,
    "JobSet": carrier,
    "TrainJob": carrier,
}


def _not_observed(obj: Obj) -> Health | None:
    generation = _number(_part(obj, "metadata"), "generation")
    observed = _number(_part(obj, "status"), "observedGeneration")
    if observed == generation:
        return None
    return Health(
        False,
        "NotObserved",
        f"Generation {generation} is not acted on yet; the last seen is {observed}.",
    )


def _addresses(obj: Obj) -> bool:
    balancer = _part(_part(obj, "status"), "loadBalancer").get("ingress")
    return isinstance(balancer, list) and bool(balancer)


def _part(obj: Obj, name: str) -> Obj:
    part = obj.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(part: Obj, name: str, default: int = 0) -> int:
    value = part.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
