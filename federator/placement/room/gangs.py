"""Where the pods of a gang fit all at once: they are charged for trial, the largest first, in a
copy of the world.

The pods of one component that fit are not enough: each component is counted beside what the ones
before it took, on the nodes where it would be bound.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from federator.model.ask import PodShape
from federator.placement.room.binding import Ints
from federator.placement.room.world import PENDING, World

_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class GangFit:
    """[C] each: one entry for every cluster, by name."""

    fits: Ints
    """1 where all pods have room together, 0 where they have not; PENDING where only the member can
    count one of them and has not."""
    short: Ints
    """Which of `PodShape.pods` is the first without room for all; -1 for none."""
    room: Ints
    """For how many pods of that one there is room beside those before it."""


def trial(world: World, shape: PodShape) -> GangFit:
    """Charges nothing."""
    tried, names = world.copy(), list(world.at)
    size = len(names)
    short: Ints = np.full(size, _NOBODY, dtype=np.int64)
    room: Ints = np.zeros(size, dtype=np.int64)
    pending = np.zeros(size, dtype=np.bool_)
    for index, (pod, count) in enumerate(shape.pods):
        counted = tried.rooms(pod)
        pending |= counted == PENDING
        fails = (short == _NOBODY) & (counted != PENDING) & (counted < count)
        short[fails], room[fails] = index, counted[fails]
        able = np.flatnonzero((short == _NOBODY) & ~pending)
        tried.charge(pod, {names[at]: count for at in able.tolist()})
    fits: Ints = np.where(short != _NOBODY, 0, np.where(pending, PENDING, 1)).astype(np.int64)
    return GangFit(fits, short, room)
