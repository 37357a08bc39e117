"""What a PinterestNativeCronJob asks of placement, and the slice of it that a cluster is given.

Its copies are the pods of one run, as many as run at once: a cluster may begin a run at any moment
without asking, so what a run takes is placed and charged in each cluster all the time.
"""

from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.jobset import ask as jobset
from federator.kinds.nativecron import rulings
from federator.kinds.nativecron.schema import KIND
from federator.kinds.shared import workloads
from federator.kinds.verbs import SliceMark
from federator.model.ask import ANY_NUMBER
from federator.model.decision import Share
from federator.model.errors import FieldError


def count(obj: Obj) -> int:
    """Pods of one run that may run at once; of a slice, those of its cluster."""
    return jobset.slots(obj)


def max_unavailable(obj: Obj) -> int:
    return ANY_NUMBER


def refusal(obj: Obj) -> FieldError | None:
    return jobset.refusal(obj) or rulings.refusal(obj)


def after(obj: Obj) -> int:
    """Up to when others have run what was due, in seconds since 1970: until the handover, and in a
    slice until its cluster was given its share; 0 where nobody has handed it over.
    """
    times = raw.text(obj, "spec", "cron", "after"), raw.text(obj, "spec", "slice", "ranUntil")
    return int(max(map(raw.epoch_s, times)))


def last(status: Obj) -> int:
    """The newest scheduled time that any cluster has run by the host's status, in seconds since
    1970; 0 for none.
    """
    return int(raw.epoch_s(raw.text(status, "lastScheduleTime")))


def due_of(job: str) -> int:
    """The scheduled time in the name of a native Job, in seconds since 1970; 0 for a name without
    one.
    """
    minutes = job.rpartition("-")[2]
    numbered = minutes.isascii() and minutes.isdecimal() and len(minutes) < 10
    return int(minutes) * 60 if numbered else 0


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    spec = workloads.slice_spec(obj, mark, jobset.DEFAULTS)
    spec["shards"] = jobset.count(obj)
    spec["parallelism"] = share.count
    times = {
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    spec["cron"] = {**times, **raw.mapping(obj, "spec", "cron")}
    return workloads.rendered(KIND, obj, mark, spec)
