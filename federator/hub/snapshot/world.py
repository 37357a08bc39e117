"""What decisions depend on, as the leader's memory had it at one moment: what answers are computed
from.

In the snapshot worker it follows the leader change by change. In the leader's own process it is a
copy for one answer.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federator.hub.cache.state import HubState
from federator.hub.placing.offline import Id, Situation
from federator.hub.records import decisions
from federator.hub.records.decisions import Record
from federator.hub.records.feed import Change, Op, Replica
from federator.hub.records.workloads import Workload
from federator.hub.snapshot import sharing
from federator.hub.snapshot.prepared import Prepared
from federator.kinds import registry
from federator.kube.clock import Clock
from federator.model.ask import Unit
from federator.model.fleet import Capacity, ClusterView, FleetSnapshot
from federator.model.names import ObjectName, WorkloadKey
from federator.model.neighbours import NOBODY
from federator.model.quickly import likewise
from federator.placement.policy.policies import Policies, Rule
from federator.placement.room.commitments import Commitments
from federator.placement.room.emptied import EmptyFleet

NO_FLEET = FleetSnapshot(as_of=0.0, clusters={})
JOBS: Final = frozenset(
    name for name in registry.WORKLOADS if registry.verbs_of(name).unit is Unit.SHARDS
)
"""Kinds of jobs. The kind of a workload is known without its ask, which is made when it is read."""
_LASTING: Final = ("quotas", "levels", "invariants")
"""Fields of a snapshot that seldom change."""
_reporting = likewise(ClusterView, "capacity")


@dataclass(frozen=True, slots=True)
class Head:
    """What is read for every question, without what the worker has from former ones: of a fleet at
    rest little more than the time and the names."""

    snapshot: FleetSnapshot
    """Without clusters, and without `kept`."""
    kept: tuple[str, ...]
    """Fields of the snapshot that are as the worker has them."""
    clusters: tuple[str, ...] | None
    """The names of all clusters; None if they are those of the last question."""
    views: Mapping[str, ClusterView]
    """Clusters that the worker does not have, or has otherwise; without their capacity."""
    capacities: Mapping[str, Capacity | None]
    """Reports that the worker does not have yet; None for clusters without one."""
    rules: tuple[Rule, ...] | None
    """All policies; None if the worker has them."""
    in_force_max: int
    profiles: Mapping[str, Mapping[str, Any] | None]
    """RuntimeProfiles that the worker does not have yet; None for those that are gone."""


class Recorded(Mapping[WorkloadKey, Record]):
    """The decisions of a world by their workloads, looked up when they are asked for. A process
    that was forked for one question copies what it looks at."""

    def __init__(self, world: "StateCopy") -> None:
        self._world = world

    def __getitem__(self, key: WorkloadKey) -> Record:
        record = self._world.record_of(self._world.workloads[key])
        if record is None:
            raise KeyError(key)
        return record

    def __iter__(self) -> Iterator[WorkloadKey]:
        return (workload.key for workload, _ in self._world.records())

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(slots=True)
class StateCopy:
    """The copy. Nothing in it is shared with what the hub changes."""

    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    jobs: set[WorkloadKey] = field(default_factory=set)
    """Workloads that run to an end."""
    by_name: dict[ObjectName, Record] = field(default_factory=dict)
    """Every decision, as in `HubState.records`."""
    commitments: Commitments = field(default_factory=Replica)
    snapshot: FleetSnapshot = NO_FLEET
    """Without the workloads for terms about others: a situation has its own (`with_peers`)."""
    rules: Policies = field(default_factory=Policies)
    profiles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    prepared: Prepared = field(default_factory=Prepared)
    empty: EmptyFleet = field(default_factory=EmptyFleet)

    @classmethod
    def of(cls, state: HubState, clock: Clock) -> "StateCopy":
        """A copy in this process, taken in one turn of the event loop."""
        return cls(
            workloads=dict(state.workloads.rows()),
            jobs={key for key, _ in state.workloads.rows() if key.kind in JOBS},
            by_name=dict(state.records.rows()),
            commitments=state.commitments.copy(),
            snapshot=replace(state.snapshot(clock), peers=NOBODY),
            rules=Policies(state.rules, in_force_max=state.rules.in_force_max),
            profiles=dict(state.profiles),
        )

    def records(self) -> Iterator[tuple[Workload, Record]]:
        """The workloads that are there, each with its own decision."""
        for record in self.by_name.values():
            workload = self.workloads.get(record.key)
            if workload is not None and workload.uid == record.workload_uid:
                yield workload, record

    def record_of(self, workload: Workload) -> Record | None:
        """The decision on this very workload; None where there is none."""
        key, uid = workload.key, workload.uid
        record = self.by_name.get((key.namespace, decisions.name_of(key, uid)))
        ours = record is not None and record.key == key and record.workload_uid == uid
        return record if ours else None

    def situation(
        self, native: Container[str], objects: Mapping[Id, Mapping[str, Any]] | None = None
    ) -> Situation:
        """All of it but for the kinds that the host runs itself (`native`). `objects`: those of the
        host that are known, besides RuntimeProfiles."""
        known: dict[Id, Mapping[str, Any]] = dict(objects or {})
        for name, versions in self.profiles.items():
            if (profile := versions.get("object")) is not None:
                known["RuntimeProfile", "", name] = profile
        ready = self.prepared if self.prepared.fresh else Prepared()
        return Situation(
            stands=frozenset(ready.stands),
            _asks=ready.asks,
            _bindings=ready.bindings,
            snapshot=self.snapshot,
            rules=self.rules,
            workloads={
                key: workload for key, workload in self.workloads.items() if key.kind not in native
            },
            records={
                workload.key: record
                for workload, record in self.records()
                if workload.key.kind not in native
            },
            commitments=self.commitments,
            objects=known,
        )

    def apply(self, change: Change) -> None:
        """Makes a change that the leader has made."""
        op, what, value = change
        match op:
            case Op.WORKLOAD if value is None:
                self.workloads.pop(what, None)
                self.jobs.discard(what)
                self.prepared.touch(what)
            case Op.WORKLOAD:
                sharing.share_workload(value)
                self.workloads[value.key] = value
                if value.key.kind in JOBS:
                    self.jobs.add(value.key)
                self.prepared.touch(value.key)
            case Op.RECORD if value is None:
                if (gone := self.by_name.pop(what, None)) is not None:
                    self.prepared.touch(gone.key)
            case Op.RECORD:
                sharing.share_record(value, self.workloads.get(value.key))
                self.by_name[what] = value
                self.prepared.touch(value.key)
            case _:
                assert isinstance(self.commitments, Replica)
                self._commit(self.commitments, change)

    def _commit(self, commitments: Replica, change: Change) -> None:
        op, what, value = change
        match op:
            case Op.COMMITMENT:
                name = what.key.namespace, decisions.name_of(what.key, what.uid)
                sharing.share_commitment(what, self.by_name.get(name))
                commitments.begin(what)
            case Op.RECENT:
                commitments.resume(what, value)
            case Op.BOOKS:
                commitments.open_books(what, value)
            case Op.READ:
                commitments.read(what, value)
            case _:
                commitments.make(what, value)

    def take(self, head: Head) -> None:
        """Reads what came with a question."""
        self.prepared.fresh = False
        before, clusters = self.snapshot.clusters, dict[str, ClusterView]()
        for name in before if head.clusters is None else head.clusters:
            new = name in head.views or name in head.capacities
            if not new:  # the same object, so that all that is remembered of it counts
                clusters[name] = before[name]
                continue
            view = head.views[name] if name in head.views else before[name]
            old = before[name].capacity if name in before else None
            clusters[name] = _reporting(view, head.capacities.get(name, old))
        kept = {field: getattr(self.snapshot, field) for field in head.kept}
        self.snapshot = replace(head.snapshot, clusters=clusters, **kept)
        if head.rules is not None:
            self.rules = Policies(head.rules, in_force_max=head.in_force_max)
        for name, profile in head.profiles.items():
            if profile is None:
                self.profiles.pop(name, None)
            else:
                self.profiles[name] = profile


@dataclass(slots=True)
class Heads:
    """Makes the heads of questions to one worker, and remembers what it has."""

    _sent: FleetSnapshot = NO_FLEET
    """The snapshot of the last question: what the worker has."""
    _rules: int = -1
    """Version of the policies that it has."""
    _profiles: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def next(self, state: HubState, clock: Clock) -> Head:
        snapshot, before = state.snapshot(clock), self._sent
        known, now = before.clusters, snapshot.clusters
        views, capacities = dict[str, ClusterView](), dict[str, Capacity | None]()
        for name, view in now.items():
            old = known.get(name)
            if old is view:  # the rule: a member's view is made anew when it differs
                continue
            if old is None or old.capacity is not view.capacity:
                capacities[name] = view.capacity
            bare = _reporting(view, None)
            if old is None or _reporting(old, None) != bare:
                views[name] = bare
        kept = tuple(name for name in _LASTING if getattr(before, name) == getattr(snapshot, name))
        nothing: dict[str, Any] = {name: getattr(NO_FLEET, name) for name in kept}
        self._sent = replace(snapshot, peers=NOBODY)
        rules = None if self._rules == state.rules.version else tuple(state.rules)
        self._rules = state.rules.version
        profiles: dict[str, Mapping[str, Any] | None] = {
            name: profile
            for name, profile in state.profiles.items()
            if self._profiles.get(name) is not profile
        }
        profiles |= dict.fromkeys(self._profiles.keys() - state.profiles.keys())
        self._profiles = dict(state.profiles)
        return Head(
            replace(self._sent, clusters={}, **nothing),
            kept,
            None if now.keys() == known.keys() else tuple(now),
            views,
            capacities,
            rules,
            state.rules.in_force_max,
            profiles,
        )
