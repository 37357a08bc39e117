"""The jobs that Slurm's accounting lists: `sacct -P` or `-p` with a header.

The columns and their forms are those of sacct's manual (https://slurm.schedmd.com/sacct.html):
JobID, Submit, Start, End or Elapsed, State, and what is there of NNodes, AllocCPUS or ReqCPUS,
ReqMem, AllocTRES or ReqTRES, Account, User, Partition, Cluster, Priority. A shard is what a job has
on one node.

Left out by definition, noted, and no bad rows: steps (`12.batch`, `12.extern`, `12.0`), jobs that
never started, and all runs but the last of a job that was requeued (`sacct -D` lists each).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Final

from federator.simulate.demand import Failing, Work
from federator.simulate.traces import columns
from federator.simulate.traces import table as tables
from federator.simulate.traces.columns import Rows
from federator.simulate.traces.problems import Problem, Problems, TraceError
from federator.simulate.traces.works import AS_OURS, UNSORTED, Reading, Trace

HEADER: Final = frozenset({"JobID", "Submit", "State"})
"""By these columns a table is known as a list of Slurm's jobs."""
SIZES: Final = ("NNodes", "AllocCPUS", "ReqCPUS", "NCPUS", "AllocTRES", "ReqTRES")
_ELAPSED: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", re.ASCII)
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([nc]?)", re.ASCII)
_MIB: Final[Mapping[str, Fraction]] = {
    "": Fraction(1),
    "K": Fraction(1, 1024),
    "M": Fraction(1),
    "G": Fraction(1024),
    "T": Fraction(1024**2),
    "P": Fraction(1024**3),
}
_UNKNOWN: Final = frozenset({"", "Unknown", "None", "None assigned", "N/A"})
FAILED: Final = frozenset(
    {"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED"}
)
_ONCE: Final = Failing(times=1, limit=0)
"""The run of a job that failed in the end: a retry is another submitted job."""


class _Unreadable(ValueError):
    """A cell: its column, what is wrong, and the cell."""

    def __init__(self, column: str, kind: str, cell: str) -> None:
        super().__init__(kind)
        self.column, self.kind, self.cell = column, kind, cell


def read(path: Path, reading: Reading = AS_OURS) -> Trace:
    """The jobs by submission. Raises TraceError."""
    problems = Problems()
    table = tables.read(path, problems, reading.dialect)
    _check(table)
    rows = Rows(table, problems)
    cells = {name: columns.texts(table, name) for name in table.header}
    left: Counter[str] = Counter()
    last: dict[str, tuple[int, Work]] = {}
    for at in range(len(table.rows)):
        row = _Row({name: of[at] for name, of in cells.items()})
        reason = row.not_counted
        if reason:
            left[reason] += 1
            continue
        try:
            work = row.work(reading)
        except _Unreadable as bad:
            rows.refuse(at, bad.column, bad.kind, columns.shortened(bad.cell))
            continue
        if work.id in last:
            left["earlier runs of jobs that were requeued"] += 1
        last[work.id] = (at, work)
    problems.check(table.file, table.read, reading.tolerated)
    if not last:
        raise TraceError(table.file, 0, "", "has no job that can be read")
    for reason, count in left.items():
        problems.note(table.file, f"{count} rows are {reason}, and are left out")
    return _by_submission(list(last.values()), table, problems)


def _check(table: tables.Table) -> None:
    """Raises TraceError where the list does not say when jobs ran, or how large they are."""
    for needed in (("Start", "Elapsed", "ElapsedRaw"), ("End", "Elapsed", "ElapsedRaw"), SIZES):
        if not set(needed) & set(table.header):
            raise TraceError(
                table.file,
                1,
                "",
                f"there is no column {' or '.join(needed)}; there are {table.listed}; list the"
                " jobs with sacct -P -o JobID,Account,Submit,Start,End,State,NNodes,AllocTRES",
            )


