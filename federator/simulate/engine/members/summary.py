"""Rows of a member's nodes: their order, and the room that they make."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from federator.model.fleet import NodeRow
from federator.model.resources import PODS, UNLIMITED, Resources
from federator.placement.room import nodes
from federator.placement.room.nodes import Nodes

Row = tuple[int, tuple[int, ...]]
"""Equal nodes: their make, and what is free on each, by the names of the member."""
Order = tuple[int, tuple[tuple[str, int], ...], int]
KEPT: Final = 4096
"""Rows of which is remembered how they score, and how they are sorted."""


def _row(row: NodeRow, names: tuple[str, ...], free: tuple[int, ...], count: int) -> NodeRow:
    """The row of `count` nodes like `row` with these free amounts."""
    left = Resources(
        (name, amount) for name, amount in zip(names, free, strict=True) if amount < UNLIMITED
    )
    return replace(row, count=count, free=left)


class Summary:
    """Makes room of a member's rows, as `Nodes.of` makes it of the rows that it reports."""

    def __init__(
        self, makes: Sequence[NodeRow], present: Collection[int], names: tuple[str, ...]
    ) -> None:
        self._made, self._all = makes, names
        self._orders: dict[Row, Order] = {}
        here = {index: makes[index] for index in present}
        named = {name for row in here.values() for name in row.allocatable}
        self._names = tuple(
            sorted(named | {PODS} if any(row.podless for row in here.values()) else named)
        )
        self._places = [names.index(name) for name in self._names]
        kinds = {index: nodes.make_of(row) for index, row in here.items()}
        self._makes = nodes.makes_of(tuple(sorted(set(kinds.values()))))
        self._kind = {index: self._makes.every.index(kind) for index, kind in kinds.items()}
        self._endless = {
            index for index, row in here.items() if PODS not in row.allocatable and not row.podless
        }
        """Makes without a limit on pods."""
        sizes = {index: tuple(row.allocatable.items()) for index, row in here.items()}
        others = {
            index: (row.model, row.family, row.taints, row.podless) for index, row in here.items()
        }
        self._size = {
            index: sorted(set(sizes.values())).index(size) for index, size in sizes.items()
        }
        self._other = {
            index: sorted(set(others.values())).index(other) for index, other in others.items()
        }
        self.distinct = len({(self._size[index], self._other[index]) for index in here}) == len(
            here
        )
        """No two makes are alike."""

    def order(self, row: Row) -> Order:
        """`nodes.row_key` without the count, shorter."""
        order = self._orders.get(row)
        if order is None:
            make, free = row
            left = tuple(
                (name, have)
                for name, have in zip(self._all, free, strict=True)
                if have and have < UNLIMITED
            )
            if len(self._orders) >= KEPT:
                self._orders.clear()
            order = self._orders[row] = (self._size[make], left, self._other[make])
        return order

    def nodes(self, every: Sequence[Row], counts: list[int]) -> Nodes:
        """The rows as room, in this order; so many nodes are of each."""
        makes, left = zip(*every, strict=True) if every else ((), ())
        amounts: Sequence[Sequence[int]] = list(zip(*left, strict=True))
        free = [amounts[place] if amounts else () for place in self._places]
        kinds = list(map(self._kind.__getitem__, makes))
        if self._endless and PODS in self._names:
            at = self._names.index(PODS)
            free[at] = [
                UNLIMITED if make in self._endless else left
                for (make, _), left in zip(every, free[at], strict=True)
            ]
        return Nodes.of_lists(
            self._names,
            (*free, counts, kinds),
            makes=self._makes,
            most_rows=len(every) + nodes.MAX_ROWS_KEPT,
        )

    def rows(self, every: Sequence[Row], counts: Sequence[int]) -> tuple[NodeRow, ...]:
        return tuple(
            _row(self._made[make], self._all, free, count)
            for (make, free), count in sorted(zip(every, counts, strict=True))
        )
