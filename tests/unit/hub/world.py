"""A small federation on virtual time, with a user's hands, a ledger of what servers heard, and the
faults of the sandbox. Used by the scenarios beside it.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.wire.transport import Request, Transport
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests import virtual_time
from tests.faults import boxes
from tests.faults.links import Cut, LinkResponse, Links, LinkTransport
from tests.faults.lives import Life
from tests.faults.requests import CannedResponse
from tests.faults.rows import Box, Boxes, Sending
from tests.faults.schedules import Ordered
from tests.faults.transport import BoxTransport, FaultTransport
from tests.worlds import EPOCH_S, Address, Hands, Ledger, Wire, spoken

HUB = "hub"


class World(Hands):
    """One federation; everything a scenario does or looks at.

    Faults are those of `tests/faults`, made when a scenario says so. They come between
    a process, the hub unless another is named, and a cluster; user and controllers have none.
    """

    def __init__(
        self,
        fleet: FleetSpec,
        options: HubOptions,
        seed: int,
        *,
        hubs: int = 1,
        election: bool = False,
    ) -> None:
        self.ledger = Ledger()
        self.writes, self.reads = self.ledger.writes, self.ledger.reads
        self.links, self.boxes, self.orders = Links(), Boxes(), Ordered()
        self.answered: Counter[str] = Counter()
        """How often something else than a server has answered, by what `answer` was given."""
        self._standing = contextlib.ExitStack()
        self._severed: list[tuple[str, str, Cut, bool]] = []
        self._stalled: list[LinkResponse] = []
        self._rng = random.Random(seed)
        self.federation = Federation(
            fleet=fleet,
            clock=Clock(EPOCH_S),
            rng=random.Random(seed),
            hub_options=options,
            hubs=hubs,
            election=election,
            wrap=self._wrap,
            pause=virtual_time.stirred,
        )
        self.host = self.user("host")

    def _wrap(self, process: str, cluster: str, inner: Transport) -> Transport:
        def heard(request: Request, status: int) -> None:
            self.heard(process, cluster, request, status)

        federation, life = self.federation, Life(process)
        address = Address(
            lambda: federation.host if cluster == "host" else federation.members[cluster]
        )
        boxed = BoxTransport(Wire(address, life, heard), self.boxes, process, cluster)
        linked = LinkTransport(boxed, self.links, process, cluster)
        return FaultTransport(linked, self.orders, life, rng=self._rng, where=cluster)

    def heard(self, process: str, cluster: str, request: Request, status: int) -> None:
        """Told of each request that a server has answered."""
        self.ledger.note(process, cluster, request)

    # -- faults ------------------------------------------------------------------------------------

    async def cut(
        self, *clusters: str, process: str = HUB, how: Cut = Cut.REFUSED, late: bool = False
    ) -> None:
        """The links to these clusters are cut until `heal`; `late` as `Links.sever` has it."""
        for cluster in clusters:
            self._severed.append((process, cluster, how, late))
            await self.links.sever(process, cluster, how, late=late)

    def heal(self, *clusters: str) -> None:
        """The links to these clusters, or all, are well again."""
        severed = [cut for cut in self._severed if not clusters or cut[1] in clusters]
        self._severed = [cut for cut in self._severed if cut not in severed]
        for process, cluster, how, late in severed:
            self.links.heal(process, cluster, how, late=late)

    def mute(self, cluster: str) -> None:
        """Watches of the hub's that are open tell nothing more."""
        self._stalled += self.links.stall_streams((HUB, cluster))

    async def unmute(self) -> None:
        """They end, and others tell what has happened meanwhile."""
        stalled, self._stalled = self._stalled, []
        for stream in stalled:
            await stream.close()

    def put(self, box: Box) -> None:
        """The box stands until `clear`, before those that stand already."""
        self._standing.enter_context(self.boxes.standing(box))

    def clear(self) -> None:
        """No box stands any more."""
        self._standing.close()

    def answer(
        self, cluster: str, ending: str, status: int, body: bytes = b"{}", *, process: str = HUB
    ) -> None:
        """Something else than the server answers what ends so; "" is all."""
        self.put(
            boxes.answering(
                between(process, cluster, ending),
                lambda: CannedResponse(status, body, boxes.JSON),
                lambda sending: self.answered.update([ending]),
            )
        )

    def deny(self, cluster: str) -> None:
        """The hub's credentials are not accepted."""
        self.put(boxes.answering(between(HUB, cluster), boxes.unauthorized))

    def turn_away(self, cluster: str) -> None:
        """No new connection of the hub's is taken; watches that are open go on."""
        self.put(
            boxes.failing(
                between(HUB, cluster),
                lambda sending: errors.Unreachable(f"{cluster} refuses connections"),
            )
        )

    def refuse_writes(self, cluster: str, ending: str) -> None:
        """The hub may read and not write what ends so."""
        asked = between(HUB, cluster, ending)
        self.put(
            boxes.answering(lambda sending: sending.writes and asked(sending), boxes.forbidden)
        )

    def close_watches(self, cluster: str) -> None:
        """Watches of the hub's end as soon as they begin; `answered` counts them as "watch"."""
        self.put(
            boxes.closing_watches(
                between(HUB, cluster), lambda sending: self.answered.update(["watch"])
            )
        )

    def serve_no_longer(self, cluster: str, kind: str) -> None:
        """The hub finds a kind in a member as if there were no such definition; its objects
        stay.
        """
        self.put(
            boxes.without_kind(registry.KINDS[kind], between(HUB, cluster), lambda sending: None)
        )

    def hold_up(self, cluster: str, ending: str, delay_s: float) -> None:
        """What the hub asks for that ends so takes so much longer."""
        self.put(
            boxes.holding_up(between(HUB, cluster, ending), lambda sending: asyncio.sleep(delay_s))
        )

    def meanwhile(
        self,
        cluster: str,
        method: str,
        resource: str,
        happens: Callable[[], Awaitable[object]],
        *,
        process: str = HUB,
    ) -> asyncio.Event:
        """What happens while the next such write has been sent, which sets the event, and has not
        arrived.
        """
        sent = asyncio.Event()

        async def held_up(sending: Sending) -> None:
            sent.set()
            await happens()

        self.put(
            boxes.holding_up(
                lambda sending: (
                    not sent.is_set() and spoken(sending) == (process, cluster, method, resource)
                ),
                held_up,
            )
        )
        return sent

    def lose_reply(self, cluster: str, method: str, resource: str) -> None:
        """The hub's next such write takes effect and is not answered."""
        self.orders.order(
            "lost-reply", lambda sending: spoken(sending) == (HUB, cluster, method, resource)
        )

    # -- looks -------------------------------------------------------------------------------------

    async def settle(self, within_s: float = 120.0) -> None:
        await self.federation.until_settled(within_s)

    def count(self, process: str = "hub", *, but: str = "events") -> int:
        """Writes of one process so far, leaving Events out."""
        return sum(
            number
            for key, number in self.writes.items()
            if key[0] == process and not key[3].startswith(but)
        )

    async def ready_replicas(self, namespace: str, name: str) -> int:
        """Ready replicas of a Deployment over all members."""
        count = 0
        for cluster in self.federation.members:
            deployment = await self.get("Deployment", namespace, name, at=cluster)
            count += ((deployment or {}).get("status") or {}).get("readyReplicas", 0)
        return count

    async def shares(self, namespace: str, name: str) -> dict[str, int]:
        """Replicas by cluster, of the decision that is not being deleted."""
        return await self._by_cluster(namespace, name, "replicas")

    async def slots(self, namespace: str, name: str) -> dict[str, int]:
        """How many shards run at once by cluster, of the decision that is not being deleted."""
        return await self._by_cluster(namespace, name, "slots")

    async def _by_cluster(self, namespace: str, name: str, what: str) -> dict[str, int]:
        for obj in await self.decisions():
            meta, spec = obj["metadata"], obj["spec"]
            if (
                meta["namespace"] == namespace
                and spec["workload"]["name"] == name
                and "deletionTimestamp" not in meta
            ):
                return {share["cluster"]: share.get(what, 0) for share in spec["shares"]}
        return {}

    async def condition(self, kind: str, namespace: str, name: str, which: str) -> dict[str, Any]:
        found = await self.get(kind, namespace, name)
        assert found is not None
        conditions = (found.get("status") or {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == which), {})


