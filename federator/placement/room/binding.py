"""Models where a member's scheduler binds copies, so that charges lie on the nodes where the pods
will be. Charges on other nodes would promise the next ask room that does not exist.

Two default plugins of kube-scheduler decide between the nodes that admit a pod (1.36:
`PodTopologySpread` with weight 2, `NodeResourcesFit` by `LeastAllocated` with weight 1): first
nodes with the fewest copies of the same workload, then those with the largest free part of cpu and
memory. GPUs and pod sizes do not matter: a small pod goes to an empty GPU node. Pure; used by the
hub's ledger and by the member's report of room.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCORED: Final = ("cpu", "memory")
"""The resources that `LeastAllocated` scores."""


@dataclass(frozen=True, slots=True)
class BoundCopies:
    """How many copies each node gets."""

    each: Ints
    """Copies on every node of each row of equal nodes ..."""
    parts: tuple[tuple[int, int, int], ...] = ()
    """... except for these: (row, number of its nodes, copies on each of them)."""


def inverse(allocatable: Sequence[Sequence[int]]) -> Floats:
    """1 / allocatable, and 0 where there is none: as in the scheduler, that resource then scores
    nothing."""
    sizes = np.array(allocatable, dtype=np.float64)
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)


def openness(free: Ints, one_by: Floats, needs: Ints, copies: int) -> Floats:
    """The `LeastAllocated` score of each row with `copies` on each node: the sum of the free
    fractions.

    `free` and `one_by` (1 / allocatable) have the shape [resource, row]; `needs`, the request of
    one copy, has [resource, 1].
    """
    total: Floats = ((free - needs * copies) * one_by).sum(axis=0)
    return total


def spread(counts: Ints, heights: Ints, copies: int, score: Callable[[int], Floats]) -> BoundCopies:
    """Binds copies to rows of `counts` equal nodes, each of which admits `heights` copies; copies
    that fit nowhere are left out.

    All nodes get equally many as far as they can; the nodes with the best score for one more copy
    get the remainder (`score(n)`: the score of every row with n copies).

        rows of 3 and 2 nodes, heights 2 and 5, 9 copies: level 1 uses 5, the other 4 go to the rows
        that score best
    """
    level = _level(counts, heights, copies)
    # A node below the level is full: it gets what it admits.
    each = np.minimum(heights, level)
    left = copies - int(counts.dot(each))
    above = heights > level
    if left <= 0 or not above.any():
        return BoundCopies(each)
    scores = np.where(above, score(level + 1), -np.inf)
    first = int(scores.argmax())
    if left < counts[first]:
        return BoundCopies(each, ((first, left, int(each[first]) + 1),))
    # Stable, so that equal rows are taken in the order of the columns and not by chance.
    best = np.argsort(-scores, kind="stable")[: int(above.sum())]
    reach = np.cumsum(counts[best])
    whole = int(np.searchsorted(reach, left, side="right"))
    each[best[:whole]] += 1
    rest = left - (int(reach[whole - 1]) if whole else 0)
    if whole == best.size or not rest:
        return BoundCopies(each)
    last = int(best[whole])
    return BoundCopies(each, ((last, rest, int(each[last]) + 1),))


def packed(counts: Ints, heights: Ints, copies: int) -> BoundCopies:
    """As `spread`, for a scheduler that fills nodes: the nodes on which fewest copies fit come
    first, one after the other."""
    each = np.zeros_like(heights)
    parts: list[tuple[int, int, int]] = []
    # MostAllocated prefers the fullest node, which is the one with least height; then the first
    # row.
    for row in sorted(
        np.flatnonzero(heights > 0).tolist(), key=lambda row: (int(heights[row]), row)
    ):
        nodes, height = int(counts[row]), int(heights[row])
        full = min(copies // height, nodes)
        copies -= full * height
        if full == nodes:
            each[row] = height
            continue
        parts += [part for part in ((row, full, height), (row, 1, copies)) if part[1] and part[2]]
        break
    return BoundCopies(each, tuple(parts))


def _level(counts: Ints, heights: Ints, copies: int) -> int:
    """The largest number of copies that every node can get, as far as it admits them."""
    # Not every node can get one, so there is no level to search for.
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
