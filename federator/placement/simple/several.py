"""Which clusters get how many copies of a simple ask, by columns: as `division.divide` over the
best of the crowd, without an object for every cluster.

Of a level with n copies to give only its first n clusters by weight and tie-break can get any. When
there are as many and the largest weight is at most three times the smallest, each gets one: the
second seat of a cluster comes after the first of all others.

    weights 9, 5, 3 and 3 copies: 9 / 3 = 3 is not above 3 / 1, so each gets one
    weights 9, 5, 2 and 3 copies: 9 / 3 = 3 is above 2, so the first gets two
"""

import heapq
from typing import Final

import numpy as np

from federator.model import names
from federator.model.ask import Ask
from federator.placement.division import division
from federator.placement.division.division import Party
from federator.placement.room.binding import Ints
from federator.placement.selection import candidates
from federator.placement.simple.classes import Class

_MIX: Final = np.uint64(candidates.MIX)
_MANY: Final = 4
"""With so many copies per cluster or more `division` divides, which gives most of them at once."""


def divided(
    ask: Ask, like: Class, rooms: Ints, *, by_name: bool
) -> tuple[list[int], list[int]] | None:
    """(clusters, copies of each), rising; None where not all find room, or a rule is broken."""
    weights, missing = rooms if like.field.weights is None else like.field.weights, ask.count
    able = rooms > 0 if like.field.weights is None else (rooms > 0) & (weights > 0)
    chosen: list[int] = []
    copies: list[int] = []
    for level in like.levels:
        here = np.flatnonzero(level & able)
        if not here.size:
            continue
        order = _Order(ask, like, by_name=by_name)
        if here.size > missing:
            here = _first(here, weights, missing, order)
        seats = _seats(here, weights, rooms, like.most, missing, order)
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

    __slots__ = ("_ask", "_by_name", "_marks")

    def __init__(self, ask: Ask, like: Class, *, by_name: bool) -> None:
        self._ask, self._marks, self._by_name = ask, like.field.marks, by_name

    def ranked(self, here: Ints) -> Ints:
        """Positions in `here`, which rises: the first to get a copy first."""
        if self._by_name:
            return np.arange(here.size)
        mixed = (self._marks[here] ^ np.uint64(names.stable_order(self._ask.uid))) * _MIX
        return mixed.argsort(kind="stable")


def _first(here: Ints, weights: Ints, count: int, order: _Order) -> Ints:
    """The first `count` of more clusters by weight and tie-break; rising."""
    offered = weights[here]
    place = here.size - count
    least = offered.max() if count == 1 else np.partition(offered, place)[place]
    above = offered > least
    ahead, equal = here[above], here[offered == least]
    if ahead.size + equal.size > count:
        equal = equal[order.ranked(equal)[: count - ahead.size]]
    merged: Ints = np.concatenate([ahead, equal])
    merged.sort()
    return merged


def _seats(  # noqa: PLR0917 the columns of one step
    here: Ints, weights: Ints, rooms: Ints, most: int, missing: int, order: _Order
) -> list[int]:
    """How many of the missing copies each cluster gets."""
    heavy: list[int] = weights[here].tolist()
    if len(heavy) == missing and max(heavy) <= 3 * min(heavy):
        return [1] * missing
    caps = [min(room, most) for room in rooms[here].tolist()]
    rank = [0] * len(heavy)
    for position, at in enumerate(order.ranked(here).tolist()):
        rank[at] = position
    if missing >= _MANY * len(heavy):
        parties = [
            Party("", weight, cap, order=place)
            for weight, cap, place in zip(heavy, caps, rank, strict=True)
        ]
        division.grow(parties, missing)
        return [party.seats for party in parties]
    return _highest_averages(heavy, caps, rank, missing)


def _highest_averages(
    weights: list[int], caps: list[int], rank: list[int], missing: int
) -> list[int]:
    """Webster's method from 0 seats, as `division.grow`."""
    scale = division.SCALE
    seats = [0] * len(weights)
    heap = [
        (-(weight << scale), 0, place, at)
        for at, (weight, place) in enumerate(zip(weights, rank, strict=True))
    ]
    heapq.heapify(heap)
    while missing and heap:
        _, has, place, at = heap[0]
        has += 1
        seats[at] = has
        missing -= 1
        if has < caps[at]:
            quotient = (weights[at] << scale) // (2 * has + 1)
            heapq.heapreplace(heap, (-quotient, has, place, at))
        else:
            heapq.heappop(heap)
    return seats
