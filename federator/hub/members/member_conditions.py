"""How well a member is, beyond whether it answers: its clock, our watches, our credentials, and
unknown slices.

Kept per member, fed by its connection and by reporting, shown as conditions of the MemberCluster.
None of them makes a member NotReady by itself. Each verdict needs several observations, so that
nothing flaps. Pure.
"""

import email.utils
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from federator.api import membercluster
from federator.api.membercluster import DEAD, DRAINING, FAILING_OVER, MAINTENANCE
from federator.hub.members.reachability import ReachabilityState
from federator.kube import errors
from federator.model.names import WorkloadKey
from federator.runtime.fencing import Promise
from federator.scheduling.success import Rate
from federator.status.conditions import FALSE, TRUE, Condition

OWNED = (
    membercluster.CLOCK_SYNCED,
    "Watching",
    "Listing",
    "Authenticated",
    "SlicesKnown",
    "CredentialsRenewed",
    "Removing",
    DRAINING,
    DEAD,
    FAILING_OVER,
    MAINTENANCE,
)
"""Condition types made here. All but Removing, Draining, Dead, FailingOver and Maintenance are True
when all is well."""
UNLISTED = (
    "the host does not list its MemberCluster, and a read by name has not confirmed yet that it is"
    " gone"
)
LOOKS = 3
"""Measurements in a row that change the verdict on a clock."""
RESOLUTION_S = 0.5
"""A Date header has whole seconds: on average it is half a second behind."""
SLOWEST_S = 2.0
"""A response that took longer says too little about the other clock."""


def skew_s(date: str, asked_s: float, answered_s: float) -> float | None:
    """Seconds by which a server's clock is ahead of ours, from its Date header and the times of
    request and response. None when unknown.

    Sent at 10.0 s, received at 10.4 s, Date 12: 12 + 0.5 - 10.2 = 2.3 s ahead.
    """
    if not date or not 0 <= answered_s - asked_s <= SLOWEST_S:
        return None
    try:
        theirs = email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return theirs + RESOLUTION_S - (asked_s + answered_s) / 2


@dataclass(slots=True)
class ClockWatch:
    """Whether a member's clock is within the limit of ours, with hysteresis: to recover it must be
    well within."""

    limit_s: float = 5.0
    skewed: bool = False
    shown_s: int | None = None
    """The offset that is shown, in whole seconds; None before the first measurement."""
    _against: int = 0

    def note(self, measured_s: float) -> bool:
        """Takes one measurement; returns whether there is something new to show."""
        off = abs(measured_s)
        against = off < 0.8 * self.limit_s if self.skewed else off > self.limit_s
        self._against = self._against + 1 if against else 0
        if self._against >= LOOKS:
            self.skewed, self._against = not self.skewed, 0
        elif self.shown_s is None:
            if against:
                return False  # the first verdict on a clock waits until it is certain
        elif (
            not self.skewed or off <= self.limit_s or abs(measured_s - self.shown_s) <= self.limit_s
        ):
            return False
        before, self.shown_s = self.shown_s, round(measured_s) if self.skewed else 0
        return before != self.shown_s

    def condition(self) -> Condition | None:
        if self.shown_s is None:
            return None
        if not self.skewed:
            return Condition(
                membercluster.CLOCK_SYNCED,
                TRUE,
                "Synced",
                f"Its clock is within {self.limit_s:g} s of the hub's.",
            )
        message = f"{self.off[:1].upper()}{self.off[1:]}."
        return Condition(membercluster.CLOCK_SYNCED, FALSE, "ClockSkew", message)

    @property
    def off(self) -> str:
        """How far it is off, as a sentence without a full stop; "" while it is right."""
        if not self.skewed or self.shown_s is None:
            return ""
        way = "ahead of" if self.shown_s > 0 else "behind"
        return f"its clock is {abs(self.shown_s)} s {way} the hub's, more than {self.limit_s:g} s"


