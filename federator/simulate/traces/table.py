"""A text table with a header, read whole and handed out by column.

Read is a row a line in UTF-8, compressed with gzip or not, with cells between commas, semicolons,
tabs or vertical bars. A byte order mark and CRLF line ends are noted; rows that are not UTF-8 or
have another number of cells are left out.
"""

import csv
import difflib
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from federator.simulate import bounded
from federator.simulate.traces.dialect import FOUND, Dialect
from federator.simulate.traces.problems import Problem, Problems, TraceError

BYTES_MAX: Final = 2 << 30
"""Of one file, unpacked: an archive of zeros must not fill the memory."""
ROWS_MAX: Final = 4_000_000
"""Of one file: each takes about 1 KiB while it is read, and as much while it is simulated."""
_LINE_MAX: Final = 1 << 20
BOM: Final = "\ufeff"
NUL: Final = "\0"
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Table:
    """A table by column. Rows that cannot be read at all are not in it."""

    file: str
    header: tuple[str, ...]
    rows: Sequence[int]
    """The number of each row in the file."""
    columns: Sequence[Sequence[str]]
    """The cells of each column of `header`, in the order of `rows`."""
    read: int
    """Rows in the file, without the header and empty lines."""
    decimal: str = ""
    """The decimal mark that the scenario states; "" where it is found out by column."""

    def column(self, name: str) -> Sequence[str]:
        """The cells of a column. Raises TraceError when there is none of this name."""
        if name in self.header:
            return self.columns[self.header.index(name)]
        near = difflib.get_close_matches(name, self.header, 1)
        hint = f" (is it {near[0]!r}?)" if near else ""
        raise TraceError(
            self.file, 1, name, f"there is no such column{hint}; there are {self.listed}"
        )

    @property
    def listed(self) -> str:
        """The names of the columns, for a message; the file may be no table at all."""
        shown = [name if len(name) <= 40 else f"{name[:37]}..." for name in self.header]
        return ", ".join((*shown[:40], *["..."][: len(shown) > 40]))


def first_line_of(path: Path) -> str:
    """The first line without its end; the rest of the file is not read. Raises TraceError."""
    with _named(path):
        bounded.check(path, BYTES_MAX)
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            with gzip.open(file) if packed else file as text:
                data = text.readline(_LINE_MAX)
    return data.decode("utf-8", "surrogateescape").removeprefix(BOM).rstrip("\r\n")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read is an error that names it."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as trouble:
        why = getattr(trouble, "strerror", None) or str(trouble)
        raise TraceError(path.name, 0, "", f"cannot be read: {why}") from None


def text_of(path: Path, problems: Problems) -> str:
    """The text of a file. What is not UTF-8 is kept as surrogates, for its row to be named."""
    with _named(path):
        data = bounded.read(path, BYTES_MAX)
        if data[:2] == _GZIP:
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise TraceError(path.name, 0, "", f"is longer than {BYTES_MAX >> 30} GiB")
    rows = data.count(b"\n")
    if rows > ROWS_MAX:
        why = (
            f"is one of {rows:,} lines, and at most {ROWS_MAX:,} are read; cut it to a shorter time"
        )
        raise TraceError(path.name, ROWS_MAX + 1, "", why)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise TraceError(path.name, 0, "", "is UTF-16; save it as UTF-8")
    text = data.decode("utf-8", "surrogateescape")
    if text.startswith(BOM):
        problems.note(path.name, "begins with a byte order mark, which is ignored")
        text = text.removeprefix(BOM)
    return text


def lines_of(text: str, file: str, problems: Problems) -> list[str]:
    """The lines without their ends. CRLF is noted: for the file, or by row where only some
    have it.
    """
    lines = text.split("\n")
    if "\r" not in text:
        return lines
    ended = [at for at, line in enumerate(lines, 1) if line.endswith("\r")]
    if len(ended) >= len(lines) - 1:
        problems.note(file, f"has CRLF line ends ({len(ended)} lines), read as line ends")
    else:
        for row in ended:
            problems.add(
                Problem(
                    file,
                    row,
                    "",
                    "ends in CRLF where other rows do not, read as a line end",
                    "",
                    False,
                )
            )
    return [line.removesuffix("\r") for line in lines]


