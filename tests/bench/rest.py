"""S5: a federation at rest writes nothing. Thousands of placed workloads are left alone for ten
virtual minutes.
"""

import asyncio
import gc
import time
from collections.abc import Iterator

from federator.kube.clock import Clock
from federator.sandbox.federation import ensure
from tests import virtual_time
from tests.bench import fleets
from tests.bench.harness import Result

CLUSTERS = 5
REST_S = 600.0


def measure(_wanted: frozenset[str], scale: float) -> Iterator[Result]:
    gc.set_threshold(200_000, 50, 100)
    yield virtual_time.run(_run(max(10, round(10_000 * scale))))


async def _run(count: int) -> Result:
    begun = time.monotonic()
    ledger = fleets.Ledger()
    spec = fleets.fleet(CLUSTERS, nodes=max(4, count // 100), pods=500)
    federation = fleets.federation(spec, Clock(fleets.EPOCH_S), ledger)
    await federation.start()
    host = federation.client("host")
    await ensure(
        host, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}, "namespaces"
    )
    for index in range(count):
        # Most of a fleet at rest are services; plain Deployments are carried too.
        if index % 4:
            await ensure(host, fleets.deployment(f"d{index}", "bench", 2), "deployments")
        else:
            await ensure(host, fleets.service(f"s{index}", "bench", 2), "pinterestservices")
        if index % 500 == 499:
            await federation.until_settled(600.0)
    await federation.until_settled(1200.0)
    await asyncio.sleep(60.0)  # reports of capacity that wait for their turn
    placed = time.monotonic() - begun
    before, events = ledger.total(""), ledger.total("", events=True)
    rows = dict(ledger.writes)
    begun = time.monotonic()
    await asyncio.sleep(REST_S)
    written = {
        "/".join(key): number - rows.get(key, 0)
        for key, number in ledger.writes.items()
        if number != rows.get(key, 0) and key[0] != "user"
    }
    notes = {
        "workloads": count,
        "clusters": CLUSTERS,
        "events": ledger.total("", events=True) - events - (ledger.total("") - before),
        "written": written,
        "seconds_to_place": round(placed, 1),
        "seconds_at_rest": round(time.monotonic() - begun, 1),
    }
    result = Result("S5", ours=ledger.total("") - before, notes=notes)
    await federation.stop()
    return result
