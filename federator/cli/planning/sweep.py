"""`federator sweep SWEEP.yaml --out DIR`: many simulations of one scenario, and which choices
no other beats.

What is done is not run again: a sweep that was killed goes on when the same command is given again.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from collections.abc import Callable

    from federator.simulate.sweep.plan import Task
    from federator.simulate.sweep.running import Result

FAILURES_SHOWN = 5


@click.command()
@click.argument(
    "path", metavar="SWEEP.yaml", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Results and report; goes on there.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes of this machine (default: one for each core)."
)
@click.option(
    "--dask",
    "address",
    default="",
    metavar="ADDRESS",
    help="Run on this Dask scheduler (tcp://HOST:PORT).",
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json"]), help="Format."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def sweep(
    path: Path, out: Path, jobs: int | None, address: str, output: str, *, quiet: bool
) -> None:
    """Simulates every combination of a sweep's file (policies, fleets, seeds, or any field of the
    scenario), or a sample of them, and shows the frontier: the choices that
    no other beats in waiting and cost."""
    from federator.model.errors import FieldError
    from federator.simulate.report import forms
    from federator.simulate.scenario.loading import InvalidScenario
    from federator.simulate.sweep import frontier, page, plan, running, window

    if jobs is not None and address:
        common.fail(
            "--jobs is about processes of this machine; with --dask the cluster's workers run the"
            " simulations"
        )

    def runner(what: "Callable[[Task], Result]") -> running.Runner:
        if address:
            return running.dask(address, what)
        return running.processes(jobs or os.cpu_count() or 1, what)

    try:
        planned = window.of_sweep(plan.read(path), runner(running.spanned))
        results, failures = running.run(
            out, planned.tasks, runner(running.simulated), _progress(quiet=quiet)
        )
        if failures:
            shown = [
                f"{_title(failure)}: {failure['error']}" for failure in failures[:FAILURES_SHOWN]
            ]
            more = len(failures) - len(shown)
            common.fail(*shown, *([f"and {more:,} more simulations failed"] if more else []))
        curve = frontier.summarize(planned, results)
        made = page.files(planned, curve, results)
        forms.write(out, made)
    except InvalidScenario as bad:
        common.fail(*(f"{bad.file}: {error}" for error in bad.errors))
    except FieldError as bad:
        common.fail(f"{path}: {bad}")
    except (running.NoDask, OSError) as why:
        common.fail(str(why))
    if output == "json":
        common.data(made["sweep.json"].decode())
        return
    rows = page.table(curve, page.fields(curve))
    common.show(
        "\n".join((page.verdict(curve), *curve.measured))
        + f"\n\n{common.table(list(map(str.upper, rows.headers)), rows.rows)}"
    )
    common.say(f"report: {out / page.PAGE}", err=True)


def _title(result: Any) -> str:
    return ", ".join(f"{field}={value}" for field, value in result["point"])


def _progress(*, quiet: bool) -> Any:
    shown = -1

    def report(done: int, total: int) -> None:
        nonlocal shown
        tenth = done * 10 // max(total, 1)
        if not quiet and tenth != shown:
            shown = tenth
            common.say(f"{done:,} of {total:,} simulations are done", err=True)

    return report
