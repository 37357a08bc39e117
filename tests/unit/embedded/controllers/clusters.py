"""A small cluster for the tests of the stand-in controllers: the bare store and `Controllers`, on
virtual time.
"""

import asyncio
import collections
import random
from collections.abc import Awaitable, Callable
from typing import Any

from federator.embedded.controllers import Controllers, Defaults, NodePool
from federator.embedded.controllers.kubelet.behaviour import Span
from federator.embedded.schema import builtins
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock
from tests import virtual_time

Obj = dict[str, Any]

EPOCH = 1_700_000_000.0
STEADY = Defaults(start=Span(1, 1), ready=Span(0, 0), stop=Span(1, 1), job_run=Span(5, 5))
"""Every pod starts after one second."""

RESOURCES: dict[str, ResourceInfo] = {
    "Namespace": builtins.info("", "namespaces"),
    "Node": builtins.info("", "nodes"),
    "Pod": builtins.info("", "pods"),
    "Service": builtins.info("", "services"),
    "ConfigMap": builtins.info("", "configmaps"),
    "ServiceAccount": builtins.info("", "serviceaccounts"),
    "Event": builtins.info("", "events"),
    "Deployment": builtins.info("apps", "deployments"),
    "ReplicaSet": builtins.info("apps", "replicasets"),
    "StatefulSet": builtins.info("apps", "statefulsets"),
    "PersistentVolumeClaim": builtins.info("", "persistentvolumeclaims"),
    "HorizontalPodAutoscaler": builtins.info("autoscaling", "horizontalpodautoscalers"),
    "DaemonSet": builtins.info("apps", "daemonsets"),
    "Job": builtins.info("batch", "jobs"),
    "CronJob": builtins.info("batch", "cronjobs"),
    "Ingress": builtins.info("networking.k8s.io", "ingresses"),
    "EndpointSlice": builtins.info("discovery.k8s.io", "endpointslices"),
    "PriorityClass": builtins.info("scheduling.k8s.io", "priorityclasses"),
}


class Cluster:
    """One cluster; objects are named by kind, namespace `default` unless said otherwise."""

    def __init__(
        self, nodes: list[NodePool], *, seed: int, defaults: Defaults, workloads: bool, events: int
    ) -> None:
        self.clock = Clock(EPOCH)
        self.store = Store(self.clock, random.Random(seed))
        self.writes: collections.Counter[str] = collections.Counter()
        self.store.subscribe_all(lambda event: self.writes.update([event.resource.kind]))
        self._options: dict[str, Any] = {
            "nodes": nodes,
            "defaults": defaults,
            "workloads": workloads,
            "events": events,
        }
        self._seed = seed
        self.controllers: Controllers | None = None
        self._task: asyncio.Task[None] | None = None
        self.create(
            "Namespace", {"metadata": {"name": "default"}, "spec": {"finalizers": ["kubernetes"]}}
        )

    def start(self) -> None:
        self.controllers = Controllers(
            self.store, self.clock, random.Random(self._seed + 1), **self._options
        )
        self._task = asyncio.create_task(self.controllers.run())

    async def stop(self) -> None:
        """Stops the controllers; a crash of theirs comes out here."""
        assert self._task is not None
        self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            return

    async def pass_s(self, seconds: float) -> None:
        """Lets virtual time pass, at least until all due work is done."""
        await asyncio.sleep(seconds)
        assert self._task is not None
        if self._task.done():
            self._task.result()

    def create(self, kind: str, obj: Obj, namespace: str = "default") -> Obj:
        resource = RESOURCES[kind]
        metadata = dict(obj["metadata"])
        if resource.namespaced:
            metadata.setdefault("namespace", namespace)
        full = {**obj, "apiVersion": resource.api_version, "kind": kind, "metadata": metadata}
        return self.store.create(resource, full).obj

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj:
        found = self.find(kind, name, namespace)
        assert found is not None, f"{kind} {name} does not exist"
        return found

    def find(self, kind: str, name: str, namespace: str = "default") -> Obj | None:
        resource = RESOURCES[kind]
        revision = self.store.get(resource, namespace if resource.namespaced else "", name)
        return None if revision is None else revision.obj

    def all(self, kind: str, namespace: str | None = None) -> list[Obj]:
        return [revision.obj for revision in self.store.items(RESOURCES[kind], namespace)]

    def edit(self, kind: str, name: str, **spec: Any) -> None:
        """Replaces fields of spec, as a client would."""
        obj = self.get(kind, name)
        self.store.update(RESOURCES[kind], {**obj, "spec": {**obj["spec"], **spec}})

    def relabel(self, kind: str, name: str, labels: dict[str, str]) -> None:
        obj = self.get(kind, name)
        self.store.update(
            RESOURCES[kind], {**obj, "metadata": {**obj["metadata"], "labels": labels}}
        )

    def own(self, kind: str, name: str, references: list[Obj]) -> None:
        obj = self.get(kind, name)
        self.store.update(
            RESOURCES[kind], {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}
        )

    def delete(
        self, kind: str, name: str, namespace: str = "default", finalizers: list[str] | None = None
    ) -> None:
        resource = RESOURCES[kind]
        grace = (
            30 if kind == "Pod" and self.get(kind, name, namespace)["spec"].get("nodeName") else 0
        )
        self.store.delete(
            resource,
            namespace if resource.namespaced else "",
            name,
            grace_s=grace,
            finalizers=finalizers,
        )

    def status(self, kind: str, name: str) -> Obj:
        return dict(self.get(kind, name).get("status") or {})

    def condition(self, kind: str, name: str, type_: str) -> Obj:
        for entry in self.status(kind, name).get("conditions") or ():
            if entry["type"] == type_:
                return dict(entry)
        return {}

    def pods(self, phase: str | None = None) -> list[Obj]:
        return [pod for pod in self.all("Pod") if phase is None or pod["status"]["phase"] == phase]


