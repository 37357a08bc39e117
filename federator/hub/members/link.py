"""The state of our line to one member: one table next to one enum, driven by probes, read by filters and folds.

Silence is not absence: a member that does not answer is SUSPECT, then LOST, but what it holds stays on the commitments
until it is heard again. Time is an argument (seconds of the monotonic clock).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Link(StrEnum):
    """How well we hear a member."""

    NEW = "New"
    """Never heard since this process began."""
    LIVE = "Live"
    SUSPECT = "Suspect"
    """Probes fail, but not for long enough to believe it."""
    LOST = "Lost"
    REFUSED = "Refused"
    """It answers, but is not the cluster that was joined, or does not accept us."""


class Sign(StrEnum):
    """What one probe said."""

    HEARD = "Heard"
    SILENT = "Silent"
    GRACE_OVER = "GraceOver"
    REJECTS = "Rejects"
    """It does not accept our credentials, or we have none: they may be on their way (Secrets are replaced)."""
    REFUSES = "Refuses"


MOVES: Mapping[tuple[Link, Sign], Link] = {
    (Link.NEW, Sign.HEARD): Link.LIVE,
    (Link.NEW, Sign.GRACE_OVER): Link.LOST,
    (Link.NEW, Sign.REJECTS): Link.REFUSED,
    (Link.NEW, Sign.REFUSES): Link.REFUSED,
    (Link.LIVE, Sign.SILENT): Link.SUSPECT,
    # We were the ones asleep (a stopped process, a blocked loop): one failed probe is still only one.
    (Link.LIVE, Sign.GRACE_OVER): Link.SUSPECT,
    (Link.LIVE, Sign.REJECTS): Link.SUSPECT,
    (Link.LIVE, Sign.REFUSES): Link.REFUSED,
    (Link.SUSPECT, Sign.HEARD): Link.LIVE,
    (Link.SUSPECT, Sign.GRACE_OVER): Link.LOST,
    (Link.SUSPECT, Sign.REFUSES): Link.REFUSED,
    (Link.LOST, Sign.HEARD): Link.LIVE,
    (Link.LOST, Sign.REJECTS): Link.REFUSED,
    (Link.LOST, Sign.REFUSES): Link.REFUSED,
    (Link.REFUSED, Sign.HEARD): Link.LIVE,
    (Link.REFUSED, Sign.GRACE_OVER): Link.LOST,
}
"""Pairs that are not here leave the state as it is."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """Where we are, since when, and why."""

    link: Link = Link.NEW
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
        """Whether what we last saw of it may be taken as the present state (SUSPECT still is: a blip flips nothing)."""
        return self.link in (Link.LIVE, Link.SUSPECT)

    def patience_s(self, grace_s: float) -> float:
        """What is left of the grace of somebody who has never been heard. It is used up by silence that was met, and
        not by time in which we ourselves were asleep and asked nobody."""
        return grace_s - max((self.asked_at_s or 0.0) - self.counts_from_s, 0.0)

    def over(self, now_s: float, grace_s: float) -> bool:
        """Whether somebody who has never been heard has had its whole grace."""
        return now_s - self.counts_from_s >= grace_s


def after(state: LinkState, sign: Sign, why: str, now_s: float, grace_s: float) -> LinkState:
    """The state after one probe. A silent probe past `grace_s` since the last good one counts as GRACE_OVER, one that
    does not accept us as REFUSES.

    The time of first silence is kept through further failures, so the grace measures the loss and not the last attempt.
    """
    if state.asked_at_s is not None and now_s - state.asked_at_s >= grace_s:
        state = excused(state, why, now_s)  # we were asleep: what that member was meanwhile nobody knows
    anchor = state.heard_at_s if state.heard_at_s is not None else state.since_s
    if now_s - max(anchor, state.counts_from_s) >= grace_s:
        if sign is Sign.SILENT:
            sign = Sign.GRACE_OVER
        elif sign is Sign.REJECTS and state.link is not Link.LIVE:  # as with silence: one probe is only one
            sign = Sign.REFUSES
    link = MOVES.get((state.link, sign), state.link)
    why = why if explains(link, sign) else state.why
    since = now_s if link is not state.link else state.since_s
    heard = now_s if sign is Sign.HEARD else state.heard_at_s
    return replace(state, link=link, since_s=since, heard_at_s=heard, asked_at_s=now_s, why=why)


def explains(link: Link, sign: Sign) -> bool:
    """Whether the probe tells why a member is where it is: what keeps a refused one out is what it answered last."""
    return not (link is Link.REFUSED and sign is Sign.SILENT)


def excused(state: LinkState, why: str, now_s: float) -> LinkState:
    """The state when the member could not even be asked, for a reason that is not its own: its grace begins anew."""
    return replace(state, why=why, counts_from_s=now_s)