def between(process: str, cluster: str, ending: str = "") -> Callable[[Sending], bool]:
    """Whether a request goes from this process to this cluster, with a path that ends so."""
    return lambda sending: (
        (sending.process, sending.cluster) == (process, cluster)
        and sending.request.path.endswith(ending)
    )


def service(replicas: int, cpu: str = "500m", **more: Any) -> dict[str, Any]:
    """The spec of a PinterestService."""
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
    }
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}, **more}


def jobset(
    shards: int, parallelism: int, cpu: str = "500m", annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The spec of a PinterestJobSet whose shards run for two seconds."""
    container = {"name": "shard", "image": "shard:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"annotations": {"embedded.federator/run-seconds": "2", **(annotations or {})}}
    template = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"shards": shards, "parallelism": parallelism, "template": template}


def small_fleet(count: int = 3, nodes: int = 4) -> FleetSpec:
    """Members a, b, c, ... in zones of their own, each with nodes of 8 cpus."""
    return FleetSpec(
        members=[
            MemberSpec(
                name=name,
                labels={"zone": f"z-{name}"},
                nodes=[Pool(count=nodes, cpu="8", memory="32Gi")],
            )
            for name in "abcdefghij"[:count]
        ]
    )


def play(
    scenario: Callable[[World], Awaitable[None]],
    *,
    fleet: FleetSpec | None = None,
    options: HubOptions | None = None,
    seed: int = 1,
    election: bool = False,
    world_of: "type[World]" = World,
    host_controllers: bool = True,
) -> None:
    """Runs a scenario on a started federation, in virtual time, and takes everything down.

    `host_controllers` False: the host has neither a garbage collector nor a namespace controller.
    """

    async def main() -> None:
        world = world_of(fleet or small_fleet(), options or HubOptions(), seed, election=election)
        if not host_controllers:
            world.federation.host.controllers = None
        try:
            await world.federation.start()
            await scenario(world)
            world.federation.check()
        finally:
            await world.federation.stop()

    virtual_time.run(main())