def play(
    story: Callable[[Cluster], Awaitable[None]],
    nodes: list[NodePool] | None = None,
    *,
    seed: int = 7,
    defaults: Defaults = STEADY,
    workloads: bool = True,
    events: int = 0,
) -> None:
    """Runs a story on a fresh cluster in virtual time."""

    async def main() -> None:
        pools = [NodePool(3)] if nodes is None else nodes
        cluster = Cluster(pools, seed=seed, defaults=defaults, workloads=workloads, events=events)
        cluster.start()
        await story(cluster)
        await cluster.stop()

    virtual_time.run(main())


def template(
    app: str = "web", *, cpu: str = "100m", annotations: dict[str, str] | None = None, **spec: Any
) -> Obj:
    """A pod template with one container."""
    container = {
        "name": "app",
        "image": "registry/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    metadata: Obj = {"labels": {"app": app}}
    if annotations:
        metadata["annotations"] = {
            f"embedded.federator/{name}": value for name, value in annotations.items()
        }
    return {
        "metadata": metadata,
        "spec": {"containers": [container], "restartPolicy": "Always", **spec},
    }


def deployment(name: str = "web", replicas: int = 3, pod: Obj | None = None, **spec: Any) -> Obj:
    """A Deployment as the API server stores it."""
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": pod or template(name),
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }


def job(name: str = "work", pod: Obj | None = None, **spec: Any) -> Obj:
    """A Job as the API server stores it; Indexed when completions are given, unless said
    otherwise.
    """
    full: Obj = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        **spec,
    }
    full = {field: value for field, value in full.items() if value is not None}
    return {
        "metadata": {"name": name},
        "spec": {**full, "template": pod or template(name, restartPolicy="Never")},
    }


def pod(name: str, node: str | None = None, **spec: Any) -> Obj:
    """A bare pod."""
    parts = template(name, **spec)
    if node is not None:
        parts["spec"]["nodeName"] = node
    return {
        **parts,
        "metadata": {**parts["metadata"], "name": name},
        "status": {"phase": "Pending"},
    }
