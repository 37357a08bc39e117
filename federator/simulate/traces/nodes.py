"""The nodes of a fleet from a table: `nodes.csv` (a node a row), `clusters.csv` (a cluster a row)
or the node list of openb.

A table of clusters says nodes and what each has, or only totals: then a cluster is one node of its
totals, which is an aggregate, and is said in the notes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from federator.simulate.traces import columns as columns_module
from federator.simulate.traces import table as tables
from federator.simulate.traces.columns import OURS, Columns, Rows
from federator.simulate.traces.dialect import FOUND, Dialect
from federator.simulate.traces.problems import Problems, TraceError
from federator.simulate.traces.table import Table
from federator.simulate.traces.works import TOLERATED

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "node": ("node", "sn"),
    "cluster": ("cluster",),
    "nodes": ("nodes", "count"),
    "cpu": ("cpu_milli", "cpu_cores", "cores", "procs"),
    "memory": ("memory_mib",),
    "gpu": ("gpus_per_node", "gpus", "gpu"),
    "gpuModel": ("gpu_model", "model"),
    "region": ("region",),
    "zone": ("zone",),
}
"""Field -> names of its column in the tables that are known, the first that is there counts."""
AMOUNTS: Final = ("nodes", "cpu", "memory", "gpu")
IN_CORES: Final = frozenset({"cpu_cores", "cores", "procs"})
PER_NODE: Final = frozenset({"gpus_per_node"})
"""Columns of a table of clusters that say what one node has; the others are of the whole cluster.
"""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """`count` equal nodes of a cluster. None: not recorded."""

    cluster: str
    count: int
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpu: int = 0
    gpu_model: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    """Of the cluster."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """The nodes of all clusters, equal ones of a cluster together, in the order of the file."""

    groups: tuple[NodeGroup, ...]
    problems: Problems
    read: int


def read(
    path: Path,
    columns: Columns = OURS,
    tolerated: Fraction = TOLERATED,
    dialect: Dialect = FOUND,
) -> NodeTable:
    """Reads a table of nodes or clusters. Raises TraceError."""
    problems = Problems()
    table = tables.read(path, problems, dialect)
    names = _names(table, columns)
    rows = Rows(table, problems)
    amounts: dict[str, Sequence[int | None]] = {
        name: columns_module.numbers(rows, names[name], name, _unit(names[name], name, columns))
        for name in AMOUNTS
        if name in names
    }
    texts = {
        name: columns_module.texts(table, column)
        for name, column in names.items()
        if name not in amounts
    }
    clusters = texts.get("cluster") or [_by_model(model) for model in texts["gpuModel"]]
    for at, cluster in enumerate(clusters):
        if not cluster:
            rows.refuse(at, names.get("cluster", ""), "is missing")
    key = "node" if "node" in names else "cluster"
    rows.once(names[key], texts[key])
    problems.check(table.file, table.read, tolerated)
    nothing: Sequence[int | None] = [None] * len(table.rows)
    per_row = _each(rows, names, amounts)
    counted: Counter[NodeGroup] = Counter()
    for at in rows.good():
        labels = [
            (name, texts[name][at])
            for name in ("region", "zone")
            if name in texts and texts[name][at]
        ]
        gpu = per_row.get("gpu", nothing)[at] or 0
        group = NodeGroup(
            cluster=clusters[at],
            count=1,
            cpu_milli=per_row.get("cpu", nothing)[at],
            memory_mib=per_row.get("memory", nothing)[at],
            gpu=gpu,
            gpu_model=texts["gpuModel"][at] if "gpuModel" in texts and gpu else "",
            labels=tuple(labels),
        )
        counted[group] += per_row.get("nodes", nothing)[at] or 1
    problems.check(table.file, table.read, tolerated)
    if not counted:
        raise TraceError(table.file, 0, "", "has no row that can be read")
    return NodeTable(
        tuple(replace(group, count=count) for group, count in counted.items()), problems, table.read
    )


def _names(table: Table, columns: Columns) -> dict[str, str]:
    """Field -> column. Raises TraceError when no cluster or no amount is named."""
    names = dict(columns.names)
    for name, candidates in COLUMNS.items():
        column = next((candidate for candidate in candidates if candidate in table.header), None)
        if column is not None:
            names.setdefault(name, column)
    for column in names.values():
        table.column(column)
    if "cluster" not in names and not ("node" in names and "gpuModel" in names):
        table.column("cluster")
    if not {"cpu", "memory", "gpu"} & set(names):
        accepted = ", ".join(
            column for name in ("cpu", "memory", "gpu") for column in COLUMNS[name]
        )
        raise TraceError(table.file, 1, "", f"no column says what a node has; known are {accepted}")
    return names


def _unit(column: str, name: str, columns: Columns) -> str:
    if name == "nodes":
        return ""
    return (
        "cores"
        if name == "cpu" and column in IN_CORES and "cpu" not in columns.units
        else columns.unit(name)
    )


def _by_model(model: str) -> str:
    """The cluster of a node in a list that names none: one a GPU model, as in openb-8-clusters."""
    return f"openb-{model.lower() or 'cpu'}"


def _each(
    rows: Rows, names: Mapping[str, str], amounts: Mapping[str, Sequence[int | None]]
) -> dict[str, Sequence[int | None]]:
    """What each node of a row has. Totals are divided by the row's nodes; where they are no whole
    multiple, and where no nodes are told, the row is one node of its totals."""
    table = rows.table
    if "node" in names or "nodes" not in names:
        if "node" not in names:
            rows.problems.note(table.file, "names no nodes: each cluster is one node of its totals")
        return dict(amounts)
    result: dict[str, list[int | None]] = {name: list(values) for name, values in amounts.items()}
    for at in rows.good():
        count = amounts["nodes"][at]
        if not count:
            continue
        shared = [
            name
            for name in ("cpu", "memory", "gpu")
            if name in names and names[name] not in PER_NODE
        ]
        if any((amounts[name][at] or 0) % count for name in shared):
            message = (
                f"row {table.rows[at]}: its nodes differ: the cluster is one node of its totals"
            )
            rows.problems.note(table.file, message)
            per_node = [
                name for name in ("cpu", "memory", "gpu") if name in names and name not in shared
            ]
            for name in per_node:
                result[name][at] = (amounts[name][at] or 0) * count
            result["nodes"][at] = 1
            continue
        for name in shared:
            value = amounts[name][at]
            result[name][at] = None if value is None else value // count
    return dict(result)
