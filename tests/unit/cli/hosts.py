"""An embedded host that commands of this process reach instead of the one of a kubeconfig."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.kube.wire.transport import Transport
from federator.model.steps import ObjectRef
from federator.sandbox import federation
from tests.faults import boxes
from tests.faults.rows import Boxes
from tests.faults.transport import BoxTransport


class Host:
    """An embedded host without controllers, which commands reach instead of the one of a
    kubeconfig."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster(
            "host", clock=RealClock(), rng=random.Random(1), controllers=False
        )
        self.boxes = Boxes()
        self._standing: list[Any] = []

    def client(self) -> Client:
        return Client(self.cluster.transport(), "host")

    async def connected(self, kubeconfig: str = "", context: str = "", **more: Any) -> Transport:
        return BoxTransport(self.cluster.transport(), self.boxes, "shell", "host")

    def make(self, *objs: Mapping[str, Any]) -> None:
        async def work() -> None:
            client = self.client()
            await federation.install_crds(client)
            for name in ("feed", "federator-clusters"):
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await client.create(ObjectRef("v1", "namespaces", "", name), body)

        asyncio.run(work())
        self.add(*objs)

    def add(self, *objs: Mapping[str, Any]) -> None:
        async def work() -> None:
            client = self.client()
            for obj in objs:
                meta = obj["metadata"]
                ref = registry.KINDS[obj["kind"]].ref(meta.get("namespace", ""), meta["name"])
                body = {name: value for name, value in obj.items() if name != "status"}
                await client.create(ref, body)
                if "status" in obj:
                    await client.patch(ref, {"status": obj["status"]}, subresource="status")

        asyncio.run(work())

    def find(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        return asyncio.run(self.client().get(registry.KINDS[kind].ref(namespace, name)))

    def refuse(self, ending: str) -> None:
        """Writes to paths that end so are refused."""
        box = boxes.answering(
            lambda sending: sending.changes and sending.request.path.endswith(ending),
            boxes.forbidden,
        )
        standing = self.boxes.standing(box)
        standing.__enter__()
        self._standing.append(standing)
