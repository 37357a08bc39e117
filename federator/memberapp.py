"""Runs the member process. A module of its own: nothing of the hub is imported for it."""

import random

from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.metrics import Metrics
from federator.member.process import MemberProcess
from federator.process import malloc
from federator.processes import Access, configure_logs, serve
from federator.settings import Settings


async def run_member(
    settings: Settings, access: Access, *, cluster: str, standalone: bool = False
) -> None:
    """Runs the member process until SIGTERM."""
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
