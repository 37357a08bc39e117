"""Standard Workload Format of the Parallel Workloads Archive: jobs, and the machine of the header.

A line has 18 numbers separated by spaces, -1 for what is not known; lines that begin with `;` are
the header. Every processor is a shard of one core. Jobs that were cancelled before they started
are left out by definition, which is noted; they are no bad rows.
"""

import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from federator.simulate.demand import Failing, Work
from federator.simulate.traces import table as tables
from federator.simulate.traces.nodes import NodeGroup
from federator.simulate.traces.problems import Problem, Problems, TraceError
from federator.simulate.traces.works import AS_OURS, EPOCH_FROM_S, UNSORTED, Reading, Trace

FIELDS: Final = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
FAILED: Final = 0
CANCELLED: Final = 5
_HEADER: Final = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.*?)\s*$")
_LONGEST_S: Final = 30 * 366 * 86400
_ONCE: Final = Failing(times=1, limit=0)
"""The run of a job that failed in the end: whoever tried it again submitted another one."""
_MACHINE: Final = "swf"
"""The cluster of a trace that tells no partitions."""


def read(path: Path, reading: Reading = AS_OURS) -> Trace:
    """The jobs of a trace by submission. Raises TraceError."""
    problems = Problems()
    file = path.name
    lines = tables.lines_of(tables.text_of(path, problems), file, problems)
    works: list[tuple[int, int, Work]] = []
    rows = cancelled = 0
    first: dict[int, int] = {}
    latest = -1
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        rows += 1
        job = _job(file, number, line, problems)
        if job is None:
            continue
        if job[0] in first:
            problems.add(
                Problem(
                    file,
                    number,
                    FIELDS[0],
                    "was given before",
                    f"{job[0]}, first in row {first[job[0]]}",
                )
            )
            continue
        first[job[0]] = number
        if job[10] == CANCELLED and job[3] <= 0:
            cancelled += 1
            continue
        if _wrong(file, number, job, problems):
            continue
        if job[1] < latest:
            detail = f"{job[1]} after {latest}"
            problems.add(Problem(file, number, FIELDS[1], UNSORTED, detail, left_out=False))
        latest = job[1]
        works.append((job[1], number, _work(job, reading)))
    problems.check(file, rows, reading.tolerated)
    if not works:
        raise TraceError(file, 0, "", "has no job that can be read")
    if cancelled:
        problems.note(
            file, f"{cancelled} jobs were cancelled before they started, and are left out"
        )
    problems.note(file, "each processor is a shard of one core; memory and GPUs are not recorded")
    works.sort(key=operator.itemgetter(0, 1))
    header = _header(lines)
    start = header.get("UnixStartTime", "0").split()[0]
    return Trace(
        tuple(work for _, _, work in works),
        problems,
        rows,
        int(start) if start.isdigit() else 0,
        file,
        [number for _, number, _ in works],
    )


def machine(path: Path) -> tuple[NodeGroup, ...]:
    """The clusters of the header: the whole machine as one, of single-core nodes. Raises TraceError
    when the header does not tell its size."""
    problems = Problems()
    header = _header(tables.lines_of(tables.text_of(path, problems), path.name, problems))
    size = header.get("MaxProcs", header.get("MaxNodes", "")).split()
    if not size or not size[0].isdigit() or not int(size[0]):
        raise TraceError(
            path.name,
            0,
            "MaxProcs",
            "the header does not tell the size of the machine: name a fleet",
        )
    return (NodeGroup(_MACHINE, int(size[0]), cpu_milli=1000),)


def _header(lines: Sequence[str]) -> Mapping[str, str]:
    return {
        match[1]: match[2]
        for line in lines
        if line.startswith(";") and (match := _HEADER.match(line))
    }


def _job(file: str, row: int, line: str, problems: Problems) -> list[int] | None:
    """The 18 numbers of a line; fractions of a second are rounded."""
    cells = line.split()
    if len(cells) != len(FIELDS):
        problems.add(Problem(file, row, "", f"has not {len(FIELDS)} numbers", str(len(cells))))
        return None
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        pass
    values = []
    for name, cell in zip(FIELDS, cells, strict=True):
        try:
            values.append(round(float(cell)))
        except (ValueError, OverflowError):
            finite = cell.lower().lstrip("+-") in ("nan", "inf", "infinity")
            kind = "is not a finite number" if finite else "is no number"
            problems.add(
                Problem(
                    file,
                    row,
                    name,
                    kind,
                    repr(cell[:40].encode("utf-8", "backslashreplace").decode()),
                )
            )
            return None
    return values


def _wrong(file: str, row: int, job: Sequence[int], problems: Problems) -> bool:
    """Whether a job cannot be run, which is then named."""
    shards = job[7] if job[7] > 0 else job[4]
    for at, value, kind in (
        (1, job[1], "is negative"),
        (3, job[3], "is negative"),
        (7, shards - 1, "is not known, and the allocated ones are not either"),
    ):
        if value < 0:
            problems.add(Problem(file, row, FIELDS[at], kind, str(job[at])))
            return True
    if job[3] > _LONGEST_S or job[1] > EPOCH_FROM_S * 100:
        at = 3 if job[3] > _LONGEST_S else 1
        problems.add(
            Problem(
                file,
                row,
                FIELDS[at],
                "is implausibly large for s; is it in milliseconds?",
                str(job[at]),
            )
        )
        return True
    return False


def _work(job: Sequence[int], reading: Reading) -> Work:
    group = f"group-{job[12]}" if job[12] >= 0 else ""
    return Work(
        id=f"swf-{job[0]}",
        kind="job",
        namespace=group or "default",
        project=group,
        tier=reading.tiers.otherwise,
        home_cluster=_MACHINE,
        submit_s=job[1],
        runtime_s=job[3],
        shards=job[7] if job[7] > 0 else job[4],
        cpu_milli=1000,
        memory_mib=-(-job[9] // 1024) if job[9] > 0 else None,
        gpu=None,
        gpu_models=(),
        priority=0,
        checkpoint_s=reading.checkpoint_s,
        failing=_ONCE if job[10] == FAILED else None,
    )
