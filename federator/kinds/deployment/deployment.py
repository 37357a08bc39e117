"""A plain apps/v1 Deployment, carried as it is: no schema of ours, the federation's facts lie in annotations. Verbs.

On the host people may annotate `federation.pinterest.com/{policy,project,tier,priority,suspend}`; in members the hub
writes the slice annotation, and the member may add what the native status cannot say in
`federation.pinterest.com/member-status`.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.pods import podparts
from federator.kinds.verbs import FoldFacts, SliceMark, WorkloadVerbs
from federator.model import names
from federator.model.ask import Tier, Unit
from federator.model.decision import Share
from federator.model.observation import SliceObservation

KIND: Final = "Deployment"
API_VERSION: Final = "apps/v1"
POLICY_ANNOTATION: Final = f"{names.FEDERATION}/policy"
PROJECT_ANNOTATION: Final = f"{names.FEDERATION}/project"
TIER_ANNOTATION: Final = f"{names.FEDERATION}/tier"
PRIORITY_ANNOTATION: Final = f"{names.FEDERATION}/priority"
SUSPEND_ANNOTATION: Final = f"{names.FEDERATION}/suspend"
MEMBER_STATUS_ANNOTATION: Final = f"{names.FEDERATION}/member-status"
"""JSON {reason, message, unschedulable: {count, since}}: what the member saw beyond the native status."""


def count(obj: Obj) -> int:
    return max(raw.integer(obj, "spec", "replicas", default=1), 0)


def pod_template(obj: Obj) -> Obj:
    return raw.mapping(obj, "spec", "template")


def project(obj: Obj) -> str:
    return _annotation(obj, PROJECT_ANNOTATION) or raw.text(obj, "metadata", "namespace")


def tier(obj: Obj) -> Tier:
    return raw.tier(obj, "metadata", "annotations", TIER_ANNOTATION)


def priority(obj: Obj) -> int:
    text = _annotation(obj, PRIORITY_ANNOTATION)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0


def placement(obj: Obj) -> Obj:
    policy = _annotation(obj, POLICY_ANNOTATION)
    return {"policyRef": policy} if policy else {}


def suspended(obj: Obj) -> bool:
    return _annotation(obj, SUSPEND_ANNOTATION) == "true"


def max_unavailable(obj: Obj) -> int:
    if raw.text(obj, "spec", "strategy", "type") == "Recreate":
        return count(obj)
    value = raw.at(obj, "spec", "strategy", "rollingUpdate", "maxUnavailable")
    return verbs.share_of_copies(value, count(obj), default_percent=25)


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    metadata = verbs.slice_metadata(obj, mark)
    annotations = metadata.setdefault("annotations", {})
    annotations[names.SLICE_ANNOTATION] = verbs.annotation_of_mark(mark)
    spec = {**raw.mapping(obj, "spec"), "replicas": share.count}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def observe(obj: Obj, cluster: str, known: bool) -> SliceObservation:
    mark = verbs.mark_of_annotation(obj)
    meta, status = raw.mapping(obj, "metadata"), raw.mapping(obj, "status")
    told = _told(obj)
    reason, message = _native_trouble(obj) if "conditions" in status else ("", "")
    unschedulable, since_s = 0, 0.0
    # A new seq makes no new generation here, so the member says of which seq it speaks.
    if told and (mark is None or raw.integer(told, "seq", default=mark.seq) == mark.seq):
        reason, message = raw.word(told, "reason") or reason, raw.sentence(told, "message") or message
        unschedulable = raw.figure(told, "unschedulable", "count")
        since_s = raw.epoch_s(raw.text(told, "unschedulable", "since"))
    actual = raw.figure(status, "replicas")
    generation, observed = raw.integer(meta, "generation"), raw.integer(status, "observedGeneration")
    late = raw.condition(obj, "Progressing").get("status") == "False"
    return SliceObservation(
        cluster=cluster,
        known=known,
        exists=bool(obj),
        uid=raw.text(meta, "uid"),
        generation=generation,
        observed_generation=observed,
        seq=mark.seq if mark else 0,
        origin_generation=mark.origin_generation if mark else 0,
        desired=count(obj) if obj else 0,
        ready=min(raw.figure(status, "readyReplicas"), actual),
        updated=min(raw.figure(status, "updatedReplicas"), actual) if observed >= generation else 0,
        actual=actual,
        stalled=late and observed >= generation,
        reason=reason,
        message=message,
        unschedulable=unschedulable,
        unschedulable_since_s=since_s,
        deleting=meta.get("deletionTimestamp") is not None,
    )


def slice_status(seen: SliceObservation, conditions: Sequence[Obj]) -> dict[str, Any] | None:
    """None: the member's own Deployment controller writes it."""
    return None


def host_status(obj: Obj, fold: FoldFacts, conditions: Sequence[Obj], *, policy: str = "") -> dict[str, Any]:
    """A native status, so that `kubectl rollout status` and dashboards read it as any other.

    Our conditions stand in it in the native shape (no observedGeneration); zeros are left out as the API server would.
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
        {name: value for name, value in condition.items() if name != "observedGeneration" and value != ""}
        for condition in conditions
    ]
    return status


def _annotation(obj: Obj, name: str) -> str:
    return raw.text(obj, "metadata", "annotations", name)


def _told(obj: Obj) -> Obj:
    """What the member added, {} for anything that is not an object."""
    text = _annotation(obj, MEMBER_STATUS_ANNOTATION)
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return raw.NO_FIELDS
    return found if isinstance(found, dict) else raw.NO_FIELDS


def _native_trouble(obj: Obj) -> tuple[str, str]:
    """Reason and message of a roll-out that failed or cannot make pods."""
    failure = raw.condition(obj, "ReplicaFailure")
    if failure.get("status") == "True":
        return raw.word(failure, "reason"), raw.sentence(failure, "message")
    progressing = raw.condition(obj, "Progressing")
    if progressing.get("status") == "False":
        return raw.word(progressing, "reason"), raw.sentence(progressing, "message")
    return "", ""


def _no_parameters(obj: Obj) -> Obj:
    return raw.NO_FIELDS


def _no_profile(obj: Obj) -> str:
    return ""


VERBS: Final = WorkloadVerbs(
    unit=Unit.REPLICAS,
    carried=True,
    whole=False,
    count=count,
    slots=count,
    pod_template=pod_template,
    pods=podparts.of_native,
    project=project,
    tier=tier,
    priority=priority,
    placement=placement,
    suspended=suspended,
    profile=_no_profile,
    sidecars=_no_parameters,
    max_unavailable=max_unavailable,
    render_slice=render_slice,
    amount="replicas",
    read_mark=verbs.mark_of_annotation,
    observe=observe,
    slice_status=slice_status,
    host_status=host_status,
)
