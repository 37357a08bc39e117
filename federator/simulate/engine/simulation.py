"""What a running simulation consists of, and the few things that change it. `run` and `events` call
these.
"""

from collections.abc import Iterable
from fractions import Fraction

from federator.kube.control.fair_queue import FairQueue
from federator.model import names
from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask
from federator.model.fleet import Commitment, FleetSnapshot
from federator.model.names import WorkloadKey
from federator.model.neighbours import NOBODY, Peer, Peers, repelling
from federator.model.resources import UNLIMITED
from federator.model.scaleup import ScaleUp
from federator.placement import inputs as placement_inputs
from federator.placement.policy.policies import Bindings, Policies
from federator.placement.room.commitments import Commitments
from federator.scheduling.admission import stage
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.simulate.engine.asks import Asks
from federator.simulate.engine.autoscaling import Autoscalers
from federator.simulate.engine.backlog import Backlog, Room
from federator.simulate.engine.drains import Drains
from federator.simulate.engine.fleet import SimulatedFleet
from federator.simulate.engine.lacking import Lacking
from federator.simulate.engine.running import Running
from federator.simulate.engine.shapes import Shapes
from federator.simulate.inputs import Inputs


class Simulation:
    """Fleet, works and queues at one instant."""

    def __init__(self, inputs: Inputs) -> None:
        self.now_s = 0
        self.shapes = Shapes()
        self.fleet = SimulatedFleet(inputs.clusters.values(), self.shapes, inputs.price_per_hour)
        self.commitments = Commitments()
        self.due: FairQueue[WorkloadKey] = FairQueue(names.namespace_of)
        self.queued: set[WorkloadKey] = set()
        """The same, in no order."""
        self._barred: dict[WorkloadKey, int] = {}
        """Work -> when it may be put again."""
        self.live: dict[WorkloadKey, Running] = {}
        """Works that were submitted and have not completed."""
        room = Room(self._in_cluster, self._of_quota, self.judged_together)
        self.inadmissible = Backlog(self.live, room)
        self.waiting = Lacking()
        self.drains = Drains()
        self.scaling = Autoscalers(self.fleet, self.live, inputs.idle_s) if inputs.grows else None
        """None where no cluster can grow."""
        self.seq = 0
        """Of the last decision."""
        self.rules = inputs.rules
        self.relating = False
        """Whether any policy has terms about other workloads."""
        self.invariants = inputs.invariants
        self.levels = inputs.levels
        self.quotas: tuple[QuotaAccount, ...] = inputs.quotas
        self._accounts = _Accounts(self.commitments, self.quotas)
        self.asks = self._asks()
        self._last = FleetSnapshot(-1.0, {})
        """The last that was made."""
        self._held: FleetSnapshot | None = None
        self._late: set[str] = set()
        """Clusters with a report that is held back."""
        self._unheard: list[Hint] = []
        """Given while reports were held back."""

    def _asks(self) -> Asks:
        policies = Policies(self.rules)
        self.relating = policies.relating
        return Asks(policies, Bindings(self.quotas), self.shapes)

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def snapshot(self) -> FleetSnapshot:
        """The fleet as its members report it now, or reported it when reports were held."""
        if self._held is not None:
            return self._held
        last, views = self._last, self.fleet.views(self.seq)
        if last.clusters is not views or last.as_of != self.now_s or last.quotas is not self.quotas:
            last = self._last = FleetSnapshot(
                float(self.now_s), views, self.quotas, self.levels, self.invariants, self._peers()
            )
        return last

    def _peers(self) -> Peers:
        """The works of a namespace, for terms of policies about other workloads."""
        if not self.relating:
            return NOBODY

        def peers(namespace: str) -> tuple[Peer, ...]:
            asks = (running.ask for running in self.live.values())
            return tuple(map(_peer, (ask for ask in asks if ask.key.namespace == namespace)))

        return peers

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def hold_reports(self) -> None:
        """Until they are released, cycles know of the fleet what they know now, and charge what was
        decided since: so do cycles of a hub that follow each other faster than members report."""
        if self._held is None:
            self._held = self.snapshot()

    def release_reports(self) -> None:
        """Members report what they have. What that may help, and could not as long as they did not,
        is due.
        """
        self._held = None
        self.report(self._late)
        self._late = set()
        hints, self._unheard = self._unheard, []
        self.requeue(hints)

    def commit(self, after: Commitment) -> None:
        """A decision is in force: the members have its slices at once, and have reported them
        unless reports are held."""
        if self._held is None:
            self.commitments.record(after)
            return
        self.commitments.assume(after)
        for holding in after.holdings:
            self.commitments.confirm(holding.cluster, after.uid, self.seq)
            self._late.add(holding.cluster)

    def report(self, clusters: Iterable[str]) -> None:
        """These clusters have reported every decision so far, unless reports are held."""
        if self._held is not None:
            self._late.update(clusters)
            return
        for name in clusters:
            self.commitments.reported(name, self.seq)

    def submit(self, running: Running) -> None:
        """A new work is due, or waits beside those that are alike and could get nothing now."""
        self.live[running.ask.key] = running
        if not self.waits_beside(running):
            self.put(running.ask.key)

    def waits_beside(self, running: Running) -> bool:
        """Whether a work on which nothing was decided waits from now on beside those that are
        alike, since it could get nothing."""
        if running.decision is not None or not self.inadmissible.joined(running):
            return False
        running.waits_from(self.now_s, self.inadmissible.reason(running.ask.key).value)
        self.decided(running)
        return True

    def bar(self, running: Running) -> None:
        """The work is not put before its time has come, if it has one."""
        if running.barred_s > self.now_s:
            self._barred[running.ask.key] = running.barred_s

    @property
    def bars(self) -> bool:
        """Whether any work is barred."""
        return bool(self._barred)

    @property
    def back_s(self) -> int:
        """When the first work that is barred may be put again; some is."""
        return min(self._barred.values())

    def come_back(self) -> list[WorkloadKey]:
        """The works that are not barred any more."""
        back = [key for key, at_s in self._barred.items() if at_s <= self.now_s]
        for key in back:
            del self._barred[key]
        return back

    def put(self, key: WorkloadKey) -> None:
        """The work is due to be decided, unless it is barred."""
        if key not in self.queued and not (self._barred and key in self._barred):
            self.queued.add(key)
            self.due.append(key)

    def is_due(self, key: WorkloadKey) -> bool:
        """Whether the work waits for its turn."""
        return key in self.queued

    def heads(self, most: int) -> list[Running]:
        """The next works that are due, namespaces in turns."""
        heads: list[Running] = []
        while self.queued and len(heads) < most:
            key = self.due.take()
            self.queued.discard(key)
            running = self.live.get(key)
            if running is not None and not (self._barred and key in self._barred):
                heads.append(running)
        return heads

    def requeue(self, hints: Iterable[Hint]) -> None:
        """What waits and may be helped is due."""
        if self._held is None and not len(self.inadmissible):
            return
        hints = list(hints)
        if self._held is not None:
            self._unheard += hints
        for key in self.inadmissible.requeued_by(*dict.fromkeys(hints)):
            self.put(key)

    def decided(self, running: Running) -> None:
        """A decision about the work is in force."""
        if running.missing:
            self.waiting.put(running)
        elif len(self.waiting):
            self.waiting.drop(running.ask.key)

    def ended(self, running: Running) -> None:
        """The work is over."""
        key = running.ask.key
        if self.scaling is not None:
            self.scaling.forget(running)
        del self.live[key]
        if self._barred:
            self._barred.pop(key, None)
        if len(self.waiting):
            self.waiting.drop(key)
        self.inadmissible.forget(key)

    def take_away(self, running: Running, clusters: Iterable[str]) -> list[Hint]:
        """The work has nothing in these clusters any more; their nodes know already. Returns what
        that may help.
        """
        left = list(clusters)
        for name in left:
            if self.scaling is not None:
                self.scaling.leave(running, name)
            running.leave(name, self.now_s)
        if running.shares:
            self.commitments.record(Commitment.of(running.ask, running.shares))
            for name in left:
                self.commitments.release(name, running.ask.uid)
        else:
            self.commitments.forget(running.ask.uid)
        if self._held is None and not len(self.inadmissible):
            return []  # it can help nobody
        hints = [Hint(HintKind.ROOM, name) for name in left]
        hints.append(Hint(HintKind.QUOTA, projects=self._sharing(running.ask.project)))
        if self.relating:
            hints.append(Hint(HintKind.WORKLOADS, namespace=running.ask.key.namespace))
        return hints

    def scale(self, running: Running, copies: int | None, times: Fraction | None = None) -> int:
        """A service is scaled, as by an edit of its object. Returns how many copies it asks for
        beside those before.
        """
        more = running.scale(copies, times)
        if more:
            running.ask = self.asks.of(running.work, running.wanted, running.scalings)
            self.waiting.renew(running.ask.key)
            self.put(running.ask.key)
        return more

    def _sharing(self, project: str) -> frozenset[str]:
        """The projects that may have what this one gives up: all of its tree of quotas."""
        return self._of_accounts().sharing(project)

    def judged_together(self, project: str) -> bool:
        """Whether the works of a project are judged with each other: by order, domains or
        preemption of its tree of accounts, or because room is kept for some."""
        keeps = any(account.backfills for account in self.quotas)
        return keeps or self._of_accounts().managed(project)

    def _of_accounts(self) -> "_Accounts":
        if self._accounts.quotas is not self.quotas:
            self._accounts = _Accounts(self.commitments, self.quotas)
        return self._accounts

    def _in_cluster(self, cluster: str, ask: Ask) -> int:
        """As `backlog.Room`; while reports are held nothing is known of rooms."""
        if self._held is not None:
            return UNLIMITED
        member = self.fleet.members.get(cluster)
        together = ask.whole and ask.policy.division.max_clusters == 1
        if member is None:
            return 0
        never = ask.policy.scale_up is ScaleUp.NEVER
        room = member.room(ask.shape) if never else member.reach(ask.shape)
        return room // (ask.count if together else 1)

    def _of_quota(self, ask: Ask) -> int:
        """As `backlog.Room`."""
        if self._held is not None:
            return UNLIMITED
        return self._of_accounts().admits(ask, self.snapshot())

    def changed(self) -> None:
        """Clusters, policies or quotas changed: works with changed inputs are due."""
        self.asks = self._asks()
        snapshot, memo = self.snapshot(), {}  # type: ignore[var-annotated]
        for key, running in self.live.items():
            running.ask = self.asks.of(running.work, running.wanted, running.scalings)
            if running.inputs != placement_inputs.inputs_hash(running.ask, snapshot, memo):
                self.put(key)
        self.waiting.renew()


