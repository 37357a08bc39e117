"""The governor at work: looks at what is known of all members, tells which are lost, and says why
a workload stays on one of them. The rule is `scheduling.governor`; here are inputs and memory.

Its clocks begin with its term: a hub that has just begun to lead has seen nobody silent for long.
What moved before is on the host, in the decisions.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from federator.api import maintenance, membercluster, raw
from federator.hub.cache.router import MemberChanged
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.members.sights import Witnesses
from federator.hub.records.decisions import Record
from federator.kube.clock import in_slices
from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.model.policy import Failover
from federator.scheduling import governor
from federator.scheduling.governor import Brake, Evidence, FleetHealth, Health, Move, Probed

log = logging.getLogger(__name__)

STOOD_STILL_S: Final = 30.0
"""After a pause of this length between two looks this process knows nothing of the time between."""


LATE_S: Final = 20.0
"""News that came so soon after the last good probe may be older than what cut the cluster off."""
_PROBED: Final = {
    Reachability.UNKNOWN: Probed.NOT_ASKED,
    Reachability.LIVE: Probed.ANSWERS,
    Reachability.SUSPECT: Probed.SILENT,
    Reachability.UNREACHABLE: Probed.SILENT,
    Reachability.REFUSED: Probed.REFUSES,
}


_NOTHING: Final = Witnesses()


def nobody(clusters: Collection[str]) -> Mapping[str, Witnesses]:
    """No standby hub says anything."""
    return {}


class Governing(Controller):
    """The view of the fleet, and the times of the moves of each workload."""

    def __init__(
        self,
        tools: Tools,
        short: Callable[[], bool],
        *,
        witnesses: Callable[[Collection[str]], Mapping[str, Witnesses]] = nobody,
    ) -> None:
        super().__init__(tools)
        self.fleet = FleetHealth()
        self._short = short
        """Whether this process lacks something of its own."""
        self._witnesses = witnesses
        """What standby hubs say of clusters."""
        self._moves: dict[WorkloadKey, Move] = {}
        self._held: dict[str, Brake] = {}
        """Unreachable clusters and the brake that was told of each."""
        self._looked_s: float | None = None
        self._noted: dict[str, tuple[Health, bool]] = {}
        """By cluster, what the history was told last: what it is held to be, and whether it is
        cordoned."""

    def begin(self) -> None:
        """A term begins: nothing is known of the fleet, and of moves what decisions say."""
        self.fleet, self._looked_s = FleetHealth(), None
        self._held.clear()
        self._noted.clear()
        self._moves.clear()
        for member in self.state.members.values():
            member.vitals.observe_witnesses((), ())
        now_s, wall_s = self.clock.monotonic(), self.clock.now()
        for record in self.state.records.values():
            if record.terms.failovers:
                last = max(record.terms.failovers, key=lambda left: left.last_s)
                ago_s = max(wall_s - last.last_s, 0.0)
                self._moves[record.key] = self._move(record, now_s - ago_s)

    async def look(self) -> bool:
        """Judges all members by what is known of them now. Returns whether another one is
        unreachable: turns that were given before do not speak of it.

        Other tasks get their turns in between; the brake is computed for all clusters in one step.
        """
        now_s, grace_s = self.clock.monotonic(), self.state.options.unready_after_s
        still = self._looked_s is not None and now_s - self._looked_s > STOOD_STILL_S
        self._looked_s = now_s
        self._hear_witnesses()
        evidence = {
            name: evidence_of(member, now_s, grace_s)
            async for name, member in in_slices(sorted(self.state.members.items()), self.clock)
            if _counts(member)
        }
        short = self._short() or still
        self.fleet = governor.step(self.fleet, evidence, now_s=now_s, grace_s=grace_s, short=short)
        newly_lost = False
        async for name, watched in in_slices(self.fleet.clusters.items(), self.clock):
            if (member := self.state.members.get(name)) is None:
                continue  # it left the fleet meanwhile
            gone = Health.UNREACHABLE
            newly_lost = newly_lost or (watched.health is gone and member.health is not gone)
            self._hold(member, watched.health)
            self._note(member)
        self._tell_brake()
        self._measure()
        return newly_lost

    def _hear_witnesses(self) -> None:
        """Notes what standby hubs say of the clusters that are silent here, and tells of those that
        are silent to this hub alone."""
        members = self.state.members
        lost = [
            name
            for name, member in sorted(members.items())
            if member.link.reachability.state is Reachability.UNREACHABLE
            and not member.link.unasked
        ]
        said = self._witnesses(lost)
        for name, member in members.items():
            witnesses, vitals = said.get(name, _NOTHING), member.vitals
            before = vitals.heard_by
            vitals.observe_witnesses(witnesses.hear, witnesses.miss)
            if before != vitals.heard_by:
                self.state.signals.member_changed(MemberChanged.SAID, member)
            if vitals.heard_by and not before:
                why = member.link.reachability.why.removesuffix(".")
                note = (
                    f"The leader does not hear it: {why}. The standby hub"
                    f" {', '.join(vitals.heard_by)} does, so nothing leaves it."
                )
                self.events.drain(member, "HeardByStandby", note, warning=True)

    def _hold(self, member: Member, health: Health) -> None:
        if member.health is health:
            return
        before = member.health
        member.observe_health(health)
        log.info("member %s is held to be %s, before %s", member.name, health, before)
        self.state.signals.member_changed(MemberChanged.SAID, member)

    def _note(self, member: Member) -> None:
        """Tells the history what a member is held to be now, and of cordons. A blip is no news."""
        cordoned = raw.flag(member.obj, "spec", "cordoned")
        was, before = self._noted.get(member.name, (Health.UNKNOWN, cordoned))
        health = was if member.health is Health.SUSPECT else member.health
        self._noted[member.name] = health, cordoned
        if cordoned is not before:
            names = "Schedulable", "Cordoned"
            reason = "Cordoned" if cordoned else "Uncordoned"
            self.events.noted(member, reason, "", names[before], names[cordoned])
        if health is was or Health.UNKNOWN in (health, was):
            return
        why = member.link.reachability.why.removesuffix(".")
        if missed := member.vitals.missed_by:
            why = f"{why} (nor by the standby hub {', '.join(missed)})"
        self.events.noted(member, f"HeldToBe{health}", why, was, health)

    def _tell_brake(self) -> None:
        """Tells of every cluster that work would leave that it does not, or that it does again."""
        lost = {
            name
            for name, watched in self.fleet.clusters.items()
            if watched.health is Health.UNREACHABLE
        }
        self._held = {name: brake for name, brake in self._held.items() if name in lost}
        for name in sorted(lost):
            before, now = self._held.get(name, Brake.NORMAL), self.fleet.brake
            if now is before:
                continue
            self._held[name] = now
            member = self.state.members.get(name)
            if member is None:
                continue
            log.warning("failover of %s: %s", name, self.fleet.why() or "held no more")
            if now is Brake.NORMAL:
                note = f"The brake is released, after {before}."
                self.events.drain(member, "FailoverReleased", note)
            else:
                self.events.drain(member, "FailoverHeld", f"{self.fleet.why()}.", warning=True)

    def _measure(self) -> None:
        metrics = self.state.metrics
        if metrics is None:
            return
        counted = [watched.health for watched in self.fleet.clusters.values()]
        for health in Health:
            metrics.child("federator_clusters", health).set(counted.count(health))
        alone = sum(bool(member.vitals.heard_by) for member in self.state.members.values())
        metrics.child("federator_clusters_heard_by_standby").set(alone)
        for brake in Brake:
            metrics.child("federator_failover_brake", brake).set(brake is self.fleet.brake)

    # -- one workload ---------------------------------------------------------

    def a_minute(self, most: int) -> int:
        """Copies that may fail over in a minute now."""
        return self.fleet.a_minute(most)

    def why(self) -> str:
        """What holds all failovers, as a part of a sentence; "" for nothing."""
        return self.fleet.why()

    def holds(self, ask: Ask, key: WorkloadKey, member: Member) -> str:
        """Why the copies of this workload stay on an unreachable member, as a part of a sentence;
        "" when they may leave."""
        watched = self.fleet.of(member.name)
        if watched is None:
            return "nothing is known of it yet"
        if not self.fleet.a_minute(self.state.options.evacuated_copies_a_minute):
            return self.fleet.why()
        now_s = self.clock.monotonic()
        return governor.holds(ask.policy, watched, silence_of(member), self._moves.get(key), now_s)

    def moved(self, record: Record) -> None:
        """Copies of a workload leave a lost cluster, or go back to one: `record` is as before."""
        self._moves[record.key] = self._move(record, self.clock.monotonic())

    def _move(self, record: Record, at_s: float) -> Move:
        """What is lost of it by now is one move with what it has left."""
        members = self.state.members
        lost = {
            silence_of(members[name])
            for name in record.clusters
            if name in members and members[name].unreachable
        }
        left = {failed.silence for failed in record.terms.failovers}
        return Move(at_s=at_s, silences=frozenset(left | lost))

    def may_return(self, failover: Failover, key: WorkloadKey, cluster: str) -> bool:
        """Whether copies may go back to a cluster that they left."""
        member, home = self.state.members.get(cluster), self.fleet.of(cluster)
        if member is None or not member.readiness()[0] or member.drain is not None:
            return False
        if self.fleet.brake is not Brake.NORMAL or raw.flag(member.obj, "spec", "cordoned"):
            return False
        if maintenance.closed(member.obj, self.clock.now()):
            return False
        now_s = self.clock.monotonic()
        return governor.may_return(failover, home, self._moves.get(key), now_s)

    def forget(self, key: WorkloadKey) -> None:
        self._moves.pop(key, None)


def silence_of(member: Member) -> str:
    """Names one silence of one member."""
    return f"{member.name} {raw.text(member.obj, 'status', 'lastHeard')}"


def _counts(member: Member) -> bool:
    """Whether it is a cluster of the fleet of its own."""
    return not (
        member.duplicate_of
        or member.abandoned
        or membercluster.removal(member.obj) is not membercluster.Removal.NONE
    )


def evidence_of(member: Member, now_s: float, grace_s: float) -> Evidence:
    """What is known of a member. `grace_s`: silence that is no loss yet. Whether it is longer is
    the reachability's to say, which knows for how long this process itself stood still."""
    probed = Probed.NOT_ASKED if member.link.unasked else _PROBED[member.link.reachability.state]
    lost = member.link.reachability.state is Reachability.UNREACHABLE
    good_s = member.link.reachability.heard_at_s
    heard_s = max(
        [
            member.contents.reports.heard_at,
            *(kept.heard_at for kept in member.contents.stores.values()),
        ]
    )
    return Evidence(
        probed=probed,
        silent_s=grace_s if lost else 0.0,
        news_s=now_s - heard_s if good_s is not None and heard_s > good_s + LATE_S else None,
        process_speaks=member.process.speaks,
        machines=_machines(member),
        declared_dead=membercluster.declared_dead(member.obj),
        heard_elsewhere=bool(member.vitals.heard_by),
    )


def _machines(member: Member) -> int | None:
    if member.contents.report is None:
        return None
    return sum(row.count for row in member.contents.report.capacity.rows)
