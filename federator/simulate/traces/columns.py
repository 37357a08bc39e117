"""Which column of a table is which field of a work, in which unit, and the cells as exact integers.

Every distinct cell of a column is parsed once. Amounts are rounded up to whole milli-cores, MiB and
GPUs, times to the nearest second.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from federator.simulate.traces import dialect
from federator.simulate.traces.problems import Problem, Problems
from federator.simulate.traces.table import Table

_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,2})?", re.ASCII)
_WITH_UNIT: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?\s*[A-Za-z%µ]{1,10}", re.ASCII)
_NOT_FINITE: Final = frozenset(
    {"nan", "inf", "infinity", "+inf", "-inf", "+infinity", "-infinity", "-nan", "+nan"}
)
UNKNOWN: Final = frozenset({"", "-", "null", "none", "na", "n/a"})
"""Cells, in small letters, that say: not recorded."""

TIME_UNITS: Final[Mapping[str, Fraction]] = {
    "us": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
ISO: Final = "iso"
"""Unit of a submit or end time that is written as an ISO 8601 timestamp; UTC where it names none.
"""
UNITS: Final[Mapping[str, Mapping[str, Fraction]]] = {
    "time": TIME_UNITS,
    "cpu": {"milli": Fraction(1), "cores": Fraction(1000)},
    "memory": {
        "B": Fraction(1, 1 << 20),
        "KiB": Fraction(1, 1024),
        "MiB": Fraction(1),
        "GiB": Fraction(1024),
        "MB": Fraction(10**6, 1 << 20),
        "GB": Fraction(10**9, 1 << 20),
    },
    "gpu": {"gpus": Fraction(1), "milli": Fraction(1, 1000)},
}
"""Quantity -> unit -> its size in the unit of a work: seconds, milli-cores, MiB, GPUs."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A cell that cannot be read: the problem in a few words."""

    kind: str


Parse = Callable[[str], int | Bad | None]
"""A cell as an integer; None: not recorded."""


@dataclass(frozen=True, slots=True)
class Number:
    """How the cells of one field are read."""

    quantity: str = ""
    """A key of UNITS; "" for a plain count."""
    least: int = 0
    most: int = 1 << 31
    """Of one cell in the unit of a work; more is taken for a wrong unit."""
    suspect: str = ""
    """What the column probably is when `most` is exceeded."""
    needed: bool = False


YEARS_30: Final = 30 * 366 * 86400
_ALIKE: Final[Mapping[str, str]] = {
    "checkpoint": "runtime",
    "failsAfter": "runtime",
    "start": "end",
}
"""Field -> the field with the same unit."""
NUMBERS: Final[Mapping[str, Number]] = {
    "submit": Number("time", most=10 * YEARS_30, suspect="milliseconds", needed=True),
    "start": Number("time", most=10 * YEARS_30, suspect="milliseconds"),
    "end": Number("time", most=10 * YEARS_30, suspect="milliseconds"),
    "runtime": Number("time", most=YEARS_30, suspect="milliseconds"),
    "checkpoint": Number("time", least=1, most=YEARS_30, suspect="milliseconds"),
    "shards": Number(least=1, most=10_000_000),
    "cpu": Number("cpu", most=10_000_000, suspect="micro-cores"),
    "memory": Number("memory", most=1 << 28, suspect="bytes or KiB"),
    "gpu": Number("gpu", most=4096, suspect="thousandths"),
    "failures": Number(most=1000),
    "failsAfter": Number("time", least=1, most=YEARS_30, suspect="milliseconds"),
    "backoffLimit": Number(most=1000),
    "priority": Number(least=-(1 << 31), most=1 << 31),
    "nodes": Number(most=1_000_000),
}
"""Field -> how its cells are read."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns by field, and units by quantity. What is not named has the names and units
    of our scenario folders."""

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    """`time`, `cpu`, `memory`, `gpu`, or a single field (`submit`, `runtime`, `end`) -> unit."""

    def unit(self, name: str) -> str:
        """The unit of a field's column, "" for plain counts."""
        quantity = NUMBERS[name].quantity
        defaults = {"time": "s", "cpu": "milli", "memory": "MiB", "gpu": "gpus", "": ""}
        return (
            self.units.get(_ALIKE.get(name, name)) or self.units.get(quantity) or defaults[quantity]
        )


OURS: Final = Columns()
"""Names and units of our scenario folders."""


