"""Status of a PinterestDaemon: read from a slice, written on a slice, and put together for the
host.

To the core a cluster is one copy, which is ready when all its nodes have the daemon; people read
nodes.
"""

from collections.abc import Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.common import SHORT_MAX
from federator.api.raw import Obj
from federator.kinds.daemon.ask import count
from federator.kinds.daemon.schema import GROUPS_MAX, NAMED_MAX
from federator.kinds.shared import workloads
from federator.model.observation import NodeFigures, NodesWithout, SliceObservation
from federator.status.fold import Fold

NONE: Final = NodeFigures()
WHY_MAX: Final = 256
"""Characters that are kept of what a member says."""


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
    ready, starting = min(raw.figure(status, "ready"), current), raw.figure(status, "starting")
    without = tuple(_group(entry) for entry in raw.objects(status, "nodesWithout")[:GROUPS_MAX])
    nodes = NodeFigures(desired, current, ready, updated, starting, without)
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
        **_details(seen.nodes),
    }


def _group(entry: Obj) -> NodesWithout:
    names = tuple(name[:SHORT_MAX] for name in raw.texts(entry, "names")[:NAMED_MAX])
    return NodesWithout(raw.text(entry, "why")[:WHY_MAX], raw.figure(entry, "count"), names)


def _details(nodes: NodeFigures) -> dict[str, Any]:
    """What is left out where there is nothing of it."""
    groups = [
        {"why": group.why[:WHY_MAX], "count": group.count, "names": list(group.names)}
        for group in nodes.without[:GROUPS_MAX]
    ]
    starting = {"starting": nodes.starting} if nodes.starting else {}
    return starting | raw.present({"nodesWithout": groups})


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [(row, row.nodes or NONE) for row in fold.rows]
    heard = [nodes for row, nodes in rows if row.known]
    unknown = sum(nodes.desired for row, nodes in rows if not row.known)
    starting = sum(nodes.starting for nodes in heard)
    return {
        **workloads.base_host_status(fold, conditions, policy),
        "desired": sum(nodes.desired for nodes in heard) + unknown,
        "current": sum(nodes.current for nodes in heard),
        "ready": sum(nodes.ready for nodes in heard),
        "updated": sum(nodes.updated for nodes in heard),
        **({"starting": starting} if starting else {}),
        "unknown": unknown,
        "clusterStatuses": [
            {
                "cluster": row.cluster,
                "desired": nodes.desired,
                "current": nodes.current,
                "ready": nodes.ready,
                "updated": nodes.updated,
            }
            | _details(nodes)
            | workloads.trouble(row)
            for row, nodes in rows
        ],
    }
