"""S6: one workload placed on a hundred embedded members, from its creation until every member has
its slice.
"""

import asyncio
import gc
import time
from collections.abc import Iterator

from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation, ensure
from tests.bench import fleets, harness
from tests.bench.harness import Result

REPEATS = 5
WITHIN_S = 60.0


def measure(_wanted: frozenset[str], scale: float) -> Iterator[Result]:
    yield asyncio.run(_run(max(3, round(100 * scale))))


async def _run(count: int) -> Result:
    ledger = fleets.Ledger()
    federation = fleets.federation(
        fleets.fleet(count, nodes=2), RealClock(), ledger, probe_interval_s=5.0
    )
    await federation.start()
    host = federation.client("host")
    await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
    await ensure(
        host, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}, "namespaces"
    )
    async with asyncio.timeout(WITHIN_S * 3):
        while not (federation.settled()[0] and _ready(federation) == count):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.2)
    await _placed(federation, "first", count)
    gc.collect()
    gc.freeze()
    ours, floors = [], []
    for number in range(REPEATS):
        await asyncio.sleep(2.0)  # what the one before left to do is not this one's burden
        ours.append(await _placed(federation, f"w{number}", count))
        await asyncio.sleep(2.0)
        floors.append(await _posted(federation, f"f{number}"))
    await federation.stop()
    notes = {"clusters": count, "each": [round(value, 3) for value in ours]}
    return Result("S6", ours=harness.middle(ours), floor=harness.middle(floors), notes=notes)


def _ready(federation: Federation) -> int:
    return sum(member.readiness()[0] for member in federation.hub.state.members.values())


async def _placed(federation: Federation, name: str, count: int) -> float:
    """Seconds from the POST until the last of the members holds the Deployment."""
    done = asyncio.get_running_loop().create_future()
    missing = set(federation.members)
    subscriptions = []
    for cluster, member in federation.members.items():

        def seen(event: object, cluster: str = cluster) -> None:
            if event.key == ("bench", name):  # type: ignore[attr-defined]
                missing.discard(cluster)
                if not missing and not done.done():
                    done.set_result(None)

        subscriptions.append(
            member.store.subscribe(member.registry.get("apps", "deployments"), seen)
        )
    begun = time.perf_counter()
    await ensure(federation.client("host"), fleets.deployment(name, "bench", count), "deployments")
    async with asyncio.timeout(WITHIN_S):
        await done
    took = time.perf_counter() - begun
    for subscription in subscriptions:
        subscription.close()
    return took


async def _posted(federation: Federation, name: str) -> float:
    """Seconds for the same POSTs to all members, side by side, and no more."""
    clients = [federation.client(cluster) for cluster in federation.members]
    body = fleets.deployment(name, "bench", 1)
    ref = ObjectRef("apps/v1", "deployments", "bench", name, "Deployment")
    begun = time.perf_counter()
    await asyncio.gather(*(client.create(ref, body) for client in clients))
    return time.perf_counter() - begun
