"""A member process in the test's own process, on a real API server with its controllers, its
scheduler and three stand-in nodes.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from federator.kinds import crds, registry
from federator.kinds.natives import NATIVES, POD_GROUP
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.member.process import MemberProcess
from federator.model.steps import ObjectRef
from tests.controlplane import nodes, seeds
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.faults.lives import Life
from tests.unit.member.memberworld import FLEET, MemberWorld
from tests.worlds import Ledger, Wire

SPACE = "feed"
SLICES = (
    *("PinterestService", "PinterestJobSet", "PinterestDaemon", "PinterestTrainingJob"),
    "PinterestNativeCronJob",
)
POD_GROUPS = NATIVES[POD_GROUP].api_version


@dataclass(slots=True)
class RealWorld:
    """The member process speaks over `wire`, and `ledger` has what it writes."""

    cluster: Cluster
    client: Client
    wire: Wire
    ledger: Ledger
    task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins a new life of the member process."""
        await self.stop()
        process = MemberProcess(
            Client(self.wire, "m1"),
            cluster="m1",
            fleet=FLEET,
            clock=RealClock(),
            rng=random.Random(3),
        )
        self.task = asyncio.get_running_loop().create_task(process.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def clear(self) -> None:
        """Deletes the slices, and what else a test has made in their namespace; returns when no pod is
        left.
        """
        slices = [kind for kind in registry.KINDS.values() if kind.kind in SLICES]
        made = [f"/apis/{kind.api_version}/namespaces/{SPACE}/{kind.plural}" for kind in slices]
        made += [f"/apis/batch/v1/namespaces/{SPACE}/jobs"]
        if self.cluster.has_gangs:
            made += [f"/apis/{POD_GROUPS}/namespaces/{SPACE}/podgroups"]
        for path in made:
            await self.client.raw("DELETE", path, (("propagationPolicy", "Background"),))

        async def empty() -> bool:
            left = [
                await self.client.list(version, plural, namespace=SPACE)
                for version, plural in (("v1", "pods"), ("apps/v1", "deployments"))
            ]
            return not any(found.items for found in left)

        await self.until(empty)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return await self.client.get(MemberWorld.ref(kind, name))

    async def until(self, condition: Callable[[], Awaitable[bool]], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110 - an API server signals nothing to a test
                await asyncio.sleep(0.2)

    async def until_status(self, kind: str, name: str, **wanted: Any) -> None:
        async def holds() -> bool:
            status = (await self.get(kind, name)).get("status") or {}
            return all(status.get(field) == value for field, value in wanted.items())

        await self.until(holds)

    async def quiet(self, for_s: float) -> list[str]:
        """What is written during so many seconds."""
        before = len(self.ledger.log)
        await asyncio.sleep(for_s)
        return self.ledger.log[before:]


@contextlib.asynccontextmanager
async def opened(
    plane: ControlPlane, name: str, *, gangs: bool = False, more: Sequence[seeds.Definition] = ()
) -> AsyncIterator[RealWorld]:
    """A new cluster of that name with our kinds and `more`, the namespace of the slices, and no
    process in it yet; both end with the block.
    """
    kinds = [*crds.all_crds(), *more]
    cluster = await asyncio.to_thread(
        plane.cluster, name, controllers=True, scheduler=True, gangs=gangs, kinds=kinds
    )
    client, ledger = Client(cluster.transport(), "m1"), Ledger()
    wire = Wire(
        cluster.transport(),
        Life("member"),
        lambda request, status: ledger.note("member", "m1", request),
    )
    try:
        feed = ObjectRef("v1", "namespaces", "", SPACE)
        await client.create(feed, {"metadata": {"name": SPACE}})
        yield RealWorld(cluster, client, wire, ledger)
    finally:
        await client.close()
        await wire.close()
        await asyncio.to_thread(plane.end, name)


@contextlib.asynccontextmanager
async def with_nodes(world: RealWorld) -> AsyncIterator[None]:
    """The nodes run until the block ends."""
    with nodes.running(world.cluster, nodes.many("n", 3)):
        yield


@contextlib.asynccontextmanager
async def running(world: RealWorld) -> AsyncIterator[None]:
    """The member process runs until the block ends, and leaves no slice behind."""
    await world.start()
    try:
        yield
        await world.clear()
    finally:
        await world.stop()
