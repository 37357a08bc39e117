"""The clusters to which preemptors are nominated: there they are to begin when their victims have
left.

Victims leave in one cycle, and their preemptor begins in a later one. A workload that begins
between the two may repel the preemptor everywhere; then the victims have left in vain. So it is
kept away from the clusters to which the preemptor is nominated (`selection.neighbours`). A
preemptor that cannot be nominated gets no victims now. Only workloads that terms between workloads
can concern, and that hold nothing yet, are nominated.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from federator.model.ask import Ask
from federator.model.fleet import copies_of
from federator.model.neighbours import NOBODY
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, neighbours
from federator.scheduling.admission.everywhere import is_everywhere
from federator.scheduling.admission.stage import Eviction
from federator.scheduling.entry import Entry
from federator.scheduling.waiting.room_claims import RoomClaim

Gone = dict[str, Counter[str]]
"""uid -> cluster -> copies that leave there."""


@dataclass(slots=True)
class Nominations:
    """Of one cycle; the ledger has the result."""

    commitments: Commitments
    ledger: Ledger
    _gone: Gone = field(default_factory=dict)
    """What leaves in this cycle, for all preemptors."""

    def claimed(self, claims: Iterable[Entry], room_claims: Iterable[RoomClaim]) -> None:
        """Nominates those for which others have left in earlier cycles. They come before those that
        preempt now: their victims do not come back."""
        if self.ledger.snapshot.peers is NOBODY:
            return
        now_s = self.ledger.snapshot.as_of
        for claim in room_claims:
            if claim.until_s > now_s and not self._holds(claim.ask):
                self.ledger.nominate(claim.ask, claim.copies)
        for entry in claims:
            if not entry.held and (clusters := self._clusters(entry.ask, {})):
                self.ledger.nominate(entry.ask, clusters)

    def accepts(self, ask: Ask, evictions: Collection[Eviction]) -> bool:
        """Nominates a preemptor with these victims. False, and nothing changes, if it could begin
        nowhere, or if one that is nominated already would lose what it has to begin near."""
        if self.ledger.snapshot.peers is NOBODY:
            return True
        gone = self._with(evictions)
        if not all(self._keeps(other, there, gone) for other, there in self._nominated()):
            return False
        if not self._holds(ask):  # else it has begun, and nobody can keep it from that any more
            clusters = self._clusters(ask, gone)
            if not clusters:
                return False
            self.ledger.nominate(ask, clusters)
        self._gone = gone
        return True

    def _nominated(self) -> Sequence[tuple[Ask, frozenset[str]]]:
        return [*self.ledger.nominated.values()]

    def _holds(self, ask: Ask) -> bool:
        held = self.ledger.commitment(ask.uid)
        return held is not None and held.copies > 0

    def _keeps(self, ask: Ask, clusters: frozenset[str], gone: Gone) -> bool:
        return not clusters <= neighbours.refused_without(ask, self.ledger, gone).keys()

    def _clusters(self, ask: Ask, gone: Gone) -> list[str]:
        """As few as have room for all its copies when they are empty, the largest first: others are
        kept away from no more clusters than necessary. All where copies go to every cluster."""
        ledger = self.ledger
        judged = candidates.places(ask, ledger.snapshot, ledger)
        refused = neighbours.refused_without(ask, ledger, gone)
        takes = {
            name: ledger.could_take(name, ask.shape)
            for name, place in judged.items()
            if place.refusal is None and name not in refused
        }
        if is_everywhere(ask):
            return [*takes]
        chosen, lacks = list[str](), ask.at_once
        for name in sorted(takes, key=lambda name: (-takes[name], name)):
            if lacks <= 0 or not takes[name]:
                break
            chosen.append(name)
            lacks -= takes[name]
            if ask.policy.division.max_clusters == 1:
                break
        return chosen

    def _with(self, evictions: Iterable[Eviction]) -> Gone:
        gone = {uid: Counter(there) for uid, there in self._gone.items()}
        for eviction in evictions:
            there: Mapping[str, int] = eviction.clusters
            held = self.commitments.commitment(eviction.uid)
            if eviction.whole and held is not None:
                there = {each.cluster: copies_of(each) for each in held.holdings}
            gone.setdefault(eviction.uid, Counter()).update(there)
        return gone
