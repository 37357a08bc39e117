"""Queueing hints: which inadmissible workloads a change may help, and when to retry without a hint.

A workload waits when its decision lacks something (`waits`). The hub passes what changed; only
workloads that the change may help are requeued. Times are arguments, in seconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federator.model.ask import Ask
from federator.model.decision import REFUSALS, Decision, Reason, but
from federator.model.names import WorkloadKey
from federator.placement.quota.quota import BY_QUOTA
from federator.placement.selection.candidates import NOBODY
from federator.placement.selection.leaving import everywhere

FIRST_RETRY_S: Final = 5.0
LAST_RETRY_S: Final = 300.0


class HintKind(StrEnum):
    """What may have improved, as in the queueing hints of the Kubernetes scheduler."""

    ROOM = "Room"
    """A cluster reported more room, or copies left it."""
    CLUSTER = "Cluster"
    """A cluster joined, became ready, was uncordoned, lost a taint, or its labels or kinds changed.
    """
    QUOTA = "Quota"
    """A quota or an invariant changed, or a project released some quota."""
    WORKLOADS = "Workloads"
    """Workloads of a namespace have copies in other clusters than before."""


@dataclass(frozen=True, slots=True)
class Hint:
    """`cluster` for ROOM and CLUSTER; `projects` for QUOTA, where empty means every project;
    `namespace` for WORKLOADS, where "" means every namespace."""

    kind: HintKind
    cluster: str = ""
    projects: frozenset[str] = frozenset()
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One workload that lacks something, or will when another cluster opens (reason CHOSEN), with
    the clusters where more room may help it (None: any)."""

    key: WorkloadKey
    project: str
    reason: Reason
    clusters: frozenset[str] | None = None
    ask: Ask | None = None
    """Of one that holds nothing and waits for room: some may be kept for it."""
    by_room: bool = False
    """Room matters to it, whatever the reason is: copies of it left for another that had none, or
    wait where they are for another place, an edit of it is held back, or it is on every node of
    clusters."""
    by_workloads: bool = False
    """Other workloads keep it away from clusters, or lack there."""


_NEVER: Final = frozenset(
    {Reason.SUSPENDED, Reason.MISCONFIGURED, Reason.HOST_WOULD_RUN_IT, *REFUSALS}
)
"""Only a change of the workload, its policy, its namespace or its project's lists helps, and each
of these requeues it anyway."""
_CLOSED: Final = frozenset(
    {
        Reason.NOT_SELECTED,
        Reason.NOT_ALLOWED,
        Reason.API_NOT_AVAILABLE,
        Reason.WORKLOAD_AFFINITY,
    }
)
"""Verdicts of clusters where room alone changes nothing."""

_BY_WORKLOADS: Final = frozenset({Reason.WORKLOAD_AFFINITY})
_BY_RULE: Final = frozenset({Reason.NOT_ALLOWED, Reason.INVARIANT_VIOLATION})
"""Other reasons that an operator's edit of accounts or invariants may end."""

FOR_ROOM: Final = frozenset(
    {Reason.INSUFFICIENT_CAPACITY, Reason.AT_MAXIMUM, Reason.GANG_INCOMPLETE}
)
"""What holds nothing waits for room in one cluster: AtMaximum where it may be in one only."""


def waits(ask: Ask, decision: Decision, capped: Mapping[str, int] = NOBODY) -> Waiting | None:
    """What the decided workload waits for; None when it lacks nothing, or when no outside change
    can help. Copies that stay where the scheduler could not bind them (`capped`, as in
    `engine.decide`) wait for room anywhere."""
    if ask.shape.every_node and decision.shares:
        # What it is charged follows the nodes that clusters report, whatever it lacks besides.
        return Waiting(decision.key, ask.project, decision.reason, by_room=True)
    if decision.reason is Reason.CHOSEN:
        if capped and any(
            share.slots > capped.get(share.cluster, share.slots) for share in decision.shares
        ):
            return Waiting(decision.key, ask.project, Reason.UNSCHEDULABLE)
        return (
            Waiting(decision.key, ask.project, decision.reason, frozenset())
            if everywhere(ask)  # it will lack something when another cluster opens
            else None
        )
    if decision.reason in _NEVER:
        return None
    if decision.reason is Reason.NO_CLUSTER_ADMITTED:
        return Waiting(decision.key, ask.project, decision.reason, frozenset())
    by_room = decision.preempted is not None and decision.preempted.of_room
    # others leave for an edit of what runs only where it has room once they have left
    held_back = decision.held_back > 0 or bool(decision.held_profile)
    by_room = by_room or decision.held > 0 or held_back
    if decision.reason in BY_QUOTA and not by_room:  # room helps nobody, wherever it is
        return Waiting(decision.key, ask.project, decision.reason)
    hopeful = but(decision.verdicts, _CLOSED)
    for_room = decision.reason in FOR_ROOM and not decision.shares
    return Waiting(
        decision.key,
        ask.project,
        decision.reason,
        hopeful if decision.verdicts else None,
        ask if for_room else None,
        by_room,
        _kept_apart(decision),
    )


def _kept_apart(decision: Decision) -> bool:
    """Whether other workloads keep it away from some cluster, or lack there."""
    verdicts = decision.verdicts
    return len(but(verdicts, _BY_WORKLOADS)) < len(verdicts)


def may_help(hint: Hint, waiting: Waiting) -> bool:
    """Whether the change may let more of the waiting workload be placed."""
    if hint.kind is HintKind.WORKLOADS:
        return waiting.by_workloads and hint.namespace in ("", waiting.key.namespace)
    if hint.kind is HintKind.QUOTA:
        named = not hint.projects or waiting.project in hint.projects
        return named and (waiting.reason in BY_QUOTA or waiting.reason in _BY_RULE)
    if waiting.reason in BY_QUOTA and not waiting.by_room:
        return False
    if hint.kind is HintKind.CLUSTER:
        return True
    return waiting.clusters is None or hint.cluster in waiting.clusters


def requeued(hints: Iterable[Hint], waiting: Iterable[Waiting]) -> list[WorkloadKey]:
    """The workloads that at least one hint may help, by key."""
    every = list(hints)
    return sorted({entry.key for entry in waiting if any(may_help(hint, entry) for hint in every)})


def retry_after_s(attempts: int) -> float:
    """Seconds until the next try without a hint: 5, 10, 20, ... up to 300. Hints may be missed."""
    return min(FIRST_RETRY_S * 2.0 ** min(max(attempts, 0), 16), LAST_RETRY_S)
