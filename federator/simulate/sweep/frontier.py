"""What a sweep found: its combinations averaged over seeds, and those that no other beats in
everything.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    seeds: int
    figures: Mapping[str, float]
    """Means over the seeds."""
    least: Mapping[str, float]
    most: Mapping[str, float]
    best: bool = False
    """Whether it is on the frontier: no other costs, waits and moves as little or less, and one of
    them less.
    """

    @property
    def title(self) -> str:
        return ", ".join(f"{field}={value}" for field, value in self.point) or "as it is"


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that a sweep's report shows."""

    name: str
    runs: int
    axes: tuple[str, ...]
    """Figures that the frontier weighs against each other: cost (without prices the capacity),
    waiting, moves.
    """
    groups: tuple[Group, ...]
    """On the frontier first, then by cost and waiting."""


def summarize(plan: Plan, results: Mapping[str, Mapping[str, Any]]) -> Summary:
    """From the results of all tasks that have one."""
    groups: dict[tuple[tuple[str, str], ...], list[Mapping[str, float]]] = defaultdict(list)
    for task in plan.tasks:
        if task.id in results:
            groups[task.group].append(results[task.id]["figures"])
    rows = [_group(point, runs) for point, runs in groups.items()]
    axes = _axes(rows)
    best = frontier([tuple(row.figures[axis] for axis in axes) for row in rows])
    marked = [
        Group(row.point, row.seeds, row.figures, row.least, row.most, at in best)
        for at, row in enumerate(rows)
    ]
    order = sorted(
        marked, key=lambda row: (not row.best, *(row.figures[axis] for axis in axes), row.point)
    )
    return Summary(plan.name, sum(map(len, groups.values())), axes, tuple(order))


def _group(point: tuple[tuple[str, str], ...], runs: Sequence[Mapping[str, float]]) -> Group:
    keys = [key for key in runs[0] if all(key in run for run in runs)]
    return Group(
        point,
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
