"""Decisions that refuse a workload before any cluster is looked at. Pure; used by placing."""

from federator.model.ask import Ask
from federator.model.decision import Decision, Reason


def host_would_run_it(ask: Ask, *, inputs_hash: str, as_of: float, seq: int) -> Decision:
    """The refusal of a native kind on a host that runs such workloads itself: it would run twice."""
    message = (
        f"the host runs {ask.key.kind}s itself (setting hub.shared_host): its {ask.count} copies would run there"
        " and in members; use a PinterestService, or a dedicated host"
    )
    return Decision(
        key=ask.key,
        uid=ask.uid,
        wanted=ask.count,
        shares=(),
        shortfall=ask.count,
        reason=Reason.HOST_WOULD_RUN_IT,
        message=message,
        verdicts=(),
        as_of=as_of,
        inputs_hash=inputs_hash,
        seq=seq,
    )
