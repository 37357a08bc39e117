"""What the Job stand-in remembers of one running Job between two looks: counts, indexes, back-off.

Made from status when a Job is first seen, then fed with the pods that ended. Real controllers count
through pod finalizers; here counting happens in the same process as the ending, so the pods carry
none, and a fresh start counts the pods that still exist.
"""

import heapq
from typing import Final

from federator.embedded.controllers.kubelet.behaviour import (
    ATTEMPT_ANNOTATION,
    INDEX_ANNOTATION,
    PREFIX,
)
from federator.embedded.controllers.pods import Group, Pod
from federator.embedded.controllers.workloads import job_rules
from federator.embedded.controllers.workloads.job_rules import Indexes
from federator.embedded.storage.revisions import JsonObject

INDEX_LABEL: Final = INDEX_ANNOTATION
FAILURES_ANNOTATION: Final = "batch.kubernetes.io/job-index-failure-count"
UNLIMITED: Final = 2**31 - 1


class JobState:
    """One unfinished Job."""

    def __init__(self, job: JsonObject, group: Group) -> None:
        spec, status = job["spec"], job.get("status") or {}
        completions = spec.get("completions")
        self.indexed = spec.get("completionMode") == "Indexed"
        self.per_index: int | None = spec.get("backoffLimitPerIndex")
        self.replaces_failed_only = replaces_failed_only(job)
        self.completions = completions
        self.completed = Indexes(status.get("completedIndexes") or "", completions)
        self.failed_indexes = Indexes(status.get("failedIndexes") or "", completions)
        self.succeeded = 0
        self.failed = 0
        self.counted: set[str] = set()
        """Uids of ended pods that are in the counts."""
        self.dismissed: set[str] = set()
        """Uids of pods that this controller deleted: their end is no failure."""
        self.busy: dict[int, set[str]] = {}
        """Names of the pods that hold each index."""
        self.attempts: dict[int, int] = {}
        self.index_failures: dict[int, int] = {}
        """Failures that count against backoffLimitPerIndex."""
        self.not_before: dict[int, float] = {}
        self.failures_in_row = 0
        self.last_failure = 0.0
        self.fail_message = ""
        self._heap: list[int] = []
        self._known_to = 0
        for pod in group.pods.values():
            self.follow(None, pod)
            self.count(job, pod, 0.0)
        self.failures_in_row = 0
        self.not_before.clear()
        # Ended pods that were deleted before this start are in the status only.
        self.failed = max(self.failed, status.get("failed", 0))
        self.succeeded = max(self.succeeded, status.get("succeeded", 0))

    def resize(self, job: JsonObject) -> None:
        """Follows an elastic Job to another number of indexes: what those beyond it did counts no
        more."""
        completions = job["spec"].get("completions")
        if completions == self.completions:
            return
        self.completions = completions
        self.completed = Indexes(str(self.completed), completions)
        self.failed_indexes = Indexes(str(self.failed_indexes), completions)
        self._heap, self._known_to = [], 0

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """Keeps `busy`: an index is free once its pod has ended, is gone or (by policy) going."""
        if not self.indexed:
            return
        for pod, holds in ((old, False), (new, True)):
            if pod is None:
                continue
            index = index_of(pod)
            if index is None:
                continue
            if holds and (
                pod.active or (pod.deleting and not pod.finished and self.replaces_failed_only)
            ):
                self.busy.setdefault(index, set()).add(pod.name)
            elif index in self.busy:
                self.busy[index].discard(pod.name)
                if not self.busy[index]:
                    del self.busy[index]
                    heapq.heappush(self._heap, index)

    def has_failed(self, pod: Pod, *, gone: bool) -> bool:
        """Whether this pod counts as failed now."""
        if pod.phase == "Failed":
            return True
        if pod.phase == "Succeeded" or not (pod.deleting or gone):
            return False
        return gone or not self.replaces_failed_only or pod.phase == "Pending"

    def count(self, job: JsonObject, pod: Pod, now: float, *, gone: bool = False) -> bool:
        """Counts a pod that has ended, once. Returns whether anything was counted."""
        if pod.uid in self.counted or pod.uid in self.dismissed:
            return False
        if pod.phase == "Succeeded":
            self.counted.add(pod.uid)
            self.failures_in_row = 0
            self.succeeded += 1
            index = index_of(pod)
            if self.indexed and index is not None and index < (job["spec"].get("completions") or 0):
                self.completed.add(index)
            return True
        if not self.has_failed(pod, gone=gone):
            return False
        self.counted.add(pod.uid)
        self._count_failure(job, pod, now)
        return True

    def _count_failure(self, job: JsonObject, pod: Pod, now: float) -> None:
        action, message = (
            job_rules.failure_action(job, pod.obj)
            if "podFailurePolicy" in job["spec"]
            else ("", "")
        )
        if action == "FailJob":
            self.fail_message = self.fail_message or message
        if action != "Ignore":
            self.failed += 1
            self.failures_in_row += 1
            self.last_failure = now
        index = index_of(pod)
        if not self.indexed or index is None:
            return
        self.attempts[index] = self.attempts.get(index, 0) + 1
        if self.per_index is None:
            return
        before = number(pod.annotations.get(FAILURES_ANNOTATION))
        self.index_failures[index] = before + (action != "Ignore")
        if action == "FailIndex" or (action != "Ignore" and before >= self.per_index):
            self.failed_indexes.add(index)
            return
        self.not_before[index] = now + job_rules.backoff_s(self.index_failures[index])

    def next_index(self, job: JsonObject, now: float) -> tuple[int | None, float | None]:
        """(the lowest free index that is not in back-off, else seconds until one is)."""
        completions = job["spec"].get("completions") or 0
        while self._known_to < completions:
            heapq.heappush(self._heap, self._known_to)
            self._known_to += 1
        waiting: list[int] = []
        soonest: float | None = None
        free: int | None = None
        while self._heap and free is None:
            index = heapq.heappop(self._heap)
            if (
                index in self.completed
                or index in self.failed_indexes
                or index in self.busy
                or index >= completions
            ):
                continue
            due = self.not_before.get(index, 0.0)
            if due > now:
                waiting.append(index)
                soonest = due - now if soonest is None else min(soonest, due - now)
            else:
                free = index
        for index in sorted(set(waiting)):
            heapq.heappush(self._heap, index)
        return free, (None if free is not None else soonest)

    def give_back(self, index: int | None) -> None:
        """No pod was made of the index that `next_index` gave."""
        if index is not None:
            heapq.heappush(self._heap, index)

    def annotations(self, job: JsonObject, index: int) -> dict[str, str]:
        """What the next pod of an index carries."""
        out = {INDEX_ANNOTATION: str(index)}
        if self.per_index is not None:
            out[FAILURES_ANNOTATION] = str(self.index_failures.get(index, 0))
        template = job["spec"]["template"].get("metadata") or {}
        if PREFIX + "fail-attempts" in (template.get("annotations") or {}):
            out[ATTEMPT_ANNOTATION] = str(self.attempts.get(index, 0))
        return out


def index_of(pod: Pod) -> int | None:
    text = pod.annotations.get(INDEX_ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def number(text: str | None) -> int:
    """A count in an annotation; 0 when it cannot be read."""
    return int(text) if text and text.isdecimal() else 0


def replaces_failed_only(job: JsonObject) -> bool:
    """podReplacementPolicy: Failed, which is also what a podFailurePolicy implies."""
    return (job["spec"].get("podReplacementPolicy") or "") == "Failed" or "podFailurePolicy" in job[
        "spec"
    ]
