"""`binding` for many clusters at once, in columns: c clusters, S rows of equal nodes for each."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from federator.placement.room import binding
from federator.placement.room.binding import Floats, Ints

Bools = NDArray[np.bool_]
CLOSED: Final = -np.inf
"""The score of rows with nodes that admit no copy."""
_NO_ROW: Final = -1


@dataclass(frozen=True, slots=True)
class Parts:
    """Nodes that are split off their row: `part` nodes of row `row` of cluster `at` have `copies`
    more copies each."""

    at: Ints
    row: Ints
    part: Ints
    copies: Ints


def spread(
    counts: Ints, heights: Ints, copies: Ints, score: Callable[[Ints], Floats]
) -> tuple[Ints, Parts]:
    """`binding.spread` for many clusters: `counts` and `heights` are [c, S], `copies` is [c];
    `score(n)` is the score of every row with n[c] copies. `Parts.at` are positions in 0..c-1.

    Returns the copies on every node of each row [c, S], and the parts; at most one per cluster.
    """
    # LeastAllocated levels nodes out: whatever the order, all have this many before any has more.
    level = _levels(counts, heights, copies)
    each = np.minimum(heights, level[:, None])
    left = copies - (counts * each).sum(axis=1)
    above = heights > level[:, None]
    active = (left > 0) & above.any(axis=1)
    scores = np.where(above, score(level + 1), -np.inf)
    first = scores.argmax(axis=1) if scores.shape[1] else np.zeros(copies.size, dtype=np.int64)
    every = np.arange(copies.size)
    # Nearly always one row takes the whole remainder; then no row has to be sorted.
    single = active & (left < counts[every, first]) if scores.shape[1] else active
    at = np.flatnonzero(single)
    row, part = first[at], left[at]
    many = np.flatnonzero(active & ~single)
    if many.size:
        last, rest, which = _best(counts[many], scores[many], above[many], left[many], each, many)
        at, row, part = (
            np.concatenate([at, which]),
            np.concatenate([row, last]),
            np.concatenate([part, rest]),
        )
    return each, Parts(at, row, part, each[at, row] + 1)


def _best(  # noqa: PLR0917 the columns of one step
    counts: Ints, scores: Floats, above: Bools, left: Ints, each: Ints, many: Ints
) -> tuple[Ints, Ints, Ints]:
    """For clusters `many`, where the remainder is more than the best row has nodes: one copy more
    in `each` for every node of the best rows, as far as it goes. Returns (row, nodes of it,
    cluster) of the rows that get it in part.
    """
    # Stable: of rows with equal scores the first, as for a single cluster (`binding.spread`).
    order = np.argsort(-scores, axis=1, kind="stable")
    reach = np.cumsum(np.take_along_axis(np.where(above, counts, 0), order, axis=1), axis=1)
    able = above.sum(axis=1)
    whole = (reach <= left[:, None]) & (np.arange(order.shape[1]) < able[:, None])
    more = np.zeros_like(counts)
    np.put_along_axis(more, order, whole.astype(np.int64), axis=1)
    each[many] += more
    full = whole.sum(axis=1)
    every = np.arange(many.size)
    # What the rows that get one copy on all nodes have not used.
    rest = left - np.where(full > 0, reach[every, np.maximum(full - 1, 0)], 0)
    split = np.flatnonzero((full < able) & (rest > 0))
    return order[split, full[split]], rest[split], many[split]


def _levels(counts: Ints, heights: Ints, copies: Ints) -> Ints:
    """[c]: the largest number of copies that every node of a cluster can get, as far as it admits
    them."""
    level: Ints = np.zeros(copies.size, dtype=np.int64)
    # With fewer copies than open nodes the level is 0: the usual case, without a search.
    deep = np.flatnonzero(copies >= (counts * (heights > 0)).sum(axis=1))
    if not deep.size:
        return level
    counts, heights, copies = counts[deep], heights[deep], copies[deep]
    low, high = np.zeros(deep.size, dtype=np.int64), heights.max(axis=1, initial=0)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = (counts * np.minimum(heights, middle[:, None])).sum(axis=1) <= copies
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        # Clusters that are done stay put while the search goes on for others.
        high = np.maximum(low, high)
    level[deep] = low
    return level


def packed(  # noqa: PLR0917 the columns of one step
    at: Ints, counts: Ints, heights: Ints, copies: Ints, filling: Ints, each: Ints
) -> tuple[Parts, ...]:
    """Binds in the clusters `at[filling]`, where schedulers fill nodes: changes their rows of
    `each`, and returns the parts one by one."""
    parts: list[Parts] = []
    for here in filling.tolist():
        bound = binding.packed(
            counts[at[here], : heights.shape[1]], heights[here], int(copies[here])
        )
        each[here] = bound.each
        for part in bound.parts:
            parts.append(Parts(*(np.array([value], dtype=np.int64) for value in (at[here], *part))))
    return tuple(parts)


def one_each(
    scores: Floats,
    at: Ints,
    copies: list[int],
    counts: Ints,
    fit: Callable[[int, int], int] | None,
) -> tuple[Ints, list[int]] | None:
    """As `spread` where no cluster gets more copies than it has nodes for: one for each node of its
    best rows. None where some cluster gets more.

    `scores`: of the rows of clusters `at`, or of all, with one copy on each node; they are changed.
    `fit(cluster, row)`: how many copies fit on a node; None where all rows are taken to have room.
    Returns the rows, counted over all clusters, and on how many nodes of the last ones; all nodes
    of those before get a copy.
    """
    best: list[int] = scores.argmax(axis=1).tolist()
    clusters: list[int] = at.tolist()
    every, width, nodes_of = len(best) > len(clusters), counts.shape[1], counts.ravel().item
    if every:
        best = list(map(best.__getitem__, clusters))
    whole: list[int] = []
    split: list[int] = []
    part: list[int] = []
    for line, (cluster, row, wanted) in enumerate(zip(clusters, best, copies, strict=True)):
        here = cluster * width + row
        # Usually the walk ends here: the best row alone has enough nodes.
        if fit is None:
            nodes = nodes_of(here)
            if wanted < nodes:
                split.append(here)
                part.append(wanted)
                continue
            if wanted == nodes:
                whole.append(here)
                continue
        scored = scores[cluster if every else line]
        fit_here = None if fit is None else functools.partial(fit, cluster)
        last = _best_rows(whole, wanted, here, row, scored, nodes_of, fit_here)
        if last is None:
            return None
        if last[1]:
            split.append(last[0])
            part.append(last[1])
    return np.array(whole + split), part


def _best_rows(  # noqa: PLR0917 one cluster of `one_each`
    whole: list[int],
    wanted: int,
    here: int,
    row: int,
    scored: Floats,
    nodes_of: Callable[[int], int],
    fit: Callable[[int], int] | None,
) -> tuple[int, int] | None:
    """Adds to `whole` the rows of one cluster all nodes of which get a copy, the best first; that
    is `row`, which is `here` over all clusters. Returns the row of which only some do, and how many
    (0 for none); None when there are too few nodes."""
    start, best = here - row, scored.argmax
    if fit is not None and fit(row) <= 0 and (row := behind(row, scored, fit)) < 0:
        return None
    while wanted >= (has := nodes_of(start + row)):
        whole.append(start + row)
        wanted -= has
        if not wanted:
            return start, 0
        # Each of its nodes has a copy now: a second one is the matter of `spread`.
        scored[row] = CLOSED
        row = int(best())  # quicker than its `item`
        if fit is not None and fit(row) <= 0:
            row = behind(row, scored, fit)
        if row <= 0 and (row < 0 or scored.item(row) == CLOSED):  # the first where all are closed
            return None
    return start + row, wanted


def behind(row: int, scores: Floats, fit: Callable[[int], int]) -> int:
    """The best row of a cluster on which a copy fits, but for this one, which is closed in
    `scores`; negative when there is none."""
    while True:
        scores[row] = CLOSED
        row = scores.argmax().item()
        if scores.item(row) == CLOSED:
            return _NO_ROW
        if fit(row) > 0:
            return row
