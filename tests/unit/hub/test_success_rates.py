"""Success rates of clusters in a running hub: a cluster with sick nodes gets new copies last until it
heals, and a broken image is no fault of clusters."""

import asyncio
from typing import Any

from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.unit.hub.test_product_metrics import measured
from tests.unit.hub.world import World, play, service, small_fleet

PSVC, MC = "PinterestService", "MemberCluster"
SICK = "embedded.federator/never-ready"


async def mark_nodes(world: World, cluster: str, value: str | None) -> None:
    """From now on pods that start there never become ready; None: they do again."""
    client = world.user(cluster)
    for node in (await client.list("v1", "nodes")).items:
        ref = ObjectRef("v1", "nodes", "", node["metadata"]["name"], "Node")
        await client.patch(ref, {"metadata": {"annotations": {SICK: value}}})


async def success(world: World, cluster: str) -> dict[str, Any] | None:
    obj = await world.host.get(registry.KINDS[MC].ref("", cluster))
    found: dict[str, Any] | None = (obj.get("status") or {}).get("success")
    return found


async def services(world: World, *names: str, **more: Any) -> None:
    for name in names:
        await world.create(PSVC, "feed", name, service(2, **more))


def test_a_sick_cluster_gets_new_copies_last_until_it_heals() -> None:
    async def scenario(world: World) -> None:
        sample = await measured(world)
        await mark_nodes(world, "a", "true")
        await services(world, "s1", "s2", "s3", "s4", "s5")
        await asyncio.sleep(2400)
        found = await success(world, "a")
        assert found is not None
        assert found["avoided"] is True
        assert found["percent"] < 50
        assert await success(world, "b") is None
        rate = sample('federator_cluster_success_ratio{cluster="a"}')
        assert rate is not None
        assert rate < 0.5

        await services(world, "new")
        await asyncio.sleep(60)
        assert "a" not in await world.shares("feed", "new")

        # The next leader goes by what is recorded.
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(120)
        await services(world, "newer")
        await asyncio.sleep(60)
        assert "a" not in await world.shares("feed", "newer")

        await mark_nodes(world, "a", None)
        client = world.user("a")
        for pod in (await client.list("v1", "pods", "feed")).items:
            meta = pod["metadata"]
            ref = ObjectRef("v1", "pods", "feed", meta["name"], "Pod")
            await client.delete(ref, uid=meta["uid"])
        await asyncio.sleep(2100)
        found = await success(world, "a")
        assert found is not None
        assert found["avoided"] is False
        await services(world, "last")
        await world.settle()
        assert (await world.shares("feed", "last"))["a"] > 0

    play(scenario, fleet=small_fleet(2, nodes=1))


def test_a_broken_image_is_no_fault_of_clusters() -> None:
    async def scenario(world: World) -> None:
        spec = service(2)
        spec["template"]["metadata"] = {"annotations": {SICK: "true"}}
        for at in range(6):
            await world.create(PSVC, "feed", f"broken-{at}", spec)
        await services(world, "fine")
        await asyncio.sleep(1800)
        assert [await success(world, name) for name in "ab"] == [None, None]

    play(scenario, fleet=small_fleet(2))
