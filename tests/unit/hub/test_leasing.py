"""Leases by which guarded shards run: renewed on the host first, ended by silence, and not renewed
for a cluster that still holds what has begun elsewhere.
"""

import asyncio
from typing import Any

import pytest

from federator.api import raw
from federator.hub.options import HubOptions
from federator.kube import errors
from federator.kube.metrics import Metrics
from federator.model.steps import ObjectRef
from federator.runtime import fencing
from tests.unit.hub.test_exclusive import LONG, running, spec
from tests.unit.hub.world import World, jobset, play

PJS, CLUSTER, SPACE = "PinterestJobSet", "MemberCluster", "federator-system"
OVER_S = int(HubOptions().fence().over_after_s(180.0))


async def begun(world: World, **more: Any) -> str:
    """A guarded job set of twelve shards; returns a cluster that has some of them."""
    asked = jobset(12, 12, annotations=LONG)
    fields = {"execution": "Exclusive", "guard": True, **more}
    await world.create(PJS, "feed", "once", {**asked, **fields})
    await asyncio.sleep(40)
    return min(await world.slots("feed", "once"))


async def lease(world: World, cluster: str) -> dict[str, Any] | None:
    """The cluster's copy, or with `host NAME` the hub's record."""
    host, _, name = cluster.rpartition(" ")
    called = fencing.HOST_LEASE.format(cluster=name) if host else fencing.LEASE
    ref = ObjectRef("coordination.k8s.io/v1", "leases", SPACE, called, "Lease")
    try:
        return await world.user("host" if host else name).get(ref)
    except errors.NotFound:
        return None


async def renewed(world: World, cluster: str) -> float:
    return raw.epoch_s(raw.text(await lease(world, cluster) or {}, "spec", "renewTime"))


def test_only_clusters_with_guarded_shards_are_renewed_host_first() -> None:
    async def scenario(world: World) -> None:
        metrics = world.federation.metrics = Metrics()
        await world.federation.kill("hub")
        world.federation.start_hub()
        await world.settle()
        await world.create(PJS, "feed", "plain", {**jobset(3, 3, annotations=LONG)})
        await asyncio.sleep(60)
        for name in "abc":
            made = await lease(world, name)
            assert made is not None  # by its member process
            assert "renewTime" not in made["spec"]
            assert await lease(world, f"host {name}") is None
        first = await begun(world)
        for _ in range(3):
            record, copy = await renewed(world, f"host {first}"), await renewed(world, first)
            assert record >= copy > 0
            await asyncio.sleep(16)
            assert await renewed(world, first) > copy
        shown = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines())
        told_s = float(shown[f'federator_fence_renewed_timestamp_seconds{{cluster="{first}"}}'])
        assert told_s == pytest.approx(await renewed(world, f"host {first}"), abs=0.001)

    play(scenario)


def test_what_is_guarded_leaves_a_silent_cluster_when_its_lease_is_over_and_not_before() -> None:
    async def scenario(world: World) -> None:
        first = await begun(world, placement={"failover": {"afterSeconds": 30}})
        before = await world.slots("feed", "once")
        await world.cut(first)
        last = await renewed(world, first)
        while world.federation.clock.now() < last + OVER_S:
            assert await world.slots("feed", "once") == before
            await asyncio.sleep(5)
        await asyncio.sleep(40)
        after = await world.slots("feed", "once")
        assert first not in after
        assert sum(after.values()) == 12
        assert "mayStillRun" not in await spec(world)
        # heard again: what has begun elsewhere goes there first, and only then it is renewed
        stood = await renewed(world, first)
        world.heal()
        for _ in range(200):
            await asyncio.sleep(1)
            if await world.get(PJS, "feed", "once", at=first) is not None:
                assert await renewed(world, first) == stood
        assert await world.get(PJS, "feed", "once", at=first) is None
        assert sorted(await running(world)) == list(range(12))
        assert "mayStillRun" not in await spec(world)

    play(scenario)


def test_a_policy_against_failover_and_a_wrong_clock_keep_it() -> None:
    async def scenario(world: World) -> None:
        first = await begun(world, placement={"failover": {"when": "Never"}})
        before = await world.slots("feed", "once")
        await world.cut(first)
        await asyncio.sleep(OVER_S + 200)
        assert await world.slots("feed", "once") == before
        world.heal()
        await asyncio.sleep(40)
        assert await renewed(world, first) < world.federation.clock.now() - 40
        await asyncio.sleep(60)  # nothing was given away: it is renewed again
        assert await renewed(world, first) > world.federation.clock.now() - 20

    play(scenario)


def test_a_new_leader_waits_as_long_as_the_one_before_might_have_renewed() -> None:
    async def scenario(world: World) -> None:
        first = await begun(world, placement={"failover": {"afterSeconds": 30}})
        before = await world.slots("feed", "once")
        await world.cut(first)
        await asyncio.sleep(200)
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(OVER_S - 10)
        assert await world.slots("feed", "once") == before
        await asyncio.sleep(90)
        assert first not in await world.slots("feed", "once")

    play(scenario)


def test_a_lease_that_a_hand_has_deleted_is_made_and_renewed_again() -> None:
    async def scenario(world: World) -> None:
        first = await begun(world)
        copy = ObjectRef("coordination.k8s.io/v1", "leases", SPACE, fencing.LEASE, "Lease")
        called = fencing.HOST_LEASE.format(cluster=first)
        record = ObjectRef(copy.api_version, "leases", SPACE, called, "Lease")
        for client, ref in ((world.user(first), copy), (world.host, record)):
            await client.delete(ref, uid=(await client.get(ref))["metadata"]["uid"])
        await asyncio.sleep(100)
        assert await renewed(world, first) > world.federation.clock.now() - 20
        assert await renewed(world, f"host {first}") > world.federation.clock.now() - 20

    play(scenario)
