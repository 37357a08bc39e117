"""The evictions of a cycle, and the decisions on their victims.

Victims are decided on first in a cycle. The preemptor gets what they free in a later cycle: room is
given only when reports show it free."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model import plaintext
from federator.model.ask import Ask, Unit
from federator.model.decision import TAKES, Decision, Preempted, Reason
from federator.model.fleet import Commitment, Holding, copies_of, remaining
from federator.model.names import WorkloadKey
from federator.placement.quota.quota import BY_QUOTA, Admission
from federator.placement.quota.tree import Tree
from federator.placement.room.commitments import Commitments
from federator.placement.selection.leaving import everywhere
from federator.scheduling.admission import notice
from federator.scheduling.admission.nominating import Nominations
from federator.scheduling.admission.notice import Notice, Pace
from federator.scheduling.admission.stage import Admissions, Eviction
from federator.scheduling.entry import Entry
from federator.scheduling.waiting.room_claims import WAITS_S
from federator.scheduling.write_order import Decided

APART: Final = "not now: other workloads that begin before it keep it away"
BUSY: Final = "a victim is being decided on, or is evicted for another workload"
MOMENT_S: Final = 1.0
"""The least wait of a preemptor that waits for a moment."""
Find = Callable[[WorkloadKey], Entry | None]
"""The entry of a workload that is not due; None when no decision may be made on it now."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision of a cycle."""

    entry: Entry
    beneficiary: WorkloadKey
    """The preemptor of a victim; otherwise the workload itself."""
    eviction: Eviction | None = None
    """The copies that it gives up for a preemptor; None unless it is a victim."""
    within: tuple[str, ...] | None = None
    """The clusters in which it gets quota; None for all."""


def nobody(_: WorkloadKey) -> Entry | None:
    """Only workloads that are due may be victims."""
    return None


@dataclass(slots=True)
class Evictions:
    """The evictions of this cycle, and the notices of later ones."""

    turns: list[Turn] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    later: dict[WorkloadKey, float] = field(default_factory=dict)
    """Preemptors that wait for a moment -> seconds until then."""
    undecided: set[WorkloadKey] = field(default_factory=set)
    """Preemptors of which nothing can be said now: notices for them stand."""
    counted: int = 0
    """Evicted copies that count for the pace."""

    def wait(self, preemptor: WorkloadKey, seconds: float) -> None:
        """It is looked at again then at the latest."""
        self.later[preemptor] = min(self.later.get(preemptor, math.inf), max(seconds, MOMENT_S))


@dataclass(frozen=True, slots=True)
class Terms:
    """What bounds when copies may be evicted."""

    tree: Tree
    now_s: float
    pace: Pace


def accepted(
    staged: Admissions,
    due: dict[WorkloadKey, Turn],
    commitments: Commitments,
    find: Find,
    terms: Terms,
    *,
    nominations: Nominations,
) -> Evictions:
    """The turns of the victims; a victim that is due loses its own turn. A workload is the victim
    of one preemptor in a cycle. All victims of a preemptor are evicted in one cycle, or none: their
    copies would stop for a preemptor that cannot start yet. The preemptors are nominated to
    clusters."""
    entries = _entries(staged, due, commitments, find)
    chosen: dict[str, Eviction] = {}
    evictions, pace = Evictions(), terms.pace
    evictions.later |= {ask.key: MOMENT_S for ask in staged.later}
    evictions.later |= {ask.key: max(terms.pace.budgets.next_s, MOMENT_S) for ask in staged.slowed}
    for preemptor in dict.fromkeys(eviction.by.uid for eviction in staged.evictions):
        victims = by_victim(
            eviction for eviction in staged.evictions if eviction.by.uid == preemptor
        )
        key, count = next(iter(victims.values())).by.key, notice.counted(victims.values())
        if any(uid in chosen or uid not in entries for uid in victims):
            evictions.undecided.add(key)
            if find is not nobody:
                # A victim that cannot be written now says nothing when it can be.
                evictions.later[key] = MOMENT_S
                _wait(preemptor, staged, f"not now: {BUSY}")
        # Notice before pace: time of a notice passes while the pace is used up by others.
        elif pending := notice.pending(victims, entries, terms.tree, terms.now_s):
            evictions.notices += pending
            evictions.later[key] = max(notice.until(pending) - terms.now_s, MOMENT_S)
            at = plaintext.moment(notice.until(pending))
            _wait(preemptor, staged, f"at {at}, after their notice (spec.reclaimNoticeSeconds)")
        elif not pace.allows(count):
            evictions.undecided.add(key)
            evictions.later[key] = max(pace.next_s, MOMENT_S)
            _wait(preemptor, staged, notice.PACED)
        # Last, because it nominates: a preemptor without evictions may keep nobody away.
        elif not nominations.accepts(next(iter(victims.values())).by, victims.values()):
            evictions.undecided.add(key)
            evictions.later[key] = MOMENT_S
            _wait(preemptor, staged, APART)
        else:
            chosen |= victims
            evictions.counted += count
            pace = pace.less(count)
    # One decision for each workload and cycle: an eviction replaces the victim's own turn.
    for uid in chosen:
        due.pop(entries[uid].key, None)
    evictions.turns = [
        Turn(entries[uid], eviction.by.key, eviction) for uid, eviction in chosen.items()
    ]
    return evictions