def header_of(line: str, dialect: Dialect) -> tuple[str, ...]:
    """The names of the columns. An end like `sacct -p` writes it, with one more separator, is no
    column."""
    own = dialect.of(line)
    cells = next(csv.reader([line], delimiter=own.separator, quotechar=own.quote), ())
    names = tuple(cell.strip() for cell in cells)
    return names[:-1] if len(names) > 1 and not names[-1] else names


def read(path: Path, problems: Problems, dialect: Dialect = FOUND) -> Table:
    """Reads a table. Raises TraceError when the file has no header or cannot be read."""
    file = path.name
    lines = lines_of(text_of(path, problems), file, problems)
    if not lines[0].strip():
        raise TraceError(file, 1, "", "has no header: the first row names the columns")
    header, dialect = header_of(lines[0], dialect), dialect.of(lines[0])
    double = next((name for name in header if header.count(name) > 1), None)
    if double is not None:
        raise TraceError(file, 1, double, "two columns have this name")
    numbers, cells = _cells(lines, header, file, problems, dialect)
    columns: Sequence[Sequence[str]] = (
        list(zip(*cells, strict=True)) if cells else [()] * len(header)
    )
    read = sum(1 for line in lines[1:] if line)
    return Table(file, header, numbers, columns, read, dialect.decimal)


def _cells(
    lines: Sequence[str], header: Sequence[str], file: str, problems: Problems, dialect: Dialect
) -> tuple[list[int], list[list[str]]]:
    """The rows that have their cells, with their numbers."""
    width = len(header)
    numbers: list[int] = []
    cells: list[list[str]] = []
    reader = csv.reader(lines[1:], delimiter=dialect.separator, quotechar=dialect.quote)
    before = 0
    try:
        for row in reader:
            at, before = before + 2, reader.line_num
            if len(row) == width + 1 and not row[-1]:
                row.pop()
            if len(row) == width and before == at - 1:
                numbers.append(at)
                cells.append(row)
            elif row:
                over = before != at - 1
                kind = (
                    "a quotation mark is not closed in its row"
                    if over
                    else f"has not {width} cells as the header"
                )
                problems.add(Problem(file, at, "", kind, "" if over else f"{len(row)}"))
    except csv.Error as trouble:
        raise TraceError(
            file,
            reader.line_num + 1,
            "",
            f"cannot be read as values between {dialect.name}: {trouble}",
        ) from None
    if all(map(str.isascii, lines)) and not any(NUL in line for line in lines):
        return numbers, cells
    return _texts(numbers, cells, header, file, problems)


def _texts(
    numbers: list[int],
    cells: list[list[str]],
    header: Sequence[str],
    file: str,
    problems: Problems,
) -> tuple[list[int], list[list[str]]]:
    """Without the rows that are not UTF-8 or have a NUL."""
    bad: set[int] = set()
    for at, row in enumerate(cells):
        if "".join(row).isprintable():  # neither a NUL nor a surrogate is
            continue
        for name, cell in zip(header, row, strict=True):
            kind = _not_text(cell)
            if kind:
                problems.add(Problem(file, numbers[at], name, kind))
                bad.add(at)
                break
    if not bad:
        return numbers, cells
    kept = [at for at in range(len(cells)) if at not in bad]
    return [numbers[at] for at in kept], [cells[at] for at in kept]


def _not_text(cell: str) -> str:
    """Why a cell is no text; "" where it is."""
    if NUL in cell:
        return "holds a NUL character"
    return "is not UTF-8 text" if any("\ud800" <= char <= "\udfff" for char in cell) else ""
