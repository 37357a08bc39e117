"""The report of `make scale`: its rows in docs/scale.md, one block for each size, and as JSON. The
prose around the table is written by hand."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench import harness

PAGE: Final = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN: Final = "<!-- the table: written by `make scale` -->"
END: Final = "<!-- end of the table -->"
HEAD: Final = (
    "| members | what | placed, s | applied, s | ready, s | hub CPU, s | hub memory, MB | API writes"
    " | hub traffic, MB | read |\n|---|---|---|---|---|---|---|---|---|---|"
)


class Spread(NamedTuple):
    """Of the times of many workloads, in seconds."""

    p50: float
    p99: float
    last: float


@dataclass(frozen=True, slots=True)
class Phase:
    """What one thing that the user did came to."""

    name: str
    workloads: int
    asked_s: float
    """Until all of the user's requests were answered."""
    times: Mapping[str, Spread]
    """Since the first request: `placed`, `applied` and `ready`, as far as they apply."""
    hub_cpu_s: float
    hub_memory_mb: float
    """The most that was seen."""
    hub_bytes: int
    """What the hub has read and written on its connections."""
    writes: int
    """All writes to API servers, the user's included, leases and Events left out."""


@dataclass(frozen=True, slots=True)
class Report:
    """One size."""

    members: int
    workloads: int
    commit: str
    date: str
    calibration: float
    machine: str
    hub_ready_s: float
    """From the start of the hub's process until it had read all members."""
    phases: tuple[Phase, ...]


def spread(times: Sequence[float]) -> Spread:
    """Raises ValueError without times."""
    return Spread(harness.percentile(times, 50), harness.percentile(times, 99), max(times))


def as_dict(report: Report) -> dict[str, Any]:
    """The object of build/scale.json."""
    found = dataclasses.asdict(report)
    for phase, shown in zip(report.phases, found["phases"], strict=True):
        shown["times"] = {what: times._asdict() for what, times in phase.times.items()}
    return found


def lines(report: Report) -> list[str]:
    """The rows of one size."""
    read = f"{report.date}, {report.commit}, calibration {report.calibration:.0f}"
    found = []
    for phase in report.phases:
        times = [_times(phase.times.get(what)) for what in ("placed", "applied", "ready")]
        cells = [
            f"{report.members:,}",
            phase.name,
            *times,
            f"{phase.hub_cpu_s:.1f}",
            f"{phase.hub_memory_mb:.0f}",
            f"{phase.writes:,}",
            f"{phase.hub_bytes / 1e6:,.1f}",
            read,
        ]
        found.append(f"| {' | '.join(cells)} |")
    return found


def _times(times: Spread | None) -> str:
    return "-" if times is None else " / ".join(f"{value:.1f}" for value in times)


def text(report: Report) -> str:
    """As people read it after a run."""
    ready = f"hub ready after {report.hub_ready_s:.1f} s, {report.machine}"
    return "\n".join([HEAD.splitlines()[0], *lines(report), ready])


def write(report: Report, page: Path = PAGE) -> None:
    """Replaces the rows of this size, and leaves those of others. Raises ValueError when the page
    has lost the marks around its table."""
    whole = page.read_text("utf-8")
    before, begun, rest = whole.partition(BEGIN)
    table, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"the page has no table between {BEGIN!r} and {END!r}")
    sizes: dict[tuple[int, int], list[str]] = {}
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith("| members"):
            if (count := _workloads(line)) is not None:
                size = (_number(line.split("|")[1]), count)
                sizes[size] = []
            sizes[size].append(line)
    sizes[report.members, report.workloads] = lines(report)
    rows = [line for size in sorted(sizes) for line in sizes[size]]
    page.write_text("\n".join([before + BEGIN, HEAD, *rows, END + after]), encoding="utf-8")


def _workloads(line: str) -> int | None:
    """Of the first row of a size; None for its other rows."""
    found = re.search(r"\| ([\d,]+) workloads on \d+ clusters each \|", line)
    return _number(found[1]) if found else None


def _number(cell: str) -> int:
    return int(cell.strip().replace(",", ""))
