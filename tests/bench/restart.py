"""R1, R1w, M1 and H1: a hub starts on a host with 100,000 placed workloads, two slices each, and is
left alone.

One workload is placed by a real hub first; all others are copies of what it wrote, with their own
names, uids and hashes of inputs, put into the stores directly. That nothing is written afterwards
proves that they are right. The floor lists the same objects with the same requests, the members' by
the fleet's label, and decodes them.
"""

import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import uvloop

from federator.api.placement import decisionfacts
from federator.hub.options import HubOptions
from federator.hub.records import slices, workloads
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.wire import decode
from federator.model import names
from federator.placement import inputs
from federator.sandbox.federation import Federation, ensure
from tests.bench import fleets, served, standins
from tests.bench.harness import Result

CLUSTERS = 2
REPLICAS = 4
LINGER_S = 5.0
"""Seconds between two looks at what the hub takes, while it compares slices after it is ready."""
COMPARED_S = 300.0
REST_S = 180.0
"""How long it is left alone after that: it drills, and does nothing else. An answer of the snapshot
worker takes 2 s at most, and rests for 67 times as long."""
NAME = "first"
DEPLOYMENTS = ("apps", "deployments")
DECISIONS = ("federation.pinterest.com", "placementdecisions")
MEMBERS = ("federation.pinterest.com", "memberclusters")
POLICIES = ("federation.pinterest.com", "clusterplacementpolicies")


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(_run(max(100, round(100_000 * scale)), Path(room)))
        yield from (result for result in found if result.id in wanted)


async def _run(count: int, room: Path) -> list[Result]:
    ledger = fleets.Ledger()
    federation = fleets.federation(
        fleets.fleet(CLUSTERS, nodes=1), RealClock(), ledger, **standins.PATIENT
    )
    async with served.serving(federation, room) as kubeconfigs:
        await federation.install(kubeconfigs)
        await standins.say(federation)
        begun = time.perf_counter()
        await _copied(federation, count)
        made_s = time.perf_counter() - begun
        gc.collect()
        gc.freeze()
        gc.set_threshold(200_000, 50, 100)
        await _listed_by_a_process(
            room
        )  # every server renders its objects once; that is nobody's start
        floor = await _listed_by_a_process(room)
        before = served.writes(federation)
        hub = served.Hub(room, standins.PATIENT)
        begun = time.perf_counter()
        await hub.start()
        try:
            await hub.until_ready(300.0)
            took, at_ready, ready_cpu_s = time.perf_counter() - begun, hub.memory_mb, hub.cpu_s
            await _compared(hub)
            memory, begun = hub.memory_mb, time.perf_counter()
            spent, in_worker = hub.cpu_s, hub.worker_cpu_s
            await asyncio.sleep(REST_S)
            rested_s = time.perf_counter() - begun
            hub_s, worker_s = hub.cpu_s - spent, hub.worker_cpu_s - in_worker
            written = served.writes(federation) - before
            reads = sum(
                n
                for one in federation.members.values()
                for (verb, _), n in one.api.requests.items()
                if verb == "get"
            )
        finally:
            await hub.stop()
    return [
        Result(
            "R1",
            ours=took,
            floor=floor,
            notes={
                "workloads": count,
                "seconds_to_set_up": round(made_s, 1),
                "hub_cpu_s": round(ready_cpu_s, 1),
                "hub_cpu_s_when_compared": round(spent, 1),
            },
        ),
        Result(
            "R1w",
            ours=sum(written.values()),
            notes={"written": dict(written), "slices_read_again": reads, "of": CLUSTERS * count},
        ),
        Result("M1", ours=memory, notes={"when_ready_mb": round(at_ready), "workloads": count}),
        Result(
            "H1",
            ours=100 * (hub_s + worker_s) / rested_s,
            notes={
                "seconds": round(rested_s),
                "workloads": count,
                "hub_s": round(hub_s, 2),
                "worker_s": round(worker_s, 2),
            },
        ),
    ]


async def _compared(hub: served.Hub) -> None:
    """Waits until the hub has compared all that runs with what it has decided: until it takes less
    than a tenth of a processor. Raises TimeoutError."""
    before = hub.cpu_s
    async with asyncio.timeout(COMPARED_S):
        while True:
            await asyncio.sleep(LINGER_S)
            now = hub.cpu_s
            if now - before < LINGER_S / 10:
                return
            before = now


async def _copied(federation: Federation, count: int) -> None:
    """Places one workload with a hub and copies what came of it. That hub stands for election, so
    that it leaves a released Lease, as each hub that is stopped in order."""
    federation.election = True
    federation.start_hub()
    host = federation.client("host")
    await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
    for name in ("host", *federation.members):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        await ensure(federation.client(name), namespace, "namespaces")
    await ensure(host, fleets.deployment(NAME, "bench", REPLICAS), "deployments")
    async with asyncio.timeout(60.0):
        members = federation.members.values()
        while any(_get(one, DEPLOYMENTS, NAME) is None for one in members):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    for cluster in federation.members.values():
        replicas = REPLICAS // CLUSTERS
        status = {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
        }
        standins.write_status(
            cluster, DEPLOYMENTS, ("bench", NAME), {**status, "availableReplicas": replicas}
        )
    await federation.until_settled(60.0)
    await asyncio.sleep(2.0)
    hub = federation.hub
    for member in federation.members.values():
        standins.report_room(member, includes_seq=hub.state.issued)
    copier = Copier(federation)
    for index in range(count - 1):
        copier.copy(f"w{index}", index)
    await federation.kill("hub")
    for name in federation.members:
        obj = _get(federation.host, MEMBERS, name, namespace="")
        assert obj is not None
        capacity = {**obj["status"]["capacity"], "includesSeq": hub.state.issued}
        known = {**obj["status"], "slices": count, "capacity": capacity}
        standins.write_status(federation.host, MEMBERS, ("", name), known)
    (policy,) = federation.host.store.items(federation.host.registry.get(*POLICIES))
    matched = {**policy.obj["status"], "matched": count}
    standins.write_status(federation.host, POLICIES, ("", policy.obj["metadata"]["name"]), matched)


