"""Gives and takes seats under spread rules, with the result of single seats but in blocks for large
numbers.

A block goes where single seats would go, only more coarsely. Blocks get smaller by half. After each
size every cluster gives back one block, so that none has more than single seats would give it; the
last seats are given one by one. The work grows with the logarithm of the number.

    10,000 copies over 4 clusters: blocks of 512, 256, ... 2, then single seats
"""

import heapq
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.policy import SpreadRule
from federator.placement.division import domains
from federator.placement.division.division import Party
from federator.placement.division.domains import Domains

_MARGIN: Final = 1
"""Blocks per cluster that are held back before the next smaller size, and that each cluster gives
back."""
ONE_BY_ONE: Final = 8
"""Up to this many seats per cluster are given one by one from the start."""
_LAST: Final = ((1 << 62,),)
"""Sort key of a cell with clusters that may not take or give a seat."""

_Rules = Sequence[SpreadRule]
_Idle = Collection[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Way:
    """How blocks are given back after each size."""

    rounds: int | None
    """How often excess blocks are looked for; None repeats until there are none."""
    keeps_open: bool = False
    """Whether domains that the size has opened for minDomains keep a seat. Closed again, one may
    wait for another rule, and all other domains for it."""


_WAYS: Final = (_Way(2), _Way(None), _Way(None, keeps_open=True))
"""Each for what the one before breaks a hard rule with, or leaves unplaced because domains that
minDomains wants are not in use."""


def fill(parties: Sequence[Party], missing: int, rules: _Rules, idle: _Idle) -> int:
    """Gives up to `missing` more seats; returns the seats that no cluster may take."""
    before = [party.seats for party in parties]
    tried: list[tuple[bool, int, list[int]]] = []
    # The quick way first: the others cost several times as much and are rarely needed.
    for way in _WAYS:
        _put(parties, before)
        left = _fill(parties, missing, rules, idle, way)
        broken = overgrown(parties, before, rules, idle)
        tried.append((broken, left, [party.seats for party in parties]))
        if not broken and not (left and _lacking(parties, rules, idle)):
            break
    # A broken hard rule is worse than missing copies, and of equal results the quicker way counts.
    _, left, best = min(tried, key=lambda result: result[:2])
    _put(parties, best)
    return left


def _put(parties: Sequence[Party], seats: Sequence[int]) -> None:
    for party, count in zip(parties, seats, strict=True):
        party.seats = count


def _lacking(parties: Sequence[Party], rules: _Rules, idle: _Idle) -> bool:
    """Whether fewer domains are used than a hard rule wants: until then only a copy that opens one
    is placed."""
    return any(
        rule.hard and domains.of_rule(at, rule, parties, idle).lacking()
        for at, rule in enumerate(rules)
    )


def _fill(parties: Sequence[Party], missing: int, rules: _Rules, idle: _Idle, way: _Way) -> int:
    unit = _first_unit(parties, missing)
    while unit > 1:
        reserve = _MARGIN * unit * len(parties)
        if missing > reserve:
            before = [party.seats for party in parties]
            _Filling(parties, rules, idle, unit).run(missing - reserve)
            least = _opened(parties, before, rules, idle) if way.keeps_open else before
            # The last blocks of a size may be out of turn, so that they are given again in smaller
            # ones.
            _give_back(parties, least, rules, idle, unit, way.rounds)
            missing -= sum(party.seats for party in parties) - sum(before)
        unit //= 2
    return _Filling(parties, rules, idle, 1).run(missing)


def _first_unit(parties: Sequence[Party], missing: int) -> int:
    unit, enough = 1, ONE_BY_ONE * max(len(parties), 1)
    # Doubled until the rest is few enough to be given one by one: so the number of steps grows with
    # the logarithm of the copies.
    while missing // unit > enough:
        unit *= 2
    return unit


def overgrown(parties: Sequence[Party], before: Sequence[int], rules: _Rules, idle: _Idle) -> bool:
    """Whether the seats given since `before` put a domain above what a hard rule allows, or use
    fewer domains than a hard rule wants."""
    for at, rule in enumerate(rules):
        if not rule.hard:
            continue
        spread_domains = domains.of_rule(at, rule, parties, idle)
        growth: dict[str, int] = {}
        grown = 0
        for party, seats in zip(parties, before, strict=True):
            grown += party.seats - seats
            if party.seats != seats:
                for domain in domains.parts(party.domains[at]):
                    growth[domain] = growth.get(domain, 0) + party.seats - seats
        # Compared with the state before: what was broken already is not the fault of these seats.
        had = {
            domain: count - growth.get(domain, 0) for domain, count in spread_domains.totals.items()
        }
        lacked = min(spread_domains.wants, spread_domains.total - grown) - sum(
            count > 0 for count in had.values()
        )
        if spread_domains.lacking() > max(lacked, 0):
            return True
        most = spread_domains.least + spread_domains.skew
        if spread_domains.skew and any(
            growth.get(domain, 0) > 0 and n > most for domain, n in spread_domains.totals.items()
        ):
            return True
    return False


def _opened(
    parties: Sequence[Party], before: Sequence[int], rules: _Rules, idle: _Idle
) -> list[int]:
    """The seats `before`, with one more for the first cluster of each domain that was opened since
    while a hard rule wanted more of them."""
    least = [*before]
    for at, rule in enumerate(rules):
        domain = domains.of_rule(at, rule, parties, idle)
        had = domains.each_of(
            party.domains[at] for party, seats in zip(parties, least, strict=True) if seats > 0
        )
        if not rule.hard or len(had & domain.totals.keys()) >= rule.min_domains:
            continue
        # The cluster with most seats keeps the one that holds the domain open: it is the last to
        # lose it.
        for place, party in sorted(enumerate(parties), key=lambda pair: -pair[1].seats):
            opened = domains.each_of(party.domains[at : at + 1])
            if party.seats > least[place] and not opened <= had:
                had |= opened
                least[place] += 1
    return least


def _give_back(  # noqa: PLR0917 what a size of blocks has left
    parties: Sequence[Party],
    before: Sequence[int],
    rules: _Rules,
    idle: _Idle,
    unit: int,
    rounds: int | None,
) -> None:
    """Every cluster gives back one block, and domains what lies beyond a hard skew; none falls
    below `before`."""
    least = dict(zip((party.name for party in parties), before, strict=True))
    for party in parties:
        # The part of a block that a cap left room for may have been given out of turn, where a
        # whole block would have broken a rule: it goes back as well.
        blocks = (party.seats - least[party.name]) // unit
        party.seats = least[party.name] + max(blocks - _MARGIN, 0) * unit
    done = 0
    while rounds is None or done < rounds:
        taken = sum(
            _level(parties, least, at, rule, idle) for at, rule in enumerate(rules) if rule.hard
        )
        done += 1
        if not taken:
            break


def _level(
    parties: Sequence[Party], least: dict[str, int], at: int, rule: SpreadRule, idle: _Idle
) -> int:
    """Takes the seats that lie beyond the rule's skew and were given since `least`; returns how
    many."""
    spread_domains, all_taken = domains.of_rule(at, rule, parties, idle), 0
    if not spread_domains.excess():
        return 0
    for domain, count in spread_domains.totals.items():
        surplus = count - spread_domains.least - spread_domains.skew
        if surplus <= 0:
            continue
        inside = [
            party
            for party in parties
            if domains.share(party.domains[at], domain) and party.seats > least[party.name]
        ]
        # In the order in which seats were given last, as any other loss.
        for party in sorted(inside, key=Party.last_key, reverse=True):
            taken = min(surplus, party.seats - least[party.name])
            party.seats -= taken
            surplus -= taken
            all_taken += taken
    return all_taken


class _Cell:
    """Clusters in the same domain under every rule: they are judged together."""

    __slots__ = ("beside", "block", "bound", "domains", "heap")

    def __init__(self, where: tuple[str, ...]) -> None:
        self.domains = where
        self.heap: list[tuple[tuple[int, ...], tuple[int, ...], str, Party]] = []
        """(early key, late key, name, cluster): the early key sorts before the breach of soft
        rules, the late key after."""
        self.block = 0
        """Seats that its first cluster takes or gives at once."""
        self.bound = True
        """Whether its rank may change through changes in other domains."""
        self.beside: list[int] = []
        """Indexes of the cells that share a domain with it."""


class _Cells:
    """Cells ordered by rank; the smallest rank is served next. `ranks` is updated as seats
    change.
    """

    def __init__(self, parties: Sequence[Party], rules: _Rules, idle: _Idle, unit: int) -> None:
        self.unit = unit
        self.hard: list[tuple[int, Domains]] = []
        self.soft: list[tuple[int, Domains]] = []
        for at, rule in enumerate(rules):
            (self.hard if rule.hard else self.soft).append(
                (at, domains.of_rule(at, rule, parties, idle))
            )
        self.lines = [*self.hard, *self.soft]
        cells: dict[tuple[str, ...], _Cell] = {}
        for party in parties:
            if self.takes_part(party):
                cell = cells.setdefault(party.domains, _Cell(party.domains))
                cell.heap.append(self.entry(party))
        self.cells = list(cells.values())
        self.several = any(domains.BETWEEN in domain for where in cells for domain in where)
        """Some cluster lies in several domains of one rule. Its rank depends on all domains."""
        alike = domains.share if self.several else operator.eq
        for cell in self.cells:
            heapq.heapify(cell.heap)
            cell.beside = [
                at
                for at, other in enumerate(self.cells)
                if any(map(alike, cell.domains, other.domains))
            ]
        self.largest = max([unit, *(party.floor for party in parties)])
        """Upper bound of a block."""

    def takes_part(self, party: Party) -> bool:
        raise NotImplementedError

    def entry(self, party: Party) -> tuple[tuple[int, ...], tuple[int, ...], str, Party]:
        raise NotImplementedError

    def rank(self, cell: _Cell, left: int) -> tuple[object, ...]:
        raise NotImplementedError

    def move(self, cell: _Cell) -> bool:
        """Moves the block of the cell's first cluster. Returns whether ranks of other cells may
        have changed."""
        raise NotImplementedError

    def run(self, left: int) -> int:
        """Moves blocks until none is left or no cluster may; returns what is left."""
        cells, rank = self.cells, self.rank
        # given at once they may leave the least domain behind: the next one counts
        floors = self.largest > self.unit
        ranks = [rank(cell, left) for cell in cells]
        while left > 0 and ranks:
            best = min(ranks)
            if best is _LAST:
                break
            cell = cells[ranks.index(best)]
            left -= cell.block
            changed = self.move(cell)
            if left < self.largest or self.several:
                ranks = [rank(other, left) for other in cells]
                continue
            for at in cell.beside:
                ranks[at] = rank(cells[at], left)
            if changed or floors:
                for at, other in enumerate(cells):
                    if other.bound and (changed or other.block > self.unit):
                        ranks[at] = rank(other, left)
        return left


class _Filling(_Cells):
    """Gives seats in blocks of `unit`; less near a cap, and a whole floor to a cluster below its
    floor."""

    def takes_part(self, party: Party) -> bool:
        below = party.seats < party.floor
        return (
            party.seats < party.cap
            and (party.weight > 0 or below)
            and (self.unit == 1 or not below)
        )

    def entry(self, party: Party) -> tuple[tuple[int, ...], tuple[int, ...], str, Party]:
        *key, name = party.next_key()
        return ((party.level,), tuple(key), name, party)

    def rank(self, cell: _Cell, left: int) -> tuple[object, ...]:
        heap = cell.heap
        while heap:
            early, late, name, party = heap[0]
            seats = party.seats
            block = party.floor - seats
            if block <= 0:
                block = self.unit
                if block > party.cap - seats or block > left:
                    block = min(party.cap - seats, left)
            if block <= left and seats + block <= party.cap:
                break
            heapq.heappop(heap)
        else:
            return _LAST
        where, unit = cell.domains, self.unit
        cell.bound, cell.block = True, block
        for at, line in self.hard:
            if line.breach(where[at], block, unit):
                return _LAST
        if not self.soft:
            cell.bound = False
            return (early, late, name)
        if len(self.soft) == 1:
            ((at, line),) = self.soft
            only = line.breach(where[at], block, unit)
            cell.bound = only > 0
            return (early, only, late, name)
        breach = [line.breach(where[at], block, unit) for at, line in self.soft]
        cell.bound = any(breach)
        return (early, breach, late, name)

    def move(self, cell: _Cell) -> bool:
        party = cell.heap[0][-1]
        party.seats += cell.block
        if party.seats < party.cap and party.weight > 0:
            heapq.heapreplace(cell.heap, self.entry(party))
        else:
            heapq.heappop(cell.heap)
        changed = False
        for at, line in self.lines:
            changed = line.grow(cell.domains[at], cell.block) or changed
        return changed


def shrink(parties: Sequence[Party], surplus: int, rules: _Rules, idle: _Idle) -> None:
    """Takes seats back in the reverse order of giving: first from domains above what a hard rule
    allows, then from higher levels, then from domains above what a soft rule allows, then by
    Webster's method. Floors come last, and no step that makes a breach worse is taken while another
    is possible."""
    unit = _first_unit(parties, surplus)
    while unit > 1:
        reserve = _MARGIN * unit * len(parties)
        if surplus > reserve:
            before = [party.seats for party in parties]
            _SeatTaking(parties, rules, idle, unit).run(surplus - reserve)
            for party, seats in zip(parties, before, strict=True):
                party.seats = min(party.seats + _MARGIN * unit, seats)
            surplus -= sum(before) - sum(party.seats for party in parties)
        unit //= 2
    _SeatTaking(parties, rules, idle, 1).run(surplus)


class _SeatTaking(_Cells):
    """Takes seats in blocks of `unit`, or less near a floor: the reverse of filling."""

    def __init__(self, parties: Sequence[Party], rules: _Rules, idle: _Idle, unit: int) -> None:
        names = sorted((party.name for party in parties), reverse=True)
        self.place = {name: at for at, name in enumerate(names)}
        super().__init__(parties, rules, idle, unit)

    def takes_part(self, party: Party) -> bool:
        return party.seats > 0

    def entry(self, party: Party) -> tuple[tuple[int, ...], tuple[int, ...], str, Party]:
        quotient, seats, order, name = party.last_key()
        late = (-quotient, -seats, -order, self.place[name])
        return ((party.seats <= party.floor, -party.level), late, name, party)

    def rank(self, cell: _Cell, left: int) -> tuple[object, ...]:
        if not cell.heap:
            return _LAST
        early, late, _, party = cell.heap[0]
        free = party.seats - party.floor
        cell.block = block = min(self.unit, free if free > 0 else party.seats, max(left, 1))
        where = cell.domains
        hard = tuple(-line.relief(where[at], block) for at, line in self.hard)
        return (hard, early, [-line.relief(where[at], block) for at, line in self.soft], late)

    def move(self, cell: _Cell) -> bool:
        party = cell.heap[0][-1]
        party.seats -= cell.block
        if party.seats > 0:
            heapq.heapreplace(cell.heap, self.entry(party))
        else:
            heapq.heappop(cell.heap)
        changed = False
        for at, line in self.lines:
            changed = line.lower(cell.domains[at], cell.block) or changed
        return changed
