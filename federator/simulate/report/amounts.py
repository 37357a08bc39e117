"""Numbers as people read them: lengths of time, amounts of resources, shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

UNITS: Final[Mapping[str, tuple[int, str]]] = {
    "cpu": (1000, "cores"),
    "memory": (1024, "GiB"),
    "gpu": (1, "GPUs"),
}
"""Resource -> how many of the units that simulations count in make one of the units people read."""
DAY_S: Final = 86_400
_LENGTHS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def length(seconds: float) -> str:
    """A length of time in its two largest units.

    45 -> 45 s; 7500 -> 2 h 5 min; 90000 -> 1 d 1 h
    """
    whole = round(seconds)
    if whole < 0:
        return f"-{length(-whole)}"
    for at, (size, unit) in enumerate(_LENGTHS):
        if whole >= size:
            rest = whole % size
            below = (
                f" {rest // _LENGTHS[at + 1][0]} {_LENGTHS[at + 1][1]}"
                if at + 1 < len(_LENGTHS)
                else ""
            )
            return f"{whole // size} {unit}" + ("" if below.startswith(" 0 ") else below)
    return "0 s"


@dataclass(frozen=True, slots=True)
class Clock:
    """Instants as people read them: dates in UTC where the start has one, else the time since the
    start."""

    origin_s: int = 0
    """Epoch seconds of the start; 0 for none."""

    @property
    def heading(self) -> str:
        """Of a column of instants."""
        return "at (UTC)" if self.origin_s else "after"

    def at(self, since_s: float) -> str:
        """Clock(1506816000).at(7500) -> 2017-10-01 02:05; Clock().at(7500) -> 2 h 5 min"""
        return self._date(since_s, "%Y-%m-%d %H:%M") if self.origin_s else length(since_s)

    def tick(self, since_s: float) -> str:
        """The same below an axis, shorter: 10-01 02:05, and 10-01 at midnight."""
        if not self.origin_s:
            return length(since_s)
        return self._date(since_s, "%m-%d %H:%M").removesuffix(" 00:00")

    def iso(self, since_s: float) -> str:
        """2017-10-01T02:05:00Z; "" without an origin."""
        return self._date(since_s, "%Y-%m-%dT%H:%M:%SZ") if self.origin_s else ""

    def _date(self, since_s: float, form: str) -> str:
        return datetime.fromtimestamp(self.origin_s + round(since_s), UTC).strftime(form)


def whole(number: float) -> str:
    """A number with thousands apart, with one decimal below 10 where it has any.

    1234567 -> 1,234,567; 2.25 -> 2.2
    """
    return f"{number:,.1f}" if abs(number) < 10 and number != int(number) else f"{number:,.0f}"


def people(resource: str, amount: float) -> float:
    """An amount in the unit that people read: cores, GiB, GPUs."""
    return amount / UNITS.get(resource, (1, ""))[0]


def unit(resource: str) -> str:
    return UNITS.get(resource, (1, resource))[1]


def share(part: float, of: float) -> str:
    """A part in per cent; a dash where there is nothing to be a part of."""
    return f"{100 * part / of:.1f} %" if of else "-"


def counted(number: int, noun: str, many: str = "") -> str:
    """A count with its noun.

    (1, "work") -> 1 work; (2, "work") -> 2 works
    """
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def percentile(ordered: list[int], percent: int) -> int:
    """Of sorted numbers, the one at `n * percent // 100`: `sorted(waits)[n // 2]` for the half. 0
    without any.
    """
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] if ordered else 0
