"""A small federation on virtual time, with a user's hands and a ledger of every write. Used by the
scenarios beside it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from federator.embedded.rest.inprocess import InProcessTransport
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from federator.sandbox import virtual_time
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool

EPOCH_S = 1_790_000_000.0
UNAUTHORIZED = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}'
)
FORBIDDEN = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}'
)
DISCOVERY = {
    "accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
}
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Tap:
    """A transport that counts writes by (process, cluster, method, resource) and can be cut."""

    def __init__(self, world: "World", process: str, cluster: str, inner: Transport) -> None:
        self.world = world
        self.process = process
        self.cluster = cluster
        self.inner = inner
        world.taps.append(self)

    async def request(self, request: Request) -> Response:
        if (self.process, self.cluster) in self.world.cut:
            raise errors.Unreachable(f"{self.cluster} is cut off from {self.process}")
        listing = bool(request.query) and (self.process, self.cluster) in self.world.short_of_lists
        if listing or (self.process, self.cluster) in self.world.short:
            raise errors.OwnShortage(
                f"{self.cluster}: not asked, {self.process} has no descriptor left"
            )
        if (self.process, self.cluster) in self.world.strange:
            return Canned(200, b"<html>Please sign in</html>")
        for (process, cluster, ending), (status, body) in self.world.canned.items():
            if (process, cluster) == (self.process, self.cluster) and request.path.endswith(ending):
                self.world.answered[ending] += 1
                return Canned(status, body)
        if request.method in WRITES and self._unwritable(request):
            return Canned(403, FORBIDDEN)
        if (self.process, self.cluster) in self.world.denied:
            return Canned(401, UNAUTHORIZED)
        if (self.process, self.cluster) in self.world.short_watches and (
            "watch",
            "true",
        ) in request.query:
            self.world.watches[self.process, self.cluster] += 1
            return Canned(200, b"")
        if request.method == "GET":
            self.world.reads[self.process, self.cluster, request.path] += 1
        if request.method in WRITES and "/leases" not in request.path:
            named = (self.process, self.cluster, request.method, resource_of(request.path))
            self.world.writes[named] += 1
            if (meanwhile := self.world.on_the_way.pop(named, None)) is not None:
                await meanwhile()
        response = await self.inner.request(request)
        if self.world.lose_reply and request.method in WRITES:
            lost = (self.process, self.cluster, request.method, resource_of(request.path))
            if lost in self.world.lose_reply:
                self.world.lose_reply.discard(lost)
                raise errors.Unreachable(f"the reply to {' '.join(lost)} was lost")
        if ("watch", "true") in request.query:
            return Halting(self.world, (self.process, self.cluster), response)
        return response

    def _unwritable(self, request: Request) -> bool:
        return any(
            (process, cluster) == (self.process, self.cluster) and request.path.endswith(ending)
            for process, cluster, ending in self.world.unwritable
        )

    async def end_streams(self) -> None:
        """Watches that are open end, as when their connections break."""
        assert isinstance(self.inner, InProcessTransport)
        for response in list(self.inner._open.values()):
            await response.close()

    async def close(self) -> None:
        await self.inner.close()


class Halting:
    """A watch that is open and tells nothing while (process, cluster) is among the world's `mute`;
    what happened meanwhile comes afterwards.
    """

    def __init__(self, world: "World", between: tuple[str, str], inner: Response) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self.close = inner.close
        self.read = inner.read
        self._world, self._between, self._inner = world, between, inner

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            while self._between in self._world.mute:  # noqa: ASYNC110 - virtual time: waiting costs nothing
                await asyncio.sleep(0.1)
            yield chunk


class Canned:
    """An answer that no API server gave."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    async def read(self, limit: int) -> bytes:
        if len(self._body) > limit:
            raise errors.Malformed(f"an answer of more than {limit} bytes")
        return self._body

    async def close(self) -> None:
        """There is no connection."""


