"""How many copies of a pod shape fit: exact counts over groups of equal nodes, and what is left after placing some.

`summarise` builds the histogram that a member publishes; `copies` counts on it; `Nodes` is the form in which the ledger
keeps it while a batch gives room away. A pod must fit one node; sums over nodes are never compared with a request.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from federator.model import taints
from federator.model.ask import PodShape
from federator.model.fleet import NodeRow
from federator.model.resources import PODS, UNLIMITED, ZERO, Resources
from federator.model.taints import Taint

MAX_ROWS: Final = 256
"""Rows of a published histogram; beyond it amounts are rounded down (`summarise`)."""
MAX_WORKING_ROWS: Final = 512
"""Rows that the ledger keeps of one cluster while charging splits them."""

_Row = tuple[int, tuple[int, ...], tuple[Taint, ...]]
"""count, free amounts in the order of `Nodes.names`, taints"""


@lru_cache(maxsize=8192)
def shape_id(shape: PodShape) -> str:
    """`shape.id`, remembered: it is asked for at every decision."""
    return shape.id


def copies(rows: Iterable[NodeRow], shape: PodShape) -> int:
    """How many copies of `shape` these nodes take. The shape's node selector is not judged here: a member passes only
    the nodes that match it, the hub asks only for plain shapes."""
    return Nodes.of(rows).copies(shape)


def summarise(nodes: Iterable[NodeRow], limit: int = MAX_ROWS) -> tuple[NodeRow, ...]:
    """Groups equal nodes into at most `limit` rows, in a stable order.

    Exact while they fit. Otherwise allocatable and free amounts keep only their highest binary digits, first eight,
    then ever fewer, so that each amount is understated by less than 2^(1-digits) of itself; if even one digit leaves
    too many rows (many different taints or models), the rows with the fewest nodes are left out. `lost` states the
    error.
    """
    every = list(nodes)
    exact = rows = _group(every)
    digits = 8
    while len(rows) > limit and digits > 0:
        rows = _group(_rounded(row, digits) for row in every)
        digits -= 1
    if len(rows) > limit:
        rows = max((_largest(exact, limit), _largest(rows, limit)), key=lambda kept: sum(row.count for row in kept))
    return tuple(sorted(rows, key=_row_key))


def _largest(rows: Iterable[NodeRow], limit: int) -> list[NodeRow]:
    return sorted(rows, key=lambda row: (-row.count, _row_key(row)))[:limit]


def lost(nodes: Iterable[NodeRow], rows: Iterable[NodeRow]) -> Resources:
    """What `rows` understate of the free room of `nodes`; nothing when the summary is exact."""
    total = ZERO
    for row in nodes:
        total = total + row.free * row.count
    for row in rows:
        total = total - row.free * row.count
    return total.at_least_zero()


def _group(nodes: Iterable[NodeRow]) -> list[NodeRow]:
    counts: dict[tuple[Resources, Resources, str, str, tuple[Taint, ...]], int] = {}
    for node in nodes:
        key = (node.allocatable, node.free, node.model, node.family, tuple(sorted(node.taints)))
        counts[key] = counts.get(key, 0) + node.count
    return [NodeRow(count, *key) for key, count in counts.items() if count > 0]


def _row_key(row: NodeRow) -> tuple[object, ...]:
    return (tuple(row.allocatable.items()), tuple(row.free.items()), row.model, row.family, row.taints)


def _rounded(row: NodeRow, digits: int) -> NodeRow:
    return NodeRow(
        row.count, _floor(row.allocatable, digits), _floor(row.free, digits), row.model, row.family, row.taints
    )


def _floor(amounts: Resources, digits: int) -> Resources:
    return Resources({name: _leading(amount, digits) for name, amount in amounts.items() if amount > 0})


def _leading(amount: int, digits: int) -> int:
    drop = max(amount.bit_length() - digits, 0)
    return amount >> drop << drop


class Nodes:
    """Groups of equal nodes; a value: charging gives another one.

    A row whose allocatable does not name `pods` is not limited in them (a hand-written fleet); every real node is.
    """

    __slots__ = ("_fits", "names", "rows")

    def __init__(self, names: tuple[str, ...], rows: tuple[_Row, ...]) -> None:
        self.names = names
        self.rows = rows
        self._fits: dict[str, int] = {}

    @classmethod
    def of(cls, rows: Iterable[NodeRow]) -> "Nodes":
        every = sorted(rows, key=_row_key)
        names = tuple(sorted({name for row in every for name in (*row.allocatable, *row.free)}))
        return cls(names, _merged((row.count, _amounts(row, names), row.taints) for row in every if row.count > 0))

    def copies(self, shape: PodShape) -> int:
        """How many copies fit now."""
        key = shape_id(shape)
        known = self._fits.get(key)
        if known is None:
            known = sum(row[0] * height for row, height in zip(self.rows, self._heights(shape), strict=True))
            known = self._fits[key] = min(known, UNLIMITED)
        return known

    def _heights(self, shape: PodShape) -> list[int]:
        """Copies per node, row by row."""
        needs = self._needs(shape)
        if needs is None:
            return [0] * len(self.rows)
        most = 1 if shape.one_per_node else UNLIMITED
        heights: list[int] = []
        for _, free, row_taints in self.rows:
            if row_taints and taints.untolerated(row_taints, shape.tolerations) is not None:
                heights.append(0)
                continue
            height = most
            for index, need in needs:
                fit = free[index] // need
                height = min(height, fit)
            heights.append(max(height, 0))
        return heights

    def _needs(self, shape: PodShape) -> list[tuple[int, int]] | None:
        """Which amounts a copy takes; None when it asks for something that no node has."""
        needs: list[tuple[int, int]] = []
        for index, name in enumerate(self.names):
            need = shape.requests[name]
            if name == PODS:
                need = max(need, 1)
            if need > 0:
                needs.append((index, need))
        for name, need in shape.requests.items():
            if need > 0 and name != PODS and name not in self.names:
                return None
        return needs

    def charge(self, shape: PodShape, count: int, *, packs: bool = False) -> "Nodes":
        """What is left after `count` more copies: taken where most copies still fit (as a spreading scheduler does), or
        when the member packs, where fewest still do. Copies beyond what fits are ignored."""
        needs = self._needs(shape)
        if count <= 0 or not needs:
            return self
        heights = self._heights(shape)
        taken = _pack(self.rows, heights, count) if packs else _spread(self.rows, heights, count)
        rows: list[_Row] = []
        for (nodes, free, row_taints), pieces in zip(self.rows, taken, strict=True):
            for part, per_node in pieces:
                if per_node == 0:
                    rows.append((part, free, row_taints))
                    continue
                left = list(free)
                for index, need in needs:
                    left[index] -= need * per_node
                rows.append((part, tuple(left), row_taints))
            rest = nodes - sum(part for part, _ in pieces)
            if rest:
                rows.append((rest, free, row_taints))
        return Nodes(self.names, _bounded(_merged(rows)))


def _amounts(row: NodeRow, names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(UNLIMITED if name == PODS and name not in row.allocatable else row.free[name] for name in names)


def _merged(rows: Iterable[_Row]) -> tuple[_Row, ...]:
    counts: dict[tuple[tuple[int, ...], tuple[Taint, ...]], int] = {}
    for count, free, row_taints in rows:
        counts[free, row_taints] = counts.get((free, row_taints), 0) + count
    return tuple((count, free, row_taints) for (free, row_taints), count in counts.items())


def _bounded(rows: tuple[_Row, ...]) -> tuple[_Row, ...]:
    """Splitting may not let the work grow without end: beyond the limit amounts are rounded down."""
    digits = 8
    while len(rows) > MAX_WORKING_ROWS and digits > 0:
        rows = _merged(
            (count, tuple(_leading(max(amount, 0), digits) for amount in free), row_taints)
            for count, free, row_taints in rows
        )
        digits -= 1
    return rows


_Pieces = list[tuple[int, int]]
"""(nodes, copies on each of them); nodes of the row that are not named get none"""


def _spread(rows: Sequence[_Row], heights: Sequence[int], count: int) -> list[_Pieces]:
    """Levels the heights: every node is taken down to the same number of copies that still fit."""
    low, high = 0, max(heights, default=0)
    while low < high:
        level = (low + high) // 2
        if _above(rows, heights, level) <= count:
            high = level
        else:
            low = level + 1
    left = count - _above(rows, heights, low)
    taken: list[_Pieces] = []
    for row, height in zip(rows, heights, strict=True):
        base = max(height - low, 0)
        one_more = min(left, row[0]) if height >= low > 0 else 0
        left -= one_more
        taken.append([piece for piece in ((one_more, base + 1), (row[0] - one_more, base)) if piece[0]])
    return taken


def _above(rows: Sequence[_Row], heights: Sequence[int], level: int) -> int:
    return sum(row[0] * (height - level) for row, height in zip(rows, heights, strict=True) if height > level)


def _pack(rows: Sequence[_Row], heights: Sequence[int], count: int) -> list[_Pieces]:
    """Fills the fullest nodes first, one after the other."""
    taken: list[_Pieces] = [[] for _ in rows]
    left = count
    for index in sorted((i for i, height in enumerate(heights) if height > 0), key=lambda i: (heights[i], i)):
        nodes, height = rows[index][0], heights[index]
        full = min(left // height, nodes)
        left -= full * height
        if full:
            taken[index].append((full, height))
        if full < nodes and left > 0:
            taken[index].append((1, left))
            left = 0
        if left == 0:
            break
    return taken
