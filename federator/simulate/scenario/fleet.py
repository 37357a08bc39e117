"""The clusters of a scenario, as placement reads them, with everything free."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from federator.api import membercluster, scaleupfields
from federator.api.scaleupfields import ScaleUpFields
from federator.model.errors import FieldError, join
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.kubernetes import quantity
from federator.model.kubernetes import taints as kubernetes_taints
from federator.model.resources import CPU, GPU, MEMORY, Resources
from federator.model.scaleup import NodeClass
from federator.simulate.scenario import drawing
from federator.simulate.scenario.fields import existing
from federator.simulate.scenario.schema import Cluster, FleetFields, Nodes, Object, Taint
from federator.simulate.scenario.tables import FleetTable
from federator.simulate.traces import columns, loading
from federator.simulate.traces.nodes import NodeGroup

Objects = Callable[[Sequence[Object], str, Sequence[str]], list[dict[str, Any]]]
"""(objects or files, path of the field, kinds) -> checked objects."""


@dataclass(slots=True)
class Clusters:
    """The clusters, their prices, and what their sources leave open."""

    views: dict[str, ClusterView] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    recorded: frozenset[str] = frozenset()
    """Resources that at least one node names."""

    @property
    def priced(self) -> bool:
        """Whether any node costs anything, of those that autoscalers add too."""
        classes = (each for view in self.views.values() for each in view.scale_up)
        return bool(self.prices) or any(each.price for each in classes)


def assemble(
    given: FleetFields, seed: int, path_of: Callable[[str], Path], objects: Objects
) -> Clusters:
    """All clusters of a scenario, scaled, by nodes. Raises FieldError and TraceError."""
    clusters = Clusters()
    for at, cluster in enumerate(given.clusters):
        _add(
            clusters,
            view_of(cluster, f"fleet.clusters[{at}]"),
            cluster.price,
            f"fleet.clusters[{at}].name",
        )
    if given.table is not None:
        _from_table(clusters, given.table, path_of)
    for obj in objects(given.objects, "fleet.objects", ("MemberCluster",)):
        view = membercluster.to_view(obj, 0.0)
        if view.capacity is None:
            raise FieldError(
                "fleet.objects",
                f"MemberCluster/{view.name} has no status.capacity: nothing fits there",
            )
        _add(clusters, view if given.occupied else _all_free(view), None, "fleet.objects")
    if given.generate is not None:
        for cluster in drawing.clusters(given.generate, seed):
            _add(clusters, view_of(cluster, "fleet.generate.node"), cluster.price, "fleet.generate")
    for name, labels in given.labels.items():
        existing(name, clusters.views, f"fleet.labels.{name}")
        clusters.views[name] = replace(
            clusters.views[name], labels={**clusters.views[name].labels, **labels}
        )
    for name, price in given.prices.items():
        existing(name, clusters.views, f"fleet.prices.{name}")
        clusters.prices[name] = price
    for name, portion in given.failover_buffers.items():
        path = f"fleet.failoverBuffers.{name}"
        existing(name, clusters.views, path)
        permille = _permille(portion, path)
        clusters.views[name] = replace(clusters.views[name], buffer_permille=permille)
    named = {
        name
        for view in clusters.views.values()
        for size in (
            *(row.allocatable for row in _rows(view)),
            *(each.allocatable for each in view.scale_up),
        )
        for name in size
    }
    clusters.recorded = frozenset(named)
    for name, view in clusters.views.items():
        sized = scaled(view, given.capacity)
        if given.packs and sized.capacity is not None:
            sized = replace(sized, capacity=replace(sized.capacity, packs=True))
        clusters.views[name] = sized
    clusters.views = dict(sorted(clusters.views.items()))
    return clusters


def _add(clusters: Clusters, view: ClusterView, price: float | None, path: str) -> None:
    if view.name in clusters.views:
        raise FieldError(path, f"cluster {view.name!r} is given twice")
    clusters.views[view.name] = view
    if price is not None:
        clusters.prices[view.name] = price


def _from_table(clusters: Clusters, table: FleetTable, path_of: Callable[[str], Path]) -> None:
    names = columns.Columns(
        {str(name): column for name, column in table.columns.items()}, table.units.by_name()
    )
    nodes = loading.fleet(path_of(table.path), names, table.bad_rows, table.csv.dialect())
    clusters.assumptions += nodes.problems.lines()
    groups: dict[str, list[NodeGroup]] = {}
    for group in nodes.groups:
        groups.setdefault(group.cluster, []).append(group)
    for name, its in groups.items():
        rows = [row(group.count, vector_of(group), group.gpu_model) for group in its]
        labels = dict(pair for group in its for pair in group.labels)
        _add(
            clusters,
            ClusterView(name=name, labels=labels, capacity=Capacity(rows=tuple(rows))),
            None,
            "fleet.table",
        )


def vector_of(group: NodeGroup) -> Resources:
    """What one node of a group offers."""
    amounts = {CPU: group.cpu_milli or 0, MEMORY: (group.memory_mib or 0) << 20, GPU: group.gpu}
    return Resources(amounts)


def row(
    count: int, allocatable: Resources, model: str = "", taints: Sequence[Taint] = ()
) -> NodeRow:
    """Equal nodes with everything free."""
    return NodeRow(
        count=count,
        allocatable=allocatable,
        free=allocatable,
        model=model,
        taints=taints_of(taints),
    )


def taints_of(given: Sequence[Taint]) -> tuple[kubernetes_taints.Taint, ...]:
    return tuple(kubernetes_taints.Taint(taint.key, taint.value, taint.effect) for taint in given)


def view_of(given: Cluster, path: str) -> ClusterView:
    """A cluster that is written down. Raises FieldError."""
    rows = tuple(row_of(nodes, f"{path}.nodes[{at}]") for at, nodes in enumerate(given.nodes))
    return ClusterView(
        name=given.name,
        labels=dict(given.labels),
        taints=taints_of(given.taints),
        usable_permille=_permille(given.usable, join(path, "usable")),
        buffer_permille=_permille(given.failover_buffer, join(path, "failoverBuffer")),
        capacity=Capacity(rows=rows, packs=given.packs),
        scale_up=_classes(given.scale_up, join(path, "scaleUp")),
    )


def _classes(given: Sequence[ScaleUpFields], path: str) -> tuple[NodeClass, ...]:
    """Raises FieldError."""
    names = [each.name for each in given]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise FieldError(f"{path}[{at}].name", f"class {name!r} is given twice")
    return scaleupfields.to_classes(
        [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in given]
    )


def _permille(portion: Fraction, path: str) -> int:
    """Raises FieldError for more than everything."""
    if portion > 1:
        raise FieldError(path, "must be at most 100%")
    return int(portion * 1000)


def row_of(nodes: Nodes, path: str) -> NodeRow:
    """Equal nodes that are written down. Raises FieldError."""
    named = {
        name: value
        for name, value in ((CPU, nodes.cpu), (MEMORY, nodes.memory))
        if value is not None
    }
    amounts = dict(quantity.vector(named, path))
    if nodes.gpus is not None:
        amounts[GPU] = nodes.gpus.count
    if not any(amounts.values()):
        raise FieldError(path, "the nodes offer nothing: give cpu, memory or gpus")
    return row(
        nodes.count, Resources(amounts), nodes.gpus.model if nodes.gpus else "", nodes.taints
    )


def _rows(view: ClusterView) -> tuple[NodeRow, ...]:
    return tuple(view.capacity.rows) if view.capacity is not None else ()


def _with(view: ClusterView, rows: Sequence[NodeRow]) -> ClusterView:
    before = view.capacity or Capacity()
    capacity = Capacity(
        rows=tuple(rows),
        packs=before.packs,
        machines=before.machines,
        rules=before.rules,
        quotas=before.quotas,
    )
    return replace(view, capacity=capacity)


def _all_free(view: ClusterView) -> ClusterView:
    return _with(view, [replace(nodes, free=nodes.allocatable) for nodes in _rows(view)])


def scaled(view: ClusterView, capacity: Fraction) -> ClusterView:
    """With this part of its nodes of each kind, rounded down, at least one. A cluster of one node
    has this part of its amounts, at least one milli-core, byte or GPU of each."""
    if capacity == 1:
        return view
    rows = _rows(view)
    if len(rows) == 1 and rows[0].count == 1:
        part = {
            name: max(1, amount * capacity.numerator // capacity.denominator)
            for name, amount in rows[0].allocatable.items()
        }
        return _with(view, [row(1, Resources(part), rows[0].model)])
    counts = [max(1, nodes.count * capacity.numerator // capacity.denominator) for nodes in rows]
    return _with(
        view, [replace(nodes, count=count) for nodes, count in zip(rows, counts, strict=True)]
    )


def aggregated(view: ClusterView) -> ClusterView:
    """With one node of the totals of each GPU model."""
    totals: dict[str, Resources] = {}
    for nodes in _rows(view):
        totals[nodes.model] = totals.get(nodes.model, Resources()) + nodes.allocatable * nodes.count
    return _with(view, [row(1, total, model) for model, total in totals.items()])


def grown(view: ClusterView, by: int, more: NodeRow | None, path: str) -> ClusterView:
    """With more or fewer nodes like those it has most of, and nodes of another kind. Raises
    FieldError when none would be left."""
    rows = list(_rows(view))
    if by:
        most = max(range(len(rows)), key=lambda at: rows[at].count)
        left = rows[most].count + by
        if left < 0 or (not left and len(rows) == 1 and more is None):
            raise FieldError(
                path, f"cluster {view.name!r} has {rows[most].count} such nodes: {by} leaves none"
            )
        rows[most] = replace(rows[most], count=left)
    if more is not None:
        rows.append(more)
    return _with(view, [nodes for nodes in rows if nodes.count])
