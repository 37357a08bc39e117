"""A federation in memory that hostile things are thrown at, with a picture of everything in it
before and after.

Used by the tests of objects, members and Secrets beside it.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from federator import app
from federator.embedded.server import EmbeddedCluster
from federator.hub.leading.process import HubProcess
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.work_queue import WorkQueue
from federator.kube.wire.transport import Request, Response, Transport
from federator.sandbox.federation import Federation, Wrap
from tests import virtual_time
from tests.unit.hub.world import World, service, small_fleet
from tests.worlds import EPOCH_S

BODY_MAX = 64 * 1024 * 1024
PASSING = {"events", "leases"}
"""What moves by itself: heartbeats, and what is told of other things."""

Picture = dict[tuple[str, str, str, str], Any]
Story = Callable[["Scene"], Coroutine[Any, Any, None]]


class Refusals:
    """Counts what the host would not take of the hub: an answer of a member must never lead
    to one.
    """

    def __init__(self, seen: Counter[tuple[int, str]], inner: Transport) -> None:
        self.seen = seen
        self.inner = inner

    async def request(self, request: Request) -> Response:
        response = await self.inner.request(request)
        if request.method != "GET" and response.status in (400, 413, 422, 500):
            self.seen[response.status, request.path] += 1
        return response

    async def close(self) -> None:
        await self.inner.close()


class Scene:
    """A settled federation of members a and b that runs one good service, `feed/good`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.refused: Counter[tuple[int, str]] = Counter()

    @property
    def hub(self) -> HubProcess:
        return self.world.federation.hub

    def clusters(self) -> dict[str, EmbeddedCluster]:
        return {"host": self.world.federation.host, **self.world.federation.members}

    def picture(self, *, but: tuple[str, ...] = ()) -> Picture:
        """Every object of every cluster as it is stored; `but` leaves out resources of the host."""
        return {
            (name, info.plural, *revision.key): revision.obj
            for name, cluster in self.clusters().items()
            for info in cluster.registry.stored()
            if info.plural not in PASSING and not (name == "host" and info.plural in but)
            for revision in cluster.store.items(info)
        }

    async def post(
        self, obj: dict[str, Any] | bytes, kind: str = "", media: str = "application/json"
    ) -> Any:
        """Sends an object to the host's API as a user would: (status, body)."""
        row = registry.KINDS[kind if isinstance(obj, bytes) else kind or obj["kind"]]
        where = "/namespaces/feed" if row.namespaced else ""
        path = f"/apis/{row.group}/{row.version}{where}/{row.plural}"
        body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        request = Request(
            "POST", path, (("fieldValidation", "Strict"),), {"content-type": media}, body
        )
        response = await self.world.federation.host.transport().request(request)
        return response.status, json.loads(await response.read(BODY_MAX))

    async def good(self) -> dict[str, int]:
        return await self.world.shares("feed", "good")

    def assert_unharmed(self) -> None:
        """The hub runs, no turn of its controllers broke, and the host took all that it wrote."""
        self.world.federation.check()
        hub = self.hub
        queues: dict[str, WorkQueue[Any]] = {
            "placing": hub.controllers.placing.queue,
            "gathering": hub.controllers.aggregation.queue,
            "reports": hub.controllers.reporting.reports,
            "questions": hub.controllers.asking.queue,
            "refreshing": hub.controllers.hosting.refreshing,
            **{
                f"dispatching {name}": hub.controllers.dispatching.queue_of(member)
                for name, member in hub.state.members.items()
            },
        }
        assert {name: queue.failures for name, queue in queues.items() if queue.failures} == {}
        assert self.refused == Counter()


class Guarded(Federation):
    """A federation that goes to members by the Secret they were joined with, as the real hub
    does.
    """

    __slots__ = ()

    async def connect(
        self, obj: Mapping[str, Any], secret: Mapping[str, Any], *, process: str = "hub"
    ) -> Transport:
        if obj["metadata"]["name"] not in self.members:
            await app.member_transport(obj, secret, allow_loopback=False).close()
        return await Federation.connect(self, obj, secret, process=process)


def act(
    story: Story,
    *,
    wrap: Wrap = lambda process, cluster, inner: inner,
    members: int = 2,
    options: HubOptions | None = None,
) -> None:
    """Runs a story on a federation of so many members that has started and runs one good service.
    `wrap` comes between a process and a cluster.
    """

    async def main() -> None:
        world = World(small_fleet(members, 1), options or HubOptions(), seed=1)
        scene = Scene(world)

        def wrapped(process: str, cluster: str, inner: Transport) -> Transport:
            if (process, cluster) == ("hub", "host"):
                inner = Refusals(scene.refused, inner)
            return wrap(process, cluster, inner)

        world.federation = Guarded(
            fleet=small_fleet(members, 1),
            clock=Clock(EPOCH_S),
            rng=random.Random(1),
            hub_options=options or HubOptions(),
            wrap=wrapped,
        )
        world.host = Client(world.federation.host.transport(), "host")
        try:
            await world.federation.start()
            await world.settle()
            await world.create("PinterestService", "feed", "good", service(2))
            await world.settle()
            await story(scene)
            scene.assert_unharmed()
        finally:
            await world.federation.stop()

    virtual_time.run(main())
