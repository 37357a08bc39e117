"""`federator pods KIND/NAME`: the pods of a workload in all its clusters."""

from typing import Any

import click

from federator.cli import common
from federator.cli.leader import asking

COLUMNS = ("cluster", "name", "ready", "status", "restarts", "age")
WIDE = ("ip", "node")


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option(
    "-o", "--output", default="", type=click.Choice(["", "wide", "json", "name"]), help="Format."
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
    query = asking.query_of(workload, name, flags)
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


def cell(row: dict[str, Any], column: str) -> str:
    """One value, made safe for a terminal whatever the member sent."""
    from federator.hub.query import selection

    value = row.get(column)
    return "" if value is None else selection.text(value)
