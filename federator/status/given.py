"""What a cluster was given, and what it says against that: its word is cut to its share before anything is made of it.

A member is untrusted. Whatever it reports of shards or copies that nobody gave it says nothing about the workload; what
no delay, roll-out or lost decision explains is a contradiction, which the hub holds against the cluster
(`hub/members/trust`). Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges

SHARDS_NOT_GIVEN: Final = "ShardsNotGiven"
"""It completes, fails or runs shards that were never its own."""
TOO_MANY_COPIES: Final = "TooManyCopies"
"""It reports copies far beyond what it was ever given."""
SEQ_NOT_ISSUED: Final = "SeqNotIssued"
"""It shows numbers of decisions that this host never made."""
BEYOND_BOUNDS: Final = "BeyondBounds"
"""It holds more objects of a kind, or larger ones, than is kept of any member."""
UNREADABLE: Final = "Unreadable"
"""What it says is beyond every bound of its schema."""

SURGE: Final = 2
"""Copies that exist beside a share, as a multiple of it: a roll-out may make as many new ones as there are old ones."""
SHOWN: Final = 4
"""Ranges that are named in evidence."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a cluster said that cannot be, with the evidence as a sentence."""

    reason: str
    message: str
    lasting: bool = False
    """A delay could explain it for a while: it counts when it stands for longer than that (`hub.members.trust`)."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one cluster was given of a workload: by the decision in force, and by those before as far as that one
    records it."""

    unit: Unit
    count: int = 0
    """Copies that its slice may have now: of its share, or of what it had before while the slice still says so."""
    ever: int = 0
    """The most copies that it may have had lately: a scale-down takes a while to be told."""
    ranges: Ranges = ()
    """Shards that are, or were, its own."""
    recorded: Ranges = ()
    """Shards that the host's status records as done: told again they are no news."""
    explained: bool = False
    """Something of ours explains whatever it says now: its slice is of a decision that is still to be heard of."""


def former(
    before: Mapping[str, Share], shares: Sequence[Share], now: Sequence[Share], gone: Collection[str]
) -> tuple[Share, ...]:
    """What a new decision (`now`) has to record of the ones before it: what clusters had and have no more. `before` is
    what the last one recorded, `shares` its shares; `gone` are clusters of which nothing is left, or whose slice is as
    small as their new share already."""
    present = {share.cluster: share for share in now}
    had = {share.cluster: share for share in shares}
    former_shares: list[Share] = []
    for cluster in sorted(before.keys() | had.keys()):
        ranges, count = _had(before.get(cluster), had.get(cluster))
        share = present.get(cluster)
        lost = shards.minus(ranges, shards.normal(share.ranges)) if share is not None else ranges
        fewer = share is None or count > share.count
        if cluster not in gone and (lost if ranges else fewer):
            former_shares.append(Share(cluster, shards.size(lost) if ranges else count, 0, 0, lost))
    return tuple(former_shares)


def _had(before: Share | None, share: Share | None) -> tuple[Ranges, int]:
    parts = [version for version in (before, share) if version is not None]
    return shards.normal(part for piece in parts for part in piece.ranges), max(piece.count for piece in parts)


def cut(seen: SliceObservation, given: Given) -> tuple[SliceObservation, tuple[Contradiction, ...]]:
    """What a cluster says, as far as it was given it, and what of it cannot be. Ready copies count up to the share;
    copies that exist may be twice as many while a roll-out replaces them."""
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
        unschedulable=min(seen.unschedulable, most),
    )
    # What the slice itself asks for is our word, or somebody's drift, which is put back: its copies are no lie.
    highest, asked = max(figures, seen.actual), max(given.ever, seen.desired)
    if given.explained or highest <= asked * SURGE + 1:
        return kept, ()
    message = f"it tells of {highest} copies, and was given {given.ever}"
    return kept, (Contradiction(TOO_MANY_COPIES, message, lasting=True),)


def fits(seen: SliceObservation, count: int) -> bool:
    """Whether a cluster that may have so many copies says nothing that would be cut."""
    running = max(seen.ready, seen.active, seen.unschedulable) <= count
    return running and seen.updated <= seen.actual <= count * SURGE


def _cut_shards(seen: SliceObservation, given: Given) -> tuple[SliceObservation, tuple[Contradiction, ...]]:
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
        return kept, (Contradiction(UNREADABLE, f"its status.{seen.unreadable} is no set of shards"),)
    strange = shards.minus(others, given.recorded)
    if given.explained:
        return kept, ()
    if strange:
        message = f"it tells of {shards.size(strange)} shards that it was never given ({_shown(strange)})"
        return kept, (Contradiction(SHARDS_NOT_GIVEN, message),)
    if figures > max(most, seen.desired):
        message = f"it tells of {figures} running shards, and was given {most}"
        return kept, (Contradiction(TOO_MANY_COPIES, message, lasting=True),)
    return kept, ()


def _shown(ranges: Ranges) -> str:
    more = f" and {len(ranges) - SHOWN} more ranges" if len(ranges) > SHOWN else ""
    return shards.text(ranges[:SHOWN]) + more
