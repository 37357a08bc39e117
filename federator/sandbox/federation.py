"""A whole federation in one process: an embedded host, embedded members, hub and member processes.

Used by the demo, the sandbox and every test that needs more than one cluster. Everything speaks
through transports, in process here; the sandbox serves the same APIs over HTTPS besides. Runs on
real or virtual time.
"""

import asyncio
import functools
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from federator.embedded.controllers.kubelet.behaviour import Defaults
from federator.embedded.controllers.kubelet.support import Support
from federator.embedded.server import EmbeddedCluster
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.leading.process import HubProcess
from federator.hub.options import HubOptions
from federator.kinds import crds, registry
from federator.kinds.kind import Kind
from federator.kinds.natives import POD_GROUP
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.leader.elector import Elector, LeaseLost
from federator.kube.metrics import Metrics
from federator.kube.store import Store
from federator.kube.wire.transport import Transport
from federator.member.options import MemberOptions
from federator.member.process import MemberProcess
from federator.model import names
from federator.model.steps import ObjectRef
from federator.sandbox import fleetfile, operators
from federator.sandbox.fleetfile import FleetSpec, MemberSpec
from federator.sandbox.gateways import Gateways
from federator.sandbox.operators import JOB_SET, Operators

Wrap = Callable[[str, str, Transport], Transport]
"""(process, cluster, transport) -> transport: where faults and traces come in."""


