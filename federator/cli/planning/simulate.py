"""`federator simulate PATH`: what a fleet would do with a demand, decided by the scheduling cycle
of the hub.

PATH is a scenario file, a folder with clusters.csv and workloads.csv, or a trace (SWF, the list of
sacct, a table). No API server is asked. Exit 1: bad input, with nothing written to --out.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.cli.planning import asking, seeding, simulating
from federator.cli.planning.simulating import Changes

if TYPE_CHECKING:
    from federator.simulate.report.measures import Measures

MISSED = 3
"""Exit code when a measure of the scenario is out of its bounds."""
REFERENCES = ("home-fifo", "home-backfill", "fed-fifo", "fed-home-first")


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--set", "settings", multiple=True, metavar="A.B=V", help="Set a field of the scenario."
)
@click.option(
    "--lose",
    multiple=True,
    metavar="CLUSTER@TIME",
    help="A cluster, or label=value, is lost then; largest@peak finds both.",
)
@click.option(
    "--add-nodes", multiple=True, metavar="CLUSTER=N[@TIME]", help="So many more nodes, or fewer."
)
@click.option("--scale-demand", default="", metavar="F", help="So much of the demand: 1.3, 1/2.")
@click.option(
    "--policy", type=click.Path(exists=True, dir_okay=False), help="These policies instead."
)
@click.option(
    "--fleet",
    type=click.Path(exists=True),
    help="This fleet instead: a table of nodes or clusters, or a folder.",
)
@click.option("--capacity", default="", metavar="F", help="This part of every cluster: 1/2.")
@click.option(
    "--compare",
    type=click.Path(exists=True, path_type=Path),
    help="What differs from this scenario.",
)
@click.option(
    "--explain",
    default="",
    metavar="WORK",
    help="Show the time line of one work instead of tables.",
)
@click.option(
    "--seeds",
    type=click.IntRange(2, 1000),
    help="Run so many seeds; show medians and ranges, and with --compare what is beyond chance.",
)
@click.option("--dask", default="", metavar="ADDRESS", help="Run the seeds on this Dask scheduler.")
@click.option(
    "--reference",
    type=click.Choice(REFERENCES),
    help="Run a reference policy, not the hub's cycle.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write report.html, report.json and CSV files there.",
)
@click.option("--parquet", is_flag=True, help="Write each table as a Parquet file too.")
@click.option("--open", "opened", is_flag=True, help="Open the report in a browser.")
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json"]), help="Format."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def simulate(
    path: Path,
    compare: Path | None,
    explain: str,
    seeds: int | None,
    dask: str,
    reference: str | None,
    out: Path | None,
    output: str,
    *,
    parquet: bool,
    opened: bool,
    quiet: bool,
    **changes: Any,
) -> None:
    """Plays a demand against a fleet and says what became of it: a verdict, tables, a report.

    PATH is a scenario file, a folder with clusters.csv and workloads.csv, or a trace: SWF, the
    list of sacct -P, a table of jobs. The question of a scenario is answered instead. Exit 1: bad
    input, with nothing written. Exit 3: a measure of the scenario is out of its bounds.
    """
    asked = Changes(**{name: value or "" for name, value in changes.items()})
    missed = False
    with simulating.failures_reported(), simulating.many_objects():
        if reference is not None:
            others = [option for option in asked.given if option != "--capacity"]
            if others or compare or seeds or out or parquet or opened:
                common.fail(
                    "--reference goes with --capacity and -o only: reference policies know no"
                    " scenario"
                )
            _referred(path, reference, asked.capacity, output)
            return
        asked = simulating.with_losses(path, asked)
        scenario, other = _documents(path, asked, compare)
        if explain:
            if compare or seeds or out:
                common.fail("--explain shows one work of one simulation: leave out the others")
            _explained(*scenario, explain, output, quiet=quiet)
            return
        asking_one = compare is None and bool(scenario[1].get("question"))
        if opened and (out is None or seeds is not None or asking_one):
            common.fail("--open needs --out, the folder for the report, and shows one simulation")
        if parquet:
            _check_parquet(out, single=seeds is None and not asking_one)
        if dask and seeds is None and not asking_one:
            common.fail("--dask needs --seeds: one simulation runs in this process")
        if asking_one:
            missed = not asking.run(scenario, asked, seeds or 1, (dask, out), output, quiet=quiet)
        elif seeds is not None:
            missed = seeding.run(scenario, other, seeds, (dask, out), output, quiet=quiet)
        else:
            where = (out, parquet)
            missed = _simulated(path, asked, compare, where, output, quiet=quiet)
        if opened and out is not None:
            click.launch(str(out / "report.html"))
    if missed:
        sys.exit(MISSED)


def _check_parquet(out: Path | None, *, single: bool) -> None:
    """Before anything runs."""
    from federator.simulate.report import tabular

    if out is None or not single:
        common.fail("--parquet needs --out, the folder for the tables, and writes one simulation")
    try:
        tabular.need_arrow()
    except tabular.NoArrow as why:
        common.fail(str(why))


def _documents(
    path: Path, asked: Changes, compare: Path | None
) -> tuple[seeding.Given, seeding.Given | None]:
    """The scenario, and the one that it is compared with."""
    scenario = (path, simulating.document(path, asked))
    if compare is None:
        return scenario, None
    return scenario, (compare, simulating.document(compare, _as_it_is(compare, asked)))


def _simulated(
    path: Path,
    asked: Changes,
    compare: Path | None,
    where: tuple[Path | None, bool],
    output: str,
    *,
    quiet: bool,
) -> bool:
    """Returns whether a measure of the scenario is out of its bounds. `where`: the folder for
    files, and whether Parquet files are among them."""
    from federator.simulate.report import figures, forms

    out, parquet = where
    document = simulating.document(path, asked)
    made, source = simulating.made(path, document, asked)
    before = None
    if compare is not None:
        changes = _as_it_is(compare, asked)
        before = simulating.made(compare, simulating.document(compare, changes), changes)[0]
        made, before = simulating.in_one_window(made, before)
    measures = simulating.run(made, quiet=quiet)
    other = (
        (compare.stem, simulating.run(before, quiet=quiet))
        if compare is not None and before is not None
        else None
    )
    if out is not None:
        forms.write(out, forms.files(measures, source, other, parquet=parquet))
    if output == "json":
        common.data(
            json.dumps(forms.document(measures, source, other), indent=2, ensure_ascii=False) + "\n"
        )
        return bool(figures.missed(measures))
    if other is not None:
        _compared(other, (measures.outcome.name, measures))
    common.say(figures.verdict(measures))
    common.say(figures.window(measures))
    for headers, rows in forms.tables(measures):
        common.say("")
        common.show(common.table(headers, rows))
    if out is not None:
        common.say(f"report: {out / forms.PAGE}", err=True)
    return bool(figures.missed(measures))


def _as_it_is(path: Path, asked: Changes) -> Changes:
    """No changes, but for the fleet of a trace, which has none of its own."""
    return Changes(fleet=asked.fleet) if simulating.is_trace(path) else simulating.NO_CHANGES


def _explained(
    path: Path, document: dict[str, Any], work: str, output: str, *, quiet: bool
) -> None:
    """The time line of one work."""
    from federator.simulate.engine import run
    from federator.simulate.report import timeline

    inputs = simulating.inputs(document, path)
    with simulating.progress(inputs, quiet=quiet) as progress:
        outcome = run.run(inputs, progress)
    try:
        steps = timeline.of(outcome, work)
    except timeline.NoSuchWork as bad:
        common.fail(str(bad))
    if output == "json":
        rows = [dataclasses.asdict(step) for step in steps]
        common.data(json.dumps({"work": work, "steps": rows}, indent=2, ensure_ascii=False) + "\n")
        return
    lines = [
        [simulating.date(step.at_s, inputs.origin_s), step.what, step.detail] for step in steps
    ]
    common.show(common.table(["AT", work.upper(), ""], lines))


def _compared(old: "tuple[str, Measures]", new: "tuple[str, Measures]") -> None:
    """Differences first."""
    from federator.simulate.report import figures

    names = (old[0], new[0] if new[0] != old[0] else f"{new[0]} as changed")
    common.say(figures.comparison(old[1], new[1], names))
    rows = [
        [
            difference.name,
            difference.before,
            difference.after,
            difference.change,
            difference.verdict,
        ]
        for difference in figures.differences(old[1], new[1])
    ]
    common.say("")
    common.show(
        common.table(["FIGURE", names[0].upper(), names[1].upper(), "CHANGE", "VERDICT"], rows)
    )
    common.say("")


def _referred(path: Path, policy: str, capacity: str, output: str) -> None:
    from federator.model.errors import FieldError
    from federator.simulate import reference
    from federator.simulate.scenario import fields
    from federator.simulate.traces import pools

    try:
        scale = fields.fraction(capacity or 1)
        if not scale:
            raise ValueError("must be more than 0")
    except ValueError as bad:
        raise FieldError("--capacity", str(bad)) from None
    if path.suffix in (".yaml", ".yml"):
        common.fail(
            f"{path}: a reference policy reads a folder with clusters.csv and workloads.csv, or an"
            " SWF trace"
        )
    by = reference.ReferencePolicy(policy)
    archive = pools.read(path, by)
    for sentence in archive.notes:
        common.say(f"note: {sentence}", err=True)
    try:
        result = reference.run(archive.jobs, archive.capacity, by, scale).as_dict()
    except ValueError as bad:
        common.fail(f"{path}: {bad}")
    if output == "json":
        common.data(json.dumps(result, indent=2) + "\n")
        return
    common.say(
        f"{policy} on {result['capacity_units']:,} {archive.unit}s: {result['waited']:,} of"
        f" {result['started']:,} jobs "
        f"waited, {result['wait_sum_s']:,} s in all, {result['wait_max_s']:,} s at most."
    )
    common.say("")
    common.show(
        common.table(["FIGURE", "VALUE"], [[name, str(value)] for name, value in result.items()])
    )
