"""Assigns shard ranges: unfinished shards divided by slots, in few contiguous ranges, with as few
moves as possible.

A cluster keeps its ranges (finished indexes in them never move) while it has slots. Unassigned
shards are divided by Webster's method, weighted by slots, over the clusters of the best `Openness`
that has slots. If any slot exists, every shard is assigned, except for slots in clusters where
nothing of the workload may begin: those finish what they have, and the rest waits.
"""

from collections.abc import Mapping
from enum import IntEnum

from federator.model import shards
from federator.model.shards import Ranges
from federator.placement.division import division
from federator.placement.division.division import Party


class Openness(IntEnum):
    """How ready a cluster that has slots is for shards that nobody has. The least comes first; the
    next is asked only when no cluster of a lesser one has slots."""

    OPEN = 0
    UNHEARD = 1
    """Nobody closed it: it is not ready, or its report of capacity is old. Shards wait there for
    it, or go on when it is given up as lost."""
    CLOSED = 2
    """A person, a policy or its own lies keep new work away, such as a cordon."""
    BARRED = 3
    """Nothing of the workload may begin there: it takes nothing, even as the last one."""


def assign(
    count: int,
    finished: Ranges,
    held: Mapping[str, Ranges],
    slots: Mapping[str, int],
    *,
    order: Mapping[str, int],
    openness: Mapping[str, Openness],
) -> dict[str, Ranges]:
    """cluster -> ranges, for every cluster that has any.

    `held`: ranges of the clusters that stay. `slots`: how many shards each may run at once.
    `order`: the last tie-break.

        shards 0-1 nobody's, slots b 3 (cordoned), c 3 (not heard) -> c; with c cordoned as well,
        one each
    """
    every: Ranges = ((0, count - 1),) if count > 0 else ()
    unfinished = shards.minus(every, finished)
    if not held and len(slots) == 1:  # nobody to share with
        alone, most = next(iter(slots.items()))
        takes = bool(unfinished) and most > 0 and openness[alone] is not Openness.BARRED
        return {alone: unfinished} if takes else {}
    kept: dict[str, Ranges] = {}
    taken: Ranges = ()
    # By name, so that of two clusters that record the same shard the same one keeps it each time.
    for name in sorted(held):
        mine = shards.minus(shards.intersect(held[name], every), taken)
        # Without slots nothing runs there: only shards that are done stay recorded.
        if not slots.get(name):
            mine = shards.minus(mine, unfinished)
        kept[name] = mine
        taken = shards.union(taken, mine)
    loose = shards.minus(unfinished, taken)
    working = [name for name in sorted(slots) if slots[name] > 0]
    best = min((openness[name] for name in working), default=Openness.BARRED)
    parties = []
    for name in working:
        seats = shards.size(shards.intersect(kept.get(name, ()), unfinished))
        takes_more = openness[name] is best and best is not Openness.BARRED
        # A cluster that is less open keeps its shards; it gets no other as long as a better one has
        # slots.
        most = count if takes_more else seats
        # By slots, so that all clusters finish at about the same time.
        parties.append(Party(name, slots[name], most, seats=seats, order=order.get(name, 0)))
    if parties:
        before = {party.name: party.seats for party in parties}
        division.divide(parties, shards.size(unfinished))
        # In the order of the shards they have, so that ranges continue and stay few.
        for party in sorted(
            parties, key=lambda party: _first(kept.get(party.name, ()), party.name)
        ):
            mine, loose = _extend(kept.get(party.name, ()), loose, party.seats - before[party.name])
            kept[party.name] = mine
    return {name: ranges for name, ranges in sorted(kept.items()) if ranges}


def _first(ranges: Ranges, name: str) -> tuple[int, str]:
    return (ranges[0][0] if ranges else 1 << 62, name)


def _extend(mine: Ranges, loose: Ranges, count: int) -> tuple[Ranges, Ranges]:
    """Adds `count` indexes to `mine`: first those that continue a range it has, then from the start
    of `loose`. Returns both."""
    ends = {high + 1 for _, high in mine}
    for low, high in loose:
        if count > 0 and low in ends:
            taken = (low, min(high, low + count - 1))
            mine, loose = shards.union(mine, (taken,)), shards.minus(loose, (taken,))
            count -= taken[1] - taken[0] + 1
    taken_ranges, loose = shards.take(loose, count)
    return shards.union(mine, taken_ranges), loose
