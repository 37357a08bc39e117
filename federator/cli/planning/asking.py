"""Answers the question of a scenario: `federator simulate` where the scenario has one, and
`federator size`, which asks for the smallest fleet.
"""

import csv
import dataclasses
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.cli.planning import simulating
from federator.cli.planning.simulating import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from federator.simulate.sweep.plan import Task
    from federator.simulate.sweep.questions import Answer, Tried
    from federator.simulate.sweep.running import Result, Runner

UNMET = 3
"""Exit code when no choice that was tried meets the measures."""


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--set", "settings", multiple=True, metavar="A.B=V", help="Set a field of the scenario."
)
@click.option("--lose", multiple=True, metavar="CLUSTER@TIME", help="A cluster is lost then.")
@click.option("--scale-demand", default="", metavar="F", help="So much of the demand: 1.3, 1/2.")
@click.option("--fleet", type=click.Path(exists=True), help="This fleet instead.")
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=1, help="The measures are met with each seed."
)
@click.option("--dask", default="", metavar="ADDRESS", help="Run on this Dask scheduler.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the report, answer.json and answer.csv there.",
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json"]), help="Format."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def size(
    path: Path,
    seeds: int,
    dask: str,
    out: Path | None,
    output: str,
    *,
    quiet: bool,
    **changes: Any,
) -> None:
    """The smallest part of every cluster that meets the measures of a scenario.

    PATH is a scenario file, a folder or a trace, as for `federator simulate`. Exit 1: bad input.
    Exit 3: no size that was tried meets the measures.
    """
    asked = Changes(**{name: value or "" for name, value in changes.items()})
    with simulating.failures_reported():
        document = simulating.document(path, simulating.with_losses(path, asked))
        document = {**document, "question": {"kind": "HowMuchSmaller"}}
        met = run((path, document), asked, seeds, (dask, out), output, quiet=quiet)
    if not met:
        sys.exit(UNMET)


def run(
    given: tuple[Path, dict[str, Any]],
    asked: Changes,
    seeds: int,
    where: "tuple[str, Path | None]",
    output: str,
    *,
    quiet: bool,
) -> bool:
    """Prints the answer and what was tried. `where`: the address of a Dask scheduler or "", and the
    folder for files. Returns whether a choice that was tried meets the measures."""
    from federator.simulate.report import forms
    from federator.simulate.sweep import questions, running

    (path, document), (address, out) = given, where
    jobs = os.cpu_count() or 1
    runner = (
        running.dask(address, questions.judged)
        if address
        else running.processes(jobs, questions.judged)
    )
    try:
        answer = questions.answer(document, path, _counted(runner, quiet=quiet), seeds)
    except (questions.Failed, running.NoDask) as bad:
        common.fail(str(bad))
    made = questions.document_of(answer)
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if out is not None:
        files = {"answer.json": text.encode(), "answer.csv": _csv(answer)}
        forms.write(out, _report(given, asked, answer) | files)
    if output == "json":
        common.data(text)
    else:
        common.say(answer.sentence)
        common.say("")
        common.show(_table(answer))
    if out is not None:
        common.say(f"report: {out / forms.PAGE}, what was tried: {out / 'answer.csv'}", err=True)
    return any(tried.met for tried in answer.tried)


def _report(
    given: tuple[Path, dict[str, Any]], asked: Changes, answer: "Answer"
) -> dict[str, bytes]:
    """The report of the scenario as it is, headed by the question and its answer."""
    from federator.simulate.report import forms

    path, document = given
    inputs, source = simulating.made(path, document, asked)
    kind = str(document["question"].get("kind", ""))
    headed = dataclasses.replace(source, question=kind, answer=answer.sentence)
    return forms.files(simulating.run(inputs, quiet=True), headed, None)


def _counted(runner: "Runner", *, quiet: bool) -> "Runner":
    """Tells how many simulations are done."""
    done = 0

    def counting(tasks: "Sequence[Task]") -> "Iterator[Result]":
        nonlocal done
        for result in runner(tasks):
            done += 1
            if not quiet:
                common.say(f"{done:,} simulations are done", err=True)
            yield result

    return counting


def _table(answer: "Answer") -> str:
    from federator.simulate.sweep import page, questions

    keys = [key for key in questions.SHOWN if any(key in tried.figures for tried in answer.tried)]
    headers = ["TRIED", "MET", *(page.name(key).upper() for key in keys)]
    rows = [
        [tried.title, "yes" if tried.met else "no", *(_cell(tried, key) for key in keys)]
        for tried in answer.tried
    ]
    return common.table(headers, rows)


def _cell(tried: "Tried", key: str) -> str:
    from federator.simulate.report import figures

    return figures.shown(key, tried.figures[key]) if key in tried.figures else "-"


def _csv(answer: "Answer") -> bytes:
    from federator.simulate.report import tabular

    keys = list(dict.fromkeys(key for tried in answer.tried for key in tried.figures))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["choice", "met", "missed", *keys])
    for tried in answer.tried:
        values = (tried.figures.get(key, "") for key in keys)
        writer.writerow(
            [tabular.safe(tried.title), str(tried.met).lower(), tabular.safe(tried.missed), *values]
        )
    return file.getvalue().encode()
