"""What a page shows of one subject: a chart with its words and its table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

ROWS_MAX: Final = 300
"""Rows of one table of the page; all are in the CSV files."""


@dataclass(frozen=True, slots=True)
class Table:
    """Figures beside a chart."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart with its words and its table."""

    ident: str
    title: str
    words: str
    chart: Markup
    table: Table
    legend: Markup = field(default_factory=Markup)
    shows: bool = True
    """Whether there is anything to draw."""


def table_of(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(headers, rows[:ROWS_MAX], max(len(rows) - ROWS_MAX, 0))
