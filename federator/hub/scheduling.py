"""Feedback from members' schedulers: what could not be bound for a while caps the cluster, so that the rest moves.

A cap holds for some minutes and then decays: the next decision may try the cluster again. Read by placing as part of
a holding.
"""

from federator.hub.slices import SliceSeen
from federator.hub.state import HubState
from federator.kube.clock import Clock
from federator.model import shards
from federator.model.names import WorkloadKey


class Feedback:
    """Keeps `HubState.caps`."""

    def __init__(self, state: HubState, *, clock: Clock) -> None:
        self.state = state
        self.clock = clock

    def note(self, key: WorkloadKey, seen: SliceSeen | None, cluster: str) -> float | None:
        """Looks at one slice. Returns in how many seconds placing should look at the workload (0: now), None for
        never."""
        place, workload = (key, cluster), self.state.workloads.get(key)
        if seen is None or workload is None or not seen.serves(self.state.options.fleet, workload.uid):
            self.state.caps.pop(place, None)
            return None
        observed = seen.observation
        if not observed.unschedulable or observed.observed_generation < observed.generation:
            return None  # what was said of a larger share counts once, and not against the smaller one too
        waited = self.clock.now() - observed.unschedulable_since_s
        if waited < self.state.options.unschedulable_after_s:
            return self.state.options.unschedulable_after_s - waited
        # Of a share that has just shrunk, pods may still be waiting that are about to go: who is ready was scheduled.
        cap = max(observed.ready, _wanted(seen) - observed.unschedulable)
        now = self.clock.monotonic()
        before = self.state.caps.get(place)
        if before is not None and before[1] > now and before[0] <= cap:
            return None
        self.state.caps[place] = (cap, now + self.state.options.unschedulable_decay_s)
        return 0.0

    def refresh(self, key: WorkloadKey) -> None:
        """Brings the caps of one workload up to date, before it is placed."""
        for cluster, seen in self.state.slices_of(key).items():
            self.note(key, seen, cluster)


def _wanted(seen: SliceSeen) -> int:
    """How many pods of it there should be now: copies, or shards that may run at once while so many are left."""
    observed = seen.observation
    left = observed.desired - shards.size(shards.union(observed.completed, observed.failed))
    return min(seen.amount, left) if seen.amount >= 0 else left
