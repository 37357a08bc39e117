"""All the rules of one run together: who is told of every write and every request, and what was
found.

Made by `running.Run`, which says when quiet begins and asks `found()`. Writes are judged inside
themselves, so a judge only takes note.
"""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from federator.api import raw
from federator.api.placement.decisionfacts import decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.revisions import DELETED, Event
from federator.kinds import registry
from federator.kinds.natives import NATIVES
from federator.kube.leader.elector import Elector
from federator.model.shards import Ranges
from tests.faults.lives import Life
from tests.simulation import conduct, confined, hearing, invariants, reasons
from tests.simulation.availability import Availability
from tests.simulation.booked import Booked
from tests.simulation.bulkhead import Bulkhead
from tests.simulation.charges import Charges
from tests.simulation.claimed import MOVES, Claimed
from tests.simulation.contested import Contested
from tests.simulation.daemonrules import EveryNode
from tests.simulation.doubts import Doubts
from tests.simulation.endings import JUMPS, Endings
from tests.simulation.feasibility import POLICIES, Feasibility
from tests.simulation.forgotten import Forgotten
from tests.simulation.gangs import Gangs
from tests.simulation.invariants import Obj
from tests.simulation.nativeruns import NativeRuns
from tests.simulation.once import Once
from tests.simulation.ordinals import OnePlace
from tests.simulation.paid import Paid
from tests.simulation.recurrences import Recurrences
from tests.simulation.removals import Removals
from tests.simulation.respect import Respect
from tests.simulation.scaled import Scaled
from tests.simulation.shardruns import ShardRuns
from tests.simulation.silence import Silence
from tests.simulation.story import Sent
from tests.simulation.tombstones import Tombstones
from tests.simulation.upheld import Upheld
from tests.simulation.world import Listener, World
from tests.worlds import WRITER

COMPLETING = frozenset({"PinterestJobSet", "PinterestTrainingJob"})
"""Kinds whose status says which shards are done."""
COUNTED = frozenset({*registry.WORKLOADS, *NATIVES, "PlacementDecision", "ClusterCapacity"})


