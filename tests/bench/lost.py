"""R2 and R2d: one of ten members is gone, with a copy of each of a thousand workloads; how long until
all of them are applied elsewhere.

The members are bare embedded APIs, served over HTTPS; the hub is a process of its own. The server of
the first member is closed. R2d is until the hub has tainted it (its grace is 10 s here), R2 from there
until every workload has its slice in another member. The floor of R2 sends the same writes (decision,
slice, status) from another process with the same client, with no logic between them.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from federator.api.placement import decisionfacts
from federator.embedded import http
from federator.hub.members.process_watch import LEASE
from federator.hub.options import HubOptions
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.login import connect
from federator.sandbox.federation import Federation, ensure
from tests.bench import fleets, floors, served, standins
from tests.bench.harness import Result

CLUSTERS = 10
GONE = "m000"
GRACE_S, PROBE_S, ANSWER_S = 10.0, 1.0, 5.0
LOOK_S = 5.0
"""Between two looks of the governor while nothing moves."""
BOUND_S = GRACE_S + 1.1 * PROBE_S + ANSWER_S + LOOK_S
HEARTBEAT_S = 1.0
OPTIONS: Mapping[str, Any] = {
    "unready_after_s": GRACE_S,
    "probe_interval_s": PROBE_S,
    "probe_timeout_s": ANSWER_S,
    "lease_duration_s": 60.0,  # eleven servers share a process, and are slow when they are busy
    "lease_renew_deadline_s": 45.0,
    "evacuated_copies_a_minute": 10_000_000,  # the pace is for people, and would be all there is
}
DEPLOYMENTS = ("apps", "deployments")
DECISIONS = ("federation.pinterest.com", "placementdecisions")
MEMBERS = ("federation.pinterest.com", "memberclusters")
LEASES = ("coordination.k8s.io", "leases")
RAW = "raw-"


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results = runner.run(_run(max(20, round(1000 * scale)), Path(room)))
        yield from (result for result in results if result.id in wanted)


async def _run(count: int, room: Path) -> list[Result]:
    federation = fleets.federation(
        fleets.fleet(CLUSTERS, nodes=1), RealClock(), fleets.Ledger(), **OPTIONS
    )
    servers = await http.serve_all([federation.host, *federation.members.values()])
    kubeconfigs = {name: http.kubeconfig({name: one}, name) for name, one in servers.items()}
    for name, text in kubeconfigs.items():
        (room / f"{name}.kubeconfig").write_text(text)
    http.write_kubeconfig(room / "host.kubeconfig", {"host": servers["host"]}, "host")
    await federation.install(kubeconfigs)
    await standins.say(federation)
    hub, alive = served.Hub(room, OPTIONS), asyncio.create_task(_renew(federation))
    try:
        await hub.start()
        await hub.until_ready(60.0)
        await _placed(federation, hub, count)
        gc.collect()
        gc.freeze()
        before, cpu_s, at_first = served.writes(federation), hub.cpu_s, time.perf_counter()
        await servers.pop(GONE).close()
        await hub.until(lambda: _tainted(federation), within_s=60.0, said="sure that it is gone")
        detected_s = time.perf_counter() - at_first
        await hub.until(lambda: _elsewhere(federation, 1), within_s=60.0, said="moving anything")
        begun_s = time.perf_counter() - at_first - detected_s
        await hub.until(lambda: _elsewhere(federation, count), within_s=120.0, said="done")
        moved_s = time.perf_counter() - at_first - detected_s
        cpu_s = hub.cpu_s - cpu_s
        await asyncio.sleep(3.0)  # for what is written after the slices
        written = served.writes(federation) - before
        await hub.stop()
        floor = await _raw(federation, room, count)
    finally:
        alive.cancel()
        await hub.stop()
        for server in servers.values():
            await server.close()
    notes = {
        "workloads": count,
        "from_failure_to_applied_s": round(detected_s + moved_s, 2),
        "first_applied_after_s": round(begun_s, 2),
        "hub_cpu_s": round(cpu_s, 2),
        "written": dict(written),
    }
    return [
        Result("R2", ours=moved_s, floor=floor, notes=notes),
        Result("R2d", ours=detected_s, notes={"bound_s": BOUND_S, "grace_s": GRACE_S}),
    ]


async def _renew(federation: Federation) -> None:
    """Member processes live."""
    space = federation.hub_options.system_namespace
    while True:
        for cluster in federation.members.values():
            resource = cluster.registry.get(*LEASES)
            lease = cluster.store.get(resource, space, LEASE)
            assert lease is not None
            spec = {"renewTime": federation.clock.rfc3339_micro()}
            cluster.store.update(resource, {**lease.obj, "spec": spec})
        await asyncio.sleep(HEARTBEAT_S)


async def _placed(federation: Federation, hub: served.Hub, count: int) -> None:
    """One copy of each workload is in the first member, which is a group of its own."""
    host = federation.client("host")
    policy = fleets.spread_policy("Capacity")
    rest = [name for name in federation.members if name != GONE]
    policy["spec"]["division"]["groups"] = [
        {"name": "first", "names": [GONE]},
        {"name": "rest", "names": rest},
    ]
    policy["spec"]["failover"] = {"afterSeconds": 0, "failback": "Never"}
    await ensure(host, policy, "clusterplacementpolicies")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
    for name in ("host", *federation.members):
        await ensure(federation.client(name), space, "namespaces")
    await hub.until(lambda: _ready(federation), within_s=60.0, said="content with all members")
    for index in range(count):
        await ensure(host, fleets.deployment(f"d{index}", "bench", 1), "deployments")

    async def dispatched() -> bool:
        return _held(federation)[GONE] == count

    await hub.until(dispatched, within_s=120.0, said="through with dispatching")
    await asyncio.sleep(3.0)


async def _ready(federation: Federation) -> bool:
    host = federation.host
    members = host.store.items(host.registry.get(*MEMBERS))
    return all((one.obj.get("status") or {}).get("summary") == "Ready" for one in members)


def _held(federation: Federation) -> Counter[str]:
    """Slices by member."""
    return Counter(
        {
            name: cluster.store.count(cluster.registry.get(*DEPLOYMENTS))
            for name, cluster in federation.members.items()
        }
    )


async def _tainted(federation: Federation) -> bool:
    host = federation.host
    member = host.store.get(host.registry.get(*MEMBERS), "", GONE)
    return member is not None and bool((member.obj.get("status") or {}).get("taints"))


async def _elsewhere(federation: Federation, count: int) -> bool:
    held = _held(federation)
    return sum(held.values()) - held[GONE] >= count


async def _raw(federation: Federation, room: Path, count: int) -> float:
    """Seconds in which another process sends the same writes. Workloads and decisions are there
    before, as they were.
    """
    host = federation.host
    work = []
    for index in range(count):
        (workload, decision, held, cluster) = _of(federation, f"d{index}")
        name = f"{RAW}{index}"
        status = workload["status"]
        workload = {**workload, "metadata": _named(workload, name)}
        decision = {**decision, "metadata": _named(decision, name)}
        host.store.create(host.registry.get(*DEPLOYMENTS), workload)
        made = host.store.create(host.registry.get(*DECISIONS), decision).obj
        spec = {**made["spec"], "causes": ["another one"]}
        decision = {**decision, "metadata": made["metadata"], "spec": spec}
        body = {**held, "metadata": _named(held, name)}
        body.pop("status", None)
        work.append([workload["metadata"], status, decision, cluster, body])
    (room / "work.json").write_text(json.dumps(work))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench.lost",
        str(room),
        "host",
        *(name for name in federation.members if name != GONE),
        cwd=served.ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the floor's process has failed"
    return float(json.loads(output))


def _of(
    federation: Federation, name: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]:
    """A workload, its decision, and the slice that came of it, with its cluster."""
    host = federation.host
    workload = host.store.get(host.registry.get(*DEPLOYMENTS), "bench", name)
    assert workload is not None
    decision = next(
        one.obj
        for one in host.store.items(host.registry.get(*DECISIONS))
        if one.obj["spec"]["workload"]["name"] == name
    )
    (share,) = decisionfacts.shares(decision)
    cluster = federation.members[share.cluster]
    held = cluster.store.get(cluster.registry.get(*DEPLOYMENTS), "bench", name)
    assert held is not None
    return workload.obj, decision, held.obj, share.cluster


def _named(obj: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Its metadata under another name, as of a new object."""
    meta = obj["metadata"]
    kept = {key: meta[key] for key in ("namespace", "labels", "annotations") if key in meta}
    return {**kept, "name": name}


