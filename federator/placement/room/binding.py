"""Where a member's scheduler binds copies, so that what is charged or owed lies where the pods will: what is promised
to the next ask would not be there otherwise.

Two of the plugins that kube-scheduler has on by default decide between nodes that admit a pod (1.36:
`PodTopologySpread` with weight 2, `NodeResourcesFit` by `LeastAllocated` with weight 1): first those with fewest
copies of the same workload, then those with the largest free part of cpu and memory. GPUs and sizes play no part: a
small pod goes to an empty GPU node. Pure; read by the hub's ledger and by the member's report of room.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCORED: Final = ("cpu", "memory")
"""What `LeastAllocated` looks at."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Which nodes get how many copies."""

    each: Ints
    """Copies on every node of each row of equal nodes ..."""
    parts: tuple[tuple[int, int, int], ...] = ()
    """... apart from these: (row, nodes of it, copies on each of these)."""


def inverse(allocatable: Sequence[Sequence[int]]) -> Floats:
    """1 / allocatable, and 0 where there is none: it counts for nothing then, as in the scheduler."""
    sizes = np.array(allocatable, dtype=np.float64)
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)


def openness(free: Ints, one_by: Floats, needs: Ints, copies: int) -> Floats:
    """What `LeastAllocated` gives each row of nodes when that many copies are on each: the free part of each amount,
    added up. `free` and 1 / allocatable are [amount, row], what a copy needs is [amount, 1]."""
    total: Floats = ((free - needs * copies) * one_by).sum(axis=0)
    return total


def spread(counts: Ints, heights: Ints, copies: int, score: Callable[[int], Floats]) -> Bound:
    """Binds copies to rows of `counts` equal nodes, of which each admits `heights`; what fits nowhere is left out.

    All nodes get equally many, as far as they can; those that score best with one more get one more (`score(n)` tells
    how good each row is with n copies).
    """
    level = _level(counts, heights, copies)
    each = np.minimum(heights, level)
    left = copies - int(counts.dot(each))
    above = heights > level
    if left <= 0 or not above.any():
        return Bound(each)
    scores = np.where(above, score(level + 1), -np.inf)
    first = int(scores.argmax())
    if left < counts[first]:
        return Bound(each, ((first, left, int(each[first]) + 1),))
    best = np.argsort(-scores, kind="stable")[: int(above.sum())]
    reach = np.cumsum(counts[best])
    whole = int(np.searchsorted(reach, left, side="right"))
    each[best[:whole]] += 1
    rest = left - (int(reach[whole - 1]) if whole else 0)
    if whole == best.size or not rest:
        return Bound(each)
    last = int(best[whole])
    return Bound(each, ((last, rest, int(each[last]) + 1),))


def packed(counts: Ints, heights: Ints, copies: int) -> Bound:
    """The same by a scheduler that fills nodes: those first on which fewest copies fit, one after the other."""
    each = np.zeros_like(heights)
    parts: list[tuple[int, int, int]] = []
    for row in sorted(np.flatnonzero(heights > 0).tolist(), key=lambda row: (int(heights[row]), row)):
        nodes, height = int(counts[row]), int(heights[row])
        full = min(copies // height, nodes)
        copies -= full * height
        if full == nodes:
            each[row] = height
            continue
        parts += [part for part in ((row, full, height), (row, 1, copies)) if part[1] and part[2]]
        break
    return Bound(each, tuple(parts))


def _level(counts: Ints, heights: Ints, copies: int) -> int:
    """The most copies that every node can be given, as far as it admits them."""
    if copies < int(counts.dot(heights > 0)):
        return 0
    low, high = 0, int(heights.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if int(counts @ np.minimum(heights, middle)) <= copies:
            low = middle
        else:
            high = middle - 1
    return low
