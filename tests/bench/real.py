"""S1, S1f, S1p, S3, S4r and S5r: the federation on a host and three members of real API servers.

One start of the servers serves all rows: the floors, then the hub with member processes; S4r has
the hub alone. This process is the user, and where a row says so the members' controllers; it watches,
and never places.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from federator.api.placement import decisionfacts
from federator.kube import errors
from federator.kube.client import Client
from federator.sandbox.federation import ensure
from tests.bench import fleets, floors, harness, realfleet
from tests.bench.floors import Floor, Pattern
from tests.bench.harness import Result
from tests.bench.realfleet import NAMESPACE, RealFleet, Writes
from tests.controlplane import nodes

P = len(realfleet.MEMBERS)
LIMIT_S = 240.0
USERS = 32
"""Requests of the user in flight."""
FLOOR = "floor"
ROUNDS = 3
"""Of S3, whose median counts."""
SETTLED_S = 15.0
"""By then processes that have just begun have looked at all that is there and have heard of each
other; what that costs is R1's.
"""


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="federator-bench-") as room,
        realfleet.started(Path(room)) as fleet,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        bench = Bench(fleet, scale)
        runner.run(bench.begin())
        steps = (
            ({"S1", "S1f", "S3", "S5r"}, bench.plain),
            ({"S4r"}, bench.settling),
            ({"S1p"}, bench.expanded),
        )
        try:
            for rows, step in steps:
                if wanted & rows:
                    yield from runner.run(step(wanted))
        finally:
            runner.run(bench.end())


class Seen:
    """What watches have shown: by cluster, the names of Deployments, and on the host those that are
    applied.
    """

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.arrived: dict[str, float] = {}
        """When a member first showed an object of that name."""
        self.applied: set[str] = set()
        self.check: Callable[[], Any] = list
        """Raises what a watch died of."""

    async def follow(
        self,
        client: Client,
        resource: tuple[str, str],
        told: Callable[[Mapping[str, Any]], Any] | None = None,
    ) -> None:
        """Watches one cluster for ever, all namespaces. A server that is busy may end a watch: it
        goes on then.
        """
        names = self.names.setdefault(client.cluster, set())
        version = ""
        while True:
            async for event in client.watch(*resource, resource_version=version):
                version = event.object["metadata"]["resourceVersion"]
                if event.type == "BOOKMARK":
                    continue
                name = event.object["metadata"]["name"]
                names.add(name)
                if client.cluster != "host":
                    self.arrived.setdefault(name, time.perf_counter())
                elif _applied(event.object):
                    self.applied.add(name)
                if told is not None:
                    told(event.object)

    def everywhere(self, names: set[str]) -> bool:
        """Whether every member has shown all of these names."""
        self.check()
        return all(names <= found for cluster, found in self.names.items() if cluster != "host")


def _applied(obj: Mapping[str, Any]) -> bool:
    """Whether the host's status says that all clusters have the present generation and share."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Applied" and one["status"] == "True" for one in conditions)


DEPLOYMENTS = ("apps/v1", "deployments")
SERVICES = ("pinterest.com/v1beta1", "pinterestservices")


