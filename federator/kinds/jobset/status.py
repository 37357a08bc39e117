"""Status of a PinterestJobSet: read from a slice, written on a slice, and put together for the
host.
"""

from collections.abc import Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.shared import workloads
from federator.model import shards
from federator.model.ending import FAILURE_POLICY
from federator.model.observation import SliceObservation
from federator.status.fold import Fold


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    mark = workloads.read_mark(obj)
    desired = shards.size(mark.ranges) if mark else 0
    completed = workloads.indexes(status, "completedIndexes")
    failed = workloads.indexes(status, "failedIndexes")
    running = raw.figure(status, "running")
    return SliceObservation(
        **workloads.observed(obj, cluster, reporting, desired=desired),
        actual=running,
        active=running,
        completed=completed,
        failed=failed,
        finished=desired > 0 and shards.size(shards.union(completed, failed)) >= desired,
        broken=_broken(obj),
        unreadable=next((name for name in _INDEXES if workloads.is_no_set(status, name)), ""),
    )


def _broken(obj: Obj) -> str:
    """What the slice tells of a pod by which its failure policy ends the whole job set."""
    condition = raw.condition(obj, "Failed")
    by_policy = condition.get("status") == "True" and condition.get("reason") == FAILURE_POLICY
    return raw.sentence(condition, "message") if by_policy else ""


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    done, failed = shards.size(seen.completed), shards.size(seen.failed)
    status = workloads.base_slice_status(seen, conditions)
    status |= {"shards": seen.desired, "running": seen.active, "done": done, "failed": failed}
    status["summary"] = f"{done}/{seen.desired} done, {seen.active} running"
    return status | workloads.index_fields(seen.completed, seen.failed)


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [
        {"cluster": row.cluster, "shards": row.share, "slots": row.slots, "running": row.active}
        | {"done": row.completed, "failed": row.failed}
        | workloads.trouble(row)
        for row in fold.rows
    ]
    status = workloads.base_host_status(fold, conditions, policy)
    status |= {
        "shards": fold.desired,
        "running": fold.active,
        "done": shards.size(fold.completed),
        "failed": shards.size(fold.failed),
        "unknown": fold.unknown,
        "clusterStatuses": rows,
    }
    status |= raw.present({"stopped": fold.stopped, "startTime": fold.start_time})
    return status | workloads.index_fields(fold.completed, fold.failed)


_INDEXES = ("completedIndexes", "failedIndexes")
