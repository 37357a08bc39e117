"""The hub process: holds host, members and controllers together, and decides when it may act.

Reading and probing always run; writing runs while this hub leads. Order of a start: the host's
lists, then every member read or known to be silent; until then nothing is placed, dispatched or
deleted; new workloads also wait for first reports (`placing.first_reports`). `run` ends by
cancellation, or when the lease is lost. This process owns every task.
"""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from federator.hub.cache.state import HubState
from federator.hub.history.journal import Journal
from federator.hub.history.options import HistoryOptions
from federator.hub.host.controller import Tools
from federator.hub.host.documents import Documents
from federator.hub.host.events import Events
from federator.hub.host.host_watch import asking_again
from federator.hub.leading.controllers import Controllers, Surroundings, When
from federator.hub.leading.membership import Membership
from federator.hub.leading.standby import Standby
from federator.hub.members.connecting.connection import Connect
from federator.hub.members.member import Member
from federator.hub.options import HubOptions
from federator.hub.records.seals import KEY_BYTES, Seals
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.lanes import Lane
from federator.kube.leader import leader_gate
from federator.kube.leader.elector import Elector, LeaseLost
from federator.kube.metrics import Metrics
from federator.kube.shortage import Shortage
from federator.kube.wire.transport import Transport
from federator.model import names

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
        self.on_warm: Callable[[], None] = lambda: None
        """Called once, when `warm` becomes true."""
        self._members_connect = connect
        self.options, self.clock, self.rng = options, clock, rng
        leads = (lambda: elector.leading) if elector is not None else (lambda: True)
        seals = Seals(new_key or (lambda: rng.randbytes(KEY_BYTES)))
        self.state = HubState(options, metrics, seals=seals, leader_gate=leads, wall=clock.now)
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
        applier = Applier(client, self._host_lane(), clock=clock, component="hub")
        self.shortage = Shortage(clock, metrics)
        """Whether this process is short of a resource of its own and so does not probe members."""
        documents = Documents(client, options.document_cache)
        events = Events(applier, clock, self.journal)
        # What every controller gets; only `connect` and the applier lead outside, behind the gate.
        around = Surroundings(
            Tools(self.state, applier, documents, events, clock, rng),
            connect=self.connect,
            short=lambda: bool(self.shortage.trouble),
            elector=elector,
            standby=self.standby,
        )
        self.controllers = Controllers(around, on_member=self._listed)
        self.membership = Membership(around, self.controllers)
        self._used_up = asyncio.Event()
        """Set when the seqs of this term are almost used up."""
        self.state.signals.used_up.append(self._used_up.set)

    def _listed(self, name: str, obj: Mapping[str, Any] | None) -> None:
        """The host's list of clusters changed. The watch is made before `membership`."""
        self.membership.changed(name, obj)

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

    async def run(self) -> None:
        """Runs everything until cancelled. Raises `LeaseLost` when another hub may lead."""
        lost: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                if self.state.metrics is not None:
                    group.create_task(self.state.metrics.watch_loop(), name="loop lag")
                self.membership.begin(group, await self._host_identity())
                group.create_task(self._outlive_shortages(), name="shortages")
                self._start(group, When.ALWAYS)
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

    def _start(self, group: asyncio.TaskGroup, when: When) -> None:
        for task in self.controllers.tasks():
            if task.when is when:
                group.create_task(task.run(), name=task.name)

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
            log.warning("local resources are short, failed requests do not count: %s", why)

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
        await self.controllers.hosting.wait_synced()
        while any(self._awaited(member) for member in self.state.members.values()):  # noqa: ASYNC110 - once per life
            await asyncio.sleep(0.02)
        self.on_warm()
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
            group.create_task(self.journal.run(), name="history")
            self._start(group, When.ELECTED)
            await self._warmed.wait()
            await self._insist(
                "the list of clusters that were given up", self.controllers.departed.load
            )
            await self._insist("the key of decisions", self._take_key)
            if self.elector is not None:
                self.state.inherit(self.elector.inherited)
                vacant_s = self.elector.vacant_s
                await self._insist(
                    "the decisions", lambda: self.controllers.hosting.catch_up(vacant_s)
                )
            await self._insist("the clusters that decisions name", self._meet_named)
            term = self.state.begin_term(transitions)
            if self.elector is not None and term > transitions:
                self.elector.raise_term(term)
                await self._carried_by_lease(self.elector)
            await self.journal.lead(term, self.elector.identity if self.elector is not None else "")
            self.state.lead()
            try:
                self.controllers.departed.look_everywhere()
                self.membership.lead(group)
                self.controllers.begin_term()
                self._start(group, When.LEADING)
                if self.elector is not None and self.announced:
                    group.create_task(self._announce(self.elector), name="announcing")
                if self._inspect is not None:
                    group.create_task(self._inspect(self.state), name="inspecting")
                log.info("hub is ready: term %d", term)
                await self._used_up.wait()
                raise TermUsedUp
            finally:
                self.membership.stand_by()
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
            if name not in members and not await self.controllers.departed.confirms(name):
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
        if await self.state.seals.load(self.host, self.options.system_namespace, make=True):
            self.controllers.hosting.rereading.key_changed()

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
