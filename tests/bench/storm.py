"""T3: a thousand roll-outs in twenty members at once: how often a host status is written, and how
long the hub's loop is kept from its turn.

The members are bare embedded APIs, served over HTTPS; this process plays their controllers, through
the stores, at a steady pace. The hub is a process of its own, and its lag is what its own metrics
tell a monitoring system: asked for a wake-up every tenth of a second, how much later it came.
"""

import asyncio
import gc
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from federator.kube.clock import RealClock
from federator.sandbox.federation import Federation, ensure
from tests.bench import fleets, harness, served, standins
from tests.bench.harness import Result

CLUSTERS = 20
PER_CLUSTER = 4
"""Replicas of each workload in each member; each becomes ready on its own."""
STORM_S = 40.0
STORMS = 3
"""The median of their lags counts."""
WINDOW_S = 1.0
QUIET_S = 3.0
"""Without a status written: what the preparations caused is over."""
LAG = "federator_loop_lag_seconds"


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(_run(max(20, round(1000 * scale)), Path(room)))
        yield from (result for result in found if result.id in wanted)


async def _run(count: int, room: Path) -> list[Result]:
    federation = fleets.federation(
        fleets.fleet(CLUSTERS, nodes=1), RealClock(), fleets.Ledger(), **standins.PATIENT
    )
    async with served.serving(federation, room) as kubeconfigs:
        await federation.install(kubeconfigs)
        await standins.say(federation)
        hub = served.Hub(room, standins.PATIENT)
        await hub.start()
        seen = StatusWrites(federation)
        watching = asyncio.create_task(seen.follow())
        try:
            await hub.until_ready(60.0)
            host = federation.client("host")
            await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
            await ensure(
                host,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}},
                "namespaces",
            )
            for index in range(count):
                await ensure(
                    host,
                    fleets.deployment(f"d{index}", "bench", CLUSTERS * PER_CLUSTER),
                    "deployments",
                )
            await hub.until(
                lambda: _dispatched(federation, count),
                within_s=300.0,
                said="through with dispatching",
            )
            await hub.until(seen.quiet, within_s=60.0, said="at rest")
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 50, 100)
            storms = []
            for _ in range(STORMS):
                seen.times.clear()
                before, begun = await hub.histogram(LAG), time.perf_counter()
                sent = await _storm(federation, count)
                storm_s, after = time.perf_counter() - begun, await hub.histogram(LAG)
                await hub.until(seen.quiet, within_s=60.0, said="at rest")
                storms.append(Storm(sent, storm_s, before, after, list(seen.times.values())))
            cpu_s = hub.cpu_s
            if watching.done():
                watching.result()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await hub.stop()
    for storm in storms:
        if storm.writes < count:
            raise RuntimeError(
                f"{storm.writes} statuses were seen to be written, of {count} workloads that rolled"
                " out"
            )
    lags = [served.quantile(storm.after, storm.before, 99) * 1000 for storm in storms]
    first = storms[0]
    notes: dict[str, Any] = {
        "workloads": count,
        "clusters": CLUSTERS,
        "storms": STORMS,
        "status_changes_in_members": first.sent,
        "changes_per_second": round(first.sent / first.seconds),
        "host_status_writes": [storm.writes for storm in storms],
        "worst_second_with_settling": max(storm.worst(settling=True) for storm in storms),
        "mean_writes_per_workload_and_second": round(
            first.writes / max(1, count) / first.seconds, 3
        ),
        "hub_cpu_s": round(cpu_s, 1),
    }
    lag = {
        "p99_of_storms_ms": [round(one, 1) for one in lags],
        "samples": round(first.after[math.inf] - first.before[math.inf]),
        "median_ms": round(served.quantile(first.after, first.before, 50) * 1000, 2),
        "at_most_so_many_s": {
            str(bound): round(first.after[bound] - first.before[bound])
            for bound in sorted(first.after)
        },
    }
    return [
        Result("T3", ours=max(storm.worst() for storm in storms), notes=notes),
        Result("T3lag", ours=harness.middle(lags), notes=lag),
    ]


class Storm(NamedTuple):
    """What was seen of one storm."""

    sent: int
    seconds: float
    before: Mapping[float, float]
    after: Mapping[float, float]
    """The histogram of the hub's lag."""
    times: list[list[float]]
    """When statuses were written, by workload."""

    @property
    def writes(self) -> int:
        return sum(len(times) for times in self.times)

    def worst(self, *, settling: bool = False) -> int:
        """The most writes of one workload within a second. The write that says "settled" is made at
        once, whenever that is: it is not part of what moves."""
        kept = (times if settling else times[:-1] for times in self.times)
        return max((_densest(times) for times in kept), default=0)


class StatusWrites:
    """When the status of each workload on the host changed."""

    def __init__(self, federation: Federation) -> None:
        self.client = federation.client("host")
        self.times: dict[str, list[float]] = defaultdict(list)
        self._last = 0.0

    async def follow(self) -> None:
        """Watches until cancelled."""
        statuses: dict[str, object] = {}
        async for event in self.client.watch("apps/v1", "deployments"):
            name, status = event.object["metadata"].get("name", ""), event.object.get("status")
            if event.type == "MODIFIED" and statuses.get(name) != status:
                self._last = time.perf_counter()
                self.times[name].append(self._last)
            statuses[name] = status

    async def quiet(self) -> bool:
        """Whether nothing was written for a while."""
        return time.perf_counter() - self._last > QUIET_S


def _densest(times: list[float]) -> int:
    """The most writes within any one second; a hair less, because a timer may ring a hair early."""
    return max(
        (sum(begin <= at < begin + WINDOW_S * 0.98 for at in times) for begin in times), default=0
    )


async def _dispatched(federation: Federation, count: int) -> bool:
    counts = [
        member.store.count(member.registry.get("apps", "deployments"))
        for member in federation.members.values()
    ]
    return min(counts) == count


async def _storm(federation: Federation, count: int) -> int:
    """Every slice's copies become ready one after the other, in all members at once, evenly over
    the storm.
    """
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
            standins.write_status(
                federation.members[cluster], ("apps", "deployments"), ("bench", name), status
            )
            sent += 1
        await asyncio.sleep(0.0005)
    return sent
