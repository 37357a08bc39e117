"""The one cluster to which all copies of a simple ask go, under maxClusters 1: most jobs of traces.

It is the first with room for all of them, by group, avoided taints, score, cap and tie-break.
"""

from typing import Final

import numpy as np

from federator.model import names
from federator.model.ask import Ask, Unit
from federator.placement.room.binding import Ints
from federator.placement.selection import candidates
from federator.placement.simple.classes import Class

_MIX: Final = np.uint64(candidates.MIX)


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
