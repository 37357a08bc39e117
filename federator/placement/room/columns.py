"""The nodes of all clusters in columns: rooms and charges of many clusters in one expression.

Shapes of the arrays: R resources, C clusters, S rows of equal nodes per cluster. `nodes.Nodes` is
the same for one cluster, as a value; both give the same numbers (a property test compares them).
Amounts are integers below 2^62. A charge is made in place and can be taken back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from federator.model.ask import PodShape
from federator.model.kubernetes import taints
from federator.model.quickly import quickly
from federator.model.resources import PODS, UNLIMITED
from federator.placement.room import binding, manybinding, nodes
from federator.placement.room.binding import Floats, Ints
from federator.placement.room.changes import Changes
from federator.placement.room.manybinding import Parts
from federator.placement.room.nodes import MOST_PER_NODE, Nodes

Bools = NDArray[np.bool_]
_SPARE: Final = 8
"""Rows that every cluster may gain before the arrays are made larger."""
_ALL: Final = slice(None)
_FOLLOWED: Final = 64
"""With fewer clusters room is counted anew rather than followed."""
_NO_ROW: Final = -1
"""Free amount in places without a row: no copy fits."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one charge changed, for taking it back."""

    at: Ints
    row: Ints
    taken: Ints
    """[R, n]: amounts subtracted from each node of `row` of cluster `at`."""
    parts: tuple[Parts, ...]
    merged: tuple[tuple[int, Ints, Ints, Ints], ...]
    """(cluster, free, counts, kinds) from before rows were merged."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The heights of one shape as they are now."""

    shape: PodShape
    at: Ints | slice
    """The clusters, rising; a slice stands for all."""
    heights: Ints


_charge, _counted = quickly(Charge), quickly(_Counted)


