"""Giving and taking seats under spread rules: as if one by one, for large numbers in blocks.

A block of seats goes where single seats would go, only more coarsely. So a large number is given in ever smaller
blocks: after each size everybody gives back some blocks, so that nobody has more than single seats would give, and the
last seats are given one by one. Work grows with the logarithm of the number.
"""

import heapq
from collections.abc import Collection, Sequence
from typing import Final

from federator.model.ask import SpreadRule
from federator.placement import domains
from federator.placement.division import Latest, Party

_MARGIN: Final = 2
"""Blocks for each cluster that are not given before the next smaller size, and that each gives back."""
_ONE_BY_ONE: Final = 8
"""Up to so many seats for each cluster are given one by one at once."""

_Rank = tuple[int, tuple[int, ...], tuple[int, int, int, str]]
_LAST: Final[_Rank] = (1 << 62, (), (0, 0, 0, ""))
"""Sorts behind every cluster that may take a seat."""


def fill(parties: Sequence[Party], missing: int, rules: Sequence[SpreadRule], idle: Collection[tuple[str, ...]]) -> int:
    """Gives up to `missing` more seats; returns what nobody may take."""
    unit = _first_unit(parties, missing)
    while unit > 1:
        ready = [party for party in parties if party.seats >= min(party.floor, party.cap)]
        before = [party.seats for party in parties]
        reserve = _MARGIN * unit * len(ready)
        if missing > reserve:
            _Filling(parties, rules, idle, unit).run(missing - reserve)
            _give_back(parties, before, rules, idle, unit)
            missing -= sum(party.seats for party in parties) - sum(before)
        unit //= 2
    return _Filling(parties, rules, idle, 1).run(missing)


def _first_unit(parties: Sequence[Party], missing: int) -> int:
    unit, enough = 1, _ONE_BY_ONE * max(len(parties), 1)
    while missing // unit > enough:
        unit *= 2
    return unit


def _give_back(
    parties: Sequence[Party],
    before: Sequence[int],
    rules: Sequence[SpreadRule],
    idle: Collection[tuple[str, ...]],
    unit: int,
) -> None:
    """Everybody gives back some blocks, and fuller domains what lies beyond the skew; nobody what it had before."""
    least = dict(zip((party.name for party in parties), before, strict=True))
    for party in parties:
        party.seats = max(party.seats - _MARGIN * unit, least[party.name])
    again = True
    while again:
        again = False
        for at, rule in enumerate(rules):
            found = domains.of_rule(at, rule, parties, idle)
            if not rule.hard or not found.excess():
                continue
            for domain, count in found.totals.items():
                surplus = count - found.least - found.skew
                inside = [one for one in parties if one.domains[at] == domain and one.seats > least[one.name]]
                for party in sorted(inside, key=Latest):
                    taken = min(max(surplus, 0), party.seats - least[party.name])
                    party.seats -= taken
                    surplus -= taken
                    again = again or taken > 0


class _Cell:
    """Clusters that lie in the same domain under every rule: they are judged together."""

    __slots__ = ("block", "domains", "heap")

    def __init__(self, where: tuple[str, ...]) -> None:
        self.domains = where
        self.heap: list[tuple[int, tuple[int, int, int, str], Party]] = []
        self.block = 0
        """Seats that its first cluster takes at once."""


class _Filling:
    """Gives seats in blocks of `unit` (less where a cap is nearer; the whole floor to a cluster below it)."""

    def __init__(
        self, parties: Sequence[Party], rules: Sequence[SpreadRule], idle: Collection[tuple[str, ...]], unit: int
    ) -> None:
        self.unit = unit
        self.lines = [(rule.hard, domains.of_rule(at, rule, parties, idle)) for at, rule in enumerate(rules)]
        cells: dict[tuple[str, ...], _Cell] = {}
        for party in parties:
            if party.seats >= party.cap or (party.weight <= 0 and party.seats >= party.floor):
                continue
            if unit == 1 or party.seats >= party.floor:
                cell = cells.setdefault(party.domains, _Cell(party.domains))
                cell.heap.append((party.level, party.next_key(), party))
        self.cells = list(cells.values())
        for cell in self.cells:
            heapq.heapify(cell.heap)
        self.near = [[self._beside(cell, i) for i in range(len(rules))] for cell in self.cells]
        """For each cell and rule, the cells in the same domain."""
        self.ranks: list[_Rank] = []
        self.largest = max([unit, *(party.floor for party in parties)])
        """No block is larger."""

    def _beside(self, cell: _Cell, rule: int) -> set[int]:
        return {at for at, other in enumerate(self.cells) if other.domains[rule] == cell.domains[rule]}

    def run(self, missing: int) -> int:
        """Returns what no cluster may take."""
        self.ranks = [self._rank(cell, missing) for cell in self.cells]
        while missing > 0 and self.ranks:
            best = min(self.ranks)
            if best is _LAST:
                break
            at = self.ranks.index(best)
            cell = self.cells[at]
            block = cell.block
            changed = self._give(cell)
            missing -= block
            stale: set[int] = {at}
            for i in range(len(self.lines)):
                stale.update(range(len(self.cells)) if changed[i] else self.near[at][i])
            for other in stale:
                self.ranks[other] = self._rank(self.cells[other], missing)
            if missing < self.largest:
                self._refit(missing)
        return missing

    def _refit(self, missing: int) -> None:
        """Near the end a cluster that needs more at once than is left is out."""
        for at, cell in enumerate(self.cells):
            if cell.block > missing:
                self.ranks[at] = self._rank(cell, missing)

    def _rank(self, cell: _Cell, missing: int) -> _Rank:
        heap = cell.heap
        while heap:
            level, key, party = heap[0]
            need = max(party.floor - party.seats, 0)
            block = need or min(self.unit, party.cap - party.seats, max(missing, 1))
            if block <= max(missing, 1) and party.seats + block <= party.cap:
                break
            heapq.heappop(heap)
        else:
            cell.block = 0
            return _LAST
        breach: list[int] = []
        for (hard, line), domain in zip(self.lines, cell.domains, strict=True):
            amount = line.breach(domain, block, self.unit)
            if amount and hard:
                cell.block = 0
                return _LAST
            breach.append(amount)
        cell.block = block
        return (level, tuple(breach), key)

    def _give(self, cell: _Cell) -> list[bool]:
        party = cell.heap[0][-1]
        party.seats += cell.block
        if party.seats < party.cap and party.weight > 0:
            heapq.heapreplace(cell.heap, (party.level, party.next_key(), party))
        else:
            heapq.heappop(cell.heap)
        return [line.add(domain, cell.block) for (_, line), domain in zip(self.lines, cell.domains, strict=True)]


