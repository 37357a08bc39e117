"""What an act of a hostile actor is, and the two actors: a tenant with every right in one namespace
of the host, and a member whose process is gone and whose administrator speaks in its place.
"""

import asyncio
import contextlib
import enum
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from federator.embedded.storage.messages import Caller
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.member import heartbeat
from federator.member.options import MemberOptions
from federator.model.steps import ObjectRef
from federator.sandbox.federation import ensure
from tests.faults.episodes.objects import going_on, ours

if TYPE_CHECKING:
    from tests.simulation.world import World

Obj = Mapping[str, Any]
TENANT = "mallory"
"""The hostile tenant, and the one namespace in which he may do everything."""
OWNED = ("PinterestCronJob", *registry.WORKLOADS, "PlacementPolicy", "PlacementDecision")
"""Kinds of what he makes there."""
LIES_EVERY_S = 2.0


class Actor(enum.Enum):
    """Who acts."""

    TENANT = "tenant"
    MEMBER = "member"
    NOBODY = "nobody"
    """A fault, whose moment is chosen."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a hostile actor does for a while.

    `befall(world, rng)` does it on entering and ends it for good on leaving, like an episode of the
    table of faults; `world.happened(name)` counts it once it has had an effect (an answer that
    refuses it is one).
    """

    name: str
    actor: Actor
    number: str
    """Of the invariant that it attacks."""
    where: str
    """What is done, in words."""
    heals: str
    """What its end is, in words."""
    befall: "Callable[[World, random.Random], AbstractAsyncContextManager[None]]"
    lasts_s: tuple[float, float] = (10.0, 40.0)
    """Shortest and longest time from entering to leaving, in virtual seconds."""


# -- a tenant --------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def tenant(world: "World") -> AsyncIterator[Client]:
    """The tenant's connection to the host: RBAC holds for it. What he has made there goes when this
    is left.
    """
    host = world.federation.host
    admin = Client(host.transport(), "host", field_manager="kubectl")
    group = "rbac.authorization.k8s.io"
    meta = {"name": TENANT, "namespace": TENANT}
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": everything}
    reference = {"apiGroup": group, "kind": "Role", "name": TENANT}
    subject = {"apiGroup": group, "kind": "User", "name": TENANT}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta}
    await ensure(
        admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}}, "namespaces"
    )
    await ensure(admin, role, "roles")
    await ensure(admin, {**binding, "roleRef": reference, "subjects": [subject]}, "rolebindings")
    client = Client(host.transport(Caller(TENANT)), "host", field_manager=TENANT)
    try:
        yield client
    finally:
        for ref, obj in list(_his(world)):
            with contextlib.suppress(errors.NotFound):
                await admin.delete(ref, uid=obj["metadata"]["uid"])


@contextlib.asynccontextmanager
async def standing(
    world: "World", kind: str, name: str, spec: Mapping[str, Any]
) -> AsyncIterator[None]:
    """An object that an operator makes for as long as this lasts."""
    admin, info = (
        Client(world.federation.host.transport(), "host", field_manager="kubectl"),
        registry.KINDS[kind],
    )
    body = {
        "apiVersion": info.api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }
    made = await admin.create(info.ref("", name), body)
    try:
        yield
    finally:
        with contextlib.suppress(errors.NotFound):
            await admin.delete(info.ref("", name), uid=made["metadata"]["uid"])


@contextlib.asynccontextmanager
async def tainted(world: "World", cluster: str) -> AsyncIterator[None]:
    """An operator has a cluster take nothing new, by a taint, for as long as this lasts."""
    admin = Client(world.federation.host.transport(), "host", field_manager="kubectl")
    ref = registry.KINDS["MemberCluster"].ref("", cluster)
    private = {"taints": [{"key": "example.com/private", "effect": "NoSchedule"}]}
    # another episode may have it out of the fleet
    with contextlib.suppress(errors.NotFound):
        await admin.patch(ref, {"spec": private})
    try:
        yield
    finally:
        with contextlib.suppress(errors.NotFound):
            await admin.patch(ref, {"spec": {"taints": None}})


def _his(world: "World") -> Iterator[tuple[ObjectRef, Obj]]:
    host = world.federation.host
    for kind in (registry.KINDS[name] for name in OWNED):
        for found in host.store.items(host.registry.get(kind.group, kind.plural), TENANT):
            if kind.kind != "PlacementDecision" or not found.obj["metadata"].get("finalizers"):
                yield kind.ref(TENANT, found.key[1]), found.obj


async def tried(world: "World", name: str, attempt: Any) -> Obj | None:
    """What came of a request that a server may rightly refuse; the act counts as done either
    way.
    """
    world.happened(name)
    try:
        found: Obj = await attempt
    except (
        errors.Invalid,
        errors.Denied,
        errors.Conflict,
        errors.AlreadyExists,
        errors.NotFound,
    ) as refusal:
        world.say(f"{TENANT:12} is refused: {name}: {str(refusal)[:120]!r}")
        return None
    return found


def service(name: str, replicas: int, **spec: Any) -> tuple[ObjectRef, dict[str, Any]]:
    """A service of the tenant's, to be made."""
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
    }
    kind = registry.KINDS["PinterestService"]
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}, **spec},
    }
    return kind.ref(TENANT, name), body


# -- a member --------------------------------------------------------------------------------------

Lie = Callable[[str, Obj], Mapping[str, Any] | None]
"""(kind, slice) -> what its status says besides what it says already, as a merge patch; None:
nothing.
"""


@contextlib.asynccontextmanager
async def lying(world: "World", rng: random.Random, name: str, lie: Lie) -> AsyncIterator[None]:
    """One member lies in the status of every slice that it holds, and its lease is kept alive. Its
    own process is down meanwhile; the one that begins afterwards tells what is true.
    """
    cluster = rng.choice(list(world.members))
    process = f"member-{cluster}"
    world.say(f"{cluster:12} lies: {name}")
    world.liars.add(cluster)
    world.hold_down(process)
    try:
        async with going_on(world, name, _lies(world, cluster, name, lie)):
            yield
    finally:
        world.let_up(process)


async def _lies(world: "World", cluster: str, name: str, lie: Lie) -> None:
    client, space = world.user(cluster), MemberOptions().system_namespace
    lease = ObjectRef("coordination.k8s.io/v1", "leases", space, heartbeat.LEASE, "Lease")
    while True:
        beat = {"spec": {"renewTime": world.clock(cluster).rfc3339_micro()}}
        with contextlib.suppress(errors.NotFound):
            await client.patch(lease, beat)
        for ref, obj in list(ours(world, cluster)):
            if ref.kind not in registry.WORKLOADS or (told := lie(ref.kind, obj)) is None:
                continue
            with contextlib.suppress(errors.NotFound, errors.Invalid):
                meta = obj["metadata"]
                seen = {"observedGeneration": meta.get("generation", 0)}
                await client.patch(ref, {"status": {**seen, **told}}, subresource="status")
                world.happened(name)
        await asyncio.sleep(LIES_EVERY_S)
