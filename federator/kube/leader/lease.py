"""Leader election as pure rules: the state of a candidate, what it writes into the Lease, and when
a rival's Lease has expired.

Used by `elector`. Nothing here waits or reads a clock. Times are seconds of our own monotonic clock
since *we* saw the Lease change; what its holder wrote as wall time is for people only and is never
read back (F8).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from federator.model import names
from federator.model import seq as seqs
from federator.model.steps import ObjectRef

API_VERSION = "coordination.k8s.io/v1"
TRANSITIONS_MAX = seqs.TERM_MAX
"""A count from here on was written by a hand, not by elections, and is taken as 0: one more would
leave no room in `seq`, and far more than that none in the 32 bits that a Lease has for it."""
RELEASED_S = 1
"""What a released lease asks for; an API server takes no less."""
RELEASED = f"{names.FEDERATION}/released-term"
"""Annotation of a Lease: the term that its leader gave up. An empty holder does not say so by
itself: a person who empties a Lease writes the same, and its leader still leads (F7)."""
PATIENCE_MAX = 4
"""A holder may ask for at most so many times our own lease duration: a mistyped one must not keep
everybody out."""


class Leadership(StrEnum):
    """Whether a candidate leads."""

    OBSERVING = "Observing"
    """Another leads, or may lead."""
    LEADING = "Leading"
    DOUBTFUL = "Doubtful"
    """Leads, but the last renewal failed; the deadline has not passed."""
    LOST = "Lost"
    """Led, and may not act any more."""


class LeaseEvent(StrEnum):
    """What one try, or the clock, said."""

    WON = "Won"
    """The server took what we wrote, and the answer came in time."""
    FAILED = "Failed"
    """No answer, a refusal, a conflict, something that is no Kubernetes answer."""
    TAKEN = "Taken"
    """The Lease is gone or names another."""
    CLAIMED = "Claimed"
    """The Lease names us now, but the leader before us may not know yet."""
    OVERDUE = "Overdue"
    """The renew deadline has passed."""
    STOPPED = "Stopped"
    """The work has ended, or is to end."""


TRANSITIONS: Mapping[tuple[Leadership, LeaseEvent], Leadership] = {
    (Leadership.OBSERVING, LeaseEvent.WON): Leadership.LEADING,
    (Leadership.LEADING, LeaseEvent.FAILED): Leadership.DOUBTFUL,
    (Leadership.LEADING, LeaseEvent.TAKEN): Leadership.LOST,
    (Leadership.LEADING, LeaseEvent.OVERDUE): Leadership.LOST,
    (Leadership.LEADING, LeaseEvent.STOPPED): Leadership.OBSERVING,
    (Leadership.DOUBTFUL, LeaseEvent.WON): Leadership.LEADING,
    (Leadership.DOUBTFUL, LeaseEvent.TAKEN): Leadership.LOST,
    (Leadership.DOUBTFUL, LeaseEvent.OVERDUE): Leadership.LOST,
    (Leadership.DOUBTFUL, LeaseEvent.STOPPED): Leadership.OBSERVING,
    # Only a new campaign leads out of here: a late answer to a renewal never does.
    (Leadership.LOST, LeaseEvent.STOPPED): Leadership.OBSERVING,
}
"""Pairs that are not here change nothing."""


def after(leadership: Leadership, event: LeaseEvent) -> Leadership:
    """The leadership after one event."""
    return TRANSITIONS.get((leadership, event), leadership)


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Times in seconds; the same for all candidates of one Lease. Raises ValueError where they
    cannot work."""

    duration_s: float = 15.0
    """A lease that was not seen to change for this long may be taken."""
    renew_deadline_s: float = 10.0
    """A leader that could not renew for this long stops acting: sooner than anybody may take its
    place."""
    retry_s: float = 2.0
    """From one try to the next, at most; jitter makes it up to a fifth shorter."""
    try_timeout_s: float = 1.5
    """The shortest time of one try, all its requests included."""

    def __post_init__(self) -> None:
        if not 0 < self.try_timeout_s < self.retry_s:
            raise ValueError(
                f"a try ({self.try_timeout_s:g} s) must be shorter than a retry period"
                f" ({self.retry_s:g} s)"
            )
        if not 2 * self.retry_s <= self.renew_deadline_s < self.duration_s:
            raise ValueError(
                f"the renew deadline ({self.renew_deadline_s:g} s) must leave room for two tries"
                f" of {self.retry_s:g} s"
                f" and lie before the end of the lease ({self.duration_s:g} s)"
            )

    def renewing_s(self, left_s: float) -> float:
        """How long a try to renew may take when we may lead for `left_s` more: half of that. A
        server that is busy answers late and would never be heard by tries that all end before it
        does; where an answer was lost there is time for others."""
        return min(max(self.try_timeout_s, left_s / 2), left_s)

    def standing_s(self, failed: int) -> float:
        """How long a candidate's try may take after so many in a row that failed, for the same
        reasons: twice as long each time, up to half the renew deadline."""
        most_s = max(self.try_timeout_s, self.renew_deadline_s / 2)
        return min(self.try_timeout_s * 2.0 ** min(failed, 16), most_s)


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as last seen, and since when it has been so. `version` is "" where there is
    none."""

    version: str
    holder: str
    acquired: str
    """When its holder says it began: holder and time together identify a claim."""
    asked_s: float
    """The duration that its holder asked for; 0 where it says nothing usable."""
    since_s: float
    released: bool
    """The last leader has given it up."""


def notice(
    before: ObservedLease | None, obj: Mapping[str, Any] | None, now_s: float
) -> ObservedLease:
    """What a read at `now_s` showed. Any write to the Lease is a sign of life; total on whatever it
    holds."""
    meta = (obj or {}).get("metadata") or {}
    version = f"{meta.get('uid', '')}/{meta.get('resourceVersion', '')}" if obj is not None else ""
    if before is not None and before.version == version:
        return before
    spec = _spec(obj)
    return ObservedLease(
        version=version,
        holder=holder_of(obj),
        acquired=str(spec.get("acquireTime", "")),
        asked_s=float(_count(spec.get("leaseDurationSeconds"))),
        since_s=now_s,
        released=_released(obj),
    )


def unheld(seen: ObservedLease) -> bool:
    """Whether the Lease is not there, or a person has emptied it: it says nothing about the leader
    (F7).

    A candidate puts its name on it immediately (`mark`), because absence cannot be measured:
    between two looks the Lease may have been made anew by another and deleted again. With our name
    on it, unchanged for a renew deadline, it was not renewed for so long, and the leader before us
    has stopped.
    """
    return not seen.holder and not seen.released


def free_at(
    seen: ObservedLease, identity: str, claimed: str | None, options: LeaseOptions
) -> float:
    """From when on the Lease may be taken by `identity`; never while it has no holder (`unheld`).
    `claimed`: the time in the last claim that it sent, None before the first. A release frees it at
    once."""
    if unheld(seen):
        return math.inf
    if seen.released:
        return seen.since_s
    if seen.holder == identity:
        # Either our claim succeeded and its answer was lost, or the Lease is ours only since the
        # leader before us was not looking.
        return seen.since_s + (0.0 if seen.acquired == claimed else options.renew_deadline_s)
    asked_s = min(seen.asked_s, PATIENCE_MAX * options.duration_s)
    return seen.since_s + max(options.duration_s, asked_s)


def _released(obj: Mapping[str, Any] | None) -> bool:
    """Whether it has no holder, and the last term is the one that was given up."""
    term = _count(_spec(obj).get("leaseTransitions"))
    return not holder_of(obj) and term > 0 and notes_of(obj).get(RELEASED) == str(term)


def holder_of(obj: Mapping[str, Any] | None) -> str:
    """The holder of the Lease; "" for none."""
    holder = _spec(obj).get("holderIdentity")
    return holder if isinstance(holder, str) else ""


def mark(
    obj: Mapping[str, Any] | None,
    ref: ObjectRef,
    *,
    identity: str,
    stamp: str,
    options: LeaseOptions,
) -> dict[str, Any]:
    """A Lease without a holder, with our name put on it. It is not acquired yet: nothing is done in
    its name, and its term is that of the last leader."""
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(options.duration_s),
        "acquireTime": None,
        "renewTime": stamp,
        "leaseTransitions": _count(_spec(obj).get("leaseTransitions")),
    }
    return _with(_or_new(obj, ref), spec)


def claim(
    obj: Mapping[str, Any] | None,
    ref: ObjectRef,
    *,
    identity: str,
    stamp: str,
    options: LeaseOptions,
) -> tuple[dict[str, Any], int]:
    """The Lease as ours, and its term: each time a candidate begins to lead, the count of
    transitions rises by one, also when the same candidate leads again."""
    term = _count(_spec(obj).get("leaseTransitions")) + 1
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(options.duration_s),
        "acquireTime": stamp,
        "renewTime": stamp,
        "leaseTransitions": term,
    }
    return _with(_or_new(obj, ref), spec), term


def renewal(
    obj: Mapping[str, Any],
    *,
    term: int,
    stamp: str,
    options: LeaseOptions,
    notes: Mapping[str, str],
) -> dict[str, Any]:
    """The Lease held for another while. A count that was wiped or lowered by hand is put back.
    `notes`: annotations that the leader leaves to the next one."""
    duration = math.ceil(options.duration_s)
    count = min(term, TRANSITIONS_MAX)
    held = _with(
        obj, {"leaseDurationSeconds": duration, "renewTime": stamp, "leaseTransitions": count}
    )
    return _noted(held, notes) if notes else held


def notes_of(obj: Mapping[str, Any] | None) -> dict[str, str]:
    """The annotations of a Lease; total on whatever it holds."""
    annotations = ((obj or {}).get("metadata") or {}).get("annotations")
    return (
        {name: text for name, text in annotations.items() if isinstance(text, str)}
        if isinstance(annotations, Mapping)
        else {}
    )


def release(obj: Mapping[str, Any], *, term: int, stamp: str) -> dict[str, Any]:
    """The Lease given up, so that the next one need not wait."""
    given_up = {
        "holderIdentity": "",
        "leaseDurationSeconds": RELEASED_S,
        "renewTime": stamp,
        "leaseTransitions": term,
    }
    return _noted(_with(obj, given_up), {RELEASED: str(term)})


def _or_new(obj: Mapping[str, Any] | None, ref: ObjectRef) -> Mapping[str, Any]:
    if obj is not None:
        return obj
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace},
    }


def _with(obj: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The object with these fields, None taking one away; everything else stays, the
    resourceVersion as the condition of the write."""
    whole = {**_spec(obj), **spec}
    return {**obj, "spec": {field: value for field, value in whole.items() if value is not None}}


def _noted(obj: Mapping[str, Any], notes: Mapping[str, str]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**notes_of(obj), **notes}}}


def _spec(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    spec = (obj or {}).get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _count(value: object) -> int:
    sane = isinstance(value, int) and not isinstance(value, bool) and 0 < value < TRANSITIONS_MAX
    return value if sane and isinstance(value, int) else 0
