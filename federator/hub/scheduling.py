"""Feedback from members' schedulers: what could not be bound for a while caps the cluster, so that the rest moves.

A cap holds for some minutes and then decays: the next decision may try the cluster again. Read by placing as part of
a holding. How long copies wait is measured here, from when it was first heard: a member's clock may be minutes off
(FAULTS.md, "by locally observed time"), and after a restart of the hub the time begins anew.
"""

from federator.hub.slices import SliceSeen
from federator.hub.state import HubState
from federator.kube.clock import Clock
from federator.model.names import WorkloadKey


class Feedback:
    """Keeps `HubState.caps`."""

    def __init__(self, state: HubState, *, clock: Clock) -> None:
        self.state = state
        self.clock = clock
        self._waiting: dict[tuple[WorkloadKey, str], tuple[float, float]] = {}
        """Copies that wait for a node: since when by what their member says, and the monotonic time at which it first
        said so."""

    def note(self, key: WorkloadKey, seen: SliceSeen | None, cluster: str) -> float | None:
        """Looks at one slice. Returns in how many seconds placing should look at the workload (0: now), None for
        never."""
        place, workload = (key, cluster), self.state.workloads.get(key)
        if seen is None or workload is None or not seen.serves(self.state.options.fleet, workload.uid):
            self.state.caps.pop(place, None)
            self._waiting.pop(place, None)
            return None
        observed = seen.observation
        if not observed.unschedulable:
            self._waiting.pop(place, None)
            return None
        if observed.observed_generation < observed.generation:
            return None  # what was said of a larger share counts once, and not against the smaller one too
        now = self.clock.monotonic()
        waited = now - self._waits_since(place, observed.unschedulable_since_s, now)
        if waited < self.state.options.unschedulable_after_s:
            return self.state.options.unschedulable_after_s - waited
        # Of a share that has just shrunk, pods may still be waiting that are about to go: who is ready was scheduled.
        cap = max(observed.ready, seen.due - observed.unschedulable)
        before = self.state.caps.get(place)
        if before is not None and before[1] > now and before[0] <= cap:
            return None
        self.state.caps[place] = (cap, now + self.state.options.unschedulable_decay_s)
        return 0.0

    def _waits_since(self, place: tuple[WorkloadKey, str], told_s: float, now_s: float) -> float:
        """Monotonic time since which the copies that wait there have been known to. Later stamps are of other copies:
        those before them found a node."""
        known = self._waiting.get(place)
        if known is None or told_s > known[0]:
            known = self._waiting[place] = (told_s, now_s)
        return known[1]

    def refresh(self, key: WorkloadKey) -> float | None:
        """Brings the caps of one workload up to date, before it is placed. Returns in how many seconds it should be
        looked at again, None for never."""
        waits = [self.note(key, seen, cluster) for cluster, seen in self.state.slices_of(key).items()]
        return min((wait_s for wait_s in waits if wait_s), default=None)

    def forget(self, cluster: str) -> None:
        """A cluster is gone, or met anew."""
        for book in (self.state.caps, self._waiting):
            for place in [place for place in book if place[1] == cluster]:
                del book[place]