def resource_of(path: str) -> str:
    """`pinterestservices/status` of
    `/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web/status`.
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return parts[0] + (f"/{parts[2]}" if len(parts) > 2 else "")


class World:
    """One federation; everything a scenario does or looks at."""

    def __init__(
        self, fleet: FleetSpec, options: HubOptions, seed: int, *, election: bool = False
    ) -> None:
        self.writes: Counter[tuple[str, str, str, str]] = Counter()
        self.reads: Counter[tuple[str, str, str]] = Counter()
        """GETs by (process, cluster, path)."""
        self.cut: set[tuple[str, str]] = set()
        self.mute: set[tuple[str, str]] = set()
        """(process, cluster) whose open watches tell nothing."""
        self.taps: list[Tap] = []
        self.short: set[tuple[str, str]] = set()
        """(process, cluster) where the process lacks a file descriptor for another request."""
        self.short_of_lists: set[tuple[str, str]] = set()
        """The same, where it has a connection for probes and none for lists and watches."""
        self.strange: set[tuple[str, str]] = set()
        """(process, cluster) where something answers that is no API server."""
        self.canned: dict[tuple[str, str, str], tuple[int, bytes]] = {}
        """(process, cluster, end of a path) and what is answered there, by nobody's API server."""
        self.unwritable: set[tuple[str, str, str]] = set()
        """(process, cluster, end of a path) of what may be read there and not written."""
        self.answered: Counter[str] = Counter()
        """How often, by the end of the path."""
        self.denied: set[tuple[str, str]] = set()
        """(process, cluster) where credentials are not accepted."""
        self.short_watches: set[tuple[str, str]] = set()
        """(process, cluster) where watches end as soon as they begin."""
        self.watches: Counter[tuple[str, str]] = Counter()
        self.lose_reply: set[tuple[str, str, str, str]] = set()
        self.on_the_way: dict[tuple[str, str, str, str], Callable[[], Awaitable[None]]] = {}
        """What happens while the next such write, as in `writes`, has been sent and has not
        arrived.
        """
        """(process, cluster, method, resource) of writes that take effect but are not answered,
        once each.
        """
        self.federation = Federation(
            fleet=fleet,
            clock=Clock(EPOCH_S),
            rng=random.Random(seed),
            hub_options=options,
            election=election,
            wrap=lambda process, cluster, inner: Tap(self, process, cluster, inner),
        )
        self.host = Client(self.federation.host.transport(), "host", field_manager="kubectl")

    async def serve_no_longer(self, cluster: str, plural: str) -> None:
        """Until `canned` is cleared the hub finds a kind in a member as if there were no such
        definition; its objects stay.
        """
        found = msgspec.json.decode(
            await self.member(cluster).raw("GET", "/apis", headers=DISCOVERY)
        )
        for group in found["items"]:
            for version in group["versions"]:
                version["resources"] = [
                    one for one in version["resources"] if one["resource"] != plural
                ]
        self.canned["hub", cluster, "/apis"] = (200, msgspec.json.encode(found))
        self.canned["hub", cluster, f"/{plural}"] = (404, b"404 page not found\n")

    def member(self, name: str) -> Client:
        return Client(self.federation.members[name].transport(), name, field_manager="kubectl")

    async def settle(self, within_s: float = 120.0) -> None:
        await self.federation.until_settled(within_s)

    def count(self, process: str = "hub", *, but: str = "events") -> int:
        """Writes of one process so far, leaving Events out."""
        return sum(
            number
            for key, number in self.writes.items()
            if key[0] == process and not key[3].startswith(but)
        )

    async def create(
        self, kind: str, namespace: str, name: str, spec: Mapping[str, Any], **meta: Any
    ) -> None:
        await self.namespace(namespace)
        found = registry.KINDS[kind]
        body = {
            "apiVersion": found.api_version,
            "kind": kind,
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **meta},
            "spec": dict(spec),
        }
        await self.host.create(found.ref(namespace, name), body)

    async def namespace(self, name: str) -> None:
        if not name:
            return
        ref = ObjectRef("v1", "namespaces", "", name, "Namespace")
        try:
            await self.host.create(
                ref, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        except errors.AlreadyExists:
            return

    async def patch(
        self, kind: str, namespace: str, name: str, body: Mapping[str, Any], *, at: str = "host"
    ) -> None:
        client = self.host if at == "host" else self.member(at)
        await client.patch(registry.KINDS[kind].ref(namespace, name), body)

    async def get(
        self, kind: str, namespace: str, name: str, *, at: str = "host"
    ) -> dict[str, Any] | None:
        client = self.host if at == "host" else self.member(at)
        try:
            return await client.get(registry.KINDS[kind].ref(namespace, name))
        except errors.NotFound:
            return None

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        found = await self.get(kind, namespace, name)
        assert found is not None
        await self.host.delete(
            registry.KINDS[kind].ref(namespace, name), uid=found["metadata"]["uid"]
        )

    async def decisions(self) -> list[dict[str, Any]]:
        kind = registry.KINDS["PlacementDecision"]
        return list((await self.host.list(kind.api_version, kind.plural)).items)

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
) -> None:
    """Runs a scenario on a started federation, in virtual time, and takes everything down."""

    async def main() -> None:
        world = World(fleet or small_fleet(), options or HubOptions(), seed, election=election)
        try:
            await world.federation.start()
            await scenario(world)
            world.federation.check()
        finally:
            await world.federation.stop()

    virtual_time.run(main())