def _by_submission(
    jobs: Sequence[tuple[int, Work]], table: tables.Table, problems: Problems
) -> Trace:
    latest = 0
    for at, work in sorted(jobs):
        if work.submit_s < latest:
            row = table.rows[at]
            problems.add(Problem(table.file, row, "Submit", UNSORTED, left_out=False, wrong=False))
        latest = work.submit_s
    ordered = sorted(jobs, key=lambda each: (each[1].submit_s, each[0]))
    origin = ordered[0][1].submit_s
    return Trace(
        tuple(replace(work, submit_s=work.submit_s - origin) for _, work in ordered),
        problems,
        table.read,
        origin,
        table.file,
        [table.rows[at] for at, _ in ordered],
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the list: column -> cell."""

    cells: Mapping[str, str]

    def cell(self, *names: str) -> str:
        """The first of these columns that says something."""
        cells = (self.cells.get(name, "") for name in names)
        return next((cell for cell in cells if cell not in _UNKNOWN), "")

    @property
    def state(self) -> str:
        """Without what follows it, as in `CANCELLED by 1000`."""
        return self.cells["State"].partition(" ")[0].rstrip("+")

    @property
    def not_counted(self) -> str:
        """Why the line is no run of a job; "" where it is one."""
        if "." in self.cells["JobID"]:
            return "steps of jobs that other rows sum up"
        if not self.cell("Start") and "Start" in self.cells:
            return "jobs that never started"
        if self.state in ("PENDING", "REVOKED"):
            return "jobs that never started"
        if self.state == "CANCELLED" and not self.runtime:
            return "jobs that never started"
        return ""

    def instant(self, name: str) -> int | None:
        """Epoch seconds; a time without a zone is taken for UTC. None: not known."""
        cell = self.cell(name)
        if not cell:
            return None
        if cell.isdigit():
            return int(cell)
        try:
            moment = datetime.fromisoformat(cell)
        except ValueError:
            raise _Unreadable(name, "is no time as sacct writes it", cell) from None
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())

    @property
    def runtime(self) -> int | None:
        """Seconds between start and end; None while the job runs."""
        if self.state == "RUNNING":
            return None
        start, end = self.instant("Start"), self.instant("End")
        if start is not None and end is not None:
            if end < start:
                raise _Unreadable("End", "is before the start", self.cells["End"])
            return end - start
        raw = self.cell("ElapsedRaw")
        if raw.isdigit():
            return int(raw)
        elapsed = self.cell("Elapsed")
        match = _ELAPSED.fullmatch(elapsed)
        if match is None:
            raise _Unreadable("Elapsed", "is no duration as sacct writes it", elapsed)
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds

    @property
    def resources(self) -> Mapping[str, str]:
        """What was allocated, else asked for: `cpu=8,mem=32G,node=2,gres/gpu:a100=4`."""
        amounts = self.cell("AllocTRES", "ReqTRES")
        return dict(part.split("=", 1) for part in amounts.split(",") if "=" in part)

    def count(self, name: str, cell: str) -> int:
        """A whole number; sacct shortens large ones (`2K`)."""
        short = {"K": 1000, "M": 1_000_000}.get(cell[-1:], 1)
        digits = cell if short == 1 else cell[:-1]
        if not digits.replace(".", "", 1).isdigit():
            raise _Unreadable(name, "is no number", cell)
        return int(Fraction(digits) * short)

    def memory_mib(self, nodes: int, cpus: int) -> int | None:
        """Of one node. `n` and `c` after a unit mean for each node, and for each core (Slurm before
        21.08); without either it is the whole job's."""
        allocated = self.resources.get("mem", "")
        cell = allocated or self.cell("ReqMem")
        if not cell or cell in ("0", "?"):
            return None
        match = _MEMORY.fullmatch(cell)
        if match is None:
            raise _Unreadable(
                "AllocTRES" if allocated else "ReqMem", "is no memory as sacct writes it", cell
            )
        amount = Fraction(match[1]) * _MIB[match[2]]
        each = {"n": Fraction(1), "c": Fraction(cpus, nodes)}.get(match[3], Fraction(1, nodes))
        return ceil(amount * each) or None

    def gpus(self) -> tuple[int, tuple[str, ...]]:
        """How many the job has, and of which model where it is told."""
        typed = {
            name.partition(":")[2]: self.count("AllocTRES", amount)
            for name, amount in self.resources.items()
            if name.startswith("gres/gpu:")
        }
        whole = self.resources.get("gres/gpu", "")
        count = self.count("AllocTRES", whole) if whole else sum(typed.values())
        return count, tuple(sorted(typed)) if len(typed) == 1 else ()

    def work(self, reading: Reading) -> Work:
        """The job. Raises _Unreadable."""
        submit = self.instant("Submit")
        if submit is None:
            raise _Unreadable("Submit", "is missing", "")
        nodes = max(
            self.count("NNodes", self.resources.get("node", "") or self.cell("NNodes") or "1"), 1
        )
        cpu = self.resources.get("cpu", "") or self.cell("AllocCPUS", "NCPUS", "ReqCPUS") or "1"
        cpus = self.count("AllocCPUS", cpu)
        gpus, models = self.gpus()
        priority, tiers = self.cell("Priority"), reading.tiers
        tenant = self.cell("Account", "User")
        return Work(
            id=f"slurm-{self.cells['JobID']}",
            kind="job",
            namespace=tenant or "default",
            project=tenant,
            tier=tiers.of.get(self.cells.get(tiers.column, ""), tiers.otherwise),
            home_cluster=self.cell("Cluster", "Partition").partition(",")[0],
            submit_s=submit,
            runtime_s=self.runtime,
            shards=nodes,
            cpu_milli=ceil(Fraction(1000 * cpus, nodes)) or None,
            memory_mib=self.memory_mib(nodes, cpus),
            gpu=ceil(Fraction(gpus, nodes)) or None,
            gpu_models=models,
            priority=int(priority) if priority.isdigit() else 0,
            checkpoint_s=reading.checkpoint_s,
            failing=_ONCE if self.state in FAILED else None,
        )
