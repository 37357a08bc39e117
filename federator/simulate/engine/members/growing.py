"""A member cluster with an autoscaler: nodes of stated classes come and go.

A node keeps its number while it is there. The number of a node that was removed is given to the
next one of its class. What autoscalers decide is in `autoscaling`.
"""

import bisect
import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from federator.model.ask import PodShape
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.resources import PODS
from federator.model.scaleup import NodeClass
from federator.placement.growth import pools
from federator.placement.growth.pools import Pools
from federator.placement.room import binding
from federator.simulate.engine.members.member import Member
from federator.simulate.engine.shapes import MODEL_LABEL, Shapes

WHOLE: Final = 1000
"""Thousandths: autoscalers fill nodes, whatever part of them the federation may use."""
Pods = tuple[tuple[PodShape, int], ...]
"""Single pods, and how many of each."""


class GrowingMember(Member):
    """Its classes are its last makes. No node of them is there at first."""

    def __init__(self, view: ClusterView, shapes: Shapes, changed: Callable[[], None]) -> None:
        capacity = view.capacity or Capacity()
        self._waiting: Pods = ()
        self._described: Mapping[str, int] = capacity.machines
        """Nodes by instance type that are not of its autoscaler."""
        self._came: Counter[str] = Counter()
        """The same of those that are."""
        self._base = sum(row.count for row in capacity.rows)
        self._first = len(capacity.rows)
        self._coming = range(self._first, self._first + len(view.scale_up))
        self._removed: dict[int, list[int]] = {make: [] for make in self._coming}
        """Make -> numbers of nodes that were removed, as a heap."""
        self._pools: Pools | None = None
        """What can still be added, after what waits; None: to be counted again."""
        rows = (*capacity.rows, *map(_row_of, view.scale_up))
        super().__init__(replace(view, capacity=replace(capacity, rows=rows)), shapes, changed)
        self._sizes = {
            make: tuple(self._size(self._makes[make], name) for name in self.names)
            for make in self._coming
        }

    @property
    def classes(self) -> tuple[NodeClass, ...]:
        """As its MemberCluster states them now, those with the reason that are not counted on."""
        return self._view.scale_up

    @property
    def nodes(self) -> int:
        """Those that its autoscaler did not add."""
        return self._base

    @property
    def machines(self) -> Mapping[str, int]:
        """Nodes by instance type."""
        return Counter(self._described) + self._came

    def add(self, at: int) -> int:
        """An empty node of the class comes; returns its number."""
        make = self._coming[at]
        size, column = self._sizes[make], np.array(self._sizes[make], dtype=np.int64)[:, None]
        if self._removed[make]:
            node = heapq.heappop(self._removed[make])
            self.allocatable[:, node] = column[:, 0]
            self._at[node] = (make, size)
        else:
            node = len(self._at)
            self._at.append((make, size))
            self._make_of = np.append(self._make_of, make)
            self.allocatable = np.hstack([self.allocatable, column])
            self._free = np.hstack([self._free, column])
            scored = binding.inverse([[size[place]] for place in self._scored])
            self._inverse = np.hstack([self._inverse, scored.reshape(len(self._scored), 1)])
            self._one_each = np.ones(node + 1, dtype=np.int64)
        self._list(node)
        self._came[self.classes[at].instance_type] += 1
        self._resize(node)
        return node

    def remove(self, node: int) -> None:
        """An empty node is gone."""
        make, size = self._at[node]
        row = (make, size)
        there = self._rows[row]
        if len(there) == 1:
            place = bisect.bisect_left(self._listed, (self._order.pop(row), row))
            del self._rows[row], self._listed[place], self._nodes_of[place]
        else:
            del there[bisect.bisect_left(there, node)]
        heapq.heappush(self._removed[make], node)
        self.allocatable[:, node] = 0
        self._at[node] = (make, (0,) * len(size))
        self._came[self.classes[make - self._first].instance_type] -= 1
        self._resize(node)

    def empty(self) -> list[int]:
        """The nodes of its autoscaler that hold nothing, rising."""
        rows = ((make, size) for make, size in self._sizes.items())
        return sorted(node for row in rows for node in self._rows.get(row, ()))

    def wait(self, pods: Pods) -> None:
        """These pods wait for nodes from now on."""
        if pods != self._waiting:
            self._waiting = pods
            self._reported = self._pools = None
            self._tell()

    def ordered(self) -> list[int]:
        """How many nodes of each class the pods that wait need, as the hub counts them: each pod
        once, on as few nodes as they fill."""
        stated = tuple(replace(each, late="") for each in self.classes)
        before = pools.opened(stated, self.machines, WHOLE)
        after = before
        for shape, copies in self._waiting:
            after, _ = pools.charge(after, shape, copies)
        return [then.left - now.left for then, now in zip(before, after, strict=True)]

    def could_add_for(self, pods: Pods) -> list[NodeClass]:
        """The classes that are counted on, are not all there, and hold one of these pods."""
        opened = pools.opened(self.classes, self.machines, WHOLE)
        some = [pool for pool in opened if pool.left]
        return [pool.node_class for pool in some if any(pool.room(pod) for pod, _ in pods)]

    def report(self, includes_seq: int) -> ClusterView:
        if self._reported is None:
            view = super().report(includes_seq)
            assert view.capacity is not None
            capacity = replace(view.capacity, waiting=self._waiting, machines=self.machines)
            self._reported = replace(view, capacity=capacity)
        return self._reported

    def reach(self, shape: PodShape) -> int:
        """Copies that it has room for now, and after it has added what it can."""
        if self._pools is None:
            opened = pools.opened(self.classes, self.machines, WHOLE)
            for waits, copies in self._waiting:
                opened = pools.charge_all(opened, waits, copies)
            self._pools = opened
        return self._together(shape, self._pools, None)

    def could_hold(self, shape: PodShape, copies: int) -> bool:
        """Whether so many copies would fit if it were empty and had all its nodes."""
        stated = tuple(replace(each, late="") for each in self.classes)
        opened = pools.opened(stated, self.machines, WHOLE)
        return self._together(shape, opened, self.allocatable) >= copies

    def _together(self, shape: PodShape, growth: Pools, free: "np.ndarray | None") -> int:
        """Copies on nodes with these free amounts and on those to be added."""
        least = [(part.shape, part.min) for part in shape.parts if part.min > 0]
        return min(
            (
                (int(self.heights(pod, free).sum()) + pools.room(growth, pod)) // count
                for pod, count in least or [(shape, 1)]
            ),
            default=0,
        )

    def change(self, **facts: object) -> None:
        self._pools = None
        super().change(**facts)

    def _admits(self, make: int, shape: PodShape) -> bool:
        if make in self._coming:
            return pools.admits(self.classes[make - self._first], shape)
        return super()._admits(make, shape)

    def _list(self, node: int) -> None:
        """The node joins those with the same row."""
        row = self._at[node]
        if row in self._rows:
            bisect.insort(self._rows[row], node)
            return
        self._order[row] = self._summary.order(row)
        self._rows[row] = there = [node]
        place = bisect.bisect_left(self._listed, (self._order[row], row))
        self._listed.insert(place, (self._order[row], row))
        self._nodes_of.insert(place, there)

    def _resize(self, node: int) -> None:
        """Another node is there, or gone."""
        self._stale.add(node)
        self._takes.clear()
        self.moves += 1
        self.resized += 1
        self._reported = self._pools = None
        self._tell()


def _row_of(node_class: NodeClass) -> NodeRow:
    """What is known of the nodes of a class, of which there is none yet."""
    size = node_class.allocatable
    return NodeRow(
        count=0,
        allocatable=size,
        free=size,
        model=node_class.node_labels.get(MODEL_LABEL, ""),
        taints=node_class.taints,
        podless=PODS not in size,
    )
