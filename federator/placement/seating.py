"""Chooses clusters among the candidates and divides copies over them, where one depends on the
other.

Hard spread rules may make the clusters chosen first too few, or the wrong ones. Then more clusters
are taken, or others, as long as that places more copies (`seat`). Held copies get no preference
there (placing copies comes before avoiding moves), except with `sticky`.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.placement.division import division, domains, spread
from federator.placement.division.division import DIVIDERS, Party
from federator.placement.selection import choosing, minimums
from federator.placement.selection.candidates import Candidate

_MOST_SETS: Final = 64
"""Up to this number, all sets of clusters are tried; of more, only the likely ones."""


@dataclass(frozen=True, slots=True)
class Seating:
    """The clusters that take part with their seats, their seats `before` in the same order, and the
    missing copies."""

    parties: list[Party]
    before: list[int]
    missing: int
    left_out: dict[str, Reason]
    idle: tuple[tuple[str, ...], ...] = ()
    """Domains of clusters that are left out but count."""
    remaining: int = 0
    """Copies that stay in clusters that are left out."""


def seat(
    ask: Ask,
    candidates: Sequence[Candidate],
    total: int,
    *,
    fresh: bool,
    sticky: bool,
    beside: tuple[tuple[str, ...], ...] = (),
    without: dict[str, Reason] | None = None,
) -> Seating:
    """Divides `total` copies over the best clusters; or over all but those of `without`, where that
    is given. `beside`: domains of clusters that are no candidates, because others are better, but
    count. With `sticky`, no holder is dropped or gives seats up to place more. If copies are
    missing in the end, no holder does either: copies that leave need another place."""
    if without is not None:
        return _divided(ask, candidates, total, without, fresh=fresh, sticky=True, beside=beside)
    seated = _seat(ask, candidates, total, fresh=fresh, sticky=sticky, beside=beside)
    if sticky or seated.missing <= 0 or not _moved(candidates, seated):
        return seated
    return _seat(ask, candidates, total, fresh=fresh, sticky=True, beside=beside)


def _moved(candidates: Sequence[Candidate], seated: Seating) -> int:
    kept = {party.name: party.seats for party in seated.parties}
    return sum(
        max(min(candidate.held, candidate.cap) - kept.get(candidate.name, 0), 0)
        for candidate in candidates
    )


def _seat(
    ask: Ask,
    candidates: Sequence[Candidate],
    total: int,
    *,
    fresh: bool,
    sticky: bool,
    beside: tuple[tuple[str, ...], ...],
) -> Seating:
    policy = ask.policy
    strict = any(rule.hard for rule in policy.spread)
    fewest = DIVIDERS[policy.division.strategy].fewest
    choose = minimums.choose if minimums.differ(candidates) else choosing.choose
    beyond = 0
    while True:
        left_out = choose(
            candidates,
            total,
            policy.division,
            fresh=fresh,
            strict=strict,
            beyond=beyond,
            sticky=sticky,
        )
        seated = _divided(
            ask, candidates, total, left_out, fresh=fresh, sticky=sticky, beside=beside
        )
        if not strict or seated.missing <= 0 or not left_out:
            return seated
        if not (fewest and Reason.NOT_NEEDED in left_out.values()) or beyond >= len(candidates):
            return seated if sticky else _best_set(ask, candidates, total, seated, fresh=fresh)
        beyond = 2 * beyond + 1


def _divided(
    ask: Ask,
    candidates: Sequence[Candidate],
    total: int,
    left_out: dict[str, Reason],
    *,
    fresh: bool,
    sticky: bool = False,
    beside: tuple[tuple[str, ...], ...] = (),
) -> Seating:
    policy = ask.policy
    floor, fewest = policy.division.min_per_cluster, DIVIDERS[policy.division.strategy].fewest
    parties = [
        candidate.party(floor, fresh=fresh, holders_first=fewest)
        for candidate in candidates
        if candidate.name not in left_out
    ]
    idle = [
        candidate.party(floor, fresh=True, holders_first=fewest)
        for candidate in candidates
        if candidate.name in left_out
    ]
    staying = [
        candidate.staying()
        for candidate in candidates
        if candidate.name in left_out and candidate.remains
    ]
    remaining = sum(party.seats for party in staying)
    around = (*domains.of_idle(idle), *beside) if policy.spread else ()
    before = [party.seats for party in parties]
    if fewest and not any(rule.hard for rule in policy.spread) and sum(before) > total:
        division.consolidate(parties, total)
        return Seating(parties, before, 0, left_out, around)
    if not sticky:
        _make_way(parties, total - remaining)
    missing = spread.divide([*parties, *staying], total, policy.spread, around)
    return Seating(parties, before, missing, left_out, around, remaining)


def _make_way(parties: Sequence[Party], total: int) -> None:
    """When held copies plus the floors of joining clusters exceed the total, holders give up what
    is above their floor."""
    held = sum(party.seats for party in parties)
    surplus = sum(max(party.seats, min(party.floor, party.cap)) for party in parties) - total
    if surplus > 0 and held <= total:
        division.shrink_to_floors(parties, surplus)


def _best_set(
    ask: Ask, candidates: Sequence[Candidate], total: int, first: Seating, *, fresh: bool
) -> Seating:
    """The set of clusters that places most; among equals the one that moves fewest copies, then the
    one tried first."""
    best, best_key = first, _key(ask, candidates, first)
    for chosen in _sets(ask, candidates, total):
        # Of minimums that differ, too many at once leave a cluster with fewer copies than its own.
        if sum(min(candidate.least, candidate.cap) for candidate in chosen) > total:
            continue
        names = {candidate.name for candidate in chosen}
        why = choosing.Limits(
            total, ask.policy.division.min_per_cluster, ask.policy.division.max_clusters
        ).reason
        left_out = {
            candidate.name: first.left_out.get(candidate.name, why)
            for candidate in candidates
            if candidate.name not in names
            and (candidate.cap > 0 or candidate.name in first.left_out)
        }
        seated = _divided(ask, candidates, total, left_out, fresh=fresh)
        key = _key(ask, candidates, seated)
        if key < best_key:
            best, best_key = seated, key
        if best_key[0] == 0:
            break
    return best


def _key(ask: Ask, candidates: Sequence[Candidate], seated: Seating) -> tuple[int, int, int]:
    few = DIVIDERS[ask.policy.division.strategy].fewest
    used = sum(party.seats > 0 for party in seated.parties)
    return (max(seated.missing, 0), _moved(candidates, seated), used if few else 0)


def _sets(ask: Ask, candidates: Sequence[Candidate], total: int) -> Iterator[Sequence[Candidate]]:
    """Sets of clusters to try, those with most clusters first."""
    floor = max(ask.policy.division.min_per_cluster, 0)
    able = [
        candidate
        for candidate in candidates
        if candidate.cap > 0
        and candidate.weight > 0
        and (candidate.cap >= max(floor, candidate.least) or candidate.held > 0)
    ]
    limits = choosing.Limits(total, floor, ask.policy.division.max_clusters)
    most = limits.slots((), len(able))
    if sum(math.comb(len(able), size) for size in range(1, most + 1)) <= _MOST_SETS:
        for size in range(most, 0, -1):
            yield from itertools.combinations(able, size)
        return
    largest = sorted(able, key=lambda candidate: (-candidate.cap, candidate.order, candidate.name))
    orders = [
        largest,
        *(_in_turn(largest, at) for at, rule in enumerate(ask.policy.spread) if rule.hard),
    ]
    sizes = dict.fromkeys(max(most * part // 8, 1) for part in range(8, 0, -1)) if most else {}
    for size in sizes:
        for order in orders:
            yield order[:size]


def _in_turn(largest: Sequence[Candidate], at: int) -> list[Candidate]:
    """The largest cluster of every domain first, then the second of each."""
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for position, candidate in enumerate(largest):
        lies_in = domains.parts(candidate.place.domains[at])
        turn = max(turns.get(domain, 0) for domain in lies_in) + 1
        turns.update(dict.fromkeys(lies_in, turn))
        ranked.append((turn, position))
    return [largest[position] for _, position in sorted(ranked)]
