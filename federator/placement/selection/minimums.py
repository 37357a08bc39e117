"""Chooses the clusters that take part where minimums differ between clusters (`perCluster`): each
that joins needs its own minimum out of the same copies. `choosing` is for one minimum.

Clusters are taken in order, holders first, each as long as those behind it can still hold as much
as any set could: of all sets that place most copies the first by that order. Which sets these are
is a knapsack, filled from the last cluster to the first.

    10 copies; a exactly 8, b and c exactly 5: beside a no other can join, b and c hold all 10, so a
    is left out
"""

import heapq
from collections.abc import Sequence

import numpy as np

from federator.model.decision import Reason
from federator.model.policy import Division
from federator.placement.division.division import DIVIDERS
from federator.placement.room.binding import Ints
from federator.placement.selection.candidates import Candidate

CELLS = 1 << 22
"""Entries of the table at most; with more, copies are counted in larger units."""


def differ(candidates: Sequence[Candidate]) -> bool:
    """Whether some cluster has a minimum of its own."""
    return any(candidate.least > 0 for candidate in candidates)


def choose(
    candidates: Sequence[Candidate],
    total: int,
    division: Division,
    *,
    fresh: bool,
    strict: bool = False,
    beyond: int = 0,
    sticky: bool = False,
) -> dict[str, Reason]:
    """The clusters that are left out, with the reason; as `choosing.choose`."""
    holders = [] if fresh else [each for each in candidates if each.held > 0 and each.cap > 0]
    holders.sort(
        key=lambda each: (each.place.level, -each.held, -each.score, each.order, each.name)
    )
    staying = {each.name for each in holders}
    out: dict[str, Reason] = {}
    joining: list[Candidate] = []
    for each in candidates:
        if each.name in staying or each.cap <= 0 or each.weight <= 0:
            continue
        if min(each.cap, total) < _least(each, division):
            out[each.name] = Reason.BELOW_MINIMUM
        else:
            joining.append(each)
    ordered = [*holders, *_in_order(joining, holders)]
    taking = _ClusterTaking(ordered, total, division)
    for at, holder in enumerate(holders):
        taking.consider(at, held=holder.held, forced=sticky)
    fewest = DIVIDERS[division.strategy].fewest
    first = min(map(_level, ordered), default=0)
    for at in range(len(holders), len(ordered)):
        candidate, enough = ordered[at], taking.room >= total
        # A minimum would draw copies into a later group that earlier ones have room for.
        spared = not strict and _level(candidate) > first and _least(candidate, division) > 0
        if enough and (spared or (fewest and beyond <= 0)):
            out[candidate.name] = Reason.NOT_NEEDED
        else:
            beyond -= fewest and enough
            taking.consider(at, needed=not sticky)
    out.update(taking.out)
    return out


def _least(candidate: Candidate, division: Division) -> int:
    return max(division.min_per_cluster, candidate.least, 0)


def _level(candidate: Candidate) -> int:
    return 2 * candidate.place.level + bool(candidate.place.avoided)


def _in_order(joining: Sequence[Candidate], holders: Sequence[Candidate]) -> list[Candidate]:
    """Those that hold nothing: groups and avoided taints, then the least used domains, then the
    score."""
    used: dict[tuple[int, str], int] = {}

    def crowding(cell: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(used.get(key, 0) for key in enumerate(cell))

    def use(cell: tuple[str, ...]) -> None:
        for key in enumerate(cell):
            used[key] = used.get(key, 0) + 1

    for holder in holders:
        use(holder.place.domains)
    cells: dict[tuple[str, ...], list[tuple[int, int, int, int, str, Candidate]]] = {}
    for each in joining:
        key = _level(each), -each.score, -each.cap, each.order, each.name, each
        cells.setdefault(each.place.domains, []).append(key)
    for heap in cells.values():
        heapq.heapify(heap)
    ordered: list[Candidate] = []
    while cells:
        cell = min(cells, key=lambda cell: (cells[cell][0][0], crowding(cell), cells[cell][0][1:5]))
        ordered.append(heapq.heappop(cells[cell])[-1])
        use(cell)
        if not cells[cell]:
            del cells[cell]
    return ordered


class _ClusterTaking:
    """Takes clusters one by one. `rest[i]` says what the clusters from the i-th on can hold, by the
    number of clusters and the copies that their minimums may use."""

    def __init__(self, ordered: Sequence[Candidate], total: int, division: Division) -> None:
        self._ordered, self._total = ordered, total
        self._caps = [min(each.cap, total) for each in ordered]
        self._floors = [
            min(_least(each, division), cap) for each, cap in zip(ordered, self._caps, strict=True)
        ]
        count = len(ordered)
        most = count if division.max_clusters is None else min(division.max_clusters, count)
        # Without a bound on clusters, and where all minimums fit, there is nothing to choose.
        self._free = sum(self._floors) <= total
        self._sizes = most + 1 if most < count else 1
        self._slots = most
        self._unit = max(-(-count * self._sizes * (total + 1) // CELLS), 1)
        self._budget = total // self._unit
        self._rest = self._tables()
        self.room = 0
        """Copies that the clusters taken so far can hold."""
        self._spare = total
        """Copies that no holder has and no minimum of those taken needs."""
        self.out: dict[str, Reason] = {}
        few = division.max_clusters is not None
        self._why = Reason.AT_MAXIMUM if few else Reason.BELOW_MINIMUM
        self._goal = self._reach(0, self._slots, self._budget)

    def _tables(self) -> list[Ints]:
        width = 1 if self._free else self._budget + 1
        table = np.zeros((self._sizes, width), dtype=np.int64)
        tables = [table]
        for floor, cap in zip(reversed(self._floors), reversed(self._caps), strict=True):
            uses = 0 if self._free else -(-floor // self._unit)
            others = table[:-1] if self._sizes > 1 else table
            taken = np.full_like(table, -1)
            if uses < width:
                below = others[:, : width - uses] + cap
                taken[self._sizes - len(others) :, uses:] = below
            table = np.minimum(np.maximum(table, taken), self._total)
            tables.append(table)
        tables.reverse()
        return tables

    def _reach(self, at: int, slots: int, budget: int) -> int:
        if slots < 0 or budget < 0:
            return -1
        table = self._rest[at]
        return int(table[min(slots, self._sizes - 1), 0 if self._free else budget])

    def consider(
        self, at: int, *, held: int = 0, forced: bool = False, needed: bool = True
    ) -> None:
        """Takes the cluster if everything that can be placed still can be, and its minimum does not
        cost holders copies in vain. `held`: what it has already. `forced`: it stays as long as the
        number of clusters allows. `needed`: its minimum may cost holders copies where that places
        more."""
        cap, floor = self._caps[at], self._floors[at]
        slots = self._slots - 1
        budget = self._budget - (0 if self._free else -(-floor // self._unit))
        if forced and slots >= 0:
            budget = max(budget, 0)
            self._goal = min(self._goal, self.room + cap + self._reach(at + 1, slots, budget))
        fits = held > 0 or floor <= self._spare or (needed and self.room < self._goal)
        reached = self._reach(at + 1, slots, budget)
        if not fits or reached < 0 or min(self.room + cap + reached, self._total) < self._goal:
            self.out[self._ordered[at].name] = self._why
            return
        self._slots, self._budget = slots, budget
        self.room = min(self.room + cap, self._total)
        self._spare -= max(held, floor)
