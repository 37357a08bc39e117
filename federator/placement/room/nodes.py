"""Groups of equal nodes in columns: how many copies fit, and what is left after some are placed.

The ledger has one `Nodes` per cluster. It is a value: charging returns a new one. All numbers are
exact integers below 2^62. Only beyond MAX_ROWS_KEPT are amounts rounded down, to keep a long batch
fast.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from federator.model.ask import PodShape
from federator.model.fleet import NodeRow
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Taint
from federator.model.quickly import quickly
from federator.model.resources import PODS, UNLIMITED, Resources
from federator.placement.room import binding

MAX_ROWS_KEPT: Final = 400
"""Rows that charging may add to those of the summary before rows are merged, and rounded down when
merging is not enough."""
MOST_PER_NODE: Final = 1 << 31


@dataclass(frozen=True, slots=True, order=True)
class Make:
    """The properties of equal nodes that do not change when copies are bound to them."""

    taints: tuple[Taint, ...]
    allocatable: tuple[int, ...]
    """In the order of `binding.SCORED`."""


class Makes:
    """All makes of a cluster, as columns for arithmetic."""

    __slots__ = ("every", "inverse", "listed", "tainted")

    def __init__(self, every: tuple[Make, ...]) -> None:
        self.every = every
        self.tainted = any(make.taints for make in every)
        self.inverse = binding.inverse(
            [[make.allocatable[i] for make in every] for i in range(len(binding.SCORED))]
        )
        """[i, m] is 1 / allocatable of make m and amount i of `binding.SCORED`."""
        self.listed: Sequence[Sequence[float]] = self.inverse.tolist()
        """The same as lists."""

    def open_to(self, shape: PodShape) -> NDArray[np.bool_]:
        """[m]: whether no taint of a make keeps the pods off."""
        tolerated = shape.tolerations
        return np.array(
            [taints.untolerated(make.taints, tolerated) is None for make in self.every],
            dtype=np.bool_,
        )


@lru_cache(maxsize=4096)
def makes_of(every: tuple[Make, ...]) -> Makes:
    """`Makes`, cached: clusters have the same makes from report to report."""
    return Makes(every)


@lru_cache(maxsize=4096)
def places_in(makes: Makes, every: Makes) -> binding.Ints | None:
    """[m]: where each make is among `every`; None when one is not."""
    index_of = {make: index for index, make in enumerate(every.every)}
    if not index_of.keys() >= set(makes.every):
        return None
    return np.array([index_of[make] for make in makes.every], dtype=np.int64)


@lru_cache(maxsize=4096)
def names_in(names: tuple[str, ...], every: tuple[str, ...]) -> tuple[int, ...] | None:
    """Where each resource is among `every`; None when one is not."""
    return tuple(map(every.index, names)) if set(names) <= set(every) else None


@lru_cache(maxsize=4096)
def partly(names: tuple[str, ...], every: tuple[str, ...]) -> tuple[binding.Ints, binding.Ints]:
    """([R, 1]: what nodes that name only some resources have free of the others: nothing, and pods
    without end; [R]: 1 for those that are named)."""
    there = [name in names for name in every]
    free = [UNLIMITED if name == PODS and name not in names else 0 for name in every]
    return np.array(free, dtype=np.int64)[:, None], np.array(there, dtype=np.int64)


@lru_cache(maxsize=4096)
def _absent(names: tuple[str, ...], every: tuple[str, ...]) -> tuple[int | None, ...]:
    """As `partly`: what is free of the others; None for those that are named."""
    amounts = partly(names, every)[0][:, 0].tolist()
    return tuple(
        None if name in names else amount for name, amount in zip(every, amounts, strict=True)
    )


_SHAPES: Final = 8192
_ids: dict[int, tuple[PodShape, str]] = {}


def shape_id(shape: PodShape) -> str:
    """`shape.id`: every decision reads it. Kept by the identity of the shape, since its hash takes
    longer than all else of it."""
    kept = _ids.get(id(shape))
    if kept is None or kept[0] is not shape:
        if len(_ids) >= _SHAPES:
            _ids.clear()
        kept = _ids[id(shape)] = (shape, shape.id)
    return kept[1]


def row_key(row: NodeRow) -> tuple[object, ...]:
    """A total order over rows, independent of the order in which a member lists them."""
    return (
        tuple(row.allocatable.items()),
        tuple(row.free.items()),
        row.model,
        row.family,
        row.taints,
        row.podless,
        row.count,
    )


def leading(amount: int, digits: int) -> int:
    """The amount with only its highest `digits` binary digits kept."""
    drop = max(amount.bit_length() - digits, 0)
    return amount >> drop << drop


class Nodes:
    """`free[i, r]` is the free amount of resource `names[i]` on each of the `counts[r]` nodes of
    row r.

    A row without `pods` in its allocatable has no limit on pods (a hand-written fleet). Real
    nodes always have one, and a node with 0 takes no pod.
    """

    __slots__ = (
        "_arrays",
        "_block",
        "_heights",
        "bounded",
        "listed",
        "makes",
        "most_rows",
        "names",
    )

    def __init__(
        self,
        names: tuple[str, ...],
        counts: binding.Ints,
        free: binding.Ints,
        kinds: binding.Ints,
        *,
        makes: Makes,
        most_rows: int,
        bounded: bool = False,
    ) -> None:
        self.names = names
        self._arrays: tuple[binding.Ints, binding.Ints, binding.Ints] | None = (counts, free, kinds)
        self._block: binding.Ints | None = None
        self.makes = makes
        """`kinds[r]` is the index of row r's make."""
        self.most_rows = most_rows
        self.bounded = bounded
        """It is known that no amount is negative, and that no node takes more pods than
        MOST_PER_NODE."""
        self.listed: Rows | None = None
        """[R + 2][r]: free amounts, counts and kinds of what was given as lists, until an array is
        made of them: the next report may come before one is read."""
        self._heights: dict[str, binding.Ints] = {}

    @classmethod
    def of_lists(
        cls,
        names: tuple[str, ...],
        listed: "Rows",
        *,
        makes: Makes,
        most_rows: int,
        bounded: bool = False,
    ) -> "Nodes":
        made = cls.__new__(cls)
        made.names, made.listed, made.makes = names, listed, makes
        made.most_rows, made.bounded = most_rows, bounded
        made._arrays = made._block = None
        made._heights = {}
        return made

    @property
    def size(self) -> int:
        """Rows."""
        return self.counts.size if self.listed is None else len(self.listed[-1])

    def listed_as(self, names: tuple[str, ...]) -> "Rows | None":
        """The rows with the free amounts of these resources, among which all its own are; None
        where they are not lists any more."""
        given = self.listed
        if given is None or self.names == names:
            return given
        free, size, absent = iter(given), len(given[-1]), _absent(self.names, names)
        rows = [next(free) if amount is None else [amount] * size for amount in absent]
        return (*rows, *given[-2:])

    @property
    def block(self) -> binding.Ints | None:
        """[R + 2, r]: free amounts, counts and kinds in one array, where they are in one."""
        if self._arrays is None:
            self._made()
        return self._block

    @property
    def counts(self) -> binding.Ints:
        return (self._arrays or self._made())[0]

    @property
    def free(self) -> binding.Ints:
        return (self._arrays or self._made())[1]

    @property
    def kinds(self) -> binding.Ints:
        return (self._arrays or self._made())[2]

    def _made(self) -> tuple[binding.Ints, binding.Ints, binding.Ints]:
        assert self.listed is not None
        block = self._block = np.array(self.listed, dtype=np.int64)
        self._arrays, self.listed = (block[-2], block[:-2], block[-1]), None
        return self._arrays

    @classmethod
    def of(cls, rows: Iterable[NodeRow]) -> "Nodes":
        if isinstance(rows, Columned):
            return rows.nodes
        # The order of a report must not decide between equal nodes: one hub after another gives the
        # same.
        every = sorted((row for row in rows if row.count > 0), key=row_key)
        named: set[str] = set()
        for row in every:
            named.update(row.allocatable.keys(), row.free.keys())
            if row.podless:
                named.add(PODS)
        names = tuple(sorted(named))
        made = [make_of(row) for row in every]
        makes = makes_of(tuple(sorted(set(made))))
        index_of = {make: index for index, make in enumerate(makes.every)}
        free = [
            # Cut, so that sums and products over all rows stay within 64 bits, whatever a member
            # reports.
            [min(_amount(row, name), UNLIMITED) for row in every]
            if name == PODS
            else [min(row.free[name], UNLIMITED) for row in every]
            for name in names
        ]
        return cls.of_lists(
            names,
            (*free, [row.count for row in every], [index_of[make] for make in made]),
            makes=makes,
            most_rows=len(every) + MAX_ROWS_KEPT,
            bounded=all(min(amounts, default=0) >= 0 for amounts in free)
            and PODS in names
            and max(free[names.index(PODS)], default=0) <= MOST_PER_NODE,
        )

    @property
    def rows(self) -> list[tuple[int, tuple[int, ...], tuple[Taint, ...]]]:
        """(count, free amounts in the order of `names`, taints) of every row."""
        columns = self.free.T.tolist()
        return [
            (count, tuple(column), self.makes.every[kind].taints)
            for count, column, kind in zip(
                self.counts.tolist(), columns, self.kinds.tolist(), strict=True
            )
        ]

    def copies(self, shape: PodShape) -> int:
        """How many copies fit now."""
        return min(int(self.counts @ self.heights(shape)), UNLIMITED)

    def heights(self, shape: PodShape) -> binding.Ints:
        """Copies that fit per node, by row."""
        key = shape_id(shape)
        cached = self._heights.get(key)
        if cached is None:
            cached = self._heights[key] = self._count(shape)
        return cached

    def _count(self, shape: PodShape) -> binding.Ints:
        needs = needs_of(self.names, shape)
        if needs is None or not self.counts.size:
            return np.zeros(self.counts.size, dtype=np.int64)
        heights: binding.Ints = np.full(
            # A shape without requests would fit without end, and a kubelet takes only so many pods.
            self.counts.size,
            1 if shape.one_per_node else MOST_PER_NODE,
            dtype=np.int64,
        )
        for index, need in needs:
            np.minimum(heights, self.free[index] // need, out=heights)
        # Overdrawn nodes have negative amounts: they hold nothing, and take no room from others
        # either.
        np.maximum(heights, 0, out=heights)
        if self.makes.tainted:
            open_to = self.makes.open_to(shape)
            if not open_to.all():
                heights[~open_to[self.kinds]] = 0
        return heights

    def charge(self, shape: PodShape, count: int, *, packs: bool = False) -> "Nodes":
        """What is left after `count` more copies. They are bound where a scheduler with default
        settings binds them, or with `packs` where fewest still fit. Copies that do not fit are
        ignored."""
        heights = self.heights(shape)
        needs = needs_of(self.names, shape)
        if count <= 0 or not needs or not heights.any():
            return self
        need = np.zeros(len(self.names), dtype=np.int64)
        for index, amount in needs:
            need[index] = amount
        if packs:
            return self._take(need, binding.packed(self.counts, heights, count))
        return self._take(
            need, binding.spread(self.counts, heights, count, lambda n: self._openness(shape, n))
        )

    def _openness(self, shape: PodShape, copies: int) -> binding.Floats:
        places, needs = scored_of(self.names, shape)
        return binding.openness(
            self.free.take(places, axis=0),
            self.makes.inverse.take(self.kinds, axis=1),
            needs,
            copies,
        )

    def _take(self, need: binding.Ints, bound: binding.BoundCopies) -> "Nodes":
        counts, free, kinds = self.counts, self.free, self.kinds
        if bound.each.any():
            free = free - need[:, None] * bound.each
        if bound.parts:
            # Equal nodes of which only a part got a copy are equal no more, so the row splits.
            fuller = [self.free[:, row] - need * copies for row, _, copies in bound.parts]
            free = np.concatenate([free, np.array(fuller).T], axis=1)
            counts = np.concatenate([counts, [part for _, part, _ in bound.parts]])
            for row, part, _ in bound.parts:
                counts[row] -= part
            kinds = np.concatenate([kinds, kinds.take([row for row, _, _ in bound.parts])])
        return self._with(counts, free, kinds)

    def _with(self, counts: binding.Ints, free: binding.Ints, kinds: binding.Ints) -> "Nodes":
        # Each charge may split rows; without a bound a long batch would be quadratic in its asks.
        if counts.size > self.most_rows:
            counts, free, kinds = merged(counts, free, kinds, self.most_rows)
        return Nodes(
            self.names,
            counts,
            free,
            kinds,
            makes=self.makes,
            most_rows=self.most_rows,
            bounded=self.bounded,
        )


class Columned(Sequence[NodeRow]):
    """Rows of a caller that keeps them in columns: `nodes` is what `Nodes.of` makes of `make()`,
    and the rows themselves are made when they are read."""

    __slots__ = ("_made", "_make", "nodes")

    def __init__(self, nodes: Nodes, make: Callable[[], tuple[NodeRow, ...]]) -> None:
        self.nodes, self._make = nodes, make
        self._made: tuple[NodeRow, ...] | None = None

    def _rows(self) -> tuple[NodeRow, ...]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._rows())

    @overload
    def __getitem__(self, at: int) -> NodeRow: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[NodeRow]: ...
    def __getitem__(self, at: int | slice) -> NodeRow | Sequence[NodeRow]:
        return self._rows()[at]

    def __eq__(self, other: object) -> bool:
        return (
            tuple(other) == self._rows() if isinstance(other, Columned | tuple) else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._rows())