class Bench:
    """The rows, in the order in which they are measured."""

    def __init__(self, fleet: RealFleet, scale: float) -> None:
        self.fleet = fleet
        self.count = max(20, round(1000 * scale))
        self.services = max(10, round(1000 * scale))
        self.rest_s = max(10.0, 60.0 * min(1.0, scale))
        self.samples = max(10, round(40 * scale))

    async def begin(self) -> None:
        self.fleet.open()
        await self.fleet.join()

    async def end(self) -> None:
        await self.fleet.close()

    # -- plain Deployments -------------------------------------------------------------------------

    async def plain(self, wanted: frozenset[str]) -> list[Result]:
        """S1, S1f, S3 and S5r."""
        results: list[Result] = []
        async with self._machines():
            await self._start()
            await self._through("warm", 40)
            pattern = await self._pattern("warm-0")
            self._stop()
            floor = await self._floor(pattern, f"{FLOOR}-a")
            bare = await self._floor(pattern, f"{FLOOR}-c", floors.shortest)
            single = await self._latency_floor(pattern)
            await self.fleet.clear(FLOOR)
            await self._start()
            if "S3" in wanted:
                results.append(await self._latency(single))
            if wanted & {"S1", "S1f", "S5r"}:
                before, spent = await self.fleet.writes(), self.fleet.spent()
                took, members_s = await self._through("work", self.count)
                cpu = realfleet.since(self.fleet.spent(), spent)
                written = per_workload(await self.fleet.writes(), before, self.count)
                memory = self.fleet.memory_mb("hub")
            if "S5r" in wanted:
                results.append(await self._rest())
            if wanted & {"S1", "S1f"}:
                again, _ = await self._through(
                    "more", self.count
                )  # as often as the floor: the machine's speed moves
            self._stop()
            if wanted & {"S1", "S1f"}:
                floor_b = await self._floor(pattern, f"{FLOOR}-b")
                await self.fleet.clear(FLOOR)  # or the next hub would place them
                notes = {
                    "workloads": self.count,
                    "per_second": round(2 * self.count / (took + again), 1),
                    "each": [round(took, 2), round(again, 2)],
                    "first_in_members_after_s": round(members_s, 2),
                    "floors": [round(floor, 2), round(floor_b, 2), round(bare, 2)],
                    "writes_per_workload": written,
                    "hub_memory_mb": round(memory),
                    "cpu_s": cpu,
                }
                ours = (took + again) / 2
                found = (
                    Result("S1", ours=ours, floor=(floor + floor_b) / 2, notes=notes),
                    Result("S1f", ours=ours, floor=bare, notes={"floor_of": "shortest bodies"}),
                )
                results += [result for result in found if result.id in wanted]
        return results

    async def _start(self) -> None:
        """Hub and member processes, until they have looked at all that is there."""
        await self.fleet.start_hub_and_members()
        await asyncio.sleep(SETTLED_S)

    def _stop(self) -> None:
        for name in ("hub", "member"):
            self.fleet.stop(name)

    @contextlib.asynccontextmanager
    async def _machines(self) -> AsyncIterator[None]:
        """Stand-in nodes in each member."""
        with contextlib.ExitStack() as stack:
            for name, cluster in self.fleet.members.items():
                machines = nodes.many(f"{name}-n", 20, cpu="64", memory="512Gi", pods="250")
                stack.enter_context(
                    await asyncio.to_thread(_entered, nodes.running(cluster, machines))
                )
            yield

    async def _through(self, prefix: str, count: int) -> tuple[float, float]:
        """Seconds until every host status is written, and until every member had its Deployment."""
        names = {f"{prefix}-{index}" for index in range(count)}
        bodies = [fleets.deployment(name, NAMESPACE, P) for name in sorted(names)]
        async with self._watching(DEPLOYMENTS) as seen:
            begun = time.perf_counter()
            await create_all(self.fleet.clients["host"], bodies)
            await realfleet.within(
                self.fleet, LIMIT_S, "the members' Deployments", lambda: seen.everywhere(names)
            )
            members_s = time.perf_counter() - begun
            await realfleet.within(
                self.fleet, LIMIT_S, "the host's statuses", lambda: names <= seen.applied
            )
            return time.perf_counter() - begun, members_s

    @contextlib.asynccontextmanager
    async def _watching(
        self, resource: tuple[str, str], told: Callable[[str, Mapping[str, Any]], Any] | None = None
    ) -> AsyncIterator[Seen]:
        """Watches of the host and all members."""
        seen = Seen()
        tasks = []
        for name, client in self.fleet.clients.items():
            listener = None if told is None else (lambda obj, name=name: told(name, obj))
            tasks.append(asyncio.create_task(seen.follow(client, resource, listener)))
        await asyncio.sleep(0.5)
        seen.check = lambda: [task.result() for task in tasks if task.done()]
        try:
            yield seen
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _pattern(self, name: str, kind: tuple[str, str] = DEPLOYMENTS) -> Pattern:
        """What the hub wrote for one workload."""
        host = self.fleet.clients["host"]
        listed = await host.list(
            "federation.pinterest.com/v1alpha1", "placementdecisions", NAMESPACE
        )
        decision = next(obj for obj in listed.items if obj["spec"]["workload"]["name"] == name)
        found = (await host.list(*kind, NAMESPACE, field_selector=f"metadata.name={name}")).items[0]
        made = fleets.deployment if kind is DEPLOYMENTS else fleets.service
        return Pattern(
            kind=found["kind"],
            workload=made(name, NAMESPACE, P),
            decision={key: decision[key] for key in ("apiVersion", "kind", "metadata", "spec")},
            status=found.get("status") or {},
            shares={share.cluster: share for share in decisionfacts.shares(decision)},
        )

    async def _floor(
        self,
        pattern: Pattern,
        prefix: str,
        shaped: Callable[[floors.Requests], floors.Requests] = lambda found: found,
    ) -> float:
        """The same requests, without a hub."""
        await self._make_floor_namespace()
        work = [
            shaped(floors.requests(pattern, f"{prefix}-{index}", FLOOR))
            for index in range(self.count)
        ]
        floor = Floor(self.fleet.clients)
        return await floor.all(work, floor.carried)

    async def _make_floor_namespace(self) -> None:
        for client in self.fleet.clients.values():
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLOOR}}
            await ensure(client, body, "namespaces")

    # -- one at a time -----------------------------------------------------------------------------

    async def _latency_floor(self, pattern: Pattern) -> float:
        floor, times = Floor(self.fleet.clients), []
        for index in range(self.samples):
            times.append(await floor.in_a_row(floors.requests(pattern, f"single-{index}", FLOOR)))
            await asyncio.sleep(0.1)
        return harness.middle(times)

    async def _latency(self, floor: float) -> Result:
        """From just before the POST until a member's watch shows the object: the median of three
        rounds."""
        spent = self.fleet.spent()
        rounds = [await self._alone(number) for number in range(ROUNDS)]
        times = [took for one in rounds for took in one]
        notes = {
            "samples": len(times),
            "p50_of_rounds_ms": [round(harness.middle(one) * 1000, 1) for one in rounds],
            "slowest_ms": [round(took * 1000) for took in sorted(times)[-3:]],
            "failed_turns": self.fleet.failed_turns("hub")[-3:],
            "cpu_s": realfleet.since(self.fleet.spent(), spent),
        }
        ours = harness.middle(harness.middle(one) for one in rounds)
        return Result("S3", ours=ours * 1000, floor=floor * 1000, notes=notes)

    async def _alone(self, number: int) -> list[float]:
        """Seconds for each of a round's workloads, made one after the other."""
        host, times = self.fleet.clients["host"], []
        async with self._watching(DEPLOYMENTS) as seen:
            for index in range(self.samples):
                name = f"alone-{number}-{index}"
                body = fleets.deployment(name, NAMESPACE, 1)
                begun = time.perf_counter()
                await host.create(floors.ref_of(body), body)
                await self._shown(seen, name)
                times.append(seen.arrived[name] - begun)
                await asyncio.sleep(0.3)
        return times

    async def _shown(self, seen: Seen, name: str) -> None:
        """Until a member's watch has shown the object."""
        await realfleet.within(self.fleet, 30.0, name, lambda: name in seen.arrived, 0.001)

    # -- at rest -----------------------------------------------------------------------------------

    async def _rest(self) -> Result:
        """What is written in a minute in which nothing happens."""
        await asyncio.sleep(35.0)  # figures of members are copied twice a minute
        before, spent = await self.fleet.writes(), self.fleet.spent()
        await asyncio.sleep(self.rest_s)
        written = (await self.fleet.writes()) - before
        cpu = realfleet.since(self.fleet.spent(), spent)
        quiet = {"/".join(key): count for key, count in written.items() if "events" not in key[0]}
        return Result(
            "S5r",
            ours=sum(quiet.values()),
            notes={"seconds": self.rest_s, "written": quiet, "cpu_s": cpu},
        )

    # -- until settled -----------------------------------------------------------------------------

    async def settling(self, _wanted: frozenset[str]) -> list[Result]:
        """S4r: this process answers for the members' Deployment controllers, so that workloads
        settle.
        """
        count = max(10, self.count // 10)
        done: set[str] = set()
        pending: set[asyncio.Task[None]] = set()
        async with realfleet.beats(self.fleet):
            await self.fleet.start_hub()

            def told(cluster: str, obj: Mapping[str, Any]) -> None:
                if cluster == "host" and _settled(obj):
                    done.add(_name(obj))
                elif cluster != "host" and not (obj.get("status") or {}).get("observedGeneration"):
                    task = asyncio.create_task(self._act(cluster, obj))
                    pending.add(task)
                    task.add_done_callback(pending.discard)

            async with self._watching(DEPLOYMENTS, told):
                listed = await self.fleet.clients["host"].list(*DEPLOYMENTS, NAMESPACE)
                earlier = {_name(obj) for obj in listed.items}
                await realfleet.within(
                    self.fleet, LIMIT_S, "earlier ones to settle", lambda: earlier <= done
                )
                await asyncio.sleep(3.0)
                before, spent = await self.fleet.writes(), self.fleet.spent()
                names = {f"settled-{index}" for index in range(count)}
                for name in sorted(names):
                    # One by one: a crowd takes longer than a second to settle, and then progress
                    # may be told, too.
                    body = fleets.deployment(name, NAMESPACE, P)
                    await self.fleet.clients["host"].create(floors.ref_of(body), body)
                    await asyncio.sleep(0.2)
                await realfleet.within(
                    self.fleet, LIMIT_S, "settled statuses", lambda: names <= done
                )
                await asyncio.sleep(3.0)
                written = per_workload(await self.fleet.writes(), before, count)
                cpu = realfleet.since(self.fleet.spent(), spent)
            self.fleet.stop("hub")
        ours = {
            what: number
            for what, number in written.items()
            if not any(apart in what for apart in ("events", "memberclusters", "clustercapacities"))
            and what not in ("POST host/deployments", "PATCH members/deployments/status")
        }
        # The user's own POST and the stand-in controllers' statuses are not ours. Figures of
        # members are counted apart, as Events are: they come by the half minute, not by the
        # workload.
        notes = {"workloads": count, "writes_per_workload": written, "cpu_s": cpu}
        return [Result("S4r", ours=round(sum(ours.values()), 3), floor=P + 2, notes=notes)]

    async def _act(self, cluster: str, obj: Mapping[str, Any]) -> None:
        """What a Deployment controller says once all its pods are ready."""
        replicas = obj["spec"]["replicas"]
        counters = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {
            "observedGeneration": obj["metadata"]["generation"],
            **dict.fromkeys(counters, replicas),
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self.fleet.clients[cluster].patch(
                floors.ref_of(obj), {"status": status}, subresource="status"
            )

    # -- with member processes ---------------------------------------------------------------------

    async def expanded(self, _wanted: frozenset[str]) -> list[Result]:
        """S1p: PinterestServices until every member has the Deployment of its slice."""
        async with self._machines():
            await self._start()
            await self._services_through("swarm", 20)
            pattern = await self._pattern("swarm-0", SERVICES)
            before, spent = await self.fleet.writes(), self.fleet.spent()
            took = await self._services_through("serve", self.services)
            cpu = realfleet.since(self.fleet.spent(), spent)
            await asyncio.sleep(3.0)
            written = per_workload(await self.fleet.writes(), before, self.services)
            self._stop()
            await self._make_floor_namespace()
            work = [
                floors.requests(pattern, f"serve-{index}", FLOOR) for index in range(self.services)
            ]
            floor = Floor(self.fleet.clients)
            floor_s = await floor.all(work, floor.expanded)
        notes = {
            "workloads": self.services,
            "per_second": round(self.services / took, 1),
            "writes_per_workload": written,
            "cpu_s": cpu,
        }
        return [Result("S1p", ours=took, floor=floor_s, notes=notes)]

    async def _services_through(self, prefix: str, count: int) -> float:
        names = {f"{prefix}-{index}" for index in range(count)}
        bodies = [fleets.service(name, NAMESPACE, P) for name in sorted(names)]
        async with self._watching(DEPLOYMENTS) as seen:
            begun = time.perf_counter()
            await create_all(self.fleet.clients["host"], bodies)
            await realfleet.within(
                self.fleet, LIMIT_S, "the members' Deployments", lambda: seen.everywhere(names)
            )
            return time.perf_counter() - begun


def _entered(manager: Any) -> Any:
    """The manager, entered here: its waiting must not block the loop. It is left again on the way
    out.
    """
    manager.__enter__()

    @contextlib.contextmanager
    def leaving() -> Iterator[None]:
        try:
            yield
        finally:
            manager.__exit__(None, None, None)

    return leaving()


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def _settled(obj: Mapping[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Reconciling" and one["status"] == "False" for one in conditions)


async def create_all(client: Client, bodies: Sequence[Mapping[str, Any]]) -> None:
    """POSTs them, so many at a time."""
    gate = asyncio.Semaphore(USERS)

    async def one(body: Mapping[str, Any]) -> None:
        async with gate:
            await client.create(floors.ref_of(body), body)

    await asyncio.gather(*(one(body) for body in bodies))


def per_workload(after: Writes, before: Writes, count: int) -> dict[str, float]:
    """Writes per workload by "METHOD cluster/resource/subresource"."""
    return {
        f"{verb} {what}": round(number / count, 3)
        for (what, verb), number in sorted((after - before).items())
    }
