"""Status of a PinterestService: read from a slice, written on a slice, and put together for the
host.
"""

from collections.abc import Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.service import ask
from federator.kinds.service.schema import SELECTOR_LABEL
from federator.kinds.shared import workloads
from federator.model.observation import SliceObservation
from federator.status.fold import Fold


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    seen = workloads.observed(obj, cluster, reporting, desired=ask.count(obj) if obj else 0)
    actual = raw.figure(status, "replicas")
    # A member that claims more ready copies than it has would hide what others lack.
    seen["ready"] = min(seen["ready"], actual)
    idle = max(_idle(obj, status), -seen["ready"])
    updated = (
        min(raw.figure(status, "updatedReplicas"), actual)
        if workloads.counts_present_template(obj)
        else 0
    )
    seen["ready"] += idle
    updated = max(updated + idle, 0)
    surge = verbs.surge(raw.at(obj, "spec", "updateStrategy", "maxSurge"), seen["desired"])
    return SliceObservation(**seen, updated=updated, actual=actual + idle, idle=idle, surge=surge)


def _idle(obj: Obj, status: Obj) -> int:
    """Copies of the slice's share that its autoscaler does not ask for now. They count as if they
    were there: nothing is missing, and nothing has to be waited for. Below zero where it asks for
    more than what is charged: as many more are there, and are not counted as shares."""
    bounds = ask.bounds(obj)
    if bounds is None or "desired" not in status:
        return 0
    low, high = bounds
    share = ask.count(obj)
    return share - min(max(raw.figure(status, "desired"), low), high)


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    return {
        **workloads.base_slice_status(seen, conditions),
        "desired": seen.desired,
        "replicas": seen.actual,
        "updatedReplicas": seen.updated,
        "summary": f"{seen.ready}/{seen.desired} ready",
    }


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [
        {
            "cluster": row.cluster,
            "replicas": row.share,
            "ready": max(row.ready - row.idle, 0),
            "updated": max(row.updated - row.idle, 0),
            "actual": max(row.actual - row.idle, 0),
        }
        | workloads.trouble(row)
        for row in fold.rows
    ]
    status = workloads.base_host_status(fold, conditions, policy)
    status |= {
        "desired": max(fold.desired - fold.idle, 0),
        "replicas": max(fold.actual - fold.idle, 0),
        "updatedReplicas": max(fold.updated - fold.idle, 0),
        "unknownReplicas": fold.unknown,
        "selector": f"{SELECTOR_LABEL}={raw.text(obj, 'metadata', 'name')}",
        "clusterStatuses": rows,
    }
    return status
