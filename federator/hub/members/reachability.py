"""Reachability of one member: one table next to one enum, driven by probes, read by filters and
folds.

Silence is not absence: a member that does not answer is SUSPECT, then LOST, but what it holds stays
on the commitments until it is heard again. Time is an argument (seconds of the monotonic clock).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Reachability(StrEnum):
    """How well we hear a member."""

    NEW = "New"
    """Never heard since this process began."""
    LIVE = "Live"
    SUSPECT = "Suspect"
    """Probes fail, but not for long enough to believe it."""
    LOST = "Lost"
    REFUSED = "Refused"
    """It answers, but is not the cluster that was joined, or does not accept us."""


class ProbeResult(StrEnum):
    """What one probe said."""

    HEARD = "Heard"
    SILENT = "Silent"
    GRACE_OVER = "GraceOver"
    REJECTS = "Rejects"
    """It does not accept our credentials, or we have none: they may be on their way (Secrets are
    replaced)."""
    REFUSES = "Refuses"


TRANSITIONS: Mapping[tuple[Reachability, ProbeResult], Reachability] = {
    (Reachability.NEW, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.NEW, ProbeResult.GRACE_OVER): Reachability.LOST,
    (Reachability.NEW, ProbeResult.REJECTS): Reachability.REFUSED,
    (Reachability.NEW, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.LIVE, ProbeResult.SILENT): Reachability.SUSPECT,
    # We were the ones asleep (a stopped process, a blocked loop): one failed probe is still only
    # one.
    (Reachability.LIVE, ProbeResult.GRACE_OVER): Reachability.SUSPECT,
    (Reachability.LIVE, ProbeResult.REJECTS): Reachability.SUSPECT,
    (Reachability.LIVE, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.SUSPECT, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.SUSPECT, ProbeResult.GRACE_OVER): Reachability.LOST,
    (Reachability.SUSPECT, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.LOST, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.LOST, ProbeResult.REJECTS): Reachability.REFUSED,
    (Reachability.LOST, ProbeResult.REFUSES): Reachability.REFUSED,
    (Reachability.REFUSED, ProbeResult.HEARD): Reachability.LIVE,
    (Reachability.REFUSED, ProbeResult.GRACE_OVER): Reachability.LOST,
}
"""Pairs that are not here leave the state as it is."""


@dataclass(frozen=True, slots=True)
class ReachabilityState:
    """Where we are, since when, and why."""

    state: Reachability = Reachability.NEW
    since_s: float = 0.0
    heard_at_s: float | None = None
    """When the last good probe was answered; None before the first."""
    counts_from_s: float = 0.0
    """Silence is counted from here at the earliest: before it nobody was asked."""
    asked_at_s: float | None = None
    """When the last probe ended, whatever it said; None before the first."""
    why: str = "has not been probed yet"

    @property
    def trusted(self) -> bool:
        """Whether what we last saw of it may be taken as the present state (SUSPECT still is: a
        blip flips nothing)."""
        return self.state in (Reachability.LIVE, Reachability.SUSPECT)

    def patience_s(self, grace_s: float) -> float:
        """What is left of the grace of somebody who has never been heard. It is used up by silence
        that was met, and not by time in which we ourselves were asleep and asked nobody."""
        return grace_s - max((self.asked_at_s or 0.0) - self.counts_from_s, 0.0)

    def over(self, now_s: float, grace_s: float) -> bool:
        """Whether somebody who has never been heard has had its whole grace."""
        return now_s - self.counts_from_s >= grace_s


def after(
    state: ReachabilityState, result: ProbeResult, why: str, now_s: float, grace_s: float
) -> ReachabilityState:
    """The state after one probe. A silent probe past `grace_s` since the last good one counts as
    GRACE_OVER, one that does not accept us as REFUSES.

    The time of first silence is kept through further failures, so the grace measures the loss and
    not the last attempt.
    """
    if state.asked_at_s is not None and now_s - state.asked_at_s >= grace_s:
        # we were asleep: what that member was meanwhile nobody knows
        state = excused(state, why, now_s)
    anchor = state.heard_at_s if state.heard_at_s is not None else state.since_s
    if now_s - max(anchor, state.counts_from_s) >= grace_s:
        if result is ProbeResult.SILENT:
            result = ProbeResult.GRACE_OVER
        elif result is ProbeResult.REJECTS and state.state is not Reachability.LIVE:
            # As with silence: one probe is only one.
            result = ProbeResult.REFUSES
    to = TRANSITIONS.get((state.state, result), state.state)
    why = why if explains(to, result) else state.why
    since = now_s if to is not state.state else state.since_s
    heard = now_s if result is ProbeResult.HEARD else state.heard_at_s
    return replace(state, state=to, since_s=since, heard_at_s=heard, asked_at_s=now_s, why=why)


def explains(state: Reachability, result: ProbeResult) -> bool:
    """Whether the probe tells why a member is where it is: what keeps a refused one out is what it
    answered last."""
    return not (state is Reachability.REFUSED and result is ProbeResult.SILENT)


def excused(state: ReachabilityState, why: str, now_s: float) -> ReachabilityState:
    """The state when the member could not even be asked, for a reason that is not its own: its
    grace begins anew."""
    return replace(state, why=why, counts_from_s=now_s)
