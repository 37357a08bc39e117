"""ResourceQuotas and LimitRanges of members in a running federation: a cluster that would refuse pods
gets none, and gets them when its administrator allows them."""

import asyncio
from typing import Any

from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service, small_fleet

PSVC, MC = "PinterestService", "MemberCluster"
QUOTA = ObjectRef("v1", "resourcequotas", "feed", "compute", "ResourceQuota")
RANGE = ObjectRef("v1", "limitranges", "feed", "sizes", "LimitRange")
FEED = ObjectRef("v1", "namespaces", "", "feed", "Namespace")


async def write(world: World, cluster: str, ref: ObjectRef, **spec: Any) -> None:
    """An object of the namespace's administrator in a member."""
    client = world.user(cluster)
    namespaces = await client.list("v1", "namespaces", field_selector="metadata.name=feed")
    if not namespaces.items:
        meta = {"name": "feed"}
        await client.create(FEED, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    await client.create(
        ref,
        {
            "apiVersion": "v1",
            "kind": ref.kind,
            "metadata": {"name": ref.name, "namespace": "feed"},
            "spec": spec,
        },
    )


async def report(world: World, cluster: str) -> None:
    """Time for the member to report, and for the hub to copy that to the host."""
    await asyncio.sleep(60)
    obj = await world.host.get(registry.KINDS[MC].ref("", cluster))
    (entry,) = obj["status"]["capacity"]["namespaces"]
    assert entry["name"] == "feed"


def test_copies_keep_to_the_quota_of_a_member_and_follow_when_it_is_raised() -> None:
    async def scenario(world: World) -> None:
        await write(world, "a", QUOTA, hard={"pods": "4"})
        await report(world, "a")
        await world.create(PSVC, "feed", "web", service(7))
        await world.create(PSVC, "feed", "api", service(60, cpu="400m"))
        await world.settle()
        given = [await world.shares("feed", name) for name in ("web", "api")]
        assert sum(shares.get("a", 0) for shares in given) == 4
        assert await world.ready_replicas("feed", "web") == 7
        placed = await world.condition(PSVC, "feed", "api", "Placed")
        assert placed["reason"] == "NamespaceLimits", placed
        assert "ResourceQuota compute of namespace feed" in placed["message"]

        await world.user("a").patch(QUOTA, {"spec": {"hard": {"pods": "90"}}})
        await asyncio.sleep(60)
        await world.settle()
        placed = await world.condition(PSVC, "feed", "api", "Placed")
        assert placed["status"] == "True", placed
        given = [await world.shares("feed", name) for name in ("web", "api")]
        assert sum(sum(shares.values()) for shares in given) == 67

    play(scenario, fleet=small_fleet(2, nodes=2))


def test_a_cluster_with_a_limit_range_that_refuses_the_pods_gets_none() -> None:
    async def scenario(world: World) -> None:
        limits = [{"type": "Container", "min": {"cpu": "1"}}]
        await write(world, "a", RANGE, limits=limits)
        await report(world, "a")
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        assert await world.shares("feed", "web") == {"b": 6}
        decisions = await world.decisions()
        refused = {entry["reason"]: entry for entry in decisions[0]["spec"]["verdicts"]["rejected"]}
        assert refused["NamespaceLimits"]["clusters"] == ["a"]
        assert (
            "its LimitRange sizes of namespace feed asks for at least cpu 1 of a container, and it"
            " has cpu 500m" in refused["NamespaceLimits"]["message"]
        )
        await asyncio.sleep(60)  # the capacity is copied at intervals
        # A second look writes nothing.
        before = world.count()
        await asyncio.sleep(120)
        assert world.count() == before

    play(scenario, fleet=small_fleet(2))
