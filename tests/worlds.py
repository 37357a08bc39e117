"""What every federation of the tests has, whether a scenario plays in it or a simulation: the hands
of a user, the last stretch of wire before a server, the address of a cluster, and a ledger of what
got as far as a server.
"""

import contextvars
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation, ensure
from tests.faults.lives import LIFE, Life
from tests.faults.rows import Sending, plural_of

EPOCH_S = 1_790_000_000.0
WRITER: contextvars.ContextVar[Life | None] = contextvars.ContextVar("writer", default=None)
"""Whose request an API server is handling; None for the user and the clusters' own controllers."""

Spoken = tuple[str, str, str, str]
"""(process, cluster, method, resource)."""


class Wire:
    """The last thing before a server: tells of every request that gets this far, with the status of
    its answer.
    """

    def __init__(self, inner: Transport, life: Life, heard: Callable[[Request, int], None]) -> None:
        self.inner = inner
        self.life = life
        self.heard = heard

    async def request(self, request: Request) -> Response:
        """The inner transport's answer, noted."""
        # What a server does for a request does not end with the process that sent it.
        life, writer = LIFE.set(None), WRITER.set(self.life)
        response = await self.inner.request(request)
        LIFE.reset(life)
        WRITER.reset(writer)
        self.heard(request, response.status)
        return response

    async def close(self) -> None:
        await self.inner.close()


class Address:
    """The address of a cluster: requests go to whatever stands there when they are sent."""

    def __init__(self, facing: Callable[[], EmbeddedCluster]) -> None:
        self.facing = facing
        self._to: tuple[EmbeddedCluster, Transport] | None = None

    async def request(self, request: Request) -> Response:
        """The answer of what stands there."""
        facing = self.facing()
        if self._to is None or self._to[0] is not facing:
            self._to = facing, facing.transport()
        return await self._to[1].request(request)

    async def close(self) -> None:
        if self._to is not None:
            await self._to[1].close()


class Ledger:
    """Counts of what processes asked of servers and servers heard, leases left out."""

    def __init__(self) -> None:
        self.writes: Counter[Spoken] = Counter()
        self.log: list[str] = []
        """The writes as "VERB path", in order."""
        self.reads: Counter[tuple[str, str, str]] = Counter()
        """GETs by (process, cluster, path)."""

    def note(self, process: str, cluster: str, request: Request) -> None:
        sending = Sending(process, cluster, request)
        if not sending.writes:
            self.reads[process, cluster, request.path] += 1
        elif "/leases" not in request.path:
            self.writes[spoken(sending)] += 1
            self.log.append(f"{request.method} {request.path}")


def spoken(sending: Sending) -> Spoken:
    """How a ledger names a request."""
    request = sending.request
    return sending.process, sending.cluster, request.method, resource_of(request.path)


def resource_of(path: str) -> str:
    """`pinterestservices/status` of
    `/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web/status`; "" of no resource.
    """
    return "/".join(filter(None, plural_of(path)))


class Hands:
    """What a user does with kubectl: on connections of his own, which have no faults."""

    federation: Federation
    host: Client

    def user(self, cluster: str) -> Client:
        """The user's own connection to a cluster."""
        served = self.federation.host if cluster == "host" else self.federation.members[cluster]
        return Client(served.transport(), cluster, field_manager="kubectl")

    member = user

    async def namespace(self, name: str) -> None:
        """It is there afterwards; "" is that of kinds without one."""
        if name:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await ensure(self.host, body, "namespaces")

    async def create(
        self, kind: str, namespace: str, name: str, spec: Mapping[str, Any], **meta: Any
    ) -> None:
        await self.namespace(namespace)
        info = registry.KINDS[kind]
        body = {
            "apiVersion": info.api_version,
            "kind": kind,
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **meta},
            "spec": dict(spec),
        }
        await self.host.create(info.ref(namespace, name), body)

    async def patch(
        self, kind: str, namespace: str, name: str, body: Mapping[str, Any], *, at: str = "host"
    ) -> None:
        await self._at(at).patch(registry.KINDS[kind].ref(namespace, name), body)

    async def get(
        self, kind: str, namespace: str, name: str, *, at: str = "host"
    ) -> dict[str, Any] | None:
        try:
            return await self._at(at).get(registry.KINDS[kind].ref(namespace, name))
        except errors.NotFound:
            return None

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        await self.remove(registry.KINDS[kind].ref(namespace, name))

    async def remove(self, ref: ObjectRef, *, at: str = "host") -> None:
        """Deletes what stands there now. Raises `errors.NotFound` where nothing does."""
        live = await self._at(at).get(ref)
        await self._at(at).delete(ref, uid=live["metadata"]["uid"])

    async def decisions(self) -> list[dict[str, Any]]:
        kind = registry.KINDS["PlacementDecision"]
        return list((await self.host.list(kind.api_version, kind.plural)).items)

    def _at(self, cluster: str) -> Client:
        return self.host if cluster == "host" else self.user(cluster)
