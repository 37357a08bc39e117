"""The handover of the runs of a PinterestCronJob: the hub decides them, or its clusters by native
CronJobs.

While the clusters decide there is a PinterestNativeCronJob of the same name, and the moment in its
`spec.cron.after` divides the times: those up to it are the hub's, those after it the clusters'. It
is made once, with the moment at which the hub had looked at everything that was due before; while
runs of the hub are active, or one waits, it is held: clusters begin nothing. To take over again,
the hub holds it, and waits until each cluster has been heard to have stopped and its runs have
ended; then their newest time is recorded, the object goes, and only when it is gone does the hub
decide again, from that time on.
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.cronjob import ask
from federator.kinds.nativecron import schema as nativecron
from federator.kinds.recurring import Handover, Native
from federator.kinds.shared import workloads

SOURCE: Final = "pinterest.com/cronjob-source"
"""Annotation of the native object: what it was last written from."""
_HELD: Final = "held"


def read(obj: Obj) -> Native:
    """The native object as the host has it. Total."""
    meta, status = raw.mapping(obj, "metadata"), raw.mapping(obj, "status")
    ready, healthy = raw.condition(obj, "Ready"), raw.condition(obj, "Healthy")
    observed = raw.integer(status, "observedGeneration") >= raw.integer(meta, "generation")
    is_ready = observed and ready.get("status") == "True"
    trouble = (
        ready if not is_ready else healthy if healthy.get("status") == "False" else raw.NO_FIELDS
    )
    return Native(
        name=raw.text(meta, "name"),
        uid=raw.text(meta, "uid"),
        owner_uid=ask.owner_uid(meta),
        after_s=int(raw.epoch_s(raw.text(obj, "spec", "cron", "after"))),
        source=raw.text(meta, "annotations", SOURCE),
        deleting="deletionTimestamp" in meta,
        stopped=observed and raw.flag(status, "suspended"),
        active=raw.figure(status, "activeRuns"),
        last_s=int(raw.epoch_s(raw.text(status, "lastScheduleTime"))),
        done_s=int(raw.epoch_s(raw.text(status, "lastSuccessfulTime"))),
        clusters=raw.figure(status, "clusters"),
        ready=is_ready,
        reason=raw.word(trouble, "reason"),
        message=raw.sentence(trouble, "message"),
    )


def render(obj: Obj, after_s: int, held: bool) -> dict[str, Any]:
    """The native object of a cron job."""
    spec = raw.mapping(obj, "spec")
    run = raw.mapping(spec, "jobTemplate", "spec")
    stopped = held or raw.flag(spec, "suspend") or raw.flag(run, "suspend")
    times: dict[str, Any] = {
        "schedule": raw.text(spec, "schedule"),
        "concurrencyPolicy": raw.text(spec, "concurrencyPolicy", default="Forbid"),
        "suspend": stopped,
        "successfulJobsHistoryLimit": raw.integer(spec, "successfulJobsHistoryLimit", default=3),
        "failedJobsHistoryLimit": raw.integer(spec, "failedJobsHistoryLimit", default=1),
        "after": raw.second(after_s),
    }
    if zone := raw.text(spec, "timeZone"):
        times["timeZone"] = zone
    if "startingDeadlineSeconds" in spec:
        times["startingDeadlineSeconds"] = raw.integer(spec, "startingDeadlineSeconds")
    labels, annotations = ask.marks(obj)
    annotations[SOURCE] = source(obj, held)
    fields = {name: value for name, value in run.items() if name not in ("slice", "suspend")}
    return {
        "apiVersion": workloads.API_VERSION,
        "kind": nativecron.KIND,
        "metadata": {
            "name": raw.text(obj, "metadata", "name"),
            "namespace": raw.text(obj, "metadata", "namespace"),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [ask.owner(obj)],
        },
        "spec": {**fields, "cron": times},
    }


def source(obj: Obj, held: bool) -> str:
    """What the native object is written from, in a word: it changes with it."""
    generation = raw.integer(obj, "metadata", "generation")
    return f"{generation}-{_HELD}" if held else str(generation)


def judge(obj: Obj, native: Native | None, *, busy: bool, quiet: bool) -> tuple[Handover, bool]:
    """(what to do, whether clusters are held). `busy`: runs of the hub are active, or one waits.
    `quiet`: the hub has nothing to do about times that are due.
    """
    if native is None:
        makes = ask.is_native(obj) and quiet
        return (Handover.MAKE if makes else Handover.NOTHING), busy
    held = busy or not ask.is_native(obj)
    if native.deleting or native.owner_uid != raw.text(obj, "metadata", "uid"):
        return Handover.NOTHING, held
    if native.source != source(obj, held):
        return Handover.CHANGE, held
    if not ask.is_native(obj) and native.stopped and not native.active:
        return Handover.END, held
    return Handover.NOTHING, held
