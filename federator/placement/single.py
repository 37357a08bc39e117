"""The decision of a workload that holds nothing and goes to one cluster as a whole: most jobs of a
trace.

One copy, where the best clusters are enough (`crowd.simple`), goes to the first cluster by group,
avoided taints, weight and tie-break. All copies under maxClusters 1, as the shards of a gang, go to
the first with room for all of them, by group, avoided taints, score, cap and tie-break. There is
nothing to divide, to move or to give back, so the candidates, the crowd and the sentences are made
only when somebody reads the verdicts. The decision is the one that `engine.decide` makes the long
way, which decides whatever is not as simple.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from federator.model import names
from federator.model import seq as seqs
from federator.model.ask import Ask, Unit
from federator.model.decision import (
    Decision,
    Grouped,
    Reason,
    Verdict,
    Verdicts,
    quick_decision,
    quick_share,
)
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.resources import UNLIMITED
from federator.placement import inputs, verdicts
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, crowd, scorers
from federator.placement.selection.crowd import Crowd, Field

_MIX: Final = np.uint64(candidates.MIX)
_COMPARED: Final = 1 << 50
"""The most room of a cluster of which scores are worked out in columns."""


@dataclass(frozen=True, slots=True)
class _Class:
    """What asks under one policy, of one tier and kind, have in common."""

    field: Field
    texts: tuple[str, str]
    """Of the policy and the fleet, for the inputs hash."""
    levels: tuple[crowd.Bools, ...]
    """[C] each: the open clusters of one level, the best level first."""
    together: bool
    """At most one cluster is to have copies."""
    preference: Ints
    """[C]: what the score of a cluster has beside its room."""
    record: Mapping[str, Any]
    """Fields of the decision about the policy."""


def decide(
    ask: Ask,
    snapshot: FleetSnapshot,
    ledger: Ledger,
    *,
    seq: int,
    mark: Callable[[str], int],
    by_name: bool,
) -> Decision | None:
    """The decision, charged to the ledger; None where the long way must be gone, nothing charged.
    The policy must not contradict itself."""
    copies = ask.count
    if ask.suspended or copies < 1 or (ask.slots != copies and (copies > 1 or ask.slots < 1)):
        return None
    if copies > 1 and ask.policy.division.max_clusters != 1:
        return None
    like = _class_of(ask, snapshot, ledger)
    if like is None:
        return None
    rooms = ledger.rooms(ask.shape)
    find = _roomiest if like.together else _best
    at = find(ask, like, rooms, by_name=by_name)
    if at is None:
        return None
    view = like.field.places[at].view
    admission = ledger.admission(ask, copies, held=0)
    if view.taints or admission.copies < copies:
        return None
    number = seqs.above(mark(view.name), seq)
    ranges = ((0, copies - 1),) if ask.unit is Unit.SHARDS else ()
    shares = (quick_share(view.name, copies, copies, number, ranges),)
    ledger.commit(Commitment.of(ask, shares), {view.name: copies})
    worded = _Worded(ask, like, rooms, at, by_name)
    return quick_decision(
        key=ask.key,
        uid=ask.uid,
        wanted=copies,
        shares=shares,
        shortfall=0,
        reason=Reason.CHOSEN,
        message=verdicts.sentence(ask, copies, copies, "", {}),
        verdicts=Verdicts(len(like.field.places), worded.every, worded.grouped),
        as_of=snapshot.as_of,
        inputs_hash=inputs.hash_of(ask, like.texts),
        seq=seq,
        quota_generations=admission.generations,
        unlimited_quota=admission.unlimited,
        **like.record,
    )


def _class_of(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> _Class | None:
    """None where an ask of this kind needs more than the best cluster."""
    key = ("single", ask.unit, candidates.likeness(ask, snapshot, ledger))
    if key not in ledger.memo:
        ledger.memo[key] = _made(ask, snapshot, ledger)
    found: _Class | None = ledger.memo[key]
    return found


def _made(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> _Class | None:
    policy = ask.policy
    most, clusters = policy.division.max_per_cluster, policy.division.max_clusters
    if not crowd.simple_beside_most(ask) or policy.spread or (most is not None and most < 1):
        return None
    if clusters not in (None, 1):
        return None
    field = crowd.field_of(ask, candidates.places(ask, snapshot, ledger), ledger)
    record = {
        "policy_name": policy.name,
        "policy_namespace": policy.namespace,
        "policy_uid": policy.uid,
        "policy_generation": policy.generation,
        "policy_origin": policy.origin,
        "required": tuple((demand.name, demand.generation) for demand in policy.required),
    }
    levels = tuple(field.open & (field.level == level) for level in field.levels)
    facts = [
        scorers.Facts(0, 0, place.avoided if place.refusal is None else 0) for place in field.places
    ]
    terms = scorers.score(ask, facts)
    preference = np.array([sum(points for _, points in each) for each in terms], dtype=np.int64)
    return _Class(
        field, inputs.texts(ask, snapshot, ledger.memo), levels, clusters == 1, preference, record
    )


def _best(ask: Ask, like: _Class, rooms: Ints, *, by_name: bool) -> int | None:
    """The cluster that gets the copy, as `Crowd.best`; None when none has room."""
    weights = like.field.weights
    for level in like.levels:
        able = level if weights is None else level & (rooms > 0)
        ranked = np.where(able, rooms if weights is None else weights, 0)
        top = ranked.max()
        if top <= 0:
            continue
        first = np.flatnonzero(ranked == top)
        if first.size == 1 or by_name:
            return int(first[0])
        order = (like.field.marks[first] ^ np.uint64(names.stable_order(ask.uid))) * _MIX
        return int(first[order.argmin()])
    return None


def _roomiest(ask: Ask, like: _Class, rooms: Ints, *, by_name: bool) -> int | None:
    """The cluster that gets all copies, as `choosing` picks it; None when none has room for all."""
    field, most = like.field, ask.policy.division.max_per_cluster
    if most is not None and most < ask.count:
        return None
    able = field.open & (rooms >= ask.count)
    if field.weights is not None:
        able &= field.weights > 0
    top = max(int(rooms.max(where=field.open, initial=0)), 1)
    if top > _COMPARED:
        return None
    for level in like.levels:
        here = np.flatnonzero(level & able) if len(like.levels) > 1 else np.flatnonzero(able)
        if not here.size:
            continue
        room = rooms[here]
        score = like.preference[here] + 1000 * room // top
        here = here[score == score.max()]
        if ask.unit is Unit.REPLICAS:  # for shards no cap is above their number
            cap = rooms[here] if most is None else np.minimum(rooms[here], most)
            here = here[cap == cap.max()]
        if here.size == 1 or by_name:
            return int(here[0])
        order = (field.marks[here] ^ np.uint64(names.stable_order(ask.uid))) * _MIX
        return int(here[order.argmin()])
    return None


@dataclass(frozen=True, slots=True)
class _Worded:
    """What the verdicts are made of when they are read."""

    ask: Ask
    like: _Class
    rooms: Ints
    at: int
    by_name: bool

    def _verdicts(self) -> Verdicts:
        ask, field = self.ask, self.like.field
        at_most = ask.count if ask.unit is Unit.SHARDS else UNLIMITED
        beside = Crowd.of(ask, field, self.rooms, (), by_name=self.by_name, at_most=at_most)
        pool = beside.candidates([self.at])
        crowd.scored(ask, pool, beside.most)
        candidates.cap_by_shards(ask, pool, {}, ask.count)
        facts = verdicts.Outcome(ask.count, 0, Reason.CHOSEN, "")
        spared = Reason.AT_MAXIMUM if self.like.together else None
        return verdicts.of_crowd(ask, beside, pool, {pool[0].name: ask.count}, facts, spared)

    def every(self) -> tuple[Verdict, ...]:
        return self._verdicts().every()

    def grouped(self) -> Grouped:
        return self._verdicts().grouped()
