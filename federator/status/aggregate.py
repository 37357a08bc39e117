"""Aggregates the native statuses of a carried kind's copies into one status of the same shape. One
row per kind.

Used by the hub's status aggregation for kinds without a status shape of ours (a plain Deployment),
so that people and tools read the host's object like any other. Counters are summed; everything else
has a rule in its function.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.status import conditions, reasons
from federator.status.conditions import Condition

Status = Mapping[str, Any]
OWNED: Final = ("Available", "Progressing")
"""Condition types of `deployment_conditions`; for `conditions.merge`."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One cluster's copy: its status as that cluster reports it, {} without one."""

    cluster: str
    status: Status


def of(obj: Mapping[str, Any], members: Sequence[MemberStatus]) -> dict[str, Any] | None:
    """The aggregated status; None for a kind without a rule (its fold is complete)."""
    rule = AGGREGATORS.get(str(obj.get("kind", "")))
    return None if rule is None else rule(obj, sorted(members, key=lambda member: member.cluster))


def deployment(obj: Mapping[str, Any], members: Sequence[MemberStatus]) -> dict[str, Any]:
    """Sums of all counters that at least one member reports."""
    names = (
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    )
    return _sums(members, names)


def deployment_conditions(
    *,
    wanted: int,
    ready: int,
    max_unavailable: int,
    settled: bool,
    paused: bool = False,
    failed: tuple[str, str] | None = None,
) -> tuple[Condition, ...]:
    """The two conditions that tools wait for on a Deployment, over all clusters, worded as its
    controller does. `failed`: reason and message of a rollout that does not continue by itself."""
    enough = ready >= wanted - max_unavailable
    available = Condition(
        "Available",
        conditions.truth(enough),
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "Deployment has minimum availability."
        if enough
        else "Deployment does not have minimum availability.",
    )
    if paused:
        progressing = Condition(
            "Progressing", conditions.UNKNOWN, "DeploymentPaused", "Deployment is paused"
        )
        return available, progressing
    if failed is not None:
        return available, Condition("Progressing", conditions.FALSE, *failed)
    reason = "NewReplicaSetAvailable" if settled else "ReplicaSetUpdated"
    message = f"{ready} of {wanted} replicas are ready over all clusters."
    return available, Condition("Progressing", conditions.TRUE, reason, message)


def load_balanced(obj: Mapping[str, Any], members: Sequence[MemberStatus]) -> dict[str, Any]:
    """All addresses of all members, each once."""
    if obj.get("kind") == "Service" and reasons.get(obj, "spec", "type") != "LoadBalancer":
        return {}
    addresses: list[Any] = []
    for member in members:
        for address in reasons.listed(reasons.get(member.status, "loadBalancer", "ingress")):
            if address not in addresses:
                addresses.append(address)
    return {"loadBalancer": {"ingress": addresses}} if addresses else {"loadBalancer": {}}


def job(obj: Mapping[str, Any], members: Sequence[MemberStatus]) -> dict[str, Any]:
    """Failed as soon as one member's Job failed; complete when all are. A finished status is final
    and returned unchanged."""
    live = obj.get("status")
    if isinstance(live, Mapping) and _finished(live):
        return dict(live)
    status = _sums(members, ("active", "succeeded", "failed", "ready"))
    starts = [
        str(member.status["startTime"]) for member in members if member.status.get("startTime")
    ]
    if starts:
        status["startTime"] = min(starts)
    failed = [
        m.cluster
        for m in members
        if conditions.is_true(reasons.listed(m.status.get("conditions")), "Failed")
    ]
    complete = [
        m.cluster
        for m in members
        if conditions.is_true(reasons.listed(m.status.get("conditions")), "Complete")
    ]
    verdicts: list[dict[str, Any]] = []
    if failed:
        verdicts = [_verdict("Failed", "JobFailed", f"The Job failed in {', '.join(failed)}.")]
    elif members and len(complete) == len(members):
        where = f"all {len(members)} clusters" if len(members) > 1 else complete[0]
        verdicts = [
            _verdict("Complete", "Completed", f"The Job completed in {where}."),
            _verdict(
                "SuccessCriteriaMet",
                "CompletionsReached",
                f"All completions were reached in {where}.",
            ),
        ]
    ends = [
        str(member.status["completionTime"])
        for member in members
        if member.status.get("completionTime")
    ]
    if verdicts and ends:
        status["completionTime"] = max(ends)
    if verdicts:
        status["conditions"] = verdicts
    return status


AGGREGATORS: Mapping[str, Callable[[Mapping[str, Any], Sequence[MemberStatus]], dict[str, Any]]] = {
    "Deployment": deployment,
    "Service": load_balanced,
    "Ingress": load_balanced,
    "Job": job,
}


def _sums(members: Sequence[MemberStatus], names: Iterable[str]) -> dict[str, Any]:
    totals: dict[str, Any] = {}
    for name in names:
        amounts = [
            member.status[name] for member in members if isinstance(member.status.get(name), int)
        ]
        if amounts:
            totals[name] = sum(amounts)
    return totals


def _finished(status: Status) -> bool:
    live = reasons.listed(status.get("conditions"))
    return conditions.is_true(live, "Complete") or conditions.is_true(live, "Failed")


def _verdict(kind: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": conditions.TRUE, "reason": reason, "message": message}