def shrink(
    parties: Sequence[Party], surplus: int, rules: Sequence[SpreadRule], idle: Collection[tuple[str, ...]]
) -> None:
    """Takes seats where that leaves the least breach (hard rules first), else as Webster's method would; floors and
    lower levels last."""
    unit = _first_unit(parties, surplus)
    while unit > 1:
        before = [party.seats for party in parties]
        reserve = _MARGIN * unit * len(parties)
        if surplus > reserve:
            _Taking(parties, rules, idle, unit).run(surplus - reserve)
            for party, seats in zip(parties, before, strict=True):
                party.seats = min(party.seats + _MARGIN * unit, seats)
            surplus -= sum(before) - sum(party.seats for party in parties)
        unit //= 2
    _Taking(parties, rules, idle, 1).run(surplus)


class _Leaving:
    """Orders the clusters of a cell by who gives up a seat first."""

    __slots__ = ("key", "latest", "party")

    def __init__(self, party: Party) -> None:
        self.party = party
        self.key = (party.seats <= party.floor, -party.level)
        self.latest = Latest(party)

    def __lt__(self, other: "_Leaving") -> bool:
        return self.latest < other.latest if self.key == other.key else self.key < other.key


class _Taking:
    """Takes seats in blocks of `unit`, or less where a floor is nearer."""

    def __init__(
        self, parties: Sequence[Party], rules: Sequence[SpreadRule], idle: Collection[tuple[str, ...]], unit: int
    ) -> None:
        self.unit = unit
        lines = [(rule.hard, at, domains.of_rule(at, rule, parties, idle)) for at, rule in enumerate(rules)]
        self.lines = sorted(lines, key=lambda one: not one[0])
        self.cells: dict[tuple[str, ...], list[_Leaving]] = {}
        for party in parties:
            if party.seats > 0:
                self.cells.setdefault(party.domains, []).append(_Leaving(party))
        for heap in self.cells.values():
            heapq.heapify(heap)
        self.breaches: dict[tuple[str, ...], tuple[int, ...]] = {}

    def run(self, surplus: int) -> None:
        while surplus > 0:
            best: tuple[tuple[int, ...], _Leaving, list[_Leaving]] | None = None
            for where, heap in self.cells.items():
                if not heap:
                    continue
                breach = self.breaches.get(where)
                if breach is None:
                    block = self._block(heap[0].party, surplus)
                    breach = tuple(line.without(where[at], block) for _, at, line in self.lines)
                    self.breaches[where] = breach
                if best is None or breach < best[0] or (breach == best[0] and heap[0] < best[1]):
                    best = (breach, heap[0], heap)
            if best is None:
                return
            surplus -= self._take(best[2], surplus)

    def _block(self, party: Party, surplus: int) -> int:
        free = party.seats - party.floor
        return min(self.unit, free if free > 0 else party.seats, surplus)

    def _take(self, heap: list[_Leaving], surplus: int) -> int:
        party = heap[0].party
        block = self._block(party, surplus)
        party.seats -= block
        if party.seats > 0:
            heapq.heapreplace(heap, _Leaving(party))
        else:
            heapq.heappop(heap)
        changed = [line.add(party.domains[at], -block) for _, at, line in self.lines]
        if any(changed):
            self.breaches.clear()
        else:
            for where in list(self.breaches):
                if any(where[at] == party.domains[at] for _, at, _ in self.lines):
                    del self.breaches[where]
        return block
