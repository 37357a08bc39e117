"""What is wrong in a file of a trace: counted, and named by file, row and field.

A row's number is that of its line in the file, as editors show it: the header is row 1. Row 0 is
the whole file.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

NAMED_MAX: Final = 1000
"""Problems kept by name; all are counted."""
EXAMPLES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """One bad row, or a peculiarity of a whole file that was read nevertheless (row 0)."""

    file: str
    row: int
    field: str
    kind: str
    """The problem in a few words without the value, the same for all rows that have it."""
    detail: str = ""
    """The value, as far as it helps."""
    left_out: bool = True
    """Whether the row is left out; otherwise it was mended, and `kind` says how."""
    wrong: bool = True
    """Whether it counts as a bad row."""

    def __str__(self) -> str:
        where = f"{self.file}: row {self.row}" if self.row else self.file
        name = f": {self.field}" if self.field else ""
        value = f" ({self.detail})" if self.detail else ""
        return (
            f"{where}{name}: {self.kind}{value}{'; the row is left out' if self.left_out else ''}"
        )


class TraceError(ValueError):
    """A file cannot be used: `file`, `row` (0: the whole file), `field` ("" for none) and why."""

    def __init__(self, file: str, row: int, field: str, message: str) -> None:
        self.file, self.row, self.field, self.message = file, row, field, message
        super().__init__(str(Problem(file, row, field, message, left_out=False)))


@dataclass(slots=True)
class Problems:
    """All problems of the files of one trace."""

    named: list[Problem] = field(default_factory=list)
    """The first ones, in the order of their rows within each check."""
    counts: Counter[tuple[str, str, str, bool]] = field(default_factory=Counter)
    """(file, field, kind, left out) -> rows."""
    bad_rows: set[tuple[str, int]] = field(default_factory=set)
    """(file, row) of every row with something wrong: it is left out or was mended."""

    def add(self, problem: Problem) -> None:
        self.counts[problem.file, problem.field, problem.kind, problem.left_out] += 1
        if problem.row and problem.wrong:
            self.bad_rows.add((problem.file, problem.row))
        if len(self.named) < NAMED_MAX:
            self.named.append(problem)

    def note(self, file: str, message: str, field: str = "") -> None:
        """A peculiarity of a whole file. It does not count as a bad row."""
        self.add(Problem(file, 0, field, message, left_out=False))

    def extend(self, other: "Problems") -> None:
        self.named.extend(other.named[: NAMED_MAX - len(self.named)])
        self.counts.update(other.counts)
        self.bad_rows |= other.bad_rows

    @property
    def left_out(self) -> int:
        """How many rows are left out."""
        return sum(count for (_, _, _, out), count in self.counts.items() if out)

    def lines(self) -> Iterator[str]:
        """One line for each kind of problem: how many rows, and the first of them."""
        for (file, name, kind, out), count in self.counts.items():
            examples = [
                problem
                for problem in self.named
                if (problem.file, problem.field, problem.kind, problem.left_out)
                == (file, name, kind, out)
            ][:EXAMPLES_MAX]
            if examples and not examples[0].row:
                yield str(examples[0])
                continue
            what = f": {name}" if name else ""
            fate = "left out" if out else "mended"
            first = ", ".join(
                f"row {problem.row}{f' ({problem.detail})' if problem.detail else ''}"
                for problem in examples
            )
            more = ", ..." if count > len(examples) else ""
            yield f"{file}{what}: {kind}: {count} row{'s'[: count > 1]} {fate}: {first}{more}"

    def check(self, file: str, rows: int, tolerated: Fraction) -> None:
        """Raises TraceError when more than the tolerated share of `rows` rows of the file is
        bad.
        """
        bad = sum(1 for name, _ in self.bad_rows if name == file)
        if not bad or bad <= tolerated * rows:
            return
        first = next(problem for problem in self.named if problem.file == file and problem.row)
        share = f"{100 * bad / rows:.1f} %"
        message = (
            f"{bad} of {rows} rows are bad ({share}), more than the "
            f"{float(100 * tolerated):g} % that are "
            f"tolerated (badRows); the first is row {first.row}: {first.field}: {first.kind}"
        )
        raise TraceError(file, 0, "", f"{message}{f' ({first.detail})' if first.detail else ''}")
