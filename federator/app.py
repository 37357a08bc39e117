"""Runs the long-lived processes of the host: hub, dashboard, gateway; and the signer of a member.

The top floor: only this module and `processes` combine settings, transports and processes.
"""

import asyncio
import contextlib
import functools
import logging
import platform
import random
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from federator.advice import drills, facts
from federator.advice.plans import asked, verdicts
from federator.hub.cache.state import HubState
from federator.hub.evacuation.drilling import Elsewhere
from federator.hub.history.journal import Journal
from federator.hub.leading.process import HubProcess
from federator.hub.options import HubOptions
from federator.hub.query import announcing
from federator.hub.query.announcing import Announcement
from federator.hub.query.questions import Sources
from federator.hub.query.serving import QueryServer
from federator.hub.records.seals import KEY_BYTES
from federator.hub.security import hardening
from federator.hub.snapshot.computing import Broken, Compute, InProcess, Snapshots
from federator.hub.snapshot.places import Full, Kind
from federator.kinds import registry
from federator.kube import shortage
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.leader.elector import Elector
from federator.kube.login import connect, kubeconfigs, tls
from federator.kube.metrics import Metrics
from federator.kube.threads import Threads
from federator.kube.wire.http import Endpoint, HttpTransport
from federator.kube.wire.transport import Transport
from federator.model.errors import FieldError
from federator.process import malloc
from federator.processes import Access, configure_logs, serve
from federator.scheduling.drill import DrillResult, Loss
from federator.settings import Settings

if TYPE_CHECKING:
    from federator.dashboard.server import Options as DashboardOptions
    from federator.gateway.platforms.leader import Ways
    from federator.gateway.server import Gateway
    from federator.kube.tlsserver import Listen
    from federator.process.oidc.issuer import Issuer
    from federator.process.oidc.options import OidcOptions

log = logging.getLogger(__name__)


async def run_hub(settings: Settings, access: Access, *, allow_loopback: bool = False) -> None:
    """Runs the hub until SIGTERM. Raises `elector.LeaseLost` when another hub may lead; the
    restarted process stands for election again."""
    configure_logs(settings)
    log.info("up to %d file descriptors may be open", shortage.raise_limit())
    malloc.collect_hardly()
    malloc.return_large_blocks()
    metrics = Metrics()

    async def connect_member(obj: Mapping[str, Any], secret: Mapping[str, Any]) -> Transport:
        return member_transport(obj, secret, allow_loopback=allow_loopback)

    clock, rng = RealClock(), random.Random()
    async with contextlib.AsyncExitStack() as opened:

        def through(transport: HttpTransport) -> Client:
            opened.push_async_callback(transport.close)
            return Client(transport, "host", metrics=metrics)

        host = await access.open()
        client, election = through(host), None
        if settings.hub.leader_election:
            # Renewals have their own connection (same credentials): behind a busy hub's requests to
            # a slow host they would come too late, and the hub would stop when it has most to do.
            renewing = through(HttpTransport(host.endpoint))
            election = elector(renewing, settings.hub, clock, rng, metrics)
        reviews = through(HttpTransport(host.endpoint))
        process = HubProcess(
            client,
            connect_member,
            options=settings.hub,
            clock=clock,
            rng=rng,
            metrics=metrics,
            elector=election,
            new_key=lambda: secrets.token_bytes(KEY_BYTES),
            inspect=lambda state: inspected(reviews, state, metrics),
            journal=Journal(settings.history, clock, metrics),
        )
        process.on_warm = malloc.keep_all
        if settings.query.enabled and election is not None:
            snapshots = snapshots_of(process, settings, metrics)
            if snapshots is not None:
                elsewhere = drilling_with(process, snapshots, lambda: bool(snapshots.pid))
                process.controllers.drilling.elsewhere = elsewhere
            server = query_server(process, reviews, election, settings, snapshots)
            work = answering(process, server, election.identity, snapshots)
        else:
            if settings.query.enabled:
                log.info(
                    "the query port is off: without leader election there is no Lease to find it by"
                )
            work = process.run()
        # A standby is ready too: it takes over.
        await serve(settings, metrics, work, lambda: readiness(process))


