"""What makes one cluster better than another when not all are needed: named terms. Their sum is the
score.

One function over all clusters and one table row per term; every way to decide reads the table
(docs/internals/adding-a-scorer.md). Scores choose the set of clusters (fewest, at most so many, at
least so many copies each); they do not change how copies are divided inside the set.

Some rows count in every decision. The others count where a preference of the policy names them,
with its weight.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from federator.model import properties
from federator.model.ask import Ask
from federator.model.fleet import ClusterView
from federator.model.neighbours import Around
from federator.model.policy import Policy
from federator.model.quickly import quickly
from federator.model.resources import GPU
from federator.model.terms import PROPERTY, SELECTOR, WORKLOADS, Preference
from federator.placement.policy import enforcing
from federator.placement.room.binding import Ints

_EXACT: Final = 1 << 50
"""Up to this room a thousand times as much fits into 64 bits."""
FULL: Final = 1000
"""The most points of a preferred term before its weight."""
PREFERRED: Final = 10 * FULL
"""The most points of all preferences of a policy together. Room has 1000: it decides between
clusters with preferences that differ by less than a tenth."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a term may read: one entry for each cluster that takes part, in the order of names."""

    held: Ints
    room: Ints
    avoided: Ints
    """Number of PreferNoSchedule taints that are not tolerated."""
    figures: Floats | None = None
    """[P, C]: what each preference of the policy reads of the clusters; None without any."""
    figure: Floats | None = None
    """[C]: the same of the preference that is evaluated; NaN where a cluster has none."""


facts = quickly(Facts)
Scorer = Callable[[Ask, Facts], Ints]
"""The points of each cluster."""
Always: TypeAlias = tuple[tuple[str, Scorer], ...]
"""Terms by name."""


@dataclass(frozen=True, slots=True)
class Term:
    """One row of the table."""

    points: Scorer
    reads_room: bool = True
    """False where it does not: for workloads that hold nothing it is then worked out once per
    policy, and not for every decision."""
    preferred: bool = False
    """It counts only where a preference names it: from 0 to `FULL`, times the weight."""
    reads: str = ""
    """Of a preferred term: the property of clusters that it gets as `Facts.figure`."""


def home(ask: Ask, clusters: Facts) -> Ints:
    """Staying where copies already are outweighs all else: sets of clusters are sticky."""
    # More than the sum of all other terms (2 x 1000 + 1000), so that none of them moves copies.
    most = 4000 + (PREFERRED if ask.policy.preferences else 0)
    return np.where(clusters.held > 0, most, 0)


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


def free_capacity(ask: Ask, clusters: Facts) -> Ints:
    """The most free capacity first: in proportion to the copies that fit."""
    return roominess(ask, clusters)


def fit(ask: Ask, clusters: Facts) -> Ints:
    """The tightest cluster first: the fewer copies fit, the better, and those without room last."""
    has_room = clusters.held + clusters.room > 0
    return np.where(has_room, FULL - roominess(ask, clusters), 0)


def ranked(ask: Ask, clusters: Facts) -> Ints:
    """By a property, in proportion between the worst and the best of the clusters that take part;
    none for a cluster without it."""
    given = clusters.figure
    if given is None or not given.size:
        return np.zeros_like(clusters.held)
    known = np.isfinite(given)
    if not known.any():
        return np.zeros_like(clusters.held)
    low, high = float(given[known].min()), float(given[known].max())
    # All alike: the preference tells only those that have the property from those that do not.
    share = np.ones_like(given) if high <= low else (given - low) / (high - low)
    points: Ints = np.where(known, np.floor(FULL * np.where(known, share, 0.0)), 0).astype(np.int64)
    return points


def matching(ask: Ask, clusters: Facts) -> Ints:
    """All points for clusters with the labels, none for others."""
    if clusters.figure is None:
        return np.zeros_like(clusters.held)
    points: Ints = np.where(clusters.figure > 0, FULL, 0).astype(np.int64)
    return points


def neighbours(ask: Ask, clusters: Facts) -> Ints:
    """All points for clusters that a preferred term of `workloadAffinity` prefers: those with a
    workload that it selects in the same domain, or of an anti-affinity those without."""
    return matching(ask, clusters)


def balance(ask: Ask, clusters: Facts) -> Ints:
    """The emptiest cluster first: the free part of CPU or memory, whichever is scarcer."""
    given = clusters.figure
    if given is None:
        return np.zeros_like(clusters.held)
    points: Ints = np.floor(FULL * np.nan_to_num(given, nan=0.0)).astype(np.int64)
    return points


def successful(ask: Ask, clusters: Facts) -> Ints:
    """The cluster in which most workloads start and end well first, in proportion to that share."""
    return balance(ask, clusters)


def cheapest(ask: Ask, clusters: Facts) -> Ints:
    """The lowest price per hour first; none for a cluster without a price."""
    return _lowest(ask, clusters)


