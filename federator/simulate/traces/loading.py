"""Finds out what a path is, and reads it: the one door of this room.

`demand(path, reading, form)` gives the works of a scenario folder, a table, an SWF trace, a job
list of Slurm or an openb pod list; `fleet(path, ...)` the nodes of a scenario folder, a table or an
SWF header.
"""

from fractions import Fraction
from pathlib import Path

from federator.simulate.traces import nodes, openb, sacct, swf, table, works
from federator.simulate.traces.columns import OURS, Columns
from federator.simulate.traces.dialect import FOUND, Dialect
from federator.simulate.traces.nodes import NodeGroup, NodeTable
from federator.simulate.traces.problems import Problems, TraceError
from federator.simulate.traces.works import AS_OURS, TOLERATED, Reading, Trace


def form_of(path: Path) -> str:
    """The form of a trace by its name, and of a table by its header."""
    if path.is_dir():
        return "folder"
    if ".swf" in path.suffixes[-2:]:
        return "swf"
    if path.is_file():
        header = frozenset(table.header_of(table.first_line_of(path), FOUND))
        if header >= openb.HEADER:
            return "openb"
        if header >= sacct.HEADER:
            return "sacct"
    return "table"


def demand(path: Path, reading: Reading = AS_OURS, form: str = "") -> Trace:
    """The works of a trace; its form is found out where it is not said. Raises TraceError."""
    form = form or form_of(path)
    if form == "swf":
        return swf.read(path, reading)
    if form == "sacct":
        return sacct.read(path, reading)
    if form == "openb":
        return openb.read(path, reading)
    return works.read(
        _in_folder(path, "workloads.csv", "workloads.csv.gz") if path.is_dir() else path, reading
    )


def fleet(
    path: Path,
    columns: Columns = OURS,
    tolerated: Fraction = TOLERATED,
    dialect: Dialect = FOUND,
    *,
    aggregates: bool = False,
) -> NodeTable:
    """The nodes of a fleet. Of a scenario folder `nodes.csv` where there is one, else
    `clusters.csv`. `aggregates` makes one node of each cluster's totals. Raises TraceError."""
    if path.is_file() and form_of(path) == "swf":
        node_table = NodeTable(swf.machine(path), Problems(), 1)
    elif path.is_dir():
        table_file = _in_folder(path, "nodes.csv", "clusters.csv")
        node_table = nodes.read(table_file, columns, tolerated, dialect)
    else:
        node_table = nodes.read(path, columns, tolerated, dialect)
    return (
        NodeTable(aggregated(node_table.groups), node_table.problems, node_table.read)
        if aggregates
        else node_table
    )


def aggregated(groups: tuple[NodeGroup, ...]) -> tuple[NodeGroup, ...]:
    """One node of the totals for each cluster and GPU model."""
    totals: dict[tuple[str, str], NodeGroup] = {}
    for group in groups:
        key = (group.cluster, group.gpu_model)
        before = totals.get(key)
        totals[key] = NodeGroup(
            group.cluster,
            1,
            _sum(before.cpu_milli if before else None, group.cpu_milli, group.count),
            _sum(before.memory_mib if before else None, group.memory_mib, group.count),
            (before.gpu if before else 0) + group.gpu * group.count,
            group.gpu_model,
            group.labels,
        )
    return tuple(totals.values())


def _sum(before: int | None, each: int | None, count: int) -> int | None:
    return before if each is None else (before or 0) + each * count


def _in_folder(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise TraceError(str(folder), 0, "", f"the folder holds no {' and no '.join(names)}")