async def _send_all(room: Path, names: Sequence[str]) -> float:
    """In the floor's process."""
    clients = {
        name: Client(await connect.from_kubeconfig(str(room / f"{name}.kubeconfig")), name)
        for name in names
    }
    options = HubOptions()
    lanes = {
        name: asyncio.Semaphore(
            options.host_writes_in_flight if name == "host" else options.lane_writes_in_flight
        )
        for name in clients
    }

    async def one(
        meta: Mapping[str, Any],
        status: Mapping[str, Any],
        decision: Mapping[str, Any],
        cluster: str,
        body: Mapping[str, Any],
    ) -> None:
        named = {"uid": decision["metadata"]["uid"]}
        named["resourceVersion"] = decision["metadata"]["resourceVersion"]
        async with lanes["host"]:
            patch = {"metadata": named, "spec": decision["spec"]}
            await clients["host"].patch(floors.ref_of(decision), patch)
        async with lanes[cluster]:
            await clients[cluster].create(floors.ref_of(body), body)
        ref = floors.ref_of({**body, "metadata": meta})
        async with lanes["host"]:
            await clients["host"].patch(ref, {"status": status}, subresource="status")

    work = json.loads((room / "work.json").read_text())
    for client in clients.values():  # a hub's connections are open
        await client.list("v1", "namespaces", limit=1)
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for entry in work:
            group.create_task(one(*entry))
    took_s = time.perf_counter() - begun
    for client in clients.values():
        await client.close()
    return took_s


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as one_runner:
        print(json.dumps(one_runner.run(_send_all(Path(sys.argv[1]), sys.argv[2:]))))
