"""Decides over columns for workloads that hold nothing, where the best clusters are enough.

There is nothing to move or to give back, so no cluster becomes an object, and sentences are made
when somebody reads them. The rules are those of `engine`: `choosing` which clusters take part,
`best` which of them can get copies, `webster` how many, `domains` whether a spread rule is broken,
`verdicts` what is missing. Where a rule needs more than these, `engine` decides with objects.

Of a level with n copies to give only its first n clusters by weight and tie-break can get any.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import structs

from federator.model import seq as seqs
from federator.model.ask import Ask, Unit
from federator.model.decision import (
    Decision,
    Reason,
    Share,
    Verdicts,
    quick_decision,
)
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.resources import UNLIMITED
from federator.model.shards import Ranges
from federator.placement import inputs, sharing, verdicts
from federator.placement.columnwise import classes
from federator.placement.columnwise.classes import Class
from federator.placement.columnwise.wording import InFull, worded
from federator.placement.division import webster
from federator.placement.request import Request
from federator.placement.room.binding import Ints
from federator.placement.selection import best, choosing
from federator.placement.selection.crowd import Crowd

_Given: TypeAlias = tuple[list[int], list[int], int]
"""(clusters, rising; copies of each; copies that find no room)"""


def decide(ask: Ask, request: Request) -> Decision | None:
    """The decision, charged to the ledger; None where clusters are needed as objects."""
    snapshot, ledger, seq = request.snapshot, request.ledger, request.seq
    policy, wanted, shards = ask.policy, ask.count, ask.unit is Unit.SHARDS
    if ask.suspended or wanted < 1 or (ask.slots != wanted and (wanted > 1 or ask.slots < 1)):
        return None
    like = classes.of(ask, snapshot, ledger)
    if like is None or (shards and wanted > 1 and not like.together):
        return None
    admission = ledger.admission(ask, wanted, held=0)
    total = min(wanted, admission.copies)
    whole = shards or like.together or policy.require_all
    # Of none that is open it lacks more than quota.
    if total < wanted and (whole or not like.opened):
        return None
    at_most = wanted if shards else UNLIMITED
    rooms = ledger.rooms(ask.shape)
    crowd = Crowd(ask, like.field, rooms, by_name=request.by_name, at_most=at_most)
    listed = rooms.tolist() if rooms.size <= best.FEW else None
    chosen, copies, missing = _given(ask, like, crowd, listed, total)
    if missing:
        if total < wanted or not _gets_nothing(like, policy.require_all, missing == total):
            return None
        chosen, copies, placed = [], [], 0
        reason, message, said = _refused(ask, like, crowd, wanted - missing)
    elif like.rules and not like.keeps(chosen, copies):
        return None  # another cluster of a domain may be better than the best
    else:
        placed = total
        missing = wanted - total
        reason, why = (admission.reason, admission.message) if missing else (Reason.CHOSEN, "")
        facts = verdicts.quick_outcome(wanted, missing, reason, why)
        words = worded(ask, like, crowd, listed, chosen, copies, facts)
        said = Verdicts(len(like.names), words.every, words.grouped)
        message = verdicts.sentence(ask, wanted, total, why, {})
    ranges = ((0, total - 1),) if shards else ()
    shares = _shares(list(map(like.names.__getitem__, chosen)), copies, ranges, request.mark, seq)
    ledger.commit_at(Commitment.of(ask, shares, began_s=snapshot.as_of), chosen, copies)
    return quick_decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=shares,
        shortfall=wanted - placed,
        reason=reason,
        message=message,
        verdicts=said,
        as_of=snapshot.as_of,
        inputs_hash=inputs.hash_of(ask, like.texts),
        seq=seq,
        quota_generations=admission.generations,
        unlimited_quota=admission.unlimited,
        tolerated=_tolerated(like, chosen, shares, snapshot),
        **like.recorded,
    )


def _tolerated(
    like: Class, chosen: list[int], shares: tuple[Share, ...], snapshot: FleetSnapshot
) -> dict[str, tuple[str, ...]]:
    return {} if like.tainted.isdisjoint(chosen) else sharing.tolerated(shares, snapshot)


def _shares(
    clusters: list[str], copies: list[int], ranges: Ranges, mark: Callable[[str], int], seq: int
) -> tuple[Share, ...]:
    """Their numbers are that of the decision, or the next above a cluster's highest."""
    same = itertools.repeat
    shares = tuple(map(Share, clusters, copies, copies, same(seq), same(ranges)))
    if max(map(mark, clusters), default=0) < seq:
        return shares
    return tuple(
        structs.replace(share, seq=seqs.above(mark(share.cluster), seq)) for share in shares
    )


def _gets_nothing(like: Class, require_all: bool, nothing: bool) -> bool:
    """Whether it gets nothing at all, and no spread rule has a part in that."""
    return bool(like.opened) and not like.rules and (require_all or nothing)


def _refused(ask: Ask, like: Class, crowd: Crowd, placed: int) -> tuple[Reason, str, Verdicts]:
    """Why a workload that quota admits as a whole gets nothing: `placed` copies would have a place,
    and not all. Where many wait most decisions are refusals."""
    wanted, whole = ask.count, ask.policy.require_all
    reason, why = verdicts.binding(ask, placed, _figures(like, crowd))
    words = InFull(ask, like, crowd, verdicts.quick_outcome(wanted, wanted, reason, why, whole))
    message = verdicts.sentence(ask, wanted, placed, why, {})
    # Without a weight a cluster is refused for another reason than room.
    but = words.but if like.weighty else None
    said = Verdicts(len(like.names), words.every, words.grouped, words.reasons, but)
    return reason, verdicts.all_or_none(message) if whole else message, said