@dataclass(slots=True)
class Rows:
    """The rows of a table while they are read: places of bad ones, and what is wrong with them."""

    table: Table
    problems: Problems
    bad: set[int] = field(default_factory=set)
    """Places in the table's columns."""

    def refuse(
        self, at: int, column: str, kind: str, detail: str = "", *, wrong: bool = True
    ) -> None:
        """Leaves a row out. The first problem of a row counts. `wrong`: it should not be so."""
        if at not in self.bad:
            row = self.table.rows[at]
            problem = Problem(self.table.file, row, column, kind, detail, wrong=wrong)
            self.problems.add(problem)
            self.bad.add(at)

    def good(self) -> list[int]:
        return [at for at in range(len(self.table.rows)) if at not in self.bad]

    def once(self, column: str, names: Sequence[str]) -> None:
        """Refuses rows without a name, and rows after the first of one name."""
        if len(set(names)) == len(names) and "" not in names:
            return
        first: dict[str, int] = {}
        for at in self.good():
            name = names[at]
            if not name:
                self.refuse(at, column, "is missing")
            elif name in first:
                self.refuse(
                    at, column, "was given before", f"{shortened(name)}, first in row {first[name]}"
                )
            else:
                first[name] = self.table.rows[at]


def numbers(rows: Rows, column: str, name: str, unit: str) -> list[int | None]:
    """The cells of a column as the field `name` reads them, in the order of the table's rows; None
    where nothing is recorded. Rows with a wrong cell are refused."""
    cells = rows.table.column(column)
    parse = _parser(NUMBERS[name], unit)
    distinct = set(cells)
    if any("," in cell for cell in distinct):
        parse = _with_commas(parse, dialect.decimal_of(distinct, rows.table.decimal))
    parsed: dict[str, int | Bad | None] = {cell: parse(cell) for cell in distinct}
    if NUMBERS[name].needed:
        parsed = {
            cell: Bad("is missing") if value is None else value for cell, value in parsed.items()
        }
    wrong = {cell: value.kind for cell, value in parsed.items() if isinstance(value, Bad)}
    if wrong:
        for at, cell in enumerate(cells):
            if cell in wrong:
                rows.refuse(at, column, wrong[cell], shortened(cell))
    values = {cell: None if isinstance(value, Bad) else value for cell, value in parsed.items()}
    return [values[cell] for cell in cells]


def _parser(number: Number, unit: str) -> Parse:
    if unit == ISO:
        return _timestamp
    size = UNITS[number.quantity][unit] if number.quantity else Fraction(1)
    up = number.quantity != "time"
    plain = size == 1

    def parse(cell: str) -> int | Bad | None:
        if plain and cell.isdigit() and cell.isascii() and len(cell) < 19:
            value = int(cell)
        else:
            amount = _amount(cell, unit)
            if amount is None or isinstance(amount, Bad):
                return amount
            exact = amount * size
            value = math.ceil(exact) if up else round(exact)
        if value < number.least:
            return Bad("is negative" if value < 0 else f"is less than {number.least}")
        if value > number.most:
            what = f" for {unit}" if unit else ""
            guess = f"; is the column in {number.suspect}?" if number.suspect else ""
            return Bad(f"is implausibly large{what}{guess}")
        return value

    return parse


def _with_commas(parse: Callable[[str], int | Bad | None], decimal: str) -> Parse:
    """For a column that has commas in its cells."""

    def read(cell: str) -> int | Bad | None:
        if not decimal and "," in cell:
            return Bad("has a comma that may be decimal or group thousands; say csv.decimal")
        return parse(dialect.with_point(cell, decimal) if decimal else cell)

    return read


def _amount(cell: str, unit: str) -> Fraction | Bad | None:
    text = cell.strip()
    small = text.lower()
    if small in UNKNOWN:
        return None
    if small in _NOT_FINITE:
        return Bad("is not a finite number")
    if _NUMBER.fullmatch(text):
        return Fraction(text)
    if unit and _WITH_UNIT.fullmatch(text):
        return Bad(f"has a unit of its own, and the column is in {unit}")
    return Bad("is no number")


def _timestamp(cell: str) -> int | Bad | None:
    if cell.strip().lower() in UNKNOWN:
        return None
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        return Bad("is no ISO 8601 timestamp")
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def texts(table: Table, column: str) -> Sequence[str]:
    """The cells of a column without spaces around them; equal cells are one object."""
    cells = table.column(column)
    stripped = {cell: cell.strip() for cell in set(cells)}
    if len(stripped) == len(cells) and all(cell == text for cell, text in stripped.items()):
        return cells
    return [stripped[cell] for cell in cells]


def shortened(cell: str) -> str:
    """A cell as a message shows it."""
    shown = cell.encode("utf-8", "backslashreplace").decode()
    return repr(shown if len(shown) <= 40 else f"{shown[:37]}...")
