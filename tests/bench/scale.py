"""`make scale`: a federation of many members, and what it takes to place, apply and report many
workloads on three clusters each, to roll some out at once, and to place one on a hundred clusters.

The hub is a process of its own and speaks HTTPS to embedded API servers, which this process serves.
This process is also the user and the members' Deployment controllers: copies are ready a second
after they are asked for. All times are those of the machine as it is, and both processes share it.
The report of each size goes into docs/scale.md and build/scale.json.
"""

import argparse
import asyncio
import functools
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvloop

from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation, ensure
from tests.bench import calibrate, fleets, scalereport, served, standins
from tests.bench.scalereport import Phase, Report

OUT: Final = Path(__file__).parents[2] / "build" / "scale.json"
PER_WORKLOAD: Final = 3
"""Clusters of each workload: as many copies, one in each."""
ROLL_OUTS: Final = 100
WIDE: Final = 100
"""Clusters of the one workload that is placed on many."""
READY_S: Final = 1.0
"""Seconds until the stand-in controllers of a member have copies ready."""
ALONE: Final = {"leader_election": False}
"""Options of a hub that no other one waits for. The process that serves the host also serves all
members and is the user: beside other work it may not come to a renewal of a lease for a minute, and
a hub that loses its lease ends."""
USERS: Final = 32
"""Requests of the user in flight."""
DEPLOYMENTS: Final = ("apps", "deployments")
DECISIONS: Final = ("federation.pinterest.com", "placementdecisions")


@dataclass(slots=True)
class Seen:
    """When each workload got how far, in seconds of `time.perf_counter`. Filled from inside the
    stores' writes, cleared before each phase."""

    clusters: int = PER_WORKLOAD
    placed: dict[str, float] = field(default_factory=dict)
    applied: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    slices: Counter[str] = field(default_factory=Counter)

    def begin(self, clusters: int = PER_WORKLOAD) -> None:
        self.clusters = clusters
        for book in (self.placed, self.applied, self.ready, self.slices):
            book.clear()

    def on_decision(self, event: Any) -> None:
        if event.type != "DELETED":
            name = event.current.obj["spec"]["workload"]["name"]
            self.placed.setdefault(name, time.perf_counter())

    def on_slice(self, name: str) -> None:
        self.slices[name] += 1
        if self.slices[name] == self.clusters:
            self.applied[name] = time.perf_counter()

    def on_workload(self, event: Any) -> None:
        if event.type != "DELETED" and is_settled(event.current.obj):
            self.ready.setdefault(event.key[1], time.perf_counter())
        elif event.type != "DELETED":
            self.ready.pop(event.key[1], None)


def is_settled(obj: Mapping[str, Any]) -> bool:
    """Whether the host's status says that the present generation is ready everywhere."""
    status = obj.get("status") or {}
    if status.get("observedGeneration") != obj["metadata"].get("generation"):
        return False
    conditions = status.get("conditions") or ()
    return any(one["type"] == "Reconciling" and one["status"] == "False" for one in conditions)


class Members:
    """The members' Deployment controllers."""

    def __init__(self, federation: Federation, seen: Seen) -> None:
        self._federation = federation
        self._seen = seen
        for name, cluster in federation.members.items():
            resource = cluster.registry.get(*DEPLOYMENTS)
            cluster.store.subscribe(resource, functools.partial(self._on, name))

    def _on(self, cluster: str, event: Any) -> None:
        if event.type == "DELETED":
            return
        obj = event.current.obj
        generation = obj["metadata"]["generation"]
        if (
            event.previous is not None
            and event.previous.obj["metadata"]["generation"] == generation
        ):
            return
        name = event.key[1]
        self._seen.on_slice(name)
        asyncio.get_running_loop().call_later(READY_S, self._ready, cluster, name)

    def _ready(self, cluster: str, name: str) -> None:
        member = self._federation.members[cluster]
        found = member.store.get(member.registry.get(*DEPLOYMENTS), "bench", name)
        if found is None:
            return
        counters = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {
            "observedGeneration": found.obj["metadata"]["generation"],
            **dict.fromkeys(counters, found.obj["spec"]["replicas"]),
        }
        standins.write_status(member, DEPLOYMENTS, ("bench", name), status)


