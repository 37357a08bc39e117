"""Stand-in nodes for a real cluster: registered, kept Ready, and running the pods bound to them.

End-to-end tests use `running(cluster, ...)`, which does it in a thread of its own, so that a test
may block in kubectl. The API server, scheduler and controllers see ordinary nodes; no container is
ever started.
"""

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from tests.controlplane import build, kubelet
from tests.controlplane.cluster import Cluster

READY_S = 60.0
HEARTBEAT_S = 5.0
"""How often each node renews its lease; the node controller gives up on one after 40 s."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: what it offers, and how pods behave on it where they do not say (`behaviour`
    annotations).
    """

    name: str
    capacity: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "16", "memory": "64Gi", "pods": "110"}
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def many(prefix: str, count: int, **capacity: str) -> list[Node]:
    """`count` equal nodes `<prefix>-0`, `<prefix>-1`, ..."""
    given = {"capacity": {"pods": "110", **capacity}} if capacity else {}
    return [Node(f"{prefix}-{index}", **given) for index in range(count)]


@contextlib.contextmanager
def running(cluster: Cluster, nodes: Sequence[Node], *, seed: int = 1) -> Iterator[None]:
    """Registers the nodes and runs them until the block ends, then takes them away with their pods.

    An error in the thread is raised at the end of the block.
    """
    ready, stop = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(_run(cluster, nodes, seed, ready, stop))
        except BaseException as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=work, name=f"nodes of {cluster.name}", daemon=True)
    thread.start()
    try:
        if not ready.wait(30):
            raise TimeoutError(f"The nodes of {cluster.name} were not registered within 30 s.")
        yield
    finally:
        stop.set()
        thread.join(10)
    if failures:
        raise failures[0]


async def _run(
    cluster: Cluster,
    nodes: Sequence[Node],
    seed: int,
    ready: threading.Event,
    stop: threading.Event,
) -> None:
    client = Client(cluster.transport(), cluster.name, field_manager="node-stand-in")
    try:
        for node in nodes:
            await _register(client, node)
        if cluster.has_controllers:
            await _until_untainted(client, nodes)
        runner = kubelet.Kubelet(
            client, {node.name: node.annotations for node in nodes}, random.Random(seed)
        )
        ready.set()
        tasks = [
            asyncio.create_task(_heartbeat(client, nodes), name="heartbeat"),
            asyncio.create_task(runner.watch_pods(), name="pods"),
        ]
        try:
            while not stop.is_set() and not any(task.done() for task in tasks):  # noqa: ASYNC110 - another thread stops us
                await asyncio.sleep(0.05)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for node in nodes:
                await _unregister(
                    client, node
                )  # else the scheduler of the next test would count on it
        for result in results:
            if isinstance(result, Exception):
                raise result
    finally:
        await client.close()


async def _register(client: Client, node: Node) -> None:
    ref = ObjectRef("v1", "nodes", "", node.name, "Node")
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {"kubernetes.io/hostname": node.name, **node.labels},
            "annotations": dict(node.annotations),
        },
    }
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(ref, body)
    await client.patch(ref, {"status": _status(node, RealClock().rfc3339())}, subresource="status")
    with contextlib.suppress(errors.AlreadyExists):
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node.name},
        }
        await client.create(_lease(node), {**lease, "spec": _renewal(node)})


async def _until_untainted(client: Client, nodes: Sequence[Node]) -> None:
    """Admission taints every new node `not-ready`; the node controller takes that away when it has
    seen its status.
    """
    waiting = {node.name for node in nodes}
    async with asyncio.timeout(READY_S):
        while waiting:
            found = (await client.list("v1", "nodes")).items
            waiting -= {
                node["metadata"]["name"] for node in found if not node["spec"].get("taints")
            }
            await asyncio.sleep(0.05)


async def _unregister(client: Client, node: Node) -> None:
    for path in (
        f"/api/v1/nodes/{node.name}",
        f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}",
    ):
        with contextlib.suppress(errors.NotFound):
            await client.raw("DELETE", path)


def _status(node: Node, now: str) -> dict[str, Any]:
    conditions = [
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        },
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
        {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID"},
    ]
    names = ("bootID", "machineID", "systemUUID", "kernelVersion", "osImage", "kubeProxyVersion")
    return {
        "capacity": dict(node.capacity),
        "allocatable": dict(node.capacity),
        "conditions": [
            {**each, "lastHeartbeatTime": now, "lastTransitionTime": now} for each in conditions
        ],
        "addresses": [
            {"type": "InternalIP", "address": "10.9.0.1"},
            {"type": "Hostname", "address": node.name},
        ],
        "nodeInfo": {
            **dict.fromkeys(names, "stand-in"),
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": f"v{build.KUBERNETES}",
            "containerRuntimeVersion": "stand-in://1",
        },
    }


def _lease(node: Node) -> ObjectRef:
    return ObjectRef("coordination.k8s.io/v1", "leases", "kube-node-lease", node.name, "Lease")


def _renewal(node: Node) -> dict[str, Any]:
    return {
        "holderIdentity": node.name,
        "leaseDurationSeconds": 40,
        "renewTime": RealClock().rfc3339_micro(),
    }


async def _heartbeat(client: Client, nodes: Sequence[Node]) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        with contextlib.suppress(errors.Unreachable, errors.Throttled, errors.ServerTrouble):
            for node in nodes:
                await client.patch(_lease(node), {"spec": _renewal(node)})
            for node in await _doubted(client, nodes):
                ref = ObjectRef("v1", "nodes", "", node.name, "Node")
                await client.patch(
                    ref, {"status": _status(node, RealClock().rfc3339())}, subresource="status"
                )


async def _doubted(client: Client, nodes: Sequence[Node]) -> list[Node]:
    """Nodes of which the node controller says that they are not ready: their server had not heard
    of them for long.
    """
    found = (await client.list("v1", "nodes")).items
    ready = {
        node["metadata"]["name"]
        for node in found
        if any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in node["status"].get("conditions") or ()
        )
    }
    return [node for node in nodes if node.name not in ready]
