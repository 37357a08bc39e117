"""`federator pods KIND/NAME`: the pods of a workload in all its clusters."""

from typing import Any

import click

from federator.cli import common
from federator.cli.leader import asking
from federator.model import plaintext

COLUMNS = ("cluster", "name", "ready", "status", "restarts", "age")
WIDE = ("ip", "node")


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option(
    "-o",
    "--output",
    default="",
    type=click.Choice(["", "wide", "runtime", "json", "name"]),
    help="Format. runtime: identity, secrets, configuration and registration of the pods.",
)
@click.option(
    "--shard",
    default=None,
    type=click.IntRange(0),
    help="For a job set: the pods that ran this shard.",
)
@click.option("--no-headers", is_flag=True, help="Print rows only.")
@asking.options
def pods(
    workload: str, name: str, output: str, shard: int | None, no_headers: bool, **flags: Any
) -> None:
    """List the pods of a workload (psvc/NAME, pjs/NAME, deploy/NAME) in all its clusters.

    Asks the leading hub with your rights on the host (get the workload, list pods). Exit 1 when a
    cluster does not answer.
    """
    if output == "runtime" and shard is not None:
        raise click.UsageError("-o runtime shows all pods of the workload: leave --shard out")
    query = asking.query_of(workload, name, flags)
    if output == "runtime":
        show_runtimes(query, no_headers=no_headers)
        return
    parameters: dict[str, str | int | bool] = {} if shard is None else {"shard": shard}
    answer = common.run(query.answer("pods", parameters))
    rows, clusters = answer.get("pods") or [], answer.get("clusters") or []
    if output == "json":
        common.show(common.dump(answer, "json"))
    elif output == "name":
        for row in rows:
            common.say(f"{cell(row, 'cluster')}/{cell(row, 'name')}")
    elif rows:
        columns = [*COLUMNS, *(["shard"] if query.numbered else [])]
        columns += WIDE if output == "wide" else ()
        cells = [[cell(row, column) for column in columns] for row in rows]
        common.show(
            common.table([column.upper() for column in columns], cells, no_headers=no_headers)
        )
    else:
        common.say(f"No pods of {query.title} found.", err=True)
    more = [row for row in clusters if row.get("more")]
    for row in more:
        common.say(
            f"{cell(row, 'cluster')}: only the first {row.get('pods')} pods are shown", err=True
        )
    asking.exit_if_partial(asking.report_unanswered(clusters) or bool(more))


RUNTIME = ("cluster", "name", "identity", "secrets", "config", "registry", "reason")


def show_runtimes(query: asking.WorkloadQuery, *, no_headers: bool) -> None:
    """What the runtimes of the pods have, by cluster and by pod."""
    answer = common.run(query.answer("runtime", {}))
    rows, clusters = answer.get("pods") or [], answer.get("clusters") or []
    facts = answer.get("facts") or {}
    for title, field in (
        ("Identity", "identity"),
        ("Secrets", "secrets"),
        ("Config", "config"),
        ("Registry", "registry"),
    ):
        value = facts.get(field) or "-"
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        common.say(f"{title + ':':<10}{plaintext.visible(shown)}")
    counts = ("pods", "identity", "secrets", "config", "registry", "left", "troubled")
    cells = [
        [cell(row, "cluster"), *(cell(row, column) for column in counts)]
        for row in clusters
        if row.get("answered")
    ]
    if cells:
        common.say("")
        common.show(common.table(["CLUSTER", *(each.upper() for each in counts)], cells))
    if rows:
        common.say("")
        titles = [column.upper() for column in RUNTIME]
        cells = [[cell(row, column) for column in RUNTIME] for row in rows]
        common.show(common.table(titles, cells, no_headers=no_headers))
    if left := answer.get("leftOut"):
        common.say(f"{left} pods more are counted and not named", err=True)
    more = [row for row in clusters if row.get("more")]
    for row in more:
        common.say(
            f"{cell(row, 'cluster')}: only the first {row.get('pods')} pods are counted", err=True
        )
    asking.exit_if_partial(asking.report_unanswered(clusters) or bool(more))


def cell(row: dict[str, Any], column: str) -> str:
    """One value, made safe for a terminal whatever the member sent."""
    from federator.hub.query import selection

    value = row.get(column)
    return "" if value is None else selection.text(value)
