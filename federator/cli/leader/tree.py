"""`federator tree KIND/NAME`: the objects of a workload in each of its clusters, and their
health."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from federator.cli import common
from federator.cli.leader import asking
from federator.cli.leader.pods import cell

LEVELS: Final = 4
"""Levels of objects below a cluster: a TrainJob, its JobSet, and the Jobs of that, with one to
spare."""


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
        lines += _Branch(own).lines("    " if last else "│   ")
    return lines


class _Branch:
    """The objects of one cluster. Each is drawn once, whatever owner references a member reports.
    An object with an owner that is not there, or that owns itself, stands at the top."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.left = list(rows)
        titles = {_title(row) for row in rows}
        self.roots = [row for row in rows if cell(row, "owner") not in titles]

    def lines(self, stem: str) -> Iterator[str]:
        for row in self.roots:
            self.left.remove(row)
        drawn = [(row, list(self._below(_title(row), LEVELS - 1))) for row in self.roots]
        tops = [*drawn, *((row, []) for row in self.left)]
        for place, (row, below) in enumerate(tops):
            last = place == len(tops) - 1
            yield f"{stem}{'└── ' if last else '├── '}{_line(row)}"
            yield from (stem + ("    " if last else "│   ") + line for line in below)

    def _below(self, owner: str, levels: int) -> Iterator[str]:
        """The lines of what this object has made."""
        mine = [row for row in self.left if cell(row, "owner") == owner] if levels else []
        for row in mine:
            self.left.remove(row)
        for place, row in enumerate(mine):
            last = place == len(mine) - 1
            yield f"{'└── ' if last else '├── '}{_line(row)}"
            for line in self._below(_title(row), levels - 1):
                yield ("    " if last else "│   ") + line


def _title(row: dict[str, Any]) -> str:
    return f"{cell(row, 'kind')}/{cell(row, 'name')}"


def _line(row: dict[str, Any]) -> str:
    why = f" ({cell(row, 'reason')})" if row.get("reason") else ""
    return f"{_title(row)}  {cell(row, 'health')}{why}"
