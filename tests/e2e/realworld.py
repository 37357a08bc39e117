"""A member process in the test's own process, on a real API server with its controllers, its
scheduler and three stand-in nodes.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from federator.kinds import crds, registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.member.process import MemberProcess
from federator.model.steps import ObjectRef
from federator.sandbox.faults.lives import Life
from tests.controlplane import nodes
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.unit.member.memberworld import FLEET, MemberWorld
from tests.worlds import Ledger, Wire


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

    async def install(self) -> None:
        """Our kinds, and the namespace of the slices."""
        for crd in crds.all_crds():
            name, kind = crd["metadata"]["name"], "CustomResourceDefinition"
            ref = ObjectRef("apiextensions.k8s.io/v1", "customresourcedefinitions", "", name, kind)
            await self.client.patch(ref, crd, kind="apply", force=True)
        feed = ObjectRef("v1", "namespaces", "", "feed")
        await self.client.create(feed, {"metadata": {"name": "feed"}})
        kinds = {(kind.api_version, kind.plural) for kind in registry.KINDS.values()}
        await self.until_served(kinds)

    async def until_served(self, kinds: Collection[tuple[str, str]]) -> None:
        """Until these (apiVersion, plural) are answered for."""

        async def served() -> bool:
            try:
                for api_version, plural in kinds:
                    await self.client.list(api_version, plural, limit=1)
            except errors.NotFound:
                return False
            return True

        await self.until(served)

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
    plane: ControlPlane, name: str, *, gangs: bool = False
) -> AsyncIterator[RealWorld]:
    """A new cluster of that name, and no process in it yet; both end with the block."""
    cluster = await asyncio.to_thread(
        plane.cluster, name, controllers=True, scheduler=True, gangs=gangs
    )
    client, ledger = Client(cluster.transport(), "m1"), Ledger()
    wire = Wire(
        cluster.transport(),
        Life("member"),
        lambda request, status: ledger.note("member", "m1", request),
    )
    try:
        yield RealWorld(cluster, client, wire, ledger)
    finally:
        await client.close()
        await wire.close()
        await asyncio.to_thread(plane.end, name)


@contextlib.asynccontextmanager
async def running(world: RealWorld) -> AsyncIterator[None]:
    """The nodes and the member process run until the block ends."""
    with nodes.running(world.cluster, nodes.many("n", 3)):
        await world.start()
        try:
            yield
        finally:
            await world.stop()
