"""The Job stand-in: Indexed and NonIndexed Jobs, back-off, failure and success policies,
suspension, time to live.

Follows the Kubernetes job controller 1.37: conditions SuccessCriteriaMet -> Complete and
FailureTarget -> Failed, counts once per pod, at most `parallelism` pods. One status write per turn
and Job.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.controllers.keyed import PodOwner
from federator.embedded.controllers.pods import Group, Pod, PodIndex
from federator.embedded.controllers.tools import Key, Tools, condition, stated
from federator.embedded.controllers.workloads import job_rules
from federator.embedded.controllers.workloads.job_state import (
    INDEX_LABEL,
    UNLIMITED,
    JobState,
    index_of,
)
from federator.embedded.controllers.workloads.replicasets import least_needed
from federator.embedded.storage.revisions import JsonObject
from federator.kube import clock as clocks

_TERMINAL: Final = ("Complete", "Failed")
_INDEX_ENV: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {
        "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX_LABEL}']"}
    },
}


class Jobs(PodOwner):
    """One controller for all Jobs of a cluster."""

    COMPONENT = "job-controller"

    def __init__(self, tools: Tools, pods: PodIndex) -> None:
        super().__init__(tools, tools.kinds.jobs, pods, first_s=1.0, most_s=60.0)
        self._states: dict[str, JobState] = {}
        self._ended: dict[str, dict[str, tuple[Pod, bool]]] = {}
        self._indexed_specs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or pod.owner is None or (key := self._owner_of(pod)) is None:
            return
        state = self._states.get(pod.owner[1])
        if state is not None:
            state.follow(old, new)
        if new is None or pod.finished or pod.deleting:
            self._ended.setdefault(pod.owner[1], {})[pod.uid] = (pod, new is None)
        self._dirty.add(key)

    def _forget(self, key: Key, uid: str) -> None:
        super()._forget(key, uid)
        self._end(uid)

    def _end(self, uid: str) -> None:
        self._states.pop(uid, None)
        self._ended.pop(uid, None)
        self._indexed_specs.pop(uid, None)
        self._moulds.forget(uid)

    def _sync(self, key: Key, job: JsonObject) -> Iterator[None]:
        uid = job["metadata"]["uid"]
        if finished(job):
            self._end(uid)
            self._expire(key, job)
            return
        group = self._pods.group(uid)
        state = self._states.get(uid)
        if state is None:
            state = self._states[uid] = JobState(job, group)
        state.resize(job)
        now = self._tools.clock.now()
        for pod, gone in self._ended.pop(uid, {}).values():
            state.count(job, pod, now, gone=gone)
        status = self._status(job, state)
        ending = self._judge(key, job, state, status, now)
        if ending is not None:
            yield from self._stop_pods(job, group, state, dismiss=False)
        elif "deletionTimestamp" not in job["metadata"]:
            yield from self._manage(key, job, state)
            ending = self._completion(job, state)
        group = self._pods.group(uid)
        self._conclude(job, group, status, ending)
        current = self._tools.get(self._resource, key)
        if current is not None and current["metadata"]["uid"] == uid:
            self._count_into(current, state, group, status)
            self._tools.set_status(self._resource, current, status)
        yield

    # What the Job should come to

    def _status(self, job: JsonObject, state: JobState) -> dict[str, Any]:
        status = dict(job.get("status") or {})
        status["conditions"] = list(status.get("conditions") or ())
        suspended = bool(job["spec"].get("suspend"))
        have = condition(status["conditions"], "Suspended")
        now = self._tools.now()
        if suspended and (have is None or have["status"] != "True"):
            _put(status, ("Suspended", "True", "JobSuspended", "Job suspended"), now)
            self._say(job, "Suspended", "Job suspended")
            status.pop("startTime", None)
        elif not suspended and have is not None and have["status"] == "True":
            _put(status, ("Suspended", "False", "JobResumed", "Job resumed"), now)
            self._say(job, "Resumed", "Job resumed")
            status["startTime"] = now
        if not suspended:
            status.setdefault("startTime", now)
        return status

    def _judge(
        self, key: Key, job: JsonObject, state: JobState, status: dict[str, Any], now: float
    ) -> tuple[str, str, str] | None:
        """(condition type, reason, message) when the Job is to end, in the order a real controller
        looks."""
        for type_ in ("SuccessCriteriaMet", "FailureTarget"):
            have = condition(status["conditions"], type_)
            if have is not None and have["status"] == "True":
                return type_, have.get("reason", ""), have.get("message", "")
        spec = job["spec"]
        if state.fail_message:
            return "FailureTarget", "PodFailurePolicy", state.fail_message
        limit = spec.get("backoffLimit", UNLIMITED if state.per_index is not None else 6)
        if state.failed > limit or self._restarts_exceed(job, limit):
            text = "Job has reached the specified backoff limit"
            return "FailureTarget", "BackoffLimitExceeded", text
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and not spec.get("suspend"):
            left = clocks.parse(status["startTime"]) + deadline - now
            if left <= 0:
                text = "Job was active longer than specified deadline"
                return "FailureTarget", "DeadlineExceeded", text
            self._tools.agenda.after(left, self._dirty.add, key)
        if state.indexed and state.per_index is not None:
            most, failed = spec.get("maxFailedIndexes"), state.failed_indexes.total
            if most is not None and failed > most:
                text = "Job has exceeded the specified maximal number of failed indexes"
                return "FailureTarget", "MaxFailedIndexesExceeded", text
            if failed and failed + state.completed.total >= spec["completions"]:
                return "FailureTarget", "FailedIndexes", "Job has failed indexes"
        if state.indexed and spec.get("successPolicy"):
            message = job_rules.success_rule(job, state.completed)
            if message:
                return "SuccessCriteriaMet", "SuccessPolicy", message
        return None

    def _restarts_exceed(self, job: JsonObject, limit: int) -> bool:
        if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = 0
        for pod in self._pods.group(job["metadata"]["uid"]).pods.values():
            if not pod.finished:
                for field in ("containerStatuses", "initContainerStatuses"):
                    restarts += sum(
                        status["restartCount"] for status in pod.status.get(field) or ()
                    )
        return restarts >= limit if limit else restarts > 0

    def _completion(self, job: JsonObject, state: JobState) -> tuple[str, str, str] | None:
        succeeded, wanted = _succeeded(state), job["spec"].get("completions")
        if self._pods.group(job["metadata"]["uid"]).active:
            return None
        if succeeded >= wanted if wanted is not None else succeeded > 0:
            text = "Reached expected number of succeeded pods"
            return "SuccessCriteriaMet", "CompletionsReached", text
        return None

    def _conclude(
        self,
        job: JsonObject,
        group: Group,
        status: dict[str, Any],
        ending: tuple[str, str, str] | None,
    ) -> None:
        """Puts the interim condition, and the final one as soon as no pod runs any more."""
        if ending is None:
            return
        type_, reason, message = ending
        now = self._tools.now()
        _put(status, (type_, "True", reason, message), now)
        if group.active or group.terminating:
            return
        if type_ == "SuccessCriteriaMet":
            _put(status, ("Complete", "True", reason, message), now)
            status["completionTime"] = now
            self._say(job, "Completed", "Job completed")
        else:
            _put(status, ("Failed", "True", reason, message), now)
            self._say(job, reason, message, warning=True)

    def _count_into(
        self, job: JsonObject, state: JobState, group: Group, status: dict[str, Any]
    ) -> None:
        counts = {"active": group.active, "succeeded": _succeeded(state), "failed": state.failed}
        for name, count in counts.items():
            if count:
                status[name] = count
            else:
                status.pop(name, None)
        status["ready"] = group.ready
        status["terminating"] = group.terminating
        status["uncountedTerminatedPods"] = {}
        if state.indexed and state.completed.total:
            status["completedIndexes"] = str(state.completed)
        else:
            status.pop("completedIndexes", None)
        if state.indexed and state.per_index is not None:
            status["failedIndexes"] = str(state.failed_indexes)
        if not status["conditions"]:
            del status["conditions"]

    # Pods

    def _manage(self, key: Key, job: JsonObject, state: JobState) -> Iterator[None]:
        uid, created = job["metadata"]["uid"], 0
        while True:
            current = self._tools.get(self._resource, key)
            if (
                current is None
                or current["metadata"]["uid"] != uid
                or "deletionTimestamp" in current["metadata"]
            ):
                return
            group = self._pods.group(uid)
            if current["spec"].get("suspend"):
                yield from self._stop_pods(current, group, state, dismiss=True)
                return
            wanted = _wanted_active(current, state, group)
            if excess := _excess(current, state, group, group.active - wanted):
                for pod in excess:
                    self._dismiss(current, pod, state)
                    yield
                return
            going = group.terminating if state.replaces_failed_only else 0
            if group.active + going >= wanted:
                return
            if not self._create_one(key, current, state, quiet=created >= 10):
                return
            created += 1
            yield

    def _create_one(self, key: Key, job: JsonObject, state: JobState, *, quiet: bool) -> bool:
        """Creates a pod if its back-off is over; else asks to be called again."""
        now = self._tools.clock.now()
        index: int | None = None
        if state.per_index is None:
            wait = state.last_failure + job_rules.backoff_s(state.failures_in_row) - now
            if state.failures_in_row and wait > 0:
                self._tools.agenda.after(wait, self._dirty.add, key)
                return False
        if state.indexed:
            index, wait_s = state.next_index(job, now)
            if index is None:
                if wait_s is not None:
                    self._tools.agenda.after(wait_s, self._dirty.add, key)
                return False
        base = key[1] if index is None else f"{key[1]}-{index}"
        name = f"{base[:57]}-{self._tools.suffix()}"
        while (key[0], name) in self._pods.by_key:
            name = f"{base[:57]}-{self._tools.suffix()}"
        mould = self._moulds.of(job)
        if why := mould.refusal(name):
            state.give_back(index)
            self._refused(key, job, f"Error creating: {why}")
            return False
        self._backoff.forget(key)
        if index is None:
            pod = mould.pod(name, generate_name=base + "-")
        else:
            spec = {**self._with_index_env(job, mould.spec), "hostname": base}
            annotations = state.annotations(job, index)
            labels = {INDEX_LABEL: str(index)}
            pod = mould.pod(
                name, generate_name=base + "-", labels=labels, annotations=annotations, spec=spec
            )
        self._tools.store.create(self._tools.kinds.pods, pod)
        if not quiet:
            self._say(job, "SuccessfulCreate", f"Created pod: {name}")
        return True

    def _with_index_env(self, job: JsonObject, spec: dict[str, Any]) -> dict[str, Any]:
        """The container lists with JOB_COMPLETION_INDEX, made once per Job and shared by its
        pods."""
        uid = job["metadata"]["uid"]
        cached = self._indexed_specs.get(uid)
        if cached is not None and cached[0] is spec:
            return cached[1]
        out = {}
        for field in ("containers", "initContainers"):
            if spec.get(field):
                out[field] = [{**container, "env": _env(container)} for container in spec[field]]
        self._indexed_specs[uid] = (spec, out)
        return out

    def _stop_pods(
        self, job: JsonObject, group: Group, state: JobState, *, dismiss: bool
    ) -> Iterator[None]:
        for pod in [pod for pod in group.pods.values() if pod.active]:
            if dismiss:
                self._dismiss(job, pod, state)
            else:
                self._tools.delete(self._tools.kinds.pods, pod.obj)
            yield

    def _dismiss(self, job: JsonObject, pod: Pod, state: JobState) -> None:
        state.dismissed.add(pod.uid)
        self._tools.delete(self._tools.kinds.pods, pod.obj)
        self._say(job, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    def _expire(self, key: Key, job: JsonObject) -> None:
        """Deletes a finished Job when its time to live is over."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in job["metadata"]:
            return
        ended = next(
            c
            for c in job["status"]["conditions"]
            if c["type"] in _TERMINAL and c["status"] == "True"
        )
        left = clocks.parse(ended["lastTransitionTime"]) + ttl - self._tools.clock.now()
        if left > 0:
            self._tools.agenda.after(left, self._dirty.add, key)
            return
        keep = [
            name for name in job["metadata"].get("finalizers") or () if name != "foregroundDeletion"
        ]
        self._tools.delete(self._resource, job, finalizers=[*keep, "foregroundDeletion"])