def whole_nodes(ask: Ask, clusters: Facts) -> Ints:
    """The smallest gap first: the less CPU is free on one node, the better. Large gaps stay for
    large pods."""
    return _lowest(ask, clusters)


def _lowest(ask: Ask, clusters: Facts) -> Ints:
    if clusters.figure is None:
        return np.zeros_like(clusters.held)
    turned = facts(
        clusters.held, clusters.room, clusters.avoided, clusters.figures, -clusters.figure
    )
    return ranked(ask, turned)


def spare_gpus(ask: Ask, clusters: Facts) -> Ints:
    """Clusters without GPUs first, for workloads that request none."""
    if clusters.figure is None or ask.shape.requests[GPU]:
        return np.zeros_like(clusters.held)
    points: Ints = np.where(clusters.figure > 0, 0, FULL).astype(np.int64)
    return points


SCORERS: Final[Mapping[str, Term]] = {
    "home": Term(home, reads_room=False),
    "preference": Term(preference, reads_room=False),
    "room": Term(roominess),
    PROPERTY: Term(ranked, reads_room=False, preferred=True),
    SELECTOR: Term(matching, reads_room=False, preferred=True),
    WORKLOADS: Term(neighbours, reads_room=False, preferred=True),
    "FreeCapacity": Term(free_capacity, preferred=True),
    "Fit": Term(fit, preferred=True),
    "Balance": Term(balance, reads_room=False, preferred=True, reads="freeShare"),
    "Success": Term(successful, reads_room=False, preferred=True, reads="successRate"),
    "Price": Term(cheapest, reads_room=False, preferred=True, reads="price"),
    "Fragmentation": Term(whole_nodes, reads_room=False, preferred=True, reads="cpu.nodeFree"),
    "SpareGPUs": Term(spare_gpus, reads_room=False, preferred=True, reads="gpu.total"),
}


def most_terms(policy: Policy) -> int:
    """At most this many terms make a score under the policy."""
    return sum(not term.preferred for term in SCORERS.values()) + len(policy.preferences)


def figure(wish: Preference, view: ClusterView, around: Around | None = None) -> float:
    """What a preference reads of a cluster: the larger, the better for a sorter; NaN where the
    cluster does not have it. `around`: what is known of other workloads."""
    if wish.scorer == WORKLOADS:
        return float(around is not None and (wish.key, view.name) in around.met)
    if wish.selector is not None:
        return float(wish.selector.matches(view.labels))
    if wish.scorer == PROPERTY:
        value = properties.figure(wish.key, view)
        return value if wish.descending else -value
    term = SCORERS.get(wish.scorer)
    return properties.figure(term.reads, view) if term is not None and term.reads else 0.0


def columns(ask: Ask, of_clusters: Iterable[tuple[float, ...]]) -> Floats | None:
    """[P, C] of the figures of each cluster; None for a policy without preferences."""
    many = len(ask.policy.preferences)
    if not many:
        return None
    made: Floats = np.array([*of_clusters], dtype=np.float64).reshape(-1, many).T
    return made


def always(*, reads_room: bool) -> Always:
    """The terms that count under every policy."""
    return tuple(
        (name, term.points)
        for name, term in SCORERS.items()
        if term.reads_room is reads_room and not term.preferred
    )


def beside_room(ask: Ask, clusters: Facts) -> dict[str, Ints]:
    """The terms that do not read room, by name."""
    made = {name: points(ask, clusters) for name, points in always(reads_room=False)}
    return made | _preferred(ask, clusters, reads_room=False) if ask.policy.preferences else made


def by_room(ask: Ask, clusters: Facts, terms: Always) -> dict[str, Ints]:
    """The terms that read room, by name. `terms`: those of them that always count, which a caller
    that asks for every decision keeps."""
    made = {name: points(ask, clusters) for name, points in terms}
    return made | _preferred(ask, clusters, reads_room=True) if ask.policy.preferences else made


def _preferred(ask: Ask, clusters: Facts, *, reads_room: bool) -> dict[str, Ints]:
    """The points of each preference of the policy: up to its part of all weights."""
    wishes, made = ask.policy.preferences, dict[str, Ints]()
    whole = max(sum(wish.weight for wish in wishes), 1)
    for at, wish in enumerate(wishes):
        term = SCORERS.get(wish.scorer)
        if term is None or term.reads_room is not reads_room or clusters.figures is None:
            continue
        mine = facts(
            clusters.held, clusters.room, clusters.avoided, clusters.figures, clusters.figures[at]
        )
        points = PREFERRED * wish.weight * term.points(ask, mine) // (FULL * whole)
        made[wish.name] = made[wish.name] + points if wish.name in made else points
    return made


def score(ask: Ask, clusters: Facts) -> dict[str, Ints]:
    """All terms by name: first those that do not read room, so that records of all ways agree."""
    return {**beside_room(ask, clusters), **by_room(ask, clusters, always(reads_room=True))}
