"""A federation under faults: its processes have lives, and every request they send is seen.

A process is a group of tasks whose context names its life. When that ends nothing of it runs any
more or reaches the wire; it is kept, never cancelled, so that no `finally` of it runs. The user,
and everything inside the clusters, has no life and is never stopped.
"""

import asyncio
import contextlib
import contextvars
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from federator.api import membercluster
from federator.embedded.server import EmbeddedCluster
from federator.hub.leading.process import HubProcess
from federator.kube import errors
from federator.kube.wire.transport import Request, Transport
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation, ensure
from tests.faults.clocks import ProcessClock
from tests.faults.links import Cut, Links, LinkTransport
from tests.faults.lives import LIFE, Life
from tests.faults.rows import HUB, Boxes, RequestFault, Sending, is_hub
from tests.faults.schedules import Schedule, Seeded
from tests.faults.transport import BoxTransport, FaultTransport
from tests.simulation import foreign, setting
from tests.simulation.drawing import Parameters, generator
from tests.simulation.patience import Hearing, Patience
from tests.simulation.reach import Reach
from tests.simulation.story import Said, Sent, Story, Strike, short
from tests.worlds import EPOCH_S, Address, Hands, Wire

MEMBER = "member"

Listener = Callable[[Sent], None]
Between = Callable[[str, str, Transport], Transport]
"""(process, cluster, transport) -> transport, just above the wire: where a test plants a bug."""


class Stoppable(Schedule, Protocol):
    """A schedule of faults that can be over."""

    def stop(self) -> None: ...


class Told:
    """The world's schedule for one kind of process, of which the story and those who listen to
    `senders` are told.
    """

    def __init__(self, world: "World", life: Life, kind: str) -> None:
        self.world = world
        self.life = life
        self.kind = kind

    def pick(self, sending: Sending) -> RequestFault | None:
        """The schedule's choice."""
        world, request = self.world, sending.request
        where = (sending.process, sending.cluster, request.method, request.path)
        nth = world.asked[where]
        world.asked[where] += 1
        for listener in world.senders:
            listener(self.life, sending)
        fault = world.schedules[self.kind].pick(sending)
        if fault is not None:
            world.story.strikes.append(Strike(fault.name, *where, nth))
            what = "WATCH" if sending.watches else request.method
            world.say(
                f"{self.life.name:12} {sending.cluster:5} FAULT  {fault.name} befalls {what} "
                f"{short(request.path)}"
            )
        return fault


