"""`federator tree KIND/NAME`: the objects of a workload in each of its clusters, and their
health."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from federator.cli import common
from federator.cli.leader import asking
from federator.cli.leader.pods import cell


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option("-o", "--output", default="", type=click.Choice(["", "json"]), help="Format.")
@asking.options
def tree(workload: str, name: str, output: str, **flags: Any) -> None:
    """Show the objects of a workload (psvc/NAME, pjs/NAME, deploy/NAME) in each cluster, and their
    health.

    Asks the leading hub with your rights on the host (get the workload). Exit 1 when a cluster does
    not answer.
    """
    query = asking.query_of(workload, name, flags)
    answer = common.run(query.answer("tree", {}))
    rows, clusters = answer.get("natives") or [], answer.get("clusters") or []
    if output == "json":
        common.show(common.dump(answer, "json"))
    else:
        common.show("\n".join(drawn(query.title, rows, clusters)))
    asking.exit_if_partial(asking.report_unanswered(clusters))


def drawn(
    title: str, rows: Sequence[Mapping[str, Any]], clusters: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The lines of the tree. Clusters that did not answer have no objects below them."""
    lines = [title]
    for number, cluster in enumerate(clusters):
        last = number == len(clusters) - 1
        lines.append(f"{'└── ' if last else '├── '}{cell(dict(cluster), 'cluster')}")
        own = [dict(row) for row in rows if row.get("cluster") == cluster.get("cluster")]
        for place, row in enumerate(own):
            stem = ("    " if last else "│   ") + ("└── " if place == len(own) - 1 else "├── ")
            why = f" ({cell(row, 'reason')})" if row.get("reason") else ""
            lines.append(
                f"{stem}{cell(row, 'kind')}/{cell(row, 'name')}  {cell(row, 'health')}{why}"
            )
    return lines
