"""Connections: one for each MemberCluster, opened, probed, judged and closed.

For every MemberCluster one task runs `Connection.run`. It reads the credentials, checks the
identity, starts the reflectors and probes. Results go into the shared `Member`; `report` writes
what users should see to MemberCluster.status. A failure of one member never raises beyond its own
connection.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.api import raw
from federator.hub.members import member_conditions
from federator.hub.members.connecting import reading
from federator.hub.members.connecting.credentials import Credentials, HostSilent, Reread
from federator.hub.members.member import Member
from federator.hub.members.reachability import ProbeResult, Reachability
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.watch.gates import place_in
from federator.kube.watch.read_budget import ReadBudget
from federator.kube.wire.transport import Transport

Connect = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[Transport]]
"""From a MemberCluster and its credentials Secret to a Transport. Raises `errors.ApiError` or
ValueError with a sentence; `errors.OwnShortage` does not count against the member."""

log = logging.getLogger(__name__)

VERSION_MAX = 64
"""Characters of a server version that are shown."""


OPENINGS_MAX = 32
"""Members that are connected to for the first time concurrently."""
OPENING_S = 2.0
"""An opening counts towards that limit for at most so many seconds: a silent member must not block
others."""
IDENTITY_STANDS_S = 120.0
"""For so many seconds a ready member stays reachable although it does not answer with its
identity."""
LISTS_MAX = 16
"""Lists that are read from all members concurrently (F37)."""
LISTS_OF_ONE_MAX = 2
"""Lists that are read from one member concurrently. Each takes a connection, and some stay open."""


@dataclass(eq=False, slots=True)
class ConnectionLimits:
    """Limits shared by all connections: a thousand members that answer at once are opened in
    turn."""

    openings: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPENINGS_MAX))
    lists: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LISTS_MAX))
    budgets: dict[str, ReadBudget] = field(default_factory=dict)
    """Processor time for reading each member; it outlives its connections."""


@dataclass(eq=False, kw_only=True)
class Connection:
    """Keeps one member connected. `run` ends only by cancellation."""

    member: Member
    host: clients.Client
    connect: Connect
    options: HubOptions
    clock: Clock
    rng: random.Random
    answered: Callable[[Member], None]
    """Called after each probe that was answered."""
    followed: Callable[[Member], None]
    """Called when one of its watches has recovered from trouble."""
    changed: Callable[[Member], None]
    """Called after any change that placing, status aggregation or the report may depend on."""
    limits: ConnectionLimits
    use_of: Callable[[str], asyncio.Event]
    """Which kinds have slices, and so need a watch."""
    host_uid: Callable[[], str]
    """The host's own uid once it is known: the host cannot be its own member."""
    metrics: Metrics | None

    def __post_init__(self) -> None:
        self._discovered_s = float("-inf")
        self._identified_s = float("-inf")
        """Start of the last probe that read the member's identity."""
        self._spoke = False
        """Whether its member process was alive at the last check."""
        self._followed = frozenset[str]()
        """The kinds that it followed at the last check."""
        self._was_ready = False
        """The readiness that was last signalled: after a probe, or after the first lists."""
        self._short_since_s: float | None = None
        """Since when a list or watch has had no file descriptor; None while all have one."""
        self._excused = False
        """The last probe was not sent, because this process was short of a resource."""
        self._credentials = Credentials(self.member, self.host, self.options, self.clock)

    async def run(self) -> None:
        """Connects, then probes until cancelled. Reflectors run in a task group beside the
        probes."""
        member = self.member
        member.link.begin(self.clock.monotonic())
        member.vitals.limit_clock(self.options.clock_skew_max_s)
        await asyncio.sleep(self.rng.uniform(0, min(0.05, self.options.probe_interval_s)))
        while True:
            try:
                async with place_in(self.limits.openings, hold_s=OPENING_S):
                    transport = await self._open()
            except HostSilent as trouble:
                log.info("member %s cannot be asked: %s", member.name, trouble)
                member.link.observe_excuse(str(trouble), self.clock.monotonic())
                await self._pause()
                continue
            except errors.OwnShortage as ours:
                self._excuse(str(ours))
                await self._pause()
                continue
            except (errors.ApiError, ValueError) as trouble:
                result = (
                    ProbeResult.REJECTS if isinstance(trouble, ValueError) else ProbeResult.SILENT
                )
                self._judge(result, str(trouble))
                await self._pause()
                continue
            try:
                await self._serve(transport)
            except Exception:  # a bug that one member triggers must not affect the others
                log.exception("the connection to %s broke", member.name)
                self._judge(ProbeResult.SILENT, "what it answers cannot be read")
                await self._pause()
            finally:
                member.link.detach()
                await transport.close()

    async def _open(self) -> Transport:
        """Reads the credentials from their namespace, then returns a transport that was probed
        once."""
        secret = await self._credentials.read()
        within_s = self.options.probe_timeout_s * 4
        try:
            async with asyncio.timeout(within_s):
                return await self.connect(self.member.obj, secret)
        except TimeoutError:
            raise errors.Unreachable(
                f"no connection to {self.member.name} within {within_s:g} s"
            ) from None

    async def _renewed(self, transport: Transport) -> bool:
        """Whether other credentials need a new connection. A new token alone is used in place."""
        secret = await self._credentials.reread(transport)
        if secret is Reread.TOKEN:
            log.info("member %s: another token is used from now on", self.member.name)
            self.changed(self.member)
        return secret is Reread.OTHER

    def _watch(self, client: clients.Client, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Starts reading what the member holds."""
        member = self.member
        member.link.attach(client, member.lane, self.clock)
        lists = (asyncio.Semaphore(LISTS_OF_ONE_MAX), self.limits.lists)
        new = ReadBudget(self.clock, self.options.member_lists_processor_s)
        budget = self.limits.budgets.setdefault(member.name, new)
        made = reading.reflectors(
            member,
            client,
            self.clock,
            self.rng,
            lists=lists,
            budget=budget,
            use_of=self.use_of,
            metrics=self.metrics,
        )
        for reflector in made:
            reflector.on_recovered = self._recovered
        return [
            *(
                group.create_task(reflector.run(), name=f"{member.name} {reflector.plural}")
                for reflector in made
            ),
            group.create_task(self._tell_when_synced(), name=f"sync {member.name}"),
        ]

    async def _serve(self, transport: Transport) -> None:
        """Probes until the credentials have been refused for longer than a blip, or are no longer
        those of the Secret that the MemberCluster names. The Secret is read again while something
        is wrong, and when its token was due: a member that moved, or has a new certificate
        authority, is silent and rejects nothing."""
        member = self.member
        client = clients.Client(transport, member.name)
        served: frozenset[str] | None = None
        probed = False
        member.link.expect_same()
        try:
            async with asyncio.TaskGroup() as group:
                tasks: list[asyncio.Task[None]] = []
                while self._credentials.named_still and served in (
                    None,
                    member.link.apis,
                ):
                    # A first probe makes connections: many at once would be late because of each
                    # other, and a probe that comes late is taken for silence.
                    openings = () if probed else (self.limits.openings,)
                    async with place_in(*openings, hold_s=OPENING_S):
                        await self._probe(client)
                    probed = True
                    live = member.link.reachability.state is Reachability.LIVE
                    if served is None and live:
                        served = member.link.apis
                    if member.duplicate_of:
                        break
                    if not tasks and live:
                        tasks = self._watch(client, group)
                    if served not in (None, member.link.apis):
                        # list kinds that are served again now, not after the next probe
                        break
                    unwell = not live or bool(member.vitals.auth_trouble)
                    due = self._credentials.due
                    if member.link.reachability.state is Reachability.REFUSED:
                        break
                    if (unwell or due) and await self._renewed(transport):
                        break
                    if await self._estranged():
                        break
                for task in tasks:
                    task.cancel()
        except* errors.ApiError as group_error:
            log.warning("the connection to %s broke: %s", member.name, group_error.exceptions[0])
        if member.link.reachability.state is Reachability.REFUSED or member.duplicate_of:
            await self._pause()

    async def _estranged(self) -> bool:
        """Waits for the next probe. Returns True at once when another cluster answers at the
        address."""
        member = self.member
        try:
            async with asyncio.timeout(self._interval_s()):
                await member.link.estranged.wait()
        except TimeoutError:
            return False
        if trouble := member.identity_trouble(member.link.other_uid, self.host_uid()):
            self._judge(ProbeResult.REFUSES, trouble, reason="IdentityChanged")
        elif member.link.uid != member.link.other_uid:
            # not at the next probe: without the host no connection can be reopened before it
            member.on_other(member)
        return True

    async def _tell_when_synced(self) -> None:
        """Signals that the member's first lists are complete: from now on what is absent there does
        not exist. The next probe need not signal it again, since every signal makes all of the
        member's work due."""
        await reading.wait_synced(self.member)
        self._was_ready, _ = self.member.readiness()
        self._spoke, self._followed = self.member.process.speaks, self._follows()
        self.changed(self.member)

    async def _probe(self, client: clients.Client) -> None:
        """One probe: readiness, identity, and the kinds that are served."""
        member, now = self.member, self.clock.monotonic()
        answered = False
        try:
            async with asyncio.timeout(self.options.probe_timeout_s):
                asked_s = self.clock.now()
                self._note_clock(
                    member_conditions.skew_s(await client.ready(), asked_s, self.clock.now())
                )
                answered = True
                uid = await client.kube_system_uid()
                if trouble := member.identity_trouble(uid, self.host_uid()):
                    self._judge(ProbeResult.REFUSES, trouble, reason="IdentityChanged")
                    return
                if member.link.uid not in ("", uid):
                    member.on_other(member)
                    return
                self._identified_s = now
                member.link.observe_identity(uid)
                await reading.hear_process(
                    member,
                    client,
                    self.options.system_namespace,
                    self.clock,
                    self.options.unready_after_s,
                )
                if now - self._discovered_s >= self.options.discovery_interval_s:
                    await self._discover(client)
                    self._discovered_s = now
        except (errors.Unauthenticated, errors.Denied) as refusal:
            self._judge(
                ProbeResult.REJECTS, f"the member does not accept our credentials: {refusal}"
            )
        except (errors.ApiError, TimeoutError) as trouble:
            # An "ok" beside a page of HTML in place of kube-system is a portal's and no API
            # server's (F34): only an API server that is in trouble keeps its name for a while.
            stranger = isinstance(trouble, errors.Malformed) and self._identified_s != now
            if answered and not stranger and self._still_identified(now):
                log.info("member %s answers, but not everything: %s", member.name, trouble)
                self._hear()
            elif isinstance(trouble, errors.OwnShortage):
                self._excuse(str(trouble))
            else:
                self._judge(
                    ProbeResult.SILENT,
                    str(trouble) or f"no answer within {self.options.probe_timeout_s:g} s",
                )
        else:
            self._hear()

    def _still_identified(self, now_s: float) -> bool:
        """Whether a ready member may count as reachable although the rest of a probe failed (429,
        failing discovery, F40 and F48): its identity and its kinds were read before."""
        member = self.member
        if not member.link.apis and self._identified_s == now_s:
            member.link.observe_apis(frozenset(raw.texts(member.obj, "status", "apis")))
        age_s = now_s - self._identified_s
        return bool(member.link.apis) and age_s <= (
            IDENTITY_STANDS_S if member.link.reachability.trusted else 0.0
        )

    async def _discover(self, client: clients.Client) -> None:
        """Reads the kinds that it serves, and its version. Raises Malformed when none is left of
        the kinds that it served: every cluster serves Deployments, so the answer is a failure of
        discovery. An empty set would count as unread, and nothing would be watched."""
        member, before = self.member, (self.member.link.apis, self.member.link.version)
        apis = await reading.discover(client)
        if member.link.apis and not apis:
            raise errors.Malformed(
                f"{member.name}: its discovery lists none of the kinds it served."
            )
        member.link.observe_apis(apis)
        version = raw.text(await client.version(), "gitVersion")[:VERSION_MAX]
        if not version:
            raise errors.Malformed(f"{member.name}: what it says of its version has no gitVersion.")
        member.link.observe_version(version)
        if before != (member.link.apis, member.link.version):
            self.changed(member)

    def _hear(self) -> None:
        """The member answered: judges it, and signals what has changed."""
        member = self.member
        self._judge(ProbeResult.HEARD, "answers", reason="Ready")
        endless = {
            plural: reflector.trouble
            for plural, reflector in member.contents.reflectors.items()
            if isinstance(reflector.trouble, errors.Endless)
        }
        failing = [
            plural
            for plural, reflector in member.contents.reflectors.items()
            if reflector.watch_failing and plural not in endless
        ]
        ready, _ = member.readiness()
        news = member.vitals.note_lists(endless)
        news = member.vitals.note_watches(failing) or news
        now_s = self.clock.monotonic()
        news = member.note_bounds(now_s) or news
        news = member.trust.look(now_s) or news
        spoke, self._spoke = self._spoke, member.process.speaks
        followed, self._followed = self._followed, self._follows()
        if news or (ready, spoke, followed) != (self._was_ready, self._spoke, self._followed):
            self._was_ready = ready
            self.changed(member)
        self.answered(member)

    def _follows(self) -> frozenset[str]:
        return frozenset(filter(self.member.follows, registry.WORKLOADS))

    def _note_clock(self, skew_s: float | None) -> None:
        """Measures the offset of the member's clock to ours."""
        if skew_s is None:
            return
        if self.metrics is not None:
            self.metrics.child("federator_member_clock_skew_seconds", self.member.name).set(skew_s)
        if self.member.vitals.clock.note(skew_s):
            self.changed(self.member)

    def _excuse(self, why: str) -> None:
        """It was not probed because this process is short of a resource. That says nothing about
        the member. After the tolerated silence its state is unknown, and that is signalled."""
        member, now_s = self.member, self.clock.monotonic()
        before, self._excused = member.link.reachability, True
        unknown = before.state is Reachability.UNKNOWN
        member.link.observe_excuse(why if unknown else before.why, now_s)
        heard_s = before.heard_at_s if before.heard_at_s is not None else before.since_s
        if not member.link.unasked and now_s - heard_s >= self.options.unready_after_s:
            log.info("member %s is not known any more: %s", member.name, why)
            member.link.observe_unasked(
                f"it has not been asked for {now_s - heard_s:.0f} s, which is no fault of its own:"
                f" {why}"
            )
            self.changed(member)

    def _unwatched(self, now_s: float) -> str:
        """Why the content of a reachable member is unknown: a list or watch has had no file
        descriptor for longer than the tolerated silence; "" otherwise."""
        member = self.member
        troubles = [
            reflector.trouble
            for reflector in member.contents.reflectors.values()
            if isinstance(reflector.trouble, errors.OwnShortage)
        ]
        if not troubles:
            self._short_since_s = None
            return ""
        if self._short_since_s is None:
            self._short_since_s = now_s
        lasted_s = now_s - self._short_since_s
        if lasted_s < self.options.unready_after_s:
            return ""
        return (
            member.link.unasked
            or f"what it holds has not been read for {lasted_s:.0f} s,"
            f" which is no fault of its own: {troubles[0]}"
        )

    def _recovered(self) -> None:
        """One of its watches has recovered. The last one of a shortage makes the member known again
        now: the next probe is up to a whole interval away."""
        member = self.member
        answered = member.link.reachability.state is Reachability.LIVE and not self._excused
        if member.link.unasked and answered and not self._unwatched(self.clock.monotonic()):
            member.link.observe_unasked("")
            self._was_ready, _ = member.readiness()
            self.changed(member)
        self.followed(member)

    def _judge(self, result: ProbeResult, why: str, reason: str = "") -> None:
        member = self.member
        before = member.link.reachability
        was_excused, self._excused = self._excused, False
        now_s = self.clock.monotonic()
        reason = reason or {
            ProbeResult.REJECTS: "AuthFailed",
            ProbeResult.SILENT: "Unreachable",
        }.get(result, "Ready")
        member.link.observe_probe(result, why, reason, now_s, self.options.unready_after_s)
        unasked = self._unwatched(now_s) if result is ProbeResult.HEARD else ""
        if result is ProbeResult.SILENT and member.link.reachability.trusted:
            # being reachable again without an answer tells nothing new
            unasked = member.link.unasked
        excused = member.link.observe_unasked(unasked)
        news = result is not ProbeResult.SILENT and member.vitals.note_auth(
            why if result is ProbeResult.REJECTS else ""
        )
        if member.link.reachability.state is not before.state:
            log.info(
                "member %s: %s -> %s (%s)",
                member.name,
                before.state.value,
                member.link.reachability.state.value,
                why,
            )
            self.changed(member)
        elif news or excused or (result is ProbeResult.HEARD and not member.reported):
            self.changed(member)
        is_back = member.link.reachability.state is not before.state or was_excused
        if member.link.reachability.state is Reachability.LIVE and is_back:
            # after a shortage too: it was Live all the time, and its watches wait for their turn
            for reflector in member.contents.reflectors.values():
                reflector.hurry()

    async def _pause(self) -> None:
        await asyncio.sleep(self._interval_s())

    def _interval_s(self) -> float:
        return self.options.probe_interval_s * self.rng.uniform(0.9, 1.1)
