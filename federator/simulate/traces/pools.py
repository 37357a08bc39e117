"""A folder for the reference policies: one resource, whole units.

The unit is the GPU where clusters and jobs have some, else the core.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from federator.simulate.demand import Work
from federator.simulate.reference import AT_HOME, ReferenceJob, ReferencePolicy
from federator.simulate.traces import loading
from federator.simulate.traces.problems import TraceError


@dataclass(frozen=True, slots=True)
class Pools:
    """What a reference policy reads."""

    jobs: tuple[ReferenceJob, ...]
    """In the order of the trace."""
    capacity: dict[str, int]
    """Cluster -> units."""
    unit: str
    """`gpu` or `core`."""
    notes: tuple[str, ...]
    """Rows that were left out or mended."""


def read(path: Path, policy: ReferencePolicy) -> Pools:
    """Reads a scenario folder or an SWF trace, for a policy that may need homes. Raises TraceError
    with the row of a job that the policy cannot run."""
    fleet, trace = loading.fleet(path), loading.demand(path)
    gpu = any(group.gpu for group in fleet.groups) and any(work.gpu for work in trace.works)
    capacity: dict[str, int] = {}
    for group in fleet.groups:
        capacity[group.cluster] = capacity.get(group.cluster, 0) + group.count * (
            group.gpu if gpu else (group.cpu_milli or 0) // 1000
        )
    jobs = []
    for work, row in zip(trace.works, trace.rows, strict=True):
        for field, why in _lacks(work, capacity, policy):
            raise TraceError(trace.file, row, field, f"{work.id} {why}")
        jobs.append(_job(work, gpu=gpu))
    notes = (*fleet.problems.lines(), *trace.problems.lines())
    return Pools(tuple(jobs), capacity, "gpu" if gpu else "core", notes)


def _lacks(
    work: Work, clusters: Container[str], policy: ReferencePolicy
) -> Iterator[tuple[str, str]]:
    """(column, why) of what keeps the policy from running a job."""
    if work.runtime_s is None:
        yield "runtime_s", "runs to the end; a reference policy needs run times"
    if work.home_cluster and work.home_cluster not in clusters:
        yield "home_cluster", f"has the home {work.home_cluster!r}, which is no cluster"
    if not work.home_cluster and policy in AT_HOME:
        yield "home_cluster", f"has no home, and {policy} needs one"


def _job(work: Work, *, gpu: bool) -> ReferenceJob:
    each = (work.gpu or 0) if gpu else -(-(work.cpu_milli or 0) // 1000)
    return ReferenceJob(work.submit_s, work.runtime_s or 0, work.shards * each, work.home_cluster)
