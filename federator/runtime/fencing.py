"""The arithmetic of the fence around guarded shards: what the hub promises a cluster, until when a
guard in a pod believes it, and when nothing runs there any more. Pure.

The hub renews one Lease for each cluster, on the host first and then the cluster's own copy. The
guard of a pod reads the copy and lets its shard run while the lease is good. When renewals end, the
shard has stopped `Times.over_after_s` after the last one, whatever became of the cluster:

    lease + skew + write + poll + stop
    180   + 10   + 10    + 9    + 133   = 342 s

`lease`: what the last renewal promised. `skew`: how far the node's clock may be behind the hub's.
`write`: how late a renewal may reach the cluster's API server. `poll`: how late a guard may read
it. `stop`: from a bad answer of the guard until the containers have ended.

The guard has two ends and takes the earlier one: the hub's wall time, good while clocks are within
`skew`; and its own clock, good while renewals are no later than `write`. Either alone would do.
"""

from dataclasses import dataclass
from typing import Final

LEASE: Final = "federator-fence"
"""Name of the cluster's copy, in the federation's namespace there."""
HOST_LEASE: Final = "federator-fence-{cluster}"
"""Name of the hub's record, in the hub's namespace on the host."""

POLL_S: Final = 5.0
"""A guard reads the lease so often."""
READ_S: Final = 4.0
"""A read without an answer by then has failed."""
PROBE_PERIOD_S: Final = 5
PROBE_TIMEOUT_S: Final = 3
PROBE_FAILURES: Final = 2
"""The liveness probe of guarded containers: after so many bad answers in a row, a period apart, the
kubelet stops one."""
GRACE_MAX_S: Final = 60
"""A guarded container is killed when it has not ended so long after it was told to; a pod may ask
for less, not for more."""
STOP_S: Final = PROBE_PERIOD_S * PROBE_FAILURES + PROBE_TIMEOUT_S + 2 * GRACE_MAX_S
"""From the end of a lease until the containers of a pod have ended. Native sidecars of the workload
are told to end after the others, so the grace counts twice."""
LATE_WRITE_S: Final = 60.0
"""An API server carries a request out within this, even after the client has given it up."""
TAKE_OVER_S: Final = 2
"""Renewals that a change of leader may cost."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times in seconds. Raises ValueError, with the figures, where the fence would not hold."""

    lease_s: float = 180.0
    renew_s: float = 15.0
    write_s: float = 10.0
    skew_s: float = 10.0
    skew_told_s: float = 5.0
    """A cluster's clock is known to be off from here on (ClockSkew)."""
    leader_s: float = 17.0
    """How long the federation may be without a leader when one dies."""

    def __post_init__(self) -> None:
        if self.renew_s > self.lease_s / 3:
            raise ValueError(
                f"renewals every {self.renew_s:g} s are too rare for a lease of"
                f" {self.lease_s:g} s: a third of it, {self.lease_s / 3:g} s, at most, so that two"
                " may fail"
            )
        if self.write_s >= self.renew_s:
            raise ValueError(
                f"the deadline of one renewal ({self.write_s:g} s) must be shorter than the time"
                f" between two ({self.renew_s:g} s), or they overtake each other"
            )
        if self.skew_s < self.skew_told_s:
            raise ValueError(
                f"the skew budget ({self.skew_s:g} s) must not be less than the skew that is told"
                f" ({self.skew_told_s:g} s): shards would start before those of a cluster with a"
                " clock that counts as right have stopped"
            )
        gap_s = self.leader_s + TAKE_OVER_S * self.renew_s + self.write_s + POLL_S + READ_S
        if self.lease_s <= gap_s:
            raise ValueError(
                f"a lease of {self.lease_s:g} s ends while another hub takes over: without a"
                f" leader for {self.leader_s:g} s, then {TAKE_OVER_S} renewals of"
                f" {self.renew_s:g} s, a write of {self.write_s:g} s and a guard's read of"
                f" {POLL_S + READ_S:g} s are {gap_s:g} s, and every guarded shard would stop"
            )
        if self.lease_s < LATE_WRITE_S:
            raise ValueError(
                f"a lease of {self.lease_s:g} s is shorter than a slice may be on its way"
                f" ({LATE_WRITE_S:g} s): it could bring shards that have begun elsewhere"
            )

    def over_after_s(self, lease_s: float) -> float:
        """Seconds after a renewal was sent that promised `lease_s` until nothing guarded runs, if
        it was the last one."""
        return lease_s + self.skew_s + self.write_s + POLL_S + READ_S + STOP_S


@dataclass(frozen=True, slots=True)
class Promise:
    """The last renewal that a cluster may have got, as its sender knows it. `elapsed_s` is of the
    hub's own clock that also counts sleep, `wall_s` is epoch seconds; both of when it was sent."""

    elapsed_s: float
    wall_s: float
    lease_s: float

    @property
    def ends_s(self) -> float:
        """When the lease that it promised ends, by the hub's own clock."""
        return self.elapsed_s + self.lease_s

    def left_s(self, times: Times, elapsed_s: float, wall_s: float) -> float:
        """Seconds until nothing guarded runs there; 0 or less when that is so. By both clocks: a
        step of the wall clock alone never makes it sooner."""
        after_s = times.over_after_s(self.lease_s)
        return max(self.elapsed_s - elapsed_s, self.wall_s - wall_s) + after_s

    def outlasting(self, former: "Promise | None") -> "Promise":
        """This renewal, or a former one if its lease ends later. A guard keeps to the later end, so
        a leader with a shorter lease than the former leader's must too."""
        return self if former is None or former.ends_s <= self.ends_s else former


# -- in the pod ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a lease says. `text` is its renewTime as written: only whether it changes counts, and as
    a time (`wall_s`) it is believed as far as clocks agree."""

    text: str = ""
    wall_s: float = 0.0
    lease_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What a guard has seen. Times of its own clock, but `ends_s`."""

    renewal: Renewal = Renewal()
    asked_s: float | None = None
    """When it asked for the answer that last showed this renewal; None before the first answer."""
    until_s: float | None = None
    """By its own clock the lease is good until then; None before it has seen a renewal happen."""
    ends_s: float = 0.0
    """By the hub's wall clock the lease is good until then, in epoch seconds."""


def look(before: Sight, renewal: Renewal, asked_s: float) -> Sight:
    """The sight after an answer to a question sent at `asked_s`.

    A renewal that was not there when it asked the last time was made after that, so the lease
    counts from there: never longer than the hub counts it, however late this answer is. What the
    first answer shows may be of any age, and lets nothing run.
    """
    if before.asked_s is None or renewal.text == before.renewal.text:
        return Sight(renewal, asked_s, before.until_s, before.ends_s)
    until_s = max(before.asked_s + renewal.lease_s, before.until_s or 0.0)
    return Sight(renewal, asked_s, until_s, renewal.wall_s + renewal.lease_s)


def why_not(sight: Sight, now_s: float, wall_s: float) -> str:
    """Why nothing may run now, as a part of a sentence; "" when it may."""
    if sight.asked_s is None:
        return "the lease has not been read yet"
    if sight.until_s is None:
        return "no renewal of the lease has been seen yet"
    if now_s >= sight.until_s:
        return f"no renewal of the lease for {now_s - sight.until_s + sight.renewal.lease_s:.0f} s"
    if wall_s >= sight.ends_s:
        return f"the lease ran out {wall_s - sight.ends_s:.0f} s ago by this node's clock"
    return ""
