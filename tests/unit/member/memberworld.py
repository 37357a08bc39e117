"""One embedded member cluster with its stand-in controllers and a member process, on virtual time,
with every write noted.
"""

import asyncio
import contextlib
import functools
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from federator.embedded.controllers import Controllers, NodePool
from federator.embedded.server import EmbeddedCluster
from federator.kinds import crds, registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.wire.transport import Transport
from federator.member.options import MemberOptions
from federator.member.process import MemberProcess
from federator.model import names
from federator.model.steps import ObjectRef
from tests import virtual_time
from tests.faults import boxes
from tests.faults.links import Links, LinkTransport
from tests.faults.lives import Life
from tests.faults.rows import Boxes
from tests.faults.transport import BoxTransport
from tests.worlds import Address, Ledger, Wire

FLEET = "fleet-1"
EPOCH_S = 1_700_000_000.0
MEMBER = "member"


class MemberWorld:
    """What a test works with: `client` is an administrator's. Between the member process and its
    cluster there are the faults of the sandbox, when a test makes one.
    """

    def __init__(
        self, nodes: Sequence[NodePool], options: MemberOptions, standalone: bool, seed: int
    ) -> None:
        self.clock = Clock(EPOCH_S)
        self.rng = random.Random(seed)
        self.cluster = EmbeddedCluster(
            "m1", clock=self.clock, rng=random.Random(seed + 1), controllers=False
        )
        self.nodes = nodes
        self.client = Client(self.cluster.transport(), "m1")
        self.ledger = Ledger()
        self.log = self.ledger.log
        self.links, self.boxes = Links(), Boxes()
        self._standing = contextlib.ExitStack()
        self.options = options
        self.standalone = standalone
        self.tasks: list[asyncio.Task[None]] = []
        self.process = self._process()

    def _process(self) -> MemberProcess:
        return MemberProcess(
            Client(self._way(), "m1"),
            cluster="m1",
            fleet=FLEET,
            clock=self.clock,
            rng=self.rng,
            standalone=self.standalone,
            options=self.options,
        )

    def _way(self) -> Transport:
        """From the member process to its API server."""
        wire = Wire(
            Address(lambda: self.cluster),
            Life(MEMBER),
            lambda request, status: self.ledger.note(MEMBER, "m1", request),
        )
        boxed = BoxTransport(wire, self.boxes, MEMBER, "m1")
        return LinkTransport(boxed, self.links, MEMBER, "m1")

    @property
    def writes(self) -> Counter[str]:
        """How often each stands in `log`."""
        return Counter(self.log)

    async def hear_late(self, ending: str, delay_s: float) -> None:
        """From now on events arrive so late of the collections whose paths end so."""
        box = boxes.telling_late(lambda sending: sending.request.path.endswith(ending), delay_s)
        self._standing.enter_context(self.boxes.standing(box))
        await self.links.end_streams("m1")

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        await self.start_controllers()
        for crd in crds.all_crds():
            ref = ObjectRef(
                "apiextensions.k8s.io/v1", "customresourcedefinitions", "", crd["metadata"]["name"]
            )
            await self.client.create(ref, crd)
        await asyncio.sleep(1)
        await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}})
        self.tasks.append(loop.create_task(self.process.run(), name="member"))

    async def restart_member(self) -> None:
        """Ends the member process and starts another one with an empty memory."""
        await self.stop_member()
        self.start_member()

    async def stop_member(self) -> None:
        """From now on nobody makes natives of slices."""
        task = self.tasks.pop()
        task.cancel()
        await asyncio.wait([task])

    def start_member(self) -> None:
        """A new life of the member process, with an empty memory."""
        self.process = self._process()
        self.tasks.append(asyncio.get_running_loop().create_task(self.process.run(), name="member"))

    async def start_controllers(self) -> None:
        """A new instance takes over what an earlier one left."""
        cluster = self.cluster
        controllers = Controllers(
            cluster.store,
            self.clock,
            random.Random(5),
            nodes=self.nodes,
            resources=cluster.registry.stored,
        )
        self.tasks.insert(
            0, asyncio.get_running_loop().create_task(controllers.run(), name="controllers")
        )

    async def stop_controllers(self) -> None:
        """From now on nobody acts on native objects."""
        task = self.tasks.pop(0)
        task.cancel()
        await asyncio.wait([task])

    async def stop(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()
            task.cancel()
        await asyncio.wait(self.tasks)
        for queue in self.process.queues:
            assert queue.failures == 0, "a turn broke with an exception that is no ApiError"

    # -- objects -----------------------------------------------------------------------------------

    @staticmethod
    def ref(kind: str, name: str, namespace: str = "feed") -> ObjectRef:
        if kind in registry.KINDS:
            return registry.KINDS[kind].ref(namespace, name)
        api_version, plural, namespaced = _NATIVE[kind]
        return ObjectRef(api_version, plural, namespace if namespaced else "", name, kind)

    async def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        meta = obj["metadata"]
        return await self.client.create(
            self.ref(obj["kind"], meta["name"], meta.get("namespace", "")), obj
        )

    async def get(self, kind: str, name: str, namespace: str = "feed") -> dict[str, Any]:
        return await self.client.get(self.ref(kind, name, namespace))

    async def find(self, kind: str, name: str, namespace: str = "feed") -> dict[str, Any] | None:
        try:
            return await self.get(kind, name, namespace)
        except errors.NotFound:
            return None

    async def patch(
        self, kind: str, name: str, body: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        return await self.client.patch(self.ref(kind, name), body, **more)

    async def delete(self, kind: str, name: str) -> None:
        obj = await self.get(kind, name)
        await self.client.delete(self.ref(kind, name), uid=obj["metadata"]["uid"])

    async def names(self, kind: str) -> list[str]:
        ref = self.ref(kind, "")
        found = await self.client.list(ref.api_version, ref.plural, ref.namespace)
        return sorted(obj["metadata"]["name"] for obj in found.items)

    # -- waiting -----------------------------------------------------------------------------------

    async def until(
        self, condition: Callable[[], Awaitable[bool]], within_s: float = 120.0
    ) -> None:
        """Waits on virtual time until the condition holds."""
        deadline = self.clock.monotonic() + within_s
        while not await condition():
            assert self.clock.monotonic() < deadline, f"not within {within_s} virtual seconds"
            await asyncio.sleep(0.25)

    async def until_status(
        self, kind: str, name: str, within_s: float = 120.0, **wanted: Any
    ) -> dict[str, Any]:
        """Waits until these fields of status have these values; returns the status."""

        async def holds() -> bool:
            obj = await self.find(kind, name)
            status = (obj or {}).get("status") or {}
            return all(status.get(field) == value for field, value in wanted.items())

        await self.until(holds, within_s)
        found: dict[str, Any] = (await self.get(kind, name))["status"]
        return found

    async def until_condition(
        self, kind: str, name: str, type_: str, status: str
    ) -> dict[str, Any]:
        async def holds() -> bool:
            found = condition_of(await self.get(kind, name), type_)
            return found.get("status") == status

        await self.until(holds)
        return condition_of(await self.get(kind, name), type_)


_NATIVE = {
    "Namespace": ("v1", "namespaces", False),
    "Pod": ("v1", "pods", True),
    "Node": ("v1", "nodes", False),
    "Service": ("v1", "services", True),
    "ConfigMap": ("v1", "configmaps", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "Job": ("batch/v1", "jobs", True),
    "CronJob": ("batch/v1", "cronjobs", True),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims", True),
    "Ingress": ("networking.k8s.io/v1", "ingresses", True),
    "HTTPRoute": ("gateway.networking.k8s.io/v1", "httproutes", True),
    "ServiceExport": ("multicluster.x-k8s.io/v1alpha1", "serviceexports", True),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers", True),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses", False),
    "DaemonSet": ("apps/v1", "daemonsets", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "ResourceQuota": ("v1", "resourcequotas", True),
    "LimitRange": ("v1", "limitranges", True),
}

DEFAULT_NODES = (NodePool(count=4, allocatable={"cpu": "8", "memory": "32Gi", "pods": "50"}),)


def in_member(
    nodes: Sequence[NodePool] = DEFAULT_NODES,
    options: MemberOptions = MemberOptions(),  # noqa: B008  # frozen
    standalone: bool = False,
) -> Callable[[Callable[[MemberWorld], Awaitable[None]]], Callable[[], None]]:
    """Runs an async test in a fresh member on virtual time."""

    def decorate(test: Callable[[MemberWorld], Awaitable[None]]) -> Callable[[], None]:
        async def main() -> None:
            world = MemberWorld(nodes, options, standalone, seed=11)
            await world.start()
            await test(world)
            await world.stop()

        @functools.wraps(test)
        def run() -> None:
            virtual_time.run(main())

        del run.__wrapped__  # else pytest looks for a fixture named as the argument
        return run

    return decorate


def condition_of(obj: dict[str, Any], type_: str) -> dict[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == type_), {})


def block(seq: int = 5, *, fleet: str = FLEET, **more: Any) -> dict[str, Any]:
    return {
        "fleet": fleet,
        "workloadUID": "host-uid-1",
        "originGeneration": 3,
        "cluster": "m1",
        "seq": seq,
        "expander": "1",
        **more,
    }


def template(
    cpu: str = "500m", annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "registry/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
    }
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


def labels(fleet: str = FLEET) -> dict[str, str]:
    return {names.FLEET_LABEL: fleet, names.WORKLOAD_UID_LABEL: "host-uid-1"}


def deployment(pods: dict[str, Any]) -> dict[str, Any]:
    """A carried Deployment of two copies as a hub writes it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "plain",
            "namespace": "feed",
            "labels": labels(),
            "annotations": {"federation.pinterest.com/slice": json.dumps(block())},
        },
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "plain"}},
            "template": {**pods, "metadata": {"labels": {"app": "plain"}}},
        },
    }


def service(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    """A PinterestService slice as a hub writes it."""
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": "feed", "labels": labels()},
        "spec": {
            "replicas": replicas,
            "service": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
            "template": template(),
            "slice": block(),
            **spec,
        },
    }


def jobset(
    name: str = "crunch", shards: int = 10, ranges: str = "0-9", parallelism: int = 4, **spec: Any
) -> dict[str, Any]:
    """A PinterestJobSet slice as a hub writes it."""
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestJobSet",
        "metadata": {"name": name, "namespace": "feed", "labels": labels()},
        "spec": {
            "shards": shards,
            "parallelism": parallelism,
            "template": template(),
            "slice": block(ranges=ranges),
            **spec,
        },
    }


def training(name: str, **spec: Any) -> dict[str, Any]:
    """A PinterestTrainingJob slice as a hub writes it: a master and two workers."""
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestTrainingJob",
        "metadata": {"name": name, "namespace": "feed", "labels": labels()},
        "spec": {
            "components": [{"name": "master"}, {"name": "worker", "replicas": 2}],
            "template": template(),
            "slice": block(ranges="0"),
            **spec,
        },
    }
