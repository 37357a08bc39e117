"""Evacuation of clusters: which workloads may leave, in which order and at which pace. Pure.

`pace` orders those that are there and gives turns within the budget; `rehearse` asks the scheduling
cycle where all of them would go. The hub's drains, `federator cluster drain --dry-run` and the
simulator's events call these and nothing else.

Two bounds hold over all clusters together: copies that get another place in a minute, and as many
that still wait for their replacements to be ready. What cannot become ready elsewhere thereby stops
the evacuation instead of being followed by the rest.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from federator.model.ask import Tier
from federator.model.decision import Decision
from federator.model.fleet import FleetSnapshot, copies_of
from federator.model.names import WorkloadKey
from federator.placement.room.commitments import Commitments
from federator.placement.selection.leaving import everywhere
from federator.scheduling import cycle
from federator.scheduling.admission import preempting
from federator.scheduling.admission.preempting import Find, nobody
from federator.scheduling.entry import Entry
from federator.scheduling.queue import Queue
from federator.scheduling.write_order import Decided

MINUTE_S: Final = 60.0
PORTION_S: Final = 5.0
"""In so many seconds no more than their part of a minute's budget goes: turns come evenly."""
ORDINALS: Final = "--leave leaves them there, and spec.release of the workload gives them up"
"""What a person can do about ordinals, which no drain moves, as a part of a sentence."""
REMOVED_ORDINALS: Final = ORDINALS.replace("--leave", "--force")
"""The same where the cluster is drained to be removed."""
_RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A workload with copies in clusters that are being emptied."""

    key: WorkloadKey
    tier: Tier
    priority: int
    copies: int
    """What its decision gives these clusters."""
    under_way: int = 0
    """Copies that are there still and have a place elsewhere by its decision."""
    ready: int = 0
    """Ready copies in all clusters."""
    wanted: int = 1
    whole: bool = False
    """A job set: what one cluster has of it leaves together, because a moved shard starts again."""
    stays: str = ""
    """Why it may not leave now, as a part of a sentence; "" when it may."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Copies that got another place at a time."""

    at_s: float
    copies: int


@dataclass(frozen=True, slots=True)
class Evacuation:
    """A workload of which so many copies may get another place now."""

    key: WorkloadKey
    copies: int


@dataclass(frozen=True, slots=True)
class Waits:
    """A workload of which so many copies may not, and why, as a part of a sentence."""

    key: WorkloadKey
    copies: int
    why: str
    stays: bool = False
    """It is not the pace that holds it."""


@dataclass(frozen=True, slots=True)
class EvacuationPlan:
    """The workloads that go now and those that wait, both in order."""

    turns: tuple[Evacuation, ...]
    waits: tuple[Waits, ...]
    left: int
    """Copies that are still in the clusters."""
    under_way: int


