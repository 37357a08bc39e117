"""What makes one cluster better than another when not all are needed: named terms, whose sum is the
score.

One function and one table row per term. Scores choose the set of clusters (fewest, at most so many,
at least so many copies each); they do not change how copies are divided inside the set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.ask import Ask
from federator.model.fleet import ClusterView
from federator.model.quickly import quickly
from federator.placement.policy import enforcing


@dataclass(frozen=True, slots=True)
class Facts:
    """What a term may read."""

    held: int
    room: int
    avoided: int
    """Number of PreferNoSchedule taints that are not tolerated."""


facts = quickly(Facts)
Scorer = Callable[[Ask, Sequence[Facts]], list[int]]


def home(ask: Ask, clusters: Sequence[Facts]) -> list[int]:
    """Staying where copies already are outweighs all else: sets of clusters are sticky."""
    return [4000 if cluster.held else 0 for cluster in clusters]


def preference(ask: Ask, clusters: Sequence[Facts]) -> list[int]:
    """Fewer PreferNoSchedule taints that the policy does not tolerate are better."""
    return [2 * points for points in untainted(ask, clusters)]


def untainted(ask: Ask, clusters: Sequence[Facts]) -> list[int]:
    """1000 for none, 0 for the cluster with the most, proportional between."""
    most = max((cluster.avoided for cluster in clusters), default=0)
    return [1000 - 1000 * cluster.avoided // most if most else 1000 for cluster in clusters]


def avoided(ask: Ask, cluster: ClusterView) -> int:
    """How many taints ask to keep away if possible."""
    return enforcing.avoided(ask.policy, cluster)


def roominess(ask: Ask, clusters: Sequence[Facts]) -> list[int]:
    """In proportion to the copies that fit."""
    most = max((cluster.held + cluster.room for cluster in clusters), default=0)
    return [of_room(cluster.held + cluster.room, most) for cluster in clusters]


def of_room(room: int, most: int) -> int:
    """The points of one cluster for its room, held copies included; the best has `most`."""
    return 1000 * room // most if most else 0


def of_rooms(rooms: Sequence[int], most: int) -> list[int]:
    """As `of_room`, of several clusters."""
    return [1000 * room // most for room in rooms] if most else [0] * len(rooms)


SCORERS: Final[Mapping[str, Scorer]] = {"home": home, "preference": preference, "room": roominess}


assert list(SCORERS)[-1] == "room"  # so that its term can be added to the others


def beside_room(terms: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The terms that do not depend on room, by name."""
    return dict(terms[:-1])


def score(ask: Ask, clusters: Sequence[Facts]) -> list[tuple[tuple[str, int], ...]]:
    """The terms of every cluster, in the given order."""
    columns = [
        [(name, points) for points in scorer(ask, clusters)] for name, scorer in SCORERS.items()
    ]
    return list(zip(*columns, strict=True))
