"""MP, MPd, MPs, MPm: the processor time of a member process, for each slice of a service that it
expands and reports, and for each plain Deployment, which it only counts; and what it takes to start.

The member is an embedded API server of this process. The member process is a process of its own and
speaks HTTPS to it, so its processor time is counted alone. No controller runs in the member: the
Deployments that slices become keep the status of their creation, as in S1p.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import uvloop

from federator.embedded import http
from federator.embedded.server import EmbeddedCluster
from federator.hub.options import HubOptions
from federator.hub.records import slices
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.model.decision import Share
from federator.sandbox.federation import ensure
from tests.bench import fleets, standins
from tests.bench.floors import ref_of
from tests.bench.harness import Result
from tests.bench.proc import processor_s, resident_mb

ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 300.0
WARM: Final = 50
"""Slices before the clock starts: what is made once is made by then."""
COPIES: Final = 3
AT_ONCE: Final = 16
"""Slices that are written at a time."""
SERVICES: Final = ("pinterest.com", "pinterestservices")
DEPLOYMENTS: Final = ("apps", "deployments")
FLEET: Final = HubOptions().fleet


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="federator-bench-") as room,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        found = runner.run(_run(max(20, round(1000 * scale)), Path(room)))
    yield from (result for result in found if result.id in wanted)


async def _run(count: int, room: Path) -> list[Result]:
    federation = fleets.federation(fleets.fleet(1, nodes=20), RealClock(), fleets.Ledger())
    await federation.install()
    await standins.say(federation)
    name, cluster = next(iter(federation.members.items()))
    client = federation.client(name)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
    await ensure(client, body, "namespaces")
    async with _member(name, cluster, room) as pid:
        await _until(
            lambda: (
                cluster.store.count(cluster.registry.get("scheduling.k8s.io", "priorityclasses"))
                > 2
            )
        )
        await asyncio.sleep(3.0)
        started_s, memory_mb = processor_s(pid), resident_mb(pid)
        carried = await _deployments(client, pid, count)
        await _services(cluster, client, pid, "warm", WARM)
        writes = sum(cluster.api.requests.values())
        expanded = await _services(cluster, client, pid, "slice", count)
        notes = {
            "slices": count,
            "requests_per_slice": round((sum(cluster.api.requests.values()) - writes) / count, 2),
            "memory_mb": round(resident_mb(pid)),
        }
    return [
        Result("MP", ours=expanded / count * 1000, notes=notes),
        Result("MPd", ours=carried / count * 1000, notes={"deployments": count}),
        Result("MPs", ours=started_s),
        Result("MPm", ours=memory_mb),
    ]


@contextlib.asynccontextmanager
async def _member(name: str, cluster: EmbeddedCluster, room: Path) -> AsyncIterator[int]:
    """A member process of the cluster, and its process id."""
    served = await http.serve_all([cluster])
    server = next(iter(served.values()))
    path = room / "member.kubeconfig"
    http.write_kubeconfig(path, {name: server}, name)
    command = [sys.executable, "-m", "federator", "member", "--cluster", name]
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(room),
        "PYTHONPATH": str(ROOT),
    }
    with (room / "member.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, "--kubeconfig", str(path), env=environment, cwd=room, stdout=log, stderr=log
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()
        await server.close()


async def _deployments(client: Client, pid: int, count: int) -> float:
    """Processor seconds for so many plain Deployments with a mark."""
    bodies = [
        _slice(fleets.deployment(f"plain-{index}", "bench", COPIES)) for index in range(count)
    ]
    before = processor_s(pid)
    await _create(client, bodies)
    await asyncio.sleep(8.0)
    return processor_s(pid) - before


async def _services(
    cluster: EmbeddedCluster, client: Client, pid: int, prefix: str, count: int
) -> float:
    """Processor seconds for so many slices, until each has its Deployment and its status."""
    names = [f"{prefix}-{index}" for index in range(count)]
    bodies = [_slice(fleets.service(name, "bench", COPIES)) for name in names]
    deployments, services = cluster.registry.get(*DEPLOYMENTS), cluster.registry.get(*SERVICES)

    def told(name: str) -> bool:
        found = cluster.store.get(services, "bench", name)
        made = cluster.store.get(deployments, "bench", name)
        return made is not None and found is not None and bool(found.obj.get("status"))

    before = processor_s(pid)
    await _create(client, bodies)
    await _until(lambda: all(told(name) for name in names))
    await asyncio.sleep(3.0)
    return processor_s(pid) - before


def _slice(workload: dict[str, Any]) -> dict[str, Any]:
    meta = workload["metadata"]
    known = {**workload, "metadata": {**meta, "uid": f"uid-of-{meta['name']}", "generation": 1}}
    share = Share(cluster="m000", count=COPIES, slots=COPIES, seq=1)
    verbs = registry.verbs_of(workload["kind"])
    return slices.render(verbs, known, share, fleet=FLEET)


async def _create(client: Client, bodies: list[dict[str, Any]]) -> None:
    """As a hub writes them: many at a time."""
    for index in range(0, len(bodies), AT_ONCE):
        some = bodies[index : index + AT_ONCE]
        await asyncio.gather(*(client.create(ref_of(body), body) for body in some))
        await asyncio.sleep(0.01)


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the member process was not through within {LIMIT_S:.0f} s")
        await asyncio.sleep(0.1)
