"""The status of a Deployment: counts over its ReplicaSets and the conditions Available and
Progressing. Pure.

Reasons and messages are those of the Kubernetes deployment controller 1.37. Called by
`deployments`; times come in as text.
"""

from typing import Any, Final

from federator.embedded.controllers.tools import condition, stated
from federator.embedded.controllers.workloads import rolling
from federator.embedded.storage.revisions import JsonObject
from federator.kube import clock as clocks

Status = dict[str, Any]
Row = tuple[str, str, str, str]
"""(type, status, reason, message) of a condition."""

NO_DEADLINE: Final = 2**31 - 1
COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
_COUNTS: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def deadline_s(deployment: JsonObject) -> int | None:
    """spec.progressDeadlineSeconds, or None when progress is not watched."""
    seconds = deployment["spec"].get("progressDeadlineSeconds", 600)
    return None if seconds is None or seconds >= NO_DEADLINE else int(seconds)


def counted(
    deployment: JsonObject, sets: list[JsonObject], new: JsonObject | None, now: str
) -> Status:
    """The counts and the Available condition; the other conditions as they were."""
    spec, old = deployment["spec"], deployment.get("status") or {}
    wanted = spec.get("replicas", 1)

    def total(field: str) -> int:
        return sum((replica_set.get("status") or {}).get(field, 0) for replica_set in sets)

    available = total("availableReplicas")
    status: Status = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": total("replicas"),
        "updatedReplicas": (new.get("status") or {}).get("replicas", 0) if new else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(
            0, sum(replica_set["spec"].get("replicas", 1) for replica_set in sets) - available
        ),
        "terminatingReplicas": total("terminatingReplicas"),
        "conditions": list(old.get("conditions") or ()),
    }
    if "collisionCount" in old:
        status["collisionCount"] = old["collisionCount"]
    if available >= wanted - rolling.limits(spec, wanted)[1]:
        text = "Deployment has minimum availability."
        put(status, ("Available", "True", "MinimumReplicasAvailable", text), now)
    else:
        text = "Deployment does not have minimum availability."
        put(status, ("Available", "False", "MinimumReplicasUnavailable", text), now)
    return status


def put(status: Status, row: Row, now: str) -> None:
    """Sets a condition. Same status and reason: nothing happens; same status: the transition time
    stays."""
    have = condition(status["conditions"], row[0])
    if have is not None and (have["status"], have["reason"]) == row[1:3]:
        return
    made = stated(status["conditions"], row, now, lastUpdateTime=now)
    drop(status, row[0])
    status["conditions"].append(made)


def drop(status: Status, type_: str) -> None:
    """Removes a condition."""
    status["conditions"] = [entry for entry in status["conditions"] if entry["type"] != type_]


def note_pause(deployment: JsonObject, status: Status, now: str) -> None:
    """The Progressing condition of paused and resumed Deployments; a reported lack of progress is
    kept."""
    have = condition(status["conditions"], "Progressing")
    reason = have["reason"] if have else ""
    if deadline_s(deployment) is None or reason == TIMED_OUT:
        return
    paused = bool(deployment["spec"].get("paused"))
    if paused and reason != PAUSED:
        put(status, ("Progressing", "Unknown", PAUSED, "Deployment is paused"), now)
    elif not paused and reason == PAUSED:
        put(status, ("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"), now)


def judge(deployment: JsonObject, status: Status, new: JsonObject | None, now: str) -> None:
    """The Progressing condition during and at the end of a rollout."""
    seconds = deadline_s(deployment)
    if seconds is None:
        drop(status, "Progressing")
        return
    have = condition((deployment.get("status") or {}).get("conditions"), "Progressing")
    if (
        status["replicas"] == status["updatedReplicas"]
        and have is not None
        and have["reason"] == COMPLETE
    ):
        return  # no rollout is running: this is a resync
    current = condition(status["conditions"], "Progressing")
    subject = (
        f'ReplicaSet "{new["metadata"]["name"]}"'
        if new
        else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if complete(deployment, status):
        text = f"{subject} has successfully progressed."
        put(status, ("Progressing", "True", COMPLETE, text), now)
    elif progressed(deployment, status):
        if current is not None and current["status"] != "True":
            drop(status, "Progressing")
        elif current is not None:
            # Same status: only the time of the last progress moves.
            drop(status, "Progressing")
            status["conditions"].append(
                {
                    **current,
                    "reason": "ReplicaSetUpdated",
                    "message": f"{subject} is progressing.",
                    "lastUpdateTime": now,
                }
            )
            return
        put(status, ("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing."), now)
    elif (
        current is not None
        and current["reason"] not in (TIMED_OUT, COMPLETE)
        and clocks.parse(current["lastUpdateTime"]) + seconds < clocks.parse(now)
    ):
        text = f"{subject} has timed out progressing."
        put(status, ("Progressing", "False", TIMED_OUT, text), now)


def note_failures(status: Status, new: JsonObject | None, old: list[JsonObject], now: str) -> None:
    """ReplicaFailure of the new set, else of an old one, for as long as there is one."""
    sets = ([new] if new is not None else []) + old
    failures = (
        condition((replica_set.get("status") or {}).get("conditions"), "ReplicaFailure")
        for replica_set in sets
    )
    failure = next((failure for failure in failures if failure is not None), None)
    if failure is None:
        drop(status, "ReplicaFailure")
    else:
        put(
            status, (failure["type"], failure["status"], failure["reason"], failure["message"]), now
        )


def complete(deployment: JsonObject, status: Status) -> bool:
    """Every replica wanted is of the new template and available, and no other is left."""
    wanted = deployment["spec"].get("replicas", 1)
    return bool(
        status["updatedReplicas"] == status["replicas"] == status["availableReplicas"] == wanted
    )


def progressed(deployment: JsonObject, status: Status) -> bool:
    """Whether more is updated, ready or available, or less is old, than the stored status says."""
    old = deployment.get("status") or {}
    updated = old.get("updatedReplicas", 0)
    return bool(
        status["updatedReplicas"] > updated
        or status["replicas"] - status["updatedReplicas"] < old.get("replicas", 0) - updated
        or status["readyReplicas"] > old.get("readyReplicas", 0)
        or status["availableReplicas"] > old.get("availableReplicas", 0)
    )


def check_in_s(deployment: JsonObject, status: Status, now: float) -> float | None:
    """Seconds until lack of progress must be looked for, or None when there is nothing to wait
    for."""
    seconds = deadline_s(deployment)
    current = condition(status["conditions"], "Progressing")
    if (
        seconds is None
        or current is None
        or current["reason"] in (TIMED_OUT, PAUSED)
        or complete(deployment, status)
    ):
        return None
    return max(1.0, clocks.parse(current["lastUpdateTime"]) + seconds - now + 1)


def trimmed(status: Status) -> Status:
    """Without zero counts, as the API writes them."""
    return {
        name: value
        for name, value in status.items()
        if value or name not in (*_COUNTS, "conditions")
    }
