"""The table of docs/benchmarks.md: written by every whole-size run of `make bench`, one row per
benchmark. A row that was read many commits ago is marked stale.

A run of a part (`ONLY=S1,S4`) replaces the rows it measured and leaves the others with the day and
the commit at which they were read. A row without a figure keeps its last one. The prose around the
table is written by hand.
"""

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import harness
from tests.bench.harness import Judged
from tests.bench.rows import ROWS, Row

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN = "<!-- the table: written by `make bench` -->"
END = "<!-- end of the table -->"
HEAD = "| row | what | ours | floor | ratio | gate | read |\n|---|---|---|---|---|---|---|"
STALE = " **stale**"
STALE_COMMITS = 100
"""Commits to the program since a reading, after which it says little: ten landings of about ten."""
_COMMIT = re.compile(r", ([0-9a-f]{7,40})\+?, calibration")
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


def commits_since(commit: str) -> int | None:
    """Commits to the program after this one; None for one that is not in the history."""
    command = ["git", "-C", str(PAGE.parent), "rev-list", "--count", f"{commit}..HEAD", "--"]
    try:
        done = subprocess.run(
            [*command, ":/federator"], check=True, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return int(done.stdout)


def marked(line: str, since: Callable[[str], int | None]) -> str:
    """A row of the table, marked as stale if it was read too long ago, or at no known commit."""
    bare, found = line.replace(STALE, ""), _COMMIT.search(line)
    if bare.endswith("| not yet |"):
        return bare
    age = since(found[1]) if found else None
    if age is not None and age <= STALE_COMMITS:
        return bare
    return f"{bare.removesuffix(' |')}{STALE} |"


def unread(row: Row) -> str:
    """The line of a row that was never measured at its whole size."""
    return f"| {row.id} | {row.what} | - | - | - | {harness.bound(row, row.gate)} | not yet |"


def write(
    judged: Sequence[Judged],
    reading: Reading,
    page: Path = PAGE,
    since: Callable[[str], int | None] = commits_since,
) -> None:
    """Replaces the measured rows, and marks those that are stale. Raises ValueError when the page
    has lost the marks around its table.
    """
    text = page.read_text("utf-8")
    before, table, after = parts(text)
    rows = kept(table) | {
        one.row.id: _line(one, reading) for one in judged if not one.result.failed
    }
    lines = [
        marked(rows[row.id], since) if row.id in rows else unread(row)
        for row in ROWS
        if row.id in rows or not row.preview
    ]
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
    known = {row.id for row in ROWS}
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
