"""Status of a PinterestStatefulSet: read from a slice, written on a slice, and put together for the
host."""

from collections.abc import Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.shared import workloads
from federator.kinds.statefulset.ask import count
from federator.kinds.statefulset.schema import SELECTOR_LABEL
from federator.model import shards
from federator.model.observation import BlockFigures, SliceObservation
from federator.status.fold import Fold

BLOCKS_TOLD: Final = 256
"""Number of blocks of one slice with figures in the report to the hub."""


def observe(obj: Obj, cluster: str, reporting: bool) -> SliceObservation:
    status = raw.mapping(obj, "status")
    seen = workloads.observed(obj, cluster, reporting, desired=count(obj) if obj else 0)
    actual = raw.figure(status, "replicas")
    # A member that claims more ready copies than it has would hide what others lack.
    seen["ready"] = min(seen["ready"], actual)
    present = workloads.counts_present_template(obj)
    updated = min(raw.figure(status, "updatedReplicas"), actual) if present else 0
    blocks = raw.objects(status, "blocks")[:BLOCKS_TOLD]
    figures = tuple(
        _block(block, ranges[0], present=present)
        for block in blocks
        if len(ranges := raw.ranges(block, "ordinals")) == 1
    )
    return SliceObservation(**seen, updated=updated, actual=actual, blocks=figures)


def _block(reported: Obj, block: shards.Range, *, present: bool) -> BlockFigures:
    low, high = block
    most = high - low + 1
    actual = min(raw.figure(reported, "replicas"), most)
    return BlockFigures(
        low,
        high,
        ready=min(raw.figure(reported, "ready"), actual),
        updated=min(raw.figure(reported, "updated"), actual) if present else 0,
        actual=actual,
    )


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    return {
        **workloads.base_slice_status(seen, conditions),
        "desired": seen.desired,
        "replicas": seen.actual,
        "updatedReplicas": seen.updated,
        "blocks": [_block_status(block) for block in seen.blocks[:BLOCKS_TOLD]],
        "summary": f"{seen.ready}/{seen.desired} ready",
    }


def _block_status(block: BlockFigures) -> dict[str, Any]:
    return {
        "ordinals": shards.text(((block.low, block.high),)),
        "replicas": block.actual,
        "ready": block.ready,
        "updated": block.updated,
    }


def host_status(
    obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
) -> dict[str, Any]:
    rows = [
        {
            "cluster": row.cluster,
            "ordinals": shards.text(row.ranges),
            "replicas": row.share,
            "ready": row.ready,
            "updated": row.updated,
            "actual": row.actual,
        }
        | raw.present({"blocks": [_block_status(block) for block in row.blocks]})
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
