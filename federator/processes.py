"""What every long-lived process has: the connection to its API server, logs, metrics and probes,
and an end on SIGTERM. And the member process, which is run without a module of the hub."""

import asyncio
import logging
import random
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.login import connect
from federator.kube.metrics import Metrics
from federator.kube.wire.http import HttpTransport
from federator.process import logs, malloc
from federator.process.status_server import StatusServer
from federator.settings import Settings

log = logging.getLogger(__name__)

RETURN_S = 30.0
"""Seconds from one return of freed memory to the next: connections, lists and bursts of events
leave pages free for a long time."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a process reaches its own API server."""

    kubeconfig: str = ""
    context: str = ""
    in_cluster: bool = False

    async def open(self) -> HttpTransport:
        """The transport. Raises `kubeconfig.NotConfigured`."""
        if self.in_cluster:
            return await connect.in_cluster()
        return await connect.from_kubeconfig(self.kubeconfig, self.context)


def configure_logs(settings: Settings) -> None:
    logs.configure(settings.log.level.upper(), settings.log.format)


async def serve(
    settings: Settings, metrics: Metrics, work: Coroutine[Any, Any, None], ready: Any
) -> None:
    """Runs the work beside the status port until it ends or a signal arrives."""
    status = StatusServer(metrics=metrics, ready=ready)
    if settings.serve.enabled:
        port = await status.start(settings.serve.host, settings.serve.port)
        log.info("serving /metrics, /healthz and /readyz on %s:%d", settings.serve.host, port)
    task, returning = asyncio.ensure_future(work), asyncio.ensure_future(_return_memory())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopped")
    finally:
        returning.cancel()
        await status.close()


async def _return_memory() -> None:
    """Gives freed memory back to the system now and then. In a thread: where much is free it takes
    some milliseconds."""
    while True:
        await asyncio.sleep(RETURN_S)
        await asyncio.to_thread(malloc.return_free_pages)


async def run_member(
    settings: Settings, access: Access, *, cluster: str, standalone: bool = False
) -> None:
    """Runs the member process until SIGTERM."""
    # Here, and nothing of the hub anywhere in this module: each of both runs without the other.
    from federator.member.process import MemberProcess

    configure_logs(settings)
    malloc.collect_rarely()
    malloc.return_large_blocks()
    transport = await access.open()
    metrics = Metrics()
    process = MemberProcess(
        Client(transport, cluster, field_manager="federator-member", metrics=metrics),
        cluster=cluster,
        fleet=settings.hub.fleet,
        clock=RealClock(),
        rng=random.Random(),
        standalone=standalone,
        options=settings.member,
        metrics=metrics,
    )
    try:
        await serve(settings, metrics, process.run(), lambda: {})
    finally:
        await transport.close()
