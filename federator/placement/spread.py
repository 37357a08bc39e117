"""Spread rules: bounds on how copies lie over the domains of cluster labels, kept seat by seat.

Each further copy goes to the cluster that Webster's method would take among those that break no rule. A hard rule
(DoNotSchedule) forbids; a soft one (ScheduleAnyway) is broken only when nothing else is left, by the least amount,
earlier rules counting more, and the breach is reported. Rules over crossing labels need nothing more than rules over
nested ones. What is held is never moved to mend a rule.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Final

from federator.model.ask import SpreadRule
from federator.placement import division
from federator.placement.division import Party

UNLABELLED: Final = ""
"""The domain of clusters without the label. Under a hard rule the engine gives them nothing new; they do not count."""


def divide(parties: Sequence[Party], total: int, rules: Sequence[SpreadRule]) -> int:
    """As `division.divide`, under the rules; returns what is missing."""
    before = [party.seats for party in parties]
    missing = division.divide(parties, total)
    if not rules or not violations(parties, rules):
        return missing
    _reset(parties, before)
    held = _sum(parties)
    if held >= total:
        _shrink(parties, held - total, rules)
        return 0
    if any(_too_few(parties, at, rule, total) for at, rule in enumerate(rules)):
        return total - held
    division.fill_floors(parties, total - held)
    if violations(parties, rules):
        _reset(parties, before)
    if all(min(party.floor, party.cap) <= party.seats for party in parties):
        _leap(parties, [party.seats for party in parties], total, rules)
    return _Filling(parties, rules).run(total - _sum(parties))


def violations(parties: Sequence[Party], rules: Sequence[SpreadRule]) -> tuple[str, ...]:
    """A sentence for every rule that the seats break."""
    return tuple(sentence for _, sentence in _broken(parties, rules))


def keeps_hard(parties: Sequence[Party], rules: Sequence[SpreadRule]) -> bool:
    """Whether the seats break no hard rule."""
    return not any(rule.hard for rule, _ in _broken(parties, rules))


def _broken(parties: Sequence[Party], rules: Sequence[SpreadRule]) -> Iterator[tuple[SpreadRule, str]]:
    for at, rule in enumerate(rules):
        totals = _totals(parties, at, rule)
        high = max(sorted(totals), key=lambda name: totals[name], default="")
        low = min(sorted(totals), key=lambda name: totals[name], default="")
        excess = _excess(rule, totals, totals.get(high, 0))
        if excess:
            yield (
                rule,
                f"spread over {rule.topology_key}: {_named(high)} has {totals[high]} and {_named(low)} {totals[low]}, "
                f"{excess} more apart than maxSkew {rule.max_skew} allows",
            )
        used = sum(count > 0 for count in totals.values())
        if used < min(rule.min_domains, _sum(parties)):
            yield (
                rule,
                f"spread over {rule.topology_key}: {used} domains are used, minDomains is {rule.min_domains}",
            )


class _Filling:
    """Gives seats one by one. Clusters with the same domains are judged together."""

    def __init__(self, parties: Sequence[Party], rules: Sequence[SpreadRule]) -> None:
        self.rules = rules
        self.totals = [_totals(parties, at, rule) for at, rule in enumerate(rules)]
        self.groups: dict[tuple[str, ...], list[tuple[int, tuple[int, int, int, str], Party]]] = {}
        for party in parties:
            if party.seats < party.cap and (party.weight > 0 or party.seats < party.floor):
                self.groups.setdefault(party.domains, []).append((party.level, party.next_key(), party))
        for heap in self.groups.values():
            heapq.heapify(heap)

    def run(self, missing: int) -> int:
        """Returns what no cluster may take."""
        while missing > 0:
            best: tuple[tuple[object, ...], tuple[str, ...], int] | None = None
            for domains, heap in self.groups.items():
                block = self._block(heap, missing)
                breach = self._breach(domains, block) if block else None
                if breach is None:
                    continue
                level, key, _ = heap[0]
                if best is None or (level, breach, key) < best[0]:
                    best = ((level, breach, key), domains, block)
            if best is None:
                return missing
            self._give(best[1], best[2])
            missing -= best[2]
        return 0

    def _block(self, heap: list[tuple[int, tuple[int, int, int, str], Party]], missing: int) -> int:
        """Seats that the group's first cluster needs at once (its floor); clusters that need too many are out."""
        while heap:
            party = heap[0][-1]
            block = max(party.floor - party.seats, 1)
            if block <= missing and party.seats + block <= party.cap:
                return block
            heapq.heappop(heap)
        return 0

    def _give(self, domains: tuple[str, ...], block: int) -> None:
        heap = self.groups[domains]
        party = heap[0][-1]
        party.seats += block
        for totals, domain in zip(self.totals, domains, strict=True):
            if domain in totals:
                totals[domain] += block
        if party.seats < party.cap and party.weight > 0:
            heapq.heapreplace(heap, (party.level, party.next_key(), party))
        else:
            heapq.heappop(heap)

    def _breach(self, domains: tuple[str, ...], block: int) -> tuple[int, ...] | None:
        """By how much each rule would be broken; None when a hard one would."""
        breach: list[int] = []
        for at, (rule, domain) in enumerate(zip(self.rules, domains, strict=True)):
            totals = self.totals[at]
            if domain not in totals:
                breach.append(0)
                continue
            late = totals[domain] > 0 and self._wants_new_domain(at, rule)
            excess = _excess(rule, totals, totals[domain] + block) + late
            if rule.hard and excess:
                return None
            breach.append(excess)
        return tuple(breach)

    def _wants_new_domain(self, at: int, rule: SpreadRule) -> bool:
        """Whether fewer domains than wanted are used and another could be opened."""
        totals = self.totals[at]
        if sum(count > 0 for count in totals.values()) >= rule.min_domains:
            return False
        return any(heap and totals.get(domains[at]) == 0 for domains, heap in self.groups.items())


