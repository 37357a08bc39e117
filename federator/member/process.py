"""The member process: wires caches, expansion, roll-up, capacity report and heartbeat of one
cluster, and runs them.

Started by `federator member`, and by the sandbox once per embedded member. It reads and writes its
own cluster only; it knows the hub through the marks on slices and nothing else.
"""

import random
from collections.abc import Iterable

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.lanes import Lane
from federator.kube.control.supervisor import Supervisor
from federator.kube.control.work_queue import WorkQueue
from federator.kube.metrics import Metrics
from federator.member.cache.caches import Caches
from federator.member.cache.signals import Signals
from federator.member.capacity.entitlements import Entitlements
from federator.member.capacity.reporting import CapacityReporter
from federator.member.catchingup import CatchingUp
from federator.member.expansion.expanding import Expander
from federator.member.expansion.leftovers import Leftovers
from federator.member.expansion.tiers import TierClasses
from federator.member.heartbeat import Heartbeat
from federator.member.options import FIELD_MANAGER, MemberOptions
from federator.member.rolling import RollUp
from federator.member.startup import StartupTaints
from federator.model.names import WorkloadKey


class MemberProcess:
    """Everything that runs in, or beside, one member cluster.

    `client` must write as `FIELD_MANAGER`. `cluster` is the name under which the hub knows this
    cluster (for messages and standalone slices); `fleet` is the fleet of the slices that are
    expanded. `standalone` also expands Pinterest kinds without a mark.
    """

    def __init__(
        self,
        client: Client,
        *,
        cluster: str,
        fleet: str,
        clock: Clock,
        rng: random.Random,
        standalone: bool = False,
        options: MemberOptions | None = None,
        identity: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        self.options = options if options is not None else MemberOptions()
        client.field_manager = FIELD_MANAGER
        self._cluster, self._rng, self._metrics = cluster, rng, metrics
        lane = Lane(cluster, limit=self.options.workers, clock=clock, rng=rng, metrics=metrics)
        applier = Applier(client, lane, clock=clock, component=FIELD_MANAGER, instance=identity)
        self.caches = Caches(
            client, fleet=fleet, options=self.options, clock=clock, rng=rng, metrics=metrics
        )
        self.expander = Expander(
            self.caches,
            applier,
            fleet=fleet,
            cluster=cluster,
            standalone=standalone,
            options=self.options,
            clock=clock,
        )
        self.to_expand: WorkQueue[WorkloadKey] = WorkQueue("expand", rng=rng, metrics=metrics)
        self.roll_up = RollUp(
            self.caches,
            self.expander,
            applier,
            options=self.options,
            clock=clock,
            busy=lambda: not self.to_expand.idle,
        )
        self.reporter = CapacityReporter(
            self.caches,
            applier,
            Entitlements(self.caches, self.expander),
            options=self.options,
            clock=clock,
        )
        self.catching_up = CatchingUp(self.caches, self.expander, self.roll_up)
        self.heartbeat = Heartbeat(
            client,
            options=self.options,
            clock=clock,
            identity=identity or cluster,
            on_rewind=self.caches.went_back.set,
            on_return=self.caches.hurry,
            caught_up=self.catching_up.done,
        )
        self.tiers = TierClasses(self.caches, applier, rng=rng)
        self.to_roll_up: WorkQueue[WorkloadKey] = WorkQueue("roll-up", rng=rng, metrics=metrics)
        self.leftovers = Leftovers(self.caches, applier, fleet=fleet, rng=rng, metrics=metrics)
        self._route(applier, self.caches.signals)

    def _route(self, applier: Applier, signals: Signals) -> None:
        """Changes become turns of the slices that they concern."""
        self.startup = StartupTaints(
            self.caches, self.expander, applier, rng=self._rng, metrics=self._metrics
        )
        signals.to_expand.append(self.to_expand.add)
        signals.to_roll_up.append(self.to_roll_up.add)

    @property
    def ready(self) -> bool:
        """Every cache that expansion depends on has been filled."""
        return self.caches.natives_synced

    @property
    def queues(self) -> Iterable[WorkQueue[WorkloadKey]]:
        return (self.to_expand, self.to_roll_up)

    async def run(self) -> None:
        """Runs until cancelled. Raises `errors.WentBack` when the cluster was restored from a
        backup: versions, results and natives that this life remembers are of another history, and
        the next one begins without them."""
        async with Supervisor("member", rng=self._rng, metrics=self._metrics) as supervisor:
            for name, reflector in self.caches.reflectors.items():
                supervisor.start(f"reflector {name}", reflector.run)
            supervisor.start("heartbeat", self.heartbeat.run)
            supervisor.start("fence lease", self.heartbeat.keep_fence)
            if self._metrics is not None:
                supervisor.start("loop lag", self._metrics.watch_loop)
            supervisor.start("capacity", self.reporter.run)
            # No write to a native before everything that it is compared with has been listed
            # (invariant 14).
            await self.caches.until(lambda: self.caches.natives_synced and self.caches.answered)
            self.caches.remember({})  # where nothing is written of earlier lives, there were none
            supervisor.start("tiers", self.tiers.run)
            supervisor.start("catching up", self.catching_up.run, once=True)
            supervisor.start(
                "expand", self.to_expand.run, self.catching_up.expand, self.options.workers
            )
            supervisor.start("leftovers", self.leftovers.run)
            supervisor.start("events", self.roll_up.telling.run)
            supervisor.start("start-up taints", self.startup.run)
            supervisor.start(
                "roll-up", self.to_roll_up.run, self.catching_up.roll_up, self.options.workers
            )
            await self.caches.went_back.wait()
        raise errors.WentBack(
            f"{self._cluster}: the API server shows an older state than before; starting again."
        )