class Copier:
    """Makes workloads like the first one, through the stores."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.placing = federation.hub.controllers.placing
        self.seals = federation.hub.state.seals
        self.snapshot = self.placing.state.snapshot(self.placing.clock)
        found = _get(federation.host, DEPLOYMENTS, NAME)
        listed = federation.host.store.items(federation.host.registry.get(*DECISIONS))
        assert found is not None
        self.workload, self.decision = found, listed[0].obj
        self.shares = decisionfacts.shares(self.decision)
        self.verbs = registry.verbs_of("Deployment")
        self.slices = {
            name: _get(cluster, DEPLOYMENTS, NAME) for name, cluster in federation.members.items()
        }
        self.rng = random.Random(7)

    def copy(self, name: str, index: int) -> None:
        host, federation = self.federation.host, self.federation
        metadata = _fresh(self.workload["metadata"], name)
        made = host.store.create(
            host.registry.get(*DEPLOYMENTS), {**self.workload, "metadata": metadata}
        ).obj
        uid = made["metadata"]["uid"]
        summary = workloads.summarise("Deployment", made, None)
        ask = self.placing.asked(summary)
        assert ask is not None, summary.problem
        spec = {
            **self.decision["spec"],
            "workload": {**self.decision["spec"]["workload"], "name": name, "uid": uid},
            "inputsHash": inputs.inputs_hash(ask, self.snapshot),
        }
        decided = _fresh(self.decision["metadata"], names.decision_name("deploy", name, uid))
        # What bears no seal of its own is not the hub's, and would be written over.
        spec["seal"] = self.seals.of(decided["namespace"], decided["name"], spec)
        decided["labels"] = {**decided["labels"], names.WORKLOAD_UID_LABEL: uid}
        (owner,) = decided["ownerReferences"]
        decided["ownerReferences"] = [{**owner, "name": name, "uid": uid}]
        decision = {**self.decision, "metadata": decided, "spec": spec}
        host.store.create(host.registry.get(*DECISIONS), decision)
        for share in self.shares:
            member = federation.members[share.cluster]
            body = slices.render(self.verbs, made, share, fleet=federation.hub_options.fleet)
            body["spec"] = self.slices[share.cluster]["spec"]  # type: ignore[index]
            status = self.slices[share.cluster]["status"]  # type: ignore[index]
            member.store.create(member.registry.get(*DEPLOYMENTS), {**body, "status": status})


def _fresh(metadata: Mapping[str, Any], name: str) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key not in ("uid", "resourceVersion")}
    return {**kept, "name": name}


def _get(
    cluster: Any, kind: tuple[str, str], name: str, namespace: str = "bench"
) -> dict[str, Any] | None:
    found = cluster.store.get(cluster.registry.get(*kind), namespace, name)
    return None if found is None else found.obj


async def _listed_by_a_process(room: Path) -> float:
    """Seconds in which another process lists and decodes everything that a hub needs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench.restart",
        str(room),
        cwd=served.ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the floor's process has failed"
    return float(json.loads(output))


async def _list_all(room: Path) -> float:
    """In that process. The members' kubeconfigs are in their Secrets, as for a hub."""
    from federator import app
    from federator.kube.login import connect
    from federator.model.steps import ObjectRef

    begun = time.perf_counter()
    host = Client(await connect.from_kubeconfig(str(room / "host.kubeconfig")), "host")
    clients = [host]
    for obj in (await host.list("federation.pinterest.com/v1alpha1", "memberclusters")).items:
        secret = await host.get(
            ObjectRef("v1", "secrets", "federator-clusters", obj["metadata"]["name"], "Secret")
        )
        clients.append(
            Client(app.member_transport(obj, secret, allow_loopback=True), obj["metadata"]["name"])
        )
    ours = slices.fleet_selector(HubOptions().fleet)
    wanted = [
        (client, "apps/v1", "deployments", "" if client is host else ours) for client in clients
    ]
    wanted.append((host, "federation.pinterest.com/v1alpha1", "placementdecisions", ""))
    await asyncio.gather(*(_read(*one) for one in wanted))
    took = time.perf_counter() - begun
    for client in clients:
        await client.close()
    return took


async def _read(client: Client, api_version: str, plural: str, selector: str) -> None:
    async for page in client.pages(api_version, plural, label_selector=selector):
        list(decode.items(page, api_version))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as one_runner:
        print(json.dumps(one_runner.run(_list_all(Path(sys.argv[1])))))
