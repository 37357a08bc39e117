"""What a PinterestJobSet asks of placement, and the slice of it that a cluster is given.

Shards are given to clusters as ranges, and each range becomes one Indexed Job there:
`model.shards.in_pieces` makes sure that a range which has a Job stays a range.
"""

from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.jobset import failures, guards, shardparts
from federator.kinds.jobset.schema import KIND
from federator.kinds.shared import workloads
from federator.kinds.verbs import SliceMark
from federator.model import shards
from federator.model.decision import Share
from federator.model.ending import EndRules, Success
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


def bound(obj: Obj, *path: str) -> int | None:
    """A number of spec that may be left out."""
    value = raw.at(obj, "spec", *path)
    return value if type(value) is int else None


def refusal(obj: Obj) -> FieldError | None:
    """Old objects may hold what the schema now refuses, and some things no schema can see."""
    try:
        failures.rules(obj)
        _success(obj)
    except FieldError as bad:
        return bad
    return shardparts.refusal(obj) or guards.refusal(obj)


def exclusive(obj: Obj) -> bool:
    return raw.text(obj, "spec", "execution") == "Exclusive"


def guarded(obj: Obj) -> bool:
    return guards.asked(obj)


def pod_template(obj: Obj) -> Obj:
    """The pods' template, with what a guard takes."""
    template = workloads.pod_template(obj)
    return guards.counted(template) if guarded(obj) else template


def end_rules(obj: Obj) -> EndRules:
    """Total: what cannot be read sets no rule, and is refused otherwise."""
    spec = raw.mapping(obj, "spec")
    try:
        success = _success(obj)
    except FieldError:
        success = None
    return EndRules(
        success=success,
        max_failed=bound(obj, "failurePolicy", "maxFailedShards"),
        fails_at_once=any(
            rule.get("action") == "FailJobSet"
            for rule in raw.objects(spec, "failurePolicy", "rules")
        ),
        deadline_s=bound(obj, "activeDeadlineSeconds"),
        ttl_s=bound(obj, "ttlSecondsAfterFinished"),
    )


def _success(obj: Obj) -> Success | None:
    """Raises FieldError for a policy that can never be met, or that cannot be read."""
    completion = raw.text(obj, "spec", "completion")
    if completion == "Any":
        return Success(1, any_one=True)
    if completion != "SuccessPolicy":
        return None
    path, every = "spec.successPolicy", ((0, count(obj) - 1),)
    policy = raw.mapping(obj, "spec", "successPolicy")
    try:
        among = shards.parse(raw.text(policy, "succeededShards"))
    except ValueError as bad:
        raise FieldError(f"{path}.succeededShards", str(bad)) from None
    if beyond := shards.minus(among, every):
        message = f"names shard {beyond[0][0]}, and there are {count(obj)}, numbered from 0"
        raise FieldError(f"{path}.succeededShards", message)
    most = shards.size(among or every)
    need = raw.integer(policy, "succeededCount", default=most)
    if need > most:
        raise FieldError(f"{path}.succeededCount", f"{need} of {most} shards can never complete")
    return Success(max(need, 1), among)


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    """The total number of shards stays; the cluster's ranges are those of the mark, else of the
    share.
    """
    if not mark.ranges:
        mark = replace(mark, ranges=share.ranges)
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    spec["shards"] = count(obj)
    spec["parallelism"] = share.slots
    return workloads.rendered(KIND, obj, mark, spec)
