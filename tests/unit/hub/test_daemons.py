"""PinterestDaemon: every matching cluster has it and no other, whatever clusters and nodes do
meanwhile.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.kinds import registry
from federator.kinds.pods import progress
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service

KIND = "PinterestDaemon"


def daemon(
    cpu: str = "500m", image: str = "agent:1", pod: Mapping[str, Any] | None = None, **more: Any
) -> Any:
    """The spec of a PinterestDaemon."""
    container = {
        "name": "agent",
        "image": image,
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    return {"template": {"spec": {"containers": [container], **(pod or {})}}, **more}


def on(zone: str) -> dict[str, Any]:
    return {"clusters": {"selector": {"matchLabels": {zone: "yes"}}}}


async def status(world: World, name: str = "agent") -> dict[str, Any]:
    found = await world.get(KIND, "infra", name)
    assert found is not None
    return dict(found.get("status") or {})


async def within_quota(world: World) -> None:
    """The daemon under a quota that has room for two clusters: 4 nodes of 500m each take 2 cpu."""
    quota = {
        "projects": ["infra"],
        "namespaces": ["infra"],
        "tiers": {"OnDemand": {"max": {"cpu": "4"}}},
    }
    await world.create("FederatedQuota", "", "infra", quota)
    await world.settle()
    await world.create(KIND, "infra", "agent", daemon(project="infra"))
    await world.settle()


async def having(world: World, name: str = "agent") -> list[str]:
    """Members that have the DaemonSet."""
    found = []
    for member in sorted(world.federation.members):
        sets = (await world.member(member).list("apps/v1", "daemonsets")).items
        found += [member for obj in sets if obj["metadata"]["name"] == name]
    return found


async def add_node(world: World, member: str, name: str, **spec: Any) -> None:
    """A machine like those that are there."""
    client = world.member(member)
    like = (await client.list("v1", "nodes")).items[0]
    labels = {**like["metadata"]["labels"], "kubernetes.io/hostname": name}
    node = {
        **like,
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    await client.create(ObjectRef("v1", "nodes", "", name, "Node"), node)
    body = {
        "status": {
            "allocatable": like["status"]["allocatable"],
            "conditions": like["status"]["conditions"],
        }
    }
    await client.patch(ObjectRef("v1", "nodes", "", name, "Node"), body, subresource="status")


async def image(world: World, member: str) -> str:
    ref = ObjectRef("apps/v1", "daemonsets", "infra", "agent", "DaemonSet")
    live = await world.member(member).get(ref)
    return str(live["spec"]["template"]["spec"]["containers"][0]["image"])


def test_it_runs_on_every_node_of_every_cluster_and_settles_within_the_write_budget() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon(config={"agent.conf": "a"}))
        await world.settle()
        told = await status(world)
        assert (told["desired"], told["current"], told["ready"], told["updated"]) == (
            12,
            12,
            12,
            12,
        )
        assert (told["clusters"], told["placed"], told["summary"]) == (
            3,
            3,
            "12/12 nodes ready in 3 clusters",
        )
        assert [
            (row["cluster"], row["desired"], row["ready"]) for row in told["clusterStatuses"]
        ] == [
            ("a", 4, 4),
            ("b", 4, 4),
            ("c", 4, 4),
        ]
        ready = await world.condition(KIND, "infra", "agent", "Ready")
        assert (ready["status"], ready["message"]) == ("True", "12/12 nodes ready in 3 clusters.")
        live = await world.get(KIND, "infra", "agent")
        assert live is not None
        assert progress.rolled_out(registry.KINDS[KIND], live).done
        assert progress.clusters(live) == dict.fromkeys("abc", "4/4 updated, 4 ready")
        # A decision, three slices (and their namespaces) and at most two statuses.
        written = {
            key[3]: number
            for key, number in world.writes.items()
            if key[0] == "hub" and "daemon" in key[3]
        }
        assert (
            written.pop("pinterestdaemons/status") <= 4
        )  # as for a service whose pods become ready one by one
        assert written == {"pinterestdaemons": 1}  # in each member
        before = world.count()
        await world.settle()
        assert world.count() == before

    play(scenario)


def test_clusters_get_it_as_they_match_and_lose_it_as_they_do_not() -> None:
    async def scenario(world: World) -> None:
        await world.patch("MemberCluster", "", "a", {"metadata": {"labels": {"agents": "yes"}}})
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon(placement=on("agents")))
        await world.settle()
        assert await having(world) == ["a"]
        await world.patch("MemberCluster", "", "b", {"metadata": {"labels": {"agents": "yes"}}})
        await until(world, ["a", "b"])
        await world.patch("MemberCluster", "", "a", {"metadata": {"labels": {"agents": None}}})
        await until(world, ["b"])
        assert (await status(world))["desired"] == 4

    play(scenario)


async def until(world: World, members: list[str], within_s: int = 240) -> None:
    for _ in range(within_s):
        await asyncio.sleep(1)
        if await having(world) == members:
            break
    assert await having(world) == members
    await world.settle()


def test_a_selector_that_admits_no_cluster_takes_nothing_down_and_says_so() -> None:
    async def scenario(world: World) -> None:
        await world.patch("MemberCluster", "", "a", {"metadata": {"labels": {"agents": "yes"}}})
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon(placement=on("agents")))
        await world.settle()
        await world.patch(KIND, "infra", "agent", {"spec": {"placement": on("agnets")}})
        await world.settle()
        # A merge patch adds a label to the selector: both are asked for, and no cluster has both.
        assert await having(world) == ["a"]
        placed = await world.condition(KIND, "infra", "agent", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "NoClusterAdmitted")

    play(scenario)


def test_nodes_that_come_are_charged_and_no_slice_is_written_for_them() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon())
        await world.settle()
        assert await world._by_cluster("infra", "agent", "nodes") == {"a": 4, "b": 4, "c": 4}
        written = sum(
            number for key, number in world.writes.items() if key[3] == "pinterestdaemons"
        )
        await add_node(world, "b", "more-0")
        await add_node(world, "b", "more-1")
        for _ in range(120):
            await asyncio.sleep(1)
            if (await world._by_cluster("infra", "agent", "nodes"))["b"] == 6:
                break
        await world.settle()
        assert await world._by_cluster("infra", "agent", "nodes") == {"a": 4, "b": 6, "c": 4}
        assert (await status(world))["summary"] == "14/14 nodes ready in 3 clusters"
        assert (
            sum(number for key, number in world.writes.items() if key[3] == "pinterestdaemons")
            == written
        )

    play(scenario)


def test_nodes_that_come_are_charged_where_it_only_stays_too() -> None:
    """In a cluster that is cordoned, that its policy chooses by a slip no more, and under a quota
    that has no room for others.
    """

    async def scenario(world: World) -> None:
        await within_quota(world)
        first, second = await having(world)
        assert await world._by_cluster("infra", "agent", "nodes") == {first: 4, second: 4}
        await add_node(world, first, "more-0")
        await nodes_are(world, {first: 5, second: 4})
        await world.patch("MemberCluster", "", first, {"spec": {"cordoned": True}})
        await add_node(world, first, "more-1")
        await nodes_are(world, {first: 6, second: 4})
        await world.patch(KIND, "infra", "agent", {"spec": {"placement": on("agnets")}})
        await world.settle()
        await add_node(world, second, "more-2")
        await nodes_are(world, {first: 6, second: 5})
        await asyncio.sleep(30)  # the status of a quota is written after the decision
        used = await world.get("FederatedQuota", "", "infra")
        assert used is not None
        assert used["status"]["usage"][0]["used"]["pods"] == "11"

    play(scenario)


async def nodes_are(world: World, charged: dict[str, int], within_s: int = 100) -> None:
    """Waits for what is charged, less long than what lacks something is left alone at times."""
    for _ in range(within_s):
        await asyncio.sleep(1)
        if await world._by_cluster("infra", "agent", "nodes") == charged:
            break
    assert await world._by_cluster("infra", "agent", "nodes") == charged
    await world.settle()


@pytest.mark.long
def test_a_new_template_goes_from_cluster_to_cluster_and_stops_at_one_that_fails() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon())
        await world.settle()
        seen: list[list[str]] = []
        await world.patch(KIND, "infra", "agent", {"spec": daemon(image="agent:2")})
        for _ in range(600):
            await asyncio.sleep(0.5)
            images = [await image(world, member) for member in "abc"]
            if not seen or seen[-1] != images:
                seen.append(images)
            if images == ["agent:2"] * 3:
                break
        await world.settle()
        assert seen == [
            ["agent:2", "agent:1", "agent:1"],
            ["agent:2"] * 2 + ["agent:1"],
            ["agent:2"] * 3,
        ]
        assert (await status(world))["updated"] == 12
        broken = {"metadata": {"annotations": {"embedded.federator/image-pull-error": "true"}}}
        spec = daemon(image="agent:3")
        await world.patch(
            KIND, "infra", "agent", {"spec": {"template": {**spec["template"], **broken}}}
        )
        await asyncio.sleep(300)
        assert [await image(world, member) for member in "abc"] == ["agent:3", "agent:2", "agent:2"]
        told = await status(world)
        assert (told["ready"], told["desired"]) == (11, 12)
        assert told["clusterStatuses"][0]["reason"] == "ImagePullFailed"
        # The way back goes to the cluster that has the bad template, and to no other.
        healed = {**daemon(image="agent:2")["template"], "metadata": {"annotations": None}}
        await world.patch(KIND, "infra", "agent", {"spec": {"template": healed}})
        await world.settle()
        assert [await image(world, member) for member in "abc"] == ["agent:2"] * 3
        assert (await status(world))["ready"] == 12

    play(scenario)


def test_quota_is_charged_a_pod_on_each_node_and_clusters_beyond_it_do_not_get_it() -> None:
    async def scenario(world: World) -> None:
        await within_quota(world)
        assert len(await having(world)) == 2
        placed = await world.condition(KIND, "infra", "agent", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "ExceedsMaxQuota")
        used = await world.get("FederatedQuota", "", "infra")
        assert used is not None
        assert used["status"]["usage"][0]["used"] == {"cpu": "4", "memory": "512Mi", "pods": "8"}
        await world.patch(
            "FederatedQuota", "", "infra", {"spec": {"tiers": {"OnDemand": {"max": {"cpu": "6"}}}}}
        )
        await until(world, ["a", "b", "c"])

    play(scenario)


def test_it_goes_to_full_clusters_too_and_takes_the_room_that_others_then_lack() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create("PinterestService", "feed", "full", service(96, cpu="1"))
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon(cpu="1"))
        await asyncio.sleep(120)
        assert await having(world) == ["a", "b", "c"]
        told = await status(world)
        assert (told["desired"], told["ready"]) == (12, 0)
        assert told["clusterStatuses"][0]["reason"] == "Unschedulable"
        await world.patch("PinterestService", "feed", "full", {"spec": {"replicas": 48}})
        await world.settle()
        assert (await status(world))["ready"] == 12
        await world.patch("PinterestService", "feed", "full", {"spec": {"replicas": 96}})
        await world.settle()
        assert sum((await world.shares("feed", "full")).values()) == 84

    play(scenario)


def test_nodes_are_chosen_by_the_pods_and_counted_by_the_member() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await add_node(world, "a", "gpu-0", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        node = ObjectRef("v1", "nodes", "", "gpu-0", "Node")
        await world.member("a").patch(node, {"metadata": {"labels": {"pool": "gpu"}}})
        tolerations = [{"key": "gpu", "operator": "Exists"}]
        await world.create(
            KIND,
            "infra",
            "agent",
            daemon(pod={"nodeSelector": {"pool": "gpu"}, "tolerations": tolerations}),
        )
        await until(world, ["a", "b", "c"])
        assert await world._by_cluster("infra", "agent", "nodes") == {"a": 1, "b": 0, "c": 0}
        assert (await status(world))["summary"] == "1/1 nodes ready in 3 clusters"

    play(scenario)


def test_suspended_it_stays_as_it_is_and_deleted_it_goes_from_every_cluster() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon(config={"a": "1"}))
        await world.settle()
        await world.patch(
            KIND, "infra", "agent", {"spec": {"suspend": True, **daemon(image="agent:2")}}
        )
        await world.settle()
        assert [await image(world, member) for member in "abc"] == ["agent:1"] * 3
        await world.patch(KIND, "infra", "agent", {"spec": {"suspend": None}})
        await world.settle()
        assert [await image(world, member) for member in "abc"] == ["agent:2"] * 3
        await world.delete(KIND, "infra", "agent")
        await until(world, [])
        assert await world.decisions() == []
        for member in "abc":
            assert not (await world.member(member).list("v1", "pods")).items

    play(scenario)


def test_a_silent_cluster_keeps_it_and_counts_as_unknown() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "infra", "agent", daemon())
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(600)
        told = await status(world)
        assert (told["ready"], told["unknown"], told["clusters"]) == (8, 4, 3)
        assert await world._by_cluster("infra", "agent", "nodes") == {"a": 4, "b": 4, "c": 4}
        world.heal()
        await asyncio.sleep(60)
        await world.settle()
        assert (await status(world))["ready"] == 12
        assert await having(world) == ["a", "b", "c"]

    play(scenario)