def snapshots_of(process: HubProcess, settings: Settings, metrics: Metrics) -> Snapshots | None:
    """The snapshot worker; None where answers are computed in threads."""
    options = settings.query
    if not options.snapshot_worker:
        return None
    return Snapshots(
        lambda: process.state,
        process.clock,
        shared=options.computed_at_once,
        timeout_s=options.compute_timeout_s,
        metrics=metrics,
        log_as=(settings.log.level.upper(), settings.log.format),
    )


def drilling_with(process: HubProcess, compute: Compute, there: Callable[[], bool]) -> Elsewhere:
    """Drills of the hub that are computed by `compute`, while `there` says that it can be asked
    without starting a process for it."""

    async def lose(losses: Sequence[Loss]) -> Sequence[DrillResult] | None:
        if not there():
            return None
        state = process.state
        native = frozenset(kind for kind in registry.WORKLOADS if state.refuses_native(kind))
        a_minute = state.options.evacuated_copies_a_minute
        try:
            return await compute(Kind.DRILL, drills.in_world, losses, native, a_minute)
        except (Broken, Full, TimeoutError) as trouble:
            log.info("a drill is computed on the event loop: %s", type(trouble).__name__)
            return None

    return lose


def query_server(
    process: HubProcess,
    reviews: Client,
    election: Elector,
    settings: Settings,
    snapshots: Snapshots | None = None,
) -> QueryServer:
    """The leader's query port. `reviews` is a client of the host with its own connection and
    without the leader gate: reviews change nothing. `snapshots`: None to compute in threads."""
    options, metrics = settings.query, process.state.metrics
    threads = Threads(options.computed_at_once, options.compute_timeout_s)
    sources = Sources(
        state=process.state,
        host=process.host,
        clock=process.clock,
        options=options,
        explain=facts.facts,
        compute=snapshots or InProcess(lambda: process.state, process.clock, threads),
        standing=process.controllers.placing.as_now,
        journal=process.journal,
        for_room=process.controllers.placing.inadmissible.for_room,
        plan=asked.answer,
        drilled=lambda: process.controllers.drilling.outcomes,
        verdict=verdicts.VERDICT,
        read=threads,
    )
    leader, clock = election.leader, process.clock
    return QueryServer(
        reviews, lambda: sources, leader, options=options, clock=clock, metrics=metrics
    )


async def run_dashboard(settings: Settings, access: Access, options: "DashboardOptions") -> None:
    """Serves the dashboard until SIGTERM. Raises FieldError for files that are no certificate, and
    OSError when it cannot listen."""
    from federator.dashboard import server

    configure_logs(settings)
    malloc.collect_rarely()
    malloc.return_large_blocks()
    issuer = await asyncio.to_thread(issuer_of, settings.oidc)
    transport = await access.open()
    try:
        dashboard = server.Dashboard(
            Client(transport, "host"),
            options=options,
            clock=RealClock(),
            rng=random.Random(),
            draw=lambda: secrets.token_urlsafe(24),
            settings=settings.dashboard,
            own=transport.endpoint.credentials,
            issuer=issuer,
            oidc=settings.oidc,
        )
        async with server.running(dashboard) as (base, work):
            log.info("the dashboard is at %s", base)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, work.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await work
            log.info("stopped")
    finally:
        await transport.close()


async def run_gateway(
    settings: Settings, access: Access, listen: "Listen", *, allow_loopback: bool = False
) -> None:
    """Serves the submission gateway until SIGTERM. Raises FieldError for settings that cannot be
    used, and OSError when it cannot listen or write its folders."""
    configure_logs(settings)
    metrics = Metrics()
    serving = serving_gateway(settings, access, listen, metrics, allow_loopback=allow_loopback)
    async with serving as (gateway, base, work):
        log.info("the gateway is at %s", base)
        await serve(settings, metrics, _until(work), lambda: {"host": gateway.policies.trouble})