@dataclass(slots=True)
class Vitals:
    """Everything about one member that is shown besides Ready."""

    clock: ClockWatch = field(default_factory=ClockWatch)
    auth_trouble: str = ""
    """Why it refuses our credentials; "" when it accepts them."""
    watch_trouble: str = ""
    """Which watches fail; "" when none does."""
    list_trouble: tuple[str, str] = ("", "")
    """Reason and message for lists and watches that are not read on; "" while all are."""
    strangers: tuple[WorkloadKey, ...] = ()
    """Slices of this federation that nothing on the host accounts for."""
    renewal: Condition | None = None
    """What prevents renewing our token there; None for nothing."""
    removal: Condition | None = None
    """How far its removal is, and what it waits for; None while it is not being removed."""
    drain: Condition | None = None
    """How far its drain is, or the failover from it, and what that waits for; None without one, or
    while it was not looked at yet."""
    drained: Mapping[str, Any] | None = None
    """The same in figures (`status.drain`)."""
    promise: Promise | None = None
    """The last renewal of its lease; None while none is known of, and without guarded shards."""
    lapsed: bool = False
    """Its lease is over: guarded shards that it had run there no more."""
    heard_by: tuple[str, ...] = ()
    """Standby hubs that hear it although this one, which leads, has not for longer than a blip."""
    missed_by: tuple[str, ...] = ()
    """Those that do not hear it either."""
    maintenance: Condition | None = None
    """How it stands to its maintenance windows; None without any."""
    probe: Mapping[str, Any] | None = None
    """What this process has to say in `status.probe`, None for a field that ends; None as a whole
    for nothing."""
    unlisted: str = ""
    """Why it takes no new work although it is well: its MemberCluster may be gone, as a sentence.
    "" while the host lists it."""
    success: Rate = field(default_factory=Rate)
    """How well copies start and jobs end there (`hub/metering/success.py`)."""
    _failing: frozenset[str] = frozenset()
    _met: frozenset[WorkloadKey] = frozenset()

    def observe_success(self, rate: Rate) -> None:
        """All shares were looked at."""
        self.success = rate

    def observe_renewal(self, trouble: Condition | None) -> None:
        """What prevents renewing our token there; None for nothing."""
        self.renewal = trouble

    def observe_removal(self, progress: Condition) -> None:
        """How far its removal is."""
        self.removal = progress

    def observe_drain(self, said: Condition | None, figures: Mapping[str, Any] | None) -> None:
        """How far its drain or the failover from it is, as a condition and in figures."""
        self.drain, self.drained = said, figures

    def observe_promise(self, promise: Promise | None) -> None:
        """Its lease was renewed for so long; None when nothing is known of a renewal."""
        self.promise = promise

    def observe_lapse(self, *, lapsed: bool) -> None:
        """Whether its lease is over."""
        self.lapsed = lapsed

    def observe_witnesses(self, hear: tuple[str, ...], miss: tuple[str, ...]) -> None:
        """Which standby hubs hear it while this hub does not, and which do not either."""
        self.heard_by, self.missed_by = hear, miss

    def observe_maintenance(self, phase: Condition | None) -> None:
        """How it stands to its maintenance windows; None without any."""
        self.maintenance = phase

    def observe_probe(self, news: Mapping[str, Any]) -> None:
        """Fields of `status.probe` that are new; None for one that ends."""
        self.probe = {**(self.probe or {}), **news}

    def observe_unlisted(self, why: str) -> None:
        """The host does not list its MemberCluster; "" when it does."""
        self.unlisted = why

    def limit_clock(self, limit_s: float) -> None:
        """How far its clock may be off."""
        self.clock.limit_s = limit_s

    def silence(self, reachability: ReachabilityState) -> str:
        """Why what it holds is not known, as a sentence without a full stop."""
        why = f"it is {reachability.state.value}: {reachability.why}"
        if not self.heard_by:
            return why
        hubs = ", ".join(self.heard_by)
        return (
            f"{why.removesuffix('.')}; the standby hub {hubs} hears it, so the fault is between it"
            " and the leader, and nothing leaves it"
        )

    def note_auth(self, trouble: str) -> bool:
        """Takes a probe's result about our credentials; returns whether it is new."""
        news = bool(trouble) != bool(self.auth_trouble)
        if news:
            self.auth_trouble = trouble
        return news

    def note_watches(self, failing: Sequence[str]) -> bool:
        """Takes the collections with watches that fail now; two observations in a row count."""
        lasting, self._failing = self._failing & set(failing), frozenset(failing)
        trouble = ", ".join(sorted(lasting)) if failing else ""
        news, self.watch_trouble = trouble != self.watch_trouble, trouble
        return news

    def note_lists(self, troubles: Mapping[str, errors.Endless]) -> bool:
        """Takes the collections with lists or watches that are not read further, and why; returns
        whether that is new."""
        costly = any(isinstance(error, errors.OverBudget) for error in troubles.values())
        reason = "ProcessorBudget" if costly else "EndlessList"
        why = "; ".join(f"{plural}: {error}" for plural, error in sorted(troubles.items())[:3])
        trouble = (reason, why) if troubles else ("", "")
        news, self.list_trouble = trouble != self.list_trouble, trouble
        return news

    @property
    def met(self) -> frozenset[WorkloadKey]:
        """The unknown slices that were there at the last observation."""
        return self._met

    def note_strangers(self, strangers: Sequence[WorkloadKey]) -> None:
        """Takes the unknown slices that are there now; two observations in a row count."""
        self.strangers = tuple(key for key in strangers if key in self._met)
        self._met = frozenset(strangers)

    def conditions(self) -> tuple[Condition, ...]:
        """The conditions to show; an aspect that is unknown or fine is left out."""
        conditions = [self.clock.condition()]
        if self.auth_trouble:
            conditions.append(
                Condition("Authenticated", FALSE, "AuthFailed", _sentence(self.auth_trouble))
            )
        if self.watch_trouble:
            message = (
                f"Watches of {self.watch_trouble} end as soon as they begin; what is known of it"
                " comes from lists."
            )
            conditions.append(Condition("Watching", FALSE, "WatchFailing", message))
        if self.list_trouble[0]:
            reason, why = self.list_trouble
            message = (
                "Lists or watches are not read on, and are listed again after one to fifteen"
                f" minutes: {why}"
            )[:1000]
            conditions.append(Condition("Listing", FALSE, reason, message))
        if self.strangers:
            shown = ", ".join(str(key) for key in self.strangers[:3])
            more = f" and {len(self.strangers) - 3} more" if len(self.strangers) > 3 else ""
            message = (
                f"No workload and no decision of this host accounts for {shown}{more}; they are"
                " left as they are."
            )
            conditions.append(Condition("SlicesKnown", FALSE, "UnknownSlices", message))
        conditions += [self.renewal, self.removal, self.drain, self.maintenance]
        return tuple(condition for condition in conditions if condition is not None)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
