"""Episodes of deletions and limits: while a member or every hub is away, of namespaces that cannot
end, of quotas."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

from federator.kinds import registry
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.faults.episodes import guests
from tests.faults.links import Cut
from tests.faults.rows import Episode, Stage

HOLD = "example.com/hold"
QUOTA = "FederatedQuota"


@contextlib.asynccontextmanager
async def deleted_while_unreachable(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A workload is deleted while one member that holds it is out of every hub's reach."""
    async with guests.guest(stage, "deleted-while-unreachable") as own:
        await guests.until(own.expanded, guests.PLACED_S)
        holders = own.holders()
        if not holders:
            yield
            return
        away = rng.choice(holders)
        how = rng.choice((Cut.REFUSED, Cut.SILENT))
        for hub in stage.hubs:
            await stage.links.sever(hub, away, how)
        try:
            await own.remove()
            stage.happened("deleted-while-unreachable")
            yield
        finally:
            for hub in stage.hubs:
                stage.links.heal(hub, away, how)


@contextlib.asynccontextmanager
async def deleted_while_hubs_are_down(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A workload is deleted, and perhaps made again under its name, while no hub runs."""
    async with guests.guest(stage, "deleted-while-hubs-are-down") as own:
        await guests.until(own.expanded, guests.PLACED_S)
        for hub in stage.hubs:
            stage.hold_down(hub)
        try:
            if own.holders():
                stage.happened("deleted-while-hubs-are-down")
            await own.remove()
            if rng.random() < 0.5:
                await own.create(2)
            yield
        finally:
            for hub in stage.hubs:
                stage.let_up(hub)


@contextlib.asynccontextmanager
async def namespace_terminating(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A namespace with our work in it is deleted, in a member or on the host, and a finalizer
    of others keeps it from ending. In the end that goes, and on the host the namespace is made
    again."""
    async with guests.guest(stage, "namespace-terminating") as own:
        await guests.until(own.expanded, guests.PLACED_S)
        space = own.ref.namespace
        cluster = rng.choice(["host", *(own.holders() or stage.members[:1])])
        client = stage.user(cluster)
        await guests.make_namespace(stage, cluster, space)
        holds = ObjectRef("v1", "configmaps", space, "holds", "ConfigMap")
        meta = {"name": "holds", "namespace": space, "finalizers": [HOLD]}
        await client.create(holds, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await guests.drop(stage, cluster, guests.namespace_ref(space))
        stage.happened("namespace-terminating")
        try:
            yield
        finally:
            with contextlib.suppress(errors.NotFound):
                await client.patch(holds, {"metadata": {"finalizers": None}})
            if cluster == "host":
                await _again(stage, space)


async def _again(stage: Stage, space: str) -> None:
    """Makes a namespace of the host again, as soon as the old one is gone: that waits for what
    members hold."""
    ref = guests.namespace_ref(space)
    gone = await guests.until(
        lambda: guests.stored(stage.federation.host, ref) is None, guests.PLACED_S
    )
    if gone:
        await guests.make_namespace(stage, "host", space)


@contextlib.asynccontextmanager
async def quota_lowered(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A quota is lowered below what is used, and a workload asks for more; later it is what it
    was."""
    async with _limited(stage, "quota-lowered", "1") as own:
        if own.replicas() > 2:
            stage.happened("quota-lowered")
        await _limit(stage, "quota-lowered", "100m")
        await own.scale(rng.randint(5, 8))
        try:
            yield
        finally:
            await _limit(stage, "quota-lowered", "1")


@contextlib.asynccontextmanager
async def quota_deleted(stage: Stage, rng: random.Random) -> AsyncIterator[None]:
    """A quota is deleted while it is used up, and made again."""
    async with _limited(stage, "quota-deleted", "200m") as own:
        await own.patch({"spec": {"replicas": 6}})
        await asyncio.sleep(rng.uniform(0.0, 3.0))
        if await guests.drop(stage, "host", registry.KINDS[QUOTA].ref("", "quota-deleted")):
            stage.happened("quota-deleted")
        try:
            yield
        finally:
            await _make_quota(stage, "quota-deleted", "200m")


@contextlib.asynccontextmanager
async def _limited(stage: Stage, fault: str, cpu: str) -> AsyncIterator[guests.Guest]:
    """A service of the fault's own whose project may take so much, with its quota; both are gone
    afterwards."""
    await _make_quota(stage, fault, cpu)
    try:
        async with guests.guest(stage, fault) as own:
            await guests.until(own.expanded, guests.PLACED_S)
            yield own
    finally:
        await guests.drop(stage, "host", registry.KINDS[QUOTA].ref("", fault))


async def _make_quota(stage: Stage, fault: str, cpu: str) -> None:
    kind, space = registry.KINDS[QUOTA], guests.namespace_of(fault)
    spec = {
        "projects": [space],
        "namespaces": [space],
        "tiers": {"OnDemand": {"max": {"cpu": cpu}}},
    }
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": fault},
        "spec": spec,
    }
    with contextlib.suppress(errors.AlreadyExists):
        await stage.user("host").create(kind.ref("", fault), body)


async def _limit(stage: Stage, fault: str, cpu: str) -> None:
    patch = {"spec": {"tiers": {"OnDemand": {"max": {"cpu": cpu}}}}}
    await stage.user("host").patch(registry.KINDS[QUOTA].ref("", fault), patch)


ROWS = (
    Episode(
        "quota-lowered",
        "F44",
        "a quota and a service of its own",
        "the quota is what it was after 3 to 30 s",
        quota_lowered,
        (3.0, 30.0),
    ),
    Episode(
        "quota-deleted",
        "F44",
        "a quota and a service of its own",
        "the quota is made again after 3 to 30 s",
        quota_deleted,
        (3.0, 30.0),
    ),
    Episode(
        "deleted-while-unreachable",
        "F49",
        "a service of its own and one member that holds it",
        "the member is reached again after 5 to 70 s",
        deleted_while_unreachable,
        (5.0, 70.0),
    ),
    Episode(
        "deleted-while-hubs-are-down",
        "F50",
        "a service of its own and every hub",
        "hubs start again after 1 to 30 s",
        deleted_while_hubs_are_down,
        (1.0, 30.0),
    ),
    Episode(
        "namespace-terminating",
        "F53",
        "the namespace of a service of its own, in a member or on the host",
        "what keeps it goes after 5 to 40 s",
        namespace_terminating,
        (5.0, 40.0),
    ),
)
