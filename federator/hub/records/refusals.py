"""Decisions that refuse a workload before any cluster is looked at. Pure; used by placing and the offline engine."""

import dataclasses
from collections.abc import Sequence

from federator.hub.records.decisions import Record
from federator.model.ask import Ask
from federator.model.decision import Decision, Reason, Share
from federator.placement.permitted import Refused


@dataclasses.dataclass(frozen=True, slots=True)
class _Made:
    """Why, for what inputs, when, and as which decision."""

    why: Refused
    inputs_hash: str
    as_of: float
    seq: int


def host_would_run_it(ask: Ask, *, inputs_hash: str, as_of: float, seq: int) -> Decision:
    """The refusal of a native kind on a host that runs such workloads itself: it would run twice."""
    message = (
        f"the host runs {ask.key.kind}s itself (setting hub.shared_host): its {ask.count} copies would run there"
        " and in members; use a PinterestService, or a dedicated host"
    )
    return _keeping((), ask, None, _Made(Refused(Reason.HOST_WOULD_RUN_IT, message), inputs_hash, as_of, seq))


def not_permitted(
    ask: Ask,
    shares: Sequence[Share],
    record: Record | None,
    refused: Refused,
    *,
    inputs_hash: str,
    as_of: float,
    seq: int,
) -> Decision:
    """The refusal of a workload that may not run as it is written. What runs of it, by `shares`, goes on as it is."""
    decision = _keeping(shares, ask, record, _Made(refused, inputs_hash, as_of, seq))
    policy = ask.policy
    return dataclasses.replace(
        decision,
        policy_name=policy.name,
        policy_namespace=policy.namespace,
        policy_uid=policy.uid,
        policy_generation=policy.generation,
        policy_origin=policy.origin,
        tolerated=record.terms.tolerated if record is not None else {},
        per_cluster=record.terms.per_cluster if record is not None else 0,
        surplus=record.terms.surplus if record is not None else 0,
    )


def as_charged(ask: Ask, record: Record | None) -> Ask:
    """The ask of a refused workload as far as it is charged for what runs: not by what it says now."""
    charged = record.terms.charged if record is not None else None
    if charged is None:
        return ask
    return dataclasses.replace(
        ask,
        generation=charged.generation,
        shape=charged.shape,
        project=charged.project,
        tier=charged.tier,
        priority=ask.priority if charged.priority is None else charged.priority,
        slots=ask.slots if charged.count is None else charged.count,
    )


def _keeping(shares: Sequence[Share], ask: Ask, record: Record | None, made: _Made) -> Decision:
    placed = sum(share.count for share in shares)
    wanted = max(record.terms.wanted if record is not None else ask.count, placed)
    return Decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=tuple(shares),
        shortfall=wanted - placed,
        reason=made.why.reason,
        message=made.why.message,
        verdicts=(),
        as_of=made.as_of,
        inputs_hash=made.inputs_hash,
        seq=made.seq,
    )