@dataclass(slots=True)
class Federation:
    """The parts of one federation. `start` brings everything up; `stop` cancels what it started.

    One hub is called `hub` and needs no election; several (`hubs`) are `hub-0`, `hub-1`, ... and
    stand for one, each started again with an empty memory when it has lost the lease.
    """

    fleet: FleetSpec
    clock: Clock
    rng: random.Random
    hub_options: HubOptions = field(default_factory=HubOptions)
    member_options: MemberOptions = field(default_factory=MemberOptions)
    wrap: Wrap = lambda process, cluster, transport: transport
    clock_of: Callable[[str], Clock] | None = None
    """The wall clock of a process or of a cluster by its name; all have `clock` where this is None.
    """
    ended: Callable[[str], None] | None = None
    """Told when a process has ended on its own (a hub that lost the lease, a member process that
    found its API server's history rewritten) by its name in `wrap`; without it a new one is started
    at once."""
    pause: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0.1)
    """How long `until_settled` waits between two looks."""
    pods: Defaults = field(default_factory=Defaults)
    """How pods of the members behave that say nothing about it."""
    support: Callable[[str], Support] | None = None
    """By member: what runs the containers beside the application of pods; without it they are as
    good as their application."""
    host: EmbeddedCluster = field(init=False)
    members: dict[str, EmbeddedCluster] = field(init=False, default_factory=dict)
    aliases: dict[str, str] = field(init=False, default_factory=dict)
    """Names of MemberClusters that stand for a member of another name."""
    hubs: int = 1
    election: bool = False
    """A single hub stands for the lease, too, so that callers find it there."""
    announced: dict[str, Callable[[str], Mapping[str, str]]] = field(
        init=False, default_factory=dict
    )
    """By hub: what the Lease says of it while it leads, given its name there. Of hubs that are
    started from now on."""
    history: HistoryOptions = field(default_factory=HistoryOptions)
    """Where hubs that are started from now on keep their history."""
    metrics: Metrics | None = None
    """Of hubs that are started from now on."""
    processes: dict[str, HubProcess] = field(init=False, default_factory=dict)
    """The hubs by name, as last started."""
    lost: Counter[str] = field(init=False, default_factory=Counter)
    """How often each hub has lost the lease."""
    tasks: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.host = EmbeddedCluster(
            "host", clock=self._clock("host"), rng=self._split(), workloads=False
        )
        for member in self.fleet.members:
            self.members[member.name] = EmbeddedCluster(
                member.name,
                clock=self._clock(member.name),
                rng=self._split(),
                nodes=fleetfile.pools(member),
                defaults=self.pods,
                support=self.support(member.name) if self.support is not None else None,
            )

    def _clock(self, owner: str) -> Clock:
        return self.clock if self.clock_of is None else self.clock_of(owner)

    def _split(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    def client(self, cluster: str, process: str = "user") -> clients.Client:
        """A client of one cluster (`host` for the host), as administrator."""
        return clients.Client(self._transport(process, cluster), cluster)

    def _transport(self, process: str, cluster: str) -> Transport:
        served = self.host if cluster == "host" else self.members[cluster]
        return self.wrap(process, cluster, served.transport())

    @property
    def hub(self) -> HubProcess:
        """The hub that leads; while there is none, the one that was started last. AttributeError
        before the first."""
        running = list(self.processes.values())
        if not running:
            raise AttributeError("no hub has been started yet")
        return next(
            (process for process in running if process.state.ready and process.state.leading),
            running[-1],
        )

    @property
    def hub_names(self) -> tuple[str, ...]:
        return ("hub",) if self.hubs == 1 else tuple(f"hub-{number}" for number in range(self.hubs))

    async def connect(
        self, obj: Mapping[str, Any], secret: Mapping[str, Any], *, process: str = "hub"
    ) -> Transport:
        """How a hub reaches a member here: by name, whatever its Secret says."""
        name = self.aliases.get(obj["metadata"]["name"], obj["metadata"]["name"])
        if name not in self.members:
            raise ValueError(f"there is no embedded cluster named {name}")
        return self._transport(process, name)

    def start_clusters(self) -> None:
        """Starts the native controllers of host and members."""
        for name, cluster in (("host", self.host), *self.members.items()):
            if cluster.controllers is not None:
                self._start(f"controllers {name}", cluster.controllers.run())
        for member in self.fleet.members:
            if member.operator is not None:
                self._start(f"operators {member.name}", self._operators(member).run())
            if member.gateway:
                self._start(f"gateways {member.name}", self._gateways(member).run())

    def _operators(self, member: MemberSpec) -> Operators:
        return Operators(
            self.client(member.name, "operators"),
            clock=self._clock(member.name),
            rng=self._split(),
            operator=member.operator or JOB_SET,
        )

    def _gateways(self, member: MemberSpec) -> Gateways:
        client = self.client(member.name, "gateways")
        return Gateways(client, clock=self._clock(member.name), rng=self._split())

    async def install(self, kubeconfigs: Mapping[str, str] | None = None) -> None:
        """CRDs everywhere, the system namespaces, and a MemberCluster with its Secret per member.

        `kubeconfigs` go into the Secrets, for hubs in other processes; without them the Secrets are
        empty.
        """
        for name in ("host", *self.members):
            # An embedded API server serves them at once.
            await _create_crds(self.client(name), member=name != "host")
        for member in self.fleet.members:
            if member.pod_groups:
                await operators.define(self.client(member.name), [operators.definition(POD_GROUP)])
        host = self.client("host")
        for namespace in (
            self.hub_options.credentials_namespace,
            self.hub_options.system_namespace,
            names.PROBES,
        ):
            await ensure(
                host,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
                "namespaces",
            )
        for member in self.fleet.members:
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": member.name,
                    "namespace": self.hub_options.credentials_namespace,
                },
                "stringData": {"kubeconfig": kubeconfigs[member.name]} if kubeconfigs else {},
            }
            await ensure(host, secret, "secrets")
            await ensure(host, fleetfile.member_cluster(member, member.name), "memberclusters")

    def start_members(self) -> None:
        for name in self.members:
            self.start_member(name)

    def start_member(self, name: str) -> None:
        """Starts one member process; another call after its end is a restart with an empty
        memory."""
        self._start(f"member {name}", self._keep_member(name, self._new_member(name)))

    def _new_member(self, name: str) -> MemberProcess:
        return MemberProcess(
            clients.Client(
                self._transport(f"member-{name}", name), name, field_manager="federator-member"
            ),
            cluster=name,
            fleet=self.hub_options.fleet,
            clock=self._clock(f"member-{name}"),
            rng=self._split(),
            options=self.member_options,
        )

    async def _keep_member(self, name: str, process: MemberProcess) -> None:
        """Runs a member process, and the next one after it found its API server's history
        rewritten."""
        while True:
            try:
                await process.run()
                return
            except errors.WentBack:
                if self.ended is not None:
                    self.ended(f"member-{name}")
                    return
                process = self._new_member(name)

    def start_hub(self, name: str = "") -> None:
        """Starts one hub by its name, or all; another call after `kill` is a restart with an empty
        memory."""
        for hub_name in (name,) if name else self.hub_names:
            self.processes.pop(hub_name, None)
            self.processes[hub_name] = self._new_hub(hub_name)
            self._start(hub_name, self._keep_hub(hub_name))

    def _new_hub(self, name: str) -> HubProcess:
        client = clients.Client(self._transport(name, "host"), "host")
        rng = self._split()
        elector = self._elector(client, name) if self.hubs > 1 or self.election else None
        process = HubProcess(
            client,
            functools.partial(self.connect, process=name),
            options=self.hub_options,
            clock=self._clock(name),
            rng=rng,
            metrics=self.metrics,
            elector=elector,
            journal=Journal(self.history, self._clock(name), self.metrics),
        )
        if elector is not None and name in self.announced:
            process.announced = self.announced[name](elector.identity)
        return process

    def _elector(self, client: clients.Client, name: str) -> Elector:
        rng = self._split()
        return Elector(
            client,
            namespace=self.hub_options.system_namespace,
            name=self.hub_options.lease_name,
            identity=f"{name}_{rng.getrandbits(40):010x}",
            options=self.hub_options.lease(),
            clock=self._clock(name),
            rng=rng,
            metrics=self.metrics,
        )

    async def _keep_hub(self, name: str) -> None:
        """Runs a hub, and the next one after a lost lease, as a kubelet would."""
        while True:
            try:
                await self.processes[name].run()
                return
            except LeaseLost:
                self.lost[name] += 1
                if self.ended is not None:
                    self.ended(name)
                    return
                self.processes[name] = self._new_hub(name)

    async def start(self) -> None:
        """Everything, in order."""
        self.start_clusters()
        await self.install()
        self.start_members()
        self.start_hub()

    def _start(self, name: str, coroutine: Any) -> None:
        self.tasks[name] = asyncio.get_running_loop().create_task(coroutine, name=name)

    async def kill(self, name: str) -> None:
        """Ends one process (`hub` or `hub-NUMBER`, `member NAME`, `controllers NAME`)."""
        task = self.tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def stop(self) -> None:
        """Ends everything."""
        for task in self.tasks.values():
            task.cancel()
        if self.tasks:
            await asyncio.wait(list(self.tasks.values()))
        self.tasks.clear()

    def check(self) -> None:
        """Raises what a part died of, if one did."""
        for name, task in self.tasks.items():
            if task.done() and not task.cancelled() and (died := task.exception()) is not None:
                raise RuntimeError(f"{name} has died: {died!r}") from died

    def settled(self) -> tuple[bool, list[str]]:
        """Whether the hub has started and every workload on the host has settled; else what is
        waited for."""
        waiting = list(self.waiting())
        return not waiting, waiting

    def waiting(self) -> Iterator[str]:
        """What is waited for, computed one by one: the hub itself, then what it has not seen, then
        the workloads that have not settled."""
        self.check()
        if not self.hub.state.ready:
            yield "the hub is still reading the host and its members"
            return
        unheard = next(self._unheard(), None)
        if unheard is not None:
            yield f"the hub has not seen the last change of {unheard}"
            return
        yield from self.hub.controllers.aggregation.unsettled()

    def _unheard(self) -> Iterator[str]:
        """Objects with a last change that has not reached the hub's memory yet."""
        for store in self.hub.controllers.hosting.stores:
            yield from _behind(self.host, store.name.removeprefix("host/"), store)
        for name, member in self.hub.state.members.items():
            if member.link.client is not None and member.heard:
                for kind, store in member.contents.stores.items():
                    plural = registry.KINDS[kind].plural
                    for ref in _behind(self.members[name], plural, store):
                        yield f"{name}: {ref}"

    async def until_settled(self, within_s: float) -> None:
        """Waits until everything has settled. Raises TimeoutError with what is still waited for."""
        deadline = self.clock.monotonic() + within_s
        while next(self.waiting(), None) is not None:
            if self.clock.monotonic() >= deadline:
                waiting = itertools.islice(self.waiting(), 5)
                raise TimeoutError(f"not settled within {within_s:g} s: " + "; ".join(waiting))
            await self.pause()


