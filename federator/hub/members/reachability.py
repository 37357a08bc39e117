"""Reachability of one member: a transition table beside an enum, driven by probes, read by filters
and status aggregation.

Silence is not absence. A member that does not answer is SUSPECT, then UNREACHABLE, but what it
holds stays charged until it answers again. Time is an argument (seconds of the monotonic clock).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

LATE_PART: Final = 4
"""A probe that ends a grace or more after the one before it counts as a grace divided by this: so
many in a row without an answer are a loss, however slow this process is."""


class Reachability(StrEnum):
    """How well a member can be reached."""

    UNKNOWN = "Unknown"
    """It has not answered since this process started."""
    LIVE = "Live"
    SUSPECT = "Suspect"
    """Probes fail, but for less than the grace period."""
    UNREACHABLE = "Unreachable"
    """Probes have failed for the grace period."""
    REFUSED = "Refused"
    """It answers, but is not the cluster that joined, or refuses our credentials."""


class ProbeResult(StrEnum):
    HEARD = "Heard"
    SILENT = "Silent"
    GRACE_OVER = "GraceOver"
    REJECTS = "Rejects"
    """It refuses our credentials, or we have none; new ones may be on their way."""
    REFUSES = "Refuses"


TRANSITIONS: Mapping[tuple[Reachability, ProbeResult], Reachability] = {
    (Reachability.UNKNOWN, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.UNKNOWN, ProbeResult.GRACE_OVER): Reachability.UNREACHABLE,
    (Reachability.UNKNOWN, ProbeResult.REJECTS): Reachability.REFUSED,
    (Reachability.UNKNOWN, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.LIVE, ProbeResult.SILENT): Reachability.SUSPECT,
    # This process stood still (stopped, or its loop was blocked): one failed probe proves nothing.
    (Reachability.LIVE, ProbeResult.GRACE_OVER): Reachability.SUSPECT,
    (Reachability.LIVE, ProbeResult.REJECTS): Reachability.SUSPECT,
    (Reachability.LIVE, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.SUSPECT, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.SUSPECT, ProbeResult.GRACE_OVER): Reachability.UNREACHABLE,
    (Reachability.SUSPECT, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.UNREACHABLE, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.UNREACHABLE, ProbeResult.REJECTS): Reachability.REFUSED,
    (Reachability.UNREACHABLE, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.REFUSED, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.REFUSED, ProbeResult.GRACE_OVER): Reachability.UNREACHABLE,
}
"""Pairs that are not listed leave the state unchanged."""


@dataclass(frozen=True, slots=True)
class ReachabilityState:
    """The state, since when, and why."""

    state: Reachability = Reachability.UNKNOWN
    since_s: float = 0.0
    heard_at_s: float | None = None
    """When the last successful probe ended; None before the first."""
    counts_from_s: float = 0.0
    """Silence counts from here at the earliest: before it, no probe was sent."""
    asked_at_s: float | None = None
    """When the last probe ended, with any result; None before the first."""
    why: str = "has not been probed yet"

    @property
    def trusted(self) -> bool:
        """Whether what was last seen may be taken as the present state. SUSPECT counts too: a blip
        changes nothing."""
        return self.state in (Reachability.LIVE, Reachability.SUSPECT)

    def patience_s(self, grace_s: float) -> float:
        """Seconds left of the grace period of a member that has never answered. Failed probes use
        it up; time in which this process stood still and sent none does not."""
        return grace_s - max((self.asked_at_s or 0.0) - self.counts_from_s, 0.0)

    def over(self, now_s: float, grace_s: float) -> bool:
        """Whether a member that has never answered has had its whole grace period."""
        return now_s - self.counts_from_s >= grace_s


def after(
    state: ReachabilityState, result: ProbeResult, why: str, now_s: float, grace_s: float
) -> ReachabilityState:
    """The state after one probe. A silent probe `grace_s` or more after the last good one counts as
    GRACE_OVER, one that rejects our credentials as REFUSES.

    The time of the first silence is kept through further failures, so that the grace period
    measures the loss and not the last attempt.
    """
    if state.asked_at_s is not None and now_s - state.asked_at_s >= grace_s:
        state = replace(_late(state, state.asked_at_s, now_s, grace_s), why=why)
    anchor = _anchor(state)
    if now_s - max(anchor, state.counts_from_s) >= grace_s:
        if result is ProbeResult.SILENT:
            result = ProbeResult.GRACE_OVER
        elif result is ProbeResult.REJECTS and state.state is not Reachability.LIVE:
            # As with silence, one probe proves nothing.
            result = ProbeResult.REFUSES
    to = TRANSITIONS.get((state.state, result), state.state)
    why = why if explains(to, result) else state.why
    since = now_s if to is not state.state else state.since_s
    heard = now_s if result is ProbeResult.HEARD else state.heard_at_s
    return replace(state, state=to, since_s=since, heard_at_s=heard, asked_at_s=now_s, why=why)


def _anchor(state: ReachabilityState) -> float:
    return state.heard_at_s if state.heard_at_s is not None else state.since_s


def _late(
    state: ReachabilityState, asked_s: float, now_s: float, grace_s: float
) -> ReachabilityState:
    """The state when this process knows nothing of the time since the last probe. It may have stood
    still: the grace begins anew. Where that has happened before in this silence it is slow, or the
    grace is shorter than a round of probes: what was met before counts, and a part for this one.
    A clock that only began anew would never end.
    """
    if state.counts_from_s <= _anchor(state):
        return replace(state, counts_from_s=now_s)
    met_s = max(asked_s - state.counts_from_s, 0.0) + grace_s / LATE_PART
    return replace(state, counts_from_s=now_s - met_s)


def explains(state: Reachability, result: ProbeResult) -> bool:
    """Whether the probe's result explains the state: a refused member stays refused for its last
    answer, not for silence."""
    return not (state is Reachability.REFUSED and result is ProbeResult.SILENT)


def excused(state: ReachabilityState, why: str, now_s: float) -> ReachabilityState:
    """The state after a member could not be probed for a reason that is not its own: its grace
    period starts again."""
    return replace(state, why=why, counts_from_s=now_s)
