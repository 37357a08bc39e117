"""T3: a thousand roll-outs in twenty members at once: how often a host status is written, and how long the hub's loop
is kept from its turn.

The members are bare embedded APIs; this file plays their controllers, through the stores, at a steady pace. Its own
share of the loop is in the lag that it reports.
"""

import asyncio
import gc
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import uvloop

from federator.embedded.federation import Federation, ensure
from federator.kube.clock import RealClock
from tests.bench import fleets, harness, standins
from tests.bench.harness import Result

CLUSTERS = 20
PER_CLUSTER = 4
"""Replicas of each workload in each member; each becomes ready on its own."""
STORM_S = 40.0
TICK_S = 0.002
WINDOW_S = 1.0


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield from (found for found in runner.run(_run(max(20, round(1000 * scale)))) if found.id in wanted)


async def _run(count: int) -> list[Result]:
    ledger = fleets.Ledger()
    federation = fleets.federation(fleets.fleet(CLUSTERS, nodes=1), RealClock(), ledger, **standins.PATIENT)
    await federation.install()
    await standins.say(federation)
    federation.start_hub()
    host = federation.client("host")
    await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
    await ensure(host, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}, "namespaces")
    for index in range(count):
        await ensure(host, fleets.deployment(f"d{index}", "bench", CLUSTERS * PER_CLUSTER), "deployments")
    await _until_dispatched(federation, count)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    written: dict[str, list[float]] = defaultdict(list)

    def note(resource: str, name: str) -> None:
        if resource == "deployments/status":
            written[name].append(time.perf_counter())

    ledger.times = note
    await asyncio.sleep(3.0)
    written.clear()
    lags: list[float] = []
    watching = asyncio.create_task(_watch_lag(lags))
    begun = time.perf_counter()
    sent = await _storm(federation, count)
    storm_s = time.perf_counter() - begun
    watching.cancel()
    await asyncio.wait([watching])
    await asyncio.sleep(3.0)
    await federation.stop()
    # The write that says "settled" is made at once, whenever that is: it is not part of what moves.
    worst = max((_densest(times[:-1]) for times in written.values()), default=0)
    writes = sum(len(times) for times in written.values())
    notes: dict[str, Any] = {
        "workloads": count,
        "clusters": CLUSTERS,
        "status_changes_in_members": sent,
        "changes_per_second": round(sent / storm_s),
        "host_status_writes": writes,
        "worst_second_with_settling": max((_densest(times) for times in written.values()), default=0),
        "mean_writes_per_workload_and_second": round(writes / max(1, count) / storm_s, 3),
    }
    lag = {"median_ms": round(harness.middle(lags) * 1000, 2), "worst_ms": round(max(lags) * 1000, 1)}
    return [
        Result("T3", ours=worst, notes=notes),
        Result("T3lag", ours=harness.percentile(lags, 99) * 1000, notes=lag),
    ]


def _densest(times: list[float]) -> int:
    """The most writes within any one second; a hair less, because a timer may ring a hair early."""
    return max((sum(begin <= at < begin + WINDOW_S * 0.98 for at in times) for begin in times), default=0)


async def _until_dispatched(federation: Federation, count: int) -> None:
    async with asyncio.timeout(300.0):
        while True:
            counts = [
                member.store.count(member.registry.get("apps", "deployments")) for member in federation.members.values()
            ]
            if min(counts) == count:
                return
            federation.check()
            await asyncio.sleep(0.2)


async def _storm(federation: Federation, count: int) -> int:
    """Every slice's copies become ready one after the other, in all members at once, evenly over the storm."""
    changes = [
        (ready, cluster, f"d{index}")
        for ready in range(1, PER_CLUSTER + 1)
        for index in range(count)
        for cluster in federation.members
    ]
    begun = time.perf_counter()
    sent = 0
    while sent < len(changes):
        due = min(len(changes), int(len(changes) * (time.perf_counter() - begun) / STORM_S) + 1)
        for ready, cluster, name in changes[sent : min(due, sent + 10)]:
            status = {
                "observedGeneration": 1,
                "replicas": PER_CLUSTER,
                "updatedReplicas": PER_CLUSTER,
                "readyReplicas": ready,
                "availableReplicas": ready,
            }
            standins.write_status(federation.members[cluster], ("apps", "deployments"), ("bench", name), status)
            sent += 1
        await asyncio.sleep(0.0005)
    return sent


async def _watch_lag(lags: list[float]) -> None:
    """How much later than asked a sleeper wakes."""
    while True:
        asked = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        lags.append(max(0.0, time.perf_counter() - asked))
