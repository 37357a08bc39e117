"""Room that others leave for one workload is its own until it has been seen free and taken, or
until nothing more is to be expected of it.

Pods take a while to stop, and members report what is free as they go. A workload that is looked at
meanwhile, as the victims are, would take it piece by piece. So no work of the same tier or a lower
one gets what a claim counts; work of a higher tier does.

    api (Reserved) waits for one copy of 4 cpus, and four copies of 1 left for it in cluster a
      2 of them seen free    a service of 1 cpu waits: 4 are api's
      4 of them seen free    api has its copy, and the claim has ended

What is free of it is reckoned to lie where a scheduler would bind the copies, and of the rest an
amount is kept: room that the cluster has beside that is anybody's. Pure.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from federator.model.ask import Ask, Tier
from federator.model.names import WorkloadKey
from federator.placement.room.setaside import Copies

WAITS_S: Final = 120.0
"""So long it is waited for room to be seen free: pods have 30 s to stop, and then it is told. A
claim to quota lasts as long while its preemptor lacks nothing but room."""
_RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}


@dataclass(frozen=True, slots=True)
class RoomClaim:
    """Room that is to become free for a workload."""

    ask: Ask
    copies: Mapping[str, int]
    """Cluster -> copies of the workload for which others leave there."""
    until_s: float
    """It counts no longer than that, in epoch seconds."""

    @property
    def total(self) -> int:
        return sum(self.copies.values())

    def less(self, grown: Mapping[str, int]) -> "RoomClaim":
        """Without the copies that the workload has got."""
        left = {name: copies - grown.get(name, 0) for name, copies in self.copies.items()}
        return replace(self, copies={name: copies for name, copies in left.items() if copies > 0})

    def more(self, copies: Mapping[str, int], until_s: float) -> "RoomClaim":
        """With those for which others leave now."""
        both = dict(self.copies)
        for name, count in copies.items():
            both[name] = both.get(name, 0) + count
        return replace(self, copies=both, until_s=until_s)

    def before(self, ask: Ask) -> bool:
        """Whether the other workload may not have what is claimed."""
        return ask.uid != self.ask.uid and _RANK[ask.tier] >= _RANK[self.ask.tier]


Claims = Mapping[WorkloadKey, RoomClaim]


def claimed(claims: Iterable[RoomClaim], ask: Ask, now_s: float) -> dict[str, list[Copies]]:
    """Cluster -> copies for which room is claimed there by others, before this workload."""
    kept: dict[str, list[Copies]] = {}
    for claim in claims:
        if claim.until_s <= now_s or not claim.before(ask):
            continue
        for cluster, copies in claim.copies.items():
            kept.setdefault(cluster, []).append((claim.ask.shape, copies))
    return kept


def given_up(before: Claims, due: Container[WorkloadKey], now: Claims) -> Iterator[str]:
    """The clusters in which a workload that was decided on no longer claims room."""
    for key, claim in before.items():
        if key in due and key not in now:
            yield from claim.copies
