"""The table of docs/benchmarks.md: written by every whole-size run of `make bench`, one row per
benchmark.

A run of a part (`ONLY=S1,S4`) replaces the rows it measured and leaves the others with the day and
the commit at which they were read. A row without a figure keeps its last one. The prose around the
table is written by hand.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import harness
from tests.bench.harness import Judged

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN = "<!-- the table: written by `make bench` -->"
END = "<!-- end of the table -->"
HEAD = "| row | what | ours | floor | ratio | gate | read |\n|---|---|---|---|---|---|---|"
_ROW = re.compile(r"^\| (\w+) \|", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where and when a run measured."""

    date: str
    """YYYY-MM-DD."""
    commit: str
    """Short hash; with "+" when files were changed since."""
    calibration: float
    """Score of the calibration loop before the run."""

    def __str__(self) -> str:
        return f"{self.date}, {self.commit}, calibration {self.calibration:.0f}"


def write(judged: Sequence[Judged], reading: Reading, page: Path = PAGE) -> None:
    """Replaces the measured rows. Raises ValueError when the page has lost the marks around its
    table.
    """
    text = page.read_text("utf-8")
    before, table, after = parts(text)
    rows = kept(table) | {
        one.row.id: _line(one, reading) for one in judged if not one.result.failed
    }
    lines = [rows[row.id] for row in harness.ROWS if row.id in rows]
    page.write_text("\n".join([before + BEGIN, HEAD, *lines, END + after]), encoding="utf-8")


def parts(text: str) -> tuple[str, str, str]:
    """What stands before, in and after the table."""
    before, begun, rest = text.partition(BEGIN)
    table, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"the page has no table between {BEGIN!r} and {END!r}")
    return before, table, after


def kept(table: str) -> dict[str, str]:
    """Row id -> its line, of a table that was written before."""
    known = {row.id for row in harness.ROWS}
    matches = ((match[1], line) for line in table.splitlines() if (match := _ROW.match(line)))
    return {name: line for name, line in matches if name in known}


def _line(one: Judged, reading: Reading) -> str:
    ours, floor, ratio, gate, unit, verdict = harness.figures(one)
    missed = "" if verdict == "yes" else " (preview)" if verdict == "preview" else " **missed**"
    floor = floor if floor == "-" else f"{floor} {unit}"
    return (
        f"| {one.row.id} | {one.row.what} | {ours} {unit} | {floor} | {ratio} | {gate}{missed} | "
        f"{reading} |"
    )
