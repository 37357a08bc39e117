"""What makes one cluster better than another when not all are needed: named terms. Their sum is the
score.

One function over all clusters and one table row per term; every way to decide reads the table
(docs/internals/adding-a-scorer.md). Scores choose the set of clusters (fewest, at most so many, at
least so many copies each); they do not change how copies are divided inside the set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from federator.model.ask import Ask
from federator.model.fleet import ClusterView
from federator.model.quickly import quickly
from federator.placement.policy import enforcing
from federator.placement.room.binding import Ints

_EXACT: Final = 1 << 50
"""Up to this room a thousand times as much fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a term may read: one entry for each cluster that takes part, in the order of names."""

    held: Ints
    room: Ints
    avoided: Ints
    """Number of PreferNoSchedule taints that are not tolerated."""


facts = quickly(Facts)
Scorer = Callable[[Ask, Facts], Ints]
"""The points of each cluster."""


@dataclass(frozen=True, slots=True)
class Term:
    """One row of the table."""

    points: Scorer
    reads_room: bool = True
    """False where it does not: for workloads that hold nothing it is then worked out once per
    policy, and not for every decision."""


def home(ask: Ask, clusters: Facts) -> Ints:
    """Staying where copies already are outweighs all else: sets of clusters are sticky."""
    # More than the sum of all other terms (2 x 1000 + 1000), so that none of them moves copies.
    return np.where(clusters.held > 0, 4000, 0)


def preference(ask: Ask, clusters: Facts) -> Ints:
    """Fewer PreferNoSchedule taints that the policy does not tolerate are better."""
    # Twice the points of room: a taint is a person's word, room changes with every report.
    return 2 * untainted(ask, clusters)


def untainted(ask: Ask, clusters: Facts) -> Ints:
    """1000 for none, 0 for the cluster with the most, proportional between."""
    most = int(clusters.avoided.max(initial=0))
    return 1000 - 1000 * clusters.avoided // max(most, 1)


def avoided(ask: Ask, cluster: ClusterView) -> int:
    """How many taints ask to keep away if possible."""
    return enforcing.avoided(ask.policy, cluster)


def roominess(ask: Ask, clusters: Facts) -> Ints:
    """In proportion to the copies that fit."""
    # Held copies count as room: they take none away from the workload that holds them.
    fit = clusters.held + clusters.room
    most = fit.item(fit.argmax()) if fit.size else 0  # a third of the time of `max`
    if most > _EXACT:  # a shape that requests next to nothing: with Python's integers
        return np.array([1000 * each // most for each in fit.tolist()], dtype=np.int64)
    return 1000 * fit // max(most, 1)


SCORERS: Final[Mapping[str, Term]] = {
    "home": Term(home, reads_room=False),
    "preference": Term(preference, reads_room=False),
    "room": Term(roominess),
}


def beside_room(ask: Ask, clusters: Facts) -> dict[str, Ints]:
    """The terms that do not read room, by name."""
    return {name: t.points(ask, clusters) for name, t in SCORERS.items() if not t.reads_room}


def by_room(ask: Ask, clusters: Facts) -> dict[str, Ints]:
    """The terms that read room, by name."""
    return {name: t.points(ask, clusters) for name, t in SCORERS.items() if t.reads_room}


def score(ask: Ask, clusters: Facts) -> dict[str, Ints]:
    """All terms by name: first those that do not read room, so that records of all ways agree."""
    return {**beside_room(ask, clusters), **by_room(ask, clusters)}
