"""The victims that leave now, and those that leave later, for a workload that has quota and no
room.

Work of tier Preemptible leaves at once; work of tier OnDemand after its notice, and no more in a
minute than an operator and its own disruption budget allow. Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling.admission import notice, preempting, rooms
from federator.scheduling.admission.notice import Notice
from federator.scheduling.admission.preempting import Evictions, Terms, Turn
from federator.scheduling.admission.stage import Eviction

SOON: Final = "as their turns come (hub.preempted_copies_a_minute)"


@dataclass(slots=True)
class Making:
    """What is done for one preemptor."""

    turns: list[Turn] = field(default_factory=list)
    """Of those that leave now."""
    copies: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> copies of the preemptor for which they make room."""
    notices: list[Notice] = field(default_factory=list)
    later_s: float | None = None
    """Seconds until those can leave that cannot now."""
    undecided: bool = False
    """Nothing can be said now: notices that were given stand."""
    counted: int = 0
    """Copies that count for the pace."""
    when: str = ""
    """When those leave that cannot now, as a part of a sentence."""


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
) -> Making:
    """For `missing` copies of a preemptor. `spared`: uids of those that cannot leave now. `lent`:
    as `rooms.victims` has it. `claimed`: cluster -> copies for which others have left."""
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
        return Making(undecided=True)
    victims = preempting.together(leavers)
    later = {uid: leaves for uid, leaves in victims.items() if notice.needed(leaves)}
    made, count = Making(), notice.counted(later.values())
    if later and (pending := notice.pending(later, entries, terms.tree, terms.now_s)):
        until_s = notice.until(pending)
        made.notices, made.later_s = pending, until_s - terms.now_s
        made.when = f"at {notice.moment(until_s)}, after its notice (spec.reclaimNoticeSeconds)"
    elif later and not terms.pace.allows(count):
        made.undecided, made.when = True, SOON
        made.later_s = terms.pace.next_s
    else:
        made.counted, later = count, {}
    now: Mapping[str, Eviction] = {uid: victims[uid] for uid in victims if uid not in later}
    if later and (ask.whole or ask.policy.require_all):
        now = {}  # a part would be of no use to it
    made.turns = [Turn(entries[uid], leaves.by.key, leaves) for uid, leaves in now.items()]
    going = (leaves for leaves in leavers if leaves.uid in now)
    made.copies = rooms.freed(going, ask, commitments, there)
    return made


def note(made: Making, preemptor: WorkloadKey, evictions: Evictions) -> None:
    """Counts it among what the cycle says of those that leave."""
    evictions.notices += made.notices
    evictions.counted += made.counted
    if made.undecided:
        evictions.undecided.add(preemptor)
    if made.later_s is not None:
        evictions.wait(preemptor, made.later_s)
