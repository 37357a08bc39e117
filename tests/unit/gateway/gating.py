"""A gateway over a federation on virtual time: its callers, the workflows that they submit, and the
leader that it asks. Used by the tests beside it.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from multidict import CIMultiDict

from federator.api.submissionpolicy import Policy
from federator.embedded.storage.messages import Caller
from federator.gateway.artifacts import ports, workflows
from federator.gateway.artifacts.ports import Artifact, Provenance, Reason, Rendered
from federator.gateway.artifacts.registry import digest_of
from federator.gateway.options import GatewayOptions
from federator.gateway.platforms.leader import Leader, Ways
from federator.gateway.server import Gateway
from federator.hub.options import HubOptions
from federator.hub.query import announcing
from federator.hub.query.announcing import Announcement
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.kube.wire.transport import Request, Response, Transport
from federator.model import sources
from federator.model.errors import FieldError
from federator.process.oidc.issuer import Issuer, Issuers
from federator.process.oidc.tokens import Trust
from federator.sandbox.fleetfile import FleetSpec
from tests import virtual_time
from tests.artifacts import made
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.kube.scripted import Answer
from tests.unit.oidc import issuing
from tests.unit.query import asking

SOURCE = "oci://registry.example/ads/serving"
SUBMISSIONS = "/v1/workflows/ads/serving/submissions"
OWN = "TOKEN-OF-THE-GATEWAY"
RIGHTS = {
    "apiGroups": ["pinterest.com"],
    "resources": ["*"],
    "verbs": ["get", "list", "create", "update", "delete"],
}
USER = "oidc:builder"


class Kept:
    """Versions of workflows in memory, read and filled in by the gateway's own code."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"v1": made.WORKFLOW}
        self.resolved = 0

    async def resolve(
        self, source: str, version: str, namespace: str, policies: Sequence[Policy]
    ) -> Artifact:
        self.resolved += 1
        try:
            ref = sources.reference(source, "artifact")
        except FieldError as bad:
            raise ports.refused(Reason.BAD_REFERENCE, bad.path, bad.message) from None
        allowing = [policy for policy in policies if policy.allows(ref)]
        if not allowing:
            raise ports.refused(Reason.SOURCE_NOT_ALLOWED, "artifact", "no policy allows it")
        by_digest = {digest_of(file): file for file in self.files.values()}
        file = by_digest.get(version) or self.files.get(version)
        if file is None:
            raise ports.refused(Reason.NOT_FOUND, "version", f"there is no {version}")
        workflow = workflows.load(file)
        evidence = Provenance(allowing[0].mode, False)
        return Artifact(ref, version, digest_of(file), workflow, allowing[0], evidence)

    async def render(
        self, artifact: Artifact, parameters: Mapping[str, Any], namespace: str
    ) -> Rendered:
        objects, values = workflows.render(artifact.workflow, parameters, namespace)
        return Rendered(objects, values, {})


def workflow(*objects: Mapping[str, Any], name: str = "serving") -> bytes:
    """A workflow file with these objects and no parameters."""
    document = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "objects": list(objects),
    }
    return json.dumps(document).encode()


def service(name: str, replicas: int, cpu: str = "500m", **more: Any) -> dict[str, Any]:
    return _object("PinterestService", name, worlds.service(replicas, cpu, **more))


def job(name: str, shards: int, cpu: str = "500m", **more: Any) -> dict[str, Any]:
    return _object("PinterestJobSet", name, {**worlds.jobset(shards, shards, cpu), **more})


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    container = spec["template"]["spec"]["containers"][0]
    container["image"] = f"registry.example/ads/app@sha256:{'1' * 64}"
    return {
        "apiVersion": registry.KINDS[kind].api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"project": "ads", **spec},
    }


class Asked:
    """A Transport to the query port of the hub that an announcement names."""

    def __init__(self, world: World, hub: str, own: str = "") -> None:
        self._world = world
        self._hub = hub
        self._own = own
        """The token that this connection shows of its own."""

    async def request(self, request: Request) -> Response:
        process = self._world.federation.processes.get(self._hub)
        if process is None or self._world.federation.host is None:
            raise errors.Unreachable("the hub is gone")

        async def read(_: int) -> bytes:
            return request.body

        headers = CIMultiDict(request.headers)
        port = asking.port_of(self._world, hub=self._hub)
        answer = await port.answer(
            Incoming(
                request.method,
                request.path,
                urlencode(request.query),
                authorization=f"Bearer {self._own}" if self._own else headers["authorization"],
                impersonates="impersonate-user" in headers,
                acts_as=(
                    headers.get("impersonate-user", ""),
                    *headers.getall("impersonate-group", ()),
                ),
                has_body=bool(request.body),
                body_bytes=len(request.body),
                read_body=read,
            )
        )
        return Answer(answer.status, (answer.body,), answer.headers)

    async def close(self) -> None:
        """Nothing is open."""


class Bare:
    """A Transport to the host on which the token of a request says whose it is."""

    def __init__(self, world: World) -> None:
        self._host = world.federation.host

    async def request(self, request: Request) -> Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        caller = self._host.tokens.admins.get(token, Caller("system:anonymous"))
        return await self._host.transport(caller).request(request)

    async def close(self) -> None:
        """Nothing is open."""