class Bench:
    """One federation and its hub."""

    def __init__(self, federation: Federation, hub: served.Hub, seen: Seen) -> None:
        self.federation = federation
        self.hub = hub
        self.seen = seen

    async def phase(
        self,
        name: str,
        work: Callable[[], Iterable[Any]],
        reached: Sequence[tuple[str, Mapping[str, float]]],
        count: int,
        *,
        clusters: int = PER_WORKLOAD,
        within_s: float,
    ) -> Phase:
        """Does the user's `work`, waits until the last book of `reached` has `count` workloads, and
        reports when each book had which."""
        await self._quiet()
        self.seen.begin(clusters)
        writes, cpu_s, moved = served.writes(self.federation), self.hub.cpu_s, self.hub.moved_bytes
        begun = time.perf_counter()
        gate = asyncio.Semaphore(USERS)

        async def one(request: Any) -> None:
            async with gate:
                await request

        await asyncio.gather(*(one(request) for request in work()))
        asked_s = time.perf_counter() - begun
        peak = self.hub.memory_mb

        async def done() -> bool:
            nonlocal peak
            peak = max(peak, self.hub.memory_mb)
            return all(len(book) >= count for _, book in reached)

        try:
            await self.hub.until(done, within_s=within_s - asked_s, said=f"through with {name}")
        except TimeoutError as late:
            missing = {what: count - len(book) for what, book in reached}
            raise TimeoutError(f"{late}; missing: {missing}") from None
        times = {what: sorted(at - begun for at in book.values()) for what, book in reached}
        return Phase(
            name=name,
            workloads=count,
            asked_s=asked_s,
            times={what: scalereport.spread(found) for what, found in times.items()},
            hub_cpu_s=self.hub.cpu_s - cpu_s,
            hub_memory_mb=max(peak, self.hub.memory_mb),
            hub_bytes=self.hub.moved_bytes - moved,
            writes=sum((served.writes(self.federation) - writes).values()),
        )

    async def _quiet(self) -> None:
        """Until nothing has been written for a while."""
        before = served.writes(self.federation)
        while True:
            await asyncio.sleep(3.0)
            now = served.writes(self.federation)
            if now == before:
                return
            before = now


async def run(members: int, workloads: int, within_s: float, room: Path) -> Report:
    """Measures one size. Raises TimeoutError with the phase that was not done in time."""
    federation = fleets.federation(
        fleets.fleet(members, nodes=1), RealClock(), fleets.Ledger(), **standins.PATIENT
    )
    seen = Seen()
    async with served.serving(federation, room) as kubeconfigs:
        await federation.install(kubeconfigs)
        await standins.say(federation)
        Members(federation, seen)
        host = federation.host
        host.store.subscribe(host.registry.get(*DECISIONS), seen.on_decision)
        host.store.subscribe(host.registry.get(*DEPLOYMENTS), seen.on_workload)
        client = federation.client("host")
        await ensure(client, fleets.spread_policy(), "clusterplacementpolicies")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        await ensure(client, namespace, "namespaces")
        gc.collect()
        gc.freeze()
        hub = served.Hub(room, {**standins.PATIENT, **ALONE})
        begun = time.perf_counter()
        await hub.start()
        try:
            await hub.until_ready(within_s)
            # A hub does not wait for every member before it decides.
            everybody = functools.partial(standins.all_ready, federation)
            await hub.until(everybody, within_s=within_s, said="in touch with all members")
            started_s = time.perf_counter() - begun
            phases = await _phases(Bench(federation, hub, seen), members, workloads, within_s)
        finally:
            await hub.stop()
    return Report(
        members=members,
        workloads=workloads,
        commit=_commit(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        calibration=calibrate.score(),
        machine=f"{os.cpu_count()} cores, CPython {platform.python_version()}",
        hub_ready_s=started_s,
        phases=tuple(phases),
    )


async def _phases(bench: Bench, members: int, workloads: int, within_s: float) -> list[Phase]:
    client, seen = bench.federation.client("host"), bench.seen
    wide, rolled = min(WIDE, members), min(ROLL_OUTS, workloads)
    whole = (("placed", seen.placed), ("applied", seen.applied), ("ready", seen.ready))

    def creates(names: Iterable[str], copies: int) -> Iterable[Any]:
        for name in names:
            body = fleets.deployment(name, "bench", copies)
            yield client.create(_ref(name), body)

    def edits() -> Iterable[Any]:
        image = {"containers": [{"name": "app", "image": "registry.example/app:2"}]}
        body = {"spec": {"template": {"spec": image}}}
        for index in range(rolled):
            yield client.patch(_ref(f"w{index}"), body, kind="strategic")

    copies = min(PER_WORKLOAD, members)
    names = [f"w{index}" for index in range(workloads)]
    return [
        await bench.phase(
            f"{workloads:,} workloads on {copies} clusters each",
            lambda: creates(names, copies),
            whole,
            workloads,
            clusters=copies,
            within_s=within_s,
        ),
        await bench.phase(
            f"{rolled} roll-outs at once",
            edits,
            (("applied", seen.applied), ("ready", seen.ready)),
            rolled,
            clusters=copies,
            within_s=within_s,
        ),
        await bench.phase(
            f"1 workload on {wide} of {members:,} clusters",
            lambda: creates(["wide"], wide),
            whole,
            1,
            clusters=wide,
            within_s=within_s,
        ),
    ]


def _ref(name: str) -> ObjectRef:
    return ObjectRef("apps/v1", "deployments", "bench", name, "Deployment")


def _commit() -> str:
    command = ["git", "-C", str(OUT.parents[1]), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "-"
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What a federation of this size takes.")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--within", type=float, default=3600.0, help="seconds for each phase")
    parser.add_argument("--try-out", action="store_true", help="leave docs/scale.md as it is")
    options = parser.parse_args(arguments)
    if options.members < 1 or options.workloads < 1:
        parser.error("--members and --workloads must be at least 1")
    with (
        tempfile.TemporaryDirectory(prefix="federator-scale-") as room,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        report = runner.run(run(options.members, options.workloads, options.within, Path(room)))
    print(scalereport.text(report))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(scalereport.as_dict(report), indent=1) + "\n", encoding="utf-8")
    if not options.try_out:
        scalereport.write(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
