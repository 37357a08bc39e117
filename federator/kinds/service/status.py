"""Status of a PinterestService: read from a slice, written on a slice, and put together for the
host.
"""

from collections.abc import Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.service.ask import count
from federator.kinds.service.schema import SELECTOR_LABEL
from federator.kinds.shared import workloads
from federator.model.observation import SliceObservation
from federator.status.fold import Fold


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    seen = workloads.observed(obj, cluster, reporting, desired=count(obj) if obj else 0)
    actual = raw.figure(status, "replicas")
    # A member that claims more ready copies than it has would hide what others lack.
    seen["ready"] = min(seen["ready"], actual)
    updated = (
        min(raw.figure(status, "updatedReplicas"), actual)
        if workloads.counts_present_template(obj)
        else 0
    )
    return SliceObservation(**seen, updated=updated, actual=actual)


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
            "ready": row.ready,
            "updated": row.updated,
            "actual": row.actual,
        }
        | workloads.trouble(row)
        for row in fold.rows
    ]
    status = workloads.base_host_status(fold, conditions, policy)
    status |= {
        "desired": fold.desired,
        "replicas": fold.actual,
        "updatedReplicas": fold.updated,
        "unknownReplicas": fold.unknown,
        "selector": f"{SELECTOR_LABEL}={raw.text(obj, 'metadata', 'name')}",
        "clusterStatuses": rows,
    }
    return status
