"""The hub process: wires host, members and controllers together, and decides when it may act.

Reading and probing always run; writing runs while this hub leads. Order of a start: the host's
lists, then every member read or known to be silent; until then nothing is placed, dispatched or
deleted. `run` ends by cancellation, or when the lease is lost. This process owns every task.
"""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from federator.api import raw
from federator.api.membercluster import UNTRUSTWORTHY
from federator.hub.cache.member_news import MemberNews
from federator.hub.cache.rollout_view import RolloutView
from federator.hub.cache.router import MemberChanged
from federator.hub.cache.state import HubState
from federator.hub.deletion.cascades import Cascades
from federator.hub.deletion.departed import Departed
from federator.hub.deletion.finalizer import Finalizing
from federator.hub.deletion.force_forget import Forgetting
from federator.hub.deletion.orphans import Orphans
from federator.hub.deletion.removal import Removing
from federator.hub.deletion.tidying import Tidying
from federator.hub.dispatch.dispatcher import Dispatching
from federator.hub.dispatch.drift import Drift
from federator.hub.dispatch.prerequisites import Prerequisites
from federator.hub.dispatch.slice_writer import SliceWriter
from federator.hub.evacuation.draining import Draining
from federator.hub.evacuation.drilling import Drilling
from federator.hub.evacuation.governing import Governing, nobody
from federator.hub.evacuation.leasing import Leasing
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.host.documents import Documents
from federator.hub.host.events import Events
from federator.hub.host.host_watch import Hosting, asking_again
from federator.hub.host.in_force import SpecsInForce
from federator.hub.host.profile_keeping import ProfileKeeping
from federator.hub.host.revisions import Revisions
from federator.hub.jobs.expiry import Expiry
from federator.hub.jobs.recurring import Recurring
from federator.hub.leading.resync import Resync
from federator.hub.leading.standby import Standby
from federator.hub.members import member_conditions
from federator.hub.members.connection import Connect, Connection, ConnectionLimits
from federator.hub.members.member import Member
from federator.hub.members.trust import Trust
from federator.hub.members.writes import Writes
from federator.hub.metering.figures import Figures, forget_cluster
from federator.hub.metering.reconcile_times import ReconcileTimes
from federator.hub.options import HubOptions
from federator.hub.placing.placer import Placing
from federator.hub.placing.unschedulable import UnschedulableCaps
from federator.hub.records.seals import KEY_BYTES, Seals
from federator.hub.security.foreign import Foreign
from federator.hub.security.renewing import Renewing
from federator.hub.security.sealing import Sealing
from federator.hub.status.member_status import Reporting
from federator.hub.status.workload_status import StatusAggregation
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.backoff import Backoff
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.lanes import Lane
from federator.kube.control.write_fights import WriteFightDetector
from federator.kube.leader import leader_gate
from federator.kube.leader.elector import Elector, LeaseLost
from federator.kube.metrics import Metrics
from federator.kube.shortage import Shortage
from federator.kube.store import Bound
from federator.kube.wire.transport import Transport
from federator.model import names
from federator.model.names import ClusterName

log = logging.getLogger(__name__)


class TermUsedUp(Exception):
    """This term has almost no seqs left."""


