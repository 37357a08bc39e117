"""Preemption for a workload that has quota and no room: evictions now, and notices for later ones.

Copies of tier Preemptible are evicted immediately; copies of tier OnDemand after their notice, and
no more in a minute than the pace of the hub and their own disruption budgets allow. Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from federator.model import plaintext
from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling.admission import notice, preempting, rooms
from federator.scheduling.admission.notice import Notice
from federator.scheduling.admission.preempting import Evictions, Terms, Turn
from federator.scheduling.admission.stage import Eviction


@dataclass(slots=True)
class RoomPreemption:
    """Evictions and notices for one preemptor."""

    turns: list[Turn] = field(default_factory=list)
    """Of the victims that are evicted now."""
    copies: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> copies of the preemptor that get room by these evictions."""
    notices: list[Notice] = field(default_factory=list)
    later_s: float | None = None
    """Seconds until the remaining victims can be evicted."""
    undecided: bool = False
    """Victims cannot be selected now: earlier notices stand."""
    counted: int = 0
    """Copies that count for the pace."""
    when: str = ""
    """When the remaining victims are evicted, as a part of a sentence."""


def make(
    ask: Ask,
    missing: int,
    commitments: Commitments,
    ledger: Ledger,
    *,
    spared: Collection[str],
    find: preempting.Find,
    terms: Terms,
    lent: Collection[str] = (),
    claimed: Mapping[str, int],
) -> RoomPreemption:
    """Preempts for `missing` copies. `spared`: uids of workloads that cannot be victims now.
    `lent`: as in `rooms.victims`. `claimed`: cluster -> copies that earlier evictions free.
    """
    there = rooms.missing(ask, missing, ledger, claimed)
    leavers = rooms.victims(
        ask,
        missing,
        commitments,
        ledger,
        spared,
        there=there,
        budgets=terms.pace.budgets,
        lent=lent,
    )
    entries = preempting.room_entries(leavers, commitments, find)
    if entries is None:
        return RoomPreemption(undecided=True)
    victims = preempting.by_victim(leavers)
    later = {uid: leaves for uid, leaves in victims.items() if notice.needed(leaves)}
    made, count = RoomPreemption(), notice.counted(later.values())
    if later and (pending := notice.pending(later, entries, terms.tree, terms.now_s)):
        until_s = notice.until(pending)
        made.notices, made.later_s = pending, until_s - terms.now_s
        made.when = f"at {plaintext.moment(until_s)}, after its notice (spec.reclaimNoticeSeconds)"
    elif later and not terms.pace.allows(count):
        made.undecided, made.when = True, notice.PACED
        made.later_s = terms.pace.next_s
    else:
        made.counted, later = count, {}
    now: Mapping[str, Eviction] = {uid: victims[uid] for uid in victims if uid not in later}
    if later and (ask.whole or ask.policy.require_all):
        now = {}  # with a part of its copies the preemptor cannot start
    made.turns = [Turn(entries[uid], leaves.by.key, leaves) for uid, leaves in now.items()]
    going = (leaves for leaves in leavers if leaves.uid in now)
    made.copies = rooms.freed(going, ask, commitments, there)
    return made


def note(made: RoomPreemption, preemptor: WorkloadKey, evictions: Evictions) -> None:
    """Adds it to the evictions of the cycle."""
    evictions.notices += made.notices
    evictions.counted += made.counted
    if made.undecided:
        evictions.undecided.add(preemptor)
    if made.later_s is not None:
        evictions.wait(preemptor, made.later_s)