@contextlib.asynccontextmanager
async def serving_gateway(
    settings: Settings,
    access: Access,
    listen: "Listen",
    metrics: Metrics,
    *,
    allow_loopback: bool = False,
) -> "AsyncIterator[tuple[Gateway, str, asyncio.Task[None]]]":
    """A gateway that listens, its address, and the task that ends only when it breaks. Raises as
    `run_gateway`."""
    from federator.gateway import server
    from federator.gateway.artifacts import artifacts
    from federator.gateway.platforms.leader import Leader
    from federator.process.oidc.issuer import Issuers

    options, clock = settings.gateway, RealClock()
    trusted = functools.partial(_trusted, settings, clock, allow_loopback=allow_loopback)
    async with contextlib.AsyncExitStack() as opened:
        known = Issuers(await asyncio.to_thread(trusted))
        opened.push_async_callback(known.close)
        transport = await access.open()
        opened.push_async_callback(transport.close)
        host = Client(transport, "host", field_manager="federator-gateway", metrics=metrics)
        bare = server.bare(transport.endpoint)
        opened.push_async_callback(bare.close)
        versions = artifacts.of_host(
            host,
            options.secrets_namespace,
            Path(options.cache_directory),
            clock.monotonic,
            allow_loopback=allow_loopback,
        )
        opened.push_async_callback(versions.close)
        leader = Leader(host, functools.partial(to_leader, access, transport), rng=random.Random())
        opened.push_async_callback(leader.close)
        gateway = server.Gateway(
            host,
            bare,
            issuers=known,
            versions=versions,
            judge=leader,
            options=options,
            clock=clock,
            draw=lambda: secrets.token_hex(16),
            metrics=metrics,
        )
        base, work = await opened.enter_async_context(server.running(gateway, listen))
        yield gateway, base, work


async def run_signer(
    settings: Settings, access: Access, listen: "Listen", dns: tuple[str, ...] = ()
) -> None:
    """Serves the signer of a member until SIGTERM. Raises FieldError for settings that cannot be
    used, and OSError when it cannot listen."""
    from federator.runtime.identity.spiffe import NoId, SpiffeId
    from federator.signer import server
    from federator.signer.options import example_left

    configure_logs(settings)
    options, clock, metrics = settings.signer, RealClock(), Metrics()
    if left := example_left(options):
        log.warning("%s", left)
    try:
        SpiffeId(options.trust_domain, server.NAMESPACE, server.ACCOUNT)
        authority = server.authority_of(options, clock.now, clock.monotonic)
    except NoId as bad:
        raise FieldError("signer.trust_domain", str(bad)) from None
    except (OSError, ValueError) as bad:
        raise FieldError("signer.openbao_ca_file", str(bad)) from None
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(authority.close)
        transport = await access.open()
        opened.push_async_callback(transport.close)
        client = Client(transport, "member", field_manager="federator-signer", metrics=metrics)
        signer = server.Signer(
            client, authority, options, clock=clock, rng=random.Random(), dns=dns, metrics=metrics
        )

        async def work() -> None:
            try:
                log.info("the signer is at %s", await signer.start(listen))
                await signer.run()
            finally:
                await signer.close()

        await serve(settings, metrics, work(), lambda: {"authority": signer.trouble()})


def _trusted(settings: Settings, clock: RealClock, *, allow_loopback: bool) -> list["Issuer"]:
    """The issuers of tokens for the gateway. Raises FieldError."""
    from federator.gateway import issuers

    options = settings.gateway
    people = issuer_of(settings.oidc, frozenset(options.audiences), allow_loopback=allow_loopback)
    file = options.issuers_file
    others = issuers.load(file, clock, allow_loopback=allow_loopback) if file else ()
    return [*([people] if people is not None else []), *others]


async def _until(work: "asyncio.Task[None]") -> None:
    await work


