"""Which clusters get how many copies of a simple ask, by columns: as `division.divide` over the
best of the crowd, without an object for every cluster.

Of a level with n copies to give only its first n clusters by weight and tie-break can get any. When
there are as many and the largest weight is at most three times the smallest, each gets one: the
second seat of a cluster comes after the first of all others.

    weights 9, 5, 3 and 3 copies: 9 / 3 = 3 is not above 3 / 1, so each gets one
    weights 9, 5, 2 and 3 copies: 9 / 3 = 3 is above 2, so the first gets two
"""

import functools
from typing import Final, TypeAlias

import numpy as np

from federator.model import names
from federator.model.ask import Ask, Unit
from federator.model.resources import UNLIMITED
from federator.placement.division import webster
from federator.placement.room.binding import Ints
from federator.placement.selection import best, candidates
from federator.placement.selection.best import Order
from federator.placement.simple.classes import Class

_MIX: Final = np.uint64(candidates.MIX)


def divided(
    ask: Ask, like: Class, rooms: Ints, listed: list[int] | None, missing: int, *, by_name: bool
) -> tuple[list[int], list[int]] | None:
    """(clusters, copies of each), rising, of the missing ones; None where not all find room, or a
    rule is broken. `listed`: the rooms as a list, where there are few clusters."""
    order = Order(like.field, ask.uid, by_name=by_name)
    # One look at the smallest room saves a look at each cluster in nearly every decision.
    full = not like.weighty or (listed is not None and min(listed, default=0) <= 0)
    if listed is None and not ask.shape.plain:  # of some it may not be known
        # PENDING is negative: what only the member can count has no room until it answers.
        rooms = np.maximum(rooms, 0)
    chosen: list[int] = []
    copies: list[int] = []
    # A level is entered only for what the ones before have no room for.
    for level in range(len(like.levels)):
        here, weights, caps = (
            _few(like, level, listed, missing, order, full=full)
            if listed is not None
            else _crowded(like, level, rooms, missing, order)
        )
        if not here:
            continue
        seats = webster.seats_of(weights, caps, missing, functools.partial(order.listed, here))
        chosen += here
        copies += seats
        missing -= sum(seats)
        if not missing:
            break
    if missing:
        return None
    # Within one level clusters rise already.
    if 0 in copies or len(like.levels) > 1:
        given = sorted((at, each) for at, each in zip(chosen, copies, strict=True) if each)
        chosen, copies = [at for at, _ in given], [each for _, each in given]
    if not all(rule.keeps(chosen, copies) for rule in like.rules):
        return None
    return chosen, copies


def roomiest(ask: Ask, like: Class, rooms: Ints, *, by_name: bool) -> int | None:
    """The cluster that gets all copies under maxClusters 1, as most jobs of a trace: as `choosing`
    picks it, by group, avoided taints, score, cap and tie-break. None when none has room for all.
    """
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


_Level: TypeAlias = tuple[list[int], list[int], list[int]]
"""The first clusters of a level, as many as there are copies to give, rising; their weights, and
the most copies that each can have."""


def _few(
    like: Class, level: int, room: list[int], count: int, order: Order, *, full: bool
) -> _Level:
    """With lists: of few clusters. `full`: some can have no copy."""
    here, most = list(like.members[level]), like.most
    weigh = room if like.field.weights is None else like.field.weights.tolist()
    if full:
        here = [at for at in here if room[at] > 0 and weigh[at] > 0]
    if len(here) > count:
        here = best.heaviest_of(here, weigh, count, order)
    caps = room if len(here) == len(room) else list(map(room.__getitem__, here))
    weights = caps if weigh is room else list(map(weigh.__getitem__, here))
    if most < UNLIMITED:
        caps = [cap if cap < most else most for cap in caps]
    return here, weights, caps


def _crowded(like: Class, level: int, rooms: Ints, count: int, order: Order) -> _Level:
    """With columns: of many clusters."""
    offered, most = rooms, like.most
    if like.field.weights is not None:
        offered = np.where(rooms > 0, like.field.weights, 0)
    ranked = offered if like.alike else np.where(like.levels[level], offered, 0)
    here = best.heaviest(ranked, count, order)
    weights: list[int] = ranked.take(here).tolist()
    caps = weights if ranked is rooms else rooms.take(here).tolist()
    if most < UNLIMITED:
        caps = [cap if cap < most else most for cap in caps]
    return here, weights, caps
