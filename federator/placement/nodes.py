"""Groups of equal nodes in columns: how many copies fit, and what is left after some are placed.

The ledger keeps one `Nodes` per cluster. It is a value: charging gives another one. All numbers are exact integers
below 2^62; only beyond MAX_ROWS_KEPT are amounts rounded down, so that a long batch does not slow down.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from federator.model import taints
from federator.model.ask import PodShape
from federator.model.fleet import NodeRow
from federator.model.resources import PODS, UNLIMITED
from federator.model.taints import Taint

MAX_ROWS_KEPT: Final = 64
"""Rows that charging may add to those of the summary before rows are merged, and rounded down if that is not enough."""
MOST_PER_NODE: Final = 1 << 31

_Ints = NDArray[np.int64]
_Piece = tuple[int, int, int]
"""row, nodes of it, copies on each of these nodes"""


@lru_cache(maxsize=8192)
def shape_id(shape: PodShape) -> str:
    """`shape.id`, remembered: it is asked for at every decision."""
    return shape.id


def row_key(row: NodeRow) -> tuple[object, ...]:
    """A total order over rows, so that nothing depends on how a member listed them."""
    return (tuple(row.allocatable.items()), tuple(row.free.items()), row.model, row.family, row.taints, row.count)


def leading(amount: int, digits: int) -> int:
    """The amount with all but its highest binary digits dropped."""
    drop = max(amount.bit_length() - digits, 0)
    return amount >> drop << drop


class Nodes:
    """`free[i, r]` is the free amount of resource `names[i]` on each of the `counts[r]` nodes of row r.

    A row whose allocatable does not name `pods` is not limited in them (a hand-written fleet); every real node is.
    """

    __slots__ = ("_heights", "counts", "free", "kinds", "most_rows", "names", "taints")

    def __init__(
        self,
        names: tuple[str, ...],
        counts: _Ints,
        free: _Ints,
        kinds: _Ints,
        *,
        taint_sets: tuple[tuple[Taint, ...], ...],
        most_rows: int,
    ) -> None:
        self.names, self.counts, self.free, self.kinds = names, counts, free, kinds
        self.taints = taint_sets
        """Sets of taints; `kinds[r]` is the index of row r's."""
        self.most_rows = most_rows
        self._heights: dict[str, _Ints] = {}

    @classmethod
    def of(cls, rows: Iterable[NodeRow]) -> "Nodes":
        every = sorted((row for row in rows if row.count > 0), key=row_key)
        names = tuple(sorted({name for row in every for name in (*row.allocatable, *row.free)}))
        sets = tuple(sorted({tuple(sorted(row.taints)) for row in every}))
        free = [[min(_amount(row, name), UNLIMITED) for row in every] for name in names]
        return cls(
            names,
            np.array([row.count for row in every], dtype=np.int64),
            np.array(free, dtype=np.int64).reshape(len(names), len(every)),
            np.array([sets.index(tuple(sorted(row.taints))) for row in every], dtype=np.int64),
            taint_sets=sets,
            most_rows=len(every) + MAX_ROWS_KEPT,
        )

    @property
    def rows(self) -> list[tuple[int, tuple[int, ...], tuple[Taint, ...]]]:
        """(count, free amounts in the order of `names`, taints) of every row."""
        columns = self.free.T.tolist()
        return [
            (count, tuple(column), self.taints[kind])
            for count, column, kind in zip(self.counts.tolist(), columns, self.kinds.tolist(), strict=True)
        ]

    def copies(self, shape: PodShape) -> int:
        """How many copies fit now."""
        return min(int(self.counts @ self.heights(shape)), UNLIMITED)

    def heights(self, shape: PodShape) -> _Ints:
        """Copies per node, row by row."""
        key = shape_id(shape)
        known = self._heights.get(key)
        if known is None:
            known = self._heights[key] = self._count(shape)
        return known

    def _count(self, shape: PodShape) -> _Ints:
        needs = _needs(self.names, shape)
        if needs is None or not self.counts.size:
            return np.zeros(self.counts.size, dtype=np.int64)
        heights: _Ints = np.full(self.counts.size, 1 if shape.one_per_node else MOST_PER_NODE, dtype=np.int64)
        for index, need in needs:
            np.minimum(heights, self.free[index] // need, out=heights)
        np.maximum(heights, 0, out=heights)
        if any(self.taints):
            open_to = [taints.untolerated(each, shape.tolerations) is None for each in self.taints]
            if not all(open_to):
                heights[~np.array(open_to)[self.kinds]] = 0
        return heights

    def charge(self, shape: PodShape, count: int, *, packs: bool = False) -> "Nodes":
        """What is left after `count` more copies: taken where most copies still fit (as a spreading scheduler does), or
        when the member packs, where fewest still do. Copies beyond what fits are ignored."""
        heights = self.heights(shape)
        needs = _needs(self.names, shape)
        if count <= 0 or not needs or not heights.any():
            return self
        pieces = _packed(self.counts, heights, count) if packs else _spread(self.counts, heights, count)
        counts, free = self.counts.copy(), self.free.copy()
        added: list[tuple[int, int, _Ints]] = []
        for row, part, per_node in pieces:
            left = self.free[:, row].copy()
            for index, need in needs:
                left[index] -= need * per_node
            if part == counts[row]:
                free[:, row] = left
            else:
                counts[row] -= part
                added.append((row, part, left))
        kinds = self.kinds
        if added:
            counts = np.append(counts, [part for _, part, _ in added])
            free = np.column_stack([free, *(left for _, _, left in added)])
            kinds = np.append(kinds, self.kinds[[row for row, _, _ in added]])
        return self._with(counts, free, kinds)

    def _with(self, counts: _Ints, free: _Ints, kinds: _Ints) -> "Nodes":
        if counts.size > self.most_rows:
            counts, free, kinds = _merged(counts, free, kinds, self.most_rows)
        return Nodes(
            self.names,
            counts,
            free,
            kinds,
            taint_sets=self.taints,
            most_rows=self.most_rows,
        )


@lru_cache(maxsize=1 << 16)
def _needs(names: tuple[str, ...], shape: PodShape) -> tuple[tuple[int, int], ...] | None:
    """(index of a resource, amount that a copy takes); None when it asks for something that no node has."""
    if any(need > 0 and name != PODS and name not in names for name, need in shape.requests.items()):
        return None
    wanted = [(index, shape.requests[name], name) for index, name in enumerate(names)]
    return tuple(
        (index, max(need, 1) if name == PODS else need) for index, need, name in wanted if need > 0 or name == PODS
    )


def _amount(row: NodeRow, name: str) -> int:
    return UNLIMITED if name == PODS and name not in row.allocatable else row.free[name]


def _merged(counts: _Ints, free: _Ints, kinds: _Ints, most_rows: int) -> tuple[_Ints, _Ints, _Ints]:
    """Joins equal rows; while that leaves more than three quarters of the limit, rounds free amounts down further."""
    floor = np.maximum(free, 0)
    columns = np.vstack([floor, kinds])
    for digits in (62, 8, 7, 6, 5, 4, 3, 2, 1):
        rounded = _leading(floor, digits)
        columns, inverse = np.unique(np.vstack([rounded, kinds]), axis=1, return_inverse=True)
        if 4 * columns.shape[1] <= 3 * most_rows:
            break
    joined = np.zeros(columns.shape[1], dtype=np.int64)
    np.add.at(joined, inverse.ravel(), counts)
    return joined, np.ascontiguousarray(columns[:-1]), columns[-1]


def _leading(amounts: _Ints, digits: int) -> _Ints:
    """`leading` of every amount (an exponent may come out one too high for huge ones, which only rounds further)."""
    drop = np.maximum(np.frexp(amounts.astype(np.float64))[1].astype(np.int64) - digits, 0)
    rounded: _Ints = amounts >> drop << drop
    return rounded


def _spread(counts: _Ints, heights: _Ints, count: int) -> list[_Piece]:
    """Levels the heights: nodes are taken down to the same number of copies that still fit."""
    top = int(heights.max())
    highest = np.flatnonzero(heights == top).tolist()
    if count <= sum(int(counts[row]) for row in highest):
        return _one_each(counts, highest, count)
    low, high = 0, top
    while low < high:
        level = (low + high) // 2
        if int(counts @ np.maximum(heights - level, 0)) <= count:
            high = level
        else:
            low = level + 1
    above = np.maximum(heights - low, 0)
    left = count - int(counts @ above)
    pieces: list[_Piece] = []
    for row, (nodes, base, height) in enumerate(zip(counts.tolist(), above.tolist(), heights.tolist(), strict=True)):
        more = min(left, nodes) if height >= low > 0 else 0
        left -= more
        pieces += [piece for piece in ((row, more, base + 1), (row, nodes - more, base)) if piece[1] and piece[2]]
    return pieces


def _one_each(counts: _Ints, rows: list[int], count: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    for row in rows:
        taken = min(count, int(counts[row]))
        if taken:
            pieces.append((row, taken, 1))
        count -= taken
    return pieces


def _packed(counts: _Ints, heights: _Ints, count: int) -> list[_Piece]:
    """Fills the fullest nodes first, one after the other."""
    pieces: list[_Piece] = []
    order = sorted(np.flatnonzero(heights > 0).tolist(), key=lambda row: (int(heights[row]), row))
    for row in order:
        nodes, height = int(counts[row]), int(heights[row])
        full = min(count // height, nodes)
        count -= full * height
        if full:
            pieces.append((row, full, height))
        if full < nodes and count > 0:
            pieces.append((row, 1, count))
            count = 0
        if count == 0:
            break
    return pieces
