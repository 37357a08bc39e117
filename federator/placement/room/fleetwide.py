"""What decisions ask of all clusters together, kept while filters judge them alike."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from federator.model.fleet import ClusterView, FleetSnapshot

Bounding: TypeAlias = Mapping[str, tuple[str, ...]]
"""Namespace -> the clusters with ResourceQuotas there, by name."""


@dataclass(frozen=True, slots=True)
class Fleetwide:
    """Most fleets have none of this: a decision looks here before it looks at any cluster."""

    closed: bool
    """Some cluster is open to some projects only."""
    ruled: frozenset[str]
    """The namespaces in which some cluster has LimitRanges or ResourceQuotas."""
    bounding: Bounding
    growing: tuple[str, ...]
    """The clusters that state nodes which they can add, by name."""


def of(snapshot: FleetSnapshot, memo: MutableMapping[Any, Any]) -> Fleetwide:
    """`memo`: lasts as long as filters judge the clusters alike."""
    kept: Fleetwide | None = memo.get("fleet")
    if kept is None:
        views = [snapshot.clusters[name] for name in sorted(snapshot.clusters)]
        kept = memo["fleet"] = Fleetwide(
            closed=any(view.projects is not None for view in views),
            ruled=frozenset[str]().union(*(view.rules for view in views)),
            bounding=_bounding(views),
            growing=tuple(view.name for view in views if view.scale_up),
        )
    return kept


def _bounding(views: list[ClusterView]) -> Bounding:
    clusters: dict[str, list[str]] = {}
    for view in views:
        for namespace, rules in view.rules.items():
            if rules.quotas:
                clusters.setdefault(namespace, []).append(view.name)
    return {namespace: tuple(names) for namespace, names in clusters.items()}