def _behind(cluster: EmbeddedCluster, plural: str, store: Store[Any]) -> list[str]:
    """Objects of the cluster that the store shows in an older state, and rows of it that are
    gone."""
    kind = _kinds().get(plural)  # namespaces are of none
    resource = cluster.registry.get(kind.group if kind is not None else "", plural)
    if not len(store) and not cluster.store.count(resource):
        return []
    live = {stored.key: stored.number for stored in cluster.store.items(resource)}
    late = [key for key, number in live.items() if key in store and _number(store, key) < number]
    if (
        kind is not None and kind.model is not None
    ) or cluster.name == "host":  # other kinds are watched in part, by label
        late += [key for key in live if key not in store]
    late += [key for key in store if key not in live]
    return [f"{plural} {namespace}/{name}" for namespace, name in sorted(late)]


@functools.cache
def _kinds() -> Mapping[str, Kind]:
    """By plural; of kinds with the same one the first."""
    return {kind.plural: kind for kind in reversed(list(registry.KINDS.values()))}


def _number(store: Store[Any], key: tuple[str, str]) -> int:
    version = store.version(key)
    return version.number if version is not None else -1


async def install_crds(client: clients.Client, *, member: bool = False) -> None:
    """Creates every CRD of a host or of a member, and waits until the last one is served."""
    await _create_crds(client, member=member)
    for kind in registry.KINDS.values():
        if kind.model is None or (member and not kind.in_members):
            continue
        for _ in range(200):
            try:
                await client.list(kind.api_version, kind.plural, limit=1)
                break
            except errors.NotFound:
                await asyncio.sleep(0.05)


async def _create_crds(client: clients.Client, *, member: bool) -> None:
    for crd, encoded in crds.encoded(member=member):
        await ensure(client, crd, "customresourcedefinitions", encoded)


async def ensure(
    client: clients.Client,
    obj: Mapping[str, Any],
    plural: str,
    encoded: msgspec.Raw | None = None,
) -> None:
    """Creates the object unless it is there. `encoded`: its JSON, where that is known."""
    meta = obj["metadata"]
    ref = ObjectRef(obj["apiVersion"], plural, meta.get("namespace", ""), meta["name"], obj["kind"])
    try:
        await client.create(ref, obj if encoded is None else encoded, whole=False)
    except errors.AlreadyExists:
        return
