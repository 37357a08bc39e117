"""A federation under faults: its processes have lives, and every request they send is seen.

A crash ends a life at its next request and nothing of it reaches the wire any more; the dead process itself is kept,
never cancelled, so that no `finally` of it runs. Which life a request belongs to is known by the context in which its
task was started, so a dead process cannot borrow the life of its successor.
"""

import asyncio
import contextvars
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from federator.api import crds
from federator.embedded import builtins, fleetfile
from federator.embedded import crds as served
from federator.embedded.defaults import fill
from federator.embedded.faults import Fault, FaultTransport, Life, Schedule, Seeded
from federator.embedded.federation import Federation, ensure
from federator.embedded.fleetfile import FleetSpec, MemberSpec, Pool
from federator.embedded.pruning import copy_json
from federator.embedded.server import EmbeddedCluster
from federator.hub.process import HubProcess
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.transport import Request, Response, Transport
from tests.simulation import foreign
from tests.simulation.drawing import Parameters, generator

EPOCH_S = 1_790_000_000.0
HUB = "hub"
MEMBER = "member"
LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)
"""Whose life the running task belongs to; None for the user and the clusters' own controllers."""

Listener = Callable[["Sent"], None]
Between = Callable[[str, str, Transport], Transport]
"""(process, cluster, transport) -> transport, just above the wire: where a test plants a bug."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request that reached an API server, with its answer."""

    at_s: float
    process: str
    life: Life
    cluster: str
    request: Request
    status: int

    @property
    def watches(self) -> bool:
        return ("watch", "true") in self.request.query

    @property
    def writes(self) -> bool:
        return self.request.method not in ("GET", "HEAD")

    @property
    def heartbeat(self) -> bool:
        return "/leases" in self.request.path

    def text(self) -> str:
        verb = "WATCH" if self.watches else self.request.method
        return f"{self.at_s:9.3f} {self.life.name:12} {self.cluster:5} {verb:6} {self.request.path} -> {self.status}"


class Wire:
    """The last thing before the server: tells the world of every request that gets this far."""

    def __init__(self, world: "World", process: str, cluster: str, life: Life, inner: Transport) -> None:
        self.world = world
        self.process = process
        self.cluster = cluster
        self.life = life
        self.inner = inner

    async def request(self, request: Request) -> Response:
        """The inner transport's answer, noted."""
        response = await self.inner.request(request)
        now_s = self.world.federation.clock.monotonic()
        sent = Sent(now_s, self.process, self.life, self.cluster, request, response.status)
        for listener in self.world.listeners:
            listener(sent)
        return response

    async def close(self) -> None:
        await self.inner.close()


class Stoppable(Schedule, Protocol):
    """A schedule of faults that can be over."""

    def stop(self) -> None: ...


class Told:
    """A schedule of which the trace is told."""

    def __init__(self, world: "World", process: str, inner: Schedule) -> None:
        self.world = world
        self.process = process
        self.inner = inner

    def pick(self, where: str, request: Request) -> Fault | None:
        """The inner schedule's choice."""
        fault = self.inner.pick(where, request)
        if fault is not None:
            self.world.say(f"{self.process:12} {where:5} fault {fault.name} at {request.method} {request.path}")
        return fault