def _peer(ask: Ask) -> Peer:
    policy = ask.policy
    return Peer(ask.uid, ask.key, ask.labels, repelling(policy.workloads), policy.name)


class _Accounts:
    """What one set of quotas says of projects, remembered."""

    def __init__(self, commitments: Commitments, quotas: tuple[QuotaAccount, ...]) -> None:
        self.quotas = quotas
        self._commitments = commitments
        self._sharing: dict[str, frozenset[str]] = {}
        self._managed: dict[str, bool] = {}
        self._admits: dict[object, int] = {}
        self._version = -1
        """Of the commitments, for which it is known how much is admitted."""

    def sharing(self, project: str) -> frozenset[str]:
        """The projects of its tree."""
        projects = self._sharing.get(project)
        if projects is None:
            tree = self._commitments.tree(self.quotas)
            roots = {tree.path(name)[-1] for name in tree.charged(project)}
            others = (other for root in roots for other in tree.under(root))
            projects = self._sharing[project] = frozenset({project, *others})
        return projects

    def managed(self, project: str) -> bool:
        """Whether its tree says anything of order, domains or preemption."""
        managed = self._managed.get(project)
        if managed is None:
            tree = self._commitments.tree(self.quotas)
            roots = {tree.path(name)[-1] for name in tree.charged(project)}
            managed = self._managed[project] = any(stage.managed(tree, root) for root in roots)
        return managed

    def admits(self, ask: Ask, snapshot: FleetSnapshot) -> int:
        """How many such works may be admitted at most."""
        if self._version != self._commitments.version:
            self._version = self._commitments.version
            self._admits.clear()
        key = (ask.project, ask.key.namespace, ask.tier, id(ask.shape), ask.count)
        most = self._admits.get(key)
        if most is None:
            most = self._admits[key] = self._admitted(ask, snapshot)
        return most

    def _admitted(self, ask: Ask, snapshot: FleetSnapshot) -> int:
        ledger = self._commitments.open(snapshot)
        copies, _ = ledger.quota_room(ask.project, ask.key.namespace, ask.tier, ask.shape.requests)
        most = UNLIMITED if copies is None else copies // (ask.count if ask.whole else 1)
        tree = self._commitments.tree(self.quotas)
        for name in tree.above(ask.project):
            account = tree.accounts[name]
            if account.max_concurrent is not None:
                placed = sum(map(self._commitments.placed, {*account.projects, *tree.under(name)}))
                most = min(most, max(account.max_concurrent - placed, 0))
        return most