@lru_cache(maxsize=1 << 16)
def needs_of(names: tuple[str, ...], shape: PodShape) -> tuple[tuple[int, int], ...] | None:
    """(index of a resource, amount per copy); None when the shape requests something that no node
    has."""
    if any(
        need > 0 and name != PODS and name not in names for name, need in shape.requests.items()
    ):
        return None
    wanted = [(index, shape.requests[name], name) for index, name in enumerate(names)]
    return tuple(
        # Every pod takes one of the node's places for pods, even if it says nothing of them.
        (index, max(need, 1) if name == PODS else need)
        for index, need, name in wanted
        if need > 0 or name == PODS
    )


@lru_cache(maxsize=1 << 14)
def need_in(names: tuple[str, ...], shape: PodShape) -> binding.Ints:
    """[R]: what a copy takes of each resource, as `needs_of`; not to be changed."""
    need = np.zeros(len(names), dtype=np.int64)
    for index, amount in needs_of(names, shape) or ():
        need[index] = amount
    return need


@lru_cache(maxsize=1 << 16)
def scored_of(names: tuple[str, ...], shape: PodShape) -> tuple[list[int], binding.Ints]:
    """Indexes of the resources of `binding.SCORED`, and what a copy takes of each. A resource that
    no node names has allocatable 0 and scores nothing, so its index does not matter."""
    places = [names.index(name) if name in names else 0 for name in binding.SCORED]
    return places, np.array([[shape.requests[name]] for name in binding.SCORED], dtype=np.int64)