class World(Hands):
    """One federation with its faults. `listeners` hear of every request of hub and members."""

    def __init__(
        self,
        parameters: Parameters,
        *,
        between: Between | None = None,
        schedules: Mapping[str, Stoppable] | None = None,
    ) -> None:
        self.parameters = parameters
        self.on_hub: list[Callable[[HubProcess, Life], None]] = []
        """Told of every hub that starts: a test may plant a bug in it, a rule may ask it what it
        knows.
        """
        self.fired: Counter[str] = Counter()
        self.listeners: list[Listener] = []
        self.senders: list[Callable[[Life, Sending], None]] = []
        """Told of every request as its process lets go of it: before any fault, whether it arrives
        or not.
        """
        self.between: Between = between or (lambda process, cluster, inner: inner)
        self.story = Story()
        self.patience, self.reach = Patience(), Reach()
        self.asked: Counter[tuple[str, str, str, str]] = Counter()
        """How often each (process, cluster, method, path) was asked for: strikes are counted by it.
        """
        self.links = Links()
        self.boxes = Boxes()
        self.liars: set[str] = set()
        """Members that have lied: rules about their own figures do not hold for them."""
        self.lives: dict[str, Life] = {}
        self.graves: list[Any] = []
        """Dead processes, kept from the garbage collector."""
        self.deaths = 0
        self.planted: list[tuple[str, tuple[str, str, str, str], dict[str, Any]]] = []
        """(cluster, (group, plural, namespace, name), what it was without its status) of foreign
        objects.
        """
        self._outside = contextvars.copy_context()
        self._born: Counter[str] = Counter()
        self._made = 0
        self._held_down: Counter[str] = Counter()
        self._clocks: dict[str, ProcessClock] = {}
        self._facing: dict[str, EmbeddedCluster] = {}
        self.on_cluster: list[Callable[[str, EmbeddedCluster], None]] = []
        """Told of every cluster that comes to stand somewhere after the start."""
        self._rng = generator(parameters.seed, "faults")
        self.schedules: Mapping[str, Stoppable] = schedules or {
            HUB: Seeded(self._rng, parameters.hub),
            MEMBER: Seeded(self._rng, parameters.member),
        }
        """Of the hubs, and of all member processes together."""
        self.federation = Federation(
            fleet=setting.fleet(parameters),
            clock=self.clock("user"),
            rng=generator(parameters.seed, "federation"),
            wrap=self._wrap,
            hubs=parameters.hubs,
            hub_options=setting.HUB_OPTIONS,
            member_options=setting.MEMBER_OPTIONS,
            clock_of=self.clock,
            ended=self._ended,
        )
        self.host = self.user("host")
        self.listeners.append(self.story.add)

    @property
    def clusters(self) -> dict[str, EmbeddedCluster]:
        return {"host": self.federation.host, **self.federation.members}

    @property
    def hubs(self) -> Sequence[str]:
        return self.federation.hub_names

    @property
    def members(self) -> Sequence[str]:
        return list(self.federation.members)

    @property
    def processes(self) -> Sequence[str]:
        return [*self.hubs, *(f"member-{name}" for name in self.members)]

    def life(self, process: str) -> Life:
        """The present life of a process, or its last one."""
        return self.lives[process]

    def recorded(self, cluster: str) -> frozenset[str]:
        """The identities that the host, as hubs find it, has recorded for what stands at a member's
        address: of its MemberCluster, and of others by which somebody has joined the same address;
        "" for one that is just joining.
        """
        host = self.facing("host")
        info = host.registry.get("federation.pinterest.com", "memberclusters")
        aliases = self.federation.aliases
        joined = [
            found.obj
            for found in host.store.items(info)
            if aliases.get(found.key[1], found.key[1]) == cluster
        ]
        return frozenset(map(membercluster.recorded_uid, joined))

    def leader(self) -> str:
        """The hub that acts; "" while there is none."""
        running = self.federation.processes
        return next(
            (name for name in self.hubs if name in running and running[name].state.leading), ""
        )

    def clock(self, owner: str) -> ProcessClock:
        """The wall clock of a process or of a cluster."""
        return self._clocks.setdefault(owner, ProcessClock(EPOCH_S))

    def fresh(self, cluster: str) -> EmbeddedCluster:
        """A new, empty cluster like the named one."""
        like = self.federation.fleet.members
        found = next((member for member in like if member.name == cluster), None)
        self._made += 1
        rng = generator(self.parameters.seed, f"cluster {self._made}")
        pools = fleetfile.pools(found) if found is not None else ()
        made = EmbeddedCluster(
            cluster, clock=self.clock(cluster), rng=rng, nodes=pools, workloads=found is not None
        )
        for crd in setting.definitions():
            made.store.create(made.registry.crd, crd)
        if made.controllers is not None:
            name = f"controllers {cluster}#{self._made}"
            self.federation.tasks[name] = asyncio.get_running_loop().create_task(
                made.controllers.run(), name=name
            )
        return made

    def facing(self, cluster: str) -> EmbeddedCluster:
        """What processes find at the address of a cluster."""
        return self._facing.get(cluster, self.clusters[cluster])

    async def put(self, cluster: str, served: EmbeddedCluster) -> None:
        """From now on processes find this at the address."""
        if served is not self.clusters[cluster] and served is not self.facing(cluster):
            self._announce(cluster, served)
        self._facing[cluster] = served
        await self._break_connections(cluster)

    async def replace(self, member: str, served: EmbeddedCluster) -> None:
        """This is the member of that name from now on."""
        if served is not self.facing(member):
            self._announce(member, served)
        self.federation.members[member] = served
        self._facing.pop(member, None)
        self.planted = [one for one in self.planted if one[0] != member]
        await self._break_connections(member)

    def _announce(self, cluster: str, served: EmbeddedCluster) -> None:
        for listener in self.on_cluster:
            listener(cluster, served)

    async def _break_connections(self, cluster: str) -> None:
        for process in self.processes:
            await self.links.sever(process, cluster, Cut.REFUSED)
            self.links.heal(process, cluster, Cut.REFUSED)

    def say(self, text: str) -> None:
        """Adds a line to the story."""
        self.story.add(Said(self.federation.clock.monotonic(), text))

    def happened(self, fault: str) -> None:
        """Counts a fault as fired."""
        self.fired[fault] += 1

    def _wrap(self, process: str, cluster: str, inner: Transport) -> Transport:
        life = LIFE.get()
        if life is None:
            return inner

        def heard(request: Request, status: int) -> None:
            now_s = self.federation.clock.monotonic()
            sent = Sent(now_s, process, life, cluster, request, status)
            for listener in self.listeners:
                listener(sent)

        address = Address(lambda: self.facing(cluster))
        wire = self.between(process, cluster, Wire(address, life, heard))
        schedule = Told(self, life, HUB if is_hub(process) else MEMBER)
        boxed = BoxTransport(wire, self.boxes, process, cluster)
        linked = LinkTransport(boxed, self.links, process, cluster)
        faulty = FaultTransport(
            linked, schedule, life, rng=self._rng, where=cluster, fired=self.fired
        )
        return Hearing(faulty, self.patience, self.reach, life.name, cluster, self.federation.clock)

    async def start(self) -> None:
        """Everything up, with faults from the first request on."""
        self.federation.start_clusters()
        await self._install()
        for name in self.federation.members:
            self.begin(f"member-{name}")
        for name in self.hubs:
            self.begin(name)

    async def _install(self) -> None:
        """What `Federation.install` does; definitions go in by the back door, because there are
        hundreds of worlds.
        """
        for cluster in self.clusters.values():
            for crd in setting.definitions():
                cluster.store.create(cluster.registry.crd, crd)
        options = self.federation.hub_options
        for namespace in (options.credentials_namespace, options.system_namespace):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await ensure(self.host, body, "namespaces")
        for member in self.federation.fleet.members:
            meta = {"name": member.name, "namespace": options.credentials_namespace}
            await ensure(
                self.host, {"apiVersion": "v1", "kind": "Secret", "metadata": meta}, "secrets"
            )
            await ensure(self.host, fleetfile.member_cluster(member, member.name), "memberclusters")

    def begin(self, process: str) -> None:
        """A new life of a process, with an empty memory; nothing while it is held down or lives
        already.
        """
        if self._held_down[process] or (process in self.lives and not self.lives[process].dead):
            return
        self._born[process] += 1
        life = Life(f"{process}#{self._born[process]}", self._died)
        self.lives[process] = life
        self.say(f"{life.name:12} starts")
        self.patience.born(life.name, self.federation.clock.monotonic())
        context = self._outside.copy()
        context.run(LIFE.set, life)
        if is_hub(process):
            context.run(self.federation.start_hub, process)
            for listener in self.on_hub:
                listener(self.federation.processes[process], life)
        else:
            context.run(self.federation.start_member, process.removeprefix("member-"))

    def kill(self, process: str) -> None:
        """SIGKILL; the process starts again by itself."""
        self.lives[process].die()

    def hold_down(self, process: str) -> None:
        """SIGKILL, and it stays down until everybody who held it down has called `let_up`."""
        self._held_down[process] += 1
        self.kill(process)

    def let_up(self, process: str) -> None:
        """What was held down starts."""
        self._held_down[process] -= 1
        self.begin(process)

    def _ended(self, process: str) -> None:
        """A process that exits on its own is started again like one that was killed."""
        why = "it lost the lease" if is_hub(process) else "its API server's history went back"
        self.say(f"{self.lives[process].name:12} exits: {why}")
        self.lives[process].die()

    def _died(self, life: Life) -> None:
        process = life.process
        self.deaths += 1
        self.say(f"{life.name:12} dies")
        task = process if is_hub(process) else f"member {process.removeprefix('member-')}"
        self.graves += [
            life,
            self.federation.tasks.pop(task),
            self.federation.processes.pop(process, None),
        ]
        delay_s = self._rng.uniform(0.0, self.parameters.restart_s)
        asyncio.get_running_loop().call_later(delay_s, self.begin, process, context=self._outside)

    async def plant(self) -> None:
        """Objects of somebody else in every member, and in the first one a namesake of a workload
        to come.
        """
        for cluster in self.federation.members:
            for namespace in foreign.NAMESPACES:
                await ensure(self.member(cluster), foreign.namespace(namespace), "namespaces")
            for plural, body in foreign.objects():
                self.planted.append(
                    await foreign.create(self.member(cluster), cluster, plural, body)
                )
        plural, body = foreign.namesake()
        await foreign.create(self.member("a"), "a", plural, body)

    async def unplant(self) -> None:
        """The namesake goes, so that what it kept away can come."""
        plural, body = foreign.namesake()
        ref = foreign.ref(plural, body)
        with contextlib.suppress(errors.NotFound):  # the cluster may have been made anew without it
            await self.remove(ref, at="a")

    def rescheduled(self, schedules: Mapping[str, Stoppable]) -> None:
        """Other faults of single requests from now on, also for processes that live already."""
        self.schedules = schedules

    def end_faults(self) -> None:
        for schedule in self.schedules.values():
            schedule.stop()

    def unsettled(self) -> list[str]:
        """What is still waited for; nothing when all is settled and every process lives."""
        return list(self.waiting())

    def waiting(self) -> Iterator[str]:
        """`unsettled`, computed one by one: whether there is anything is known much sooner."""
        dead = sorted(name for name, life in self.lives.items() if life.dead)
        if dead:
            yield from (f"{name} is down" for name in dead)
            return
        ever = (*self.lives.values(), *(one for one in self.graves if isinstance(one, Life)))
        if late := [
            f"a write of {life.name} is still on its way" for life in ever if life.on_its_way
        ]:
            yield from late
            return
        told = False
        for text in setting.going(self.federation.host) or self.federation.waiting():
            told = True
            yield text
        if not told:
            yield from setting.unready(self.federation.hub)
