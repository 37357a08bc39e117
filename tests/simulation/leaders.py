"""The leader is taken away while a failover, a failback or a drain is half done: killed, cut off
from its host until its lease has run out, or its Lease is deleted. Another hub goes on.
"""

import asyncio
import random
from typing import Any, Final

from federator.model.steps import ObjectRef
from tests.simulation.failoverrules import PSVC, Run
from tests.simulation.invariants import all_of

WAITS_S: Final = {"failover": 240.0, "failback": 400.0, "drain": 60.0}
"""A move begins within this, or is not waited for any longer."""
MIDWAY_S: Final = 15.0
"""The leader goes so long after the first decision of a move at most."""
CLUSTER: Final = "MemberCluster"


class Leaders:
    """What befalls the leader of one world."""

    def __init__(self, run: Run, rng: random.Random) -> None:
        self.run = run
        self.rng = rng

    async def midway(self) -> None:
        """Lets a move begin, and takes the leader away in the midst of it."""
        run, rng = self.run, self.rng
        # what has no other place is in the first
        well = [name for name in run.members[1:] if name not in run.cut_s]
        if not well:
            return
        name = rng.choice(well)
        move = rng.choice(("failover", "failback" if self._away() else "failover", "drain"))
        before = self._decided()
        match move:
            case "failover":
                await run.cut(name)
            case "failback":
                for silent in list(run.cut_s):
                    run.heal(silent)
            case "drain":
                await self._drain(name, {})
        try:
            if await self._begun(move, before):
                run.fired(f"half a {move}")
                await asyncio.sleep(rng.uniform(0.0, MIDWAY_S))
                await self._taken_away(rng.choice(("killed", "without host", "deleted")))
                await asyncio.sleep(rng.uniform(60.0, 200.0))
        finally:
            if move == "drain":
                await self._drain(name, None)

    async def _drain(self, name: str, wish: dict[str, object] | None) -> None:
        self.run.drained_s[name] = float("inf") if wish is not None else self.run.now_s
        await self.run.world.patch(CLUSTER, "", name, {"spec": {"drain": wish}})

    def _decided(self) -> dict[str, int]:
        return {name: seq for name, (seq, _) in self._causes().items()}

    def _causes(self) -> dict[str, tuple[int, str]]:
        """Service -> number and newest cause of its decision."""
        return {
            spec["workload"]["name"]: (spec["seq"], spec["causes"][-1]) for spec in self._specs()
        }

    def _away(self) -> bool:
        """Whether copies have failed over and not come back."""
        return any(left["copies"] for spec in self._specs() for left in spec.get("failovers", ()))

    def _specs(self) -> list[dict[str, Any]]:
        """The decisions on services."""
        specs = [obj["spec"] for obj in all_of(self.run.world.federation.host, "PlacementDecision")]
        return [spec for spec in specs if spec["workload"]["kind"] == PSVC]

    async def _begun(self, move: str, before: dict[str, int]) -> bool:
        """Waits until a service moves. False when none does in time."""
        until_s = self.run.now_s + WAITS_S[move]
        while self.run.now_s < until_s:
            for name, (seq, cause) in self._causes().items():
                if seq != before.get(name) and cause.startswith(move):
                    return True
            await asyncio.sleep(1.0)
        return False

    async def _taken_away(self, how: str) -> None:
        run, world = self.run, self.run.world
        leader = run.leader()
        if not leader:
            return
        match how:
            case "killed":
                run.fired("leader killed")
                await world.federation.kill(leader)
                await asyncio.sleep(self.rng.uniform(0.0, 60.0))
                run.begins()
            case "without host":
                run.fired("leader without host")
                await world.cut("host", process=leader)
                await asyncio.sleep(self.rng.uniform(20.0, 90.0))
                world.heal("host")
            case _:
                run.fired("lease deleted")
                options = world.federation.hub_options
                await world.remove(
                    ObjectRef(
                        "coordination.k8s.io/v1",
                        "leases",
                        options.system_namespace,
                        options.lease_name,
                        "Lease",
                    )
                )
