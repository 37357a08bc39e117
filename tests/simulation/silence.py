"""19: of a member whose process is dead nothing is claimed: its figures are the last ones seen, and
told as not known.

Judged at every status of a workload that a hub writes, when the process has been dead for longer
than the grace, and the hub has lived, has not stood still and has heard the cluster for as long.
"""

from collections.abc import Iterator

from federator.kinds import registry
from tests.simulation.invariants import Step
from tests.simulation.world import World

NAME = "19 the dead claim nothing"
DEAD_S = 75.0
"""The grace, two probes and a status write."""


class Silence:
    """Which processes of members have been dead for long."""

    def __init__(self, world: World) -> None:
        self.judged = 0
        """Statuses that were written beside a process that had been dead for long."""
        self._world = world
        self._dead_s: dict[str, tuple[str, float]] = {}
        """Member -> its life that is dead, and since when that is known."""

    def breaches(self, step: Step) -> Iterator[str]:
        """What a status claims of the dead."""
        now_s = self._world.federation.clock.monotonic()
        for member in self._world.members:
            life = self._world.lives.get(f"member-{member}")
            if life is None or not life.dead:
                self._dead_s.pop(member, None)
            elif self._dead_s.get(member, ("", 0.0))[0] != life.name:
                self._dead_s[member] = life.name, now_s
        if (
            step.kind not in registry.WORKLOADS
            or step.cluster != "host"
            or not step.writer.startswith("hub")
        ):
            return
        born_s = self._world.patience.born_s.get(step.writer, now_s)
        if (
            step.new is None
            or now_s - max(born_s, self._world.reach.awake_since_s(step.writer, now_s)) < DEAD_S
        ):
            return
        if step.old is not None and step.old.get("status") == step.new.get("status"):
            return
        for member, (_, died_s) in self._dead_s.items():
            # while its cluster was not heard, its lease could not be read: it has its grace again
            since_s = max(died_s, self._world.reach.well_since_s(step.writer, member, now_s))
            if now_s - since_s < DEAD_S or member in self._world.liars:
                continue
            self.judged += 1
            for row in (step.new.get("status") or {}).get("clusterStatuses") or ():
                if row.get("cluster") == member and row.get("known") is not False:
                    told = f"{row.get('ready', 0)} ready of {member}"
                    yield (
                        f"{NAME}: {step.name} claims {told}, whose process has been dead for "
                        f"{now_s - since_s:.0f} s"
                    )
