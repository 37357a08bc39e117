"""The one cluster to which all copies of a simple ask go: most jobs of a trace.

One copy goes to the first cluster by group, avoided taints, weight and tie-break. All copies under
maxClusters 1, as the shards of a gang, go to the first with room for all of them, by group, avoided
taints, score, cap and tie-break.
"""

from typing import Final

import numpy as np

from federator.model import names
from federator.model.ask import Ask, Unit
from federator.placement.room.binding import Ints
from federator.placement.selection import candidates
from federator.placement.simple.classes import Class

_MIX: Final = np.uint64(candidates.MIX)


def best(
    ask: Ask, like: Class, rooms: Ints, listed: list[int] | None, *, by_name: bool
) -> int | None:
    """The cluster that gets the copy, as `Crowd.best`; None when none has room. `listed`: the rooms
    as a list, where there are few."""
    if listed is not None:
        return _best_of_few(ask, like, listed, by_name=by_name)
    weights = like.field.weights
    for level in like.levels:
        if weights is None:
            ranked = rooms if like.alike else np.where(level, rooms, 0)
        else:
            ranked = np.where(level & (rooms > 0), weights, 0)
        top = ranked.item(ranked.argmax())
        if top <= 0:
            continue
        (first,) = (ranked == top).nonzero()
        if first.size == 1 or by_name:
            return int(first[0])
        order = (like.field.marks[first] ^ np.uint64(names.stable_order(ask.uid))) * _MIX
        return int(first[order.argmin()])
    return None


def _best_of_few(ask: Ask, like: Class, rooms: list[int], *, by_name: bool) -> int | None:
    """As `best`, with lists."""
    weights = rooms
    if like.field.weights is not None:
        fixed: list[int] = like.field.weights.tolist()
        weights = [weight if room > 0 else 0 for weight, room in zip(fixed, rooms, strict=True)]
    if like.alike and weights:
        top = max(weights)
        if top > 0 and (by_name or weights.count(top) == 1):
            return weights.index(top)
    for members in like.members:
        top = max([weights[at] for at in members], default=0)
        if top <= 0:
            continue
        first = [at for at in members if weights[at] == top]
        if len(first) == 1 or by_name:
            return first[0]
        mine, marks = names.stable_order(ask.uid), like.marks
        return min(first, key=lambda at: (marks[at] ^ mine) * candidates.MIX & candidates.MASK)
    return None


def roomiest(ask: Ask, like: Class, rooms: Ints, *, by_name: bool) -> int | None:
    """The cluster that gets all copies, as `choosing` picks it; None when none has room for all."""
    field, most = like.field, ask.policy.division.max_per_cluster
    if most is not None and most < ask.count:
        return None
    open_rooms = rooms if like.all_open else np.where(field.open, rooms, 0)
    # Only clusters with room for all: placing everything comes before every other wish.
    able = open_rooms >= ask.count
    if field.weights is not None:
        able &= field.weights > 0
    for level in like.levels:
        here = np.flatnonzero(level & able) if len(like.levels) > 1 else np.flatnonzero(able)
        if not here.size:
            continue
        # Over all clusters, not only those of this level: terms compare with the best of the fleet.
        points = sum(like.by_room(ask, np.maximum(rooms, 0)).values(), start=like.preference)[here]
        here = here[points == points.max()]
        # After the score, as in `choosing`: of equal clusters the one that can grow further.
        if ask.unit is Unit.REPLICAS:  # for shards no cap is above their number
            cap = rooms[here] if most is None else np.minimum(rooms[here], most)
            here = here[cap == cap.max()]
        if here.size == 1 or by_name:
            return int(here[0])
        order = (field.marks[here] ^ np.uint64(names.stable_order(ask.uid))) * _MIX
        return int(here[order.argmin()])
    return None
