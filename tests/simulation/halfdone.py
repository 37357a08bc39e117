"""A fault at a chosen moment: somebody has been told to leave and is still there, or a gang has been
released and does not run as a whole yet.

Which fault: the leader is killed, a member falls silent, decisions are refused with conflicts, or
the machines of a gang are cordoned and one of its pods goes.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

from federator.api import raw
from federator.model.steps import ObjectRef
from tests.faults import boxes
from tests.faults.episodes import guests, rooms
from tests.faults.links import Cut
from tests.faults.requests import CannedResponse, refusal
from tests.faults.rows import is_hub, plural_of
from tests.simulation.acts import Act, Actor
from tests.simulation.gangs import LABEL
from tests.simulation.invariants import all_of

if TYPE_CHECKING:
    from tests.simulation.world import World

NAMESPACE: Final = "arena"
"""Where those workloads are (`contest`)."""
GANG: Final = "PinterestTrainingJob"
POD_CPU: Final = "500m"
"""Of each of its pods."""
NAME: Final = "while-half-done"
LOOKS_S: Final = 0.2
HOW: Final = ("leader", "leader", "member", "conflicts", "room", "room")
CONFLICTS: Final = 6
BEGUN: Final = (("Released",), ("Released", "Running"))
"""Phases of a gang at which the strike comes: at first, and where its room is taken."""


@contextlib.asynccontextmanager
async def while_half_done(world: "World", rng: random.Random) -> AsyncIterator[None]:
    """Waits for the moment beside what goes on; it is over when this is left."""
    strike = Strike(world, rng)
    task = asyncio.create_task(strike.run(), name="while half done")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await strike.over()


class Strike:
    """One such fault in one world."""

    def __init__(self, world: "World", rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.known = set(self._leavings())
        self.how = rng.choice(HOW)
        self._severed: list[tuple[str, str]] = []
        self._cordoned: list[tuple[str, str]] = []
        self._standing = contextlib.ExitStack()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOKS_S)
            if self.how != "room" and (left := set(self._leavings()) - self.known):
                await self._befall(sorted(left)[0][1])
                return
            if (cluster := next(self._beginnings(), "")) and self.how not in ("conflicts",):
                await self._befall(cluster)
                return

    def _leavings(self) -> Iterator[tuple[str, str]]:
        """(decision and its number, a cluster of it) of those that left for others."""
        for obj in all_of(self.world.federation.host, "PlacementDecision"):
            meta, spec = obj["metadata"], obj["spec"]
            if meta["namespace"] == NAMESPACE and raw.mapping(spec, "preempted"):
                clusters = [raw.text(share, "cluster") for share in raw.objects(spec, "shares")]
                yield f"{meta['name']} {spec['seq']}", (clusters or self.world.members)[0]

    def _beginnings(self) -> Iterator[str]:
        """The clusters in which a gang is being released."""
        for cluster in self.world.members:
            for obj in all_of(self.world.federation.members[cluster], GANG):
                here = obj["metadata"]["namespace"] == NAMESPACE
                if here and raw.text(obj, "status", "gang", "phase") in BEGUN[self.how == "room"]:
                    yield cluster

    async def _befall(self, cluster: str) -> None:
        world = self.world
        world.say(f"{'nemesis':12} strikes while something is half done: {self.how} {cluster}")
        match self.how:
            case "leader":
                if not (leader := world.leader()):
                    return
                world.kill(leader)
            case "member":
                for hub in world.hubs:
                    await world.links.sever(hub, cluster, Cut.SILENT)
                    self._severed.append((hub, cluster))
            case "conflicts":
                left = iter(range(CONFLICTS))
                box = boxes.answering(
                    lambda sending: (
                        is_hub(sending.process)
                        and sending.request.method == "PUT"
                        and plural_of(sending.request.path)[0] == "placementdecisions"
                        and next(left, None) is not None
                    ),
                    _conflict,
                )
                self._standing.enter_context(world.boxes.standing(box))
            case _:
                await self.take_room(cluster)
        world.happened(NAME)

    async def take_room(self, cluster: str) -> None:
        """The machines of the cluster are cordoned, and a pod of the gang goes: the one instead of
        it finds no node."""
        world = self.world
        served = world.federation.members[cluster]
        for name in rooms.nodes(world, cluster):
            await world.member(cluster).patch(_node(name), {"spec": {"unschedulable": True}})
            self._cordoned.append((cluster, name))
        for pod in served.store.items(served.registry.get("", "pods"), NAMESPACE):
            meta = pod.obj["metadata"]
            if LABEL in raw.text_map(meta, "labels") and raw.text(pod.obj, "spec", "nodeName"):
                ref = ObjectRef("v1", "pods", NAMESPACE, meta["name"], "Pod")
                await guests.drop(world, cluster, ref)
                return

    async def over(self) -> None:
        self._standing.close()
        for hub, cluster in self._severed:
            self.world.links.heal(hub, cluster, Cut.SILENT)
        for cluster, name in self._cordoned:
            await rooms.uncordon(self.world, cluster, name)


def _conflict() -> CannedResponse:
    return refusal(409, "Conflict", "the object has been modified")


def _node(name: str) -> ObjectRef:
    return ObjectRef("v1", "nodes", "", name, "Node")


ROW: Final = Act(
    NAME,
    Actor.NOBODY,
    "7",
    "the leader killed, a member silent, conflicts, or machines cordoned, while somebody leaves or a"
    " gang begins",
    "links are well, and machines are open",
    while_half_done,
    (40.0, 130.0),
)