class HubProcess:
    """One hub. `client` reaches the host; `connect` opens transports to members.

    `elector` says when it leads, through a client of its own; None without a second hub. `new_key`
    makes the key of seals if there is none; by default from `rng`, which is no secret if the seed
    is known. `inspect` is called once after it has begun to lead.
    """

    def __init__(
        self,
        client: clients.Client,
        connect: Connect,
        *,
        options: HubOptions,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics | None = None,
        elector: Elector | None = None,
        new_key: Callable[[], bytes] | None = None,
        inspect: Callable[[HubState], Coroutine[Any, Any, None]] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.elector, self._inspect = elector, inspect
        self.journal = journal or Journal(HistoryOptions(), clock)
        self.announced: Mapping[str, str] = {}
        """Annotations by which callers find this hub's query port while it leads."""
        self._warmed = asyncio.Event()
        self._members_connect = connect
        self.options, self.clock, self.rng = options, clock, rng
        leads = (lambda: elector.leading) if elector is not None else (lambda: True)
        seals = Seals(new_key or (lambda: rng.randbytes(KEY_BYTES)))
        self.state = HubState(options, metrics, seals=seals, leader_gate=leads)
        if elector is not None:
            elector.notes = lambda: {
                **self.state.tombstones.notes(),
                **self.announced,
                **self._notes(elector.identity),
            }
        self.standby = self._witness(client)
        # The one leader gate: every write to host and members passes a transport behind it, but for
        # the Leases by which hubs stand for election and standbys say what they hear.
        client = self.host = leader_gate.behind_gate(client, self._may_write, self._meet_shortage)
        self.documents = Documents(client, options.document_cache)
        applier = Applier(client, self._host_lane(), clock=clock, component="hub")
        self.events = Events(applier, clock, self.journal)
        self._make_controllers(client, applier)
        queues = (self.placing.queue, self.aggregation.queue)
        self.news = MemberNews(self.state, self.view, clock=clock)
        self.resync = Resync(self.state, queues, rng=rng)
        self.reporting = Reporting(
            self.state, client, turned=self.events.turned, clock=clock, rng=rng
        )
        self._make_leaving(client)
        self.hosting = Hosting(
            self.state, client, self.documents, clock=clock, rng=rng, on_member=self._member_changed
        )
        self.host_uid = ""
        self._group: asyncio.TaskGroup | None = None
        self._writers: asyncio.TaskGroup | None = None
        """Task group of everything that writes, while this hub leads."""
        self._connections: dict[str, list[asyncio.Task[None]]] = {}
        self._limits = ConnectionLimits()
        self._used_up = asyncio.Event()
        """Set when the seqs of this term are almost used up."""
        self.state.signals.on_used_up.append(self._used_up.set)
        self.shortage = Shortage(clock, metrics)
        """Whether this process is short of a resource of its own and so does not probe members."""

    def _witness(self, client: clients.Client) -> Standby | None:
        """What this hub says of members while it stands by, and hears of standbys while it
        leads."""
        if self.elector is None:
            return None

        def able() -> bool:
            return self.warm and not self.shortage.trouble

        return Standby(self.state, client, self.elector, able=able, clock=self.clock)

    def _host_lane(self) -> Lane:
        limit = self.options.host_writes_in_flight
        return Lane("host", limit=limit, clock=self.clock, rng=self.rng, metrics=self.state.metrics)

    def _make_controllers(self, client: clients.Client, applier: Applier) -> None:
        """Makes what places workloads, writes their slices and aggregates their status."""
        clock, rng = self.clock, self.rng
        self.caps = UnschedulableCaps(self.state, clock=clock)
        in_force = SpecsInForce(self.state, client, applier, self.documents)
        self.placing = Placing(
            self.state, applier, self.events, self.caps, in_force, clock=clock, rng=rng
        )
        governing = Governing(
            self.state,
            self.events,
            lambda: bool(self.shortage.trouble),
            clock=clock,
            witnesses=self.standby.witnesses if self.standby is not None else nobody,
        )
        self.draining = Draining(
            self.state, self.placing, self.events, governing=governing, clock=clock, rng=rng
        )
        self.drilling = Drilling(self.state, self.placing, clock=clock)
        history = Revisions(client, applier, self.documents, fleet=self.options.fleet)
        self.view = RolloutView(self.state, self.caps.lasting)
        self.keeping = ProfileKeeping(self.state, client, clock=clock, rng=rng)
        keep = self.keeping.keep
        prerequisites = Prerequisites(self.state, keep, now=clock.monotonic, rng=rng)
        writer = SliceWriter(self.state, self.view, self.documents, history, prerequisites)
        self.dispatching = Dispatching(
            self.state, self.view, writer, in_force, Drift(self.events), clock=clock, rng=rng
        )
        self.aggregation = StatusAggregation(
            self.state, applier, self.view, self.events, clock=clock, rng=rng
        )
        self.recurring = Recurring(self.state, client, applier, self.events, clock=clock, rng=rng)
        self.expiry = Expiry(self.state, client, applier, clock=clock, rng=rng)
        self.figures = Figures(self.state, ReconcileTimes(self.state, self.view, clock=clock))

    def _make_leaving(self, client: clients.Client) -> None:
        """Makes what handles workloads and members that leave, what they leave behind, and foreign
        decisions."""
        self.forgetting = Forgetting(self.state, client, rng=self.rng)
        self.finalizing = Finalizing(
            self.state,
            client,
            self.events,
            self.forgetting,
            hand_on=self.elector.note if self.elector is not None else None,
            clock=self.clock,
            rng=self.rng,
        )
        self.cascades = Cascades(self.state, client, self.events, clock=self.clock, rng=self.rng)
        self.orphans = Orphans(self.state, client, clock=self.clock, rng=self.rng)
        self.sealing = Sealing(self.state, client, clock=self.clock, rng=self.rng)
        self.foreign = Foreign(self.state, client, self.events, clock=self.clock, rng=self.rng)
        self._missed: dict[str, Member] = {}
        """Members without a MemberCluster in the list, until the host confirms that it is gone."""
        self.departed = Departed(self.state, client, clock=self.clock, rng=self.rng)
        self.tidying = Tidying(self.state, client, clock=self.clock, rng=self.rng)
        self.renewing = Renewing(self.state, client, self.connect, clock=self.clock, rng=self.rng)
        self.leasing = Leasing(self.state, client, clock=self.clock, rng=self.rng)
        self.removing = Removing(
            self.state,
            client,
            self.events,
            departed=self.departed,
            tidying=self.tidying,
            clock=self.clock,
            rng=self.rng,
        )

    async def run(self) -> None:
        """Runs everything until cancelled. Raises `LeaseLost` when another hub may lead."""
        lost: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                if self.state.metrics is not None:
                    group.create_task(self.state.metrics.watch_loop(), name="loop lag")
                self.host_uid = await self._host_identity()
                group.create_task(self._outlive_shortages(), name="shortages")
                group.create_task(self.hosting.run(), name="hosting")
                for reflector in self.recurring.reflectors:
                    group.create_task(reflector.run(), name=f"host {reflector.store.name}")
                group.create_task(self._warm_up(), name="warming up")
                if self.elector is None:
                    group.create_task(self._lead_alone(), name="leading")
                else:
                    group.create_task(self._stand(self.elector), name="election")
                if self.standby is not None:
                    group.create_task(self.standby.run(), name="standby")
        except* LeaseLost as losses:
            lost = losses.exceptions[0]
        if lost is not None:
            raise lost

    async def _stand(self, elector: Elector) -> None:
        """Leads when elected. Without any decision no hub has led yet, and a first start need not
        wait."""
        while True:
            await elector.lead(
                self._lead, candidate=lambda: self.warm, untouched=lambda: not self.state.records
            )

    async def _lead_alone(self) -> None:
        """Leads without a second hub, term after term."""
        while True:
            await self._lead(self.state.term and self.state.term + 1)

    @property
    def warm(self) -> bool:
        """The host's lists were read, and every member was read or given up: this hub could
        lead."""
        return self._warmed.is_set()

    def _awaited(self, member: Member) -> bool:
        """Whether a first answer, or proof of its silence, may still come within its grace
        period."""
        return not (
            member.known_or_unknown
            or member.link.reachability.over(self.clock.monotonic(), self.options.unready_after_s)
        )

    def _may_write(self) -> bool:
        return self.state.leading

    async def connect(self, obj: Mapping[str, Any], secret: Mapping[str, Any]) -> Transport:
        """A transport to a member, behind the leader gate."""
        try:
            transport = await self._members_connect(obj, secret)
        except errors.OwnShortage as trouble:
            self._meet_shortage(str(trouble))
            raise
        return leader_gate.LeaderGate(transport, self._may_write, self._meet_shortage)

    def _meet_shortage(self, why: str) -> None:
        if self.shortage.meet(why):
            log.warning("short of something of its own, nobody is judged by that: %s", why)

    async def _outlive_shortages(self) -> None:
        while True:
            log.warning("has all it needs again, after: %s", await self.shortage.over())

    def _notes(self, holder: str) -> dict[str, str]:
        """The warnings that commands print before their tables, for the Lease."""
        short = self.shortage
        facts = {"holder": holder, "since": short.since, "why": short.trouble}
        return (
            {names.SHORTAGE_ANNOTATION: json.dumps(facts) if short.trouble else ""}
            if short.ever
            else {}
        )

    async def _host_identity(self) -> str:
        """Reads the uid of the host's kube-system until it succeeds: no member is judged before."""
        while True:
            try:
                return await self.host.kube_system_uid()
            except errors.ApiError as trouble:
                log.warning("the host does not tell its identity: %s", trouble)
                await asyncio.sleep(self.rng.uniform(1.0, 2.0))

    async def _warm_up(self) -> None:
        """Waits for the host's lists, then until every member is read or given up for now, within
        the time that makes one NotReady."""
        await self.hosting.wait_synced()
        while any(self._awaited(member) for member in self.state.members.values()):  # noqa: ASYNC110 - once per life
            await asyncio.sleep(0.02)
        self._warmed.set()
        log.info(
            "hub is warm: %d workloads, %d members",
            len(self.state.workloads),
            len(self.state.members),
        )

    async def _lead(self, transitions: int) -> None:
        """Runs everything that writes, until cancelled, or until this term has almost no seqs left:
        the next election has more. `transitions`: the Lease's count; 0 without an election."""
        self._used_up.clear()
        try:
            await self._act(transitions)
        except* TermUsedUp:
            log.warning("term %d has hardly any numbers left: another one begins", self.state.term)

    async def _act(self, transitions: int) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.events.run(), name="events")
            group.create_task(self.journal.run(), name="history")
            group.create_task(self.reporting.run(), name="reporting")
            await self._warmed.wait()
            await self._insist("the list of clusters that were given up", self.departed.load)
            await self._insist("the key of decisions", self._take_key)
            if self.elector is not None:
                self.state.inherit(self.elector.inherited)
                await self._insist("the decisions", self.hosting.reread_decisions)
            await self._insist("the clusters that decisions name", self._meet_named)
            term = self.state.begin_term(transitions)
            if self.elector is not None and term > transitions:
                self.elector.raise_term(term)
                await self._carried_by_lease(self.elector)
            await self.journal.lead(term, self.elector.identity if self.elector is not None else "")
            self.state.lead()
            self._writers = group
            try:
                self.departed.look_everywhere()
                for member in self.state.members.values():
                    self._serve(member)
                    self.state.signals.member_changed(MemberChanged.LEADING, member)
                self.reporting.count_all()
                now_s, wall_s = self.clock.monotonic(), self.clock.now()
                self.state.notices.begin(self.state.records.values(), now_s, wall_s)
                group.create_task(self.hosting.crowding.run(), name="crowding")
                group.create_task(self.keeping.run(), name="profiles")
                group.create_task(self.resync.run(), name="resync")
                group.create_task(self.placing.run(), name="placing")
                group.create_task(self.draining.run(), name="draining")
                group.create_task(self.sealing.run(), name="sealing")
                group.create_task(self.aggregation.run(), name="status aggregation")
                group.create_task(self.finalizing.run(), name="finalizing")
                group.create_task(self.cascades.run(), name="cascades")
                group.create_task(self.orphans.run(), name="orphans")
                group.create_task(self.foreign.run(), name="foreign decisions")
                group.create_task(self.forgetting.run(), name="forgetting")
                if self.elector is not None and self.announced:
                    group.create_task(self._announce(self.elector), name="announcing")
                group.create_task(self.departed.run(), name="departed")
                group.create_task(self.tidying.run(), name="tidying")
                group.create_task(self.renewing.run(), name="renewing")
                group.create_task(self.leasing.run(), name="leasing")
                group.create_task(self.removing.run(), name="removing")
                group.create_task(self.recurring.run(), name="recurring")
                group.create_task(self.expiry.run(), name="expiry")
                group.create_task(self.figures.run(), name="figures")
                group.create_task(self.drilling.run(), name="drilling")
                if self._inspect is not None:
                    group.create_task(self._inspect(self.state), name="inspecting")
                log.info("hub is ready: term %d", term)
                await self._used_up.wait()
                raise TermUsedUp
            finally:
                self._writers = None
                self.state.stand_by()

    async def _meet_named(self) -> None:
        """Returns when every cluster that a decision names was read or given up for now, or the
        host confirms that it has left the fleet. Nothing is decided or removed because a list does
        not show a cluster. Raises ApiErrors."""
        members = self.state.members
        named = sorted(
            {cluster for record in self.state.records.values() for cluster in record.clusters}
        )
        for name in named:
            if name not in members and not await self.departed.confirms(name):
                raise errors.ServerTrouble(
                    f"the MemberCluster {name} is there, and the list does not show it yet"
                )
        while any(name in members and self._awaited(members[name]) for name in named):  # noqa: ASYNC110 - once a term
            await asyncio.sleep(0.02)

    async def _carried_by_lease(self, elector: Elector) -> None:
        """Returns when the Lease has the term: a later leader must not use it again."""
        while not await elector.note():  # noqa: ASYNC110 - each try waits for a renewal
            await asyncio.sleep(self.rng.uniform(0.1, 0.2))

    async def _take_key(self) -> None:
        """Reads the key by which our decisions are recognised; the first leader makes it."""
        await self.state.seals.load(self.host, self.options.system_namespace, make=True)

    async def _announce(self, elector: Elector) -> None:
        """Publishes this hub's address at once, not with the next renewal."""
        await elector.note()

    async def _insist(self, what: str, read: Callable[[], Awaitable[None]]) -> None:
        """Reads what the former leader has left, until it succeeds."""
        waits = asking_again(self.rng)
        while True:
            try:
                await read()
            except errors.ApiError as trouble:
                log.warning("%s could not be read: %s", what, trouble)
                await asyncio.sleep(waits.next())
            else:
                return

    def _member_changed(self, name: str, obj: Mapping[str, Any] | None) -> None:
        """A MemberCluster appeared, changed or went away."""
        member = self.state.members.get(name)
        if obj is None:
            if member is not None and self._missed.get(name) is not member:
                assert self._group is not None
                self._missed[name] = member
                member.vitals.observe_unlisted(member_conditions.UNLISTED)
                self._group.create_task(self._confirm_gone(member), name=f"gone {name}")
            return
        if name in self._missed:
            if member is not None and member.obj["metadata"].get("uid") != obj["metadata"].get(
                "uid"
            ):
                self._leave(name)  # it was deleted, and a new one has its name
            self._missed.pop(name, None)
        if member is not None and member.obj["metadata"].get("uid") == obj["metadata"].get("uid"):
            member.observe_object(obj)
            member.vitals.observe_unlisted("")
            self.news.edited(member)
            return
        self._begin(name, obj)

    async def _confirm_gone(self, member: Member) -> None:
        """A MemberCluster is no longer listed. It has left the fleet when a read by name confirms
        it; until then it keeps its copies and gets no new ones. The reads become rarer, and end
        when it is listed again."""
        name, waits = member.name, Backoff(self.rng, base_s=0.5, cap_s=15.0)
        while self._missed.get(name) is member and self.state.members.get(name) is not None:
            try:
                gone = await self.departed.confirms(
                    name, str(member.obj["metadata"].get("uid", ""))
                )
            except errors.ApiError as trouble:
                log.warning(
                    "whether the MemberCluster %s is gone cannot be asked: %s", name, trouble
                )
                gone = False
            if gone and self._missed.get(name) is member:
                self._leave(name)
                return
            await asyncio.sleep(waits.next())

    def _leave(self, name: str) -> None:
        """A cluster has left the fleet."""
        del self._missed[name]
        self._limits.budgets.pop(name, None)
        ending = self._connections.get(name, [])
        self._close_connection(name)
        self.news.left(self.state.members[name])
        assert self._group is not None
        self._group.create_task(forget_cluster(self.state, name, ending), name=f"metrics {name}")

    def _begin(self, name: str, obj: Mapping[str, Any]) -> None:
        """Starts a member about which nothing is known yet."""
        self._close_connection(name)
        member = Member(
            name=ClusterName(name),
            obj=obj,
            on_slice=self.news.slice_changed,
            on_count=self.news.counted,
            on_capacity=self.news.capacity_changed,
            on_rewind=self._went_back,
            on_other=self._met_other,
            lane=Lane(
                name,
                limit=self.options.lane_writes_in_flight,
                clock=self.clock,
                rng=self.rng,
                metrics=self.state.metrics,
            ),
            now_s=self.clock.now,
            fleet=self.options.fleet,
            host_uid=self.host_uid,
            writes=Writes(
                fights=WriteFightDetector(
                    writes=self.options.futile_writes,
                    window_s=self.options.futile_window_s,
                    pause_s=self.options.futile_pause_s,
                )
            ),
            trust=Trust(clears_after_s=self.options.trust_after_s),
            bound=Bound(self.options.member_objects_max, self.options.member_bytes_max),
        )
        member.link.begin(self.clock.monotonic())
        member.trust.recorded(raw.condition(obj, UNTRUSTWORTHY))
        self.news.appeared(member)
        self._open_connection(member)

    def _went_back(self, member: Member) -> None:
        """A member was restored from a backup. Versions, comparisons and namespaces remembered of
        it belong to another history: it starts again, its identity first."""
        if self.state.members.get(member.name) is not member:
            return
        log.warning(
            "member %s went back in time: it was restored from a backup and is compared anew",
            member.name,
        )
        if self.state.ready:
            self.events.member_went_back(member)
        self._begin(member.name, member.obj)

    def _met_other(self, member: Member) -> None:
        """A hub that could not write to the host, or a standby, had seen another cluster at this
        address before."""
        if self.state.members.get(member.name) is member:
            log.warning(
                "member %s is another cluster than %s, which never joined: met anew",
                member.name,
                member.link.uid,
            )
            self._begin(member.name, member.obj)

    def _open_connection(self, member: Member) -> None:
        assert self._group is not None
        connection = Connection(
            member,
            self.host,
            self.connect,
            options=self.options,
            clock=self.clock,
            rng=self.rng,
            answered=self.news.answered,
            followed=self.news.followed,
            changed=self.news.reached,
            limits=self._limits,
            use_of=self.state.use_of,
            host_uid=lambda: self.host_uid,
            metrics=self.state.metrics,
        )
        self.dispatching.queue_of(member)
        self._connections[member.name] = [
            self._group.create_task(connection.run(), name=f"connection {member.name}")
        ]
        self._serve(member)

    def _serve(self, member: Member) -> None:
        """Works on one member's slices while this hub leads."""
        if self._writers is not None:
            serving = self.dispatching.run(member)
            task = self._writers.create_task(serving, name=f"dispatch {member.name}")
            self._connections[member.name].append(task)

    def _close_connection(self, name: str) -> None:
        for task in self._connections.pop(name, ()):
            task.cancel()
        self.dispatching.forget(name)
        self.caps.forget(name)
        self.renewing.forget(name)
        self.leasing.forget(name)
