"""Decisions that refuse a workload before any cluster is judged."""

import dataclasses
from collections.abc import Sequence

from federator.model.ask import Ask
from federator.model.decision import Decision, Reason, Share
from federator.placement.policy.permitted import NotPermitted
from federator.scheduling.entry import Entry, Recorded


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """Inputs hash, time (epoch seconds) and seq of the decision."""

    inputs_hash: str
    as_of: float
    seq: int


def host_would_run_it(ask: Ask, made: Made) -> Decision:
    """Refuses a native kind on a host that runs such workloads itself: it would run twice."""
    message = (
        f"the host runs {ask.key.kind}s itself (setting hub.shared_host): its {ask.count} copies"
        " would run there"
        " and in members; use a PinterestService, or a dedicated host"
    )
    return _keeping((), ask, None, NotPermitted(Reason.HOST_WOULD_RUN_IT, message), made)


def not_permitted(entry: Entry, refused: NotPermitted, made: Made) -> Decision:
    """Refuses a workload that may not run as written. What it holds continues unchanged."""
    ask, recorded = entry.charged, entry.standing.recorded
    shares = [
        Share(
            holding.cluster,
            holding.count,
            holding.slots,
            holding.seq,
            holding.ranges,
            holding.nodes,
            holding.pods,
        )
        for holding in entry.standing.held
    ]
    decision = _keeping(shares, ask, recorded, refused, made)
    policy = ask.policy
    return dataclasses.replace(
        decision,
        policy_name=policy.name,
        policy_namespace=policy.namespace,
        policy_uid=policy.uid,
        policy_generation=policy.generation,
        policy_origin=policy.origin,
        tolerated=recorded.tolerated if recorded is not None else {},
        per_cluster=recorded.per_cluster if recorded is not None else 0,
        surplus=recorded.surplus if recorded is not None else 0,
        blocks=recorded.blocks if recorded is not None else {},
    )


def _keeping(
    shares: Sequence[Share], ask: Ask, recorded: Recorded | None, why: NotPermitted, made: Made
) -> Decision:
    placed = sum(share.count for share in shares)
    wanted = max(recorded.wanted if recorded is not None else ask.count, placed)
    return Decision(
        key=ask.key,
        uid=ask.uid,
        wanted=wanted,
        shares=tuple(shares),
        shortfall=wanted - placed,
        reason=why.reason,
        message=why.message,
        verdicts=(),
        as_of=made.as_of,
        inputs_hash=made.inputs_hash,
        seq=made.seq,
    )