def _entries(
    staged: Admissions, due: Mapping[WorkloadKey, Turn], commitments: Commitments, find: Find
) -> dict[str, Entry]:
    """By uid, the entries of the victims that can be decided on now."""
    entries: dict[str, Entry] = {}
    for eviction in staged.evictions:
        commitment = commitments.commitment(eviction.uid)
        if commitment is None or eviction.uid in entries:
            continue
        turn = due.get(commitment.key)
        entry = turn.entry if turn is not None else find(commitment.key)
        # The uid: meanwhile another object may have the name of the victim.
        if entry is not None and entry.ask.uid == eviction.uid and not _unsafe(entry):
            entries[eviction.uid] = entry
    return entries


def by_victim(every: Iterable[Eviction]) -> dict[str, Eviction]:
    """By uid of the victim, its evictions in several domains as one."""
    victims: dict[str, Eviction] = {}
    for eviction in every:
        before = victims.get(eviction.uid)
        if before is None:
            victims[eviction.uid] = eviction
            continue
        clusters = {**before.clusters}
        for name, copies in eviction.clusters.items():
            clusters[name] = clusters.get(name, 0) + copies
        victims[eviction.uid] = replace(
            before, copies=before.copies + eviction.copies, clusters=clusters
        )
    return victims


def _wait(preemptor: str, staged: Admissions, when: str) -> None:
    """Adds to the message of a preemptor without evictions in this cycle when they follow."""
    for said in (staged.rulings, staged.held_back):
        if preemptor in said:
            said[preemptor] = replace(said[preemptor], message=f"{said[preemptor].message}, {when}")


def claims(
    decided: Iterable[Decided],
    evictions: Evictions,
    before: Mapping[WorkloadKey, Entry],
    ending: Container[str],
    now_s: float,
) -> dict[WorkloadKey, Entry]:
    """The preemptors that were decided, with what they hold after this cycle; and earlier
    preemptors while they lack room: it is not seen free yet, or not enough of it for a copy, or for
    all where fewer are of no use. Without a claim the victims would take the room back piece by
    piece, and be preempted again, without end. `before`: the claims so far. `ending`: uids of those
    that have quota when pods that are terminating have ended. Their claims last as long, whatever
    else their decisions say."""
    if not (evictions.turns or before):
        return {}
    # A claim that lapses is no hint: the victims would be back immediately, and be preempted again
    # when the preemptor is retried.
    preemptors = {turn.beneficiary for turn in evictions.turns}
    made: dict[WorkloadKey, Entry] = {}
    for preemptor in decided:
        claim = before.get(preemptor.key)
        until_s = claim.claims_until_s if claim is not None else 0.0
        ends = claim is not None and preemptor.decision.uid in ending
        if preemptor.key in preemptors or ends:
            until_s = now_s + WAITS_S
        elif until_s <= now_s or preemptor.decision.reason is not Reason.INSUFFICIENT_CAPACITY:
            continue
        standing = replace(preemptor.entry.standing, held=holdings(preemptor.after))
        made[preemptor.key] = replace(preemptor.entry, standing=standing, claims_until_s=until_s)
    return made


def holdings(after: Commitment) -> tuple[Holding, ...]:
    """What a decision gave."""
    return tuple(
        Holding(given.cluster, given.count, given.slots, given.seq, given.ranges)
        for given in after.holdings
    )


def _unsafe(entry: Entry) -> bool:
    """Whether what it holds is not known well enough to take from it."""
    return entry.native or entry.standing.overtaken


def shrunk(entry: Entry, eviction: Eviction) -> Ask:
    """What is left of the ask without the evicted copies: fewer shards of a job set run at once.
    Copies beyond what the ask wants now are evicted first. Duplicate services and daemons are
    bounded instead (`bounded`)."""
    ask = entry.ask
    if _is_bounded(entry, eviction):
        return ask
    left = _left(entry, eviction)
    if eviction.whole or (ask.unit is Unit.SHARDS and not left):
        return replace(ask, suspended=True)
    if ask.unit is Unit.SHARDS:
        return replace(ask, slots=min(left, ask.slots))
    return replace(ask, count=min(left, ask.count))


def bounded(
    entry: Entry, eviction: Eviction, rulings: Mapping[str, Admission]
) -> Mapping[str, Admission]:
    """The rulings, with a lower one for a Duplicate service or a daemon: a smaller count would take
    as many copies from each cluster, and so evict more than necessary."""
    if not _is_bounded(entry, eviction):
        return rulings
    return {**rulings, entry.ask.uid: Admission(_left(entry, eviction), Reason.PREEMPTED)}


