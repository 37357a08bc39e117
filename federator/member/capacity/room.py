"""Free room of the nodes of one member, as a matrix of integers: claims are laid over it, questions
answered from it.

Pure; made anew for every capacity report. Claims are placed the way the scheduler does by default
(`placement.room.binding`). What fits nowhere takes nothing, since it holds nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from federator.member.cache.rows import Node
from federator.model.ask import PodShape
from federator.model.fleet import NodeRow
from federator.model.kubernetes import nodematch, taints
from federator.model.resources import PODS, Resources
from federator.placement.room import binding

Column = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MANY: Final = 1 << 40
"""More copies than any node holds, and still safe to add up over millions of nodes."""


class Masks:
    """Which nodes a shape may use, and how large they are, remembered until a node changes in
    that."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._masks: dict[tuple[Any, ...], Mask] = {}
        self.inverse = binding.inverse(
            [[node.allocatable[name] for node in nodes] for name in binding.SCORED]
        )
        """[i, n] is 1 / allocatable of node n and amount i of `binding.SCORED`."""

    def of(self, shape: PodShape) -> Mask:
        """True for each node that tolerations and node selector of the shape admit."""
        key = (shape.node_selector, shape.tolerations)
        mask = self._masks.get(key)
        if mask is None:
            selector, affinity = nodematch.parse(shape.node_selector)
            mask = np.array(
                [
                    taints.untolerated(node.taints, shape.tolerations) is None
                    and nodematch.matches(selector, affinity, node.labels, node.name)
                    for node in self.nodes
                ],
                dtype=np.bool_,
            )
            self._masks[key] = mask
        return mask


class Room:
    """Free room per node, in the order of `masks.nodes`. Amounts are those of `model.resources`."""

    def __init__(self, masks: Masks, used: Mapping[str, Mapping[str, int]]) -> None:
        self.masks = masks
        nodes = masks.nodes
        self._names = sorted({name for node in nodes for name in node.allocatable})
        self._columns = {name: index for index, name in enumerate(self._names)}
        self._free = np.zeros((len(nodes), len(self._names)), dtype=np.int64)
        for index, node in enumerate(nodes):
            taken = used.get(node.name, {})
            for name, amount in node.allocatable.items():
                self._free[index, self._columns[name]] = max(amount - taken.get(name, 0), 0)

    def fits(self, shape: PodShape) -> Column:
        """Copies of the shape that each node still takes."""
        count = len(self.masks.nodes)
        copies = np.full(count, MANY, dtype=np.int64)
        for name, need in shape.requests.items():
            column = self._columns.get(name)
            if column is None:
                return np.zeros(count, dtype=np.int64)
            np.minimum(copies, self._free[:, column] // need, out=copies)
        copies[~self.masks.of(shape)] = 0
        return np.minimum(copies, 1) if shape.one_per_node else copies

    def copies(self, shape: PodShape) -> int:
        """How many copies of the shape fit in all; for a daemon's pod, how many nodes admit it."""
        each_node = self.masks.of(shape) if shape.every_node else self.fits(shape)
        return int(each_node.sum())

    def claim(self, shape: PodShape, copies: int, *, only: Mask | None = None) -> int:
        """Takes room for that many copies where the scheduler will bind them; returns how many
        found room."""
        fits = self.fits(shape)
        if only is not None:
            fits = np.where(only, fits, 0)
        if copies <= 0:
            return 0
        taken = binding.spread(
            np.ones_like(fits), fits, copies, lambda n: self._openness(shape, n)
        ).each
        self._take(shape, taken)
        return int(taken.sum())

    def _openness(self, shape: PodShape, copies: int) -> binding.Floats:
        if not self._names:
            return np.zeros(len(self.masks.nodes))
        free = self._free.T.take([self._columns.get(name, 0) for name in binding.SCORED], axis=0)
        needs = np.array([[shape.requests[name]] for name in binding.SCORED], dtype=np.int64)
        return binding.openness(free, self.masks.inverse, needs, copies)

    def _take(self, shape: PodShape, copies: Column) -> None:
        need = np.array([shape.requests[name] for name in self._names], dtype=np.int64)
        self._free -= copies[:, None] * need[None, :]

    def claim_each(self, shape: PodShape, only: Mask) -> None:
        """Takes room for one copy on each of these nodes that the shape admits and that has it."""
        self._take(shape, np.minimum(np.where(only, self.fits(shape), 0), 1))

    def rows(self) -> list[NodeRow]:
        """Equal nodes together: allocatable and free room, GPU model, family and taints."""
        counts: dict[NodeRow, int] = {}
        for index, node in enumerate(self.masks.nodes):
            free = Resources(zip(self._names, self._free[index].tolist(), strict=True))
            podless = not node.allocatable[PODS]
            row = NodeRow(1, node.allocatable, free, node.model, node.family, node.taints, podless)
            counts[row] = counts.get(row, 0) + 1
        return [replace(row, count=count) for row, count in counts.items()]
