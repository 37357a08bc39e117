"""Feedback from members' schedulers: what could not be bound for a while caps the cluster, so that the rest moves.

A cap holds for some minutes and then decays: the next decision may try the cluster again. Read by placing as part of a holding.
"""

from federator.hub.members import Member
from federator.hub.slices import SliceSeen
from federator.hub.state import HubState
from federator.kube.clock import Clock
from federator.model.names import WorkloadKey


class Feedback:
    """Keeps `HubState.caps`."""

    def __init__(self, state: HubState, *, clock: Clock) -> None:
        self.state = state
        self.clock = clock

    def note(self, member: Member, key: WorkloadKey, seen: SliceSeen | None) -> bool:
        """Looks at one slice; tells whether a cap is new, so that the workload must be placed again."""
        place = (key, member.name)
        if seen is None or not seen.ours(self.state.options.fleet):
            self.state.caps.pop(place, None)
            return False
        observed = seen.observation
        waited = self.clock.now() - observed.unschedulable_since_s
        if not observed.unschedulable or waited < self.state.options.unschedulable_after_s:
            return False
        cap = max(0, observed.desired - observed.unschedulable)
        now = self.clock.monotonic()
        before = self.state.caps.get(place)
        self.state.caps[place] = (cap, now + self.state.options.unschedulable_decay_s)
        return before is None or before[1] <= now or before[0] > cap
