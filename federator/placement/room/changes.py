"""What charges changed of the rows of nodes, in order. Room that was counted before is brought up
to date by it: a shape that is read again after eighty decisions needs a thousand rows, not all.

R resources. A change that is not told here (a new report, a merge, a charge taken back) ends the
record; room that is older is counted anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from federator.model.quickly import quickly
from federator.placement.room.binding import Ints
from federator.placement.room.manybinding import Parts

KEPT: Final = 4096
"""Changes that are kept, about 300 KB with three resources."""


@dataclass(frozen=True, slots=True)
class NodesCharge:
    """What one charge changed, for taking it back."""

    at: Ints
    row: Ints
    taken: Ints
    """[R, n]: amounts subtracted from each node of `row` of cluster `at`."""
    parts: tuple[Parts, ...]
    merged: tuple[tuple[int, Ints, Ints, Ints], ...]
    """(cluster, free, counts, kinds) from before rows were merged."""


@dataclass(frozen=True, slots=True)
class Single:
    """The same of a charge of one copy for each node of some rows, as it is kept. Rows are counted
    over all clusters, of which each has `width`."""

    width: int
    whole: Ints
    split: Ints
    """Rows of which only some nodes, `part`, got a copy."""
    part: list[int]
    need: Ints
    merged: tuple[tuple[int, Ints, Ints, Ints], ...]

    def charge(self) -> NodesCharge:
        parts: tuple[Parts, ...] = ()
        if self.part:
            part: Ints = np.array(self.part, dtype=np.int64)
            parts = (Parts(*divmod(self.split, self.width), part, np.ones_like(part)),)
        taken = np.broadcast_to(self.need, (self.need.size, self.whole.size))
        return NodesCharge(*divmod(self.whole, self.width), taken, parts, self.merged)


charge, single = quickly(NodesCharge), quickly(Single)


class Changes:
    """`nodes[i]` nodes of make `kinds[i]` in cluster `at[i]` had `free[:, 0, i]` free each, and
    have `free[:, 1, i]`. Nothing is allocated before the first change."""

    __slots__ = ("_columns", "_resources", "_size", "position", "start")

    def __init__(self, resources: int, position: int = 0) -> None:
        self._resources = resources
        self._columns: Ints | None = None
        """[1 + 2R + 2, n]: clusters, free amounts before and after, counts of nodes, makes."""
        self._size = 0
        self.position = position
        """Changes so far, and interruptions."""
        self.start = position
        """The position of the first change that is kept."""

    def copy(self) -> "Changes":
        """Changes that go on from here."""
        return Changes(self._resources, self.position)

    def add(self, at: Ints, before: Ints, after: Ints) -> None:
        """`before` and `after` are rows as in `columns`, [R + 4, n]; what counts of nodes and makes
        is what they say after."""
        count, resources, columns = at.size, self._resources, self._columns
        if columns is None:
            columns = self._columns = np.zeros((2 * resources + 3, KEPT), dtype=np.int64)
        if self._size + count > KEPT:
            self._halve()
        if self._size + count > KEPT:
            self.interrupt()
            return
        end = self._size + count
        columns[0, self._size : end] = at
        columns[1 : resources + 1, self._size : end] = before[:resources]
        columns[resources + 1 :, self._size : end] = after[: resources + 2]
        self._size = end
        self.position += count

    def add_one(self, at: int, before: Sequence[int], after: Sequence[int]) -> None:
        """As `add`, of one row, [R + 2], in lists."""
        resources = self._resources
        if self._columns is None:
            self._columns = np.zeros((2 * resources + 3, KEPT), dtype=np.int64)
        if self._size == KEPT:
            self._halve()
        self._columns[:, self._size] = (at, *before[:resources], *after)
        self._size += 1
        self.position += 1

    def _halve(self) -> None:
        """Lets the older half of the changes go."""
        assert self._columns is not None
        gone = self._size // 2
        self._size -= gone
        self.start += gone
        self._columns[:, : self._size] = self._columns[:, gone : gone + self._size].copy()

    def interrupt(self) -> None:
        """What was counted up to now cannot be brought up to date."""
        self.position += 1
        self.start, self._size = self.position, 0

    def follow(self, made: Ints, position: int, height: Callable[[Sequence[int]], int]) -> None:
        """Brings `made`, the rooms of all clusters at a position (at the earliest `start`), up to
        date, by numbers: for a few changes. `height`: how many copies a node with so much free
        has room for."""
        if self._columns is None:
            return
        middle = self._resources + 1
        here: list[list[int]] = self._columns[:, position - self.start : self._size].T.tolist()
        for change in here:
            more = height(change[middle:-2]) - height(change[1:middle])
            if more:
                made[change[0]] += change[-2] * more

    def since(self, position: int) -> tuple[Ints, Ints, Ints, Ints]:
        """(at, nodes, kinds, free) of the changes from a position on, at the earliest `start`; free
        amounts are [R, 2, n]."""
        assert self._columns is not None
        here, resources = self._columns[:, position - self.start : self._size], self._resources
        free = here[1:-2].reshape(2, resources, here.shape[1]).swapaxes(0, 1)
        return here[0], here[-2], here[-1], free
