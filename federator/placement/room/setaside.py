"""Room that clusters keep for copies which have to leave others (`spec.failoverBuffer`), so that
the loss of one leaves nobody without a place; and what is left beside room that is set aside.

It is lent, not idle: work of tier Preemptible may have it, and what that holds anywhere in the
cluster counts as held there, so that ordinary work and the buffer have the rest.

    100 cpus, a buffer of 20, ordinary work holds 60: it may grow by 20
      Preemptible holds 15      25 are free, 5 of them are kept, it may grow by 20
      Preemptible holds 30      10 are free, none is kept, it may grow by 10

An amount is kept, not nodes. Where others have left for copies that wait (`claimed`), these are
reckoned to be on nodes as far as they fit: else two nodes with half a copy of room each would be
left to them, and a whole one go to somebody else. Pure.
"""

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from federator.model.ask import Ask, PodShape, Tier
from federator.model.fleet import ClusterView
from federator.model.resources import PODS, UNLIMITED, ZERO, Resources
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.room.nodes import Nodes

Copies: TypeAlias = tuple[PodShape, int]
"""Copies of one shape."""


def buffers(ledger: Ledger) -> frozenset[str]:
    """The clusters that keep room for what leaves others, and are not being emptied themselves."""
    names: frozenset[str] | None = ledger.memo.get("buffers")
    if names is None:
        clusters = ledger.snapshot.clusters
        names = frozenset(name for name, view in clusters.items() if _keeps(view))
        ledger.memo["buffers"] = names
    return names


def _keeps(view: ClusterView) -> bool:
    return view.buffer_permille > 0 and not view.empties


def from_ask(ask: Ask, ledger: Ledger) -> dict[str, Resources]:
    """Cluster -> what is kept there from this workload, unless it has lost its place elsewhere."""
    # It leaves when the room is needed, so nothing has to be kept from it.
    if ask.tier is Tier.PREEMPTIBLE:
        return {}
    kept: dict[str, Resources] = {}
    for name in sorted(buffers(ledger)):
        permille = ledger.snapshot.clusters[name].buffer_permille
        buffer = ledger.allocatable(name).scaled(permille)
        # What Preemptible work holds is part of the buffer: it goes when others come.
        if free := (buffer - ledger.below.preemptible(name)).at_least_zero():
            kept[name] = free
    return kept


def keep(ask: Ask, ledger: Ledger) -> None:
    """For a ledger that is read about this one workload: it has no room that is kept from it."""
    if kept := from_ask(ask, ledger):
        ledger.keep = functools.partial(left, ledger, kept)


def left(
    ledger: Ledger,
    kept: Mapping[str, Resources],
    shape: PodShape,
    rooms: Ints,
    claimed: Mapping[str, Sequence[Copies]] = MappingProxyType({}),
) -> Ints:
    """[C]: of the rooms for a shape, what is there beside what is kept, by cluster."""
    beside = rooms
    for cluster in dict.fromkeys((*kept, *claimed)):
        at = ledger.world.at.get(cluster)
        if at is None or rooms[at] <= 0:
            continue
        amount, copies = kept.get(cluster, ZERO), claimed.get(cluster, ())
        # By sums: where exactly the kept copies would lie is not decided yet.
        most = min(int(rooms[at]), _beside(ledger, cluster, amount, copies, shape))
        if most < rooms[at]:
            # Copied at the first change only: in most cycles nothing is kept.
            beside = beside if beside is not rooms else np.array(rooms)
            beside[at] = most
    return beside


def _beside(
    ledger: Ledger, cluster: str, kept: Resources, claimed: Sequence[Copies], shape: PodShape
) -> int:
    """Copies that fit by the sums over all nodes beside what is kept, and on nodes beside what is
    claimed."""
    nodes, headroom = ledger.left(cluster)
    if nodes is None:
        return 0
    most = UNLIMITED
    if claimed:
        capacity = ledger.snapshot.clusters[cluster].capacity
        packs = capacity is not None and capacity.packs
        nodes, bound, rest = _bound(nodes, claimed, packs=packs)
        kept = kept + rest
        headroom = None if headroom is None else headroom - bound
        most = UNLIMITED if shape.parts else nodes.copies(shape)
    free = dict(zip(nodes.names, (nodes.free @ nodes.counts).tolist(), strict=True))
    if headroom is not None:
        free |= {name: min(free.get(name, headroom[name]), headroom[name]) for name in headroom}
    needs = [(name, need) for name, need in shape.requests.items() if need and name != PODS]
    by_sums = (max(free.get(name, 0) - kept[name], 0) // need for name, need in needs)
    return min(most, min(by_sums, default=0))


def _bound(
    nodes: Nodes, claimed: Sequence[Copies], *, packs: bool
) -> tuple[Nodes, Resources, Resources]:
    """(what is free when as many of these copies as fit are bound, what they take, what the others
    request)"""
    bound = rest = ZERO
    for shape, copies in claimed:
        for pod, each in shape.pods:
            wanted = copies * each
            # What does not fit now is kept by its amounts: it is to begin when something ends.
            fits = min(nodes.copies(pod), wanted)
            nodes = nodes.charge(pod, fits, packs=packs)
            bound, rest = bound + pod.requests * fits, rest + pod.requests * (wanted - fits)
    return nodes, bound, rest
