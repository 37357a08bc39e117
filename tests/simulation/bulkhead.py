"""22: a member that answers well gets what was decided for it within seconds, whatever becomes of
the others.

Where requests leave a hub it is noted how each cluster answers it (`Reach`). A share that makes a
slice, or makes it larger, waits for nobody: it is due in its member soon after the decision. It is
judged only where nothing but the others could be the cause: the member has answered this hub well
for a while, the host since, and it never stood still.
"""

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.server import EmbeddedCluster
from federator.hub.leading.process import HubProcess
from federator.hub.records.slices import SliceSeen
from federator.kinds import registry
from federator.model.ask import Unit
from federator.model.decision import Share
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.simulation.invariants import Obj, Step, all_of, is_decision
from tests.simulation.world import World

DUE_S = 5.0
"""Without faults it is a matter of milliseconds."""
QUIET_S = 30.0
"""A lane, or a key, that has had trouble is left alone for up to so long."""

PORTAL = "captive-portal"
MET_S = 1.0
"""A member that answers for the first time has to be listed."""


@dataclass(frozen=True, slots=True)
class Due:
    """A share that was decided, and by when its member is to hold it."""

    life: Life
    hub: HubProcess
    facts: DecisionFacts
    share: Share
    at_s: float
    facing: EmbeddedCluster
    """What stood at the member's address then."""
    portals: int
    """How many requests something else than an API server had answered by then: such answers look
    good (F34).
    """


class Bulkhead:
    """What every decision owes to members. `meet` every hub that starts."""

    name = "22 bulkhead"

    def __init__(self, world: World) -> None:
        self.found: list[str] = []
        self.judged = 0
        self.beside_trouble = 0
        """Of those judged: while another member was in trouble."""
        self._world = world
        self._hubs: dict[str, HubProcess] = {}
        self._due: collections.deque[Due] = collections.deque()
        self._cleared_s: dict[tuple[str, str, str, str], float] = {}
        """When an object of ours or of somebody else last went, by cluster, kind, namespace and
        name.
        """

    def meet(self, hub: HubProcess, life: Life) -> None:
        self._hubs[life.name] = hub

    def decided(self, step: Step) -> None:
        """Takes note of what a write to a decision owes, and of what no longer stands in a slice's
        place.
        """
        if step.new is None and step.kind in registry.WORKLOADS:
            meta = step.obj["metadata"]
            self._cleared_s[step.cluster, step.kind, meta["namespace"], meta["name"]] = (
                self._now_s()
            )
        hub = self._hubs.get(step.writer)
        if hub is None or not is_decision(step):
            return
        facts, now_s = decision_facts(step.obj), self._now_s()
        had = (
            {share.cluster: share.count for share in decision_facts(step.old).shares}
            if step.old is not None
            else {}
        )
        for share in facts.shares:
            if share.cluster not in self._world.members:
                continue
            slices = all_of(self._world.facing(share.cluster), facts.key.kind)
            if grows(facts, share, had.get(share.cluster, 0), slices):
                life, portals = (
                    self._world.lives[step.writer.partition("#")[0]],
                    self._world.fired[PORTAL],
                )
                self._due.append(
                    Due(life, hub, facts, share, now_s, self._world.facing(share.cluster), portals)
                )

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process: time has passed."""
        now_s = self._now_s()
        while self._due and self._due[0].at_s + DUE_S <= now_s:
            self.found += self._late(self._due.popleft(), now_s)

    def _late(self, due: Due, now_s: float) -> Iterator[str]:
        share, reach, life = due.share, self._world.reach, due.life
        met_s = self._world.patience.first_heard_s(life.name, share.cluster, 0.0)
        if life.dead or life.frozen or met_s is None or met_s > due.at_s - MET_S:
            return
        host_s, awake_s = (
            reach.well_since_s(life.name, "host", now_s),
            reach.awake_since_s(life.name, now_s),
        )
        if (
            reach.well_since_s(life.name, share.cluster, now_s) > due.at_s - QUIET_S
            or max(host_s, awake_s) > due.at_s
        ):
            return
        key = due.facts.key
        cleared_s = self._cleared_s.get((share.cluster, key.kind, key.namespace, key.name), 0.0)
        if cleared_s > due.at_s or self._world.fired[PORTAL] > due.portals:
            return
        if self._world.facing(share.cluster) is not due.facing:
            return  # another cluster has come in its place, this very moment perhaps
        if not _still_wanted(due) or not _open(due):
            return
        self.judged += 1
        others = [one for one in self._world.members if one != share.cluster]
        self.beside_trouble += any(
            reach.well_since_s(life.name, one, now_s) > due.at_s - DUE_S for one in others
        )
        if not self._held(due):
            yield (
                f"{self.name}: {due.facts.key} seq {share.seq}: {share.cluster} answers well "
                "and waits for"
                f" its {share.count} since {now_s - due.at_s:.0f} s"
            )

    def _held(self, due: Due) -> bool:
        """Whether the member holds that share, or a later one."""
        kind = due.facts.key.kind
        marks = (
            registry.verbs_of(kind).read_mark(obj)
            for obj in all_of(self._world.facing(due.share.cluster), kind)
        )
        return any(
            mark is not None
            and mark.workload_uid == due.facts.workload_uid
            and mark.seq >= due.share.seq
            for mark in marks
        )

    def _now_s(self) -> float:
        return self._world.federation.clock.monotonic()


def grows(facts: DecisionFacts, share: Share, had: int, slices: Iterable[Obj]) -> bool:
    """Whether a decision gives a cluster more than it has. `had`: its share before; `slices`:
    objects of the workload's kind there.

    A share of fewer copies than the slice asks for is a shrink, which may wait for other clusters,
    also if the decision before gave it fewer still. Shards have numbers: a share of fewer may have
    new ones.
    """
    if share.seq != facts.seq or share.count <= had:
        return False
    verbs = registry.verbs_of(facts.key.kind)
    return facts.terms.unit is not Unit.REPLICAS or all(
        verbs.count(obj) < share.count
        for obj in slices
        if (mark := verbs.read_mark(obj)) is not None and mark.workload_uid == facts.workload_uid
    )


def _still_wanted(due: Due) -> bool:
    """Whether the hub leads and the decision is in force still."""
    state = due.hub.state
    workload = state.workloads.get(due.facts.key)
    if (
        not state.leading
        or not state.ready
        or state.paused
        or workload is None
        or workload.deleting
    ):
        return False
    record = state.record_of(workload)
    suspended = workload.ask is None or workload.ask.suspended
    return (
        not suspended and record is not None and not record.deleting and record.seq == due.facts.seq
    )


def _open(due: Due) -> bool:
    """Whether the member, by what the hub knows, lets this slice be written: nothing is in its
    place, it was not refused, and the member is the one that was joined.
    """
    member = due.hub.state.members.get(due.share.cluster)
    if member is None or member.link.applier is None or not member.heard or not member.claimed:
        return False
    seen: SliceSeen | None = member.contents.slice_of(due.facts.key)
    strange = seen is not None and (
        seen.deleting or seen.mark is None or seen.mark.workload_uid != due.facts.workload_uid
    )
    return not strange and due.facts.key not in member.writes.refused