def finished(job: JsonObject) -> bool:
    """Whether a Job is Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(entry["type"] in _TERMINAL and entry["status"] == "True" for entry in conditions)


def _succeeded(state: JobState) -> int:
    return state.completed.total if state.indexed else state.succeeded


def _wanted_active(job: JsonObject, state: JobState, group: Group) -> int:
    parallelism = job["spec"].get("parallelism", 1)
    completions = job["spec"].get("completions")
    if completions is None:
        return group.active if state.succeeded else int(parallelism)
    return max(0, min(int(parallelism), int(completions) - _succeeded(state)))


def _excess(job: JsonObject, state: JobState, group: Group, count: int) -> list[Pod]:
    """The pods that go: those of indexes that are not wanted any more in any case, then others up
    to `count`."""
    wanted = int(job["spec"].get("completions") or 0)
    active = [pod for pod in group.pods.values() if pod.active] if state.indexed else []
    beyond = [pod for pod in active if (index := index_of(pod)) is not None and index >= wanted]
    others = count - len(beyond)
    return beyond + (
        least_needed(group, others, but={pod.name for pod in beyond}) if others > 0 else []
    )


def _env(container: dict[str, Any]) -> list[dict[str, Any]]:
    have = list(container.get("env") or ())
    return (
        have if any(entry["name"] == _INDEX_ENV["name"] for entry in have) else [*have, _INDEX_ENV]
    )


def _put(status: dict[str, Any], row: tuple[str, str, str, str], now: str) -> None:
    type_, value = row[:2]
    have = condition(status["conditions"], type_)
    if have is not None and have["status"] == value:
        return
    others = [entry for entry in status["conditions"] if entry["type"] != type_]
    status["conditions"] = [*others, stated(None, row, now, lastProbeTime=now)]
