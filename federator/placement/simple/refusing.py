"""Refusals of workloads that hold nothing, for want of room: no cluster has room for one copy, or
none for all that are to be in one cluster.

Where many wait most decisions are refusals. All that such a decision says, but for its verdicts,
follows from the rooms; the verdicts are worded the long way, when somebody reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Grouped, Reason, Verdict, Verdicts, quick_decision
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.quickly import quickly
from federator.model.resources import UNLIMITED
from federator.placement import inputs, verdicts
from federator.placement.quota.quota import Admission
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, choosing
from federator.placement.selection.crowd import Crowd
from federator.placement.simple.classes import Class


@dataclass(frozen=True, slots=True)
class _Refused:
    """What the verdicts are made of."""

    ask: Ask
    like: Class
    rooms: Ints
    """[C]: as the ledger gave them."""
    facts: verdicts.Outcome
    by_name: bool

    def every(self) -> tuple[Verdict, ...]:
        return self._in_full().every()

    def grouped(self) -> Grouped:
        return self._in_full().grouped()

    def reasons(self) -> Iterable[tuple[str, Reason]]:
        return self._in_full().reasons()

    def but(self, closed: frozenset[Reason]) -> frozenset[str]:
        """No open cluster is refused for one of these reasons, which no room changes."""
        return self.like.but(closed)

    def _in_full(self) -> Verdicts:
        """With every open cluster as a candidate."""
        ask, field = self.ask, self.like.field
        at_most = ask.count if ask.unit is Unit.SHARDS else UNLIMITED
        beside = Crowd.of(ask, field, self.rooms, (), by_name=self.by_name, at_most=at_most)
        beside.score(())
        pool = beside.candidates(list(self.like.opened))
        candidates.cap_by_shards(ask, pool, {}, ask.count)
        left_out: Mapping[str, Reason] = choosing.choose(
            pool, self.facts.wanted, ask.policy.division, fresh=False
        )
        eligible = {place.view.name: place for place in field.places}
        return verdicts.verdicts(ask, eligible, pool, {}, left_out, outcome=self.facts)


_refused = quickly(_Refused)


def decide(  # noqa: PLR0917 what `deciding` knows by then
    ask: Ask,
    like: Class,
    rooms: Ints,
    admission: Admission,
    snapshot: FleetSnapshot,
    ledger: Ledger,
    *,
    seq: int,
    by_name: bool,
) -> Decision | None:
    """The decision on a workload that quota admits as a whole, where it is refused for want of
    room; None where the long way must be gone."""
    shortage = _why(ask, like, rooms)
    if shortage is None:
        return None
    policy = ask.policy
    wanted, whole = ask.count, policy.require_all
    placed, reason, why = shortage
    ledger.commit_at(Commitment.of(ask, (), began_s=snapshot.as_of), [], [])
    said = _refused(
        ask, like, rooms, verdicts.quick_outcome(wanted, wanted, reason, why, whole), by_name
    )
    message = verdicts.sentence(ask, wanted, placed, why, {})
    return quick_decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=(),
        shortfall=wanted,
        reason=reason,
        message=verdicts.all_or_none(message) if whole else message,
        verdicts=Verdicts(len(like.names), said.every, said.grouped, said.reasons, said.but),
        as_of=snapshot.as_of,
        inputs_hash=inputs.hash_of(ask, like.texts),
        seq=seq,
        quota_generations=admission.generations,
        unlimited_quota=admission.unlimited,
        policy_name=policy.name,
        policy_namespace=policy.namespace,
        policy_uid=policy.uid,
        policy_generation=policy.generation,
        policy_origin=policy.origin,
        required=like.required,
    )


def _why(ask: Ask, like: Class, rooms: Ints) -> tuple[int, Reason, str] | None:
    """(copies that would have a place, the binding constraint, its sentence); None where not room
    alone is what is missing, or some copies have a place."""
    if not like.opened or not like.weighty or like.rules or like.most < UNLIMITED:
        return None
    there = rooms if like.all_open else rooms[like.field.open]
    if there.item(there.argmin()) < 0:  # of some it is not known yet
        return None
    top, clusters = there.item(there.argmax()), len(like.opened)
    if not top:
        return 0, Reason.INSUFFICIENT_CAPACITY, verdicts.no_room(ask, clusters, 0)
    if not like.together or not ask.policy.require_all or top >= ask.count:
        return None
    able, room = int((there > 0).sum()), int(there.sum())
    if able < 2:
        return top, Reason.INSUFFICIENT_CAPACITY, verdicts.no_room(ask, clusters, room)
    return top, Reason.AT_MAXIMUM, verdicts.too_few(ask, clusters, room, clusters - able + 1, top)
