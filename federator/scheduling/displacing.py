"""Work that loses a cluster while others keep room for such (`spec.failoverBuffer`): what it may
have of that, and its victims. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from federator.model.accounts import TakesRoom
from federator.model.ask import Tier
from federator.model.decision import Reason
from federator.model.fleet import Commitment, copies_of
from federator.model.names import WorkloadKey
from federator.placement.quota.quota import Admission
from federator.placement.room.ledger import Ledger
from federator.placement.selection.leaving import everywhere
from federator.scheduling.admission import rooms
from federator.scheduling.entry import Entry
from federator.scheduling.write_order import Decided

NO_GROWTH: Final = "what loses a cluster has another place first, and grows then"


def rulings(entry: Entry, before: Mapping[str, Admission]) -> Mapping[str, Admission]:
    """The rulings of a cycle, by which what loses a cluster does not grow meanwhile: buffers are
    not for that."""
    ask, had = entry.ask, entry.had
    former = before.get(ask.uid)
    if everywhere(ask) or had >= ask.count:
        return before
    if former is not None and former.copies <= had:
        return before
    return {**before, ask.uid: Admission(had, Reason.INSUFFICIENT_CAPACITY, NO_GROWTH)}


def lacks(made: Decided, ledger: Ledger, buffers: frozenset[str]) -> tuple[int, frozenset[str]]:
    """Copies for which others may have to leave, and the clusters in which they do that for their
    buffers; none of these where the accounts of the workload let others leave for it anywhere."""
    entry, decision = made.entry, made.decision
    missing, snapshot = rooms.lacking(entry.ask, decision), ledger.snapshot
    stranded = 0
    if rooms.takes(entry.ask) and (lost := entry.lost(snapshot)):
        stranded = min(rooms.stranded(decision, snapshot), lost)
    if rooms.of(entry.ask, ledger.tree) is not TakesRoom.NEVER:
        return missing + stranded, frozenset()
    if not buffers:
        return 0, buffers
    return stranded + min(missing, entry.displaced), buffers


def as_before(decided: Sequence[Decided]) -> dict[WorkloadKey, int]:
    """Preemptible work that was decided on and has what it had -> its place among these."""
    return {
        made.key: at
        for at, made in enumerate(decided)
        if made.entry.ask.tier is Tier.PREEMPTIBLE
        and made.beneficiary == made.key
        and made.before is not None
        and _copies(made.before) == _copies(made.after)
    }


def _copies(commitment: Commitment) -> dict[str, int]:
    """Cluster -> copies."""
    given = {holding.cluster: copies_of(holding) for holding in commitment.holdings}
    return {name: copies for name, copies in given.items() if copies}