def _shrink(parties: Sequence[Party], surplus: int, rules: Sequence[SpreadRule]) -> None:
    """Takes seats where that leaves the least breach, else as Webster's method would."""
    for _ in range(surplus):
        totals = [_totals(parties, at, rule) for at, rule in enumerate(rules)]
        best: tuple[tuple[int, ...], bool, division.Latest] | None = None
        for party in parties:
            if party.seats <= 0:
                continue
            breach = tuple(_after(rule, totals[at], party.domains[at]) for at, rule in enumerate(rules))
            key = (breach, party.seats <= party.floor, division.Latest(party))
            if best is None or key < best:
                best = key
        if best is None:
            return
        best[2].party.seats -= 1


def _after(rule: SpreadRule, totals: dict[str, int], domain: str) -> int:
    less = {name: count - (name == domain) for name, count in totals.items()}
    return _excess(rule, less, max(less.values(), default=0))


def _leap(parties: Sequence[Party], before: list[int], total: int, rules: Sequence[SpreadRule]) -> None:
    """Large totals: as many seats at once as Webster's method gives without breaking a rule."""
    low, high = _sum(parties), total
    while low < high:
        middle = (low + high + 1) // 2
        _reset(parties, before)
        division.divide(parties, middle)
        if violations(parties, rules):
            high = middle - 1
        else:
            low = middle
    _reset(parties, before)
    division.divide(parties, low)


def _reset(parties: Sequence[Party], seats: list[int]) -> None:
    for party, count in zip(parties, seats, strict=True):
        party.seats = min(count, party.cap)


def _too_few(parties: Sequence[Party], at: int, rule: SpreadRule, total: int) -> bool:
    """Whether a hard rule's minDomains cannot be met by any division."""
    return rule.hard and len(_totals(parties, at, rule)) < min(rule.min_domains, total)


def _excess(rule: SpreadRule, totals: dict[str, int], highest: int) -> int:
    """By how much `highest` is further above the least domain than the rule allows. With fewer domains than minDomains
    the least counts as 0, as for pods."""
    if rule.max_skew <= 0 or not totals:
        return 0
    least = min(totals.values()) if len(totals) >= rule.min_domains else 0
    return max(highest - least - rule.max_skew, 0)


def _totals(parties: Sequence[Party], at: int, rule: SpreadRule) -> dict[str, int]:
    """Seats by domain, over the domains in which anything can be."""
    totals: dict[str, int] = {}
    for party in parties:
        domain = party.domains[at]
        if party.cap > 0 and not (rule.hard and domain == UNLABELLED):
            totals[domain] = totals.get(domain, 0) + party.seats
    return totals


def _sum(parties: Sequence[Party]) -> int:
    return sum(party.seats for party in parties)


def _named(domain: str) -> str:
    return domain or "(no label)"