class Columns:
    """`free[r, c, s]` is the free amount of resource `names[r]` on each of the `counts[c, s]` nodes
    of row s in cluster c; `kinds[c, s]` is the index of the row's make. Cluster c has `used[c]`
    rows."""

    __slots__ = (
        "_counted",
        "_partly",
        "changes",
        "counts",
        "free",
        "kinds",
        "makes",
        "most",
        "named",
        "names",
        "used",
    )

    def __init__(self, every: Sequence[Nodes]) -> None:
        self.names: tuple[str, ...] = tuple(
            sorted({PODS, *(name for cluster_nodes in every for name in cluster_nodes.names)})
        )
        self.makes = nodes.makes_of(
            tuple(sorted({make for cluster_nodes in every for make in cluster_nodes.makes.every}))
        )
        most_rows = max((cluster_nodes.counts.size for cluster_nodes in every), default=0)
        clusters, rows = len(every), most_rows + _SPARE
        self.free: Ints = np.full((len(self.names), clusters, rows), _NO_ROW, dtype=np.int64)
        self.counts: Ints = np.zeros((clusters, rows), dtype=np.int64)
        self.kinds: Ints = np.zeros((clusters, rows), dtype=np.int64)
        self.used: Ints = np.zeros(clusters, dtype=np.int64)
        self.most: Ints = np.zeros(clusters, dtype=np.int64)
        """[C]: rows that a cluster may have before rows are merged."""
        self.named: Ints = np.zeros((len(self.names), clusters), dtype=np.int64)
        """[R, C]: 1 where the cluster's rows name the resource."""
        self._partly: set[int] = set()
        """The clusters whose rows do not name every resource."""
        self._counted: _Counted | None = None
        self.changes = Changes(len(self.names)) if clusters >= _FOLLOWED else None
        for at, cluster_nodes in enumerate(every):
            self.put(at, cluster_nodes)

    def copy(self) -> "Columns":
        made = Columns.__new__(Columns)
        made.names, made.makes, made.most, made.named = (
            self.names,
            self.makes,
            self.most.copy(),
            self.named.copy(),
        )
        made.free, made.counts = self.free.copy(), self.counts.copy()
        made.kinds, made.used = self.kinds.copy(), self.used.copy()
        made._partly, made._counted = self._partly.copy(), self._counted
        made.changes = None if self.changes is None else self.changes.copy()
        return made

    def holds(self, cluster_nodes: Nodes) -> bool:
        """Whether `put` can take these nodes: no new resource, and no new make of nodes."""
        all_named = nodes.names_in(cluster_nodes.names, self.names) is not None
        return all_named and nodes.places_in(cluster_nodes.makes, self.makes) is not None

    def put(self, at: int, cluster_nodes: Nodes) -> None:
        """Sets the rows of one cluster."""
        self._forget()
        rows = cluster_nodes.counts.size
        self._widen(rows)
        places, kinds = (
            nodes.names_in(cluster_nodes.names, self.names),
            nodes.places_in(cluster_nodes.makes, self.makes),
        )
        assert places is not None
        assert kinds is not None
        free, counts, named, before = (
            self.free[:, at],
            self.counts[at],
            self.named[:, at],
            int(self.used[at]),
        )
        if rows < before:
            free[:, rows:before] = _NO_ROW
            counts[rows:before] = 0
            self.kinds[at, rows:before] = 0
        if len(places) == len(self.names):
            free[:, :rows] = cluster_nodes.free
            named[:] = 1
            self._partly.discard(at)
        else:
            self._partly.add(at)
            free[:, :rows], named[:] = 0, 0
            if PODS not in cluster_nodes.names:
                free[self.names.index(PODS), :rows] = UNLIMITED
            for place, amounts in zip(places, cluster_nodes.free, strict=True):
                free[place, :rows] = amounts
                named[place] = 1
        counts[:rows] = cluster_nodes.counts
        if rows:
            self.kinds[at, :rows] = kinds[cluster_nodes.kinds]
        self.used[at], self.most[at] = rows, cluster_nodes.most_rows

    @property
    def position(self) -> int:
        """Where `updated` can go on from later."""
        return 0 if self.changes is None else self.changes.position

    def _forget(self) -> None:
        """Rows are about to change otherwise than by a charge."""
        self._counted = None
        if self.changes is not None:
            self.changes.interrupt()

    def nodes(self, at: int) -> Nodes:
        """The rows of one cluster as a value."""
        rows, named = int(self.used[at]), np.flatnonzero(self.named[:, at])
        return Nodes(
            tuple(self.names[index] for index in named),
            self.counts[at, :rows].copy(),
            np.ascontiguousarray(self.free[named, at, :rows]),
            self.kinds[at, :rows].copy(),
            makes=self.makes,
            most_rows=int(self.most[at]),
        )

    def heights(self, shape: PodShape, at: Ints | slice) -> Ints:
        """[c, S]: copies that fit per node, for the clusters `at`."""
        top, here = int(self.used.max(initial=0)), self._which(at)
        return self._heights_in(shape, here, top, lambda index: self.free[index, here, :top])

    def _heights_in(
        self, shape: PodShape, at: Ints | slice, top: int, free_of: Callable[[int], Ints]
    ) -> Ints:
        heights = self._fitting(shape, free_of)
        if heights is None:
            return np.zeros((self.used[at].size, top), dtype=np.int64)
        if self.makes.tainted:
            self._keep_off(shape, heights, self.kinds[at, :top])
        return heights

    def _fitting(self, shape: PodShape, free_of: Callable[[int], Ints]) -> Ints | None:
        """Copies that fit per node by its free amounts; None where some resource is not there at
        all. `free_of(index)`: what is free of one resource."""
        needs = nodes.needs_of(self.names, shape)
        if needs is None:
            return None
        most = 1 if shape.one_per_node else MOST_PER_NODE
        heights: Ints | None = None
        for index, need in needs:
            fit = free_of(index) // need if need > 1 else free_of(index)
            heights = (
                np.minimum(fit, most) if heights is None else np.minimum(heights, fit, out=heights)
            )
        assert heights is not None  # pods are always named
        return np.maximum(heights, 0, out=heights)

    def updated(self, counted: Ints, shape: PodShape, position: int) -> Ints | None:
        """`copies` of all clusters as they are now, of those as they were at a position of
        `changes`; None where counting anew is less work, or the only way."""
        changes = self.changes
        if changes is None or position < changes.start:
            return None
        if 2 * (changes.position - position) > self.used.size * int(self.used.max(initial=0)):
            return None
        at, count, kinds, free = changes.since(position)
        made = counted.copy()
        heights = self._fitting(shape, lambda index: free[index])
        if heights is not None:
            if self.makes.tainted:
                self._keep_off(shape, heights, np.broadcast_to(kinds, heights.shape))
            np.add.at(made, at, count * (heights[1] - heights[0]))
        return made

    def _keep_off(self, shape: PodShape, heights: Ints, kinds: Ints) -> None:
        """Nodes with a taint that keeps the pods off hold none. `kinds`: the makes of the nodes of
        `heights`.
        """
        open_to = [
            taints.untolerated(make.taints, shape.tolerations) is None for make in self.makes.every
        ]
        if not all(open_to):
            heights[~np.array(open_to)[kinds]] = 0

    def admitting(self, at: int, shape: PodShape) -> int:
        """How many nodes of one cluster have no taint that keeps the pods off."""
        rows = int(self.used[at])
        open_to = [
            taints.untolerated(make.taints, shape.tolerations) is None for make in self.makes.every
        ]
        return int(
            self.counts[at, :rows][np.array(open_to, dtype=np.bool_)[self.kinds[at, :rows]]].sum()
        )

    def copies(self, shape: PodShape, at: Ints | slice) -> Ints:
        """[c]: how many copies fit now, for the clusters `at`."""
        here = self._which(at)
        heights = self.heights(shape, here)
        fit: Ints = np.vecdot(heights, self.counts[here, : heights.shape[1]])
        self._counted = _counted(shape, here, heights)
        return np.minimum(fit, UNLIMITED, out=fit)

    def _heights_again(self, shape: PodShape, at: Ints) -> Ints | None:
        """`heights` where they were just counted, as often of what is charged."""
        counted = self._counted
        if counted is None or counted.shape is not shape:
            return None
        if isinstance(counted.at, slice):
            return counted.heights if at.size == self.used.size else counted.heights[at]
        where = counted.at.searchsorted(at)
        if where.max(initial=0) < counted.at.size and (counted.at[where] == at).all():
            return counted.heights[where]
        return None

    def charge(self, shape: PodShape, at: Ints, copies: Ints, packs: Bools) -> Charge:
        """Binds `copies[i]` more copies in cluster `at[i]`, each cluster once, as `Nodes.charge`.
        `packs[i]`: its scheduler fills nodes."""
        top, here = int(self.used.max(initial=0)), self._which(at)
        free_of = self._reader(here, top)
        heights = self._heights_again(shape, at)
        if heights is None:
            heights = self._heights_in(shape, here, top, free_of)
        self._counted = None
        needs: Ints = nodes.need_in(self.names, shape)[:, None]
        if self._partly:
            needs = needs * self.named[:, at]
            heights = np.where(needs.any(axis=0, keepdims=True).T, heights, 0)
        shallow = None
        if not packs.any():
            kinds = self.kinds[here, :top]
            scores = self._openness(shape, kinds, free_of, 1)
            shallow = manybinding.one_each(at, self.counts, heights, copies, scores)
        if shallow is not None:
            where, row, parts = shallow
            taken = needs[:, where] if self._partly else needs
        else:
            each, parts = self._spread(shape, at, heights, np.where(packs, 0, copies), free_of)
            if packs.any():
                parts += manybinding.packed(
                    at, self.counts, heights, copies, np.flatnonzero(packs), each
                )
            where, row = np.nonzero(each)
            taken = (needs[:, where] if self._partly else needs) * each[where, row]
        return self._taken(shape, at[where], row, taken, parts)

    def _reader(self, at: Ints | slice, top: int) -> Callable[[int], Ints]:
        """What is free of one resource in the clusters `at`, collected once."""
        collected: dict[int, Ints] = {}

        def free_of(index: int) -> Ints:
            amounts = collected.get(index)
            if amounts is None:
                amounts = collected[index] = self.free[index, at, :top]
            return amounts

        return free_of

    def _taken(
        self, shape: PodShape, at: Ints, row: Ints, taken: Ints, parts: tuple[Parts, ...]
    ) -> Charge:
        """Takes `taken` from each node of rows `row` of clusters `at`, and splits off the parts."""
        split = [self._rows_of(split_off.at, split_off.row) for split_off in parts]
        if at.size:
            before = self._rows_of(at, row)
            self.free[:, at, row] = before - taken
        need = nodes.need_in(self.names, shape)[:, None]
        for split_off, free in zip(parts, split, strict=True):
            each = need * self.named[:, split_off.at] if self._partly else need
            fuller = free - each * split_off.copies
            kinds = self._append(split_off, fuller)
            if self.changes is not None:
                self.changes.add(split_off.at, split_off.part, kinds, free, fuller)
        if at.size and self.changes is not None:
            here = (at, row)
            self.changes.add(at, self.counts[here], self.kinds[here], before, before - taken)
        merged: tuple[tuple[int, Ints, Ints, Ints], ...] = ()
        if parts:
            touched = (
                parts[0].at
                if len(parts) == 1
                else np.concatenate([split_off.at for split_off in parts])
            )
            over = touched[self.used[touched] > self.most[touched]]
            merged = tuple(map(self._merge, sorted(set(over.tolist())))) if over.size else ()
        return _charge(at, row, taken, parts, merged)

    def _rows_of(self, at: Ints, row: Ints) -> Ints:
        """[R, n]: what is free in these rows."""
        flat = at * self.counts.shape[1] + row
        amounts: Ints = self.free.reshape(len(self.names), -1).take(flat, axis=1)
        return amounts

    def charge_one(self, shape: PodShape, at: int, copies: int, *, packs: bool) -> Charge:
        """As `charge`, for one cluster: with one dimension less."""
        self._counted = None
        top, named = int(self.used[at]), self.named[:, at]
        need = nodes.need_in(self.names, shape) * named
        heights = self.heights_of(shape, at)
        if not need.any():
            heights[:] = 0
        counts = self.counts[at, :top]
        if packs:
            bound = binding.packed(counts, heights, copies)
        else:
            bound = binding.spread(
                counts, heights, copies, lambda level: self._openness_of(shape, at, level)
            )
        (rows,) = bound.each.nonzero()
        taken: Ints = need[:, None] * bound.each[rows]
        parts = tuple(
            Parts(*(np.array([value]) for value in (at, row, part, each)))
            for row, part, each in bound.parts
        )
        return self._taken(shape, np.full(rows.size, at), rows, taken, parts)

    def heights_of(self, shape: PodShape, at: int) -> Ints:
        """[S]: copies that fit per node, in the rows of one cluster."""
        needs, top = nodes.needs_of(self.names, shape), int(self.used[at])
        if needs is None:
            return np.zeros(top, dtype=np.int64)
        heights: Ints | None = None
        for index, need in needs:
            fit = self.free[index, at, :top]
            fit = fit // need if need > 1 else fit
            heights = fit if heights is None else np.minimum(heights, fit)
        assert heights is not None  # pods are always named
        heights = np.minimum(heights, 1 if shape.one_per_node else MOST_PER_NODE)
        np.maximum(heights, 0, out=heights)
        if self.makes.tainted:
            self._keep_off(shape, heights, self.kinds[at, :top])
        return heights

    def copies_of(self, shape: PodShape, at: int) -> int:
        """How many copies fit now in one cluster."""
        heights = self.heights_of(shape, at)
        return min(int(self.counts[at, : heights.size].dot(heights)), UNLIMITED)

    def _openness_of(self, shape: PodShape, at: int, copies: int) -> Floats:
        """[S]: as `binding.openness`, for the rows of one cluster. Summed in the order of
        `_openness`."""
        places, needs = nodes.scored_of(self.names, shape)
        top = int(self.used[at])
        one_by = self.makes.inverse.take(self.kinds[at, :top], axis=1)
        total: Floats | None = None
        for index, place in enumerate(places):
            left = (self.free[place, at, :top] - needs[index, 0] * copies) * one_by[index]
            total = left if total is None else total + left
        assert total is not None
        return total

    def undo(self, made: Charge) -> None:
        """Takes a charge back; later ones must have been taken back before."""
        self._forget()
        for at, free, counts, kinds in made.merged:
            rows = counts.size
            self.free[:, at, :rows], self.counts[at, :rows], self.kinds[at, :rows] = (
                free,
                counts,
                kinds,
            )
            self.used[at] = rows
        for split_off in reversed(made.parts):
            self.used[split_off.at] -= 1
            last = self.used[split_off.at]
            self.free[:, split_off.at, last], self.counts[split_off.at, last] = _NO_ROW, 0
            self.counts[split_off.at, split_off.row] += split_off.part
        self.free[:, made.at, made.row] += made.taken

    def _spread(
        self,
        shape: PodShape,
        at: Ints,
        heights: Ints,
        copies: Ints,
        free_of: Callable[[int], Ints],
    ) -> tuple[Ints, tuple[Parts, ...]]:
        counts, kinds = self.counts[at, : heights.shape[1]], self.kinds[at, : heights.shape[1]]
        each, parts = manybinding.spread(
            counts,
            heights,
            copies,
            lambda level: self._openness(shape, kinds, free_of, level[:, None]),
        )
        return each, (
            Parts(at[parts.at], parts.row, parts.part, parts.copies),
        ) if parts.at.size else ()

    def _openness(
        self, shape: PodShape, kinds: Ints, free_of: Callable[[int], Ints], copies: Ints | int
    ) -> Floats:
        """[c, S]: as `binding.openness`, with `copies` on each node, [c, 1] or for all."""
        places, needs = nodes.scored_of(self.names, shape)
        total: Floats | None = None
        for index, place in enumerate(places):
            left = free_of(place) - needs[index, 0] * copies
            part = left * self.makes.inverse[index].take(kinds)
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        return total

    def _which(self, at: Ints | slice) -> Ints | slice:
        """The same clusters; as a slice, which copies nothing, where they are all."""
        return _ALL if not isinstance(at, slice) and at.size == self.used.size else at

    def _append(self, split_off: Parts, free: Ints) -> Ints:
        """Gives every split-off part a row of its own; returns their makes."""
        slot = self.used[split_off.at]
        self._widen(int(slot.max()) + 1)
        rows = self.counts.shape[1]
        former, mine = split_off.at * rows + split_off.row, split_off.at * rows + slot
        counts, kinds = self.counts.reshape(-1), self.kinds.reshape(-1)
        self.free.reshape(len(self.names), -1)[:, mine] = free
        counts[mine] = split_off.part
        counts[former] -= split_off.part
        of_former: Ints = kinds.take(former)
        kinds[mine] = of_former
        self.used[split_off.at] = slot + 1
        return of_former

    def _merge(self, at: int) -> tuple[int, Ints, Ints, Ints]:
        """Joins rows of one cluster; returns what was there before."""
        self._forget()
        rows = int(self.used[at])
        before = (
            self.counts[at, :rows].copy(),
            self.free[:, at, :rows].copy(),
            self.kinds[at, :rows].copy(),
        )
        counts, free, kinds = nodes.merged(*before, int(self.most[at]))
        self.free[:, at, :rows], self.counts[at, :rows], self.kinds[at, :rows] = _NO_ROW, 0, 0
        joined = counts.size
        self.free[:, at, :joined], self.counts[at, :joined], self.kinds[at, :joined] = (
            free,
            counts,
            kinds,
        )
        self.used[at] = joined
        return at, before[1], before[0], before[2]

    def _widen(self, rows: int) -> None:
        """Makes place for so many rows per cluster."""
        more = rows - self.counts.shape[1]
        if more <= 0:
            return
        more = max(more, self.counts.shape[1] // 2)
        self.free = np.pad(self.free, ((0, 0), (0, 0), (0, more)), constant_values=_NO_ROW)
        self.counts = np.pad(self.counts, ((0, 0), (0, more)))
        self.kinds = np.pad(self.kinds, ((0, 0), (0, more)))
