"""A host and three members on real API servers, with the hub (and, on request, member processes) as
processes.

Used by `real.py`. There are no controller managers and no kubelets: what is measured is the
federation and the API servers, nothing that runs pods. Where no member process runs, `Beats` keeps
the members' leases fresh, as one would.
"""

import asyncio
import base64
import contextlib
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from federator.api import clustercapacity
from federator.hub.members.process_watch import LEASE as EXPANDER_LEASE
from federator.hub.options import HubOptions
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.model.fleet import Capacity, NodeRow
from federator.model.resources import Resources
from federator.model.steps import ObjectRef
from federator.sandbox.federation import ensure, install_crds
from tests.bench import fleets
from tests.bench.proc import family_of, processor_s, resident_mb
from tests.controlplane import build
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane

MEMBERS = ("us-east-1a", "us-west-2a", "eu-west-1a")
NAMESPACE = "bench"
ROOT = Path(__file__).parents[2]
READY_S = 60.0
BEAT_S = 10.0
OPTIONS = HubOptions()
CAPACITY = Capacity(
    rows=(
        NodeRow(
            count=200,
            allocatable=Resources({"cpu": 64_000, "memory": 2**39, "pods": 250}),
            free=Resources({"cpu": 64_000, "memory": 2**39, "pods": 250}),
        ),
    )
)

Writes = Counter[tuple[str, str]]
"""("host/deployments/status", "PATCH") and how often, as the servers count them; leases left out.
"""


@dataclass(slots=True)
class RealFleet:
    """The running servers and clients of them."""

    plane: ControlPlane
    home: Path
    host: Cluster
    members: Mapping[str, Cluster]
    clients: dict[str, Client] = field(default_factory=dict)

    def open(self) -> None:
        """Makes the clients; on the loop that will use them."""
        for name, cluster in {"host": self.host, **self.members}.items():
            self.clients[name] = Client(cluster.transport(), name)

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()

    async def join(self) -> None:
        """CRDs, namespaces, Secrets, MemberClusters, and a policy that spreads over all members."""
        for name, client in self.clients.items():
            await install_crds(client, member=name != "host")
            await ensure(client, _namespace(OPTIONS.system_namespace), "namespaces")
        host = self.clients["host"]
        await ensure(host, _namespace(OPTIONS.credentials_namespace), "namespaces")
        await ensure(host, _namespace(NAMESPACE), "namespaces")
        await ensure(host, fleets.spread_policy(), "clusterplacementpolicies")
        for name, cluster in self.members.items():
            await ensure(self.clients[name], _namespace(NAMESPACE), "namespaces")
            data = base64.b64encode(yaml.safe_dump(cluster.kubeconfig_dict()).encode()).decode()
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": OPTIONS.credentials_namespace},
                "data": {"kubeconfig": data},
            }
            await ensure(host, secret, "secrets")
            joined = {
                "apiVersion": "federation.pinterest.com/v1alpha1",
                "kind": "MemberCluster",
                "metadata": {"name": name, "labels": {"region": name[:-1], "zone": name}},
                "spec": {"credentials": {"secretRef": {"name": name}}},
            }
            await ensure(host, joined, "memberclusters")

    async def start_hub(self) -> None:
        """Starts a hub and waits until it takes all members for ready."""
        self.start("hub", "hub", "--allow-loopback", "--kubeconfig", str(self.host.kubeconfig()))
        await self._until_ready()

    async def start_hub_and_members(self) -> None:
        """The same with a member process in each member."""
        self.start("hub", "hub", "--allow-loopback", "--kubeconfig", str(self.host.kubeconfig()))
        for name, cluster in self.members.items():
            self.start(
                f"member-{name}",
                "member",
                "--cluster",
                name,
                "--kubeconfig",
                str(cluster.kubeconfig()),
            )
        await self._until_ready()

    def start(self, name: str, *command: str) -> None:
        """Starts one of our processes."""
        # This checkout's package, whatever the environment has installed.
        program = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "federator"]
        self.plane.family.start(name, [*program, *command])

    def stop(self, name: str) -> None:
        """Ends one of our processes, if it runs."""
        for child in [child for child in self.plane.family.children if child.name.startswith(name)]:
            self.plane.family.drop(child)

    def memory_mb(self, name: str) -> float:
        """Resident memory of one of our processes."""
        child = next(child for child in self.plane.family.children if child.name == name)
        return resident_mb(child.process.pid)

    def cpu_s(self, name: str) -> float:
        """Processor time that one of our processes has taken so far, in seconds."""
        child = next(child for child in self.plane.family.children if child.name == name)
        return processor_s(child.process.pid)

    def spent(self) -> dict[str, float]:
        """Processor seconds that each process of the fleet has taken so far, with its children:
        ours by their names, the servers as `host-apiserver`, `members-apiserver` and `etcd`; this
        process as `bench`."""
        found: defaultdict[str, float] = defaultdict(float)
        for child in self.plane.family.children:
            name = child.name.removeprefix("bench-")
            if name.endswith("apiserver") and not name.startswith("host"):
                name = "members-apiserver"
            name = "members" if name.startswith("member-") else name
            found[name] += sum(map(processor_s, family_of(child.process.pid)))
        found["bench"] = time.process_time()
        return dict(found)

    async def requests(self) -> Writes:
        """How often the host was asked so far, by resource, leases left out."""
        text = (await self.clients["host"].raw("GET", "/metrics", timeout_s=60.0)).decode()
        found: Writes = Counter()
        for labels, value in _samples(text, "apiserver_request_total"):
            if labels["resource"] != "leases":
                below = f"/{labels['subresource']}" if labels["subresource"] else ""
                found[f"{labels['resource']}{below}", labels["verb"]] += round(value)
        return found

    def failed_turns(self, name: str) -> list[str]:
        """What one of our processes logged of turns that had to be taken again."""
        child = next(child for child in self.plane.family.children if child.name == name)
        lines = child.log.read_text(errors="replace").splitlines()
        return [line[:300] for line in lines if " failed (" in line or " broke; " in line]

    async def _until_ready(self) -> None:
        """The hub answers for every member anew: its condition is younger than now."""
        listed: list[dict[str, Any]] = []

        def ready() -> bool:
            return len(listed) == len(self.members) and all(
                (obj.get("status") or {}).get("summary") == "Ready" for obj in listed
            )

        deadline = time.monotonic() + READY_S
        while not ready():
            self.plane.family.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the members were not ready within {READY_S:.0f} s: {listed}")
            await asyncio.sleep(0.2)
            found = await self.clients["host"].list(
                "federation.pinterest.com/v1alpha1", "memberclusters"
            )
            listed = list(found.items)
        await asyncio.sleep(2.0)

    async def writes(self) -> Writes:
        """How often each server was written to so far, by resource, leases left out."""
        found: Writes = Counter()
        for name, client in self.clients.items():
            text = (await client.raw("GET", "/metrics", timeout_s=60.0)).decode()
            kind = "host" if name == "host" else "members"
            for labels, value in _samples(text, "apiserver_request_total"):
                verb, resource = labels["verb"], labels["resource"]
                if (
                    verb in fleets.WRITES | {"APPLY"}
                    and resource != "leases"
                    and labels["code"][0] == "2"
                ):
                    below = f"/{labels['subresource']}" if labels["subresource"] else ""
                    found[f"{kind}/{resource}{below}", verb] += round(value)
        return found

    async def count(self, cluster: str, api_version: str, plural: str, namespace: str) -> int:
        """How many objects there are, without reading them."""
        async for page in self.clients[cluster].pages(api_version, plural, namespace, limit=1):
            return len(page.items or ()) + int(page.metadata.remainingItemCount or 0)
        return 0

    async def clear(self, namespace: str) -> None:
        """Takes what the floor wrote away."""
        for name, client in self.clients.items():
            paths = [f"/apis/apps/v1/namespaces/{namespace}/deployments"]
            if name == "host":
                paths.append(
                    f"/apis/federation.pinterest.com/v1alpha1/namespaces/{namespace}/placementdecisions"
                )
            for path in paths:
                with contextlib.suppress(errors.NotFound):
                    await client.raw("DELETE", path, timeout_s=120.0)


