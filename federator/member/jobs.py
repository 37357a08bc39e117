"""The Jobs of a job set's slice: which shards they have finished, and which of the slice's shards still need a Job.

Pure. A completed shard is never run again by us: when a Job has to be made anew, it is made only for what is left.
"""

from collections.abc import Iterable, Sequence

from federator.api import raw, verbs
from federator.api.raw import Obj
from federator.member.rows import NativeRow
from federator.model import shards
from federator.model.shards import Ranges
from federator.status import conditions


def completed(job: NativeRow) -> Ranges:
    """The shards (not indexes) that the Job has completed."""
    return _indexes(job, "completedIndexes")


def failed(job: NativeRow) -> Ranges:
    """The shards that have failed for good: those it names, and all that are left when the Job as a whole has
    failed."""
    found = _indexes(job, "failedIndexes")
    if job.shards is not None and conditions.is_true(raw.items(job.status, "conditions"), "Failed"):
        found = shards.union(found, shards.minus((job.shards,), completed(job)))
    return shards.minus(found, completed(job))


def recorded(job: NativeRow, status: Obj) -> bool:
    """Whether the slice's status holds all that the Job has to tell; only then may it be deleted."""
    done = shards.union(_recorded(status, "completedIndexes"), _recorded(status, "failedIndexes"))
    return not shards.minus(shards.union(completed(job), failed(job)), done)


def done(status: Obj) -> Ranges:
    """Shards that a status records as completed or failed for good."""
    return shards.union(_recorded(status, "completedIndexes"), _recorded(status, "failedIndexes"))


def ranges_to_run(wanted: Ranges, jobs: Iterable[NativeRow], finished: Ranges) -> Ranges:
    """The pieces that need a Job: those that have one as they are, and of the others what is not finished yet."""
    have = {job.shards for job in jobs if job.shards is not None and not job.deleting}
    pieces: list[shards.Range] = []
    for piece in wanted:
        kept = sorted(one for one in have if piece[0] <= one[0] and one[1] <= piece[1])
        pieces.extend(kept)
        left = shards.minus(shards.minus((piece,), shards.normal(kept)), finished)
        pieces.extend(left)
    return tuple(sorted(pieces))


def running(jobs: Sequence[NativeRow]) -> tuple[int, int]:
    """(pods that exist and have not ended, those of them that are ready) over all Jobs."""
    active = sum(raw.integer(job.status, "active") for job in jobs)
    ready = sum(raw.integer(job.status, "ready") for job in jobs)
    return active, min(ready, active)


def _recorded(status: Obj, field: str) -> Ranges:
    return shards.normal(verbs.read_ranges(raw.text(status, field)))


def _indexes(job: NativeRow, field: str) -> Ranges:
    if job.shards is None:
        return ()
    found = shards.shifted(_recorded(job.status, field), job.shards[0])
    return shards.intersect(found, (job.shards,))
