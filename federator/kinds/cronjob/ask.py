"""What a PinterestCronJob says about its runs, what is known of a run, and the PinterestJobSet that
is made for one.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

from federator.api import raw
from federator.api.common import SHORT_MAX
from federator.api.raw import Obj
from federator.kinds.cronjob import schema
from federator.kinds.jobset import schema as jobset
from federator.kinds.recurring import Recurrence, Run
from federator.kinds.shared import workloads
from federator.model import names, schedule
from federator.model.schedule import BadSchedule

INVALID: Final = "InvalidSchedule"
UNKNOWN_ZONE: Final = "UnknownTimeZone"
NATIVE: Final = "Native"
_SUFFIX: Final = re.compile(r"-(\d{12})", re.ASCII)
_STAMP: Final = "%Y%m%d%H%M"


def recurrence(obj: Obj, now_s: float) -> Recurrence:
    """Total: an object that was written past the schema gives one with a problem."""
    spec, status = raw.mapping(obj, "spec"), raw.mapping(obj, "status")
    deadline = raw.at(spec, "startingDeadlineSeconds")
    fields: dict[str, Any] = {
        "native": is_native(obj),
        "suspended": raw.flag(spec, "suspend"),
        "concurrency": raw.text(spec, "concurrencyPolicy", default="Allow"),
        "deadline_s": max(deadline, 0) if type(deadline) is int else None,
        "keep_completed": max(raw.integer(spec, "successfulJobsHistoryLimit", default=3), 0),
        "keep_failed": max(raw.integer(spec, "failedJobsHistoryLimit", default=1), 0),
        "created_s": int(raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp"))),
        "last_s": int(raw.epoch_s(raw.text(status, "lastScheduleTime"))),
        "missed_s": int(raw.epoch_s(raw.text(status, "lastMissedTime"))),
        "since_s": since(obj, now_s),
    }
    try:
        times = schedule.parse(raw.text(spec, "schedule"))
    except BadSchedule as bad:
        return Recurrence(None, reason=INVALID, problem=f"spec.schedule: {bad}", **fields)
    try:
        zone = schedule.zone_of(raw.text(spec, "timeZone"))
    except BadSchedule as bad:
        return Recurrence(None, reason=UNKNOWN_ZONE, problem=f"spec.timeZone: {bad}", **fields)
    return Recurrence(times, zone=zone, **fields)


def times(obj: Obj) -> str:
    """The fields that say which times get a run, as the status records them."""
    spec = raw.mapping(obj, "spec")
    zone = raw.text(spec, "timeZone") or "UTC"
    deadline = raw.at(spec, "startingDeadlineSeconds")
    within = f" within {deadline} s" if type(deadline) is int else ""
    return f"{raw.text(spec, 'schedule')} {zone}{within}"[:SHORT_MAX]


def since(obj: Obj, now_s: float) -> int:
    """When these fields were last edited, in epoch seconds: no run begins for an earlier time. 0
    for never.

    The host records the moment of an edit. An edit that the status has seen stays recorded there.
    """
    status = raw.mapping(obj, "status")
    noted, generation = (
        raw.text(status, "observedTimes"),
        raw.integer(obj, "metadata", "generation"),
    )
    if noted == times(obj):
        return int(raw.epoch_s(raw.text(status, "timesSince")))
    is_unedited = raw.integer(status, "observedGeneration") == generation or generation <= 1
    if not noted and is_unedited:
        return 0  # new, or last written about by an earlier version
    return min(_written(obj) or int(now_s), int(now_s))


def _written(obj: Obj) -> int:
    """When its spec was last written; 0 where the object does not say."""
    return max(
        (
            int(raw.epoch_s(raw.text(entry, "time")))
            for entry in raw.objects(obj, "metadata", "managedFields")
            if not raw.text(entry, "subresource") and "f:spec" in raw.mapping(entry, "fieldsV1")
        ),
        default=0,
    )


def is_native(obj: Obj) -> bool:
    return raw.text(obj, "spec", "runs") == NATIVE


def run_name(name: str, due_s: int) -> str:
    """The cron job's name and the minute that is due, in UTC: the hub of any life makes the
    same.
    """
    return f"{name}-{datetime.fromtimestamp(due_s, UTC).strftime(_STAMP)}"


def due_of(run: str) -> int:
    """The scheduled time in the name of a run; 0 for a name that has none."""
    match = _SUFFIX.fullmatch(run[-13:])
    try:
        return (
            int(datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC).timestamp()) if match else 0
        )
    except (ValueError, OverflowError):
        return 0


def read_run(obj: Obj) -> Run:
    meta = raw.mapping(obj, "metadata")
    failed, complete = raw.condition(obj, "Failed"), raw.condition(obj, "Complete")
    ended = next(
        (condition for condition in (failed, complete) if condition.get("status") == "True"), None
    )
    return Run(
        name=raw.text(meta, "name"),
        uid=raw.text(meta, "uid"),
        owner_uid=owner_uid(meta),
        due_s=_due(meta),
        deleting="deletionTimestamp" in meta,
        finished=ended is not None,
        failed=ended is failed,
        finished_s=int(raw.epoch_s(raw.text(ended, "lastTransitionTime")))
        if ended is not None
        else 0,
    )


def _due(meta: Obj) -> int:
    """By the name, which nobody can change; its seconds by the annotation, where that is about the
    same minute.
    """
    named_s = due_of(raw.text(meta, "name"))
    noted_s = int(raw.epoch_s(raw.text(meta, "annotations", schema.SCHEDULED_ANNOTATION)))
    return noted_s if noted_s - noted_s % 60 == named_s else named_s


def render_run(obj: Obj, due_s: int) -> dict[str, Any]:
    """The job set of one scheduled time. Whatever marks objects as the federation's own is left out
    of the template's labels and annotations: the hub writes it, and nobody may write as the hub.
    """
    meta, template = raw.mapping(obj, "metadata"), raw.mapping(obj, "spec", "jobTemplate")
    name = raw.text(meta, "name")
    labels, annotations = marks(obj)
    annotations[schema.SCHEDULED_ANNOTATION] = raw.second(due_s)
    spec = {
        field: value for field, value in raw.mapping(template, "spec").items() if field != "slice"
    }
    metadata = {
        "name": run_name(name, due_s),
        "namespace": raw.text(meta, "namespace"),
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner(obj)],
    }
    return {
        "apiVersion": workloads.API_VERSION,
        "kind": jobset.KIND,
        "metadata": metadata,
        "spec": spec,
    }


def marks(obj: Obj) -> tuple[dict[str, str], dict[str, str]]:
    """(labels, annotations) of what is made for it."""
    template = raw.mapping(obj, "spec", "jobTemplate")
    labels = _allowed(raw.text_map(template, "metadata", "labels"))
    labels[schema.RUN_LABEL] = raw.text(obj, "metadata", "name")
    return labels, _allowed(raw.text_map(template, "metadata", "annotations"))


def owner(obj: Obj) -> dict[str, Any]:
    """The reference by which it controls what is made for it."""
    return {
        "apiVersion": workloads.API_VERSION,
        "kind": schema.KIND,
        "name": raw.text(obj, "metadata", "name"),
        "uid": raw.text(obj, "metadata", "uid"),
        "controller": True,
        "blockOwnerDeletion": False,
    }


def owner_uid(meta: Obj) -> str:
    """The uid of the cron job that controls an object; "" for none."""
    for reference in raw.objects(meta, "ownerReferences"):
        if reference.get("controller") is True:
            return raw.text(reference, "uid") if reference.get("kind") == schema.KIND else ""
    return ""


def _allowed(entries: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in entries.items()
        if not name.startswith(f"{names.FEDERATION}/")
    }
