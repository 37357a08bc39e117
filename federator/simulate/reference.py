"""Four fully specified policies, computed without the scheduling cycle: the check of the event
engine.

Their results for the public traces are known exactly, so an error in reading a trace, in the order
of events at one instant or in the arithmetic of waiting shows as another number. They are no model
of what the federation does.

At one instant all ends give capacity back first, then submissions join the queue in the order of
the trace, then the queue is scanned. A job needs `units` of one resource and stands whole in one
cluster. A job that is wider than its cluster (than the largest one, where any will do) is rejected
at once. A job without run time takes nothing: it starts and ends as soon as there would be room for
it.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final


class ReferencePolicy(StrEnum):
    """How jobs are queued and placed."""

    HOME_FIFO = "home-fifo"
    """Every cluster has a queue of its own, first come first served; its head blocks the others."""
    HOME_BACKFILL = "home-backfill"
    """The same, but jobs behind a head that waits start when they fit now. Nothing is reserved for
    the head.
    """
    FED_FIFO = "fed-fifo"
    """One queue for all clusters; its head goes where most is free (the first by name of equals),
    and blocks the others while it fits nowhere.
    """
    FED_HOME_FIRST = "fed-home-first"
    """The same, but the job's home cluster is taken when the job fits there."""


AT_HOME: Final = (ReferencePolicy.HOME_FIFO, ReferencePolicy.HOME_BACKFILL)
"""Policies that need the home of every job."""


@dataclass(frozen=True, slots=True)
class ReferenceJob:
    """One job of a trace, in the order of the trace."""

    submit_s: int
    runtime_s: int
    units: int
    """Of the one resource that counts: GPUs or cores, of all shards."""
    home: str
    """The cluster in which it really ran; "" for none: then only policies of one queue take it."""


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """What came out, in the words of the published results."""

    policy: ReferencePolicy
    capacity_scale: str
    capacity_units: int
    started: int
    rejected_too_wide: int
    waited: int
    """Jobs that started later than they were submitted."""
    wait_sum_s: int
    wait_max_s: int
    wait_p50_s: int
    """`sorted(waits)[n // 2]` over the n jobs that started; 0 without any."""
    wait_p99_s: int
    """`sorted(waits)[n * 99 // 100]`."""
    last_end_s: int
    started_in_home_cluster: int
    unit_seconds: int

    def as_dict(self) -> dict[str, Any]:
        """As `simulate --reference ... -o json` prints it."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "policy": self.policy.value
        }


def run(
    jobs: Iterable[ReferenceJob],
    capacity: Mapping[str, int],
    policy: ReferencePolicy,
    scale: Fraction = Fraction(1),
) -> ReferenceResult:
    """Runs all jobs to their ends. `capacity` is in units by cluster, before it is scaled; a scaled
    cluster has `floor(units * scale)` and at least one.

    Raises ValueError for a scale that is not positive, a negative number, a home that is no
    cluster, or no clusters.
    """
    if scale <= 0:
        raise ValueError(f"capacity {scale}: a positive fraction is needed")
    if not capacity:
        raise ValueError("there are no clusters")
    # Sorting is stable: jobs of one instant stay in the order of the trace.
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    for job in ordered:
        _check(job, capacity, policy)
    scaled = {
        name: max(1, units * scale.numerator // scale.denominator)
        for name, units in sorted(capacity.items())
    }
    run_ = _Run(scaled)
    _play(ordered, run_, _SCANS[policy](run_))
    waits = sorted(run_.waits)
    started = len(waits)
    return ReferenceResult(
        policy=policy,
        capacity_scale=f"{scale.numerator}/{scale.denominator}",
        capacity_units=sum(scaled.values()),
        started=started,
        rejected_too_wide=run_.rejected,
        waited=sum(wait > 0 for wait in waits),
        wait_sum_s=sum(waits),
        wait_max_s=waits[-1] if waits else 0,
        wait_p50_s=waits[started // 2] if waits else 0,
        wait_p99_s=waits[started * 99 // 100] if waits else 0,
        last_end_s=run_.last_end_s,
        started_in_home_cluster=run_.at_home,
        unit_seconds=run_.unit_seconds,
    )


def _check(job: ReferenceJob, capacity: Mapping[str, int], policy: ReferencePolicy) -> None:
    if job.home not in capacity and (job.home or policy in AT_HOME):
        raise ValueError(
            f"a job submitted at {job.submit_s} s has the home {job.home!r}, which is no cluster"
            if job.home
            else f"a job submitted at {job.submit_s} s has no home, and {policy} needs one"
        )
    if job.submit_s < 0 or job.runtime_s < 0 or job.units < 0:
        raise ValueError(f"a job has a negative number: {job}")


@dataclass(slots=True)
class _Run:
    """The clusters' free units, the ends to come, and the sums of the result."""

    capacity: Mapping[str, int]
    """Cluster -> units, in the order of names."""
    free: dict[str, int] = field(init=False)
    ends: list[tuple[int, str, int]] = field(default_factory=list)
    """Heap of (end_s, cluster, units)."""
    waits: list[int] = field(default_factory=list)
    rejected: int = 0
    at_home: int = 0
    unit_seconds: int = 0
    last_end_s: int = 0

    def __post_init__(self) -> None:
        self.free = dict(self.capacity)

    def start(self, job: ReferenceJob, cluster: str, now_s: int) -> None:
        self.waits.append(now_s - job.submit_s)
        self.at_home += cluster == job.home
        self.unit_seconds += job.units * job.runtime_s
        self.last_end_s = max(self.last_end_s, now_s + job.runtime_s)
        if job.runtime_s:
            self.free[cluster] -= job.units
            heapq.heappush(self.ends, (now_s + job.runtime_s, cluster, job.units))