class Errors(logging.Handler):
    """20: an exception that nobody expected is a breach."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record) if record.exc_info else record.getMessage()
        self.found.append(f"20 total functions: {text}")
        self._say(f"BROKEN: {self.found[-1].splitlines()[0]}")


class Judges:
    """Every rule that holds while a world runs, and what is counted of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.quiet = conduct.Quiet()
        self.loops = conduct.NoHotLoop(world.federation.clock.monotonic)
        one_leader, no_replay = conduct.OneLeader(), conduct.NoReplay()
        as_granted = conduct.AsGranted(self._elector, world.federation.clock.monotonic)
        self.stability = conduct.StaticStability()
        self.watchers: list[conduct.Watcher] = [
            self.quiet,
            self.loops,
            conduct.NoDeleteOnDoubt(),
            one_leader,
            no_replay,
            as_granted,
            conduct.Conditional(),
            conduct.OnlyWhomWeKnow(lambda name: world.facing(name).uid, world.recorded),
            self.stability,
        ]
        world.senders += [
            one_leader.sending,
            no_replay.sending,
            as_granted.sending,
            self.loops.sending,
        ]
        world.listeners += [self._watch(one) for one in self.watchers]
        self.tombstones = Tombstones()
        self.removals = Removals()
        self.recurrences, self.native_runs = Recurrences(), NativeRuns()
        self.gangs = Gangs()
        self.contested = Contested(world)
        self.one_place, self.scaled = OnePlace(), Scaled()
        self.endings = Endings(world.federation.clock.monotonic, lambda: self._any_of(JUMPS))
        self.claimed = Claimed(lambda: self._any_of(MOVES))
        self.every_node, self.upheld = EveryNode(), Upheld()
        self.feasibility = Feasibility(world)
        self.respect = Respect()
        self.doubts = Doubts(world)
        self.bulkhead = Bulkhead(world)
        self.silence = Silence(world)
        self.forgotten = Forgotten(functools.partial(hearing.heard, world))
        self.charges, self.once = Charges(world), Once()
        self.shard_runs = ShardRuns(world.liars, self.removals.given_up)
        self.availability = Availability(world.federation.clock.monotonic, world.liars)
        self.booked = Booked(world.federation.clock.monotonic, world.liars)
        self.paid = Paid(world.liars)
        world.on_hub += [self.feasibility.meet, self.bulkhead.meet, self.once.meet, self.loops.meet]
        world.senders += [self.bulkhead.sending, self.charges.sending, self.availability.sending]
        world.senders.append(self.forgotten.sending)
        self.errors = Errors(world.say)
        self.broken: list[str] = []
        self.steps = 0
        self.holders: list[str] = []
        """Who held the lease of the hubs, one after the other."""
        self.changes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.decided: dict[str, int] = {}
        self.intended: dict[str, Obj] = {}
        """uid of a workload -> its last decision that a hub wrote."""
        self.elected = 0
        self.obeyed: dict[tuple[str, str], int] = {}
        self.finished: dict[str, Ranges] = {}
        self.divisions: dict[tuple[str, int], Obj] = {}
        for name, cluster in world.clusters.items():
            self._look_at(name, cluster)
        world.on_cluster.append(self._look_at)

    def found(self) -> list[str]:
        """Every breach so far."""
        return [
            *self.broken,
            *self.bulkhead.found,
            *self.charges.found,
            *self.errors.found,
            *(text for one in self.watchers for text in one.found),
        ]

    def judged(self) -> Counter[str]:
        """How much there was to judge for rules that could come away empty."""
        feasible, punctual = self.feasibility, self.bulkhead
        return Counter(
            decisions=feasible.judged,
            shares=punctual.judged,
            shares_beside=punctual.beside_trouble,
            charges=self.charges.judged,
            served=self.charges.served,
            divisions=self.once.judged,
            divided=self.once.divided,
            unrecorded=self.once.unrecorded,
            spared=self.availability.judged,
            silent=self.silence.judged,
            **self.shard_runs.judged,
            **self.recurrences.judged,
            **self.native_runs.judged,
            **self.gangs.judged,
            **self.contested.judged,
            **self.one_place.judged,
            **self.endings.judged,
            **self.scaled.judged,
            **self.claimed.judged,
            **self.every_node.judged,
            **self.booked.judged,
            **self.paid.judged,
            **self.upheld.judged,
        )

    def _any_of(self, faults: Iterable[str]) -> bool:
        return any(self.world.fired[name] for name in faults)

    def _elector(self, process: str) -> Elector | None:
        hub = self.world.federation.processes.get(process)
        return hub.elector if hub is not None else None

    def _look_at(self, name: str, cluster: EmbeddedCluster) -> None:
        cluster.store.subscribe_all(lambda event: self._step(name, cluster, event))

    def _step(self, name: str, cluster: EmbeddedCluster, event: Event) -> None:
        """Every rule at every write. Runs inside the write, so it only takes note."""
        self.steps += 1
        life = WRITER.get()
        if event.current.obj["kind"] == "PlacementDecision" and life is not None:
            facts = decision_facts(event.current.obj)
            numbers = (facts.seq, *(share.seq for share in facts.shares), *facts.marks.values())
            self.decided[facts.workload_uid] = max(
                *numbers, self.decided.get(facts.workload_uid, -1)
            )
        if event.current.obj["kind"] == "Lease" and name == "host":
            count = raw.integer(event.current.obj, "spec", "leaseTransitions")
            self.elected = max(self.elected, count)
        if name == "host" and event.type is DELETED and event.current.obj["kind"] in COMPLETING:
            self.finished[event.current.obj["metadata"]["uid"]] = invariants.finished(
                event.current.obj
            )
        if event.current.obj["kind"] in POLICIES:
            meta = event.current.obj["metadata"]
            self.divisions[meta["uid"], meta["generation"]] = raw.mapping(
                event.current.obj, "spec", "division"
            )
        step = invariants.Step(
            clusters={
                **{one: self.world.facing(one) for one in self.world.clusters},
                name: cluster,
            },
            cluster=name,
            writer=life.name if life is not None else "",
            kind=event.current.obj["kind"],
            old=event.previous.obj if event.previous is not None else None,
            new=None if event.type is DELETED else event.current.obj,
            decided=self.decided,
            elected=self.elected,
            obeyed=self.obeyed,
            finished=self.finished,
            divisions=self.divisions,
            remade=self._remade(event),
            heard=functools.partial(self._heard, life, event.current.obj),
        )
        self.reasons.update(reasons.spoken(step.kind, name, step.old, step.new))
        now_s = self.world.federation.clock.monotonic()
        if not step.writer.startswith("member-") and (
            step.kind in registry.WORKLOADS or step.kind in NATIVES
        ):
            self.stability.moved(name, now_s)
        found = [] if invariants.by_a_forger(step) else self._breaches(step, now_s)
        if invariants.is_decision(step) and life is not None:
            self.intended[decision_facts(step.obj).workload_uid] = step.obj
        if step.writer.startswith("member-"):
            for mark in invariants.marks_of_owners(step):
                key = (name, mark.workload_uid)
                self.obeyed[key] = max(mark.seq, self.obeyed.get(key, -1))
        self.broken += found
        for breach in found:
            self.world.say(f"BROKEN: {breach}")
        self.bulkhead.decided(step)
        self.charges.noted(step)
        if (step.old is None or step.new is None) and step.kind in COUNTED:
            self.changes[f"{'create' if step.old is None else 'delete'} {step.kind}"] += 1
        if step.kind == "Lease" and step.cluster == "host" and step.new is not None:
            spec = step.new.get("spec") or {}
            # Without a time of acquisition it only carries the name of who will lead.
            self._held(step.writer, (spec.get("acquireTime") and spec.get("holderIdentity")) or "")
        if invariants.is_decision(step) and (
            step.old is None or step.old["spec"] != step.obj["spec"]
        ):
            facts = decision_facts(step.obj)
            shares = (
                ", ".join(f"{share.cluster} {share.count}" for share in facts.shares) or "nowhere"
            )
            self.world.say(
                f"{step.writer:12} DECIDES {facts.key} seq {facts.seq}: {shares} of "
                f"{facts.terms.wanted}"
            )

    def _breaches(self, step: invariants.Step, now_s: float) -> list[str]:
        return [
            *invariants.breaches(step),
            *confined.breaches(step),
            *self.upheld.breaches(step),
            *self.world.patience.breaches(step, now_s),
            *self.tombstones.breaches(step, now_s),
            *self.removals.breaches(step, now_s),
            *self.recurrences.breaches(step),
            *self.native_runs.breaches(step),
            *self.gangs.breaches(step),
            *self.contested.breaches(step, now_s),
            *self.one_place.breaches(step),
            *self.endings.breaches(step),
            *self.scaled.breaches(step),
            *self.claimed.breaches(step),
            *self.feasibility.breaches(step),
            *self.respect.breaches(step),
            *self.once.breaches(step),
            *self.shard_runs.breaches(step),
            *self.availability.breaches(step),
            *self.booked.breaches(step),
            *self.paid.breaches(step),
            *self.silence.breaches(step),
            *self.forgotten.breaches(step),
        ]

    def _heard(self, life: Life | None, written: Obj, obj: Obj) -> bool:
        """Whether whoever writes had heard of this state of an object of the host: for a quota,
        when he decided.
        """
        knew = self.feasibility.knew(written, obj) if obj["kind"] == "FederatedQuota" else None
        return hearing.heard(self.world, life, obj) if knew is None else knew

    def _remade(self, event: Event) -> Obj | None:
        """The decision that a new one stands for, because somebody deleted its object."""
        obj = event.current.obj
        if obj["kind"] != "PlacementDecision" or event.previous is not None:
            return None
        facts = decision_facts(obj)
        last = self.intended.get(facts.workload_uid)
        if last is None:
            return None
        was = decision_facts(last)
        return last if (was.seq, was.shares) == (facts.seq, facts.shares) else None

    def _held(self, writer: str, holder: str) -> None:
        """The lease of the hubs names a holder, or nobody."""
        if holder and self.holders[-1:] != [holder]:
            self.holders.append(holder)
            self.doubts.led_since_s = self.world.federation.clock.monotonic()
            self.world.say(f"{writer:12} LEADS  as {holder}")

    def _watch(self, watcher: conduct.Watcher) -> Listener:
        """The rule as a listener that tells the story at which request it was broken."""

        def listen(sent: Sent) -> None:
            before = len(watcher.found)
            watcher(sent)
            for breach in watcher.found[before:]:
                self.world.say(f"BROKEN: {breach}")

        return listen
