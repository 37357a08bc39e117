"""When a row of the benchmark is good enough, and how rows are printed and written.

`run.py` is the program; `rows.py` has the rows and their gates; the other files measure. Nothing
here takes a time.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from tests.bench.rows import ROWS, Against, Row


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured for one row. `failed` says why there is no figure."""

    id: str
    ours: float = 0.0
    floor: float | None = None
    notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A result beside its row."""

    row: Row
    result: Result
    gate: float
    """Scaled, where the row is a rate."""
    ok: bool

    @property
    def ratio(self) -> float | None:
        """ours / floor; None without a floor."""
        floor = self.result.floor
        return None if self.result.failed or not floor else self.result.ours / floor

    def as_dict(self) -> dict[str, Any]:
        """The object of build/bench.json."""
        failed = bool(self.result.failed)
        return {
            "id": self.row.id,
            "what": self.row.what,
            "ours": None if failed else _short(self.result.ours),
            "floor": None if self.result.floor is None else _short(self.result.floor),
            "ratio": None if self.ratio is None else _short(self.ratio),
            "gate": _short(self.gate),
            "against": self.row.against.value,
            "unit": self.row.unit,
            "ok": self.ok,
            "preview": self.row.preview,
            "failed": self.result.failed,
            "notes": dict(self.result.notes),
        }


def judge(row: Row, result: Result, speed: float) -> Judged:
    """`speed`: calibration score here / reference; only rates are scaled by it."""
    if row.against is Against.LEAST:
        gate = row.gate * speed
        ok = result.ours >= gate
    elif row.against is Against.OFFERED:
        gate, ok = row.gate, result.ours >= row.gate
    elif row.against is Against.MOST:
        gate, ok = row.gate, result.ours <= row.gate
    else:
        gate = row.gate
        ok = result.floor is not None and result.floor > 0 and result.ours / result.floor <= gate
    return Judged(row, result, gate, ok and not result.failed)


def chosen(only: str) -> tuple[Row, ...]:
    """The rows of a list such as `S1,S4` ("" for all). What several rows tell of one benchmark goes
    by what their ids have in common: `C3` is C3l and C3m. Raises ValueError with the ids there
    are."""
    if not only:
        return ROWS
    wanted: set[str] = set()
    for name in (name.strip() for name in only.split(",")):
        ids = {row.id for row in ROWS if row.id == name}
        ids = ids or {row.id for row in ROWS if name and row.id.rstrip(ascii_lowercase) == name}
        if name and not ids:
            known = ", ".join(row.id for row in ROWS)
            raise ValueError(f"there is no row {name}; there are {known}")
        wanted |= ids
    return tuple(row for row in ROWS if row.id in wanted)


def table(judged: Sequence[Judged]) -> str:
    """The table as people read it."""
    head = ("id", "ours", "floor", "ratio", "gate", "unit", "ok", "what")
    lines = [head, *(_cells(one) for one in judged)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join(shown)


def _cells(one: Judged) -> tuple[str, ...]:
    result, row = one.result, one.row
    if result.failed:
        return (row.id, "-", "-", "-", _bound(one), row.unit, "no", f"{row.what}: {result.failed}")
    return (row.id, *figures(one), row.what)


def figures(one: Judged) -> tuple[str, str, str, str, str, str]:
    """(ours, floor, ratio, gate, unit, verdict) of a row that was measured, as text; "-" for what
    it has not.
    """
    floor = "-" if one.result.floor is None else _number(one.result.floor)
    ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
    verdict = "yes" if one.ok else "preview" if one.row.preview else "no"
    return (_number(one.result.ours), floor, ratio, _bound(one), one.row.unit, verdict)


def _bound(one: Judged) -> str:
    return bound(one.row, one.gate)


def bound(row: Row, gate: float) -> str:
    """A gate as text, such as `<= 1.4x`."""
    sign = ">= " if row.against in (Against.LEAST, Against.OFFERED) else "<= "
    return sign + _number(gate) + ("x" if row.against is Against.FLOOR else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that at least `percent` of all are not above. Raises ValueError without
    values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile of nothing")
    position = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(position)]


def middle(values: Iterable[float]) -> float:
    """The median."""
    return statistics.median(values)