FEW_ROWS: Final = 12
"""Of so many rows arrays cost more than the numbers."""
Rows = Sequence[Sequence[int]]
"""As `Columns.rows` of one cluster, [R + 2][S] as lists: free amounts, counts of nodes, makes. With
them goes whether no taint of a make keeps the pods off; None where none does."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What one copy of a shape takes of nodes with certain resources: read several times by every
    decision, worked out once."""

    id: str
    plain: bool
    needs: tuple[tuple[int, int], ...] | None
    """As `needs_of`."""
    need: binding.Ints
    """[R, 1]: as `need_in`."""
    scored: tuple[tuple[int, int], ...]
    """(index of a resource, amount per copy) of those in `binding.SCORED`, as `scored_of`."""
    scored_rows: slice
    """Rows of which `scored_of` takes the indexes of the same: no more than these are copied."""
    scored_at: slice | list[int]
    """Where the same are among these rows; a slice, which copies nothing, where they rise."""
    scored_need: binding.Ints
    """[2, 1, 1]: the amounts of the same."""

    def openness(
        self, free: binding.Ints, inverse: binding.Floats, copies: int | binding.Ints
    ) -> binding.Floats:
        """As `binding.openness`; `free` is [R, ...], `inverse` of the scored amounts only."""
        (cpu, of_cpu), (memory, of_memory) = self.scored
        total: binding.Floats = (free[cpu] - of_cpu * copies) * inverse[0]
        total += (free[memory] - of_memory * copies) * inverse[1]
        return total

    def copies(self, rows: Rows, open_to: Sequence[bool] | None) -> int:
        """How many copies fit in one cluster, any number of them on a node."""
        if self.needs is None:
            return 0
        heights: Sequence[int] | None = None
        for index, need in self.needs:
            fits = rows[index] if need == 1 else [have // need for have in rows[index]]
            heights = fits if heights is None else list(map(min, heights, fits))
        if heights is None:
            heights = [MOST_PER_NODE] * len(rows[-1])
        if not heights:
            return 0
        if open_to is not None:
            heights = [
                height if open_to[make] else 0
                for height, make in zip(heights, rows[-1], strict=True)
            ]
        if min(heights) < 0 or max(heights) > MOST_PER_NODE:
            heights = [min(max(height, 0), MOST_PER_NODE) for height in heights]
        return sum(map(operator.mul, heights, rows[-2]))

    def height(self, shape: PodShape, free: Sequence[int], *, open_end: bool) -> int:
        """Copies that fit on a node with so much free. `open_end`: it may be overdrawn, or take
        more than a node can have."""
        height = min([free[index] // need for index, need in self.needs or ()], default=0)
        if open_end:
            height = max(min(height, MOST_PER_NODE), 0)
        return min(height, 1) if shape.one_per_node else height

    def emptiest(
        self, rows: Rows, inverse: Sequence[Sequence[float]], open_to: Sequence[bool] | None
    ) -> int | None:
        """The row of the nodes on which one copy is bound; None where it fits on none.
        `inverse[i][m]` is 1 / allocatable of scored amount i on nodes of make m."""
        first, top = None, -math.inf
        if self.needs is None:
            return None
        (cpu, of_cpu), (memory, of_memory) = self.scored
        by_cpu, by_memory = inverse
        for row, make in enumerate(rows[-1]):
            if open_to is not None and not open_to[make]:
                continue
            for index, need in self.needs:
                if rows[index][row] < need:
                    break
            else:
                score = (rows[cpu][row] - of_cpu) * by_cpu[make]
                score += (rows[memory][row] - of_memory) * by_memory[make]
                if score > top:
                    first, top = row, score
        return first


@dataclass(frozen=True, slots=True)
class Counted:
    """The heights of one shape in all clusters as they are now."""

    asked: Asked
    heights: binding.Ints
    """[C, S]"""


counted = quickly(Counted)


@lru_cache(maxsize=1 << 14)
def asked_of(names: tuple[str, ...], shape: PodShape) -> Asked:
    places, scored = scored_of(names, shape)
    (cpu, memory), rising = places, places[0] < places[1]
    return Asked(
        shape_id(shape),
        shape.plain,
        needs_of(names, shape),
        need_in(names, shape)[:, None],
        tuple(zip(places, scored[:, 0].tolist(), strict=True)),
        slice(cpu, memory + 1) if rising else slice(None),
        slice(None, None, memory - cpu) if rising else places,
        scored[:, :, None],
    )


def make_of(row: NodeRow) -> Make:
    return _make_of(row.taints, row.allocatable)


@lru_cache(maxsize=4096)
def _make_of(marks: tuple[Taint, ...], allocatable: Resources) -> Make:
    return Make(tuple(sorted(marks)), tuple(allocatable[name] for name in binding.SCORED))


def _amount(row: NodeRow, name: str) -> int:
    if name == PODS and name not in row.allocatable and not row.podless:
        return UNLIMITED
    return row.free[name]


def merged(
    counts: binding.Ints, free: binding.Ints, kinds: binding.Ints, most_rows: int
) -> tuple[binding.Ints, binding.Ints, binding.Ints]:
    """Joins equal rows. While that leaves more than three quarters of the limit, rounds free
    amounts down further."""
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


def _leading(amounts: binding.Ints, digits: int) -> binding.Ints:
    """`leading` of every amount. For huge amounts the exponent may be one too high, which only
    rounds down further."""
    drop = np.maximum(np.frexp(amounts.astype(np.float64))[1].astype(np.int64) - digits, 0)
    rounded: binding.Ints = amounts >> drop << drop
    return rounded
