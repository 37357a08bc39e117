"""Spread rules kept seat by seat: the oracle for the blocks of `placement.division.filling`, and
the part of `rules` that divides.

Written from docs/reference/spread.md with dictionaries and loops over all clusters at every seat.
It imports nothing of the product: parties and rules are described by what is read of them.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

Seats = dict[str, int]
BETWEEN = "\0"
"""Between the domains of a cluster that lies in several: a copy counts in each of them."""
Idle = Sequence[tuple[str, ...]]


class Rule(Protocol):
    """A spread rule."""

    @property
    def min_domains(self) -> int: ...
    @property
    def max_skew(self) -> int: ...
    @property
    def hard(self) -> bool: ...


class Party(Protocol):
    """A cluster that takes part in a division."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> int: ...
    @property
    def cap(self) -> int: ...
    @property
    def floor(self) -> int: ...
    @property
    def seats(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def order(self) -> int: ...
    @property
    def domains(self) -> tuple[str, ...]: ...
    @property
    def counted(self) -> bool: ...


Rules = Sequence[Rule]


def filled(
    parties: Sequence[Party],
    missing: int,
    rules: Rules,
    idle: Idle,
) -> Seats:
    """Seats after up to `missing` more, one at a time (a whole floor to who is below it)."""
    seats = {one.name: one.seats for one in parties}
    while missing > 0:
        able = []
        for one in parties:
            step = max(one.floor - seats[one.name], 1)
            wanted = one.weight > 0 or seats[one.name] < one.floor
            if step > missing or seats[one.name] + step > one.cap or not wanted:
                continue
            if any(other is not one and _before(other, one, seats, missing) for other in parties):
                continue
            breach = [
                _breach(parties, seats, at, rule, idle, one, step) for at, rule in enumerate(rules)
            ]
            if not any(amount and rule.hard for amount, rule in zip(breach, rules, strict=True)):
                able.append((one.level, breach, _turn(one, seats), one, step))
        if not able:
            break
        *_, taker, step = min(able, key=lambda found: found[:3])
        seats[taker.name] += step
        missing -= step
    return seats


def _before(other: Party, one: Party, seats: Seats, missing: int) -> bool:
    """Whether another cluster of the very same domains comes first, and so alone is looked at."""
    step = max(other.floor - seats[other.name], 1)
    open_ = other.weight > 0 or seats[other.name] < other.floor
    if (
        other.domains != one.domains
        or not open_
        or step > missing
        or seats[other.name] + step > other.cap
    ):
        return False
    return (other.level, _turn(other, seats)) < (one.level, _turn(one, seats))


def _turn(one: Party, seats: Seats) -> tuple[Fraction, int, int, str]:
    return (-Fraction(one.weight, 2 * seats[one.name] + 1), seats[one.name], one.order, one.name)


def _totals(
    parties: Sequence[Party],
    seats: Seats,
    at: int,
    rule: Rule,
    idle: Idle,
) -> dict[str, int]:
    totals = {part: 0 for where in idle for part in where[at].split(BETWEEN)}
    for one in parties:
        if one.counted or one.seats > 0:
            for part in one.domains[at].split(BETWEEN):
                totals[part] = totals.get(part, 0) + seats[one.name]
    if rule.hard:
        totals.pop("", None)
    return totals


def broken(parties: Sequence[Party], seats: Seats, rules: Rules, idle: Idle) -> bool:
    """Whether some rule is broken by these seats."""
    for at, rule in enumerate(rules):
        totals = _totals(parties, seats, at, rule, idle)
        if sum(count > 0 for count in totals.values()) < min(rule.min_domains, sum(seats.values())):
            return True
        least = 0 if len(totals) < rule.min_domains else min(totals.values(), default=0)
        if 0 < rule.max_skew < max(totals.values(), default=0) - least:
            return True
    return False


def _breach(  # noqa: PLR0917 one rule, one cluster, one state
    parties: Sequence[Party],
    seats: Seats,
    at: int,
    rule: Rule,
    idle: Idle,
    one: Party,
    step: int,
) -> int:
    """Copies of its fullest domain beyond the skew after the step, and 1 when fewer domains are used
    than wanted and it opens none (or takes more than one copy for it).
    """
    totals = _totals(parties, seats, at, rule, idle)
    domains = [part for part in one.domains[at].split(BETWEEN) if part in totals]
    if not domains:
        return 0
    opens = sum(totals[domain] == 0 for domain in domains)
    used = sum(count > 0 for count in totals.values())
    for domain in domains:
        totals[domain] += step
    least = min(totals.values()) if len(totals) >= rule.min_domains else 0
    fullest = max(totals[domain] for domain in domains)
    beyond = max(fullest - least - rule.max_skew, 0) if rule.max_skew > 0 else 0
    late = used < rule.min_domains and (not opens or (step > 1 and used + opens < rule.min_domains))
    return beyond + late


def shrunk(
    parties: Sequence[Party],
    surplus: int,
    rules: Rules,
    idle: Idle,
) -> Seats:
    """Seats after `surplus` are taken one at a time."""
    seats = {one.name: one.seats for one in parties}
    for _ in range(surplus):
        best = None
        for one in parties:
            if seats[one.name] <= 0:
                continue
            wins = [
                (rule.hard, _won(parties, seats, at, rule, idle, one))
                for at, rule in enumerate(rules)
            ]
            last = (
                -Fraction(one.weight, 2 * seats[one.name] - 1),
                seats[one.name],
                one.order,
                one.name,
            )
            late = (seats[one.name] <= one.floor, -one.level)
            key = (
                [-won for hard, won in wins if hard],
                late,
                [-won for hard, won in wins if not hard],
            )
            if best is None or key < best[0] or (key == best[0] and last > best[1]):
                best = (key, last, one)
        if best is None:
            break
        seats[best[2].name] -= 1
    return seats


def _won(  # noqa: PLR0917 one rule, one cluster, one state
    parties: Sequence[Party],
    seats: Seats,
    at: int,
    rule: Rule,
    idle: Idle,
    one: Party,
) -> int:
    """How far its domain is above what the rule allows, less what the rule is broken more without
    the seat.
    """
    before = _totals(parties, seats, at, rule, idle)
    after = _totals(parties, {**seats, one.name: seats[one.name] - 1}, at, rule, idle)
    domains = [part for part in one.domains[at].split(BETWEEN) if part in before]
    few, total = len(before) < rule.min_domains, sum(seats.values())

    def least(totals: dict[str, int]) -> int:
        return 0 if few else min(totals.values(), default=0)

    def lacking(totals: dict[str, int], all_: int) -> int:
        return max(min(rule.min_domains, all_) - sum(count > 0 for count in totals.values()), 0)

    won = lacking(before, total) - lacking(after, total - 1)
    if rule.max_skew <= 0 or not domains:
        return won
    above = max(max(before[part] for part in domains) - least(before) - rule.max_skew, 0)
    if least(after) < least(before) and len(before) > len(domains):
        high = max(before.values())
        won -= max(high - least(after) - rule.max_skew, 0) - max(
            high - least(before) - rule.max_skew, 0
        )
    return above + won
