"""`Controllers`: all stand-ins of one cluster in one task, driven by the store's changes and one
timer.

Started together with the cluster. A change wakes the task once per loop turn; it then works until
nothing is left, giving the loop back every few hundred small steps. A new instance on the same
store takes over where another was cancelled.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from federator.embedded.auth.tokens import Tokens
from federator.embedded.controllers.accounts import AccountTokens
from federator.embedded.controllers.agenda import Agenda
from federator.embedded.controllers.cleanup.garbage import Garbage
from federator.embedded.controllers.cleanup.namespaces import Namespaces
from federator.embedded.controllers.kubelet.behaviour import Defaults
from federator.embedded.controllers.kubelet.kubelet import Kubelet
from federator.embedded.controllers.kubelet.nodelife import NodeLife
from federator.embedded.controllers.kubelet.support import Support
from federator.embedded.controllers.nodes import NodeIndex, NodePool, provide
from federator.embedded.controllers.pods import PodIndex
from federator.embedded.controllers.scheduling.gangs import RESOURCE, Gangs
from federator.embedded.controllers.scheduling.neighbours import Neighbours
from federator.embedded.controllers.scheduling.nodescaler import NodeScaler
from federator.embedded.controllers.scheduling.scheduler import Scheduler
from federator.embedded.controllers.services import Ingresses, Services
from federator.embedded.controllers.tools import Controller, Tools
from federator.embedded.controllers.workloads.autoscalers import Autoscalers
from federator.embedded.controllers.workloads.cronjobs import CronJobs
from federator.embedded.controllers.workloads.daemonsets import DaemonSets
from federator.embedded.controllers.workloads.deployments import Deployments
from federator.embedded.controllers.workloads.jobs import Jobs
from federator.embedded.controllers.workloads.replicasets import ReplicaSets
from federator.embedded.controllers.workloads.statefulsets import Claims, StatefulSets
from federator.embedded.schema import builtins
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import ADDED, Event
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock

STEPS_PER_SLICE: Final = 100
"""Steps (writes, roughly) between two chances for the rest of the loop: a few milliseconds."""

_Notice = Callable[[Event], None]


class Controllers:
    """The native controllers, scheduler and kubelets of one embedded cluster."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        nodes: Sequence[NodePool] = (NodePool(),),
        *,
        workloads: bool = True,
        resources: Callable[[], Iterable[ResourceInfo]] = builtins.resource_infos,
        defaults: Defaults = Defaults(),  # noqa: B008  # frozen
        events: int = 500,
        tokens: Tokens | None = None,
        support: Support | None = None,
    ) -> None:
        """`workloads` False: namespaces, tokens and garbage collection only, as on a dedicated
        host. `resources`: all kinds served now. `defaults`: pod behaviour without annotations.
        `events`: how many Event objects are kept, 0 for none. `tokens`: what makes tokens for
        Secrets of service accounts; without it they stay empty. `support`: what runs the
        containers beside the application of pods.
        """
        self._store = store
        self._resources = resources
        self._wake = asyncio.Event()
        self._agenda = Agenda(self._wake.set)
        self._tools = Tools(store, clock, rng, self._agenda, events if workloads else 0)
        self._pools = nodes if workloads else ()
        self._routes: dict[tuple[str, str], list[_Notice]] = {}
        self._everything: list[_Notice] = []
        self._controllers: list[Controller] = []
        self.steps = 0
        """Pieces of work done so far: a measure of load that does not depend on the machine."""
        self._namespaces = namespaces = Namespaces(self._tools)
        garbage = Garbage(self._tools, resources)
        self._everything += [garbage.notice, namespaces.notice]
        self._controllers += [namespaces, garbage]
        self.scaler: NodeScaler | None = None
        """The autoscaler of the nodes; None without workloads."""
        self._accounts: AccountTokens | None = None
        if tokens is not None:
            self._accounts = AccountTokens(self._tools, tokens)
            for resource in (self._tools.kinds.secrets, self._tools.kinds.serviceaccounts):
                self._routes[resource.key] = [self._accounts.notice]
            self._controllers.append(self._accounts)
        if workloads:
            self._add_workloads(defaults, support)

    def _add_workloads(self, defaults: Defaults, support: Support | None) -> None:
        tools, kinds = self._tools, self._tools.kinds
        pods, nodes = PodIndex(), NodeIndex(self._tools)
        neighbours = Neighbours(nodes, pods)
        pods.listeners += [neighbours.on_pod, nodes.on_pod]
        deployments = Deployments(tools, pods)
        sets = ReplicaSets(tools, pods)
        jobs, crons = Jobs(tools, pods), CronJobs(tools)
        gangs = Gangs(pods, self._serves_groups)
        scheduler = Scheduler(tools, pods, nodes, neighbours, gangs)
        kubelet = Kubelet(tools, pods, nodes, defaults, support)
        stateful, claims = StatefulSets(tools, pods), Claims(tools)
        daemons = DaemonSets(tools, pods, nodes)
        life = NodeLife(tools, pods, nodes)
        services, ingresses = Services(tools, pods), Ingresses(tools)
        autoscalers = Autoscalers(tools)
        scaler = self.scaler = NodeScaler(tools, pods, nodes, self._pools)
        self._routes |= {
            kinds.nodes.key: [
                nodes.notice,
                kubelet.notice,
                life.notice,
                daemons.notice,
                scaler.notice,
            ],
            kinds.pods.key: [pods.notice],
            kinds.replicasets.key: [deployments.notice, sets.notice],
            kinds.deployments.key: [deployments.notice, autoscalers.notice],
            kinds.autoscalers.key: [autoscalers.notice],
            kinds.jobs.key: [jobs.notice, crons.notice],
            kinds.cronjobs.key: [crons.notice],
            kinds.statefulsets.key: [stateful.notice],
            kinds.daemonsets.key: [daemons.notice],
            kinds.claims.key: [claims.notice, scheduler.notice],
            kinds.services.key: [services.notice],
            kinds.endpointslices.key: [services.notice],
            kinds.ingresses.key: [ingresses.notice],
            RESOURCE: [gangs.notice],
        }
        self._controllers += [life, deployments, sets, jobs, stateful, daemons]
        self._controllers += [scheduler, kubelet, services, ingresses, claims, autoscalers, crons]
        self._controllers.append(scaler)

    def _serves_groups(self) -> bool:
        return any(resource.key == RESOURCE for resource in self._resources())

    def trust(self, root_ca: str) -> None:
        """Puts these PEM certificates into every kube-root-ca.crt and every token Secret."""
        self._tools.root_ca = root_ca
        self._namespaces.recheck()
        if self._accounts is not None:
            self._accounts.recheck()
        self._wake.set()

    async def run(self) -> None:
        """Works until cancelled. Raises what a controller raises: a stand-in's error is a bug, not
        weather."""
        self._prime()
        subscription = self._store.subscribe_all(self._note)
        try:
            await self._work_off(provide(self._tools, self._pools))
            self._wake.set()
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._settle()
                self._agenda.arm()
        finally:
            subscription.close()
            self._agenda.close()

    def _prime(self) -> None:
        """Shows the controllers what exists already, nodes first."""
        stored = {resource.key: resource for resource in self._resources() if resource.is_stored}
        kinds = self._tools.kinds
        first = [kinds.nodes, kinds.namespaces, kinds.deployments, kinds.replicasets]
        rest = [resource for key, resource in sorted(stored.items()) if resource not in first]
        for resource in first + rest:
            for revision in self._store.items(resource):
                self._note(Event(ADDED, resource, revision.key, revision, None))

    def _note(self, event: Event) -> None:
        for notice in self._everything:
            notice(event)
        for notice in self._routes.get(event.resource.key, ()):
            notice(event)
        self._wake.set()

    async def _settle(self) -> None:
        """Lets every controller work in turn until none has anything left to do now."""
        while True:
            before = self.steps
            self._agenda.collect()
            for controller in self._controllers:
                await self._work_off(controller.steps())
            if self.steps == before:
                return

    async def _work_off(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self.steps += 1
            if self.steps % STEPS_PER_SLICE == 0:
                await asyncio.sleep(0)
