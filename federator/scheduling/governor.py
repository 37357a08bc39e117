"""Which clusters are lost, by evidence, and when work may leave one without a person's word. Pure.

`step` takes what is known of every cluster into account, all at once: silence of one cluster is
news of that cluster, silence of most of them is news of us. `holds` says why one workload stays.
The hub runs both; `evacuation` then gives the turns.

The brake is the one of Kubernetes' node life cycle controller, with clusters for nodes: evictions
slow down when most are gone (and stop in small fleets), and stop when all are. When the first one
is heard again after all were gone, every clock starts anew.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from federator.model.policy import Failover, Policy

NEWS_S: Final = 90.0
"""News through a watch contradicts the probe for so long: an API server sends a bookmark about once
a minute."""
PARTIAL_PERCENT: Final = 55
"""More than so many of a hundred clusters gone is a partial disruption (Kubernetes:
--unhealthy-zone-threshold 0.55)."""
PARTIAL_LEAST: Final = 3
"""But never fewer than so many."""
SMALL_FLEET: Final = 10
"""Up to so many clusters a partial disruption stops failovers; beyond, it slows them."""
SLOWED: Final = 10
"""By this divisor (Kubernetes: 0.1 a second becomes 0.01)."""


class Health(StrEnum):
    """What is held of one cluster."""

    LIVE = "Live"
    SUSPECT = "Suspect"
    """It is silent, for less than the grace, or to this hub alone."""
    UNREACHABLE = "Unreachable"
    """Its control plane is gone; its workloads may live."""
    DEAD = "Dead"
    """A person said of this silence that nothing runs there."""
    DEGRADED = "Degraded"
    """It answers, and has no machine."""
    UNKNOWN = "Unknown"
    """Nothing may be concluded: it was not asked, refuses us, or its API server answers while its
    member process is silent."""


class Probed(StrEnum):
    """What the hub's own probe says."""

    ANSWERS = "Answers"
    SILENT = "Silent"
    REFUSES = "Refuses"
    """It answers, and not as the cluster that joined."""
    NOT_ASKED = "NotAsked"
    """Not yet, or the hub had no means to: never another's silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one cluster. Times in seconds until now."""

    probed: Probed
    silent_s: float = 0.0
    """Since the last good probe; time in which none was sent does not count."""
    news_s: float | None = None
    """Since anything came through a watch there after its probes had begun to fail; None for
    nothing."""
    process_speaks: bool = True
    """The lease of its member process is renewed, as far as it can be read."""
    machines: int | None = None
    """Nodes by its last report; None without one."""
    declared_dead: bool = False
    heard_elsewhere: bool = False
    """A standby hub hears it now."""


def health(evidence: Evidence, grace_s: float) -> Health:
    """What the evidence amounts to. No single source makes a cluster Unreachable: what still comes
    through a watch contradicts the probe, and so does a standby hub that hears it. A person's word
    about what runs there stands against what another hub hears of its API server."""
    match evidence.probed:
        case Probed.NOT_ASKED | Probed.REFUSES:
            return Health.UNKNOWN
        case Probed.ANSWERS:
            if not evidence.process_speaks:
                return Health.UNKNOWN
            return Health.DEGRADED if evidence.machines == 0 else Health.LIVE
        case Probed.SILENT:
            # A watch uses another connection than the probe: news through it proves that the API
            # server lives.
            tells = evidence.news_s is not None and evidence.news_s < NEWS_S
            if evidence.silent_s < grace_s or tells:
                return Health.SUSPECT
            if evidence.declared_dead:
                return Health.DEAD
            return Health.SUSPECT if evidence.heard_elsewhere else Health.UNREACHABLE


