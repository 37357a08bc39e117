"""Webster's method (Sainte-Lague, highest averages) over lists, in integers: the only place where
seats are given.

The next seat goes to the largest weight / (2 * seats + 1), of equal ones to the one with fewer
seats, then by tie-break and position. Most seats are given at once; only those that depend on each
other are given one by one.

    weights 9, 5, 3 and 3 seats: 9 / 3 = 3 is not above 3 / 1, so each gets one
    weights 9, 5, 2 and 3 seats: 9 / 3 = 3 is above 2, so the first gets two
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Final

SCALE: Final = 64
"""Quotients are compared as (weight << 64) // divisor. That is exact: two different fractions with
divisors below 2^32 differ by more than 2^-64."""
_EXACT: Final = 31
"""Numbers of seats of more bits have quotients that are not compared exactly."""
_MANY: Final = 4
"""Below so many seats per cluster the heap is quicker than two binary searches."""


def seats_of(
    weights: Sequence[int],
    caps: Sequence[int],
    missing: int,
    keys: Callable[[], Sequence[int]],
    held: Sequence[int] = (),
) -> list[int]:
    """The seats of each cluster after up to `missing` more are given. Weights are above 0, and caps
    above what is `held`; () stands for nothing. `keys`: the tie-breaks, called only if one
    matters; the smallest comes first."""
    if held:
        seats, left = list(held), missing
    else:
        # w / 3 of the heaviest is not above w / 1 of the lightest: all first seats come before any
        # second.
        if len(weights) == missing and max(weights) <= 3 * min(weights):
            return [1] * missing
        seats = _safe(weights, caps, missing)
        left = missing - sum(seats)
    if not left:
        return seats
    if missing >> _EXACT or left > _MANY * len(weights):  # many hold seats, or are full
        left -= _leap(weights, caps, seats, left)
    elif left <= len(weights) and _one_more(weights, caps, seats, left):
        return seats
    _one_by_one(weights, caps, seats, keys(), left)
    return seats


def _safe(weights: Sequence[int], caps: Sequence[int], missing: int) -> list[int]:
    """Seats that every cluster gets in any case: those with a quotient of at least 1 / (2 * p / q),
    with q the sum of weights and p half a seat per cluster below `missing`. Rounding gives at most
    that half seat back, so these are not too many, and Webster gives them before all others.

    weights 9, 5, 2 and 6 seats: p 4.5, q 16, so 81 / 32 + 1/2, 45 / 32 + 1/2, 18 / 32 + 1/2 are
    3, 1, 1
    """
    # Doubled, so that half seats stay integers.
    twice, total = 2 * missing - len(weights), sum(weights)
    if twice <= 0:
        return [0] * len(weights)
    total2 = 2 * total
    return [
        seats if (seats := (weight * twice + total) // total2) < cap else cap
        for weight, cap in zip(weights, caps, strict=True)
    ]


def _one_more(weights: Sequence[int], caps: Sequence[int], seats: list[int], missing: int) -> bool:
    """Gives what is missing if that is at most one more seat for each and no tie decides which
    cluster gets the last one. Otherwise returns False and gives nothing."""
    ranked = [
        ((weight << SCALE) // (2 * has + 1), at)
        for at, (weight, has, cap) in enumerate(zip(weights, seats, caps, strict=True))
        if has < cap
    ]
    ranked.sort(reverse=True)
    if len(ranked) < missing:
        return False
    first, least = ranked[:missing], ranked[missing - 1][0]
    # A tie at the border: only the tie-break decides where the seat goes.
    if len(ranked) > missing and ranked[missing][0] == least:
        return False
    for _, at in first:
        # Its second seat would come before the last one given: then it is more than one each.
        if (weights[at] << SCALE) // (2 * seats[at] + 3) >= least:
            return False
    for _, at in first:
        seats[at] += 1
    return True


def _leap(weights: Sequence[int], caps: Sequence[int], seats: list[int], missing: int) -> int:
    """Gives most of a large number of seats at once: all seats with a quotient of at least 1 / (2 *
    p / q), for the largest p / q that gives at most `missing`. Webster gives these before all
    others, so the remaining ones can follow one by one. Returns how many were given.

    With q the sum of weights, p is near the total: weights 3 and 1 (q 4) and 100 seats give p =
    100, a (2 * 3 * 100 + 4) // 8 = 75, b (2 * 1 * 100 + 4) // 8 = 25.
    """
    # With q as the sum of weights, one step of p is about one seat: the search can be in integers.
    q, has = sum(weights), sum(seats)

    def after(p: int) -> list[int]:
        rows = zip(weights, caps, seats, strict=True)
        return [min(max((2 * weight * p + q) // (2 * q), own), cap) for weight, cap, own in rows]

    full = sum(caps)
    low, high = 0, missing
    while (given := sum(after(high)) - has) <= missing and has + given < full:
        low, high = high, 2 * high
    # The largest p that gives at most `missing`: rounding up the middle ends the search at it.
    while low < high:
        middle = (low + high + 1) // 2
        if sum(after(middle)) - has <= missing:
            low = middle
        else:
            high = middle - 1
    seats[:] = after(low)
    return sum(seats) - has


def _one_by_one(
    weights: Sequence[int],
    caps: Sequence[int],
    seats: list[int],
    keys: Sequence[int],
    missing: int,
) -> None:
    heap = [
        (-((weights[at] << SCALE) // (2 * has + 1)), has, keys[at], at)
        for at, has in enumerate(seats)
        if has < caps[at]
    ]
    heapq.heapify(heap)
    while missing and heap:
        _, has, key, at = heap[0]
        seats[at] = has = has + 1
        missing -= 1
        if has < caps[at]:
            quotient = (weights[at] << SCALE) // (2 * has + 1)
            heapq.heapreplace(heap, (-quotient, has, key, at))
        else:
            heapq.heappop(heap)
