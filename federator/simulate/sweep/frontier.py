"""What a sweep came to: its combinations averaged over seeds, and under each question the choices
that no other beats.

A question is what nobody chooses (demand, failures); a choice is fleet, policies and quotas. Two
choices are compared under the same question only: less demand does not make a better fleet.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federator.simulate.sweep.plan import Plan

WAITING: Final = "missing_copy_s"
"""Waiting, as the frontier counts it: missing copies times time. What never starts counts to the
end, so a fleet that starts nothing is not one without waiting.
"""
MOVES: Final = "moves"
COST: Final = "cost"


@dataclass(frozen=True, slots=True)
class Group:
    """One combination of everything but the seed."""

    point: tuple[tuple[str, str], ...]
    question: tuple[tuple[str, str], ...]
    """The part of the point that nobody chooses."""
    seeds: int
    figures: Mapping[str, float]
    """Means over the seeds."""
    least: Mapping[str, float]
    most: Mapping[str, float]
    best: bool = False
    """Whether it is on the frontier of its question: no other choice waits and costs as little or
    less, and one of them less. Where both are equal, the one that moves less is."""

    @property
    def title(self) -> str:
        return titled(self.point)

    @property
    def choice(self) -> tuple[tuple[str, str], ...]:
        """The rest of the point."""
        return tuple(pair for pair in self.point if pair not in self.question)


def titled(point: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{field}={value}" for field, value in point) or "as it is"


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that a sweep's report shows."""

    name: str
    runs: int
    axes: tuple[str, ...]
    """Figures that choices are compared by: cost (without prices the capacity), waiting, moves."""
    groups: tuple[Group, ...]
    """By question; on the frontier first, then by waiting and cost."""
    measured: tuple[str, ...] = ()
    """Of which time means and cost are, in a sentence; several where `until` or `warmUp` is varied.
    """

    @property
    def questions(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        return tuple(dict.fromkeys(group.question for group in self.groups))


def summarize(plan: Plan, results: Mapping[str, Mapping[str, Any]]) -> Summary:
    groups: dict[tuple[tuple[str, str], ...], list[Mapping[str, float]]] = defaultdict(list)
    for task in plan.tasks:
        if task.id in results:
            groups[task.group].append(results[task.id]["figures"])
    rows = [
        _group(point, tuple(pair for pair in point if pair[0] in plan.questions), runs)
        for point, runs in groups.items()
    ]
    axes = _axes(rows)
    marked = []
    for question in dict.fromkeys(row.question for row in rows):
        under = [row for row in rows if row.question == question]
        best = unbeaten([tuple(row.figures[axis] for axis in axes) for row in under])
        answers = [replace(row, best=at in best) for at, row in enumerate(under)]
        marked += sorted(answers, key=lambda row: _order(row, axes))
    measured = dict.fromkeys(
        results[task.id]["measured"] for task in plan.tasks if task.id in results
    )
    runs = sum(map(len, groups.values()))
    return Summary(plan.name, runs, axes, tuple(marked), tuple(measured))


def _order(row: Group, axes: Sequence[str]) -> tuple[object, ...]:
    """On the frontier first, then what waits least."""
    return not row.best, row.figures[WAITING], *(row.figures[axis] for axis in axes), row.point


def _group(
    point: tuple[tuple[str, str], ...],
    question: tuple[tuple[str, str], ...],
    runs: Sequence[Mapping[str, float]],
) -> Group:
    keys = [key for key in runs[0] if all(key in run for run in runs)]
    return Group(
        point,
        question,
        len(runs),
        {key: sum(run[key] for run in runs) / len(runs) for key in keys},
        {key: min(run[key] for run in runs) for key in keys},
        {key: max(run[key] for run in runs) for key in keys},
    )


def _axes(rows: Sequence[Group]) -> tuple[str, ...]:
    """Cost where every combination has one; else the capacity of the resource that is used most."""
    if not rows:
        return (WAITING, MOVES)
    if all(COST in row.figures for row in rows):
        return (COST, WAITING, MOVES)
    used = [
        key
        for key in rows[0].figures
        if key.startswith("use_mean_") and all(key in row.figures for row in rows)
    ]
    if not used:
        return (WAITING, MOVES)
    busiest = max(used, key=lambda key: (sum(row.figures[key] for row in rows), key))
    return (busiest.replace("use_mean_", "capacity_"), WAITING, MOVES)


def unbeaten(points: Sequence[tuple[float, ...]]) -> set[int]:
    """Of points with the moves as last number, those that none beats in the others. Moves decide
    among equals only: that little is moved is no merit of a fleet that starts little.

    [(1, 9, 5), (1, 9, 4), (2, 3, 0), (3, 3, 0)] -> {1, 2}
    """
    best = frontier([point[:-1] for point in points])
    least: dict[tuple[float, ...], float] = {}
    for at in best:
        point = points[at]
        least[point[:-1]] = min(point[-1], least.get(point[:-1], point[-1]))
    return {at for at in best if points[at][-1] == least[points[at][:-1]]}


def frontier(points: Sequence[tuple[float, ...]]) -> set[int]:
    """The points that no other beats: none is as small in every number and smaller in one.

    [(1, 9), (2, 3), (3, 3)] -> {0, 1}
    """
    best: set[int] = set()
    for at in sorted(range(len(points)), key=lambda number: points[number]):
        beaten = any(
            points[other] != points[at]
            and all(theirs <= mine for theirs, mine in zip(points[other], points[at], strict=True))
            for other in best
        )
        if not beaten:
            best.add(at)
    return best
