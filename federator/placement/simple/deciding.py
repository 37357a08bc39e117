"""Decides for a workload that holds nothing, where the best clusters are enough.

There is nothing to move or to give back, so no cluster becomes an object, and the sentences are
made only when somebody reads the verdicts. The decision is the one that `engine.decide` makes the
long way, which decides whatever is not as simple.
"""

from collections.abc import Callable
from dataclasses import replace

from federator.model import seq as seqs
from federator.model.ask import Ask, Unit
from federator.model.decision import (
    Decision,
    Reason,
    Share,
    Verdicts,
    quick_decision,
    quick_share,
)
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.shards import Ranges
from federator.placement import inputs, verdicts
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.selection import best
from federator.placement.simple import classes, refusing, several
from federator.placement.simple.classes import Class
from federator.placement.simple.worded import worded


def decide(
    ask: Ask,
    snapshot: FleetSnapshot,
    ledger: Ledger,
    *,
    seq: int,
    mark: Callable[[str], int],
    by_name: bool,
) -> Decision | None:
    """The decision, charged to the ledger; None where the long way must be gone."""
    policy, wanted, shards = ask.policy, ask.count, ask.unit is Unit.SHARDS
    if ask.suspended or wanted < 1 or (ask.slots != wanted and (wanted > 1 or ask.slots < 1)):
        return None
    like = classes.of(ask, snapshot, ledger)
    if like is None or (shards and wanted > 1 and not like.together):
        return None
    admission = ledger.admission(ask, wanted, held=0)
    total = min(wanted, admission.copies)
    whole = shards or like.together or policy.require_all
    if total < wanted and (whole or not like.opened):  # if not opened, it lacks more than quota
        return None
    rooms = ledger.rooms(ask.shape)
    listed = rooms.tolist() if rooms.size <= best.FEW else None
    given = _divided(ask, like, rooms, listed, total, by_name=by_name)
    if given is None and total == wanted:
        return refusing.decide(
            ask, like, rooms, admission, snapshot, ledger, seq=seq, by_name=by_name
        )
    if given is None or not like.tainted.isdisjoint(given[0]):
        return None
    chosen, copies = given
    clusters = [like.names[at] for at in chosen]
    ranges = ((0, total - 1),) if shards else ()
    shares = tuple(_shares(clusters, copies, ranges, mark, seq))
    ledger.commit_at(Commitment.of(ask, shares, began_s=snapshot.as_of), chosen, copies)
    lacking = (admission.reason, admission.message)
    reason, why = lacking if total < wanted else (Reason.CHOSEN, "")
    facts = verdicts.quick_outcome(wanted, wanted - total, reason, why)
    said = worded(ask, like, rooms, listed, chosen, copies, facts, by_name)
    return quick_decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=shares,
        shortfall=wanted - total,
        reason=reason,
        message=verdicts.sentence(ask, wanted, total, why, {}),
        verdicts=Verdicts(len(like.names), said.every, said.grouped),
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


def _shares(
    clusters: list[str], copies: list[int], ranges: Ranges, mark: Callable[[str], int], seq: int
) -> list[Share]:
    """Their numbers are that of the decision, or the next above a cluster's highest."""
    shares = [
        quick_share(name, count, count, seq, ranges)
        for name, count in zip(clusters, copies, strict=True)
    ]
    if max(map(mark, clusters), default=0) < seq:
        return shares
    return [replace(share, seq=seqs.above(mark(share.cluster), seq)) for share in shares]


def _divided(
    ask: Ask, like: Class, rooms: Ints, listed: list[int] | None, total: int, *, by_name: bool
) -> tuple[list[int], list[int]] | None:
    """(clusters, copies of each); None where not all find room as simply."""
    if not total:
        return [], []
    if not like.together:
        return several.divided(ask, like, rooms, listed, total, by_name=by_name)
    at = several.roomiest(ask, like, rooms, by_name=by_name)
    return None if at is None else ([at], [total])
