"""1: a shard that was told as done, by the host's status or by the member that ran it, is given to
nobody anew.

Judged by what the hub knew at the moment at which it decided, as `feasibility` does: which state of
each slice it had in memory is noted then, and looked up among what members' API servers stored. A
shard may run twice all the same (`execution: MayOverlap`): when it was given away before its
cluster told that it was done, or when that was not heard.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from federator.api import raw
from federator.api.placement.decisionfacts import decision_facts
from federator.hub.leading.process import HubProcess
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.model import shards
from federator.model.fleet import Holding
from federator.model.shards import Ranges
from tests.faults.lives import Life
from tests.simulation.invariants import Obj, Step, finished, is_decision

JOBSET = "PinterestJobSet"
State = tuple[str, str, str]
"""(cluster, uid, resourceVersion) of an object."""


@dataclass(frozen=True, slots=True)
class Told:
    """Which states of a job set and of its slices a hub had in memory."""

    workload: State
    slices: tuple[State, ...]


class Once:
    """Every decision about shards beside what was known to be done. `meet` every hub that
    starts.
    """

    name = "1 done once"

    def __init__(self) -> None:
        self.judged = 0
        """Decisions that gave shards anew while others of theirs were done."""
        self.divided = 0
        """Decisions that gave the shards of one cluster to two others or more."""
        self.unrecorded = 0
        """Of those judged: with shards done that the host had not recorded."""
        self._stored: dict[State, list[Obj]] = {}
        self._told: dict[tuple[str, str], Told] = {}

    def meet(self, hub: HubProcess, life: Life) -> None:
        """From now on what this hub knows is noted whenever it decides."""
        original = hub.controllers.placing.holdings

        def holdings(workload: Workload, record: Record | None) -> tuple[Holding, ...]:
            if workload.key.kind == JOBSET and not hub.controllers.placing.overtaken(workload.key):
                as_of = raw.rfc3339(
                    hub.controllers.placing.clock.now()
                )  # it has just taken its snapshot, at this very moment
                seen = sorted(hub.state.slices_of(workload.key).items())
                self._told[workload.uid, as_of] = Told(
                    ("host", workload.uid, workload.resource_version),
                    tuple((cluster, one.uid, one.resource_version) for cluster, one in seen),
                )
            return original(workload, record)

        hub.controllers.placing.holdings = holdings  # type: ignore[method-assign]

    def breaches(self, step: Step) -> Iterator[str]:
        """Shards that a decision gives to a cluster although they are done."""
        if step.kind == JOBSET and step.new is not None:
            meta = step.new["metadata"]
            self._stored.setdefault(
                (step.cluster, meta["uid"], meta["resourceVersion"]), []
            ).append(step.new)
        if not is_decision(step) or not step.writer or step.old is None or not step.same:
            return
        facts, before = decision_facts(step.obj), decision_facts(step.old)
        told = self._told.get((facts.workload_uid, step.obj["spec"].get("asOf", "")))
        if told is None or facts.shares == before.shares:
            return
        had = {share.cluster: shards.normal(share.ranges) for share in before.shares}
        grown = {
            one.cluster: shards.minus(shards.normal(one.ranges), had.get(one.cluster, ()))
            for one in facts.shares
        }
        grown = {cluster: ranges for cluster, ranges in grown.items() if ranges}
        recorded = finished(self._state(told.workload) or {})
        reported = {state[0]: self._reported(state, facts.workload_uid) for state in told.slices}
        done = shards.union(recorded, [one for ranges in reported.values() for one in ranges])
        if not grown or not done:
            return
        self.judged += 1
        self.unrecorded += bool(shards.minus(done, recorded))
        self.divided += any(
            sum(bool(shards.intersect(ranges, mine)) for ranges in grown.values()) > 1
            for mine in had.values()
        )
        for cluster, ranges in sorted(grown.items()):
            if again := shards.intersect(ranges, done):
                yield (
                    f"{self.name}: {step.name}: {cluster} is given {shards.text(again)}, done "
                    f"are {shards.text(done)}"
                )

    def _state(self, state: State) -> Obj | None:
        """The object in this state; None where that cannot be said (a host whose histories
        parted).
        """
        found = self._stored.get(state, [])
        return found[0] if len(found) == 1 else None

    def _reported(self, state: State, uid: str) -> Ranges:
        """What a member says is done of the shards that its slice of this workload names."""
        obj = self._state(state)
        mark = registry.verbs_of(JOBSET).read_mark(obj) if obj is not None else None
        if obj is None or mark is None or mark.workload_uid != uid:
            return ()
        return shards.intersect(finished(obj), shards.normal(mark.ranges))