async def to_leader(access: Access, host: HttpTransport, known: Announcement) -> "Ways":
    """The connections of the gateway to the leader's query port."""
    from federator.gateway import server as gateways

    server, ca_pem = f"https://{known.address}", known.ca_pem.encode()
    if access.in_cluster:
        context = await asyncio.to_thread(tls.client_context, ca_pem=ca_pem)
        credentials = host.endpoint.credentials
        endpoint = Endpoint(
            server, tls=context, credentials=credentials, tls_server_name=known.server_name
        )
        return gateways.ways(HttpTransport(endpoint))
    door = connect.Door(server, ca_pem, known.server_name)
    return gateways.ways(await connect.to_door(door, access.kubeconfig, access.context))


def issuer_of(
    options: "OidcOptions", audiences: frozenset[str] = frozenset(), *, allow_loopback: bool = False
) -> "Issuer | None":
    """The issuer at which people sign in; None where there is none. `audiences`: those that count
    instead of the dashboard's client. Raises FieldError."""
    from federator.process.oidc import issuer
    from federator.process.oidc.tokens import Trust

    if not options.issuer_url:
        return None
    try:
        ca_pem = Path(options.ca_file).read_bytes() if options.ca_file else b""
        connect = issuer.connecting(ca_pem=ca_pem, allow_loopback=allow_loopback)
    except (OSError, ValueError) as bad:
        raise FieldError("oidc.ca_file", f"cannot be used: {bad}") from None
    trust = Trust.of(options)
    trust = replace(trust, audiences=audiences or trust.audiences)
    return issuer.Issuer(trust, connect, clock=RealClock())


def readiness(process: HubProcess) -> Mapping[str, str]:
    """The checks of a hub's `/readyz`."""
    return {"host": "" if process.warm else "not read yet", "descriptors": process.shortage.trouble}


async def inspected(host: Client, state: HubState, metrics: Metrics) -> None:
    """Inspects host and members as described in docs/operating/hardening.md, with the hub's own
    rights."""
    names = state.options.system_namespace, state.options.credentials_namespace
    members = {
        name: hardening.Asked(member.link.client, "", *names)
        for name, member in state.members.items()
        if member.link.client is not None
    }
    await hardening.at_start(hardening.Asked(host, "", *names), members, metrics)


async def answering(
    process: HubProcess, server: QueryServer, identity: str, snapshots: Snapshots | None = None
) -> None:
    """Runs the hub together with its query port and its snapshot worker. Raises what ends the hub,
    and OSError when the port cannot listen."""
    process.announced = announcing.notes(await server.start(identity))
    beside = [asyncio.create_task(server.refresh(), name="the query port's refresh")]
    if snapshots is not None:
        beside.append(asyncio.create_task(snapshots.run(), name="the snapshot worker's start"))
    for task in beside:
        task.add_done_callback(_log_failure)
    try:
        await process.run()
    finally:
        await server.close()  # first: what it still answers needs the others
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Says why a task that should never end has ended. The hub goes on without it."""
    if not task.cancelled() and (why := task.exception()) is not None:
        log.error("%s has failed", task.get_name(), exc_info=why)


def elector(
    client: Client, options: HubOptions, clock: RealClock, rng: random.Random, metrics: Metrics
) -> Elector:
    """This process as a candidate for leadership."""
    return Elector(
        client,
        namespace=options.system_namespace,
        name=options.lease_name,
        # Unique per start: a restarted process must not mistake its former lease for its own.
        identity=f"{options.identity or platform.node() or 'hub'}_{rng.getrandbits(40):010x}",
        options=options.lease(),
        clock=clock,
        rng=rng,
        metrics=metrics,
    )


def member_transport(
    obj: Mapping[str, Any], secret: Mapping[str, Any], *, allow_loopback: bool
) -> Transport:
    """A transport from the kubeconfig in a member's Secret. Raises ValueError with a sentence that
    contains no value of it."""
    name = obj["metadata"]["name"]
    data = kubeconfigs.in_secret(secret, name)
    try:
        access = kubeconfigs.member_access(data, allow_loopback=allow_loopback)
    except FieldError as refused:
        raise ValueError(f"the kubeconfig of {name} is refused: {refused}") from None
    return connect.for_member(access, allow_loopback=allow_loopback)
