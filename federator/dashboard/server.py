"""The dashboard behind a socket: what it listens on, its certificate, and the watches that fill its
memory.

Serves HTTPS; plain HTTP on loopback only. One process may serve many people; it keeps nothing but
sessions, so another process may be started at any time, and people sign in again.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from federator.dashboard.options import DashboardOptions
from federator.dashboard.port import Port
from federator.dashboard.routes.route import Compute, Sources
from federator.dashboard.sessions import Sessions
from federator.dashboard.signin import signing
from federator.dashboard.signin.browsing import Cookies
from federator.dashboard.signin.codeflow import CodeFlow
from federator.dashboard.signin.signing import SignIn
from federator.dashboard.sources import acting
from federator.dashboard.sources import trend as trends
from federator.dashboard.sources.fleet import FleetCache
from federator.dashboard.sources.leader import Connect, Leader, over_tls
from federator.dashboard.sources.prometheus import Fetch, Prometheus, fetched
from federator.dashboard.sources.rights import Rights
from federator.dashboard.sources.trend import Trend
from federator.hub.query.access import Access
from federator.kube import tlsserver
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.tlsserver import CertificateFiles, Listen
from federator.kube.wire.http import Credentials
from federator.model.errors import FieldError
from federator.process.oidc.issuer import Issuer
from federator.process.oidc.options import OidcOptions

log = logging.getLogger(__name__)

OF_ONE_ADDRESS: Final = 192
"""Connections of one address: all people behind an ingress have the same."""


@dataclass(frozen=True, slots=True)
class Options(Listen):
    """Where it listens, with which certificate, and what it shows beside the federation."""

    simulations: str = ""
    """Folder with reports of simulations; empty: none are shown."""

    def check(self) -> None:
        """Raises FieldError for what must not be served."""
        Listen.check(self)
        if self.simulations and not Path(self.simulations).is_dir():
            raise FieldError("simulations", f"{self.simulations} is no folder")


class Dashboard:
    """Listens from `start` to `close`; `run` runs meanwhile. `host` is a client with the
    dashboard's own account, `draw` returns a new secret. `issuer`: where people sign in as `oidc`
    says; None for tokens of the host only. `own`: with which the leader is asked for them.
    `connect`, `compute` and `fetch` are other ways to reach the leader, to read long texts and to
    ask Prometheus, for time that is not real."""

    def __init__(
        self,
        host: Client,
        *,
        options: Options,
        clock: Clock,
        rng: random.Random,
        draw: Callable[[], str],
        settings: DashboardOptions | None = None,
        own: Credentials | None = None,
        issuer: Issuer | None = None,
        oidc: OidcOptions | None = None,
        connect: Connect = over_tls,
        compute: Compute = asyncio.to_thread,
        fetch: Fetch = fetched,
    ) -> None:
        options.check()
        settings = settings or DashboardOptions()
        self._options, self._certificate = options, CertificateFiles(options, "the dashboard")
        self.sessions = Sessions(draw, clock.monotonic)
        self._access = Access(host, clock=clock)
        self._leader = Leader(host, connect, own)
        self.fleet = FleetCache(host, clock, rng)
        self._clock, self._trend = clock, Trend()
        rights = Rights(self._access, clock, acting.admitted(settings.act_as))
        folder = Path(options.simulations) if options.simulations else None
        url = settings.alerts_url
        sources = Sources(
            self.fleet,
            rights,
            self._leader,
            host,
            clock,
            compute,
            folder,
            self._trend,
            Prometheus(url, clock.monotonic, fetch) if url else None,
        )
        self._port = 0
        self._flow = None
        if issuer is not None:
            self._flow = CodeFlow(issuer, oidc or OidcOptions(), draw, clock.monotonic)
        sign_in = SignIn(self._access, self.sessions, self._cookies, self._flow)
        port = Port(sources, sign_in)
        self.answer, self.live = port.answer, port.live
        self._server = tlsserver.TlsServer(self.answer, of_one_address=OF_ONE_ADDRESS)

    def _cookies(self) -> Cookies:
        return Cookies(self._certificate.context is not None, self._port)

    async def start(self) -> str:
        """Listens, and returns the address of the first page. Raises FieldError for files that are
        no certificate, and OSError."""
        options = self._options
        await self._certificate.load()
        context = self._certificate.context
        self._port = await self._server.start(options.host, options.port, context)
        return options.url(self._port)

    async def run(self) -> None:
        """Watches the host and keeps the certificate as its files are, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.fleet.run(), name="the dashboard's watches")
            samples = trends.keep(self._trend, self.fleet, self._clock)
            group.create_task(samples, name="the dashboard's samples")
            group.create_task(self._certificate.run(), name="the dashboard's certificate")

    def link(self, base: str, token: str) -> str:
        """An address that signs in once, with this token of the host."""
        return signing.link(base, self.sessions.link(token))

    async def close(self) -> None:
        """Stops listening."""
        await self._server.close()
        await self._leader.close()
        if self._flow is not None:
            await self._flow.close()


@contextlib.asynccontextmanager
async def running(dashboard: Dashboard) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Its address, and the task that ends only when it breaks."""
    base = await dashboard.start()
    work = asyncio.create_task(dashboard.run(), name="the dashboard")
    try:
        yield base, work
    finally:
        work.cancel()
        await asyncio.wait([work])
        await dashboard.close()
