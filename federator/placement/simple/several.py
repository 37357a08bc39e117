"""Which clusters get how many copies of a simple ask, by columns: as `division.divide` over the
best of the crowd, without an object for every cluster.

Of a level with n copies to give only its first n clusters by weight and tie-break can get any. When
there are as many and the largest weight is at most three times the smallest, each gets one: the
second seat of a cluster comes after the first of all others.

    weights 9, 5, 3 and 3 copies: 9 / 3 = 3 is not above 3 / 1, so each gets one
    weights 9, 5, 2 and 3 copies: 9 / 3 = 3 is above 2, so the first gets two
"""

import functools
import heapq
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from federator.model import names
from federator.model.ask import Ask
from federator.placement.division import division
from federator.placement.division.division import Party
from federator.placement.room.binding import Ints
from federator.placement.selection import candidates
from federator.placement.simple.classes import Class

_MIX: Final = np.uint64(candidates.MIX)
_NARROW: Final = 1 << 31
_MANY: Final = 4
"""With more copies per cluster left `division` divides, which gives most of them at once."""


def divided(
    ask: Ask, like: Class, rooms: Ints, missing: int, *, by_name: bool
) -> tuple[list[int], list[int]] | None:
    """(clusters, copies of each), rising, of the missing ones; None where not all find room, or a
    rule is broken."""
    offered = np.maximum(rooms, 0)
    weights = like.field.weights
    if weights is not None:
        offered = np.where(rooms > 0, weights, 0)
    chosen: list[int] = []
    copies: list[int] = []
    for level in like.levels:
        ranked = offered if like.alike else np.where(level, offered, 0)
        size = np.count_nonzero(ranked)
        if not size:
            continue
        order = _Order(ask, like, by_name=by_name)
        here = _first(ranked, missing, order) if size > missing else np.flatnonzero(ranked)
        caps = [min(room, like.most) for room in rooms[here].tolist()]
        keys = functools.partial(order.listed, here)
        seats = seats_of(ranked[here].tolist(), caps, missing, keys)
        chosen += here.tolist()
        copies += seats
        missing -= sum(seats)
        if not missing:
            break
    if missing:
        return None
    if len(like.levels) > 1 or 0 in copies:
        given = sorted((at, each) for at, each in zip(chosen, copies, strict=True) if each)
        chosen, copies = [at for at, _ in given], [each for _, each in given]
    if not all(rule.keeps(chosen, copies) for rule in like.rules):
        return None
    return chosen, copies


class _Order:
    """The last tie-break between clusters."""

    __slots__ = ("_ask", "_by_name", "_kind", "_marks")

    def __init__(self, ask: Ask, like: Class, *, by_name: bool) -> None:
        self._ask, self._marks, self._by_name = ask, like.field.marks, by_name
        self._kind: Literal["quicksort", "stable"] = (
            "stable" if by_name or not like.distinct else "quicksort"
        )

    def keys(self, here: Ints) -> NDArray[np.uint64]:
        """Of the clusters `here`: the smallest gets a copy first, of equal ones the first by
        name."""
        if self._by_name:
            return np.zeros(here.size, dtype=np.uint64)
        return (self._marks[here] ^ np.uint64(names.stable_order(self._ask.uid))) * _MIX

    def listed(self, here: Ints) -> list[int]:
        made: list[int] = self.keys(here).tolist()
        return made

    def ranked(self, here: Ints) -> Ints:
        """Positions in `here`, which rises: the first to get a copy first."""
        return self.keys(here).argsort(kind=self._kind)


def _first(ranked: Ints, count: int, order: _Order) -> Ints:
    """The first `count` of more clusters by weight, which is 0 for those that get nothing, and
    tie-break; rising."""
    least = top = ranked.max()
    if count > 1:
        place = ranked.size - count
        narrow = ranked.astype(np.int32) if top < _NARROW else ranked  # sorted faster
        least = np.partition(narrow, place)[place]
    enough = np.flatnonzero(ranked >= least)
    if enough.size == count:
        return enough
    ahead = ranked[enough] > least
    equal = enough[~ahead]
    spare = equal[order.ranked(equal)[: count - enough.size + equal.size]]
    merged: Ints = np.concatenate([enough[ahead], spare])
    merged.sort()
    return merged


def seats_of(
    weights: list[int], caps: list[int], missing: int, keys: Callable[[], list[int]]
) -> list[int]:
    """How many of the missing copies each cluster gets, which has none, as by `division.grow`.
    `keys`: the last tie-breaks, asked for when they matter; of equal ones the first is better."""
    if len(weights) == missing and max(weights) <= 3 * min(weights):
        return [1] * missing
    seats = _safe(weights, caps, missing)
    missing -= sum(seats)
    if not missing:
        return seats
    order = keys()
    if missing > _MANY * len(weights):  # most clusters are full
        parties = [
            Party(f"{at:09}", weight, cap, seats=has, order=key)
            for at, (weight, cap, has, key) in enumerate(
                zip(weights, caps, seats, order, strict=True)
            )
        ]
        division.grow(parties, missing)
        return [party.seats for party in parties]
    _grow(weights, caps, seats, order, missing)
    return seats


def _safe(weights: list[int], caps: list[int], missing: int) -> list[int]:
    """Seats that every cluster gets in any case: those with a quotient of at least 1 / (2 * p / q),
    with q the sum of weights and p half a seat per cluster below `missing`. Rounding gives at most
    that half seat back, so these are not too many, and Webster gives them before all others.

    weights 9, 5, 2 and 6 copies: p 4.5, q 16, so 81 / 32 + 1/2, 45 / 32 + 1/2, 18 / 32 + 1/2 are
    3, 1, 1
    """
    twice, total = 2 * missing - len(weights), sum(weights)
    if twice <= 0:
        return [0] * len(weights)
    return [
        min((weight * twice + total) // (2 * total), cap)
        for weight, cap in zip(weights, caps, strict=True)
    ]


def _grow(
    weights: list[int], caps: list[int], seats: list[int], order: list[int], missing: int
) -> None:
    """Gives what is missing by highest averages, as `division.grow`."""
    scale = division.SCALE
    heap = [
        (-((weights[at] << scale) // (2 * has + 1)), has, order[at], at)
        for at, has in enumerate(seats)
        if has < caps[at]
    ]
    heapq.heapify(heap)
    while missing and heap:
        _, has, place, at = heap[0]
        seats[at] = has = has + 1
        missing -= 1
        if has < caps[at]:
            quotient = (weights[at] << scale) // (2 * has + 1)
            heapq.heapreplace(heap, (-quotient, has, place, at))
        else:
            heapq.heappop(heap)