def _figures(like: Class, crowd: Crowd) -> verdicts.Figures:
    caps = crowd.cap if like.all_open else crowd.cap[like.open_at]
    room = taking = _sum(caps)
    left_out = {}
    if like.together:
        able = int(crowd.able.sum())
        if able > 1:
            left_out[Reason.AT_MAXIMUM] = able - 1
            # One takes part, and those that can have nothing.
            other = crowd.cap[crowd.member & ~crowd.able]
            taking = int(crowd.cap[crowd.able].max()) + _sum(other)
    return verdicts.Figures(
        len(like.opened),
        room,
        left_out,
        taking,
        crowd.limits(),
        lambda _: 0,  # no hard rule
        0 if crowd.ask.shape.plain else int((crowd.pending & crowd.member).sum()),
    )


def _sum(column: Ints) -> int:
    """Of Python's integers: unlimited rooms overflow a column."""
    return sum(column.tolist())


def _given(ask: Ask, like: Class, crowd: Crowd, listed: list[int] | None, total: int) -> _Given:
    """How many of `total` copies each cluster gets."""
    if not total:
        return [], [], 0
    return (
        _together(ask, like, crowd, total) if like.together else _over(like, crowd, listed, total)
    )


def _together(ask: Ask, like: Class, crowd: Crowd, total: int) -> _Given:
    """All in one cluster, as the shards of a gang."""
    score = sum(like.by_room(ask, crowd.room).values(), start=like.preference)
    taking = choosing.of(crowd.to_choose(score), total, ask.policy.division, fresh=False).joined
    if not taking:
        return [], [], total
    seats = min(crowd.cap.item(taking[0]), total)
    return [taking[0]], [seats], total - seats


def _over(like: Class, crowd: Crowd, listed: list[int] | None, missing: int) -> _Given:
    """Over as many as can get any. `listed`: the rooms as a list, where there are few clusters."""
    # One look at the smallest room saves a look at each cluster in nearly every decision.
    full = not like.weighty or (listed is not None and min(listed, default=0) <= 0)
    chosen: list[int] = []
    copies: list[int] = []
    if missing == 1 and listed is not None:
        return _single_copy(like, listed, crowd.order, full=full)
    # A level is entered only for what the ones before have no room for.
    for level in range(len(like.levels)):
        here, weights, caps = (
            _few(like, level, listed, missing, crowd.order, full=full)
            if listed is not None
            else _many(like, level, crowd.room, missing, crowd.order)
        )
        if not here:
            continue
        if missing == 1 and not chosen:  # the first that can have it
            return here, [1], 0
        seats = webster.seats_of(
            weights, caps, missing, functools.partial(crowd.order.listed, here)
        )
        chosen += here
        copies += seats
        missing -= sum(seats)
        if not missing:
            break
    # Within one level clusters rise already.
    if 0 in copies or len(like.levels) > 1:
        given = sorted((at, each) for at, each in zip(chosen, copies, strict=True) if each)
        chosen, copies = [at for at, _ in given], [each for _, each in given]
    return chosen, copies, missing


_Level: TypeAlias = tuple[list[int], list[int], list[int]]
"""The first clusters of a level, as many as there are copies to give, rising; their weights, and
the most copies that each can have."""


def _single_copy(like: Class, room: list[int], order: best.Order, *, full: bool) -> _Given:
    """One copy over few clusters: most jobs of a trace have one shard."""
    weigh = room if like.field.weights is None else like.field.weights.tolist()
    for level in range(len(like.levels)):
        if here := _able(like, level, room, weigh, full=full):
            return best.heaviest_of(here, weigh, 1, order), [1], 0
    return [], [], 1


def _able(
    like: Class, level: int, room: list[int], weigh: list[int], *, full: bool
) -> Sequence[int]:
    """The clusters of a level that can have a copy. `full`: some cannot."""
    here = like.members[level]
    return [at for at in here if room[at] > 0 and weigh[at] > 0] if full else here


def _few(
    like: Class, level: int, room: list[int], count: int, order: best.Order, *, full: bool
) -> _Level:
    """With lists: of few clusters. `full`: some can have no copy."""
    weigh = room if like.field.weights is None else like.field.weights.tolist()
    here = _able(like, level, room, weigh, full=full)
    if len(here) > count:
        here = best.heaviest_of(here, weigh, count, order)
    caps = room if len(here) == len(room) else [room[at] for at in here]
    weights = caps if weigh is room else [weigh[at] for at in here]
    return list(here), weights, _bounded(caps, like.most)


def _many(like: Class, level: int, rooms: Ints, count: int, order: best.Order) -> _Level:
    """With columns: of many clusters."""
    offered = rooms
    if like.field.weights is not None:
        offered = np.where(rooms > 0, like.field.weights, 0)
    ranked = offered if like.alike else np.where(like.levels[level], offered, 0)
    here = best.heaviest(ranked, count, order)
    weights: list[int] = ranked.take(here).tolist()
    caps = weights if ranked is rooms else rooms.take(here).tolist()
    return here, weights, _bounded(caps, like.most)


def _bounded(caps: list[int], most: int) -> list[int]:
    return caps if most >= UNLIMITED else [cap if cap < most else most for cap in caps]
