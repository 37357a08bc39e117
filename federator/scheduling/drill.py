"""What the loss of a cluster, or of all clusters of one zone, would come to. Pure.

The question of an N-1 drill: if these were gone now, which workloads would have no place, and how
long would the rest take to move? It is asked of the function that drains and failovers ask
(`evacuation.rehearse`), so that the answer is what would happen.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from federator.model.ask import Ask, Tier
from federator.model.fleet import FleetSnapshot
from federator.model.names import WorkloadKey
from federator.model.rules.invariant import Survives
from federator.placement.policy import holds
from federator.scheduling import evacuation
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import MINUTE_S, Rehearsed

LOSSES_MAX: Final = 64
"""Losses that are tried of one rule: each takes as long as the drill of one loss."""
SLICE_S: Final = 0.005
"""Seconds that a slice of a drill may take before others get their turn."""
MOST: Final = 64
"""Workloads of one slice, however little time they take."""
_SURE: Final = 0.8
"""The part of a slice that is planned for: the next workloads may take longer than the last."""
Rehearse: TypeAlias = Callable[[Sequence[Entry]], Sequence[Rehearsed]]


@dataclass(frozen=True, slots=True)
class Loss:
    """Clusters that are lost together."""

    name: str
    """The cluster's name, or the domains that are lost."""
    clusters: tuple[str, ...]
    partly: tuple[str, ...] = ()
    """Clusters that lie in one of these domains and in others too: they are not lost."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A workload some copies of which would have no place."""

    key: WorkloadKey
    tier: Tier
    copies: int
    why: str


@dataclass(frozen=True, slots=True)
class DrillResult:
    """What one loss would come to."""

    loss: Loss
    workloads: int
    copies: int
    """Copies in these clusters that would have to move."""
    unplaced: tuple[Unplaced, ...]
    """Reserved first, then the workloads that lack the most."""
    recovery_s: float
    """Seconds until all that have a place have been given it, at the budget of failovers."""
    after_scale_up: int = 0
    """Copies of those with a place that wait for nodes which clusters add."""

    def missing(self, tier: Tier) -> int:
        """Copies of a tier without a place."""
        return sum(unplaced.copies for unplaced in self.unplaced if unplaced.tier is tier)


def losses(snapshot: FleetSnapshot, by: str = "", together: int = 1) -> list[Loss]:
    """Every cluster by itself; with `by`, a topology key, the clusters of each of its domains
    together. `together`: so many domains are lost at once, in every combination.

    A cluster that lies in several domains is lost with the last of them. A combination with which
    no cluster is lost is left out.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, view in sorted(snapshot.clusters.items()):
        groups.setdefault(holds.domains_of(view, by) if by else (name,), []).append(name)
    wide = [(frozenset(where), names) for where, names in groups.items() if len(where) > 1]
    every = sorted({domain for where in groups for domain in where})
    made = []
    for values in itertools.combinations(every, together):
        gone = [name for value in values for name in groups.get((value,), ())]
        gone += [name for where, names in wide if where <= {*values} for name in names]
        kept = [
            name
            for where, names in wide
            if not where <= {*values} and not where.isdisjoint(values)
            for name in names
        ]
        if gone:
            made.append(Loss(" and ".join(values), tuple(gone), tuple(sorted(kept))))
    return made


def possible(snapshot: FleetSnapshot, rule: Survives) -> bool:
    """Whether a rule can be tried: clusters are left after each loss, and the losses are not too
    many."""
    domains = len(holds.domains(snapshot.clusters.values(), rule.topology_key))
    return rule.loss < domains and math.comb(domains, rule.loss) <= LOSSES_MAX


def rank(ask: Ask) -> tuple[int, int]:
    """Sort key: as an evacuation takes workloads, Reserved first, then by priority. Those of equal
    rank are taken in the order of their keys."""
    return evacuation.rank(ask.tier, ask.priority)


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (rank(entry.ask), entry.key))


def in_slices(
    keys: Iterable[WorkloadKey],
    entry_of: Callable[[WorkloadKey], Entry | None],
    rehearse: Rehearse,
    tally: "Tally",
    time: Callable[[], float],
) -> Iterator[float]:
    """Rehearses the workloads of a loss in order, and adds them to the tally. Yields after every
    slice the seconds that it took by `time`, so that the caller can give others their turn. How
    many workloads come next follows from what the last ones took; one is never cut in two.
    """
    left, count = iter(keys), 1
    while some := list(itertools.islice(left, count)):
        begun_s = time()
        entries = [entry for entry in map(entry_of, some) if entry is not None]
        tally.add(rehearse(entries), {entry.key: entry.ask.tier for entry in entries})
        took_s = time() - begun_s
        # Where work takes no time, as in a simulation, the count alone bounds a slice.
        fit = int(len(some) * _SURE * SLICE_S / took_s) if took_s > 0 else MOST
        # A few cheap ones say little of the next: twice as many at most.
        count = max(1, min(fit, 2 * len(some), MOST))
        yield took_s


class Tally:
    """Adds up what a loss comes to while its workloads are rehearsed. Of those that have a place
    nothing is kept: a cluster may hold a hundred thousand."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._workloads = 0
        self._copies = 0
        self._unplaced: list[Unplaced] = []
        self._waiting = 0

    def add(self, rehearsed: Iterable[Rehearsed], tiers: Mapping[WorkloadKey, Tier]) -> None:
        """Counts these workloads of the lost clusters; `tiers` has the tier of each."""
        for each in rehearsed:
            self._workloads += bool(each.before)
            self._copies += each.before
            if each.decision is not None:
                self._waiting += sum(added.copies for added in each.decision.additions)
            if each.stays:
                self._unplaced.append(Unplaced(each.key, tiers[each.key], each.stays, each.why))

    def outcome(self, a_minute: int) -> DrillResult:
        """What all of them come to. `a_minute`: copies that may move in a minute.

        120 copies that have a place, 300 a minute: 24 seconds
        """
        rank = {tier: number for number, tier in enumerate(Tier)}
        unplaced = sorted(
            self._unplaced, key=lambda lacking: (rank[lacking.tier], -lacking.copies, lacking.key)
        )
        moving = self._copies - sum(lacking.copies for lacking in unplaced)
        recovery_s = moving * MINUTE_S / max(a_minute, 1)
        return DrillResult(
            self._loss, self._workloads, self._copies, tuple(unplaced), recovery_s, self._waiting
        )
