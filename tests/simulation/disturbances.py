"""What else goes wrong in the campaign of failovers, beside clusters that are cut off: one-way and
late networks, slow clusters and portals in front of them, a host that cannot be reached, hours
without a hub, clusters that are full, made anew, or back all at once.
"""

import asyncio
import random
from collections.abc import Callable

from federator.embedded.server import EmbeddedCluster
from federator.sandbox import fleetfile
from tests.faults import boxes
from tests.faults.links import Cut
from tests.faults.requests import CannedResponse
from tests.faults.rows import Sending, is_hub
from tests.simulation.failoverrules import GRACE_S, Given, Run

SLOW_S = 30.0
PAGE = b"<html>Please log in</html>"
FOREIGN = "elsewhere"
STILL_S = 60.0
"""What was decided before the hub was cut off from its host may be carried out for so long."""


def from_hubs(cluster: str) -> Callable[[Sending], bool]:
    """Whether a request goes from a hub to this cluster."""
    return lambda sending: is_hub(sending.process) and sending.cluster == cluster


class Disturbances:
    """The acts of one world."""

    def __init__(self, run: Run, rng: random.Random) -> None:
        self.run = run
        self.rng = rng

    async def act(self, what: str) -> None:
        """One of them, by its name in `failovers.ACTS`."""
        rng, name = self.rng, self.rng.choice(self.run.members)
        match what:
            case "blip":
                await self.blip(name, rng.choice((1.0, 5.0, 20.0)))
            case "deaf":
                await self.run.cut(name, how=Cut.DEAF)
                self.run.fired("F29 one-way partition")
            case "late":
                await self.run.cut(name, how=Cut.SILENT, late=True)
                self.run.fired("F30 delayed writes")
            case "sluggish" | "portal":
                self.doubtful(name, what)
            case "host":
                await self.hostless(rng.uniform(120.0, 600.0))
            case "hubless":
                await self.hubless(rng.uniform(400.0, 1200.0))
            case "back":
                await self.back_at_once()
            case "full":
                await self.fills_up(name)
            case "anew":
                await self.made_anew(name)
            case _:
                raise AssertionError(f"there is no act {what}")

    async def blip(self, name: str, seconds: float) -> None:
        """Shorter than anything that counts."""
        if name in self.run.cut_s:
            return
        await self.run.cut(name)
        await asyncio.sleep(seconds)
        self.run.heal(name)
        self.run.fired("F22 blip")

    def doubtful(self, name: str, what: str) -> None:
        """Every request takes half a minute, or a portal answers it; what is open goes on."""
        if name in self.run.cut_s:
            return
        asked = from_hubs(name)
        if what == "sluggish":
            box = boxes.holding_up(asked, lambda sending: asyncio.sleep(SLOW_S))
            self.run.fired("F33 slow member")
        else:
            box = boxes.answering(asked, lambda: CannedResponse(200, PAGE, boxes.JSON))
            self.run.fired("F34 wrong body")
        self.run.doubt(name, box)

    async def restart(self, down_s: float) -> None:
        """The hub that acts dies, and the next one begins."""
        run = self.run
        await run.world.federation.kill(run.leader() or run.hubs[0])
        await asyncio.sleep(down_s)
        if run.cut_s:
            run.fired("F27 restart in the dark")
        run.begins()

    async def hostless(self, seconds: float) -> None:
        """Hub and host do not reach each other: no member is touched."""
        run = self.run
        for hub in run.hubs:
            await run.world.cut("host", process=hub)
        await self._still(seconds, "F31 host cut off", self.run.given())
        run.world.heal("host")

    async def hubless(self, seconds: float) -> None:
        """There is no hub for long, and nobody reaches the host."""
        for hub in self.run.hubs:
            await self.run.world.federation.kill(hub)
        await self._still(seconds, "F32 no hub and no host", {})
        self.run.begins()

    async def _still(self, seconds: float, what: str, given: Given) -> None:
        """`given`: the decisions that a hub which lives can still carry out."""
        await asyncio.sleep(min(STILL_S, seconds / 2))
        before = self.run.held()
        await asyncio.sleep(seconds - min(STILL_S, seconds / 2))
        self.run.unchanged(before, what, given)
        self.run.fired(what)

    async def back_at_once(self) -> None:
        """All that are silent come back in the same instant."""
        run = self.run
        for name in self.rng.sample(run.members, max(2, len(run.members) - 1)):
            await run.cut(name)
        await asyncio.sleep(self.rng.uniform(60.0, 240.0))
        for name in list(run.cut_s):
            run.heal(name)
        run.fired("F37 back at once")

    async def fills_up(self, name: str) -> None:
        """Somebody else's pods take the room of a cluster in the moment in which work comes to it
        from another.
        """
        run = self.run
        others = [one for one in run.members if one != name]
        if name in run.cut_s:
            return
        await run.cut(self.rng.choice(others))
        await asyncio.sleep(GRACE_S + self.rng.uniform(0.0, 60.0))
        await run.fill(name, FOREIGN)
        run.fired("F38 target fills up")
        await asyncio.sleep(self.rng.uniform(60.0, 200.0))
        await run.empty(name, FOREIGN)

    async def made_anew(self, name: str) -> None:
        """Another, empty cluster answers at the address: nothing of what was there is lost."""
        run, federation = self.run, self.run.world.federation
        if name in run.cut_s:
            return
        former = federation.members[name]
        spec = federation.fleet.member(name)
        other = EmbeddedCluster(
            name,
            clock=federation.clock,
            rng=random.Random(self.rng.getrandbits(64)),
            nodes=fleetfile.pools(spec),
        )
        await run.swap(name, other)
        run.fired("F35 made anew")
        await asyncio.sleep(self.rng.uniform(120.0, 400.0))
        await run.swap(name, former)
