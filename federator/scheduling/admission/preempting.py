"""Decisions on those that leave so that others get their quota.

They are made first in a cycle. What they free is the winner's in the next cycle: room is taken only
once it is seen free.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Preempted, Reason
from federator.model.fleet import copies_of, remaining
from federator.model.names import WorkloadKey
from federator.placement.quota.quota import BY_QUOTA
from federator.placement.room.commitments import Commitments
from federator.scheduling.admission.stage import Leaves, Staged
from federator.scheduling.entry import Entry

Find = Callable[[WorkloadKey], Entry | None]
"""The entry of a workload that is not due; None when no decision may be made on it now."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision of a cycle."""

    entry: Entry
    sake: WorkloadKey
    leaves: Leaves | None = None
    """What it gives up for another."""
    within: tuple[str, ...] | None = None
    """The clusters in which it gets quota; None for all."""


def nobody(_: WorkloadKey) -> Entry | None:
    """Only those that are due may be told to leave."""
    return None


def turns(
    staged: Staged, due: dict[WorkloadKey, Turn], commitments: Commitments, find: Find
) -> list[Turn]:
    """The turns of all that leave; those that are due lose their own. A winner for which not all
    can be told now waits, and nobody leaves for it."""
    entries: dict[str, Entry] = {}
    for leaves in staged.leaving:
        commitment = commitments.commitment(leaves.uid)
        if commitment is None:
            continue
        turn = due.get(commitment.key)
        entry = turn.entry if turn is not None else find(commitment.key)
        if entry is not None and entry.ask.uid == leaves.uid and not _unsafe(entry):
            entries[leaves.uid] = entry
    barred = {leaves.by.uid for leaves in staged.leaving if leaves.uid not in entries}
    made: list[Turn] = []
    for leaves in staged.leaving:
        if leaves.by.uid in barred:
            continue
        entry = entries[leaves.uid]
        due.pop(entry.key, None)
        made.append(Turn(entry, leaves.by.key, leaves))
    return made


def _unsafe(entry: Entry) -> bool:
    """Whether what it holds is not known well enough to take from it."""
    return entry.native or entry.standing.overtaken


def shrunk(entry: Entry, leaves: Leaves) -> Ask:
    """What is left of the ask when so many copies leave."""
    ask = entry.ask
    if leaves.whole or ask.unit is Unit.SHARDS:
        return replace(ask, suspended=True)
    done = entry.standing.done
    held = sum(copies_of(remaining(holding, done)) for holding in entry.standing.held)
    return replace(ask, count=max(min(held, ask.count) - leaves.copies, 0))


def on_whole_ask(decision: Decision, entry: Entry, ask: Ask, leaves: Leaves) -> Decision:
    """The decision under the shrunk ask, as one on the whole ask that says why copies are
    missing."""
    more = entry.ask.count - ask.count
    by = leaves.by
    before = entry.standing.recorded.preempted if entry.standing.recorded is not None else None
    copies = leaves.copies + (before.copies if before is not None and before.by == by.key else 0)
    return saying(
        replace(
            decision,
            wanted=decision.wanted + more,
            shortfall=decision.shortfall + more,
            under=None
            if decision.under is None
            else replace(decision.under, count=entry.ask.count),
        ),
        Preempted(by.key, by.project, leaves.why, copies),
        "",
    )


def still(decision: Decision, entry: Entry) -> Decision:
    """A later decision on what left and has not come back says so still."""
    recorded = entry.standing.recorded
    if recorded is None or recorded.preempted is None or decision.reason not in BY_QUOTA:
        return decision
    return saying(decision, recorded.preempted, decision.message)


def saying(decision: Decision, preempted: Preempted, why: str) -> Decision:
    noun = "copy" if preempted.copies == 1 else "copies"
    message = (
        f"{preempted.copies} {noun} left for {preempted.by} of project {preempted.project}"
        f" ({preempted.why})"
    )
    if why:
        message = f"{message}; {why}"
    return replace(decision, reason=Reason.PREEMPTED, message=message, preempted=preempted)
