"""Assigns shard ranges: unfinished shards divided by slots, in few contiguous ranges, with as few
moves as possible.

A cluster keeps its ranges (finished indexes in them never move) while it has slots. Unassigned
shards are divided by Webster's method, weighted by slots: over clusters open to new work, and over
closed ones (cordoned, but with slots) only when none is open. If any slot exists, every shard is
assigned, except for slots in clusters where the workload is not allowed: those finish what they
have, and the rest waits.
"""

from collections.abc import Collection, Mapping

from federator.model import shards
from federator.model.shards import Ranges
from federator.placement.division import division
from federator.placement.division.division import Party


def assign(  # noqa: PLR0917 what a division of shards is about
    count: int,
    finished: Ranges,
    held: Mapping[str, Ranges],
    slots: Mapping[str, int],
    order: Mapping[str, int],
    closed: Collection[str] = (),
    barred: Collection[str] = (),
) -> dict[str, Ranges]:
    """cluster -> ranges, for every cluster that has any.

    `held`: ranges of the clusters that stay. `slots`: how many shards each may run at once.
    `closed`: clusters that take no new work. `barred`: those of them in which the workload is not
    allowed. `order`: the last tie-break.
    """
    every: Ranges = ((0, count - 1),) if count > 0 else ()
    unfinished = shards.minus(every, finished)
    kept: dict[str, Ranges] = {}
    taken: Ranges = ()
    for name in sorted(held):
        mine = shards.minus(shards.intersect(held[name], every), taken)
        if not slots.get(name):
            mine = shards.minus(mine, unfinished)
        kept[name] = mine
        taken = shards.union(taken, mine)
    loose = shards.minus(unfinished, taken)
    working = [name for name in sorted(slots) if slots[name] > 0]
    full = frozenset(closed if any(name not in closed for name in working) else barred)
    parties = []
    for name in working:
        seats = shards.size(shards.intersect(kept.get(name, ()), unfinished))
        most = seats if name in full else count
        parties.append(Party(name, slots[name], most, seats=seats, order=order.get(name, 0)))
    if parties:
        before = {party.name: party.seats for party in parties}
        division.divide(parties, shards.size(unfinished))
        for party in sorted(parties, key=lambda party: _first(kept.get(party.name, ()), party.name)):
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
