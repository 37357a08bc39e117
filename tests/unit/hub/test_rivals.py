"""Others at work on what we keep in members: hands that edit, rivals that insist, namespaces that
end.
"""

import asyncio
import copy
from typing import Any

import pytest

from federator.kinds import crds, registry
from federator.kube import errors
from federator.kube.control.write_fights import WriteFightDetector
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


def namespace(name: str) -> ObjectRef:
    return ObjectRef("v1", "namespaces", "", name, "Namespace")


def hub_writes(world: World, cluster: str) -> int:
    """Writes of slices by the hub in one member."""
    return sum(
        count
        for key, count in world.writes.items()
        if key[:2] == ("hub", cluster) and key[3] == "pinterestservices"
    )


async def fight(world: World, seconds: int) -> None:
    """Somebody sets the replicas of a slice back every second."""
    for _ in range(seconds):
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 1}}, at="a")
        await asyncio.sleep(1)


def test_the_same_wish_is_written_three_times_and_then_left_alone() -> None:
    tries: WriteFightDetector[str] = WriteFightDetector(writes=3, window_s=120.0, pause_s=300.0)
    for at_s in (0.0, 1.0):
        tries.written("web", "wish", at_s)
        assert not tries.paused_until_s("web", "wish", at_s)
    tries.written("web", "wish", 2.0)

    assert tries.paused_until_s("web", "wish", 3.0) == 302.0
    assert not tries.paused_until_s("web", "another wish", 3.0)
    assert not tries.paused_until_s("web", "wish", 302.0)


def test_drift_now_and_then_is_no_fight() -> None:
    tries: WriteFightDetector[str] = WriteFightDetector(writes=3, window_s=120.0, pause_s=300.0)
    for at_s in range(0, 2000, 200):
        tries.written("web", "wish", float(at_s))

    assert not tries.paused_until_s("web", "wish", 1801.0)


@pytest.mark.long
def test_a_slice_that_a_rival_keeps_changing_is_left_alone_for_minutes_and_says_so() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await asyncio.sleep(150)
        world.writes.clear()
        await fight(world, 240)
        applied = await world.condition(PSVC, "feed", "web", "Applied")

        assert (applied["status"], applied["reason"]) == ("False", "CannotConverge")
        assert "a refused it" in applied["message"]
        assert "drifted" in applied["message"]
        assert (await world.condition(PSVC, "feed", "web", "Stalled"))["reason"] == "CannotConverge"
        assert hub_writes(world, "a") == 3

        await fight(world, 300)
        assert hub_writes(world, "a") <= 6
        await asyncio.sleep(400)  # the rival has given up
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Applied"))["status"] == "True"

    play(scenario)


def test_a_new_decision_is_written_at_once_although_the_last_one_did_not_last() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        await fight(world, 10)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 24}})
        await asyncio.sleep(3)
        await world.settle()
        share = (await world.shares("feed", "web"))["a"]
        found = await world.get(PSVC, "feed", "web", at="a")

        assert found is not None
        assert found["spec"]["replicas"] == share

    play(scenario)


def test_a_slice_that_the_member_does_not_keep_whole_is_told_after_three_writes() -> None:
    """As with a CRD of an older version there, which prunes what it does not know."""

    async def scenario(world: World) -> None:
        client = world.member("a")
        ref = ObjectRef(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            "",
            "pinterestservices.pinterest.com",
            "CRD",
        )
        crd: dict[str, Any] = copy.deepcopy(crds.crd(registry.KINDS[PSVC]))
        spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"].pop("iamRole")
        await client.patch(ref, {"spec": crd["spec"]})
        await asyncio.sleep(5)
        await world.create(PSVC, "feed", "web", service(9, iamRole="role-web"))
        await asyncio.sleep(60)
        applied = await world.condition(PSVC, "feed", "web", "Applied")
        assert (applied["status"], applied["reason"]) == ("False", "CannotConverge")
        before = hub_writes(world, "a")
        assert before == 3
        await asyncio.sleep(200)
        assert hub_writes(world, "a") == before
        for name in ("b", "c"):
            found = await world.get(PSVC, "feed", "web", at=name)
            assert found is not None
            assert found["spec"]["iamRole"] == "role-web"

    play(scenario)


