"""An upper bound of the work that groups of equal nodes can take: the linear relaxation of placing.

Copies may be divided, and the nodes of a group count as one large node. The best of these
placements is a linear program. Its dual needs no solver to be safe: whatever prices one sets on the
resources of a group and on the copies of a class, no placement is worth more than

    sum(prices) + sum over (class, group) of what a copy is worth beyond the prices of what it takes

so each step of the search below returns a valid bound, and further steps only lower it. The search
is the primal-dual gradient method with the step sizes of Pock and Chambolle (2011); on the fleets
of `tests/bench/ordering.py` it is within 0.1 % of the optimum of HiGHS after 500 steps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from federator.placement.room.binding import Floats

EACH: Final = 10
"""Steps from one bound to the next."""
_RESTART: Final = 40
"""Steps over which prices are averaged at first before the search continues from their mean."""
_HASTE: Final = 3.0
_STILL: Final = 1e-24
"""Squares of moves below which nothing has moved."""
_SLACK: Final = 1e-9
"""By so much, relatively, a bound is raised: sums of floats are rounded."""


@dataclass(frozen=True, slots=True)
class Packing:
    """I classes of equal copies, P groups of equal nodes, R resources."""

    worth: Floats
    """[I]: of one copy."""
    wanted: Floats
    """[I]: copies, above 0."""
    need: Floats
    """[I, R]: of one copy."""
    free: Floats
    """[P, R]: of all nodes of a group together; infinite where nothing limits the resource."""
    most: Floats
    """[I, P]: copies that its nodes hold when they hold nothing else; 0 where they may not go."""

    @property
    def size(self) -> int:
        """Numbers that one step reads."""
        return int(self.need.size) * int(self.free.shape[0])


def bounds(packing: Packing) -> Iterator[float]:
    """Upper bounds of the worth that any placement reaches, falling, without an end. The first one
    needs no search: each class by itself."""
    search = _PriceSearch(packing)
    best = search.alone
    while True:
        yield best * (1 + _SLACK)
        best = min(best, search.advance())


_Point = tuple[Floats, Floats, Floats]


class _PriceSearch:
    """The search for prices. Everything is scaled: x[i, p] is the part of `most` that is placed,
    and what a group has of a resource, and what a class wants, is 1."""

    def __init__(self, packing: Packing) -> None:
        most = np.minimum(packing.most, packing.wanted[:, None])
        one_by = np.zeros_like(packing.free)
        np.divide(1.0, packing.free, out=one_by, where=packing.free > 0)
        self._taken: Floats = packing.need[:, None, :] * most[:, :, None] * one_by
        """[I, P, R]: of a resource of the group, when the class has its most there."""
        self._part: Floats = most / packing.wanted[:, None]
        """[I, P]: of the class."""
        worth: Floats = packing.worth[:, None] * most
        everything = float((packing.worth * packing.wanted).sum())
        self._scale = max(everything / max(packing.free.shape[0], 1), 1e-300)
        self._worth: Floats = worth / self._scale
        self.alone = float(np.minimum(worth.sum(1), packing.worth * packing.wanted).sum())
        self._step_x = _inverse(self._taken.sum(2) + self._part)
        self._step_y = _inverse(self._taken.sum(0))
        self._step_z = _inverse(self._part.sum(1))
        self._haste = _HASTE
        """How much larger the steps of prices are, and how much smaller those of amounts."""
        self._now: _Point = (
            np.zeros_like(most),
            np.zeros_like(packing.free),
            np.zeros_like(packing.wanted),
        )
        """x, and the prices: y[p, r] of a resource of a group, z[i] of a class."""
        self._restarted = self._now
        self._sums = tuple(map(np.zeros_like, self._now))
        self._summed = 0
        self._period = _RESTART

    def advance(self) -> float:
        """The bound by the prices, or by their mean, after `EACH` more steps."""
        for _ in range(EACH):
            self._now = self._step(*self._now)
            for total, values in zip(self._sums, self._now, strict=True):
                np.add(total, values, out=total)
            self._summed += 1
        mean_x, mean_y, mean_z = (total / self._summed for total in self._sums)
        now, mean = self._bound(*self._now[1:]), self._bound(mean_y, mean_z)
        if self._summed >= self._period:
            if mean < now:
                self._now = (mean_x, mean_y, mean_z)
            self._restart()
        return min(now, mean)

    def _step(self, x: Floats, y: Floats, z: Floats) -> "_Point":
        gain = self._beyond(y, z)
        moved = np.clip(x + self._step_x / self._haste * gain, 0.0, 1.0)
        ahead = 2.0 * moved - x
        used = np.einsum("ip,ipr->pr", ahead, self._taken) - 1.0
        placed = (self._part * ahead).sum(1) - 1.0
        return (
            moved,
            np.maximum(y + self._step_y * self._haste * used, 0.0),
            np.maximum(z + self._step_z * self._haste * placed, 0.0),
        )

    def _restart(self) -> None:
        """Averages from now on, over more steps. The haste follows how far prices and amounts went
        since the last time, as in PDLP (Applegate and others, 2021)."""
        x, y, z = (
            float((((now - then) ** 2) * _inverse(step)).sum())
            for now, then, step in zip(
                self._now,
                self._restarted,
                (self._step_x, self._step_y, self._step_z),
                strict=True,
            )
        )
        if x > _STILL and y + z > _STILL:
            self._haste = math.sqrt(math.sqrt((y + z) / x) * self._haste)
        self._restarted, self._summed = self._now, 0
        self._period = self._period * 3 // 2
        for total in self._sums:
            total[:] = 0.0

    def _beyond(self, y: Floats, z: Floats) -> Floats:
        """[I, P]: what the most copies are worth beyond the prices of what they take."""
        paid = np.einsum("pr,ipr->ip", y, self._taken) + self._part * z[:, None]
        beyond: Floats = self._worth - paid
        return beyond

    def _bound(self, y: Floats, z: Floats) -> float:
        beyond = np.maximum(self._beyond(y, z), 0.0)
        return float(y.sum() + z.sum() + beyond.sum()) * float(self._scale)


def _inverse(values: Floats) -> Floats:
    """1 / value, 0 for 0."""
    made: Floats = np.zeros_like(values)
    np.divide(1.0, values, out=made, where=values > 0)
    return made
