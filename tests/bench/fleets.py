"""Embedded federations for the benchmarks, the workloads they carry, and a transport that counts
what is written.

Used by the groups that need no real server. A `Ledger` counts every write but leases, by who wrote
and what. An Event counts for the workload that it is about.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.hub.options import HubOptions
from federator.kube.clock import Clock
from federator.kube.wire.transport import Request, Response, Transport
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool

EPOCH_S = 1_790_000_000.0
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
AT_ONCE = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/stop-seconds": "0"}
"""Pods that are up at once: what is measured is us, not the stand-in kubelets' patience."""


def resource_of(path: str) -> tuple[str, str]:
    """("deployments/status", "web") of `/apis/apps/v1/namespaces/feed/deployments/web/status`."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return parts[0] + (f"/{parts[2]}" if len(parts) > 2 else ""), parts[1] if len(parts) > 1 else ""


@dataclass(slots=True)
class Ledger:
    """Every write so far. `of` counts by workload name, for the kinds of which names tell the
    workload.
    """

    writes: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """(process, cluster, method, resource/subresource)."""
    of: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(process, workload)."""
    _decisions: dict[str, str] = field(default_factory=dict)

    def note(self, process: str, cluster: str, request: Request) -> None:
        if request.method not in WRITES or "/leases" in request.path:
            return
        resource, name = resource_of(request.path)
        self.writes[process, cluster, request.method, resource] += 1
        if request.method == "POST":
            body = json.loads(request.body)
            name = body["metadata"]["name"] if resource != "events" else body["regarding"]["name"]
            if resource == "placementdecisions":
                self._decisions[name] = body["spec"]["workload"]["name"]
        self.of[process, self._decisions.get(name, name)] += 1

    def total(self, process: str = "", *, events: bool = False) -> int:
        """Writes of one process (all but the users' when none is named), with or without Events."""
        return sum(
            count
            for (who, _, _, resource), count in self.writes.items()
            if (who == process if process else who != "user")
            and (events or not resource.startswith("events"))
        )

    def by_resource(self, process: str) -> dict[str, int]:
        """Counts by "METHOD resource/subresource", over all clusters."""
        found: Counter[str] = Counter()
        for (who, _, method, resource), count in self.writes.items():
            if who == process:
                found[f"{method} {resource}"] += count
        return dict(sorted(found.items()))


class Counting:
    """A transport that tells a ledger of every write."""

    def __init__(self, ledger: Ledger, process: str, cluster: str, inner: Transport) -> None:
        self.ledger = ledger
        self.process = process
        self.cluster = cluster
        self.inner = inner

    async def request(self, request: Request) -> Response:
        self.ledger.note(self.process, self.cluster, request)
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


def fleet(count: int, *, nodes: int = 10, cpu: str = "64", pods: int = 250) -> FleetSpec:
    """`count` equal members, one per zone."""
    members = [
        MemberSpec(
            name=f"m{index:03d}",
            labels={"region": f"r{index % 3}", "zone": f"z{index}"},
            nodes=[Pool(count=nodes, cpu=cpu, memory="512Gi", pods=pods)],
        )
        for index in range(count)
    ]
    return FleetSpec(members=members)


def federation(
    spec: FleetSpec, clock: Clock, ledger: Ledger, *, seed: int = 1, **options: Any
) -> Federation:
    """A federation whose every write is counted."""
    return Federation(
        fleet=spec,
        clock=clock,
        rng=random.Random(seed),
        hub_options=HubOptions(**options),
        wrap=lambda process, cluster, inner: Counting(ledger, process, cluster, inner),
    )


def template(
    name: str, annotations: Mapping[str, str], *, padding: int = 0, **spec: Any
) -> dict[str, Any]:
    """A pod template; `padding` bytes of environment make objects as large as people's are."""
    container: dict[str, Any] = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
    }
    if padding:
        container["env"] = [
            {"name": f"SETTING_{n}", "value": "x" * 40} for n in range(padding // 70)
        ]
    labels = {"app": name}
    return {
        "metadata": {"labels": labels, "annotations": dict(annotations)},
        "spec": {"containers": [container], **spec},
    }


def deployment(name: str, namespace: str, replicas: int, *, padding: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, AT_ONCE, padding=padding),
        },
    }


def service(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    """A PinterestService that expands to a Deployment, a Service, a ConfigMap and a
    ServiceAccount.
    """
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "iamRole": f"role-{name}",
            "service": {
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
            },
            "config": {"app.properties": "a=1\n"},
            "template": template(name, AT_ONCE),
        },
    }


def spread_policy(strategy: str = "Spread") -> dict[str, Any]:
    """All workloads everywhere, evenly."""
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "everywhere"},
        "spec": {"division": {"strategy": strategy}},
    }
