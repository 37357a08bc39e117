"""The Jobs of a job set's slice: which shards they have finished, and which of the slice's shards
still need a Job.

Pure. A completed shard is never run again by us: when a Job has to be made anew, it is made only
for what is left.
"""

from collections.abc import Callable, Sequence
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.member.cache.rows import NativeRow
from federator.model import shards
from federator.model.ending import FAILURE_POLICY
from federator.model.shards import Range, Ranges
from federator.status import conditions

RUN_FAILED: Final = "RunFailed"
"""Why something that a cluster runs again and again is not healthy."""


def completed(job: NativeRow) -> Ranges:
    """The shards (not indexes) that the Job has completed."""
    return _indexes(job, "completedIndexes")


def failed(job: NativeRow) -> Ranges:
    """The shards that have failed for good: those it names, and all that are left when the Job as a
    whole has failed."""
    failed = _indexes(job, "failedIndexes")
    if job.shards is not None and conditions.is_true(raw.items(job.status, "conditions"), "Failed"):
        failed = shards.union(failed, shards.minus((job.shards,), completed(job)))
    return shards.minus(failed, completed(job))


def broken(job: NativeRow) -> str:
    """Which pod made the Job fail by a rule of its failure policy, as a sentence; "" for none."""
    failure = conditions.find(raw.items(job.status, "conditions"), "Failed") or raw.NO_FIELDS
    by_policy = failure.get("status") == "True" and failure.get("reason") == FAILURE_POLICY
    return raw.sentence(failure, "message") or FAILURE_POLICY if by_policy else ""


def stopping(job: NativeRow) -> bool:
    """Whether the Job has been told to stop, or has nothing left to run."""
    ended = any(
        conditions.is_true(raw.items(job.status, "conditions"), kind)
        for kind in ("Complete", "Failed")
    )
    return ended or raw.flag(job.spec, "suspend")


def lacks_pods(job: NativeRow) -> bool:
    """Whether the Job has fewer pods than it may run at once and has shards left for."""
    if stopping(job) or job.deleting:
        return False
    if job.shards is None:  # of a gang
        left = raw.figure(job.spec, "completions") - raw.figure(job.status, "succeeded")
    else:
        left = shards.size(shards.minus((job.shards,), shards.union(completed(job), failed(job))))
    return raw.integer(job.status, "active") < min(
        left, raw.integer(job.spec, "parallelism", default=left)
    )


def came_to_rest(old: NativeRow | None, new: NativeRow | None) -> bool:
    """Whether the last pod of a Job that is suspended has just gone: now it may be deleted."""
    if old is None or new is None or not raw.flag(new.spec, "suspend"):
        return False
    return raw.integer(old.status, "active") > 0 and not raw.integer(new.status, "active")


def was_told(old: NativeRow | None, new: NativeRow | None) -> bool:
    """Whether a CronJob that waited has just been told from which time on it runs."""
    if old is None or new is None or new.key[0] != "CronJob":
        return False
    return not raw.text(old.status, "lastScheduleTime") and "lastScheduleTime" in new.status


def shrinks_its_group(old: NativeRow | None, new: NativeRow | None) -> bool:
    """Whether pods of a Job have completed that its PodGroup must not wait for any more."""
    if old is None or new is None or not new.group:
        return False
    return raw.figure(old.status, "succeeded") != raw.figure(new.status, "succeeded")


def has_news(old: NativeRow | None, new: NativeRow | None) -> bool:
    """Whether its status says something after which natives of its slice are to be others."""
    return came_to_rest(old, new) or was_told(old, new) or shrinks_its_group(old, new)


def failed_run(runs: Sequence[NativeRow], due_of: Callable[[str], int]) -> tuple[str, str]:
    """(reason, sentence) where the newest of the ended runs of a CronJob has failed; ("", "") where
    it has not."""
    ended = [run for run in runs if _end(run) is not None]
    if not ended:
        return "", ""
    newest = max(ended, key=lambda run: (due_of(run.key[2]), run.key[2]))
    end = _end(newest) or raw.NO_FIELDS
    if end.get("type") != "Failed":
        return "", ""
    why = raw.sentence(end, "message") or "it does not say why"
    reason = raw.word(end, "reason") or "Failed"
    return RUN_FAILED, f"The run {newest.key[2]} has failed ({reason}): {why}"


def _end(run: NativeRow) -> Obj | None:
    for kind in ("Complete", "Failed"):
        condition = conditions.find(raw.items(run.status, "conditions"), kind)
        if condition is not None and condition.get("status") == "True":
            return condition
    return None


def recorded(job: NativeRow, status: Obj) -> bool:
    """Whether the Job runs nothing more and the slice's status holds all it has to tell; only then
    may it be deleted."""
    if raw.integer(job.status, "active"):
        return False
    done = shards.union(_recorded(status, "completedIndexes"), _recorded(status, "failedIndexes"))
    return not shards.minus(shards.union(completed(job), failed(job)), done)


def done(status: Obj) -> Ranges:
    """Shards that a status records as completed or failed for good."""
    return shards.union(_recorded(status, "completedIndexes"), _recorded(status, "failedIndexes"))


def ranges_to_run(wanted: Ranges, jobs: Sequence[NativeRow], finished: Ranges) -> Ranges:
    """The pieces that need a Job: those that have one as they are, and of the others what is
    neither finished nor still in the hands of a Job that has to go first (it may complete more
    until it is gone)."""
    taken = [job.shards for job in jobs if job.shards is not None]
    pieces: list[Range] = []
    for job in jobs:
        finished = shards.union(finished, shards.union(completed(job), failed(job)))
    for piece in wanted:
        pieces.extend(part for part in taken if piece[0] <= part[0] and part[1] <= piece[1])
        pieces.extend(shards.minus(shards.minus((piece,), shards.normal(taken)), finished))
    return tuple(sorted(pieces))


def running(jobs: Sequence[NativeRow]) -> tuple[int, int]:
    """(pods that exist and have not ended, those of them that are ready) over all Jobs."""
    active = sum(raw.integer(job.status, "active") for job in jobs)
    ready = sum(raw.integer(job.status, "ready") for job in jobs)
    return active, min(ready, active)


def _recorded(status: Obj, field: str) -> Ranges:
    return shards.normal(raw.ranges(status, field))


def _indexes(job: NativeRow, field: str) -> Ranges:
    if job.shards is None:
        return ()
    recorded = shards.shifted(_recorded(job.status, field), job.shards[0])
    return shards.intersect(recorded, (job.shards,))
