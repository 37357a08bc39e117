"""Room: which clusters have most of it, and how many more nodes would be enough, of those that
clusters can add and of others."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from federator.advice.trials import (
    Change,
    HostState,
    Trials,
    in_member,
    in_policy,
    least,
    placed,
)
from federator.api import raw
from federator.api.scaleupfields import MAX_CLASS_NODES
from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.fleet import ClusterView, NodeRow
from federator.model.kubernetes import quantity
from federator.model.scaleup import ScaleUp
from federator.placement.room import capacity

Field: TypeAlias = tuple[str | int, ...]
MAX_CLUSTERS: Final = 4
"""Clusters for which more nodes are tried."""


def roomiest(world: HostState, ask: Ask) -> list[str]:
    """All clusters, open or not, those with most reported free room for a copy first."""

    def free(name: str) -> int:
        view = world.snapshot.clusters[name]
        return capacity.copies(view.capacity.rows, ask.shape) if view.capacity is not None else 0

    return sorted(world.snapshot.clusters, key=lambda name: (-free(name), name))


def more_nodes(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """The fewest additional empty nodes of one cluster that gain most, like the node there that
    takes most copies."""
    ask, now = world.ask, placed(decision)
    assert ask is not None
    lacking = max(ask.slots - now, 0)
    if not ask.shape.plain or not lacking:
        return
    for each, name, row in _best_rows(world, trials, ask)[:MAX_CLUSTERS]:
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
        then = _with_nodes(world, ask, name, row, count)
        yield Change(text, then, "add them, or let the cluster's autoscaler")


def scale_ups(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """Nodes that clusters can add allowed by the policy, and the fewest more of one class that gain
    most."""
    ask, now = world.ask, placed(decision)
    assert ask is not None
    policy = ask.policy
    if policy.scale_up is ScaleUp.NEVER:
        if any(view.scale_up for view in world.snapshot.clusters.values()) and (
            made := in_policy(world, policy, ("scaleUp",), str(ScaleUp.WHEN_SHORT))
        ):
            yield Change(f"scaleUp {policy.scale_up} -> {ScaleUp.WHEN_SHORT}", made)
        return
    lacking = max(ask.slots - now, 0)
    if not any(view.scale_up for view in world.snapshot.clusters.values()):
        return
    for name in roomiest(world, ask)[:MAX_CLUSTERS]:
        written = raw.objects(world.obj(("MemberCluster", "", name)), "spec", "scaleUp")
        for at, entry in enumerate(written):
            field, most = ("spec", "scaleUp", at, "max"), raw.integer(entry, "max")
            high = in_member(world, name, field, min(most + lacking, MAX_CLASS_NODES))
            if high is None or not lacking or (best := trials.placed(high)) <= now:
                continue

            def of(count: int, name: str = name, field: Field = field) -> HostState:
                made = in_member(world, name, field, count)
                assert made is not None
                return made

            def enough(count: int, of: Callable[[int], HostState] = of, best: int = best) -> bool:
                return trials.placed(of(count)) >= best

            count = least(most + 1, min(most + lacking, MAX_CLASS_NODES), enough)
            text = f"scaleUp of {name}: max of {raw.text(entry, 'name')} {most} -> {count}"
            yield Change(text, of(count), f"the autoscaler of {name} may add as many nodes too")


def _best_rows(world: HostState, trials: Trials, ask: Ask) -> list[tuple[int, str, NodeRow]]:
    """(copies on one empty node, cluster, node) of the best node of each open cluster, the best
    first."""
    best: list[tuple[int, str, NodeRow]] = []
    known: dict[NodeRow, int] = {}  # many nodes are alike

    def copies(row: NodeRow) -> int:
        single = replace(row, count=1, free=row.allocatable)
        if single not in known:
            known[single] = capacity.copies((single,), ask.shape)
        return known[single]

    refusals = trials.refusals(world)
    for name, view in world.snapshot.clusters.items():
        if view.capacity is not None and refusals[name] is None:
            rows = [(copies(row), name, row) for row in view.capacity.rows]
            best += sorted(rows, key=lambda row: -row[0])[:1]
    return sorted((row for row in best if row[0] > 0), key=lambda row: (-row[0], row[1]))


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
