"""Victims that their preemptor follows: required workload affinity lets the preemptor begin only
where these have copies.

They leave only if no other victims help. Then at least one copy of each stays where the preemptor
can begin. Otherwise they would leave for a workload that can begin nowhere afterwards, come back,
and leave again.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from federator.model.ask import Ask
from federator.model.fleet import copies_of
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, neighbours
from federator.scheduling.admission import budgets
from federator.scheduling.admission.holders import Victim


@dataclass(frozen=True, slots=True)
class Following:
    """One preemptor and the workloads that it follows."""

    ask: Ask
    uids: frozenset[str]
    commitments: Commitments
    ledger: Ledger

    def open_clusters(self, victims: Iterable[Victim]) -> Collection[str]:
        """The clusters in which the preemptor can begin when these have left."""
        ask, ledger = self.ask, self.ledger
        judged = candidates.places(ask, ledger.snapshot, ledger)
        opened = [name for name, place in judged.items() if place.refusal is None]
        near = [victim for victim in victims if victim.holder.workload in self.uids]
        if not near:
            return opened
        gone: dict[str, Counter[str]] = {}
        for victim, there in self._leaving(near, opened):
            gone.setdefault(victim.holder.workload, Counter()).update(there)
        refused = neighbours.refused_without(ask, ledger, gone)
        return [name for name in opened if name not in refused]

    def whence(
        self, victims: Iterable[Victim]
    ) -> Iterator[tuple[Victim, Mapping[str, int] | None]]:
        """Each victim with cluster -> copies that leave there; None for anywhere."""
        every = list(victims)
        if not any(victim.holder.workload in self.uids for victim in every):
            yield from ((victim, None) for victim in every)
            return
        opened = self.open_clusters(())
        for victim in every:
            if victim.holder.workload in self.uids:
                yield from self._leaving([victim], opened)
            else:
                yield victim, None

    def _leaving(
        self, victims: Iterable[Victim], opened: Collection[str]
    ) -> Iterator[tuple[Victim, dict[str, int]]]:
        for victim in victims:
            commitment = self.commitments.commitment(victim.holder.workload)
            if commitment is None:
                continue
            held = {each.cluster: n for each in commitment.holdings if (n := copies_of(each))}
            # What a disruption budget says of where copies leave goes before what would be best
            # here.
            most = held if commitment.whole else dict(victim.holder.clusters) or held
            copies = sum(most.values()) if commitment.whole else victim.copies
            if copies < sum(most.values()):
                most = _but_one(most, opened)
            yield victim, budgets.spread(most, copies)


def _but_one(most: Mapping[str, int], opened: Collection[str]) -> dict[str, int]:
    """One copy less where most are, of the clusters in which the preemptor can begin."""
    # Sorted first, so that the name decides between equals and not the order of the holdings.
    keeps = max(sorted(most), key=lambda name: (name in opened, most[name]))
    return {name: copies - (name == keeps) for name, copies in most.items()}
