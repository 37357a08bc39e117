"""Workloads of an episode's own: made for it in a namespace of its own, and removed when it is
over.

What an episode does to them cannot change the end state of the user's script. Reads look into the
stores, so they see what is there, not what a cache holds; writes go through the user's own
connection, which has no faults.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.faults.rows import Stage

KIND = "PinterestService"
NAMESPACE = "Namespace"
PLACED_S = 20.0
"""How long an episode waits for a workload of its own to stand, in virtual seconds."""
Obj = Mapping[str, Any]


def container(image: str = "guest:1") -> dict[str, Any]:
    """Small, so that it takes no room that anybody else would miss."""
    return {
        "name": "app",
        "image": image,
        "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
    }


def namespace_of(fault: str) -> str:
    """Where the workloads of a fault live."""
    return f"guest-{fault}"


def stored(cluster: EmbeddedCluster, ref: ObjectRef) -> Obj | None:
    """The object as the server has it; None when there is none."""
    group = ref.api_version.rpartition("/")[0]
    revision = cluster.store.get(cluster.registry.get(group, ref.plural), ref.namespace, ref.name)
    return None if revision is None else revision.obj


async def make_namespace(stage: Stage, cluster: str, name: str) -> None:
    """Makes a namespace unless it is there."""
    body = {"apiVersion": "v1", "kind": NAMESPACE, "metadata": {"name": name}}
    with contextlib.suppress(errors.AlreadyExists):
        await stage.user(cluster).create(namespace_ref(name), body)


def namespace_ref(name: str) -> ObjectRef:
    return ObjectRef("v1", "namespaces", "", name, NAMESPACE)


async def until(true: Callable[[], object], within_s: float) -> bool:
    """Waits for something in the world; False when it took too long, because other faults may keep
    it away."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not true():  # noqa: ASYNC110 - the stores have no event for this
                await asyncio.sleep(0.25)
    return bool(true())


async def drop(stage: Stage, cluster: str, ref: ObjectRef) -> bool:
    """Deletes an object if it is there, of any owner. Returns whether it was there."""
    client = stage.user(cluster)
    with contextlib.suppress(errors.NotFound, errors.Conflict):
        live = await client.get(ref)
        await client.delete(ref, uid=live["metadata"]["uid"])
        return True
    return False


class Guest:
    """One service on the host, and what members hold of it."""

    def __init__(self, stage: Stage, namespace: str, name: str) -> None:
        self.stage = stage
        self.ref = registry.KINDS[KIND].ref(namespace, name)
        self.deployment = ObjectRef("apps/v1", "deployments", namespace, name, "Deployment")

    async def create(self, replicas: int, meta: Obj | None = None, **spec: Any) -> Obj:
        """Makes it on the host."""
        body = {
            "apiVersion": self.ref.api_version,
            "kind": self.ref.kind,
            "metadata": {"name": self.ref.name, "namespace": self.ref.namespace, **(meta or {})},
            "spec": {
                "replicas": replicas,
                "template": {"spec": {"containers": [container()]}},
                **spec,
            },
        }
        return await self.stage.user("host").create(self.ref, body)

    async def patch(self, body: Obj) -> None:
        await self.stage.user("host").patch(self.ref, body)

    async def scale(self, replicas: int) -> None:
        await self.patch({"spec": {"replicas": replicas}})

    async def remove(self) -> None:
        """Deletes it from the host, if it is there."""
        await drop(self.stage, "host", self.ref)

    def on_host(self) -> Obj | None:
        return stored(self.stage.federation.host, self.ref)

    def slice_in(self, cluster: str) -> Obj | None:
        """What the member has under its name, if the hub wrote it."""
        revision = stored(self.stage.federation.members[cluster], self.ref)
        return (
            revision
            if revision is not None and registry.verbs_of(KIND).read_mark(revision) is not None
            else None
        )

    def native_in(self, cluster: str) -> Obj | None:
        """The Deployment under its name."""
        return stored(self.stage.federation.members[cluster], self.deployment)

    def holders(self) -> list[str]:
        """Members that hold a slice of it."""
        return [name for name in self.stage.members if self.slice_in(name) is not None]

    def replicas(self) -> int:
        """Copies that all slices ask for."""
        slices = [self.slice_in(name) for name in self.stage.members]
        return sum(
            revision["spec"].get("replicas", 1) for revision in slices if revision is not None
        )

    def expanded(self) -> list[str]:
        """Members in which its Deployment stands, too."""
        return [name for name in self.holders() if self.native_in(name) is not None]


@contextlib.asynccontextmanager
async def guest(
    stage: Stage,
    fault: str,
    replicas: int = 4,
    *,
    name: str = "guest",
    made: bool = True,
    **spec: Any,
) -> AsyncIterator[Guest]:
    """A service of the fault's own, gone again afterwards. With `made` false its namespace alone is
    there yet."""
    result = Guest(stage, namespace_of(fault), name)
    await make_namespace(stage, "host", result.ref.namespace)
    if made:
        await result.create(replicas, **spec)
    try:
        yield result
    finally:
        await result.remove()
