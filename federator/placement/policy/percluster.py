"""Bounds on single clusters (`division.perCluster`) beside those on all of them. Pure.

Of all bounds that hold for a cluster the strictest counts: the largest minimum, the smallest
maximum. A maximum below the minimum leaves the cluster out.
"""

from collections.abc import Sequence
from typing import NamedTuple

from federator.model.ask import Ask, Unit
from federator.model.bounds import PerCluster
from federator.model.fleet import ClusterView
from federator.model.policy import Policy
from federator.placement.policy import enforcing


class Bounds(NamedTuple):
    """What one cluster may get of a workload, with the words for it."""

    least: int
    """A cluster that joins gets at least so many copies, or none."""
    least_text: str
    """The field that says so, with its value."""
    most: int | None
    """None for no bound."""
    most_text: str
    enforced: str
    """Name of the Required policy that sets `most`; "" for none."""


def general(policy: Policy) -> Bounds:
    division, demand = policy.division, enforcing.bounding(policy, "maxPerCluster")
    return Bounds(
        max(division.min_per_cluster, 0),
        enforcing.bound(policy, "minPerCluster"),
        division.max_per_cluster,
        enforcing.bound(policy, "maxPerCluster"),
        demand.name if demand is not None else "",
    )


def bounds(ask: Ask, entries: Sequence[PerCluster], all_clusters: Bounds) -> Bounds:
    """The strictest of the bounds on all clusters and those of these entries."""
    strictest, copies = all_clusters, counted(ask)
    for entry in entries:
        if entry.least > strictest.least:
            text = f"{entry.field}.min {entry.least}{_by(entry)}"
            strictest = strictest._replace(least=entry.least, least_text=text)
        most = entry.of(copies)
        if most is not None and (strictest.most is None or most < strictest.most):
            strictest = strictest._replace(
                most=most, most_text=_most(entry, most, copies), enforced=entry.enforced
            )
    return strictest


def of(ask: Ask, view: ClusterView) -> Bounds:
    entries = ask.policy.division.bounds_of(view.name, view.labels)
    return bounds(ask, entries, general(ask.policy))


def counted(ask: Ask) -> int:
    """The workload's copies, of which a percentage is taken: replicas, or the parallelism."""
    return max(ask.slots if ask.unit is Unit.SHARDS else ask.count, 0)


def _most(entry: PerCluster, most: int, copies: int) -> str:
    share = f"{entry.percent}% ({most} of {copies})" if entry.percent is not None else str(most)
    return f"{entry.field}.max {share}{_by(entry)}"


def _by(entry: PerCluster) -> str:
    return f" of {entry.demand}" if entry.demand else ""
