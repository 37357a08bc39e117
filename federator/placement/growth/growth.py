"""The nodes that all clusters of a snapshot can add, above what is free: one per ledger, and
charged with it.

What is promised is not kept anywhere. It follows from the last report of each cluster (the pods
that no node has room for, and how many nodes of each type there are) and from the decisions that
this report does not include, so that nothing is promised twice and a restart forgets nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView
from federator.model.resources import CPU, GPU, MEMORY
from federator.model.scaleup import Addition
from federator.placement.growth import pools
from federator.placement.growth.pools import Pools

Pods = Sequence[tuple[PodShape, int]]
"""Single pods, and how many of each."""
Uncovered = Callable[[str, int], Pods]
"""(cluster, seq) -> what a report up to this seq does not include, one decision after the other."""


class Free(Protocol):
    """The nodes of one cluster, with what is free on them."""

    def copies(self, shape: PodShape) -> int: ...
    def charge(self, shape: PodShape, count: int, *, packs: bool = False) -> Self: ...


class Growth:
    """Mutable, as the ledger that it belongs to. Clusters are named by their place in the world."""

    def __init__(self, every: Mapping[int, Pools]) -> None:
        self._pools = dict(every)

    @property
    def clusters(self) -> Sequence[int]:
        """Those that can add nodes, rising."""
        return sorted(self._pools)

    def pools(self, at: int) -> Pools:
        return self._pools.get(at, ())

    def room(self, at: int, shape: PodShape) -> int:
        """Copies of a single pod for which the cluster can make room."""
        return pools.room(self.pools(at), shape)

    def fits(self, at: int, shape: PodShape, nodes: Free) -> bool:
        """Whether all pods of a gang have room together, those first that find it on its nodes."""
        here = self.pools(at)
        for pod, count in shape.pods:
            free = min(nodes.copies(pod), count) if pod.plain else 0
            nodes = nodes.charge(pod, free)
            here, missing = pools.charge(here, pod, count - free)
            if missing:
                return False
        return True

    def charge(self, at: int, shape: PodShape, copies: int) -> Pools:
        """So many copies wait for nodes of the cluster; those that no node holds are ignored.
        Returns its pools before, for `put_back`."""
        before = self.pools(at)
        if before:
            self._pools[at] = pools.charge(before, shape, copies)[0]
        return before

    def put_back(self, at: int, before: Pools) -> None:
        """Takes the last charge of a cluster back."""
        if before:
            self._pools[at] = before

    def state(self) -> Mapping[int, Pools]:
        """What is promised now, for `since`."""
        return dict(self._pools)

    def since(self, before: Mapping[int, Pools], names: Sequence[str]) -> tuple[Addition, ...]:
        """What was promised since, by cluster and class. `names`: of all clusters, by place."""
        return tuple(
            Addition(
                names[at],
                now.node_class.name,
                nodes,
                now.copies - then.copies,
                now.node_class.minutes,
                None if now.node_class.price is None else now.node_class.price * nodes,
            )
            for at in self.clusters
            for then, now in zip(before[at], self._pools[at], strict=True)
            for nodes in (then.left - now.left,)
            if now.copies > then.copies
        )


def promised(view: ClusterView, nodes: Free, uncovered: Uncovered) -> Pools:
    """The pools of a cluster with what is promised of them already: to pods that wait in its last
    report, then to decisions that it does not include, as far as its nodes have no room."""
    capacity = view.capacity
    assert capacity is not None  # its nodes are of it
    here = pools.opened(view.scale_up, capacity.machines, view.usable_permille)
    for shape, copies in sorted(capacity.waiting, key=largest_first):
        here = pools.charge_all(here, shape, copies)
    for shape, copies in uncovered(view.name, capacity.includes_seq):
        free = min(_free(capacity, nodes, shape), copies)
        nodes = nodes.charge(shape, free, packs=capacity.packs)
        here = pools.charge_all(here, shape, copies - free)
    return here


def largest_first(waiting: tuple[PodShape, int]) -> tuple[tuple[int, ...], str]:
    """Laid in this order, pods need the fewest nodes."""
    shape, _ = waiting
    return tuple(-shape.requests[name] for name in (GPU, MEMORY, CPU)), shape.id


def _free(capacity: Capacity, nodes: Free, shape: PodShape) -> int:
    fits = nodes.copies(shape)
    return fits if shape.plain else min(fits, capacity.copies.get(shape.id, fits))