class Killed(Exception):
    """The process ends at this point."""


class Deadly:
    """A Transport whose process ends at its n-th write: before it is sent, or once it has taken
    effect."""

    def __init__(self, inner: Transport, at: int, *, after: bool) -> None:
        self._inner, self._at, self._after = inner, at, after
        self.writes = 0

    async def request(self, request: Request) -> Response:
        writes = request.method != "GET" and "reviews" not in request.path
        self.writes += writes
        if writes and self.writes == self._at:
            if self._after:
                await self._inner.request(request)
            raise Killed
        return await self._inner.request(request)

    async def close(self) -> None:
        await self._inner.close()


class Door:
    """One gateway process, and a caller at it."""

    def __init__(
        self,
        world: World,
        versions: Kept,
        *,
        process: str = "gateway",
        served: issuing.Served | None = None,
        wrap: Callable[[Transport], Transport] = lambda transport: transport,
        metrics: Metrics | None = None,
        **options: Any,
    ) -> None:
        self.world, self.versions = world, versions
        self.served = served or issuing.Served()
        federation = world.federation
        host = federation.client("host", process)
        host = host.on(wrap(host.transport))
        counted = itertools.count()
        trust = Trust(issuing.URL, frozenset({issuing.AUDIENCE}), user_prefix="oidc:")
        issuer = Issuer(trust, self.served.connect, clock=federation.clock)

        async def connect(known: Announcement) -> Ways:
            hub = known.address.partition(":")[0]
            return Ways(Client(Asked(world, hub, OWN), "own"), Client(Asked(world, hub), "bare"))

        self.gateway = Gateway(
            host,
            Bare(world),
            issuers=Issuers([issuer]),
            versions=versions,
            judge=Leader(host, connect, rng=random.Random(1)),
            options=GatewayOptions(**options),
            clock=federation.clock,
            draw=lambda: f"{process}-{next(counted)}",
            metrics=metrics,
        )

    @property
    def token(self) -> str:
        """A good token of the user `builder`."""
        now = int(self.world.federation.clock.now())
        return issuing.token(iat=now, exp=now + 3600)

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **more: Any
    ) -> Outgoing:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""

        async def read(most: int) -> bytes:
            if len(encoded) > most:
                raise BodyRefused(f"a body of more than {most} bytes is not read")
            return encoded

        path, _, query = path.partition("?")
        shown = self.token if token is None else token
        return await self.gateway.answer(
            Incoming(
                method,
                path,
                query,
                authorization=f"Bearer {shown}" if shown else "",
                address="127.0.0.1",
                has_body=bool(encoded),
                body_bytes=len(encoded),
                read_body=read,
                headers={"content-type": "application/json"},
                **more,
            )
        )

    async def submit(self, version: str = "v1", path: str = SUBMISSIONS, **more: Any) -> Any:
        """(status, document) of a submission."""
        token = more.pop("token", None)
        body = {"artifact": SOURCE, "version": version, **more}
        answer = await self.ask("POST", path, body, token=token)
        return answer.status, json.loads(answer.body)

    async def get(self, path: str) -> Any:
        answer = await self.ask("GET", path)
        return json.loads(answer.body)


async def opened(world: World, versions: Kept | None = None, **options: Any) -> Door:
    """A gateway that is ready, and the rights and objects that its callers need."""
    await prepared(world)
    return await another(world, versions or Kept(), **options)


async def another(world: World, versions: Kept, **options: Any) -> Door:
    """A further gateway process."""
    door = Door(world, versions, **options)
    await door.gateway.policies.read()
    return door


async def prepared(world: World) -> None:
    """The rights and objects that callers of a gateway need."""
    world.federation.host.add_token(OWN, Caller("system:serviceaccount:federator:gateway"))
    rules = [
        {"apiGroups": ["federation.pinterest.com"], "resources": [plural], "verbs": [verb]}
        for plural, verb in (("verdicts", "create"), ("readers", "ask"))
    ]
    await asking.grant_everywhere(world, "system:serviceaccount:federator:gateway", *rules)
    await world.namespace("ads")
    await asking.grant(world, USER, "ads", RIGHTS)
    spec = made.policy_object(provenance={"mode": "Off"})["spec"]
    await world.create("SubmissionPolicy", "", "ads", spec)


def play(
    scenario: Callable[[World], Awaitable[None]],
    *,
    fleet: FleetSpec | None = None,
    hubs: int = 1,
    options: HubOptions | None = None,
) -> None:
    """Runs a scenario on a started federation whose hubs stand for election and announce their
    query ports."""

    async def main() -> None:
        world = World(
            fleet or worlds.small_fleet(), options or HubOptions(), 1, hubs=hubs, election=True
        )
        for name in world.federation.hub_names:
            world.federation.announced[name] = _announcing(name)
        try:
            await world.federation.start()
            await asyncio.sleep(5)
            await scenario(world)
            world.federation.check()
        finally:
            await world.federation.stop()

    virtual_time.run(main())


def _announcing(hub: str) -> Callable[[str], Mapping[str, str]]:
    """What a hub says of its query port: its own name stands for the address."""

    def notes(identity: str) -> Mapping[str, str]:
        return announcing.notes(Announcement(identity, f"{hub}:1", "name", "CERTIFICATE"))

    return notes