class World:
    """One federation with its faults. `listeners` hear of every request of hub and members."""

    def __init__(
        self,
        parameters: Parameters,
        *,
        between: Between | None = None,
        tamper: Callable[[HubProcess], None] | None = None,
        schedules: Mapping[str, Stoppable] | None = None,
    ) -> None:
        self.parameters = parameters
        self.tamper = tamper
        """Done to every new hub: where a test plants a bug in the process itself."""
        self.fired: Counter[str] = Counter()
        self.listeners: list[Listener] = []
        self.between: Between = between or (lambda process, cluster, inner: inner)
        self.trace: list[str] = []
        self.lives: dict[str, Life] = {}
        self.graves: list[Any] = []
        """Dead processes, kept from the garbage collector."""
        self.deaths = 0
        self.planted: list[tuple[str, tuple[str, str, str, str], dict[str, Any]]] = []
        """(cluster, (group, plural, namespace, name), what it was without its status) of foreign objects."""
        self._outside = contextvars.copy_context()
        self._rng = generator(parameters.seed, "faults")
        self.schedules: Mapping[str, Stoppable] = schedules or {
            HUB: Seeded(self._rng, parameters.hub),
            MEMBER: Seeded(self._rng, parameters.member),
        }
        """Of the hub, and of all member processes together."""
        self.federation = Federation(
            fleet=_fleet(parameters),
            clock=Clock(EPOCH_S),
            rng=generator(parameters.seed, "federation"),
            wrap=self._wrap,
        )
        self.host = Client(self.federation.host.transport(), "host")
        self.listeners.append(lambda sent: self.trace.append(sent.text()))

    def member(self, name: str) -> Client:
        """The user's own connection to a member, without faults."""
        return Client(self.federation.members[name].transport(), name)

    @property
    def clusters(self) -> dict[str, EmbeddedCluster]:
        return {"host": self.federation.host, **self.federation.members}

    def say(self, text: str) -> None:
        """Adds a line to the trace."""
        self.trace.append(f"{self.federation.clock.monotonic():9.3f} {text}")

    def _wrap(self, process: str, cluster: str, inner: Transport) -> Transport:
        life = LIFE.get()
        if life is None:
            return inner
        wire = self.between(process, cluster, Wire(self, process, cluster, life, inner))
        schedule = Told(self, life.name, self.schedules[HUB if process == HUB else MEMBER])
        return FaultTransport(wire, schedule, life, rng=self._rng, where=cluster, fired=self.fired)

    async def start(self) -> None:
        """Everything up, with faults from the first request on."""
        self.federation.start_clusters()
        await self._install()
        for name in self.federation.members:
            self.begin(f"member-{name}")
        self.begin(HUB)

    async def _install(self) -> None:
        """What `Federation.install` does; definitions go in by the back door, because there are hundreds of worlds."""
        for cluster in self.clusters.values():
            for crd in _definitions():
                cluster.store.create(cluster.registry.crd, crd)
        options = self.federation.hub_options
        for namespace in (options.credentials_namespace, options.system_namespace):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await ensure(self.host, body, "namespaces")
        for member in self.federation.fleet.members:
            meta = {"name": member.name, "namespace": options.credentials_namespace}
            await ensure(self.host, {"apiVersion": "v1", "kind": "Secret", "metadata": meta}, "secrets")
            await ensure(self.host, fleetfile.member_cluster(member, member.name), "memberclusters")

    def begin(self, process: str) -> None:
        """A new life of a process, with an empty memory."""
        number = sum(1 for life in self.graves if isinstance(life, Life) and life.name.startswith(f"{process}#")) + 1
        life = Life(f"{process}#{number}", functools.partial(self._died, process))
        self.lives[process] = life
        context = self._outside.copy()
        context.run(LIFE.set, life)
        if process == HUB:
            context.run(self.federation.start_hub)
            if self.tamper is not None:
                self.tamper(self.federation.hub)
        else:
            context.run(self.federation.start_member, process.removeprefix("member-"))

    def _died(self, process: str, life: Life) -> None:
        self.deaths += 1
        self.say(f"{life.name} dies")
        task = process if process == HUB else f"member {process.removeprefix('member-')}"
        self.graves += [life, self.federation.tasks.pop(task), self.federation.hub if process == HUB else None]
        delay_s = self._rng.uniform(0.0, self.parameters.restart_s)
        asyncio.get_running_loop().call_later(delay_s, self.begin, process, context=self._outside)

    async def plant(self) -> None:
        """Objects of somebody else in every member, and in the first one a namesake of a workload to come."""
        for cluster in self.federation.members:
            for namespace in foreign.NAMESPACES:
                await ensure(self.member(cluster), foreign.namespace(namespace), "namespaces")
            for plural, body in foreign.objects():
                self.planted.append(await foreign.create(self.member(cluster), cluster, plural, body))
        plural, body = foreign.namesake()
        await foreign.create(self.member("a"), "a", plural, body)

    async def unplant(self) -> None:
        """The namesake goes, so that what it kept away can come."""
        plural, body = foreign.namesake()
        ref = foreign.ref(plural, body)
        live = await self.member("a").get(ref)
        await self.member("a").delete(ref, uid=live["metadata"]["uid"])

    def end_faults(self) -> None:
        for schedule in self.schedules.values():
            schedule.stop()

    def unsettled(self) -> list[str]:
        """What is still waited for; nothing when all is settled and every process lives."""
        dead = sorted(name for name, life in self.lives.items() if life.dead)
        if dead:
            return [f"{name} is down" for name in dead]
        return self.federation.settled()[1]


def _fleet(parameters: Parameters) -> FleetSpec:
    return FleetSpec(
        members=[
            MemberSpec(
                name=name,
                labels={"zone": f"z-{1 + index % 2}"},
                nodes=[Pool(count=parameters.nodes, cpu="8", memory="32Gi")],
            )
            for index, name in enumerate("abcdefghij"[: parameters.members])
        ]
    )


@functools.cache
def _definitions() -> Sequence[dict[str, Any]]:
    """Every CRD as a server stores it once it is served."""
    found = []
    for crd in crds.all_crds():
        stored = copy_json(crd)
        fill(stored, builtins.info("apiextensions.k8s.io", "customresourcedefinitions"))
        found.append({**stored, "status": served.established_status(stored, "2026-09-21T00:00:00Z")})
    return found
