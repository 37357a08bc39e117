"""What the loss of a cluster, or of all clusters of one zone, would come to. Pure.

The question of an N-1 drill: if these were gone now, for whom would there be no place, and how long
would the rest take to move? It is asked of the function that drains and failovers ask
(`evacuation.rehearse`), so that the answer is what would happen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.ask import Tier
from federator.model.fleet import FleetSnapshot
from federator.model.names import WorkloadKey
from federator.scheduling import evacuation
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import MINUTE_S, Rehearsed

UNLABELLED: Final = "(without the label)"


@dataclass(frozen=True, slots=True)
class Loss:
    """Clusters that are lost together."""

    name: str
    """The cluster's name, or the value of the label that they share."""
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A workload some copies of which would have no place."""

    key: WorkloadKey
    tier: Tier
    copies: int
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one loss would come to."""

    loss: Loss
    workloads: int
    copies: int
    """Copies that are in these clusters."""
    unplaced: tuple[Unplaced, ...]
    """Reserved first, then who lacks the most."""
    recovery_s: float
    """Seconds until all that have a place have been given it, at the budget of failovers."""

    def missing(self, tier: Tier) -> int:
        """Copies of a tier without a place."""
        return sum(unplaced.copies for unplaced in self.unplaced if unplaced.tier is tier)


def losses(snapshot: FleetSnapshot, by: str = "") -> list[Loss]:
    """Every cluster by itself; with `by`, a label, the clusters of each of its values together."""
    if not by:
        return [Loss(name, (name,)) for name in sorted(snapshot.clusters)]
    groups: dict[str, list[str]] = {}
    for name, view in sorted(snapshot.clusters.items()):
        groups.setdefault(view.labels.get(by, UNLABELLED), []).append(name)
    return [Loss(value, tuple(names)) for value, names in sorted(groups.items())]


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """As an evacuation takes them: Reserved first, then by priority."""
    return sorted(
        entries,
        key=lambda entry: (evacuation.rank(entry.ask.tier, entry.ask.priority), entry.key),
    )


def outcome(
    loss: Loss, rehearsed: Sequence[Rehearsed], tiers: Mapping[WorkloadKey, Tier], a_minute: int
) -> Outcome:
    """`rehearsed`: all workloads of these clusters; `a_minute`: copies that may move in a minute.

    120 copies that have a place, 300 a minute: 24 seconds
    """
    rank = {tier: number for number, tier in enumerate(Tier)}
    unplaced = [
        Unplaced(each.key, tiers[each.key], each.stays, each.why)
        for each in rehearsed
        if each.stays
    ]
    unplaced.sort(key=lambda lacking: (rank[lacking.tier], -lacking.copies, lacking.key))
    copies = sum(each.before for each in rehearsed)
    moving = copies - sum(lacking.copies for lacking in unplaced)
    return Outcome(
        loss, len(rehearsed), copies, tuple(unplaced), moving * MINUTE_S / max(a_minute, 1)
    )
