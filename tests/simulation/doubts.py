"""11: whatever is told as Unknown, or counted as not known, is known again 30 s after everybody can
be reached.

Faults being over, everybody can be reached from the moment at which there is a leader, every
process lives and every member has answered a probe of that leader, is known to serve our kinds (a
hub asks for them once a minute: F48), and does not want to be left alone any longer (Retry-After:
F40). Until then nothing could be read back, or removed. To be asked often enough that no such
moment is missed.
"""

from collections.abc import Iterator

from federator.kinds import registry
from tests.faults.answers import RETRY_AFTER_S
from tests.simulation.invariants import Obj, all_of
from tests.simulation.world import World

RESOLVED_S = 30.0
TOLD = (*registry.WORKLOADS, "MemberCluster")


class Doubts:
    """What is not known although it could be. Nothing is judged before `faults_over`."""

    name = "11 unknown resolves"

    def __init__(self, world: World) -> None:
        self._world = world
        self._over_s: float | None = None
        self._hidden_s = 0.0
        """When the leader last believed that a member does not serve one of our kinds, or had to
        leave it alone.
        """
        self.led_since_s = 0.0
        """When the leader was last another one than before."""

    def faults_over(self) -> None:
        """From now on everything can be reached, as soon as it is tried, and whoever had asked to
        be left alone for a while may be asked again.
        """
        left_alone_s = max(RETRY_AFTER_S) if "throttled" in self._world.parameters.hub else 0.0
        self._over_s = self._world.federation.clock.monotonic() + left_alone_s

    def breaches(self) -> Iterator[str]:
        """What ought to be known by now."""
        since_s = self._reached_since_s()
        if since_s is None:
            return
        waited_s = self._world.federation.clock.monotonic() - since_s
        if waited_s <= RESOLVED_S:
            return
        for kind in TOLD:
            for obj in all_of(self._world.federation.host, kind):
                for what in _unknown(obj):
                    meta = obj["metadata"]
                    where = f"{kind} {meta.get('namespace', '')}/{meta['name']}"
                    yield (
                        f"{self.name}: {where}: {what}, though all are reached since "
                        f"{waited_s:.0f} s"
                    )

    def _reached_since_s(self) -> float | None:
        """Since when everybody can be reached; None while somebody cannot be."""
        world, leader = self._world, self._world.leader()
        hub = world.federation.processes.get(leader)
        members = hub.state.members.values() if hub is not None else ()
        if any(
            len(one.link.apis) < len(registry.WORKLOADS) or not one.lane.open for one in members
        ):
            self._hidden_s = world.federation.clock.monotonic()
        if self._over_s is None or not leader or any(life.dead for life in world.lives.values()):
            return None
        patience, life = world.patience, world.lives[leader].name
        met = [patience.first_heard_s(life, member, self._over_s) for member in world.members]
        born = [patience.born_s[one.name] for one in world.lives.values()]
        reached = [one for one in met if one is not None]
        return (
            max(self._over_s, self._hidden_s, self.led_since_s, *reached, *born)
            if len(reached) == len(met)
            else None
        )


def _unknown(obj: Obj) -> Iterator[str]:
    status = obj.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["status"] == "Unknown":
            yield f"{condition['type']} is Unknown ({condition.get('reason', '')})"
    if status.get("unknownReplicas"):
        yield f"{status['unknownReplicas']} copies are not known"
    for row in status.get("clusterStatuses") or ():
        if row.get("known") is False:
            yield f"what {row['cluster']} holds is not known"