def _is_bounded(entry: Entry, eviction: Eviction) -> bool:
    return everywhere(entry.ask) and not eviction.whole


def _left(entry: Entry, eviction: Eviction) -> int:
    done = entry.standing.done
    held = sum(copies_of(remaining(holding, done)) for holding in entry.standing.held)
    return max(held - eviction.copies, 0)


def capped(entry: Entry, eviction: Eviction) -> Entry:
    """The entry with its clusters capped at what they keep, so that copies leave the clusters of
    the eviction. What a former policy gave each cluster beyond the count does not stay."""
    standing, held = entry.standing, dict[str, int]()
    if standing.recorded is not None and standing.recorded.per_cluster:
        standing = replace(standing, recorded=replace(standing.recorded, per_cluster=0))
        entry = replace(entry, standing=standing)
    for holding in standing.held:
        held[holding.cluster] = copies_of(remaining(holding, standing.done))
    most = {name: held.get(name, 0) - copies for name, copies in eviction.clusters.items()}
    if not most:
        return entry
    return replace(entry, standing=replace(standing, capped={**standing.capped, **most}))


def room_entries(
    leavers: Sequence[Eviction], commitments: Commitments, find: Find
) -> dict[str, Entry] | None:
    """By uid, the entries of the victims of a preemptor without room; None when not all can be
    decided on now."""
    entries = dict[str, Entry]()
    for uid in dict.fromkeys(eviction.uid for eviction in leavers):
        commitment = commitments.commitment(uid)
        entry = find(commitment.key) if commitment is not None else None
        if entry is None or entry.ask.uid != uid or _unsafe(entry):
            return None
        entries[uid] = entry
    return entries


def saying_room_preemption(decision: Decision, when: str = "", *, lent: bool = False) -> Decision:
    """The decision of a preemptor, with a message that names the evictions. `when` those follow
    that need a notice. `lent`: by the failover buffers of clusters."""
    by = "spec.failoverBuffer of the clusters" if lent else "spec.preemption.room"
    now = f"work of others leaves for it, and its room is not seen free yet ({by})"
    then = f"work of tier OnDemand leaves for it (spec.preemption.room) {when}"
    message = f"{decision.message}; it{TAKES}: {then if when else now}"
    return replace(decision, message=message)


def naming_victims(made: Decided, evictions: Evictions, staged: Admissions) -> Decided:
    """The decision of a preemptor with victims that leave now says so, also where it has even less
    room than quota, which is the reason then."""
    ruling = staged.rulings.get(made.entry.ask.uid)
    if ruling is None or all(turn.beneficiary != made.key for turn in evictions.turns):
        return made
    decision = made.decision
    if TAKES not in ruling.message or TAKES in decision.message:
        return made
    return replace(
        made, decision=replace(decision, message=f"{decision.message}; {ruling.message}")
    )


def on_whole_ask(decision: Decision, entry: Entry, ask: Ask, eviction: Eviction) -> Decision:
    """The decision under the shrunk ask, as one on the whole ask that says why copies are
    missing."""
    more, by, copies = entry.ask.count - ask.count, eviction.by, eviction.copies
    before = entry.standing.recorded.preempted if entry.standing.recorded is not None else None
    copies += before.copies if before is not None and before.by == by.key else 0
    if _is_bounded(entry, eviction):  # the engine counted these as kept, and as missing
        twice = min(eviction.copies, decision.held)
        decision, more = replace(decision, held=decision.held - twice), -twice
    return as_preempted(
        replace(
            decision,
            wanted=decision.wanted + more,
            shortfall=decision.shortfall + more,
            under=None
            if decision.under is None
            else replace(decision.under, count=entry.ask.count),
        ),
        Preempted(by.key, by.project, eviction.why, copies),
        "",
    )


def still_preempted(decision: Decision, entry: Entry) -> Decision:
    """A later decision repeats an eviction until the workload has its copies back."""
    recorded = entry.standing.recorded
    if recorded is None or recorded.preempted is None:
        return decision
    gone = recorded.preempted
    by_room = gone.of_room and decision.reason is Reason.INSUFFICIENT_CAPACITY
    if decision.reason not in BY_QUOTA and not by_room:
        return decision
    if entry.ask.unit is Unit.REPLICAS:
        gone = replace(gone, copies=min(gone.copies, decision.shortfall))
    return as_preempted(decision, gone, decision.message)


def as_preempted(decision: Decision, preempted: Preempted, why: str) -> Decision:
    noun = "copy" if preempted.copies == 1 else "copies"
    message = (
        f"{preempted.copies} {noun} left for {preempted.by} of project {preempted.project}"
        f" ({preempted.why})"
    )
    if why:
        message = f"{message}; {why}"
    return replace(decision, reason=Reason.PREEMPTED, message=message, preempted=preempted)