class Brake(StrEnum):
    """How far the whole fleet holds failovers back."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"
    OWN = "OwnShortage"
    """The hub lacks something of its own."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One cluster: what is held of it, and since when without a break (monotonic seconds)."""

    health: Health
    since_s: float


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """All clusters, and the brake."""

    clusters: Mapping[str, Watched] = field(default_factory=dict)
    brake: Brake = Brake.NORMAL

    def of(self, cluster: str) -> Watched | None:
        return self.clusters.get(cluster)

    def a_minute(self, most: int) -> int:
        """Copies that may fail over in a minute, where `most` may when nothing else is wrong."""
        match self.brake:
            case Brake.NORMAL:
                return most
            case Brake.PARTIAL if _counted(self.clusters.values()) > SMALL_FLEET:
                return max(most // SLOWED, 1)
            case _:
                return 0

    def why(self) -> str:
        """What the brake means, as a part of a sentence; "" when it holds nothing."""
        total, gone = _counted(self.clusters.values()), _disrupted(self.clusters.values())
        match self.brake:
            case Brake.NORMAL:
                return ""
            case Brake.OWN:
                return "OwnShortage: the hub lacks local resources, so failed probes do not count"
            case Brake.FULL:
                return (
                    f"FullDisruption: none of {total} clusters is reachable, so the cause may be"
                    " the network of the hub"
                )
            case Brake.PARTIAL:
                pace = "copies move slowly" if total > SMALL_FLEET else "nothing moves"
                return f"PartialDisruption: {gone} of {total} clusters are unreachable, {pace}"


def step(
    before: FleetHealth,
    evidence: Mapping[str, Evidence],
    *,
    now_s: float,
    grace_s: float,
    short: bool = False,
) -> FleetHealth:
    """The fleet after another look. `short`: the hub lacks something of its own."""
    held = {name: health(seen, grace_s) for name, seen in evidence.items()}
    returns = _all_gone(before.clusters.values()) and not _all_gone(
        Watched(state, now_s) for state in held.values()
    )
    clusters: dict[str, Watched] = {}
    for name, state in held.items():
        watched = before.of(name)
        goes_on = watched is not None and watched.health is state
        # The silence may have been the hub's own. Each cluster has to be silent for the whole time
        # again, or all would fail over at once.
        restarts = state is Health.UNREACHABLE and (returns or short)
        since_s = watched.since_s if watched is not None and goes_on and not restarts else now_s
        clusters[name] = Watched(state, since_s)
    return FleetHealth(clusters, Brake.OWN if short else brake(clusters.values()))


def brake(clusters: Collection[Watched]) -> Brake:
    """The brake for clusters as they are held. A cluster that a person declared dead counts on
    neither side."""
    total, gone = _counted(clusters), _disrupted(clusters)
    # Before the percentage: with few clusters all may be gone and yet be fewer than PARTIAL_LEAST.
    if gone and gone == total:
        return Brake.FULL
    if gone >= PARTIAL_LEAST and gone * 100 > PARTIAL_PERCENT * total:
        return Brake.PARTIAL
    return Brake.NORMAL


_WELL: Final = (Health.LIVE, Health.DEGRADED)
_GONE: Final = (Health.UNREACHABLE, Health.UNKNOWN)


def _counted(clusters: Iterable[Watched]) -> int:
    return sum(watched.health is not Health.DEAD for watched in clusters)


def _disrupted(clusters: Iterable[Watched]) -> int:
    return sum(watched.health not in (*_WELL, Health.DEAD) for watched in clusters)


def _all_gone(clusters: Iterable[Watched]) -> bool:
    """Whether nobody is heard, for longer than a blip."""
    counted = [watched.health for watched in clusters if watched.health is not Health.DEAD]
    return (
        bool(counted) and all(state in _GONE for state in counted) and Health.UNREACHABLE in counted
    )


# -- one workload -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The last automatic move of a workload."""

    at_s: float
    """Monotonic seconds."""
    silences: frozenset[str]
    """Of which clusters, and since when: what leaves clusters that were lost at the same time is
    one move."""


ONLY_DEAD: Final = (
    "no two of its copies may ever overlap, and they may be running on there: only federator"
    " cluster declare-dead moves it"
)
ONLY_FENCED: Final = (
    "none of its shards may run twice (execution Exclusive), and they may be running on there: only"
    " federator fence moves it"
)
ONLY_LAPSED: Final = (
    "none of its shards may run twice (execution Exclusive), and until the lease of that cluster is"
    " surely over they may be running on there"
)
"""Why a workload stays on a silent cluster whatever its policy says, as parts of sentences."""


def holds(policy: Policy, lost: Watched, silence: str, last: Move | None, now_s: float) -> str:
    """Why a workload stays on a cluster that is Unreachable, as a part of a sentence; "" when it
    may leave now."""
    after_s = policy.stays_unreachable_s
    if after_s is None:
        return "its policy does not let it leave a cluster that is only silent (failover.when)"
    if now_s < lost.since_s + after_s:
        return f"it fails over when that has lasted for {after_s:.0f} s (failover.afterSeconds)"
    rests_s = policy.failover.cooldown_s
    # Copies of one workload in several clusters that were lost together must not wait for each
    # other.
    if last is not None and silence not in last.silences and now_s < last.at_s + rests_s:
        return f"it was moved within the last {rests_s} s (failover.cooldownSeconds)"
    return ""


def may_return(failover: Failover, home: Watched | None, last: Move | None, now_s: float) -> bool:
    """Whether copies may go back to the cluster that they left: it has been well for long enough,
    and they have rested."""
    if not failover.returns or home is None or home.health is not Health.LIVE:
        return False
    if now_s - home.since_s < failover.failback_after_s:
        return False
    return last is None or now_s - last.at_s >= failover.cooldown_s
