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
    if failed := failed_deployment(obj):
        return Health(False, *failed)
    status, wanted = _part(obj, "status"), _number(_part(obj, "spec"), "replicas", 1)
    updated, available = (_number(status, f"{of}Replicas") for of in ("updated", "available"))
    return _rolled_out(wanted, updated, available, updated, "replicas")


def failed_deployment(obj: Obj) -> tuple[str, str] | None:
    """Reason and message of a Deployment that cannot create its pods, or made no progress within
    progressDeadlineSeconds; None for any other."""
    failed = _first(obj, ("ReplicaFailure", conditions.TRUE), ("Progressing", conditions.FALSE))
    if failed is None:
        return None
    said = _said(failed, str(failed.get("type")), "It does not say why.")
    return said.reason, said.message


def deadline_exceeded(obj: Obj) -> bool:
    """Whether the Deployment's controller gave up the rollout of its present generation."""
    late = _first(obj, ("Progressing", conditions.FALSE)) is not None
    return late and _not_observed(obj) is None


def daemon_set(obj: Obj) -> Health:
    """Healthy when its controller has observed the present spec, and each node that is to have a
    pod has an available one of the present template."""
    if behind := _not_observed(obj):
        return behind
    status = _part(obj, "status")
    wanted = _number(status, "desiredNumberScheduled")
    updated, available = (
        _number(status, name) for name in ("updatedNumberScheduled", "numberAvailable")
    )
    return _rolled_out(wanted, updated, available, updated, "nodes")


def stateful_set(obj: Obj) -> Health:
    """Healthy when its controller has observed the present spec and every wanted ordinal is updated
    and available."""
    if behind := _not_observed(obj):
        return behind
    status, wanted = _part(obj, "status"), _number(_part(obj, "spec"), "replicas", 1)
    updated, available = (_number(status, f"{of}Replicas") for of in ("updated", "available"))
    return _rolled_out(wanted, updated, available, wanted, "ordinals")


def _rolled_out(wanted: int, updated: int, available: int, least: int, what: str) -> Health:
    """`least`: so many have to be available."""
    if updated < wanted:
        return Health(
            False, "RollingOut", f"{updated} of {wanted} {what} run the current template."
        )
    if available >= least:
        return WELL
    if what == "nodes":
        return Health(False, "NotAvailable", f"It is available on {available} of {least} nodes.")
    return Health(False, "NotAvailable", f"{available} of {least} {what} are available.")


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
        refused = (("Accepted", conditions.FALSE), ("ResolvedRefs", conditions.FALSE))
        if (condition := _first({"status": parent}, *refused)) is not None:
            return _said(condition, "NotAccepted", "The Gateway does not take the HTTPRoute.")
    return WELL


def export(obj: Obj) -> Health:
    """Healthy unless its controller says that it cannot be exported."""
    refused = _first(obj, ("Valid", conditions.FALSE), ("Conflict", conditions.TRUE))
    return (
        WELL if refused is None else _said(refused, "NotExported", "The Service is not exported.")
    )


def job(obj: Obj) -> Health:
    """A Job, JobSet or TrainJob: healthy unless it has failed; a running one is healthy."""
    failed, kind = _first(obj, ("Failed", conditions.TRUE)), str(obj.get("kind", ""))
    return WELL if failed is None else _said(failed, f"{kind}Failed", f"The {kind} has failed.")


def _first(obj: Obj, *bad: tuple[str, str]) -> Obj | None:
    """The first condition of these types with this status."""
    live = _part(obj, "status").get("conditions")
    for kind, state in bad:
        condition = conditions.find(live if isinstance(live, list) else None, kind)
        if condition is not None and condition.get("status") == state:
            return condition
    return None


def _said(condition: Obj, reason: str, message: str) -> Health:
    return Health(
        False, str(condition.get("reason") or reason), str(condition.get("message") or message)
    )


HEALTH: Mapping[str, Callable[[Obj], Health]] = {
    "Deployment": deployment,
    "DaemonSet": daemon_set,
    "StatefulSet": stateful_set,
    "Service": service,
    "Ingress": ingress,
    "HTTPRoute": route,
    "ServiceExport": export,
    "Job": job,
    "JobSet": job,
    "TrainJob": job,
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