def test_a_foreign_object_is_told_for_its_cluster_in_the_status() -> None:
    async def scenario(world: World) -> None:
        client = world.member("a")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await client.create(namespace("feed"), body)
        ref = ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "web", PSVC)
        foreign = {
            "apiVersion": ref.api_version,
            "kind": PSVC,
            "metadata": {"name": "web", "namespace": "feed"},
        }
        await client.create(ref, {**foreign, "spec": service(1)})
        await world.create(PSVC, "feed", "web", service(9))
        await asyncio.sleep(20)
        applied = await world.condition(PSVC, "feed", "web", "Applied")

        assert applied["reason"] == "Conflict"
        assert applied["message"].startswith("a refused it")
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        rows = {row["cluster"]: row for row in found["status"]["clusterStatuses"]}
        assert rows["a"]["reason"] == "Conflict"

    play(scenario)


def test_a_share_that_a_foreign_object_blocks_moves_and_may_come_back() -> None:
    """After 60 seconds, until that object has gone."""

    async def scenario(world: World) -> None:
        client = world.member("a")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await client.create(namespace("feed"), body)
        ref = ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "web", PSVC)
        foreign = {
            "apiVersion": ref.api_version,
            "kind": PSVC,
            "metadata": {"name": "web", "namespace": "feed"},
        }
        stranger = await client.create(ref, {**foreign, "spec": service(1)})
        await world.create(PSVC, "feed", "web", service(9))
        await asyncio.sleep(50)
        assert (await world.shares("feed", "web"))["a"] > 0

        await asyncio.sleep(40)
        shares = await world.shares("feed", "web")
        assert ("a" not in shares, sum(shares.values())) == (True, 9)
        (decision,) = await world.decisions()
        rejected = decision["spec"]["verdicts"]["rejected"]
        (why,) = [group for group in rejected if group["clusters"] == ["a"]]
        assert why["reason"] == "Conflict"
        assert "an object of its name there belongs to somebody else" in str(why)
        assert "a cluster could not run its share" in str(decision["spec"]["causes"])
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"
        await asyncio.sleep(900)  # it stays away for as long as the object is there
        assert "a" not in await world.shares("feed", "web")

        await client.delete(ref, uid=stranger["metadata"]["uid"])
        await world.host.patch(ref, {"spec": {"replicas": 24}})
        await asyncio.sleep(40)
        assert (await world.shares("feed", "web")).get("a", 0) > 0

    play(scenario)


def test_a_foreign_object_where_nothing_has_to_come_is_in_nobodys_way() -> None:
    async def scenario(world: World) -> None:
        client = world.member("a")
        await client.create(
            namespace("feed"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}},
        )
        ref = ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "web", PSVC)
        foreign = {
            "apiVersion": ref.api_version,
            "kind": PSVC,
            "metadata": {"name": "web", "namespace": "feed"},
        }
        await client.create(ref, {**foreign, "spec": service(1)})
        await world.create(
            PSVC, "feed", "web", service(9, placement={"clusters": {"exclude": ["a"]}})
        )
        await world.settle()
        applied = await world.condition(PSVC, "feed", "web", "Applied")

        assert (applied["status"], applied["reason"]) == ("True", "Applied")

    play(scenario)


def test_a_namespace_that_ends_in_a_member_is_waited_for_and_told() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        client = world.member("a")
        # Something with a finalizer of its own keeps the namespace from ending.
        meta = {"name": "stays", "namespace": "feed", "finalizers": ["example.com/hold"]}
        held = ObjectRef("v1", "configmaps", "feed", "stays", "ConfigMap")
        await client.create(held, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        found = await client.get(namespace("feed"))
        await client.delete(namespace("feed"), uid=found["metadata"]["uid"])
        await asyncio.sleep(30)
        world.writes.clear()
        await asyncio.sleep(300)
        applied = await world.condition(PSVC, "feed", "web", "Applied")
        assert applied["reason"] == "NamespaceTerminating"
        assert "feed is being deleted" in applied["message"]
        assert hub_writes(world, "a") <= 20

        await client.patch(held, {"metadata": {"finalizers": []}})
        await asyncio.sleep(120)
        await world.settle()
        assert await world.get(PSVC, "feed", "web", at="a") is not None
        assert (await world.condition(PSVC, "feed", "web", "Applied"))["status"] == "True"

    play(scenario)


def test_a_namespace_that_ends_on_the_host_takes_its_workloads_and_waits_for_members() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        found = await world.host.get(namespace("feed"))
        await world.host.delete(namespace("feed"), uid=found["metadata"]["uid"])
        await asyncio.sleep(60)

        assert await world.decisions() == []
        for name in world.federation.members:
            assert await world.get(PSVC, "feed", "web", at=name) is None
        try:
            await world.host.get(namespace("feed"))
        except errors.NotFound:
            return
        raise AssertionError("the namespace is still there")

    play(scenario)
