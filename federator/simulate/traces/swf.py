"""Standard Workload Format of the Parallel Workloads Archive: jobs, and the machine of the header.

A line has 18 numbers separated by spaces, -1 for what is not known; lines that begin with `;` are
the header. Every processor is a shard of one core. The definition is that of the archive, version
2.2 (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html), field 11 and its usage notes:

* 1 is completed, 0 failed, -1 not known (as in models);
* 5 is cancelled: before it started where it has no run time, else while it ran;
* 2, 3 and 4 are parts of a job between two checkpoints: to be continued, the last one completed,
  the last one killed. They follow a line with 0 or 1 that sums them up, and have its job number.
  Studies of a workload use that line only.

Jobs that were cancelled before they started, and parts of jobs, are left out by definition, which
is noted; they are no bad rows.
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
PARTS: Final = (2, 3, 4)
CANCELLED: Final = 5
STATUSES: Final = (-1, FAILED, 1, *PARTS, CANCELLED)
_HEADER: Final = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.*?)\s*$")
_LONGEST_S: Final = 30 * 366 * 86400
_ONCE: Final = Failing(times=1, limit=0)
"""The run of a job that failed in the end: a retry is another submitted job."""
_MACHINE: Final = "swf"
"""The cluster of a trace that tells no partitions."""


def read(path: Path, reading: Reading = AS_OURS) -> Trace:
    """The jobs of a trace by submission. Raises TraceError."""
    problems = Problems()
    file = path.name
    lines = tables.lines_of(tables.text_of(path, problems), file, problems)
    log = _Log(file, reading, problems)
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith(";"):
            log.take(number, line)
    log.join_parts()
    problems.check(file, log.rows, reading.tolerated)
    works = sorted(log.works, key=operator.itemgetter(0, 1))
    if not works:
        raise TraceError(file, 0, "", "has no job that can be read")
    log.note()
    start = _header(lines).get("UnixStartTime", "0").split()[0]
    return Trace(
        tuple(work for _, _, work in works),
        problems,
        log.rows,
        int(start) if start.isdigit() else 0,
        file,
        [number for _, number, _ in works],
    )


class _Log:
    """The jobs of one file, as its lines come."""

    def __init__(self, file: str, reading: Reading, problems: Problems) -> None:
        self.works: list[tuple[int, int, Work]] = []
        """(submission, line, job)."""
        self.rows = 0
        self._file = file
        self._reading = reading
        self._problems = problems
        self._first: dict[int, int] = {}
        """The line that sums up a job, by its number."""
        self._parts: dict[int, list[tuple[int, list[int]]]] = {}
        self._cancelled = 0
        self._latest = -1

    def take(self, number: int, line: str) -> None:
        self.rows += 1
        job = _job(self._file, number, line, self._problems)
        if job is None:
            return
        if job[10] not in STATUSES:
            kind = "is no status of the format, and is read as completed"
            self._add(number, 10, kind, str(job[10]), left_out=False)
        if job[10] in PARTS:
            self._parts.setdefault(job[0], []).append((number, job))
        elif job[0] in self._first:
            detail = f"{job[0]}, first in row {self._first[job[0]]}"
            self._add(number, 0, "was given before", detail)
        else:
            self._first[job[0]] = number
            self._whole(number, job)

    def join_parts(self) -> None:
        """Makes a job of parts that no line sums up: submitted as the first, as long as all."""
        for job_number, parts in self._parts.items():
            if job_number in self._first:
                continue
            number, job = parts[0]
            job[3] = sum(max(part[3], 0) for _, part in parts)
            self._whole(number, job, sorted_in=True)

    def note(self) -> None:
        """Says what was left out by definition."""
        if self._cancelled:
            self._problems.note(
                self._file,
                f"{self._cancelled} jobs were cancelled before they started, and are left out",
            )
        parts = sum(len(parts) for key, parts in self._parts.items() if key in self._first)
        if parts:
            self._problems.note(
                self._file,
                f"{parts} rows are parts of jobs that other rows sum up, and are left out",
            )
        self._problems.note(
            self._file, "each processor is a shard of one core; memory and GPUs are not recorded"
        )

    def _whole(self, number: int, job: list[int], *, sorted_in: bool = False) -> None:
        if job[10] == CANCELLED and job[3] <= 0:
            self._cancelled += 1
            return
        if _wrong(self._file, number, job, self._problems):
            return
        if job[1] < self._latest and not sorted_in:
            detail = f"{job[1]} after {self._latest}"
            self._add(number, 1, UNSORTED, detail, left_out=False, wrong=False)
        self._latest = max(job[1], self._latest) if sorted_in else job[1]
        self.works.append((job[1], number, _work(job, self._reading)))

    def _add(
        self,
        number: int,
        field: int,
        kind: str,
        detail: str,
        *,
        left_out: bool = True,
        wrong: bool = True,
    ) -> None:
        self._problems.add(
            Problem(self._file, number, FIELDS[field], kind, detail, left_out, wrong)
        )


def machine(path: Path) -> tuple[NodeGroup, ...]:
    """The clusters of the header: the whole machine as one, of single-core nodes. Raises TraceError
    when the header does not tell its size."""
    problems = Problems()
    header = _header(tables.lines_of(tables.text_of(path, problems), path.name, problems))
    size = header.get("MaxProcs", header.get("MaxNodes", "")).split()
    if not size or not size[0].isdigit() or not int(size[0]):
        why = "the header does not tell the size of the machine: name a fleet"
        raise TraceError(path.name, 0, "MaxProcs", why)
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
            detail = repr(cell[:40].encode("utf-8", "backslashreplace").decode())
            problems.add(Problem(file, row, name, kind, detail))
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
        kind = "is implausibly large for s; is it in milliseconds?"
        problems.add(Problem(file, row, FIELDS[at], kind, str(job[at])))
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
        checkpoint_s=reading.checkpoint_s,
        failing=_ONCE if job[10] == FAILED else None,
    )
