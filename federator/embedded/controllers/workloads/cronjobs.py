"""The CronJob stand-in: a Job for each time that the schedule is due, history limits, suspension.

Follows the Kubernetes CronJob controller 1.37: of the times since the last one only the newest gets
a Job, named after its minute, and `status.lastScheduleTime` is where the next look begins. One
status write per turn and CronJob.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.catalogue import natives
from federator.embedded.controllers import events
from federator.embedded.controllers.keyed import Keyed
from federator.embedded.controllers.tools import (
    Key,
    Tools,
    condition,
    controller_of,
    owner_reference,
)
from federator.embedded.controllers.workloads import jobs
from federator.embedded.schema import defaults
from federator.embedded.schema.pruning import copy_json
from federator.embedded.storage import refusals
from federator.embedded.storage.revisions import DELETED, Event, JsonObject
from federator.kube import clock as clocks
from federator.model import schedule
from federator.model.schedule import BadSchedule

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
LATE_S: Final = 0.1
"""So much after its time a run is looked for, as by the controller of Kubernetes."""


class CronJobs(Keyed):
    """One controller for all CronJobs of a cluster."""

    COMPONENT = "cronjob-controller"

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools, tools.kinds.cronjobs)
        self._jobs = tools.kinds.jobs
        self._children: dict[str, dict[Key, None]] = {}
        """Jobs by the uid of the CronJob that controls them, in the order of their making."""

    def notice(self, event: Event) -> None:
        if event.resource is self._resource:
            self._dirty.add(event.key)
            return
        owner = controller_of(event.current.obj)
        if owner is None or owner.get("kind") != "CronJob":
            return
        children = self._children.setdefault(owner["uid"], {})
        if event.type is DELETED:
            children.pop(event.key, None)
            if not children:
                del self._children[owner["uid"]]
        else:
            children[event.key] = None
        self._dirty.add((event.key[0], owner["name"]))

    def _sync(self, key: Key, cron: JsonObject) -> Iterator[None]:
        status = dict(cron.get("status") or {})
        status["active"] = list(status.get("active") or ())
        children = self._own(cron)
        self._account(cron, status, children)
        if "deletionTimestamp" not in cron["metadata"] and not cron["spec"].get("suspend"):
            self._run(key, cron, status)
        self._clean(cron, children)
        if not status["active"]:
            del status["active"]
        current = self._tools.get(self._resource, key)
        if current is not None and current["metadata"]["uid"] == cron["metadata"]["uid"]:
            self._tools.set_status(self._resource, current, status)
        yield

    def _own(self, cron: JsonObject) -> list[JsonObject]:
        keys = self._children.get(cron["metadata"]["uid"], {})
        return [job for key in keys if (job := self._tools.get(self._jobs, key)) is not None]

    def _account(
        self, cron: JsonObject, status: dict[str, Any], children: list[JsonObject]
    ) -> None:
        """Which runs are active, and when one last succeeded."""
        by_uid = {job["metadata"]["uid"]: job for job in children}
        kept = []
        for reference in status["active"]:
            job = by_uid.get(reference["uid"])
            if job is not None and not jobs.finished(job):
                kept.append(reference)
                continue
            name = reference["name"]
            gone = f"Active job went missing: {name}", "MissingJob"
            text, reason = (f"Saw completed job: {name}", "SawCompletedJob") if job else gone
            self._say(cron, reason, text)
        status["active"] = kept
        done = [
            (job.get("status") or {}).get("completionTime", "")
            for job in children
            if _ended(job) == "Complete"
        ]
        if newest := max([*done, status.get("lastSuccessfulTime", "")]):
            status["lastSuccessfulTime"] = newest

    def _run(self, key: Key, cron: JsonObject, status: dict[str, Any]) -> None:
        spec, now_s = cron["spec"], int(self._tools.clock.now())
        try:
            zone = schedule.zone_of(spec.get("timeZone") or "")
        except BadSchedule as bad:
            self._say(cron, "UnknownTimeZone", str(bad), warning=True)
            return
        try:
            times = schedule.parse(spec["schedule"])
        except BadSchedule as bad:
            self._say(cron, "UnparseableSchedule", str(bad), warning=True)
            return
        last = status.get("lastScheduleTime")
        since_s = int(clocks.parse(last or cron["metadata"]["creationTimestamp"]))
        deadline_s = spec.get("startingDeadlineSeconds")
        from_s = since_s if deadline_s is None else max(since_s, now_s - deadline_s)
        due_s = times.latest(from_s, now_s, zone) if from_s < now_s else None
        next_s = times.after(max(now_s, since_s), zone)
        if next_s is not None:
            wait_s = next_s - self._tools.clock.now() + LATE_S
            self._tools.agenda.after(wait_s, self._dirty.add, key)
        if due_s is None:
            return
        name = f"{key[1]}-{due_s // 60}"
        if any(entry["name"] == name for entry in status["active"]):
            return
        policy = spec.get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and status["active"]:
            text = "Not starting job because prior execution is running and policy is Forbid"
            self._say(cron, "JobAlreadyActive", text)
            return
        if policy == "Replace":
            self._replace(cron, status)
        self._begin(cron, status, name, due_s)

    def _replace(self, cron: JsonObject, status: dict[str, Any]) -> None:
        for reference in status["active"]:
            job = self._tools.get(self._jobs, (reference["namespace"], reference["name"]))
            if job is not None and job["metadata"]["uid"] == reference["uid"]:
                self._tools.delete(self._jobs, job)
                text = f"Deleted job {reference['name']}"
                self._say(cron, "SuccessfulDelete", text)
        status["active"] = []

    def _begin(self, cron: JsonObject, status: dict[str, Any], name: str, due_s: int) -> None:
        namespace, stamp = cron["metadata"]["namespace"], clocks.stamp(due_s)
        existing = self._tools.get(self._jobs, (namespace, name))
        if existing is not None:
            owner = controller_of(existing)
            if owner is None or owner["uid"] != cron["metadata"]["uid"]:
                return
            job = existing
        else:
            job = self._job(cron, name, stamp)
            try:
                job = self._tools.store.create(self._jobs, job).obj
            except refusals.Refusal as why:
                text = f"Error creating job: {why.message}"
                self._say(cron, "FailedCreate", text, warning=True)
                return
            self._say(cron, "SuccessfulCreate", f"Created job {name}")
        if not jobs.finished(job):
            status["active"] = [*status["active"], events.reference(job)]
        status["lastScheduleTime"] = stamp

    def _job(self, cron: JsonObject, name: str, stamp: str) -> JsonObject:
        """As the API server stores it."""
        template = cron["spec"]["jobTemplate"]
        given = template.get("metadata") or {}
        uid = self._tools.store.new_uid()
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": cron["metadata"]["namespace"],
            "uid": uid,
            "annotations": {**(given.get("annotations") or {}), SCHEDULED: stamp},
            "ownerReferences": [owner_reference(self._resource, cron)],
        }
        if given.get("labels"):
            metadata["labels"] = dict(given["labels"])
        job: dict[str, Any] = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": copy_json(template["spec"]),
        }
        defaults.fill(job, self._jobs)
        natives.prepare_create(job, self._jobs, uid=uid)
        return job

    def _clean(self, cron: JsonObject, children: list[JsonObject]) -> None:
        """Deletes the oldest ended runs beyond the history limits."""
        spec = cron["spec"]
        limits = {"Complete": spec.get("successfulJobsHistoryLimit", 3)}
        limits["Failed"] = spec.get("failedJobsHistoryLimit", 1)
        for ended, keep in limits.items():
            over = [job for job in children if _ended(job) == ended]
            over.sort(key=lambda job: (job["metadata"]["creationTimestamp"], _name(job)))
            for job in over[: max(len(over) - keep, 0)]:
                self._tools.delete(self._jobs, job)


def _ended(job: JsonObject) -> str:
    """Complete, Failed, or "" for one that goes on."""
    conditions = (job.get("status") or {}).get("conditions")
    for ended in ("Complete", "Failed"):
        have = condition(conditions, ended)
        if have is not None and have["status"] == "True":
            return ended
    return ""


def _name(job: JsonObject) -> str:
    return str(job["metadata"]["name"])
