"""Numbers as people read them: lengths of time, amounts of resources, shares."""

from collections.abc import Mapping
from typing import Final

UNITS: Final[Mapping[str, tuple[int, str]]] = {
    "cpu": (1000, "cores"),
    "memory": (1024, "GiB"),
    "gpu": (1, "GPUs"),
}
"""Resource -> how many of the units that simulations count in make one of the units people read."""
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
