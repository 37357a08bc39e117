"""Room: which clusters have most of it, and how many more nodes would be enough."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from federator.advice.trials import HostState, Trials, least, placed
from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.fleet import ClusterView, NodeRow
from federator.model.kubernetes import quantity
from federator.placement.room import capacity
from federator.placement.selection import filters

MAX_CLUSTERS: Final = 4
"""Clusters for which more nodes are tried."""


def roomiest(world: HostState, ask: Ask) -> list[str]:
    """All clusters, open or not, those with most reported free room for a copy first."""

    def free(name: str) -> int:
        view = world.snapshot.clusters[name]
        return capacity.copies(view.capacity.rows, ask.shape) if view.capacity is not None else 0

    return sorted(world.snapshot.clusters, key=lambda name: (-free(name), name))


def more_nodes(
    world: HostState, trials: Trials, decision: Decision
) -> Iterator[tuple[str, HostState]]:
    """The fewest additional empty nodes of one cluster that gain most, like the node there that
    takes most copies."""
    ask, now = world.ask, placed(decision)
    assert ask is not None
    lacking = max(ask.slots - now, 0)
    if not ask.shape.plain or not lacking:
        return
    for each, name, row in _best_rows(world, ask)[:MAX_CLUSTERS]:
        most = 2 * -(-lacking // each) + 1
        gain = trials.placed(_with_nodes(world, ask, name, row, most))
        if gain <= now:
            continue

        def enough(count: int, name: str = name, row: NodeRow = row, gain: int = gain) -> bool:
            return trials.placed(_with_nodes(world, ask, name, row, count)) >= gain

        count = least(1, most, enough)
        like = ", ".join(
            f"{what} {amount}" for what, amount in quantity.render(row.allocatable).items()
        )
        nodes = f"{count} more empty node{'' if count == 1 else 's'}"
        text = (
            f"{nodes} in {name} like those it has ({like}; {each}"
            f" {'copy' if each == 1 else 'copies'} on each)"
        )
        yield text, _with_nodes(world, ask, name, row, count)


def _best_rows(world: HostState, ask: Ask) -> list[tuple[int, str, NodeRow]]:
    """(copies on one empty node, cluster, node) of the best node of each open cluster, the best
    first."""
    best: list[tuple[int, str, NodeRow]] = []
    for name, view in world.snapshot.clusters.items():
        if view.capacity is not None and filters.refusal(ask, view) is None:
            rows = [(_copies(ask, row), name, row) for row in view.capacity.rows]
            best += sorted(rows, key=lambda row: -row[0])[:1]
    return sorted((row for row in best if row[0] > 0), key=lambda row: (-row[0], row[1]))


def _copies(ask: Ask, row: NodeRow) -> int:
    return capacity.copies((replace(row, count=1, free=row.allocatable),), ask.shape)


def _with_nodes(world: HostState, ask: Ask, name: str, row: NodeRow, count: int) -> HostState:
    """The world in which a cluster has reported `count` more empty nodes. Its exact count for the
    shape grows too."""
    view: ClusterView = world.snapshot.clusters[name]
    assert view.capacity is not None
    fresh = replace(row, count=count, free=row.allocatable)
    copies = dict(view.capacity.copies)
    if ask.shape.id in copies:
        copies[ask.shape.id] += capacity.copies((fresh,), ask.shape)
    return world.with_view(
        replace(
            view, capacity=replace(view.capacity, rows=(*view.capacity.rows, fresh), copies=copies)
        )
    )
