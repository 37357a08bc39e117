"""What the Pinterest workload kinds have in common: the verbs on shared spec fields, the slice, and
the status of a slice.

Used by the files of those kinds only. Like all verbs: pure, total, never changing the argument.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.common import INDEXES_MAX
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.pods import podparts
from federator.kinds.shared import runtimefields
from federator.kinds.verbs import SliceMark
from federator.model import shards
from federator.model.ask import Tier
from federator.model.observation import RESTORED, SliceObservation
from federator.status.fold import Fold, Row

API_VERSION: Final = "pinterest.com/v1beta1"
HOST_ONLY = ("placement", "suspend", "slice")
"""Spec fields that speak to the federation and are not carried to members."""
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "policyRef": ("spec", "placement", "policyRef"),
    "priority": ("spec", "priority"),
    "suspend": ("spec", "suspend"),
}
"""Where people set what the federation reads."""


def pod_template(obj: Obj) -> Obj:
    return raw.mapping(obj, "spec", "template")


def project(obj: Obj) -> str:
    return raw.text(obj, "spec", "project") or raw.text(obj, "metadata", "namespace")


def tier(obj: Obj) -> Tier:
    return raw.tier(obj, "spec", "tier")


def priority(obj: Obj) -> int:
    return raw.integer(obj, "spec", "priority")


def placement(obj: Obj) -> Obj:
    return raw.mapping(obj, "spec", "placement")


def suspended(obj: Obj) -> bool:
    return raw.flag(obj, "spec", "suspend")


def profile(obj: Obj) -> str:
    return raw.text(obj, "spec", "runtimeProfile") or verbs.DEFAULT_PROFILE


def sidecars(obj: Obj) -> Obj:
    return raw.mapping(obj, "spec", "sidecars")


def read_mark(obj: Obj) -> SliceMark | None:
    return verbs.decode_mark(raw.at(obj, "spec", "slice"))


verbs_of: Final = functools.partial(
    verbs.WorkloadVerbs,
    pods=podparts.of,
    project=project,
    tier=tier,
    priority=priority,
    placement=placement,
    fields=FIELDS,
    suspended=suspended,
    profile=profile,
    sidecars=sidecars,
    read_mark=read_mark,
)
"""The verbs of one of our kinds; what the kind answers by itself is given."""


def slice_spec(obj: Obj, mark: SliceMark, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The user's spec without what only the host reads, defaulted, with the slice block."""
    spec = {
        name: value for name, value in raw.mapping(obj, "spec").items() if name not in HOST_ONLY
    }
    if "runtime" in spec:  # which version that is, is the mark's to say
        spec |= {"runtime": runtimefields.carried(raw.mapping(spec, "runtime"))}
        spec = {name: value for name, value in spec.items() if name != "runtime" or value}
    for name, value in defaults.items():
        spec.setdefault(name, value)
    spec["slice"] = verbs.encode_mark(mark)
    return spec


def rendered(kind: str, obj: Obj, mark: SliceMark, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = verbs.slice_metadata(obj, mark)
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def observed(obj: Obj, cluster: str, reporting: bool, *, desired: int) -> dict[str, Any]:
    """The fields of a SliceObservation that all our kinds read alike."""
    mark = read_mark(obj)
    status = raw.mapping(obj, "status")
    healthy = status.get("healthy")
    return {
        "cluster": cluster,
        "known": reporting,
        "exists": bool(obj),
        "uid": raw.text(obj, "metadata", "uid"),
        "generation": raw.integer(obj, "metadata", "generation"),
        "observed_generation": raw.integer(status, "observedGeneration"),
        "seq": mark.seq if mark else 0,
        "origin_generation": mark.origin_generation if mark else 0,
        "desired": desired,
        "ready": raw.figure(status, "ready"),
        "healthy": healthy if isinstance(healthy, bool) else None,
        "reason": raw.word(status, "reason"),
        "message": raw.sentence(status, "message"),
        "unschedulable": raw.figure(status, "unschedulable", "count"),
        "terminating": raw.figure(status, "terminatingReplicas"),
        "deregistered": raw.figure(status, "deregisteredReplicas"),
        "template": raw.word(status, "template"),
        "stalled": caught_up(obj) and raw.condition(obj, "Stalled").get("status") == "True",
        "drift": raw.sentence(raw.condition(obj, RESTORED), "message"),
        "unschedulable_since_s": raw.epoch_s(raw.text(status, "unschedulable", "since")),
        "deleting": raw.at(obj, "metadata", "deletionTimestamp") is not None,
    }


def caught_up(obj: Obj) -> bool:
    """Whether the status of a slice is about what it says now."""
    return raw.integer(obj, "status", "observedGeneration") >= raw.integer(
        obj, "metadata", "generation"
    )


def counts_present_template(obj: Obj) -> bool:
    """Whether `updatedReplicas` of a slice are of the template that it has now: a new share makes a
    new generation, and says nothing of them.
    """
    return caught_up(obj) or raw.word(obj, "status", "template") == podparts.digest(obj)


def base_slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any]:
    """The part of a slice's status that all our kinds write alike; `observed` reads it back."""
    status: dict[str, Any] = {"observedGeneration": seen.observed_generation, "ready": seen.ready}
    if conditions:
        status["conditions"] = [dict(condition) for condition in conditions]
    if seen.healthy is not None:
        status["healthy"] = seen.healthy
    if seen.reason:
        status["reason"] = seen.reason
    if seen.message:
        status["message"] = seen.message
    if seen.template:
        status["template"] = seen.template
    if seen.terminating:
        status["terminatingReplicas"] = seen.terminating
    if seen.deregistered:
        status["deregisteredReplicas"] = seen.deregistered
    if seen.unschedulable:
        status["unschedulable"] = {
            "count": seen.unschedulable,
            "since": raw.rfc3339(seen.unschedulable_since_s),
            "reason": seen.reason or "Unschedulable",
        }
    return status


def base_host_status(fold: Fold, conditions: Sequence[Obj], policy: str) -> dict[str, Any]:
    """The scalar fields that tables show, and the conditions."""
    ready = next(
        (condition for condition in conditions if condition.get("type") == "Ready"), raw.NO_FIELDS
    )
    status: dict[str, Any] = {
        "observedGeneration": fold.observed_generation,
        "clusters": fold.clusters,
        "placed": fold.placed,
        "ready": fold.ready,
        "summary": fold.summary,
        "conditions": [dict(condition) for condition in conditions],
    }
    message = raw.text(ready, "message")
    return status | raw.present({"policy": policy, "message": message})


def index_text(ranges: shards.Ranges) -> str:
    """Indexes as a Job's `completedIndexes` spells them."""
    return shards.text(shards.normal(ranges))


def indexes(status: Obj, field: str) -> shards.Ranges:
    """The set of shards in a field; empty for what is none, and for a text longer than any."""
    text = raw.text(status, field)
    return shards.normal(raw.ranges(text)) if len(text) <= INDEXES_MAX else ()


def is_no_set(status: Obj, field: str) -> bool:
    """Whether something stands there, and it is no set of shards."""
    value = status.get(field)
    return value not in (None, "") and not indexes(status, field)


def trouble(row: Row) -> dict[str, Any]:
    """The fields of a cluster row that say whether it is heard of and what ails it."""
    return {
        "known": row.known,
        **raw.present({"reason": row.reason, "message": row.message[:1024]}),
    }


def index_fields(completed: shards.Ranges, failed: shards.Ranges) -> dict[str, str]:
    """The status fields that name ended shards."""
    return {"completedIndexes": index_text(completed), "failedIndexes": index_text(failed)}
