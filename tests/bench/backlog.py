"""T2: what one user's change waits while others' backlog is worked off and one member takes 30
seconds for a write.

On virtual time: every request takes a fixed time, the processor none. So this is the waiting in
queues and lanes, which is the hub's to arrange; what a busy processor adds is part of S1 and S3.
The floor is the same change on an idle hub.
"""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

from federator.kube.clock import Clock
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation, ensure
from tests import virtual_time
from tests.bench import fleets, harness, standins
from tests.bench.harness import Result

MEMBERS = 4
SLOW = "m003"
REQUEST_S = 0.005
SLOW_WRITE_S = 30.0
CHANGES = 150
REF = ObjectRef("apps/v1", "deployments", "user", "page", "Deployment")


class Distant:
    """A transport on which every answer takes its time, and writes to one member far too long."""

    def __init__(self, cluster: str, inner: Transport) -> None:
        self.write_s = SLOW_WRITE_S if cluster == SLOW else REQUEST_S
        self.inner = inner

    async def request(self, request: Request) -> Response:
        writes = request.method in fleets.WRITES and "/leases" not in request.path
        await asyncio.sleep(self.write_s if writes else REQUEST_S)
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


def measure(_wanted: frozenset[str], scale: float) -> Iterator[Result]:
    gc.set_threshold(200_000, 50, 100)
    yield virtual_time.run(_run(max(200, round(10_000 * scale))))


async def _run(count: int) -> Result:
    federation = fleets.federation(
        fleets.fleet(MEMBERS, nodes=1), Clock(fleets.EPOCH_S), fleets.Ledger(), **standins.PATIENT
    )
    federation.wrap = lambda process, cluster, inner: (
        Distant(cluster, inner) if process == "hub" else inner
    )
    federation.start_clusters()
    await federation.install()
    await standins.say(federation)
    federation.start_hub()
    host = federation.client("host")
    await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
    for name in ("host", *federation.members):
        for space in ("user", "bench"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            await ensure(federation.client(name), namespace, "namespaces")
    await ensure(host, fleets.deployment("page", "user", MEMBERS), "deployments")
    await asyncio.sleep(3 * SLOW_WRITE_S)
    idle = [await _changed(federation, number) for number in range(2, 2 + CHANGES)]
    for index in range(count):
        federation.host.store.create(
            federation.host.registry.get("apps", "deployments"),
            fleets.deployment(f"w{index}", "bench", MEMBERS),
        )
    behind: list[float] = []
    first = _backlog(federation)
    while len(behind) < CHANGES and (not behind or _backlog(federation)):
        await asyncio.sleep(0.003)  # people do not keep step with the hub's batches
        behind.append(await _changed(federation, 2 + CHANGES + len(behind)))
    left = _backlog(federation)
    await federation.stop()
    notes = {
        "backlog": count,
        "backlog_at_first": first,
        "backlog_at_last": left,
        "changes": len(behind),
        "idle_p50_ms": _ms(harness.middle(idle)),
        "behind_p50_ms": _ms(harness.middle(behind)),
    }
    ours, floor = (_ms(harness.percentile(times, 99)) for times in (behind, idle))
    return Result("T2", ours=ours, floor=floor, notes=notes)


def _backlog(federation: Federation) -> int:
    """Workloads that the fast members do not hold yet."""
    resource = ("apps", "deployments")
    fast = [member for name, member in federation.members.items() if name != SLOW]
    held = min(member.store.count(member.registry.get(*resource)) for member in fast)
    return federation.host.store.count(federation.host.registry.get(*resource)) - held


async def _changed(federation: Federation, copies: int) -> float:
    """Seconds from a user's change of replicas until every fast member has its part of it."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    missing = set(federation.members) - {SLOW}
    subscriptions = []
    for cluster in sorted(missing):
        member = federation.members[cluster]

        def seen(event: Any, cluster: str = cluster) -> None:
            if event.key == ("user", "page") and event.current.obj["spec"]["replicas"] == copies:
                missing.discard(cluster)
                if not missing and not done.done():
                    done.set_result(None)

        subscriptions.append(
            member.store.subscribe(member.registry.get("apps", "deployments"), seen)
        )
    begun = loop.time()
    await federation.client("host").patch(REF, {"spec": {"replicas": copies * MEMBERS}})
    await done
    for subscription in subscriptions:
        subscription.close()
    return loop.time() - begun


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