def pace(
    occupants: Iterable[Occupant], a_minute: int, history: Sequence[Moved], now_s: float
) -> EvacuationPlan:
    """Turns within the budget. Reserved goes first, then by priority, then the workload with the
    smallest part of its copies ready.

        300 a minute; 40 moved in the last minute, 15 of them in the last five seconds; 20 under
        way: min(300 - 40, 25 - 15, 300 - 20) = 10 may go now
    """
    queue = sorted(occupants, key=_order)
    under_way = sum(occupant.under_way for occupant in queue)
    budgets = (
        (
            a_minute - _since(history, now_s - MINUTE_S),
            f"more than {a_minute} a minute do not move",
        ),
        (
            # Rounded up, so that a budget of a few copies a minute moves one at all.
            -int(-a_minute * PORTION_S // MINUTE_S) - _since(history, now_s - PORTION_S),
            f"they move evenly, {a_minute} a minute",
        ),
        (
            a_minute - under_way,
            f"{under_way} that got another place wait for their replacements to be ready",
        ),
    )
    budget, why = min(budgets, key=lambda budget: budget[0])
    turns: list[Evacuation] = []
    waits: list[Waits] = []
    for occupant in queue:
        if occupant.copies <= 0:
            continue
        if occupant.stays:
            waits.append(Waits(occupant.key, occupant.copies, occupant.stays, stays=True))
            continue
        may = (
            # A whole job set goes beyond the budget: the rest of it could not run without what
            # left.
            (occupant.copies if occupant.whole else min(occupant.copies, budget))
            if budget > 0
            else 0
        )
        if may:
            turns.append(Evacuation(occupant.key, may))
            budget -= may
        if may < occupant.copies:
            waits.append(Waits(occupant.key, occupant.copies - may, why))
    return EvacuationPlan(
        tuple(turns),
        tuple(waits),
        sum(occupant.copies + occupant.under_way for occupant in queue),
        under_way,
    )


def rank(tier: Tier, priority: int) -> tuple[int, int]:
    """Sort key: the order by tier and priority."""
    return _RANK[tier], -priority


def _order(occupant: Occupant) -> tuple[tuple[int, int], Fraction, WorkloadKey]:
    return (
        rank(occupant.tier, occupant.priority),
        Fraction(occupant.ready, max(occupant.wanted, 1)),
        occupant.key,
    )


def _since(history: Sequence[Moved], since_s: float) -> int:
    return sum(moved.copies for moved in history if moved.at_s > since_s)


def emptied(snapshot: FleetSnapshot, clusters: Collection[str]) -> FleetSnapshot:
    views = {
        name: replace(view, draining=True) if name in clusters else view
        for name, view in snapshot.clusters.items()
    }
    return replace(snapshot, clusters=views)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Where one workload would be, without regard to the pace."""

    key: WorkloadKey
    decision: Decision | None
    """None when it cannot be decided."""
    before: int
    """Copies that it has in the clusters now and that are to move. Those of daemons, and of
    services of which each cluster has all copies, end there instead."""
    stays: int
    """Copies that would stay there for want of another place."""
    why: str
    """Why these stay, as a sentence; "" when none does."""
    numbered: bool = False
    """Its copies are ordinals, which no drain moves."""


def rehearse(
    entries: Sequence[Entry],
    snapshot: FleetSnapshot,
    commitments: Commitments,
    clusters: Collection[str],
    seq: Callable[[], int],
    *,
    others: Find = nobody,
) -> list[Rehearsed]:
    """What the cycle would decide if these clusters were emptied, all at once. What it gives is
    charged to `commitments`, a copy of the caller's, so that the next call decides above it.

    `others` finds the victims of one of these. What these victims free counts as its place. A
    victim that is asked for later has left already."""
    fleet = emptied(snapshot, clusters)
    left = (_as_left(entry, commitments) for entry in entries)
    unpaced = [replace(entry, leave=None, may_leave=None) for entry in left]

    def find(key: WorkloadKey) -> Entry | None:
        entry = others(key)
        return None if entry is None else _as_left(entry, commitments)

    made = cycle.run(unpaced, Queue(), fleet, commitments, seq=seq, find=find)
    rehearsed: list[Rehearsed] = []
    late: list[tuple[int, Decided]] = []
    for decided in made.decided:
        commitments.assume(decided.after)
        if decided.beneficiary != decided.key:
            continue  # it leaves for another
        before = _moving(decided.entry, clusters)
        stays = sum(
            copies_of(share) for share in decided.decision.shares if share.cluster in clusters
        )
        claim = made.room_claims.get(decided.key)
        # Others leave for it there, so it would have a place a moment later.
        stays -= min(stays, claim.total) if claim is not None else 0
        if stays and made.room_claims:
            late.append((len(rehearsed), decided))
        before = max(before, stays)
        why = (decided.decision.message or "it has no other place") if stays else ""
        numbered = decided.entry.ask.ordinals is not None
        rehearsed.append(Rehearsed(decided.key, decided.decision, before, stays, why, numbered))
    for entry in entries:
        if (bug := made.failed.get(entry.key)) is not None:
            before = _moving(entry, clusters)
            rehearsed.append(
                Rehearsed(entry.key, None, before, before, f"it cannot be decided: {bug}")
            )
    for at, decided in late:
        stays = rehearsed[at].stays
        run = functools.partial(cycle.run, snapshot=fleet, commitments=commitments, seq=seq)
        stays -= _later(decided, stays, functools.partial(run, find=find), commitments)
        why = rehearsed[at].why if stays else ""
        rehearsed[at] = replace(rehearsed[at], stays=stays, why=why)
    return rehearsed


def _moving(entry: Entry, clusters: Collection[str]) -> int:
    """Copies in these clusters that are to have another place."""
    if entry.ask.shape.every_node or everywhere(entry.ask):
        return 0
    return sum(copies_of(held) for held in entry.standing.held if held.cluster in clusters)


def _later(
    decided: Decided, stays: int, run: Callable[..., cycle.Cycle], commitments: Commitments
) -> int:
    """For how many of its copies that stay others leave in later cycles: in one cycle nobody leaves
    for two."""
    standing = replace(decided.entry.standing, held=preempting.holdings(decided.after))
    entry, left = replace(decided.entry, standing=standing), stays
    while left:
        made = run([replace(entry, may_leave=left)], Queue())
        claim = made.room_claims.get(decided.key)
        if claim is None or not claim.total:
            break
        left -= min(claim.total, left)
        for other in made.decided:
            if other.beneficiary != other.key:
                commitments.assume(other.after)
    return stays - left


def _as_left(entry: Entry, commitments: Commitments) -> Entry:
    """The entry without the copies that have left for others since, as far as they are charged."""
    held = commitments.commitment(entry.ask.uid)
    if entry.ask.tier is not Tier.PREEMPTIBLE or held is None:
        return entry
    if held.copies >= sum(map(copies_of, entry.standing.held)):
        return entry
    return replace(entry, standing=replace(entry.standing, held=preempting.holdings(held)))


def anew(
    entry: Entry, snapshot: FleetSnapshot, commitments: Commitments, seq: Callable[[], int]
) -> Decision | None:
    """What the cycle would decide if all copies might move at once; None for a bug. Nothing is
    charged."""
    made = cycle.run([replace(entry, leave=None)], Queue(), snapshot, commitments, seq=seq)
    return made.decided[0].decision if made.decided else None