@contextlib.contextmanager
def started(home: Path) -> Iterator[RealFleet]:
    """Four API servers. Raises build.Unavailable where they cannot be had."""
    binaries = build.find()
    if binaries is None:
        raise build.Unavailable("There is no real control plane on this machine: run `make kube`.")
    with ControlPlane(binaries) as plane:
        host = plane.cluster("bench-host")
        yield RealFleet(
            plane, home, host, {name: plane.cluster(f"bench-{name}") for name in MEMBERS}
        )


@contextlib.asynccontextmanager
async def beats(fleet: RealFleet) -> AsyncIterator[None]:
    """What a member process shows the hub when nothing happens: a fresh lease, and a report of
    plenty of room.
    """
    clock = RealClock()
    system = OPTIONS.system_namespace
    lease = ObjectRef("coordination.k8s.io/v1", "leases", system, EXPANDER_LEASE, "Lease")

    async def beat() -> None:
        while True:
            for name in fleet.members:
                body = {"spec": {"holderIdentity": "bench", "renewTime": clock.rfc3339_micro()}}
                await fleet.clients[name].patch(lease, body)
            await asyncio.sleep(BEAT_S)

    for name in fleet.members:
        metadata = {"name": EXPANDER_LEASE, "namespace": system}
        whole = {"apiVersion": lease.api_version, "kind": "Lease", "metadata": metadata, "spec": {}}
        await ensure(fleet.clients[name], whole, "leases")
        await _report(fleet.clients[name])
    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled() and (died := task.exception()) is not None:
        raise died


async def _report(client: Client) -> None:
    ref = ObjectRef(
        "federation.pinterest.com/v1alpha1",
        "clustercapacities",
        "",
        clustercapacity.NAME,
        "ClusterCapacity",
    )
    body = {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": ref.name},
        "spec": {"shapes": []},
    }
    await ensure(client, body, "clustercapacities")
    status = clustercapacity.from_capacity(CAPACITY, observed_generation=1, as_of_s=time.time())
    await client.patch(ref, {"status": status}, subresource="status")


async def within(
    fleet: RealFleet,
    seconds: float,
    what: str,
    condition: Callable[[], bool],
    every_s: float = 0.01,
) -> None:
    """Waits for a condition that this process sees come true. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not condition():
        fleet.plane.family.check()
        if time.monotonic() > deadline:
            ours = [
                child
                for child in fleet.plane.family.children
                if child.name.startswith(("hub", "member"))
            ]
            tails = "; ".join(f"{child.name}: {child.last_lines(5)}" for child in ours)
            raise TimeoutError(f"{what}: not within {seconds:.0f} s. {tails}")
        await asyncio.sleep(every_s)


def since(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """What was spent between two looks; a process that began meanwhile began with nothing."""
    return {name: round(spent - before.get(name, 0.0), 2) for name, spent in sorted(after.items())}


def _samples(text: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """The samples of one metric in Prometheus' text form."""
    for line in text.splitlines():
        if line.startswith(f"{name}{{"):
            inner, _, value = line[len(name) + 1 :].rpartition("} ")
            labels = dict(part.split("=", 1) for part in inner.split(",") if "=" in part)
            yield {label: text.strip('"') for label, text in labels.items()}, float(value)


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
