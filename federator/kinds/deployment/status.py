"""Status of a plain Deployment: read from a member's, and put together for the host in the native
shape.

A member's own controller writes the status there; what that cannot say, the member process adds in
an annotation.
"""

import json
from collections.abc import Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.deployment.ask import count
from federator.kinds.labels import MEMBER_STATUS_ANNOTATION
from federator.model.observation import SliceObservation, quick_observation
from federator.status.fold import Fold


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    mark = verbs.mark_of_annotation(obj)
    meta, status = raw.mapping(obj, "metadata"), raw.mapping(obj, "status")
    member_status = _member_status(meta)
    # a hub that starts reads this of every slice: what is not there is not looked for
    has_conditions = "conditions" in status
    reason, message = _native_trouble(obj) if has_conditions else ("", "")
    unschedulable, since_s = 0, 0.0
    # A new seq makes no new generation here, so the member says of which seq it speaks.
    if member_status and (
        mark is None or raw.integer(member_status, "seq", default=mark.seq) == mark.seq
    ):
        reason, message = (
            raw.word(member_status, "reason") or reason,
            raw.sentence(member_status, "message") or message,
        )
        unschedulable = raw.figure(member_status, "unschedulable", "count")
        since_s = raw.epoch_s(raw.text(member_status, "unschedulable", "since"))
    actual = raw.figure(status, "replicas")
    generation, observed = (
        raw.integer(meta, "generation"),
        raw.integer(status, "observedGeneration"),
    )
    late = has_conditions and raw.condition(obj, "Progressing").get("status") == "False"
    wanted = count(obj) if obj else 0
    return quick_observation(
        cluster=cluster,
        known=reporting,
        exists=bool(obj),
        uid=raw.text(meta, "uid"),
        generation=generation,
        observed_generation=observed,
        seq=mark.seq if mark else 0,
        origin_generation=mark.origin_generation if mark else 0,
        desired=wanted,
        ready=min(raw.figure(status, "readyReplicas"), actual),
        updated=min(raw.figure(status, "updatedReplicas"), actual) if observed >= generation else 0,
        actual=actual,
        stalled=late and observed >= generation,
        reason=reason,
        message=message,
        unschedulable=unschedulable,
        unschedulable_since_s=since_s,
        # Clusters before Kubernetes 1.35 do not count them: there the member process does.
        terminating=(raw.figure(status, "terminatingReplicas") if status else 0)
        or (raw.figure(member_status, "terminating") if member_status else 0),
        surge=_surge(obj, wanted),
        deleting=meta.get("deletionTimestamp") is not None,
    )


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any] | None:
    """None: the member's own Deployment controller writes it."""
    return None


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    """A native status, so that `kubectl rollout status` and dashboards read it as any other.

    Our conditions stand in it in the native shape (no observedGeneration); zeros are left out as
    the API server would.
    """
    missing = max(fold.desired - fold.ready_lo, 0)
    counters = {
        "observedGeneration": fold.observed_generation,
        "replicas": fold.actual,
        "updatedReplicas": fold.updated,
        "readyReplicas": fold.ready_lo,
        "availableReplicas": fold.ready_lo,
        "unavailableReplicas": missing,
    }
    status: dict[str, Any] = {name: amount for name, amount in counters.items() if amount}
    status["conditions"] = [
        {
            name: value
            for name, value in condition.items()
            if name != "observedGeneration" and value != ""
        }
        for condition in conditions
    ]
    return status


def _surge(obj: Obj, copies: int) -> int:
    strategy = raw.mapping(obj, "spec", "strategy")
    if strategy.get("type") == "Recreate":
        return 0
    return verbs.surge(raw.at(strategy, "rollingUpdate", "maxSurge"), copies)


def _member_status(meta: Obj) -> Obj:
    """What the member added, {} for anything that is not an object."""
    text = raw.text(meta, "annotations", MEMBER_STATUS_ANNOTATION)
    try:
        member_status = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return raw.NO_FIELDS
    return member_status if isinstance(member_status, dict) else raw.NO_FIELDS


def _native_trouble(obj: Obj) -> tuple[str, str]:
    """Reason and message of a roll-out that failed or cannot make pods."""
    failure = raw.condition(obj, "ReplicaFailure")
    if failure.get("status") == "True":
        return raw.word(failure, "reason"), raw.sentence(failure, "message")
    progressing = raw.condition(obj, "Progressing")
    if progressing.get("status") == "False":
        return raw.word(progressing, "reason"), raw.sentence(progressing, "message")
    return "", ""
