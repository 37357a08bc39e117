"""Compares what a cluster reports with what it was given, and cuts the report to its share.

Members are not trusted. Reports about shards or copies that a cluster was never given count for
nothing. What no delay, rollout or lost decision explains is a contradiction, which the hub holds
against the cluster (`hub/members/trust`). Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges

SHARDS_NOT_GIVEN: Final = "ShardsNotGiven"
"""It completes, fails or runs shards that were never its own."""
TOO_MANY_COPIES: Final = "TooManyCopies"
"""It reports far more copies than it was ever given."""
SEQ_NOT_ISSUED: Final = "SeqNotIssued"
"""It has seqs of decisions that this host never made."""
BEYOND_BOUNDS: Final = "BeyondBounds"
"""It has more objects of a kind, or larger ones, than is kept of any member."""
UNREADABLE: Final = "Unreadable"
"""Its report violates every bound of the schema."""

SURGE: Final = 2
"""Copies that may exist, as a multiple of the share: a rollout may create as many new ones as there
are old ones."""
SHOWN: Final = 4
"""Most ranges listed as evidence."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A report that cannot be true, with the evidence as a sentence."""

    reason: str
    message: str
    lasting: bool = False
    """A delay could explain it for a while, so it counts only after that time
    (`hub.members.trust`)."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one cluster was given of a workload: by the decision in force, and by earlier ones as
    far as that one records them."""

    unit: Unit
    count: int = 0
    """Copies that its slice may have now: its share, or the former share while the slice still has
    it."""
    ever: int = 0
    """The most copies it may have had lately: a scale-down takes a while to be reported."""
    ranges: Ranges = ()
    """Shards that are, or were, its own."""
    recorded: Ranges = ()
    """Shards that the host's status records as done; reporting them again is no contradiction."""
    explained: bool = False
    """A cause of our own explains any report: its slice is of a decision that has not been read
    yet."""


def former(
    before: Mapping[str, Share],
    shares: Iterable[Share],
    now: Iterable[Share],
    gone: Collection[str],
    *,
    by_index: bool = True,
    seq: int = 0,
) -> tuple[Share, ...]:
    """What a new decision (`now`) must record of earlier ones: what clusters had and no longer
    have.

    `before`: what the last decision recorded; `shares`: its shares. `gone`: clusters with nothing
    left, or with a slice that is already as small as the new share. `by_index`: for shards. Of
    ordinals only the number counts, as of interchangeable copies. `seq`: of the last decision;
    recorded with copies that the new one takes.
    """
    if not by_index:
        shares, now = map(_counted, shares), tuple(map(_counted, now))
    present = {share.cluster: share for share in now}
    had = {share.cluster: share for share in shares}
    former_shares: list[Share] = []
    for cluster in sorted(before.keys() | had.keys()):
        ranges, count = _had(before.get(cluster), had.get(cluster))
        share = present.get(cluster)
        lost = shards.minus(ranges, shards.normal(share.ranges)) if share is not None else ranges
        fewer = share is None or count > share.count
        if cluster not in gone and (lost if ranges else fewer):
            since = 0 if by_index else before[cluster].seq if cluster in before else seq
            size = shards.size(lost) if ranges else count
            former_shares.append(Share(cluster, size, 0, since, lost))
    return tuple(former_shares)


def _counted(share: Share) -> Share:
    return structs.replace(share, ranges=()) if share.ranges else share


def _had(before: Share | None, share: Share | None) -> tuple[Ranges, int]:
    parts = [version for version in (before, share) if version is not None]
    return shards.normal(part for piece in parts for part in piece.ranges), max(
        piece.count for piece in parts
    )


def cut(seen: SliceObservation, given: Given) -> tuple[SliceObservation, tuple[Contradiction, ...]]:
    """The report cut to what the cluster was given, and the contradictions in it. Ready copies
    count up to the share; twice as many may exist while a rollout replaces them.

        given 10, reports 25 ready and 25 existing: counted 10 ready, 20 existing; 25 > 2 * 10 + 1
        is a contradiction
    """
    if given.unit is Unit.SHARDS:
        return _cut_shards(seen, given)
    most = given.count
    if fits(seen, most):
        return seen, ()
    figures = max(seen.ready, seen.active, seen.unschedulable)
    actual = min(seen.actual, most * SURGE)
    kept = replace(
        seen,
        ready=min(seen.ready, most),
        actual=actual,
        updated=min(seen.updated, actual),
        active=min(seen.active, most),
        idle=min(seen.idle, most),
        unschedulable=min(seen.unschedulable, most),
    )
    # What the slice itself asks for is from us, or drift that is restored: its copies are
    # plausible.
    highest, asked = max(figures, seen.actual), max(given.ever, seen.desired)
    if given.explained or highest <= asked * SURGE + 1:
        return kept, ()
    message = f"it tells of {highest} copies, and was given {given.ever}"
    return kept, (Contradiction(TOO_MANY_COPIES, message, lasting=True),)


def fits(seen: SliceObservation, count: int) -> bool:
    """Whether nothing in the report of a cluster with `count` copies would be cut."""
    running = max(seen.ready, seen.active, seen.unschedulable) <= count
    return running and seen.updated <= seen.actual <= count * SURGE


def _cut_shards(
    seen: SliceObservation, given: Given
) -> tuple[SliceObservation, tuple[Contradiction, ...]]:
    mine, most = given.ranges, shards.size(given.ranges)
    reported = shards.union(seen.completed, seen.failed)
    others = shards.minus(reported, mine)
    figures = max(seen.ready, seen.actual, seen.active, seen.unschedulable)
    if not others and figures <= most and not seen.unreadable:
        return seen, ()
    kept = replace(
        seen,
        completed=shards.intersect(seen.completed, mine),
        failed=shards.intersect(seen.failed, mine),
        ready=min(seen.ready, most),
        actual=min(seen.actual, most),
        active=min(seen.active, most),
        unschedulable=min(seen.unschedulable, most),
    )
    if seen.unreadable:
        return kept, (
            Contradiction(UNREADABLE, f"its status.{seen.unreadable} is no set of shards"),
        )
    strange = shards.minus(others, given.recorded)
    if given.explained:
        return kept, ()
    if strange:
        message = (
            f"it tells of {shards.size(strange)} shards that it was never given ({_shown(strange)})"
        )
        return kept, (Contradiction(SHARDS_NOT_GIVEN, message),)
    if figures > max(most, seen.desired):
        message = f"it tells of {figures} running shards, and was given {most}"
        return kept, (Contradiction(TOO_MANY_COPIES, message, lasting=True),)
    return kept, ()


def _shown(ranges: Ranges) -> str:
    more = f" and {len(ranges) - SHOWN} more ranges" if len(ranges) > SHOWN else ""
    return shards.text(ranges[:SHOWN]) + more
