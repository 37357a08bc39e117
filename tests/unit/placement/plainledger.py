"""A ledger with one `Nodes` per cluster: the reference for room and charges in columns."""

from typing import Any

import numpy as np

from federator.model.ask import PodShape
from federator.model.fleet import ClusterView, Commitment, FleetSnapshot
from federator.model.resources import PODS, Resources
from federator.placement.room import nodes
from federator.placement.room.binding import Ints
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.room.nodes import Nodes
from federator.placement.room.world import PENDING, Base


class _Charged:
    """A cluster before it was charged."""

    __slots__ = ("cluster", "state")

    def __init__(self, cluster: "Cluster", state: Any) -> None:
        self.cluster, self.state = cluster, state

    def take_back(self, _: Ledger) -> None:
        self.cluster.restore(self.state)


class Cluster:
    """Room of one cluster during the batch."""

    __slots__ = ("base", "charged", "headroom", "nodes", "rooms", "view")

    def __init__(self, view: ClusterView, base: Base) -> None:
        self.view = view
        self.base = base
        self.nodes: Nodes = base.nodes
        self.charged: dict[PodShape, int] = {}
        self.headroom: Resources | None = None
        if view.usable_permille < 1000:
            self.headroom = base.allocatable.scaled(view.usable_permille) - base.used
        self.rooms: dict[str, int] = {}

    def charge(self, shape: PodShape, copies: int) -> None:
        self.nodes = self.nodes.charge(shape, copies, packs=self.base.capacity.packs)
        self.charged = {**self.charged, shape: self.charged.get(shape, 0) + copies}
        if self.headroom is not None:
            self.headroom = self.headroom - shape.requests * copies
        self.rooms = {}

    def room(self, shape: PodShape) -> int:
        key = nodes.shape_id(shape)
        cached = self.rooms.get(key)
        if cached is None:
            cached = self.rooms[key] = self._room(shape, key)
        return cached

    def _room(self, shape: PodShape, key: str) -> int:
        exact = self.base.capacity.copies.get(key)
        if shape.plain:
            fit = self.nodes.copies(shape)
            if exact is not None:
                fit = exact - max(self.base.nodes.copies(shape) - fit, self.charged.get(shape, 0))
        elif exact is None:
            return PENDING
        else:
            fit = exact - sum(
                _destroyed(shape, other, copies) for other, copies in self.charged.items()
            )
        if self.headroom is not None:
            bounded = Resources(
                (n, a) for n, a in shape.requests.items() if n != PODS or n in self.base.allocatable
            )
            fit = min(fit, self.headroom.at_least_zero().fits(bounded))
        return max(fit, 0)

    def nodes_with_room(self, shape: PodShape) -> int:
        fit = int(self.nodes.counts @ (self.nodes.heights(shape) > 0))
        if self.headroom is None and nodes.shape_id(shape) not in self.base.capacity.copies:
            return fit  # nothing else limits it: its room is not smaller, or unknown
        room = self.room(shape)
        return fit if room == PENDING else min(fit, room)

    def state(self) -> tuple[Any, ...]:
        return (self.nodes, self.charged, self.headroom, self.rooms)

    def restore(self, state: tuple[Any, ...]) -> None:
        self.nodes, self.charged, self.headroom, self.rooms = state


def _destroyed(shape: PodShape, other: PodShape, copies: int) -> int:
    """The most copies of `shape` whose place `copies` of `other` can have taken, wherever they were
    bound.

        shape cpu 2, other cpu 3: one copy of other can destroy up to ceil(3 / 2) = 2 places, 4
        copies 8
    """
    if other == shape:
        return copies
    worst = 0
    for name, need in shape.requests.items():
        if need > 0 and other.requests[name] > 0:
            worst = max(worst, -(-other.requests[name] // need))
    return worst * copies


class PlainLedger(Ledger):
    """Room cluster by cluster; quota as in the ledger."""

    def __init__(self, commitments: Commitments, snapshot: FleetSnapshot) -> None:
        super().__init__(commitments, snapshot)
        self._all = commitments
        self._clusters: dict[str, Cluster | None] = {}

    def room(self, cluster: str, shape: PodShape) -> int:
        opened = self._cluster(cluster)
        return 0 if opened is None else opened.room(shape)

    def nodes_with_room(self, cluster: str, shape: PodShape) -> int:
        opened = self._cluster(cluster)
        return 0 if opened is None else opened.nodes_with_room(shape)

    def all_nodes_with_room(self, shape: PodShape) -> Ints:
        return np.array(
            [self.nodes_with_room(name, shape) for name in sorted(self.snapshot.clusters)],
            dtype=np.int64,
        )

    def left(self, cluster: str) -> tuple[Nodes | None, Resources | None]:
        opened = self._cluster(cluster)
        return (None, None) if opened is None else (opened.nodes, opened.headroom)

    def charge(self, cluster: str, shape: PodShape, copies: int) -> None:
        opened = self._cluster(cluster)
        if opened is None or copies <= 0:
            return
        state = opened.state()
        self._undo.append(_Charged(opened, state))
        opened.charge(shape, copies)

    def commit(self, commitment: Commitment, grown: dict[str, int]) -> None:  # type: ignore[override]
        self._hold(commitment.uid, commitment)
        for cluster in sorted(grown):
            self.charge(cluster, commitment.shape, grown[cluster])

    def _cluster(self, name: str) -> Cluster | None:
        if name not in self._clusters:
            view = self.snapshot.clusters.get(name)
            opened = None
            if view is not None and view.capacity is not None and not view.stale:
                opened = Cluster(view, Base(view.capacity, Nodes.of(view.capacity.rows)))
                for shape, copies in self._all.uncovered(name, view.capacity.includes_seq):
                    opened.charge(shape, copies)
            self._clusters[name] = opened
        return self._clusters[name]
