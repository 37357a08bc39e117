"""The best clusters by weight, then tie-break, then name: in lists up to `FEW` clusters, where
Python's integers are faster, and in columns above. C clusters, in the order of their names.
"""

import bisect
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from federator.model import names
from federator.model.ask import Ask
from federator.placement.room.binding import Ints
from federator.placement.selection import candidates
from federator.placement.selection.field import Field

FEW: Final = 64
"""Up to this number of clusters lists are faster than columns."""
_MIX: Final = np.uint64(candidates.MIX)
_NARROW: Final = 1 << 31
_SORTED: Final = 256
"""Up to this number of clusters all are sorted, above that only the first are told apart."""
_LISTED: Final = 12
"""Up to this number of clusters that are alike their tie-breaks are worked out one by one."""


class Order:
    """The last tie-break between clusters for one workload."""

    __slots__ = ("_ask", "_by_name", "_field")

    def __init__(self, field: Field, ask: Ask, *, by_name: bool) -> None:
        self._field, self._ask, self._by_name = field, ask, by_name

    def listed(self, here: list[int]) -> list[int]:
        """The keys of clusters: the smallest gets a copy first, of equal ones the first by name."""
        if self._by_name:
            return [0] * len(here)
        marks, mine = self._field.marks_listed, names.stable_order(self._ask.tie_break)
        return [(marks[at] ^ mine) * candidates.MIX & candidates.MASK for at in here]

    def few(self, here: list[int], count: int) -> list[int]:
        """The first `count` of clusters, which rise."""
        if len(here) == count:
            return here
        ranked = zip(self.listed(here), here, strict=True)
        return [min(ranked)[1]] if count == 1 else [at for _, at in sorted(ranked)[:count]]

    def first(self, here: Ints, count: int) -> list[int]:
        """As `few`, of many."""
        if here.size <= _LISTED or self._by_name or not self._field.distinct:
            return self.few(_listed(here), count)
        return _listed(here[self.keys(here).argpartition(count - 1)[:count]])

    def keys(self, here: Ints) -> NDArray[np.uint64]:
        """As `listed`, of many."""
        if self._by_name:
            return np.zeros(here.size, dtype=np.uint64)
        mine = np.uint64(names.stable_order(self._ask.tie_break))
        keys: NDArray[np.uint64] = (self._field.marks[here] ^ mine) * _MIX
        return keys


def heaviest_of(here: Sequence[int], weights: list[int], count: int, order: Order) -> list[int]:
    """The first `count` of more clusters by weight and tie-break, which is asked only where it
    decides; rising."""
    if count == 1:
        return [_heaviest_one(here, weights, order)]
    least = sorted(map(weights.__getitem__, here))[-count]
    enough = [at for at in here if weights[at] >= least]
    if len(enough) == count:
        return enough
    ahead = [at for at in enough if weights[at] > least]
    if not ahead:  # a fleet of equal clusters
        return sorted(order.few(enough, count))
    equal = [at for at in enough if weights[at] == least]
    return sorted(ahead + order.few(equal, count - len(ahead)))


def _heaviest_one(here: Sequence[int], weights: list[int], order: Order) -> int:
    """Most asks of a trace have one copy, so nothing is sorted for it."""
    every = len(here) == len(weights)
    top = max(weights) if every else max(map(weights.__getitem__, here))
    if every and weights.count(top) == 1:
        return weights.index(top)
    return order.few([at for at in here if weights[at] == top], 1)[0]


def heaviest(ranked: Ints, count: int, order: Order) -> list[int]:
    """The first `count` clusters by weight, which is 0 for those that get nothing, and tie-break,
    or all with a weight where these are fewer; rising."""
    top = ranked.item(ranked.argmax()) if ranked.size else 0
    if top <= 0:
        return []
    (best,) = (ranked == top).nonzero()
    # A fleet of equal clusters: nothing but the tie-break decides, so nothing is sorted.
    if best.size >= count:
        return sorted(order.first(best, count))
    if count < ranked.size <= _SORTED:
        return _first_sorted(ranked, count, order)
    narrow = ranked.astype(np.int32 if top < _NARROW else np.int64)  # sorted faster, and a copy
    least = 0
    if count < ranked.size:
        narrow.partition(-count)
        least = int(narrow[-count])
    if least <= 0:
        return _listed(ranked.nonzero()[0])
    (enough,) = (ranked >= least).nonzero()
    if enough.size == count:
        return _listed(enough)
    ahead = ranked[enough] > least
    before = _listed(enough[ahead])
    return sorted(before + order.first(enough[~ahead], count - len(before)))


def _first_sorted(ranked: Ints, count: int, order: Order) -> list[int]:
    """As `heaviest`, of fewer than there are."""
    rising = ranked.argsort()
    weights: list[int] = ranked.take(rising).tolist()
    least, last = weights[-count], len(weights) - count
    if least <= 0:
        return sorted(_listed(rising[bisect.bisect_right(weights, 0) :]))
    begin, end = bisect.bisect_left(weights, least), bisect.bisect_right(weights, least)
    if begin == last:
        return sorted(_listed(rising[begin:]))
    equal: Ints = rising[begin:end]
    equal.sort()
    return sorted(_listed(rising[end:]) + order.first(equal, end - last))


def _listed(here: Ints) -> list[int]:
    listed: list[int] = here.tolist()
    return listed
