"""A dashboard over a federation on virtual time, and readers with a token each. Used by the tests
beside it.
"""

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from federator.dashboard.server import Dashboard, Options
from federator.dashboard.sources.leader import LEASE
from federator.embedded.storage.messages import Caller
from federator.hub.options import HubOptions
from federator.hub.query import announcing
from federator.hub.query.announcing import Announcement
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.tlsserver import Incoming, Outgoing
from federator.kube.wire.transport import Request
from tests import virtual_time
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

ORIGIN = {"host": "localhost:8600", "origin": "http://localhost:8600"}
FORM = "application/x-www-form-urlencoded"
LIST = {
    "apiGroups": ["pinterest.com"],
    "resources": ["pinterestservices", "pinterestjobsets"],
    "verbs": ["get", "list"],
}
CLUSTERS = {
    "apiGroups": ["federation.pinterest.com"],
    "resources": ["memberclusters", "federatedquotas"],
    "verbs": ["get", "list"],
}


class Browser:
    """What a browser does: keeps cookies, and sends them with every request."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        self.cookies: dict[str, str] = {}

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Outgoing:
        async def read(most: int) -> bytes:
            assert len(body) <= most
            return body

        path, _, query = path.partition("?")
        jar = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await self.dashboard.answer(
            Incoming(
                method,
                path,
                query,
                address="127.0.0.1",
                has_body=bool(body),
                read_body=read,
                headers={**ORIGIN, **({"cookie": jar} if jar else {}), **headers},
            )
        )
        if kept := answer.headers.get("Set-Cookie"):
            name, _, value = kept.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    async def get(self, path: str, **headers: str) -> Outgoing:
        return await self.ask("GET", path, b"", **headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Outgoing:
        body = urlencode(fields).encode()
        return await self.ask("POST", path, body, **{"content-type": FORM, **headers})

    async def json(self, path: str) -> Any:
        """The twin of a page for programs."""
        answer = await self.get(f"{path}{'&' if '?' in path else '?'}format=json")
        return json.loads(answer.body)

    async def send(self, path: str, fields: dict[str, str]) -> Outgoing:
        """Fills in a form of a page and sends it."""
        page = (await self.get("/quota")).body.decode()
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        return await self.post(path, {"csrf": csrf, **fields})

    async def form(self) -> dict[str, str]:
        """The hidden fields of the sign-in page."""
        page = (await self.get("/signin")).body.decode()
        return {"csrf": page.partition('name="csrf" value="')[2].partition('"')[0], "next": "/"}

    async def sign_in(self, token: str) -> Outgoing:
        return await self.post("/signin", {**await self.form(), "token": token})


def play(scenario: Callable[[World], Awaitable[None]]) -> None:
    """Runs a scenario on a host without hub and members, in virtual time: its objects stay as the
    scenario writes them.
    """

    async def main() -> None:
        world = World(worlds.small_fleet(2), HubOptions(), 1)
        await world.federation.install()
        await scenario(world)

    virtual_time.run(main())


async def report(world: World, kind: str, namespace: str, name: str, **status: Any) -> None:
    """Writes a status, as a hub would."""
    ref = registry.KINDS[kind].ref(namespace, name)
    await world.host.patch(ref, {"status": status}, subresource="status")


async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    """Computes where it is asked: there are no threads on virtual time."""
    return work(*arguments)


async def announce(world: World) -> None:
    """Writes the Lease of a leading hub with a query port."""
    said = Announcement("hub", "hub.example:8444", "hub.example", "an authority")
    lease = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {
            "name": LEASE.name,
            "namespace": LEASE.namespace,
            "annotations": announcing.notes(said),
        },
        "spec": {"holderIdentity": said.holder},
    }
    await world.host.create(LEASE, lease)


class Door:
    """Carries requests to the query port of the world's hub."""

    def __init__(self, world: World) -> None:
        self._port = asking.port_of(world)

    async def request(self, request: Request) -> "Answered":
        async def read(most: int) -> bytes:
            assert len(request.body) <= most
            return request.body

        given = Incoming(
            request.method,
            request.path,
            urlencode(request.query),
            authorization=request.headers.get("authorization", ""),
            has_body=bool(request.body),
            body_bytes=len(request.body),
            read_body=read,
        )
        return Answered(await self._port.answer(given))

    async def close(self) -> None: ...


class Answered:
    """An answer of the query port."""

    def __init__(self, given: Outgoing) -> None:
        self.status, self._body = given.status, given.body
        self.headers = {name.lower(): text for name, text in given.headers.items()}

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self, limit: int) -> bytes:
        return self._body

    async def close(self) -> None: ...


@contextlib.asynccontextmanager
async def dashboard_of(
    world: World, *, leader: bool = False, **more: Any
) -> AsyncIterator[Dashboard]:
    """The dashboard of a world, which has read the host. `leader`: the hub of the world has a query
    port, and its Lease says so. `more`: of `Dashboard`."""
    if leader:
        await announce(world)
    numbers = itertools.count()
    made = Dashboard(
        world.federation.client("host", "dashboard"),
        clock=world.federation.clock,
        rng=random.Random(1),
        draw=lambda: f"secret-{next(numbers):032d}",
        **{
            "options": Options(),
            "connect": lambda _: at_once(Client, Door(world), "leader"),
            "compute": at_once,
            **more,
        },
    )
    work = asyncio.create_task(made.run())
    try:
        for reflector in made.fleet.reflectors:
            await reflector.answered.wait()
        yield made
    finally:
        work.cancel()
        await asyncio.wait([work])
        await made.close()


async def reader(world: World, dashboard: Dashboard, user: str = "") -> Browser:
    """The browser of a person who has signed in; as administrator without a name."""
    host = world.federation.host
    if user:
        host.add_token(asking.token(user), Caller(user))
    browser = Browser(dashboard)
    answer = await browser.sign_in(asking.token(user) if user else host.token)
    assert answer.status == 303, answer.body
    return browser
