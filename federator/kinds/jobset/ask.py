"""What a PinterestJobSet asks of placement, and the slice of it that a cluster is given.

Shards are given to clusters as ranges, and each range becomes one Indexed Job there:
`model.shards.in_pieces` makes sure that a range which has a Job stays a range.
"""

from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.jobset.schema import API_VERSION, EXCLUSIVE, KIND
from federator.kinds.shared import workloads
from federator.kinds.verbs import SliceMark
from federator.model.decision import Share
from federator.model.errors import FieldError

DEFAULTS: Final[dict[str, Any]] = {
    "tier": "OnDemand",
    "completion": "All",
    "execution": "MayOverlap",
    "backoffLimitPerShard": 3,
}


def count(obj: Obj) -> int:
    return max(raw.integer(obj, "spec", "shards", default=1), 0)


def slots(obj: Obj) -> int:
    wanted = raw.integer(obj, "spec", "parallelism", default=count(obj))
    return min(max(wanted, 0), count(obj))


def refusal(obj: Obj) -> FieldError | None:
    """Old objects may hold what the schema now refuses."""
    refused = raw.text(obj, "spec", "execution") == "Exclusive"
    return FieldError("spec.execution", EXCLUSIVE) if refused else None


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    """The total number of shards stays; the cluster's ranges are those of the mark, else of the
    share.
    """
    if not mark.ranges:
        mark = replace(mark, ranges=share.ranges)
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    spec["shards"] = count(obj)
    spec["parallelism"] = share.slots
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": verbs.slice_metadata(obj, mark),
        "spec": spec,
    }
