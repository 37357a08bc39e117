"""The report of a sweep: a sentence, a table, a page with the frontier, JSON and CSV."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator import __version__
from federator.simulate.report import amounts, charts, figures
from federator.simulate.report.charts import Dot
from federator.simulate.report.page import Table, environment
from federator.simulate.sweep.frontier import COST, MOVES, WAITING, Found, Group
from federator.simulate.sweep.plan import Plan

PAGE: Final = "sweep.html"
HOUR_S: Final = 3600
SHOWN: Final = ("never_started", "wait_p99_s")
"""Figures of every row besides the axes."""
NAMES: Final = {
    COST: "cost",
    WAITING: "missing",
    MOVES: "copies moved",
    "never_started": "never started",
    "wait_p99_s": "99 of 100 within",
}


def name(key: str) -> str:
    return NAMES.get(key, key.replace("_", " "))


def verdict(found: Found) -> str:
    """What came out, in one sentence."""
    best = [group for group in found.groups if group.best]
    if not best:
        return "Nothing was run."
    first = found.axes[0]
    cheap = min(best, key=lambda group: (group.figures[first], group.figures[WAITING], group.point))
    quick = min(best, key=lambda group: (group.figures[WAITING], group.figures[first], group.point))
    runs = (
        f"{amounts.counted(found.runs, 'simulation')} of "
        f"{amounts.counted(len(found.groups), 'combination')}"
    )
    if cheap is quick:
        return (
            f"{runs}: least in {name(first)} ({_cell(cheap, first)}) and in waiting at once: "
            f"{cheap.title}."
        )
    return (
        f"{runs}: {len(best)} are not beaten; least {name(first)} is {cheap.title} "
        f"({_cell(cheap, first)}, missing "
        f"{_cell(cheap, WAITING)}), least waiting is {quick.title} ({_cell(quick, first)}, missing "
        f"{_cell(quick, WAITING)})."
    )


def _cell(group: Group, key: str) -> str:
    return figures.shown(key, group.figures[key])


def table(found: Found, fields: Sequence[str]) -> Table:
    """A row for each combination: those that are not beaten first."""
    keys = (*found.axes, *SHOWN)
    headers = ["frontier", *fields, "seeds", *(name(key) for key in keys), "missing, by seed"]
    rows = [
        [
            "yes" if group.best else "",
            *(dict(group.point).get(field, "") for field in fields),
            str(group.seeds),
            *(_cell(group, key) for key in keys),
            (
                f"{amounts.whole(group.least[WAITING] / HOUR_S)} to "
                f"{amounts.whole(group.most[WAITING] / HOUR_S)}"
            ),
        ]
        for group in found.groups
    ]
    return Table(headers, rows)


def fields(found: Found) -> list[str]:
    return list(dict.fromkeys(field for group in found.groups for field, _ in group.point))


def files(plan: Plan, found: Found, results: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Name -> content; the same bytes for the same results, however often the sweep was
    interrupted.
    """
    document = {
        "name": found.name,
        "verdict": verdict(found),
        "version": __version__,
        "axes": list(found.axes),
        "combinations": [
            {
                "point": dict(group.point),
                "seeds": group.seeds,
                "frontier": group.best,
                "mean": dict(group.figures),
                "least": dict(group.least),
                "most": dict(group.most),
            }
            for group in found.groups
        ],
    }
    return {
        PAGE: render(found).encode(),
        "sweep.json": (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(),
        "runs.csv": _runs(plan, results),
    }


def _runs(plan: Plan, results: Mapping[str, Mapping[str, Any]]) -> bytes:
    """One row for each simulation, in the order of the plan."""
    ran = [task for task in plan.tasks if task.id in results]
    varied = list(dict.fromkeys(field for task in ran for field, _ in task.point))
    keys = list(dict.fromkeys(key for task in ran for key in results[task.id]["figures"]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*varied, *keys])
    for task in ran:
        point, numbers = dict(task.point), results[task.id]["figures"]
        writer.writerow(
            [*(point.get(field, "") for field in varied), *(numbers.get(key, "") for key in keys)]
        )
    return file.getvalue().encode()


def render(found: Found) -> str:
    """The page."""
    first = found.axes[0]
    dots = [
        Dot(
            group.figures[first],
            group.figures[WAITING] / HOUR_S,
            group.figures[MOVES],
            group.title,
            strong=group.best,
        )
        for group in found.groups
    ]
    words = (
        "Each dot is a combination, averaged over its seeds: to the left is less "
        f"{name(first)}, further down"
        " less waiting, and a larger dot moves more copies. Filled dots are not beaten in "
        "all three by any other."
    )
    chart = charts.scatter(
        "frontier",
        f"{name(first)} against copy-hours missing",
        words,
        dots,
        x=amounts.whole,
        y=amounts.whole,
    )
    return (
        environment()
        .get_template("sweep.html.j2")
        .render(
            found=found,
            verdict=verdict(found),
            version=__version__,
            words=words,
            chart=chart,
            axis=name(first),
            table=table(found, fields(found)),
        )
    )
