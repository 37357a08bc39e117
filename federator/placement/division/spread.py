"""Spread rules: bounds on how copies lie over the domains of cluster labels.

Each further copy goes to the cluster that Webster's method prefers among those that break no rule.
A hard rule (DoNotSchedule) forbids. A soft rule (ScheduleAnyway) is broken only when nothing else
is left, by the smallest amount, with earlier rules counting more, and the breach is reported. Held
copies are never moved to satisfy a rule. `domains` defines which clusters make a domain; `filling`
computes the seats in blocks.

    weights a 3, b 1, one zone each, maxSkew 1 hard, 10 copies: a 5, b 5 (without the rule a 7, b 3)
"""

from collections.abc import Collection, Iterator, Sequence

from federator.model.policy import SpreadRule
from federator.placement.division import division, domains, filling
from federator.placement.division.division import Party
from federator.placement.division.domains import Domains


def divide(
    parties: Sequence[Party],
    total: int,
    rules: Sequence[SpreadRule],
    idle: Collection[tuple[str, ...]] = (),
) -> int:
    """As `division.divide`, under the rules; returns the missing copies. `idle`: domains of
    clusters that take no part but count (`domains.of_idle`)."""
    before = [party.seats for party in parties]
    missing = division.divide(parties, total)
    # The plain division is the best one by weights, so rules only matter where it breaks one.
    if not rules or not violations(parties, rules, idle):
        return missing
    _reset(parties, before)
    held = sum(party.seats for party in parties)
    # Copies only leave then, and floors of clusters that hold none must not pull copies over.
    if held >= total:
        filling.shrink(parties, held - total, rules, idle)
        return 0
    if not any(party.seats < min(party.floor, party.cap) for party in parties):
        return filling.fill(parties, total - held, rules, idle)
    return _with_floors(parties, total - held, rules, idle)


def _with_floors(
    parties: Sequence[Party],
    missing: int,
    rules: Sequence[SpreadRule],
    idle: Collection[tuple[str, ...]],
) -> int:
    """Fills all floors together, since a single one may break a hard rule that all together keep.
    If the result breaks a hard rule, each floor is filled instead when its cluster comes next and
    the rules allow it."""
    before = [party.seats for party in parties]
    if sum(max(party.floor - party.seats, 0) for party in parties) <= missing:
        left = filling.fill(parties, division.fill_floors(parties, missing), rules, idle)
        # A hard rule goes before a minimum: a minimum says where copies are worth having, a rule
        # where they must not be.
        if not filling.overgrown(parties, before, rules, idle):
            return left
        _reset(parties, before)
    return filling.fill(parties, missing, rules, idle)


def violations(
    parties: Sequence[Party], rules: Sequence[SpreadRule], idle: Collection[tuple[str, ...]] = ()
) -> tuple[str, ...]:
    """One sentence per rule that the seats break."""
    return tuple(sentence for _, sentence in _broken(parties, rules, idle))


def too_many(parties: Sequence[Party], rules: Sequence[SpreadRule]) -> tuple[str, ...]:
    """One sentence per rule of which the seats use more domains than maxDomains."""
    sentences: list[str] = []
    for at, rule in enumerate(rules):
        used = domains.of_rule(at, rule, parties).used
        if rule.max_domains is not None and used > rule.max_domains:
            sentences.append(
                f"spread over {rule.topology_key}: {used} domains are used, "
                f"maxDomains is {rule.max_domains}"
            )
    return tuple(sentences)


def _broken(
    parties: Sequence[Party], rules: Sequence[SpreadRule], idle: Collection[tuple[str, ...]]
) -> Iterator[tuple[SpreadRule, str]]:
    for at, rule in enumerate(rules):
        measured = domains.of_rule(at, rule, parties, idle)
        if measured.excess():
            yield rule, _apart(rule, measured)
        if measured.lacking():
            yield (
                rule,
                (
                    f"spread over {rule.topology_key}: {measured.used} domains are used, "
                    f"minDomains is {rule.min_domains}"
                ),
            )


def _apart(rule: SpreadRule, measured: Domains) -> str:
    totals = measured.totals
    # Sorted, so that of equal domains the message names always the same.
    high = max(sorted(totals), key=lambda name: totals[name])
    low = min(sorted(totals), key=lambda name: totals[name])
    return (
        f"spread over {rule.topology_key}: {_named(high)} has {totals[high]} and "
        f"{_named(low)} {totals[low]}, "
        f"{measured.excess()} more apart than maxSkew {rule.max_skew} allows"
    )


def _reset(parties: Sequence[Party], seats: Sequence[int]) -> None:
    for party, count in zip(parties, seats, strict=True):
        party.seats = min(count, party.cap)


def _named(domain: str) -> str:
    return domain or "(no label)"
