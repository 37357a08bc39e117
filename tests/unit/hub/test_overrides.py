"""Overrides of policies in a running federation: what each cluster gets, how an edit rolls out, and
what is refused.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.kinds import registry
from federator.model.names import WorkloadKey
from tests.unit.hub.world import World, jobset, play, service

PSVC, CPP = "PinterestService", "ClusterPlacementPolicy"
POLICY = registry.KINDS[CPP].ref("", "where")
SPREAD: Mapping[str, Any] = {"strategy": "Spread"}
MIRROR: Mapping[str, Any] = {
    "clusters": {"matchLabels": {"zone": "z-a"}},
    "image": {"registry": "mirror.example"},
    "env": [{"name": "ZONE", "value": "${cluster.labels.zone}"}],
}
KEY = WorkloadKey(PSVC, "feed", "web")
DEPLOYMENT: Mapping[str, Any] = {
    "replicas": 3,
    "selector": {"matchLabels": {"app": "page"}},
    "template": {
        "metadata": {"labels": {"app": "page"}},
        "spec": service(1)["template"]["spec"],
    },
}


async def policy(world: World, *overrides: Mapping[str, Any], **spec: Any) -> None:
    await world.host.create(
        POLICY,
        {
            "apiVersion": POLICY.api_version,
            "kind": CPP,
            "metadata": {"name": POLICY.name},
            "spec": {"division": SPREAD, "overrides": list(overrides), **spec},
        },
    )


async def edit(world: World, *overrides: Mapping[str, Any]) -> None:
    await world.host.patch(POLICY, {"spec": {"overrides": list(overrides)}})


async def container(world: World, cluster: str, name: str = "web") -> dict[str, Any]:
    """The first container of the native Deployment."""
    deployment = await world.get("Deployment", "feed", name, at=cluster)
    assert deployment is not None
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


async def images(world: World, name: str = "web") -> dict[str, str]:
    return {c: (await container(world, c, name))["image"] for c in sorted(world.federation.members)}


def env(of: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in of.get("env", ())}


PLAIN = {"a": "app:1", "b": "app:1", "c": "app:1"}


def test_an_override_changes_the_natives_of_the_selected_cluster_alone() -> None:
    async def scenario(world: World) -> None:
        await policy(world, MIRROR)
        await world.create(PSVC, "feed", "web", service(6))
        await world.create("Deployment", "feed", "page", DEPLOYMENT)
        await world.settle()

        assert await images(world) == {**PLAIN, "a": "mirror.example/app:1"}
        assert await images(world, "page") == {**PLAIN, "a": "mirror.example/app:1"}
        assert env(await container(world, "a"))["ZONE"] == "z-a"
        assert "ZONE" not in env(await container(world, "b"))
        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "Ready")

    play(scenario)


def test_a_settled_override_writes_nothing_more_also_after_a_restart() -> None:
    async def scenario(world: World) -> None:
        await policy(world, MIRROR)
        await world.create(PSVC, "feed", "web", service(6))
        await world.create("PinterestJobSet", "feed", "index", jobset(6, 3))
        await world.create("Deployment", "feed", "page", DEPLOYMENT)
        await world.settle()
        await asyncio.sleep(90)
        world.writes.clear()
        await asyncio.sleep(60)
        assert world.count("hub") == 0

        await world.federation.kill("hub")
        world.writes.clear()
        world.federation.start_hub()
        await world.settle()
        await asyncio.sleep(30)
        assert world.count("hub") == 0

    play(scenario)


def test_an_edit_of_an_override_rolls_out_without_a_move_or_a_new_decision() -> None:
    async def scenario(world: World) -> None:
        await policy(world)
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await asyncio.sleep(30)
        before = await world.decisions()
        generation = (await slice_of(world, "a"))["metadata"]["generation"]
        world.writes.clear()

        await edit(world, MIRROR)
        await world.settle()
        assert await images(world) == {**PLAIN, "a": "mirror.example/app:1"}
        found = await slice_of(world, "a")
        assert found["metadata"]["generation"] == generation + 1
        assert found["status"]["observedGeneration"] == generation + 1
        assert found["status"]["updatedReplicas"] == 2
        written = {(c, r) for (p, c, _, r), n in world.writes.items() if p == "hub" and n}
        assert ("a", "pinterestservices") in written
        assert ("b", "pinterestservices") not in written
        assert ("host", "placementdecisions") not in written
        assert ("host", "controllerrevisions") not in written
        assert [d["spec"]["seq"] for d in await world.decisions()] == [
            d["spec"]["seq"] for d in before
        ]
        events = (await world.host.list("events.k8s.io/v1", "events")).items
        assert "Restored" not in {each["reason"] for each in events}

        await edit(world)
        await world.settle()
        assert await images(world) == PLAIN
        assert "overrides" not in (await slice_of(world, "a"))["spec"]["slice"]

    play(scenario)


async def slice_of(world: World, cluster: str) -> dict[str, Any]:
    found = await world.get(PSVC, "feed", "web", at=cluster)
    assert found is not None
    return found


def test_an_override_for_all_clusters_reaches_one_cluster_after_the_other() -> None:
    async def scenario(world: World) -> None:
        await policy(world, rollout={"maxClustersAtOnce": 1})
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await edit(world, {"image": {"tag": "2"}})
        most = 0
        for _ in range(600):
            await asyncio.sleep(0.1)
            at = [c for c in "abc" if await under_way(world, c)]
            most = max(most, len(at))
        assert most == 1
        assert await images(world) == dict.fromkeys("abc", "app:2")

    play(scenario)


async def under_way(world: World, cluster: str) -> bool:
    """Whether its slice has the new template, and not all of its copies do."""
    found = await slice_of(world, cluster)
    image = found["spec"]["template"]["spec"]["containers"][0]["image"]
    status = found.get("status", {})
    done = status.get("observedGeneration") == found["metadata"]["generation"]
    return image == "app:2" and not (done and status.get("updatedReplicas") == 2)


def test_a_relabelled_cluster_gets_the_values_of_its_new_label() -> None:
    async def scenario(world: World) -> None:
        everywhere = {"env": MIRROR["env"]}
        await policy(world, everywhere)
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        member = registry.KINDS["MemberCluster"].ref("", "b")
        await world.host.patch(member, {"metadata": {"labels": {"zone": "z-new"}}})
        await world.settle()
        zones = {c: env(await container(world, c))["ZONE"] for c in "abc"}
        assert zones == {"a": "z-a", "b": "z-new", "c": "z-c"}

    play(scenario)


def test_overrides_of_a_required_policy_come_after_those_of_the_own_policy() -> None:
    async def scenario(world: World) -> None:
        await policy(
            world,
            {"image": {"registry": "platform.example"}},
            enforcement="Required",
            division={},
        )
        await world.create(PSVC, "feed", "other", service(1))
        own = registry.KINDS["PlacementPolicy"].ref("feed", "own")
        await world.host.create(
            own,
            {
                "apiVersion": own.api_version,
                "kind": "PlacementPolicy",
                "metadata": {"name": "own", "namespace": "feed"},
                "spec": {
                    "division": SPREAD,
                    "overrides": [{"image": {"registry": "team.example", "tag": "7"}}],
                },
            },
        )
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        assert await images(world) == dict.fromkeys("abc", "platform.example/app:7")

    play(scenario)


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a patch that does not apply": (
        {"jsonPatch": [{"op": "remove", "path": "/spec/template/spec/volumes/0"}]},
        "spec.overrides[0] of ClusterPlacementPolicy where, jsonPatch[0]: cannot remove"
        " /spec/template/spec/volumes/0: the object has no such field",
    ),
    "a test that fails": (
        {
            "jsonPatch": [
                {
                    "op": "test",
                    "path": "/spec/template/spec/containers/0/image",
                    "value": "other:1",
                }
            ]
        },
        "the object has another value there",
    ),
    "an object that breaks": (
        {
            "jsonPatch": [
                {"op": "add", "path": "/spec/template/spec/containers/0/ports", "value": "80"}
            ]
        },
        "spec.template.spec.containers[0].ports",
    ),
    "lower Pod Security": (
        {
            "jsonPatch": [
                {"op": "add", "path": "/spec/template/spec/hostNetwork", "value": True},
            ]
        },
        "would lower the Pod Security level of its pods: spec.template.spec.hostNetwork",
    ),
    "another shape": (
        {
            "jsonPatch": [
                {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"disk": "fast"}}
            ]
        },
        "the shape of a copy is one for all clusters",
    ),
    "another identity": (
        {
            "jsonPatch": [
                {"op": "add", "path": "/spec/template/spec/serviceAccountName", "value": "root"}
            ]
        },
        "would give its pods another service account: root",
    ),
    "a label that the cluster lacks": (
        {"env": [{"name": "RACK", "value": "${cluster.labels.rack}"}]},
        "cluster a does not have this label",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_override_moves_nothing_and_is_reported(what: str) -> None:
    override, words = REFUSED[what]

    async def scenario(world: World) -> None:
        await policy(world)
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await asyncio.sleep(30)
        world.writes.clear()
        await edit(world, {"clusters": {"names": ["a"]}, **override})
        await asyncio.sleep(30)
        written = {(c, r) for (p, c, _, r), n in world.writes.items() if p == "hub" and n}
        assert not {each for each in written if each[0] != "host"}
        assert await images(world) == PLAIN
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        rows = {row["cluster"]: row for row in found["status"]["clusterStatuses"]}
        assert rows["a"]["reason"] == "OverrideRefused", rows["a"]
        assert words in rows["a"]["message"]

        await edit(world, MIRROR)
        await world.settle()
        assert await images(world) == {**PLAIN, "a": "mirror.example/app:1"}
        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert ready["status"] == "True"

    play(scenario)


def test_a_refused_override_does_not_keep_copies_from_leaving() -> None:
    async def scenario(world: World) -> None:
        await policy(world)
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        bad = {"clusters": {"names": ["a"]}, **REFUSED["a patch that does not apply"][0]}
        await edit(world, bad)
        await asyncio.sleep(20)
        await world.host.patch(POLICY, {"spec": {"clusters": {"exclude": ["a"]}}})
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "web", at="a") is None
        assert await world.ready_replicas("feed", "web") == 6

    play(scenario)


def test_a_policy_that_disappears_leaves_the_overrides_of_running_pods() -> None:
    async def scenario(world: World) -> None:
        await policy(world, MIRROR)
        named = service(6, placement={"policyRef": "where"})
        await world.create(PSVC, "feed", "web", named)
        await world.settle()
        await asyncio.sleep(30)
        world.writes.clear()
        live = await world.host.get(POLICY)
        await world.host.delete(POLICY, uid=live["metadata"]["uid"])
        await asyncio.sleep(60)
        assert await images(world) == {**PLAIN, "a": "mirror.example/app:1"}
        assert not [key for key in world.writes if key[0] == "hub" and key[1] in "abc"]

    play(scenario)
