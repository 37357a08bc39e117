"""The gateway behind a socket: what it listens on, its certificate, its account on the host.

Serves HTTPS; plain HTTP on loopback only. Processes share nothing but the host, so several may run.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from federator.api import submissionpolicy
from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts.ports import Versions
from federator.gateway.audit import Audit
from federator.gateway.callers import Callers
from federator.gateway.certificates import Certificates
from federator.gateway.options import GatewayOptions
from federator.gateway.platforms import table
from federator.gateway.platforms.dispatch import Platforms
from federator.gateway.platforms.events import EventBatcher
from federator.gateway.platforms.leader import Judge, Ways
from federator.gateway.platforms.platform import Parts
from federator.gateway.port import Port
from federator.gateway.submitting import Submitter
from federator.hub.query.access import Access
from federator.kinds import registry
from federator.kube import errors, tlsserver
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.event_recorder import EventRecorder
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import CertificateFiles, Listen
from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken
from federator.kube.wire.transport import Transport
from federator.process.oidc.issuer import Issuers

log = logging.getLogger(__name__)

POLICIES_S: Final = 10.0
"""SubmissionPolicies are read again so often."""
OF_ONE_ADDRESS: Final = 128
"""Connections of one address: all runners of a CI system may have the same."""


class PolicyReader:
    """The SubmissionPolicies of the host, read again and again."""

    def __init__(self, host: Client) -> None:
        self._host = host
        self._policies: tuple[Policy, ...] | None = None

    def __call__(self) -> Sequence[Policy]:
        return self._policies or ()

    @property
    def trouble(self) -> str:
        """Why it is not ready; "" when it is."""
        return "" if self._policies is not None else "host: SubmissionPolicies not read yet"

    async def read(self) -> None:
        """Reads them once; those read before stay while the host does not answer."""
        kind = registry.KINDS[submissionpolicy.KIND]
        try:
            listing = await self._host.list(kind.api_version, kind.plural)
        except errors.ApiError as trouble:
            log.warning("the SubmissionPolicies cannot be read: %s", trouble)
            return
        self._policies = tuple(submissionpolicy.to_policy(obj) for obj in listing.items)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(POLICIES_S)


class Gateway:
    """Listens from `start` to `close`; `run` runs meanwhile. `host` has the gateway's own account,
    `bare` shows none. `versions` and `issuers` are closed by their owner."""

    def __init__(
        self,
        host: Client,
        bare: Transport,
        *,
        issuers: Issuers,
        versions: Versions,
        judge: Judge,
        options: GatewayOptions,
        clock: Clock,
        draw: Callable[[], str],
        metrics: Metrics | None = None,
    ) -> None:
        folder = Path(options.audit_directory) if options.audit_directory else None
        process = draw()[:12].replace("-", "")
        self.audit = Audit(folder, process, clock.rfc3339_micro, options.audit_file_bytes)
        self.policies = PolicyReader(host)
        access = Access(host, clock=clock)
        known = Certificates(options, clock) if options.clients_ca_file else None
        callers = Callers(access, issuers, host, bare, known)
        recorder = EventRecorder(host, clock=clock, component="gateway")
        self.events = EventBatcher(recorder, clock.monotonic)
        parts = Parts(callers, judge, access, self.events)
        platforms = Platforms(table.PLATFORMS, parts, clock.monotonic)
        submitter = Submitter(platforms, versions, self.policies, clock.rfc3339_micro, draw)
        self.answer = Port(
            callers,
            submitter,
            self.audit,
            options=options,
            monotonic=clock.monotonic,
            ready=lambda: self.policies.trouble,
            metrics=metrics,
        ).answer
        self._clients_ca_file = options.clients_ca_file
        self._certificate = CertificateFiles(Listen(), "the gateway")
        self._server = tlsserver.TlsServer(
            self.answer,
            of_one_address=OF_ONE_ADDRESS,
            trusts=self._trusts,
        )

    def _trusts(self, connection: ssl.SSLObject) -> bool:
        return self._certificate.trusts(connection)

    async def start(self, listen: Listen) -> str:
        """Listens, and returns its address. Raises FieldError for files that are no certificate,
        and OSError."""
        listen = replace(listen, clients_ca_file=self._clients_ca_file)
        listen.check()
        self._certificate = CertificateFiles(listen, "the gateway")
        await asyncio.to_thread(self.audit.open)
        await self._certificate.load()
        port = await self._server.start(listen.host, listen.port, self._certificate.context)
        return listen.url(port)

    async def run(self) -> None:
        """Reads policies, writes Events and keeps the certificate as its files are, until
        cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.policies.run(), name="the gateway's policies")
            group.create_task(self.events.run(), name="the gateway's Events")
            group.create_task(self._certificate.run(), name="the gateway's certificate")

    async def close(self) -> None:
        """Stops listening."""
        await self._server.close()
        await self.events.flush()
        self.audit.close()


def bare(endpoint: Endpoint) -> HttpTransport:
    """A transport to the same server that shows neither token nor client certificate: a server
    that sees the gateway's certificate would take every request for the gateway's."""
    shown = endpoint.tls
    context: ssl.SSLContext | None = None
    if shown is not None:
        trusted = b"".join(shown.get_ca_certs(binary_form=True))
        context = ssl.create_default_context(cadata=trusted or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = shown.check_hostname
        context.verify_mode = shown.verify_mode
    return HttpTransport(
        replace(endpoint, tls=context, credentials=StaticToken(), impersonation=())
    )


def ways(own: HttpTransport) -> Ways:
    """The connections to a query port to which `own` carries the gateway's credentials."""
    return Ways(Client(own, "leader"), Client(bare(own.endpoint), "leader"))


@contextlib.asynccontextmanager
async def running(
    gateway: Gateway, listen: Listen
) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Its address, and the task that ends only when it breaks."""
    base = await gateway.start(listen)
    work = asyncio.create_task(gateway.run(), name="the gateway")
    try:
        yield base, work
    finally:
        work.cancel()
        await asyncio.wait([work])
        await gateway.close()
