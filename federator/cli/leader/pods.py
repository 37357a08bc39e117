"""`federator pods KIND/NAME`: every pod of a workload, in all its clusters."""

from typing import Any

import click

from federator.cli import common
from federator.cli.leader import asking

COLUMNS = ("cluster", "name", "ready", "status", "restarts", "age")
WIDE = ("ip", "node")


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option("-o", "--output", default="", type=click.Choice(["", "wide", "json", "name"]), help="Format.")
@click.option("--shard", default=None, type=click.IntRange(0), help="Of a job set: the pods that ran this shard.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@asking.options
def pods(workload: str, name: str, output: str, shard: int | None, no_headers: bool, **given: Any) -> None:
    """The pods of a workload (psvc/NAME, pjs/NAME, deploy/NAME) in all its clusters.

    Asks the leading hub with your rights on the host (get the workload, list pods). Exit 1 when a cluster is away.
    """
    asked = asking.asking(workload, name, given)
    parameters: dict[str, str | int | bool] = {} if shard is None else {"shard": shard}
    found = common.run(asked.answer("pods", parameters))
    rows, clusters = found.get("pods") or [], found.get("clusters") or []
    if output == "json":
        common.show(common.dump(found, "json"))
    elif output == "name":
        for row in rows:
            common.say(f"{cell(row, 'cluster')}/{cell(row, 'name')}")
    elif rows:
        columns = [*COLUMNS, *(["shard"] if asked.numbered else [])]
        columns += WIDE if output == "wide" else ()
        cells = [[cell(row, column) for column in columns] for row in rows]
        common.show(common.table([column.upper() for column in columns], cells, no_headers=no_headers))
    else:
        common.say(f"No pods of {asked.title} found.", err=True)
    more = [row for row in clusters if row.get("more")]
    for row in more:
        common.say(f"{cell(row, 'cluster')}: the first {row.get('pods')} pods are shown, there are more", err=True)
    asking.end(asking.say_who_is_away(clusters) or bool(more))


def cell(row: dict[str, Any], column: str) -> str:
    """One value, fit for a terminal whatever a member said."""
    from federator.hub.query import selection

    value = row.get(column)
    return "" if value is None else selection.text(value)
