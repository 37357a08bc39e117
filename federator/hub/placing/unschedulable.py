"""Unschedulable caps: when a member's scheduler has failed to bind replicas for a while, the
cluster is capped at what it bound, and the rest moves.

A cap holds for some minutes, also when nothing is left there, and then decays: the next decision
may try the cluster again. It is about the present pods: with another template it is dropped. The
waiting time is measured here, from when it was first read: a member's clock may be minutes off
(F9), and a restart of the hub starts the time again.

Where nodes can be added for the replicas (spec.scaleUp of the MemberCluster), they are waited for:
twice the minutes that the slowest class states. If replicas still have no node then, the cluster is
capped as always, and nothing is promised of these classes for a while
(`placement/growth/promises`).

A cluster in which an object of somebody else has the workload's name is capped at nothing, for as
long as that object is there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from federator.api import raw, scaleupfields
from federator.hub.cache import cutting, policying
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kube.clock import Clock
from federator.model.names import WorkloadKey
from federator.model.scaleup import NodeClass, ScaleUp
from federator.placement.growth import pools
from federator.placement.growth.promises import late_after_s

CONFLICT_S: Final = 60.0
"""Seconds for which a share waits for an object of somebody else that has its name to go. Then it
gets another place, until that object has gone."""
CONFLICT: Final = -1
"""The cap where such an object stands."""
CAUSE: Final = "a cluster could not run its share"
"""The cause, or its end, of a decision that moves copies because of a cap."""
PLACED_S: Final = 5.0
"""Seconds within which placing has decided with a new cap."""


@dataclass(frozen=True, slots=True)
class _Cap:
    """The number of replicas that a cluster could bind, valid until a monotonic time."""

    most: int
    until_s: float


@dataclass(slots=True)
class _Caps:
    """What clusters could bind of one workload, and what its pods were."""

    uid: str
    content: bytes
    by_cluster: dict[str, _Cap] = field(default_factory=dict)


def _nobody_listens(_: Member, __: str) -> None:
    pass


class UnschedulableCaps:
    """Remembers what members' schedulers could not bind. Placing asks before each decision."""

    def __init__(self, state: HubState, *, clock: Clock) -> None:
        self.state = state
        self.clock = clock
        self._caps: dict[WorkloadKey, _Caps] = {}
        self.on_late: Callable[[Member, str], None] = _nobody_listens
        """Called with a sentence when nodes that a member can add did not come."""
        self._waiting: dict[WorkloadKey, dict[str, tuple[float, float]]] = {}
        """Cluster -> since when replicas wait for a node by the member's report, and the monotonic
        time at which that was first read."""

    def capped(self, key: WorkloadKey) -> Mapping[str, int]:
        """Cluster -> how many replicas of a workload its scheduler could bind lately."""
        workload = self.state.workloads.get(key)
        if workload is None or key not in self._caps:
            return {}
        now = self.clock.monotonic()
        return {
            name: cap.most
            for name, cap in self._of(workload).by_cluster.items()
            if cap.until_s > now
        }

    def lasting(self, key: WorkloadKey) -> frozenset[str]:
        """Clusters with a cap that placing has had the time to act on: what it still gives them
        beyond that has no place elsewhere."""
        if key not in self._caps:
            return frozenset()
        now, valid_s = self.clock.monotonic(), self.state.options.unschedulable_decay_s
        return frozenset(
            name
            for name, cap in self._caps[key].by_cluster.items()
            if now < cap.until_s <= now + valid_s - PLACED_S
        )

    def exceeded(self, key: WorkloadKey, record: Record) -> bool:
        """Whether a decision gives a cluster more than its scheduler could bind."""
        capped = self.capped(key)
        return any(
            share.slots > max(capped.get(share.cluster, share.slots), 0) for share in record.shares
        )

    def note(self, key: WorkloadKey, seen: SliceSeen | None, cluster: str) -> float | None:
        """Examines one slice. Returns after how many seconds placing should look at the workload
        (0: now); None for never."""
        workload = self.state.workloads.get(key)
        if workload is None:
            self.drop(key)
            return None
        if seen is not None and not seen.ours(self.state.options.fleet):
            return self._note_foreign(workload, cluster)
        freed = self._end_conflict(key, cluster)
        if seen is None or not seen.serves(self.state.options.fleet, workload.uid):
            self._waits_no_more(key, cluster)
            return freed
        member = self.state.members.get(cluster)
        if member is not None and not member.process.speaks:
            # what it wrote before it died may have changed: neither a cause for moves nor the end
            # of one
            return None
        if not seen.observation.unschedulable:  # nearly always: no part of nothing counts
            self._waits_no_more(key, cluster)
            return None
        observed = cutting.counted(self.state, workload, self.state.record_of(workload), seen)
        if not observed.unschedulable:
            self._waits_no_more(key, cluster)
            return None
        if observed.observed_generation < observed.generation:
            # a report about a larger share counts once, and not against the smaller one too
            return None
        now = self.clock.monotonic()
        waited = now - self._waits_since(key, cluster, observed.unschedulable_since_s, now)
        coming = self._coming(workload, member, now)
        after_s = max([self.state.options.unschedulable_after_s, *map(late_after_s, coming)])
        if waited < after_s:
            return after_s - waited
        # Of a share that has just shrunk, pods may still be waiting that are about to go: a ready
        # pod was scheduled.
        most = max(observed.ready, seen.due - observed.unschedulable)
        caps = self._of(workload).by_cluster
        before = caps.get(cluster)
        if before is not None and before.until_s > now and before.most <= most:
            return before.until_s - now
        caps[cluster] = _Cap(most, now + self.state.options.unschedulable_decay_s)
        if member is not None:
            self._give_up(member, coming, now)
        return 0.0

    def _coming(
        self, workload: Workload, member: Member | None, now_s: float
    ) -> Sequence[NodeClass]:
        """The classes of nodes that the cluster can add for the workload's pods."""
        stated = scaleupfields.to_classes(raw.at(member.obj, "spec", "scaleUp")) if member else ()
        if not stated or member is None or workload.ask is None:
            return ()
        ask = policying.asked(workload, self.state.rules, self.state.bindings())
        if ask is None or ask.policy.scale_up is ScaleUp.NEVER:
            return ()
        trusted = member.contents.can_add(stated, now_s)
        every = pools.opened(trusted, member.contents.machines, 1000)
        return [
            pool.node_class
            for pool in every
            if pool.left and any(pool.room(pod) for pod, _ in ask.shape.pods)
        ]

    def _give_up(self, member: Member, classes: Sequence[NodeClass], now_s: float) -> None:
        """The nodes of these classes are late."""
        for node_class in classes:
            note = member.contents.observe_late(node_class, now_s)
            if note is not None:
                self.on_late(member, note)

    def _note_foreign(self, workload: Workload, cluster: str) -> float | None:
        """The same where an object of somebody else has the name of the slice."""
        record = self.state.record_of(workload)
        caps = self._of(workload).by_cluster
        if cluster in caps and caps[cluster].most == CONFLICT:
            return None
        if record is None or not any(
            share.cluster == cluster and share.slots for share in record.shares
        ):
            return None
        now = self.clock.monotonic()
        waited = now - self._waits_since(workload.key, cluster, 0.0, now)
        if waited < CONFLICT_S:
            return CONFLICT_S - waited
        caps[cluster] = _Cap(CONFLICT, math.inf)
        return 0.0

    def _end_conflict(self, key: WorkloadKey, cluster: str) -> float | None:
        """The object of somebody else has gone, if there was one: 0.0 then."""
        caps = self._caps.get(key)
        cap = caps.by_cluster.get(cluster) if caps is not None else None
        if caps is None or cap is None or cap.most != CONFLICT:
            return None
        del caps.by_cluster[cluster]
        self._waits_no_more(key, cluster)
        return 0.0

    def _waits_since(
        self, key: WorkloadKey, cluster: str, reported_s: float, now_s: float
    ) -> float:
        """Monotonic time since which the waiting replicas are known. A later stamp is of other
        replicas: those before found a node."""
        waits = self._waiting.setdefault(key, {})
        recorded = waits.get(cluster)
        if recorded is None or reported_s > recorded[0]:
            recorded = waits[cluster] = (reported_s, now_s)
        return recorded[1]

    def _waits_no_more(self, key: WorkloadKey, cluster: str) -> None:
        waits = self._waiting.get(key)
        if waits is not None and waits.pop(cluster, None) is not None and not waits:
            del self._waiting[key]

    def _of(self, workload: Workload) -> _Caps:
        """The caps for the workload's present pods."""
        caps = self._caps.get(workload.key)
        if caps is None or (caps.uid, caps.content) != (workload.uid, workload.content):
            caps = self._caps[workload.key] = _Caps(workload.uid, workload.content)
        return caps

    def refresh(self, key: WorkloadKey) -> float | None:
        """Brings the caps of one workload up to date before it is placed. Returns after how many
        seconds to look again; None for never."""
        waits = [
            self.note(key, seen, cluster) for cluster, seen in self.state.slices_of(key).items()
        ]
        return min((wait_s for wait_s in waits if wait_s), default=None)

    def drop(self, key: WorkloadKey) -> None:
        self._caps.pop(key, None)
        self._waiting.pop(key, None)

    def forget(self, cluster: str) -> None:
        """A cluster is gone, or is a new one under its name."""
        for caps in self._caps.values():
            caps.by_cluster.pop(cluster, None)
        for key in list(self._waiting):
            self._waits_no_more(key, cluster)
