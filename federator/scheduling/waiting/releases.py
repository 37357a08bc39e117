"""What is learned from work that has ended: how long work runs, and what part of the time that it
says. Pure."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ENOUGH: Final = 20
"""Ends of a project, else of all projects, from which something is learned."""
ALL: Final = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that has ended."""

    project: str
    ran_s: float
    said_s: int | None
    """How long it said to run at most; None when it did not say."""


class Releases:
    """Ends of the past. Mutable, for one owner."""

    def __init__(self, ended: Iterable[Ran] = ()) -> None:
        self._runs: dict[str, list[float]] = {}
        self._parts: dict[str, list[float]] = {}
        """Of what it said, what a job ran."""
        for ran in ended:
            self.add(ran)

    def add(self, ran: Ran) -> None:
        for project in (ran.project, ALL):
            bisect.insort(self._runs.setdefault(project, []), ran.ran_s)
            if ran.said_s:
                bisect.insort(self._parts.setdefault(project, []), ran.ran_s / ran.said_s)

    def left_s(
        self, project: str, age_s: float, said_s: int | None, quantile: float
    ) -> float | None:
        """Seconds that a job of this age still runs: so many of those that ran longer than that
        were shorter (`quantile`). None where nothing says when it ends."""
        if said_s:
            parts = _of(self._parts, project)
            longer = parts[bisect.bisect_right(parts, age_s / said_s) :]
            part = _quantile(longer, quantile) if longer else 1.0
            return max(part * said_s - age_s, 0.0)
        runs = _of(self._runs, project)
        if not runs:
            return None
        longer = runs[bisect.bisect_right(runs, age_s) :]
        # longer than any before: as long again
        return _quantile(longer, quantile) - age_s if longer else age_s


def _of(every: Mapping[str, Sequence[float]], project: str) -> Sequence[float]:
    own, whole = every.get(project, ()), every.get(ALL, ())
    if len(own) >= ENOUGH:
        return own
    return whole if len(whole) >= ENOUGH else ()


def _quantile(rising: Sequence[float], quantile: float) -> float:
    return rising[min(int(quantile * len(rising)), len(rising) - 1)]
