"""The report of a sweep: a sentence, a table, a page with the frontier, JSON and CSV."""

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator import __version__
from federator.simulate.report import amounts, charts, figures, tabular
from federator.simulate.report.charts import Dot
from federator.simulate.report.page import environment
from federator.simulate.report.panels import Table
from federator.simulate.sweep.frontier import COST, MOVES, WAITING, Group, Summary, titled
from federator.simulate.sweep.plan import Plan

PAGE: Final = "sweep.html"
HOUR_S: Final = 3600
NAMED_MAX: Final = 3
"""Choices that a verdict names."""
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


def verdict(summary: Summary) -> str:
    """What came out, in one or two sentences."""
    if not summary.groups:
        return "Nothing was run."
    questions = summary.questions
    runs = (
        f"{amounts.counted(summary.runs, 'simulation')} of "
        f"{amounts.counted(len(summary.groups), 'combination')}"
    )
    if len(questions) == 1:
        return f"{runs}: {_under_one_question(summary)}"
    choices: Counter[tuple[tuple[str, str], ...]] = Counter()
    for group in summary.groups:
        choices[group.choice] += group.best
    asked = f"{runs}, under {len(questions)} questions"
    if len(choices) == 1:
        worst = max(summary.groups, key=lambda group: (group.figures[WAITING], group.point))
        return (
            f"{asked}: most is missing under {titled(worst.question)} ({_cell(worst, WAITING)})."
            " Nothing was varied that can be chosen: vary fleet, policies or quotas."
        )
    most = max(choices.values())
    named = [titled(choice) for choice, times in choices.items() if times == most]
    others = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return (
        f"{asked}: under {'all' if most == len(questions) else most} of them no other choice beats"
        f" {'; '.join(named[:NAMED_MAX])}{others}."
    )


def _under_one_question(summary: Summary) -> str:
    best = [group for group in summary.groups if group.best]
    first = summary.axes[0]
    cheap = min(best, key=lambda group: (group.figures[first], group.figures[WAITING], group.point))
    quick = min(best, key=lambda group: (group.figures[WAITING], group.figures[first], group.point))
    if cheap is quick:
        return (
            f"least in waiting (missing {_cell(cheap, WAITING)}) and in {name(first)}"
            f" ({_cell(cheap, first)}) at once: {cheap.title}."
        )
    return (
        f"{len(best)} are not beaten; least waiting is {quick.title} (missing "
        f"{_cell(quick, WAITING)}, {name(first)} {_cell(quick, first)}), least {name(first)} is "
        f"{cheap.title} ({_cell(cheap, first)}, missing {_cell(cheap, WAITING)})."
    )


def _cell(group: Group, key: str) -> str:
    return figures.shown(key, group.figures[key])


def table(summary: Summary, fields: Sequence[str]) -> Table:
    """A row for each combination: under each question those that are not beaten first."""
    keys = (*summary.axes, *SHOWN)
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
        for group in summary.groups
    ]
    return Table(headers, rows)


def fields(summary: Summary) -> list[str]:
    return list(dict.fromkeys(field for group in summary.groups for field, _ in group.point))


def files(
    plan: Plan, summary: Summary, results: Mapping[str, Mapping[str, Any]]
) -> dict[str, bytes]:
    """Name -> content; the same bytes for the same results, however often the sweep was
    interrupted.
    """
    document = {
        "name": summary.name,
        "verdict": verdict(summary),
        "version": __version__,
        "axes": list(summary.axes),
        "measured": list(summary.measured),
        "combinations": [
            {
                "point": dict(group.point),
                "question": dict(group.question),
                "seeds": group.seeds,
                "frontier": group.best,
                "mean": dict(group.figures),
                "least": dict(group.least),
                "most": dict(group.most),
            }
            for group in summary.groups
        ],
    }
    return {
        PAGE: render(summary).encode(),
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
    writer.writerow([tabular.safe(text) for text in (*varied, *keys)])
    for task in ran:
        point, numbers = dict(task.point), results[task.id]["figures"]
        writer.writerow(
            [
                *(_guarded(point.get(field, "")) for field in varied),
                *(numbers.get(key, "") for key in keys),
            ]
        )
    return file.getvalue().encode()


def _guarded(value: object) -> object:
    """A value of the sweep file; a text that a spreadsheet would run as a formula is guarded."""
    return value if isinstance(value, (int, float)) else tabular.safe(str(value))


def render(summary: Summary) -> str:
    """The page."""
    first = summary.axes[0]
    dots = [
        Dot(
            group.figures[first],
            group.figures[WAITING] / HOUR_S,
            group.figures[MOVES],
            group.title,
            strong=group.best,
        )
        for group in summary.groups
    ]
    words = (
        "Each dot is a combination, averaged over its seeds: to the left is less "
        f"{name(first)}, further down"
        " less waiting, and a larger dot moves more copies. Filled dots are choices that no other "
        "beats under the same question."
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
            sweep=summary,
            verdict=verdict(summary),
            version=__version__,
            words=words,
            chart=chart,
            axis=name(first),
            table=table(summary, fields(summary)),
        )
    )
