"""The decision of a job set with shards that may not run in two clusters at once: stop, be sure,
start.

The engine divides as for any other job set. A shard that it takes from one cluster for another is
given to nobody at first: it is recorded as one that may still run where it was (`may_run`), until
that cluster has shown that nothing of the workload is left in it, or a person said that nothing
runs there any more (`federator fence`). Only then another cluster gets it. A silent cluster keeps
its shards for as long as no person says otherwise, because nobody else can know; but those that
guards in their pods stop (`Ask.guarded`) have ended when the lease of their cluster is over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from federator.model import seq as seqs
from federator.model import shards
from federator.model.ask import Ask
from federator.model.decision import Decision, Reason, Share, Verdict
from federator.model.fleet import Commitment, FleetSnapshot, Holding, copies_of
from federator.model.shards import Ranges
from federator.placement.request import Divide, MayRun, Request
from federator.placement.selection import filters

NAMED: Final = 3
"""Clusters that a message names."""


def decide(ask: Ask, request: Request, divide: Divide) -> Decision:
    """`divide` for a workload that is `exclusive`, and charges the ledger."""
    ledger, seq, finished = request.ledger, request.seq, request.finished
    before = ledger.mark()
    made = divide(ask, request)
    mine = {holding.cluster: holding for holding in request.held}
    busy = _busy(ask, mine, request.may_run, request.snapshot, finished)
    shares = tuple(
        given
        for share in made.shares
        if (given := _given(share, mine.get(share.cluster), busy, finished)) is not None
    )
    after = _left_behind(busy, shares)
    if shares == made.shares:
        return replace(made, may_run=after)
    numbered = tuple(
        _numbered(share, mine.get(share.cluster), seqs.above(request.mark(share.cluster), seq))
        for share in shares
    )
    ledger.rollback(before)
    commitment = Commitment.of(ask, numbered, finished)
    grown = {
        holding.cluster: copies_of(holding) - _copies(mine.get(holding.cluster), finished)
        for holding in commitment.holdings
    }
    ledger.commit(commitment, {name: more for name, more in grown.items() if more > 0})
    return _worded(made, mine, numbered, after, seq, finished)


def _busy(
    ask: Ask,
    mine: Mapping[str, Holding],
    may_run: MayRun,
    snapshot: FleetSnapshot,
    finished: Ranges,
) -> dict[str, Ranges]:
    """Cluster -> shards that may run there now. Nothing runs in a fenced cluster, and nothing
    guarded in one with an expired lease. A cluster that left the fleet is not waited for: a person
    took it out."""
    busy: dict[str, Ranges] = {}
    for name in sorted({*mine, *may_run}):
        view = snapshot.clusters.get(name)
        if view is None or filters.ended(ask, view):
            continue
        has = shards.normal(mine[name].ranges) if name in mine else ()
        there = shards.minus(shards.union(has, may_run.get(name, ())), finished)
        if there:
            busy[name] = there
    return busy


def _given(
    share: Share, former: Holding | None, busy: Mapping[str, Ranges], finished: Ranges
) -> Share | None:
    """The share without shards that it has not had and that may run elsewhere; None when nothing
    is left of it. A cluster that gives up what it has to run gives up all: that its slice is gone
    is what shows that nothing runs there any more."""
    has = shards.normal(former.ranges) if former is not None else ()
    # Finished shards alone are no reason to keep the slice.
    if shards.minus(has, finished) and not shards.minus(share.ranges, finished):
        return None
    # Its own shards never block a cluster: they run where they are.
    elsewhere = shards.normal(
        piece for name, ranges in busy.items() if name != share.cluster for piece in ranges
    )
    blocked = shards.intersect(shards.minus(share.ranges, has), elsewhere)
    if not blocked:
        return share
    ranges = shards.minus(share.ranges, blocked)
    if not ranges:
        return None
    # Slots for shards that are not given yet would be charged without use.
    slots = min(share.slots, shards.size(shards.minus(ranges, finished)))
    if former is not None and slots == _copies(former, finished) and ranges == has:
        slots = former.slots  # the smaller number would change nothing
    return structs.replace(share, ranges=ranges, count=shards.size(ranges), slots=slots)


def _left_behind(busy: Mapping[str, Ranges], shares: Sequence[Share]) -> dict[str, Ranges]:
    """Where shards may run that the cluster's share does not have."""
    has = {share.cluster: shards.normal(share.ranges) for share in shares}
    left = {name: shards.minus(ranges, has.get(name, ())) for name, ranges in busy.items()}
    return {name: ranges for name, ranges in left.items() if ranges}


def _numbered(share: Share, former: Holding | None, number: int) -> Share:
    same = (
        former is not None
        and shards.normal(former.ranges) == shards.normal(share.ranges)
        and former.slots == share.slots
    )
    return structs.replace(share, seq=former.seq if former is not None and same else number)


def _copies(former: Holding | None, finished: Ranges) -> int:
    if former is None:
        return 0
    left = shards.size(shards.minus(shards.normal(former.ranges), finished))
    return min(former.slots, left)


def _worded(  # noqa: PLR0917 what `decide` knows by then
    made: Decision,
    mine: Mapping[str, Holding],
    shares: tuple[Share, ...],
    may_run: MayRun,
    seq: int,
    finished: Ranges,
) -> Decision:
    """The decision with these shares. What nobody gets is missing, and the message says where it
    may run."""
    given = _all(shares)
    lost = shards.minus(_all(made.shares), given)
    done = shards.size(shards.intersect(lost, finished))
    blocked = shards.size(lost) - done
    waiting = {
        name: left for name, ranges in may_run.items() if (left := shards.minus(ranges, given))
    }
    as_held = {share.cluster: share.seq for share in shares} == {
        name: holding.seq for name, holding in mine.items()
    }
    has = {share.cluster: share for share in shares}
    why = _why(waiting)
    message, reason = made.message, made.reason
    if blocked and reason is Reason.CHOSEN:
        reason = Reason.MAY_STILL_RUN
        message = f"{shards.size(given)} of {made.wanted - done} shards have a place"
    return replace(
        made,
        wanted=made.wanted - done,
        shares=shares,
        shortfall=made.shortfall + blocked,
        reason=reason,
        message=f"{message}; {why}" if why else message,
        verdicts=tuple(_verdict(verdict, has, why) for verdict in made.verdicts),
        seq=max((holding.seq for holding in mine.values()), default=seq) if as_held else seq,
        tolerated={name: taints for name, taints in made.tolerated.items() if name in has},
        may_run=may_run,
    )


def _all(given: Sequence[Share]) -> Ranges:
    return shards.normal(piece for share in given for piece in share.ranges)


def _why(waiting: MayRun) -> str:
    """Which shards wait for which clusters, as a part of a sentence."""
    sentences = [
        f"shards {shards.text(ranges)} may still run in {name}"
        for name, ranges in sorted(waiting.items())[:NAMED]
    ]
    more = f" and in {len(waiting) - NAMED} clusters more" if len(waiting) > NAMED else ""
    if not sentences:
        return ""
    return (
        f"{', '.join(sentences)}{more}: they begin elsewhere when nothing is left there, or when"
        " it is fenced (federator fence)"
    )


def _verdict(verdict: Verdict, shares: Mapping[str, Share], why: str) -> Verdict:
    share = shares.get(verdict.cluster)
    if share is not None:
        return verdict
    if verdict.chosen:
        message = f"cluster {verdict.cluster} gets none of them yet: {why or 'all are done'}"
        return replace(verdict, reason=Reason.MAY_STILL_RUN, message=message, got=0)
    return replace(verdict, got=0)
