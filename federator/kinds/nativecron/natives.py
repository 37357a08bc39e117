"""PinterestNativeCronJob -> ServiceAccount, ConfigMap, a ConfigMap of the shards' files, CronJob.

The runs are what a PinterestJobSet of the same spec would become in one cluster: an Indexed Job.
Its containers find their shard as SHARD_BASE + JOB_COMPLETION_INDEX. What the hub decides for a job
set (when it is complete, how many failures are too many) the Job decides here by itself.
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives
from federator.kinds.jobset import ask as jobset
from federator.kinds.jobset import natives as jobs
from federator.kinds.jobset import shardparts
from federator.kinds.nativecron import rulings
from federator.kinds.nativecron.schema import SELECTOR_LABEL
from federator.kinds.shared import parts, workloads
from federator.model.errors import FieldError

COMPONENT: Final = "cronjob"


def expand(obj: Obj, profile: Obj | None) -> tuple[dict[str, Any], ...]:
    """The native objects of one slice, those that others need first. Raises FieldError as injection
    does.
    """
    if (problem := rulings.refusal(obj)) is not None:
        raise problem
    mark, count = workloads.read_mark(obj), jobset.count(obj)
    every = (0, count - 1)
    shardparts.check_size(obj, (every,), count)
    return (
        *parts.service_account(obj, mark, COMPONENT),
        *parts.config_map(obj, mark, COMPONENT),
        *shardparts.files(obj, mark, COMPONENT, parts.name_of(obj), every, count),
        _cron_job(obj, profile),
    )


def _cron_job(obj: Obj, profile: Obj | None) -> dict[str, Any]:
    name, times = parts.name_of(obj), raw.mapping(obj, "spec", "cron")
    selector = {SELECTOR_LABEL: name}
    meta = parts.metadata(obj, workloads.read_mark(obj), name, COMPONENT)
    meta["labels"] |= selector
    labels = dict(meta["labels"])
    made_from = jobs.template(obj, profile, selector)
    every = (0, jobset.count(obj) - 1)
    job = jobs.job_spec(obj, made_from, every, jobset.slots(obj), files=name) | _end(obj)
    spec: dict[str, Any] = {
        "schedule": raw.text(times, "schedule"),
        "concurrencyPolicy": raw.text(times, "concurrencyPolicy", default="Forbid"),
        "suspend": raw.flag(times, "suspend"),
        "successfulJobsHistoryLimit": raw.integer(times, "successfulJobsHistoryLimit", default=3),
        "failedJobsHistoryLimit": raw.integer(times, "failedJobsHistoryLimit", default=1),
        "jobTemplate": {"metadata": {"labels": labels}, "spec": job},
    }
    if zone := raw.text(times, "timeZone"):
        spec["timeZone"] = zone
    if "startingDeadlineSeconds" in times:
        spec["startingDeadlineSeconds"] = raw.integer(times, "startingDeadlineSeconds")
    return natives.made("CronJob", meta, spec)


def _end(obj: Obj) -> dict[str, Any]:
    """The fields of a Job that say when a run is over."""
    fields: dict[str, Any] = {}
    if (most := jobset.bound(obj, "failurePolicy", "maxFailedShards")) is not None:
        fields["maxFailedIndexes"] = most
    if (ttl_s := jobset.bound(obj, "ttlSecondsAfterFinished")) is not None:
        fields["ttlSecondsAfterFinished"] = ttl_s
    completion = raw.text(obj, "spec", "completion")
    if completion == "Any":
        fields["successPolicy"] = {"rules": [{"succeededCount": 1}]}
    elif completion == "SuccessPolicy":
        policy = raw.mapping(obj, "spec", "successPolicy")
        rule: dict[str, Any] = {}
        if named := raw.text(policy, "succeededShards"):
            rule["succeededIndexes"] = named
        if "succeededCount" in policy:
            rule["succeededCount"] = raw.integer(policy, "succeededCount")
        if not rule:
            raise FieldError("spec.successPolicy", "needs succeededCount or succeededShards")
        fields["successPolicy"] = {"rules": [rule]}
    return fields