_Scan = Callable[[Sequence[ReferenceJob], set[str], int], None]
"""(jobs submitted now, clusters where something ended now, now_s): starts what may start."""


def _play(ordered: Sequence[ReferenceJob], run_: _Run, scan: _Scan) -> None:
    """All events in the order of time."""
    position = 0
    while position < len(ordered) or run_.ends:
        next_submit_s = ordered[position].submit_s if position < len(ordered) else None
        now_s = run_.ends[0][0] if run_.ends else next_submit_s
        if next_submit_s is not None and (now_s is None or next_submit_s < now_s):
            now_s = next_submit_s
        assert now_s is not None
        freed = set()
        while run_.ends and run_.ends[0][0] == now_s:
            _, cluster, units = heapq.heappop(run_.ends)
            run_.free[cluster] += units
            freed.add(cluster)
        first = position
        while position < len(ordered) and ordered[position].submit_s == now_s:
            position += 1
        scan(ordered[first:position], freed, now_s)


def _scan_of_homes(run_: _Run, *, backfill: bool) -> _Scan:
    """A queue for every cluster."""
    queues: dict[str, deque[ReferenceJob]] = {name: deque() for name in run_.capacity}

    def scan(submitted: Sequence[ReferenceJob], freed: set[str], now_s: int) -> None:
        touched = set(freed)
        for job in submitted:
            if job.units > run_.capacity[job.home]:
                run_.rejected += 1
                continue
            queues[job.home].append(job)
            touched.add(job.home)
        for cluster in sorted(touched):
            queue = queues[cluster]
            while queue and queue[0].units <= run_.free[cluster]:
                run_.start(queue.popleft(), cluster, now_s)
            if backfill and queue:
                queues[cluster] = _backfilled(queue, run_, cluster, now_s)

    return scan


def _backfilled(
    queue: deque[ReferenceJob], run_: _Run, cluster: str, now_s: int
) -> deque[ReferenceJob]:
    """Starts what fits behind a head that waits, first come first; returns what goes on waiting."""
    waiting: deque[ReferenceJob] = deque()
    for job in queue:
        if job.units <= run_.free[cluster]:
            run_.start(job, cluster, now_s)
        else:
            waiting.append(job)
    return waiting


def _scan_of_federation(run_: _Run, *, home_first: bool) -> _Scan:
    """One queue for all clusters."""
    queue: deque[ReferenceJob] = deque()
    widest = max(run_.capacity.values())

    def target(job: ReferenceJob) -> str | None:
        if home_first and job.home and job.units <= run_.free[job.home]:
            return job.home
        # The first of equals, since clusters are in the order of their names.
        roomiest = max(run_.free, key=run_.free.__getitem__)
        return roomiest if job.units <= run_.free[roomiest] else None

    def scan(submitted: Sequence[ReferenceJob], _freed: set[str], now_s: int) -> None:
        for job in submitted:
            if job.units > widest:
                run_.rejected += 1
            else:
                queue.append(job)
        while queue and (cluster := target(queue[0])) is not None:
            run_.start(queue.popleft(), cluster, now_s)

    return scan


_SCANS: Mapping[ReferencePolicy, Callable[[_Run], _Scan]] = {
    ReferencePolicy.HOME_FIFO: lambda run_: _scan_of_homes(run_, backfill=False),
    ReferencePolicy.HOME_BACKFILL: lambda run_: _scan_of_homes(run_, backfill=True),
    ReferencePolicy.FED_FIFO: lambda run_: _scan_of_federation(run_, home_first=False),
    ReferencePolicy.FED_HOME_FIRST: lambda run_: _scan_of_federation(run_, home_first=True),
}
