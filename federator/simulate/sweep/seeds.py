"""One scenario with several seeds: how much of an answer is chance, and whether two scenarios
differ by more than it.

The interval of a median is that of the sign test, from the order of the values alone (Conover,
Practical Nonparametric Statistics, 3rd edition, section 3.2). It assumes no distribution.

    differences 1, 2, 4, 5, 7, 9: the median lies between 1 and 9 with 1 - 2 / 2^6 = 96.9 %
"""

import hashlib
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from federator.model.errors import FieldError
from federator.simulate.engine import run as engine
from federator.simulate.report import figures, measures
from federator.simulate.report.figures import FIRST, Better
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import Document, InvalidScenario
from federator.simulate.sweep import window
from federator.simulate.sweep.plan import SEED, Task
from federator.simulate.sweep.running import Result
from federator.simulate.traces.problems import TraceError

CONFIDENCE: Final = 0.95
LEAST: Final = 6
"""Seeds below which no interval has that confidence: 1 - 2 / 2^5 is 93.75 %."""


class Failed(ValueError):
    """A simulation could not be run; the message names the seed."""


@dataclass(frozen=True, slots=True)
class Chance:
    """A figure over the seeds."""

    key: str
    name: str
    better: Better
    values: tuple[float, ...]
    """In the order of the seeds."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Paired:
    """A figure of two scenarios, seed by seed."""

    before: Chance
    after: Chance

    @property
    def differences(self) -> tuple[float, ...]:
        pairs = zip(self.before.values, self.after.values, strict=True)
        return tuple(after - before for before, after in pairs)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the median difference; None with too few seeds."""
        return interval(self.differences)

    @property
    def verdict(self) -> str:
        """`better` or `worse` only where the interval leaves out 0; `other` for a figure that is
        neither; "" where chance alone may explain the difference."""
        if self.interval is None or self.interval[0] <= 0 <= self.interval[1]:
            return ""
        if self.before.better is Better.NEITHER:
            return "other"
        return (
            "better" if (self.interval[0] < 0) == (self.before.better is Better.LESS) else "worse"
        )


def tasks(
    document: Document, file: Path, count: int, other: tuple[Path, Document] | None = None
) -> list[Task]:
    """`count` simulations with the scenario's own seed and those after it; with `other` each beside
    one of that scenario with the same seed, over the same time. Raises InvalidScenario."""
    first = loading.scenario(document, str(file)).seed
    planned = []
    for seed in range(first, first + count):
        both = [(str(file), {**document, SEED: seed})]
        if other is not None:
            both.append((str(other[0]), {**other[1], SEED: seed}))
        text = json.dumps(both, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        planned.append(Task(digest, ((SEED, str(seed)),), text, str(file)))
    return planned


def simulated(task: Task) -> Result:
    """The figures of one seed; what is wrong with its input is a result too. Runs anywhere."""
    try:
        made = [
            loading.inputs(document, Path(file), os.environ)
            for file, document in json.loads(task.document)
        ]
        if len(made) > 1:
            both = window.of_both(*made)
            made = [both.made, both.other]
        measured = [measures.measure(engine.run(each)) for each in made]
    except (InvalidScenario, TraceError, FieldError, ValueError) as bad:
        return {"id": task.id, "error": str(bad)}
    return {
        "id": task.id,
        "figures": [_figures(each) for each in measured],
        "missed": [measure.wanted.name for measure in figures.missed(measured[0])],
    }


def _figures(measured: measures.Measures) -> list[tuple[str, str, float, str]]:
    return [
        (figure.key, figure.name, figure.value, figure.better.value)
        for figure in figures.figures(measured)
    ]


def chances(
    planned: Sequence[Task], results: Mapping[str, Result], of: int = 0
) -> tuple[Chance, ...]:
    """Each figure that all seeds have, over the seeds; `of` 1: of the other scenario. Raises
    Failed."""
    for task in planned:
        if "error" in results[task.id]:
            raise Failed(f"{task.point[0][0]} {task.point[0][1]}: {results[task.id]['error']}")
    rows = [{row[0]: row for row in results[task.id]["figures"][of]} for task in planned]
    return tuple(
        Chance(key, name, Better(better), tuple(float(row[key][2]) for row in rows))
        for key, name, _, better in rows[0].values()
        if all(key in row for row in rows)
    )


def missed(planned: Sequence[Task], results: Mapping[str, Result]) -> dict[str, int]:
    """Measure of the scenario -> in how many seeds it is out of its bounds."""
    counts: dict[str, int] = {}
    for task in planned:
        for name in results[task.id]["missed"]:
            counts[name] = counts.get(name, 0) + 1
    return counts


def paired(before: Sequence[Chance], after: Sequence[Chance]) -> tuple[Paired, ...]:
    """Figures that both have. What is surely better or worse comes first, of these what planners
    ask for first."""
    theirs = {chance.key: chance for chance in before}
    rows = [Paired(theirs[chance.key], chance) for chance in after if chance.key in theirs]

    def order(row: Paired) -> tuple[bool, int]:
        key = row.after.key
        place = FIRST.index(key) if key in FIRST else len(FIRST)
        return row.verdict not in ("better", "worse"), place

    return tuple(sorted(rows, key=order))


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The narrowest pair of values of equal rank from both ends between which the median lies with
    95 %; None for fewer than 6 values."""
    ordered, count = sorted(values), len(values)
    outside, rank = 2 * 0.5**count, 0
    if outside > 1 - CONFIDENCE:
        return None
    while outside + 2 * math.comb(count, rank + 1) * 0.5**count <= 1 - CONFIDENCE:
        rank += 1
        outside += 2 * math.comb(count, rank) * 0.5**count
    return ordered[rank], ordered[count - 1 - rank]


def document_of(chance: Chance, seeds: Sequence[int]) -> dict[str, Any]:
    """A figure for programs."""
    return {
        "name": chance.name,
        "median": chance.median,
        "least": min(chance.values),
        "most": max(chance.values),
        "bySeed": {str(seed): value for seed, value in zip(seeds, chance.values, strict=True)},
    }
