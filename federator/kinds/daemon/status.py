"""Status of a PinterestDaemon: read from a slice, written on a slice, and put together for the
host.

To the core a cluster is one copy, which is ready when all its nodes have the daemon; people read
nodes.
"""

from collections.abc import Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.daemon.ask import count
from federator.kinds.shared import workloads
from federator.model.observation import NodeFigures, SliceObservation
from federator.status.fold import Fold

NONE: Final = NodeFigures()


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    seen = workloads.observed(obj, cluster, reporting, desired=count(obj) if obj else 0)
    seen |= {"unschedulable": 0, "unschedulable_since_s": 0.0}
    if "desired" not in status:
        return SliceObservation(**seen | {"ready": 0})
    desired = raw.figure(status, "desired")
    current = min(raw.figure(status, "current"), desired)
    updated = (
        min(raw.figure(status, "updated"), current) if workloads.counts_present_template(obj) else 0
    )
    nodes = NodeFigures(desired, current, min(raw.figure(status, "ready"), current), updated)
    seen |= {"ready": int(nodes.ready >= desired)}
    return SliceObservation(**seen, updated=int(updated >= desired), actual=1, nodes=nodes)


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    base = workloads.base_slice_status(seen, conditions)
    if seen.nodes is None or not seen.actual:  # nothing has counted the nodes yet
        return base | {"ready": 0, "summary": "no DaemonSet yet"}
    return {
        **base,
        "desired": seen.nodes.desired,
        "current": seen.nodes.current,
        "ready": seen.nodes.ready,
        "updated": seen.nodes.updated,
        "summary": f"{seen.nodes.ready}/{seen.nodes.desired} nodes ready",
    }


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [(row, row.nodes or NONE) for row in fold.rows]
    heard = [nodes for row, nodes in rows if row.known]
    unknown = sum(nodes.desired for row, nodes in rows if not row.known)
    return {
        **workloads.base_host_status(fold, conditions, policy),
        "desired": sum(nodes.desired for nodes in heard) + unknown,
        "current": sum(nodes.current for nodes in heard),
        "ready": sum(nodes.ready for nodes in heard),
        "updated": sum(nodes.updated for nodes in heard),
        "unknown": unknown,
        "clusterStatuses": [
            {
                "cluster": row.cluster,
                "desired": nodes.desired,
                "current": nodes.current,
                "ready": nodes.ready,
                "updated": nodes.updated,
            }
            | workloads.trouble(row)
            for row, nodes in rows
        ],
    }
