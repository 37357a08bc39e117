"""One entry of the history: what changed, from what to what, and why. Pure.

One line of JSON each, `{v, at, seq, kind, key, uid, wanted, asOf, from, to, cause, evidence,
inputsHash}`; empty fields are left out. A reader skips lines that it cannot read: the last one of a
killed process, or those of a later version.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from federator.hub.records.decisions import Record
from federator.model.decision import Decision
from federator.model.names import WorkloadKey
from federator.status.conditions import Condition, find

VERSION: Final = 1
TEXT_MAX: Final = 1024
"""Characters of a cause or of evidence that are kept."""


class Kind(StrEnum):
    """What an entry is about."""

    DECISION = "Decision"
    """Shares by cluster, before and after."""
    CONDITION = "Condition"
    """One condition of a workload, as `Type=Status Reason`."""
    CLUSTER = "Cluster"
    """A member stopped or began to accept new work, is held to be something else than before, was
    cordoned, or its drain or failover began or ended."""
    LEADER = "Leader"
    """A hub began to lead: `to` is its term, `from` the last term in this history."""
    GAP = "Gap"
    """The time between `from` and `to` (epoch seconds) is missing here: another hub led."""
    LOST = "Lost"
    """Entries that could not be written."""


ABOUT_ALL: Final = frozenset({Kind.LEADER, Kind.GAP, Kind.LOST})
"""Kinds that are shown with the entries of any object: without them an empty history could mean
anything."""


class HistoryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    at: float
    """Epoch seconds."""
    kind: Kind
    v: int = msgspec.field(default=0)
    key: str = ""
    """Kind/namespace/name, or MemberCluster/name; empty for entries about everything."""
    uid: str = ""
    """Of the workload: another one may get its name later."""
    seq: int = 0
    """The seq of the decision in force."""
    wanted: int = 0
    """Copies or shards that a decision was asked for."""
    as_of: float = msgspec.field(name="asOf", default=0.0)
    """Epoch seconds of what a decision was made from: one cycle has one."""
    before: Any = msgspec.field(name="from", default=None)
    after: Any = msgspec.field(name="to", default=None)
    cause: str = ""
    evidence: str = ""
    inputs_hash: str = msgspec.field(name="inputsHash", default="")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(HistoryEntry)


def line(entry: HistoryEntry) -> bytes:
    """The entry as a line with its line break."""
    cut = msgspec.structs.replace(
        entry, v=VERSION, cause=entry.cause[:TEXT_MAX], evidence=entry.evidence[:TEXT_MAX]
    )
    return _encoder.encode(cut) + b"\n"


def read(text: bytes) -> HistoryEntry | None:
    """The entry of a line; None for an unreadable one."""
    try:
        entry = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return None
    return entry if entry.v == VERSION else None


def of_decision(
    key: WorkloadKey,
    before: Record | None,
    decision: Decision,
    *,
    at: float,
    cause: str,
    uid: str,
    why: str = "",
) -> HistoryEntry:
    """A written decision. `cause` is the reason of its Event, one word; `why` begins its
    evidence."""
    return HistoryEntry(
        at=at,
        kind=Kind.DECISION,
        key=str(key),
        uid=uid,
        seq=decision.seq,
        wanted=decision.wanted,
        as_of=decision.as_of,
        before=_shares(before.shares) if before is not None else None,
        after=_shares(decision.shares),
        cause=cause,
        evidence=f"{why}: {_evidence(decision)}" if why else _evidence(decision),
        inputs_hash=decision.inputs_hash,
    )


def of_conditions(
    key: WorkloadKey,
    was: Sequence[Mapping[str, Any]],
    now: Iterable[Condition],
    *,
    at: float,
    seq: int,
    uid: str,
) -> Iterator[HistoryEntry]:
    """One entry per condition with a changed status or reason."""
    for condition in now:
        old = find(was, condition.type) or {}
        before = f"{condition.type}={old.get('status', 'Unknown')} {old.get('reason', '')}".rstrip()
        after = f"{condition.type}={condition.status} {condition.reason}".rstrip()
        if (old or condition.status == "True") and before != after:
            yield HistoryEntry(
                at=at,
                kind=Kind.CONDITION,
                key=str(key),
                uid=uid,
                seq=seq,
                before=before,
                after=after,
                cause=condition.reason,
                evidence=condition.message,
            )


def _shares(shares: Iterable[Any]) -> dict[str, int]:
    return {share.cluster: share.count for share in shares}


def _evidence(decision: Decision) -> str:
    placed = sum(share.count for share in decision.shares)
    said = (
        f"{placed} of {decision.wanted} placed under policy"
        f" {decision.policy_name or decision.policy_origin}"
    )
    return (
        f"{said}; {decision.message}"
        if decision.shortfall or decision.held or decision.surplus or decision.preempted
        else said
    )
