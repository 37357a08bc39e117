"""A folder for the reference policies: one resource, whole units.

The unit is the GPU where clusters and jobs have some, else the core.
"""

from dataclasses import dataclass
from pathlib import Path

from federator.simulate.demand import Work
from federator.simulate.reference import ReferenceJob
from federator.simulate.traces import loading
from federator.simulate.traces.nodes import NodeGroup
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


def read(path: Path) -> Pools:
    """Reads a scenario folder or an SWF trace. Raises TraceError."""
    fleet, trace = loading.fleet(path), loading.demand(path)
    gpu = any(group.gpu for group in fleet.groups) and any(work.gpu for work in trace.works)
    capacity: dict[str, int] = {}
    for group in fleet.groups:
        capacity[group.cluster] = capacity.get(group.cluster, 0) + group.count * _offered(
            group, gpu=gpu
        )
    jobs = tuple(_job(work, capacity, path.name, gpu=gpu) for work in trace.works)
    notes = (*fleet.problems.lines(), *trace.problems.lines())
    return Pools(jobs, capacity, "gpu" if gpu else "core", notes)


def _offered(group: NodeGroup, *, gpu: bool) -> int:
    return group.gpu if gpu else (group.cpu_milli or 0) // 1000


def _job(work: Work, capacity: dict[str, int], file: str, *, gpu: bool) -> ReferenceJob:
    if work.runtime_s is None:
        raise TraceError(
            file, 0, "runtime_s", f"{work.id} runs to the end; a reference policy needs run times"
        )
    if work.home_cluster and work.home_cluster not in capacity:
        message = f"{work.id} has the home {work.home_cluster!r}, which is no cluster"
        raise TraceError(file, 0, "home_cluster", message)
    each = (work.gpu or 0) if gpu else -(-(work.cpu_milli or 0) // 1000)
    return ReferenceJob(work.submit_s, work.runtime_s, work.shards * each, work.home_cluster)
