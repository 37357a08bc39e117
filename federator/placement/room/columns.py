"""The nodes of all clusters in columns: rooms and charges of many clusters in one expression.

Shapes of the arrays: R resources, C clusters, S rows of equal nodes per cluster. `nodes.Nodes` is
the same for one cluster, as a value; both give the same numbers (a property test compares them).
Amounts are integers below 2^62. A charge is made in place and can be taken back.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from federator.model.ask import PodShape
from federator.model.kubernetes import taints
from federator.model.resources import PODS, UNLIMITED
from federator.placement.room import binding, manybinding, nodes
from federator.placement.room.binding import Floats, Ints
from federator.placement.room.changes import Changes, NodesCharge, Single, charge, single
from federator.placement.room.manybinding import Parts
from federator.placement.room.nodes import MOST_PER_NODE, Asked, Counted, Nodes

Bools = NDArray[np.bool_]
_SPARE: Final = 8
"""Rows that every cluster may gain before the arrays are made larger."""
_ALL: Final = slice(None)
_FOLLOWED: Final = 64
"""With fewer clusters room is counted anew rather than followed."""
_NO_ROW: Final = -1
"""Free amount in places without a row: no copy fits."""
_SCORES: Final = len(binding.SCORED)
_FEW_CHANGES: Final = 8
"""Of so many changes arrays cost more than the numbers."""
_NO_ROWS: Final[Ints] = np.zeros(0, dtype=np.int64)
_ASKED: Final = 4096
"""Shapes of which is kept what they ask for."""


class Columns:
    """`free[r, c, s]` is the free amount of resource `names[r]` on each of the `counts[c, s]` nodes
    of row s in cluster c; `kinds[c, s]` is the index of the row's make. Cluster c has `used[c]`
    rows. All three are views of `rows[R + 4, c, s]`, and so is 1 / allocatable of the amounts of
    `binding.SCORED`, by the bits of its floats: charges read and write a row at once."""

    __slots__ = (
        "_asked",
        "_counted",
        "_flat",
        "_flat_counts",
        "_flat_free",
        "_flat_inverse",
        "_inverse",
        "_last",
        "_least_most",
        "_open_end",
        "_partly",
        "changes",
        "counts",
        "free",
        "kinds",
        "makes",
        "most",
        "named",
        "names",
        "rows",
        "top",
        "used",
    )

    def __init__(self, every: Sequence[Nodes]) -> None:
        self.names: tuple[str, ...] = tuple(
            sorted({PODS, *(name for cluster_nodes in every for name in cluster_nodes.names)})
        )
        self.makes = nodes.makes_of(
            tuple(sorted({make for cluster_nodes in every for make in cluster_nodes.makes.every}))
        )
        most_rows = max((cluster_nodes.size for cluster_nodes in every), default=0)
        clusters, rows = len(every), most_rows + _SPARE
        self._hold(np.zeros((len(self.names) + 2 + _SCORES, clusters, rows), dtype=np.int64))
        self.free[:] = _NO_ROW
        self.used: Ints = np.zeros(clusters, dtype=np.int64)
        self.most: Ints = np.zeros(clusters, dtype=np.int64)
        """[C]: rows that a cluster may have before rows are merged."""
        self._least_most = UNLIMITED
        """No cluster may have fewer."""
        self.top = 0
        """No cluster has more rows."""
        self.named: Ints = np.zeros((len(self.names), clusters), dtype=np.int64)
        """[R, C]: 1 where the cluster's rows name the resource."""
        self._partly: set[int] = set()
        """The clusters with rows that do not name every resource."""
        self._open_end = False
        """Some row is overdrawn, or takes more copies than a node can have: heights are cut."""
        self._asked: dict[int, tuple[PodShape, Asked]] = {}
        """By the identity of the shape, which is kept so that it stays its own."""
        self._last: tuple[PodShape, Asked] | None = None
        """The last answer of `asked`."""
        self._counted: Counted | None = None
        # In a small fleet a count of all rows costs less than the bookkeeping of what changed.
        self.changes = Changes(len(self.names)) if clusters >= _FOLLOWED else None
        for at, cluster_nodes in enumerate(every):
            self.put(at, cluster_nodes)

    def _hold(self, rows: Ints) -> None:
        resources = rows.shape[0] - 2 - _SCORES
        self.rows, self._flat = rows, rows.reshape(rows.shape[0], -1)
        self.free, self.counts, self.kinds = rows[:resources], rows[resources], rows[resources + 1]
        self._inverse: Floats = rows[resources + 2 :].view(np.float64)
        """[i, c, s]: 1 / allocatable of amount i of `binding.SCORED`."""
        self._flat_free: Ints = self._flat[:resources]
        self._flat_counts: Ints = self._flat[resources]
        self._flat_inverse: Floats = self._flat[resources + 2 :].view(np.float64)

    def copy(self) -> "Columns":
        made = Columns.__new__(Columns)
        made.names, made.makes = self.names, self.makes
        made.most, made.named = self.most.copy(), self.named.copy()
        made._hold(self.rows.copy())
        made.used = self.used.copy()
        made._partly, made._counted = self._partly.copy(), self._counted
        made._least_most, made.top = self._least_most, self.top
        made._open_end, made._asked, made._last = self._open_end, self._asked, self._last
        made.changes = None if self.changes is None else self.changes.copy()
        return made

    def holds(self, cluster_nodes: Nodes) -> bool:
        """Whether `put` can take these nodes: no new resource, and no new make of nodes."""
        all_named = nodes.names_in(cluster_nodes.names, self.names) is not None
        return all_named and nodes.places_in(cluster_nodes.makes, self.makes) is not None

    def put(self, at: int, cluster_nodes: Nodes) -> None:
        """Sets the rows of one cluster."""
        self._forget()
        rows, before = cluster_nodes.size, self.used.item(at)
        self._widen(rows)
        if rows < before:
            self.free[:, at, rows:before] = _NO_ROW
            self.counts[at, rows:before] = 0
        self._fill(at, cluster_nodes)
        if rows:
            self._open_end |= not cluster_nodes.bounded or PODS not in cluster_nodes.names
        self.used[at], self.most[at] = rows, cluster_nodes.most_rows
        self._least_most = min(self._least_most, cluster_nodes.most_rows)
        if rows >= before:
            self.top = max(self.top, rows)
        # Only the fullest cluster can lower the bound, so the others need no look at all of them.
        elif before == self.top:
            self.top = int(self.used.max())

    def _fill(self, at: int, cluster_nodes: Nodes) -> None:
        """Sets amounts, counts and makes of the first rows of one cluster."""
        rows, kinds = cluster_nodes.size, cluster_nodes.kinds
        if cluster_nodes.makes is not self.makes:
            others = nodes.places_in(cluster_nodes.makes, self.makes)
            assert others is not None
            kinds = others[kinds]
        places = nodes.names_in(cluster_nodes.names, self.names)
        assert places is not None
        if len(places) < len(self.names):
            self._fill_partly(at, cluster_nodes, places)
        else:
            self.named[:, at] = 1
            self._partly.discard(at)
            if cluster_nodes.block is not None:
                self.rows[: len(places) + 2, at, :rows] = cluster_nodes.block
            else:
                self.free[:, at, :rows], self.counts[at, :rows] = (
                    cluster_nodes.free,
                    cluster_nodes.counts,
                )
        self._set_kinds(at, kinds)

    def _fill_partly(self, at: int, cluster_nodes: Nodes, places: Sequence[int]) -> None:
        """As `_fill`, of a cluster that does not name every resource."""
        rows = cluster_nodes.size
        free, named = nodes.partly(cluster_nodes.names, self.names)
        self._partly.add(at)
        self.named[:, at] = named
        self.free[:, at, :rows] = free
        for place, amounts in zip(places, cluster_nodes.free, strict=True):
            self.free[place, at, :rows] = amounts
        self.counts[at, :rows] = cluster_nodes.counts

    def _set_kinds(self, at: int, kinds: Ints) -> None:
        """Sets the makes of the first rows of one cluster."""
        self.kinds[at, : kinds.size] = kinds
        inverse = self.makes.inverse
        # With one make all rows have the same column, and broadcasting it is cheaper than to take
        # it.
        several = inverse.shape[1] > 1
        self._inverse[:, at, : kinds.size] = inverse.take(kinds, axis=1) if several else inverse

    def asked(self, shape: PodShape) -> Asked:
        """What one copy takes here."""
        last = self._last
        if last is not None and last[0] is shape:
            return last[1]
        kept = self._asked.get(id(shape))
        # An identity may be used again for another object once the first has gone.
        if kept is None or kept[0] is not shape:
            if len(self._asked) >= _ASKED:
                self._asked.clear()
            kept = self._asked[id(shape)] = (shape, nodes.asked_of(self.names, shape))
        self._last = kept
        return kept[1]

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
        """[c, S]: copies that fit per node, for the clusters `at`; in places without a row 0 or
        less. Not to be changed."""
        return self._heights(self.asked(shape), shape, self._which(at))

    def _heights(self, asked: Asked, shape: PodShape, here: Ints | slice) -> Ints:
        top, counted = self.top, self._counted
        if counted is not None and counted.asked is asked and isinstance(here, slice):
            return counted.heights
        if self.changes is None and isinstance(here, slice):
            free, kinds = self._flat, self._flat[len(self.names) + 1]
        else:
            free, kinds = self.free[:, here, :top], self.kinds[here, :top]
        heights = self._fitting(asked, shape, free)
        if heights is None:
            return np.zeros((self.used[here].size, top), dtype=np.int64)
        if self.makes.tainted:
            self._keep_off(shape, heights, kinds)
        return heights if heights.ndim > 1 else heights.reshape(self.counts.shape)

    def _fitting(self, asked: Asked, shape: PodShape, free: Ints) -> Ints | None:
        """Copies that fit per node by its free amounts, [R or more, ...]; None where some resource
        is not there at all."""
        if asked.needs is None:
            return None
        heights: Ints | None = None
        for index, need in asked.needs:  # pods are always among them
            if heights is None:
                heights = free[index] // need
            else:
                # An integer division is the dearest step here, and pods nearly always request one
                # place.
                fit = free[index] // need if need > 1 else free[index]
                np.minimum(heights, fit, out=heights)
        assert heights is not None
        if self._open_end:
            np.minimum(heights, MOST_PER_NODE, out=heights)
            np.maximum(heights, 0, out=heights)
        return np.minimum(heights, 1, out=heights) if shape.one_per_node else heights

    def updated(self, counted: Ints, shape: PodShape, position: int) -> Ints | None:
        """`copies` of all clusters as they are now, of those as they were at a position of
        `changes`; None where counting anew is less work, or the only way."""
        changes = self.changes
        if changes is None or position < changes.start:
            return None
        # Each change is looked at twice, before and after, so beyond half of all rows a new count
        # is less work.
        if 2 * (changes.position - position) > self.used.size * self.top:
            return None
        made, asked = counted.copy(), self.asked(shape)
        if changes.position - position <= _FEW_CHANGES and not self.makes.tainted:
            height = functools.partial(asked.height, shape, open_end=self._open_end)
            changes.follow(made, position, height)
            return made
        at, count, kinds, free = changes.since(position)
        heights = self._fitting(asked, shape, free)
        if heights is not None:
            if self.makes.tainted:
                self._keep_off(shape, heights, np.broadcast_to(kinds, heights.shape))
            np.add.at(made, at, count * (heights[1] - heights[0]))
        return made

    def _keep_off(self, shape: PodShape, heights: Ints, kinds: Ints) -> None:
        """Nodes with a taint that keeps the pods off hold none. `kinds`: the makes of the nodes of
        `heights`.
        """
        open_to = self.makes.open_to(shape)
        if not open_to.all():
            heights[~open_to[kinds]] = 0

    def admitting(self, at: int, shape: PodShape) -> int:
        """How many nodes of one cluster have no taint that keeps the pods off."""
        rows = int(self.used[at])
        return int(self.counts[at, :rows][self.makes.open_to(shape)[self.kinds[at, :rows]]].sum())

    def copies(self, shape: PodShape, at: Ints | slice) -> Ints:
        """[c]: how many copies fit now, for the clusters `at`."""
        here, asked = self._which(at), self.asked(shape)
        heights = self._heights(asked, shape, here)
        fit: Ints = np.vecdot(heights, self.counts[here, : heights.shape[1]])
        if isinstance(here, slice):
            self._counted = nodes.counted(asked, heights)
        return np.minimum(fit, UNLIMITED, out=fit) if self._open_end else fit

    def charge(
        self, shape: PodShape, at: Ints, grown: list[int], packs: Bools | None
    ) -> NodesCharge | Single:
        """Binds `grown[i]` more copies in cluster `at[i]`, which rise, as `Nodes.charge`.
        `packs[i]`: its scheduler fills nodes; None where none does."""
        # Most decisions bind one copy in a cluster, for which the general way does several times
        # the work.
        single = self._one_each(shape, at, grown) if packs is None else None
        self._counted = None
        if single is not None:
            return single
        if at.size == 1:
            fills = packs is not None and bool(packs[0])
            return self._charge_one(shape, int(at[0]), grown[0], packs=fills)
        copies: Ints = np.array(grown, dtype=np.int64)
        packs = np.zeros(at.size, dtype=np.bool_) if packs is None else packs
        needs: Ints = nodes.need_in(self.names, shape)[:, None]
        heights = np.maximum(self.heights(shape, at), 0)
        if self._partly:
            needs = needs * self.named[:, at]
            heights = np.where(needs.any(axis=0, keepdims=True).T, heights, 0)
        each, parts = self._spread(shape, at, heights, np.where(packs, 0, copies))
        if packs.any():
            filling = np.flatnonzero(packs)
            parts += manybinding.packed(at, self.counts, heights, copies, filling, each)
        where, row = np.nonzero(each)
        taken = (needs[:, where] if self._partly else needs) * each[where, row]
        return self._taken(shape, at[where], row, taken, parts)

    def _one_each(self, shape: PodShape, at: Ints, grown: list[int]) -> Single | None:
        """Charges one copy for each node of the best rows; None, and nothing charged, where a
        cluster gets more copies than it has nodes for, or its rows do not name every resource.

        The emptiest row of a cluster nearly always has room for a copy: it is taken at first, and
        whether it has is looked at once all rows are read.
        """
        asked, counted = self.asked(shape), self._counted
        if asked.needs is None or self._partly:
            return None
        self._widen(self.top + 1)
        sure: Callable[[int, int], int] = functools.partial(self._fits, asked, shape)
        if counted is not None and counted.asked is asked:
            sure = counted.heights.item
        fit = sure if self.makes.tainted else None
        resources = len(self.names)
        while True:
            bound = manybinding.one_each(self._scored(asked, at), at, grown, self.counts, fit)
            if bound is None:
                return None
            here, part = bound
            before = self._flat.take(here, axis=1)
            after = before if self.changes is None else before.copy()
            left = after[:resources]
            left -= asked.need
            if fit is not None or left.item(left.argmin()) >= 0:
                break
            fit = sure
        return self._take_one_each(here, before, after, part, asked.need)

    def _scored(self, asked: Asked, at: Ints) -> Floats:
        """The scores of rows with one copy on each node: of all clusters, or of those `at`."""
        if 2 * at.size > self.used.size:  # looking at all of them copies nothing
            free, inverse = self._flat[asked.scored_rows], self._flat_inverse
            left = free[asked.scored_at] - asked.scored_need[:, :, 0]
        else:
            free = self.free[asked.scored_rows].take(at, axis=1)
            inverse = self._inverse.take(at, axis=1)[:, :, : self.top]
            left = free[asked.scored_at, :, : self.top] - asked.scored_need
        both: Floats = left.astype(np.float64)
        both *= inverse
        scores: Floats = both[0]
        scores += both[1]
        return scores if scores.ndim > 1 else scores.reshape(self.counts.shape)

    def _take_one_each(
        self, here: Ints, before: Ints, after: Ints, part: list[int], need: Ints
    ) -> Single:
        """Writes rows `here` as they are `after` one copy on each node; of the last ones only some
        nodes get one (`part`), which are rows of their own then."""
        count, width = here.size - len(part), self.counts.shape[1]
        if not part and self.changes is None:
            self._flat_free[:, here] = after[: len(need)]
            return single(width, here, here[:0], part, need, ())
        whole, split, at = here[:count], here[count:], here // width
        if part:
            nodes_there, some = after[len(self.names), count:], np.array(part)
            self._flat_counts[split] = nodes_there - some
            nodes_there[:] = some
            places = here.copy()
            places[count:] = self._new_rows(at[count:])
            self._flat[:, places] = after
        else:
            self._flat_free[:, here] = after[: len(need)]
        if self.changes is not None:
            self.changes.add(at, before, after)
        return single(width, whole, split, part, need, self._merged(at[count:]))

    def _fits(self, asked: Asked, shape: PodShape, at: int, row: int) -> bool:
        """Whether a copy fits on the nodes of one row."""
        taints_there = self.makes.every[self.kinds.item(at, row)].taints
        if taints_there and taints.untolerated(taints_there, shape.tolerations) is not None:
            return False
        assert asked.needs is not None
        return all(self.free.item(index, at, row) >= need for index, need in asked.needs)

    def _taken(
        self, shape: PodShape, at: Ints, row: Ints, taken: Ints, parts: tuple[Parts, ...]
    ) -> NodesCharge:
        """Takes `taken` from each node of rows `row` of clusters `at`, and splits off the parts."""
        self._widen(self.top + len(parts))
        width, need, resources = self.counts.shape[1], self.asked(shape).need, len(self.names)
        formers = [split_off.at * width + split_off.row for split_off in parts]
        split = [self._flat.take(former, axis=1) for former in formers]
        if at.size:
            here = at * width + row
            before = self._flat.take(here, axis=1)
            after = before.copy()
            after[:resources] -= taken
            self._flat[:, here] = after
        for split_off, former, rows in zip(parts, formers, split, strict=True):
            each = need * self.named[:, split_off.at] if self._partly else need
            fuller = rows.copy()
            fuller[:resources] -= each * split_off.copies
            fuller[resources] = split_off.part
            self._flat[:, self._new_rows(split_off.at)] = fuller
            self._flat_counts[former] -= split_off.part
            if self.changes is not None:
                self.changes.add(split_off.at, rows, fuller)
        if at.size and self.changes is not None:
            after[resources] = self.counts[at, row]  # without what was split off
            self.changes.add(at, before, after)
        touched = [split_off.at for split_off in parts]
        merged = self._merged(np.concatenate(touched)) if touched else ()
        return charge(at, row, taken, parts, merged)

    def _merged(self, touched: Ints) -> tuple[tuple[int, Ints, Ints, Ints], ...]:
        """Joins rows of those clusters that have too many now; as in `NodesCharge`."""
        if self.top <= self._least_most:
            return ()
        over = touched[self.used[touched] > self.most[touched]]
        return tuple(map(self._merge, sorted(set(over.tolist())))) if over.size else ()

    def _charge_one(
        self, shape: PodShape, at: int, copies: int, *, packs: bool
    ) -> NodesCharge | Single:
        """As `charge`, for one cluster: with one dimension less."""
        top, need = int(self.used[at]), self.asked(shape).need[:, 0] * self.named[:, at]
        if copies == 1 and top <= nodes.FEW_ROWS and not packs:
            return self._charge_single(shape, at, need)
        heights = self.heights_of(shape, at)
        if not need.any():
            heights[:] = 0
        counts = self.counts[at, :top]
        if packs:
            bound = binding.packed(counts, heights, copies)
        else:
            free = self.free[:, at, :top]
            inverse = self._inverse[:, at, :top]
            score = functools.partial(self.asked(shape).openness, free, inverse)
            bound = binding.spread(counts, heights, copies, score)
        (rows,) = bound.each.nonzero()
        taken: Ints = need[:, None] * bound.each[rows]
        parts = tuple(
            Parts(*(np.array([value]) for value in (at, row, part, each)))
            for row, part, each in bound.parts
        )
        return self._taken(shape, np.full(rows.size, at), rows, taken, parts)

    def _charge_single(self, shape: PodShape, at: int, need: Ints) -> NodesCharge | Single:
        """As `_charge_one`, of one copy: by the numbers of one row, which cost less than arrays."""
        rows, taken = self._listed(at), need.tolist()
        row = self.asked(shape).emptiest(rows, self.makes.listed, self._makes_open(shape))
        if row is None or not any(taken):
            return self._taken(shape, _NO_ROWS, _NO_ROWS, need[:, None][:, :0], ())
        self._widen(self.top + 1)
        before, width = [column[row] for column in rows], self.counts.shape[1]
        after = [*map(operator.sub, before, taken), 1, before[-1]]
        cluster, here = np.array([at]), np.array([at * width + row])
        place, splits = here, before[-2] > 1
        if splits:
            place = self._new_rows(cluster)
            self._flat[:, place] = self._flat[:, here]
            self._flat_counts[here] -= 1
        self._flat[:-_SCORES, place] = np.array(after)[:, None]
        if self.changes is not None:
            self.changes.add_one(at, before, after)
        whole, split, part = (_NO_ROWS, here, [1]) if splits else (here, _NO_ROWS, [])
        return single(width, whole, split, part, need[:, None], self._merged(cluster))

    def _listed(self, at: int) -> list[list[int]]:
        """The rows of one cluster as Python's integers."""
        rows: list[list[int]] = self.rows[:-_SCORES, at, : self.used.item(at)].tolist()
        return rows

    def _makes_open(self, shape: PodShape) -> list[bool] | None:
        return self.makes.open_to(shape).tolist() if self.makes.tainted else None

    def heights_of(self, shape: PodShape, at: int) -> Ints:
        """[S]: copies that fit per node, in the rows of one cluster."""
        needs, top = self.asked(shape).needs, int(self.used[at])
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
        if not shape.one_per_node and self.used.item(at) <= nodes.FEW_ROWS:
            fit = self.asked(shape).copies(self._listed(at), self._makes_open(shape))
            return min(fit, UNLIMITED)
        heights = self.heights_of(shape, at)
        return min(int(self.counts[at, : heights.size].dot(heights)), UNLIMITED)

    def undo(self, charged: NodesCharge | Single) -> None:
        """Takes a charge back; later ones must have been taken back before."""
        made = charged.charge() if isinstance(charged, Single) else charged
        self._forget()
        for at, free, counts, kinds in made.merged:
            rows = counts.size
            self.free[:, at, :rows], self.counts[at, :rows] = free, counts
            self._set_kinds(at, kinds)
            self.used[at] = rows
        for split_off in reversed(made.parts):
            self.used[split_off.at] -= 1
            last = self.used[split_off.at]
            self.free[:, split_off.at, last], self.counts[split_off.at, last] = _NO_ROW, 0
            self.counts[split_off.at, split_off.row] += split_off.part
        self.free[:, made.at, made.row] += made.taken

    def _spread(
        self, shape: PodShape, at: Ints, heights: Ints, copies: Ints
    ) -> tuple[Ints, tuple[Parts, ...]]:
        rows = heights.shape[1]
        free, inverse = self.free[:, at, :rows], self._inverse[:, at, :rows]
        score = functools.partial(self.asked(shape).openness, free, inverse)
        each, parts = manybinding.spread(
            self.counts[at, :rows], heights, copies, lambda level: score(level[:, None])
        )
        return each, (
            Parts(at[parts.at], parts.row, parts.part, parts.copies),
        ) if parts.at.size else ()

    def _which(self, at: Ints | slice) -> Ints | slice:
        """The same clusters; as a slice, which copies nothing, where they are all."""
        return _ALL if not isinstance(at, slice) and at.size == self.used.size else at

    def _new_rows(self, at: Ints) -> Ints:
        """One row more of each cluster, counted over all clusters."""
        slot = self.used.take(at)
        self.top = max(self.top, slot.item(slot.argmax()) + 1)
        self.used[at] = slot + 1
        rows: Ints = at * self.counts.shape[1] + slot
        return rows

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
        self.free[:, at, :rows], self.counts[at, :rows] = _NO_ROW, 0
        joined = counts.size
        self.free[:, at, :joined], self.counts[at, :joined] = free, counts
        self._set_kinds(at, kinds)
        self.used[at] = joined
        self.top = int(self.used.max())
        return at, before[1], before[0], before[2]

    def _widen(self, rows: int) -> None:
        """Makes place for so many rows per cluster."""
        more = rows - self.counts.shape[1]
        if more <= 0:
            return
        narrow, width = self.rows, self.counts.shape[1]
        more = max(more, width // (8 if self.changes is None else 4))
        self._hold(np.zeros((*narrow.shape[:2], width + more), dtype=np.int64))
        self.rows[:, :, :width] = narrow
        self.free[:, :, width:] = _NO_ROW
