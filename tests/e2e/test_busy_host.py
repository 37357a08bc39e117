"""A hub keeps its lease however much it has in flight to a host that does not answer."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from federator.embedded import http
from federator.embedded.http import HttpServer, server_identity
from federator.embedded.server import EmbeddedCluster
from federator.hub.options import HubOptions
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from federator.sandbox.federation import ensure, install_crds
from tests.bench.served import Hub

pytestmark = pytest.mark.e2e

SERVICES = 80
RENEWALS = 6
"""At 2 s each: longer than the 10 s that a leader may be without one, shorter than the 30 s that a
write waits.
"""

PASSED = ("/leases", "/secrets")


class Front:
    """Stands before an API server and never answers a write to anything but leases and the hub's
    own Secret, without which it decides nothing; everything else is passed on.
    """

    def __init__(self, server: HttpServer, session: aiohttp.ClientSession) -> None:
        self.held = 0
        self._server = server
        self._session = session

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET" and not any(kind in request.path for kind in PASSED):
            self.held += 1
            await asyncio.Event().wait()
        sent = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in ("host", "content-length")
        }
        url, body = self._server.url + request.path_qs, await request.read()
        async with self._session.request(request.method, url, headers=sent, data=body) as answer:
            passed = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await passed.prepare(request)
            async for chunk in answer.content.iter_any():
                await passed.write(chunk)
        return passed


@asynccontextmanager
async def fronted(server: HttpServer, room: Path) -> AsyncIterator[Front]:
    """The server behind a front, which the kubeconfig in `room` leads to."""
    trust = aiohttp.TCPConnector(
        ssl=ssl.create_default_context(cadata=server.ca_pem.decode()), limit=0
    )
    async with aiohttp.ClientSession(connector=trust, auto_decompress=False) as session:
        front = Front(server, session)
        runner = web.ServerRunner(
            web.Server(front.handle, handler_cancellation=True), shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_identity().context).start()
        seen = HttpServer(server.cluster, f"https://127.0.0.1:{runner.addresses[0][1]}", runner)
        http.write_kubeconfig(room / "host.kubeconfig", {"host": seen}, "host")
        try:
            yield front
        finally:
            await runner.cleanup()


async def fill(client: Client) -> None:
    """More workloads than a hub has connections, each of which gets a decision."""
    await install_crds(client)
    for name in ("feed", HubOptions().system_namespace):
        await ensure(
            client,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            "namespaces",
        )
    for number in range(SERVICES):
        service: dict[str, Any] = {
            "apiVersion": "pinterest.com/v1beta1",
            "kind": "PinterestService",
            "metadata": {"name": f"web-{number}", "namespace": "feed"},
            "spec": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}},
            },
        }
        await ensure(client, service, "pinterestservices")


async def test_the_lease_is_renewed_while_every_connection_waits_for_the_host(
    tmp_path: Path,
) -> None:
    host = EmbeddedCluster("host", clock=RealClock(), rng=random.Random(1), controllers=False)
    client, server, hub = (
        Client(host.transport(), "host"),
        await http.serve(host),
        Hub(tmp_path, {}),
    )
    lease = ObjectRef(
        "coordination.k8s.io/v1",
        "leases",
        HubOptions().system_namespace,
        HubOptions().lease_name,
        "Lease",
    )
    try:
        await fill(client)
        async with fronted(server, tmp_path) as front:
            renewals: set[str] = set()

            async def full() -> bool:
                return front.held >= HubOptions().host_writes_in_flight

            async def renewed() -> bool:
                renewals.add((await client.get(lease))["spec"]["renewTime"])
                return len(renewals) > RENEWALS

            await hub.start()
            try:
                await hub.until(
                    full, within_s=120.0, said="waiting for every write that it may have in flight"
                )
                await hub.until(
                    renewed, within_s=60.0, said="leading for longer than a lease lasts"
                )
                assert (await client.get(lease))["spec"]["leaseTransitions"] <= 1
            finally:
                await hub.stop()
    finally:
        await client.close()
        await server.close()
