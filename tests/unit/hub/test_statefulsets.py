"""PinterestStatefulSet: each ordinal runs in one cluster, with its claims, whatever happens."""

import asyncio
from typing import Any

import pytest

from federator.kinds import registry
from federator.kinds.pods import progress
from federator.kube import errors
from tests.unit.hub.world import World, play

KIND = "PinterestStatefulSet"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def stateful(replicas: int, image: str = "db:1", cpu: str = "1", **more: Any) -> dict[str, Any]:
    """The spec of a PinterestStatefulSet."""
    container = {
        "name": "db",
        "image": image,
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "replicas": replicas,
        "template": {"spec": {"containers": [container]}},
        "volumeClaimTemplates": [CLAIM],
        **more,
    }


async def status(world: World) -> dict[str, Any]:
    found = await world.get(KIND, "data", "db")
    assert found is not None
    return dict(found.get("status") or {})


async def running(world: World) -> dict[int, list[str]]:
    """ordinal -> the members with a pod of it."""
    found: dict[int, list[str]] = {}
    for member in sorted(world.federation.members):
        for pod in (await world.member(member).list("v1", "pods")).items:
            ordinal = int(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"])
            found.setdefault(ordinal, []).append(member)
    return dict(sorted(found.items()))


async def claims(world: World, member: str) -> list[str]:
    found = (await world.member(member).list("v1", "persistentvolumeclaims")).items
    return sorted(claim["metadata"]["name"] for claim in found)


async def sets(world: World, member: str) -> dict[str, tuple[int, int]]:
    """StatefulSet -> its first ordinal and its size."""
    found = (await world.member(member).list("apps/v1", "statefulsets")).items
    return {
        one["metadata"]["name"]: (one["spec"]["ordinals"]["start"], one["spec"]["replicas"])
        for one in found
    }


async def scale(world: World, replicas: int) -> None:
    await world.patch(KIND, "data", "db", {"spec": {"replicas": replicas}})
    await world.settle()


def test_it_becomes_one_stateful_set_per_block_and_settles_within_the_write_budget() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "data", "db", stateful(9))
        await world.settle()
        assert await running(world) == {
            ordinal: [member] for ordinal, member in enumerate("aaabbbccc")
        }
        assert await sets(world, "b") == {"db-3": (3, 3)}
        assert await claims(world, "b") == ["data-db-3-3", "data-db-3-4", "data-db-3-5"]
        told = await status(world)
        assert (told["desired"], told["ready"], told["placed"], told["clusters"]) == (9, 9, 9, 3)
        assert told["summary"] == "9/9 ready in 3 clusters"
        row = told["clusterStatuses"][1]
        assert (row["cluster"], row["ordinals"], row["ready"]) == ("b", "3-5", 3)
        assert row["blocks"] == [{"ordinals": "3-5", "replicas": 3, "ready": 3, "updated": 3}]
        live = await world.get(KIND, "data", "db")
        assert live is not None
        assert progress.rolled_out(registry.KINDS[KIND], live).done
        before = world.count()
        await world.settle()
        assert world.count() == before

    play(scenario)


def test_the_highest_ordinals_come_and_go_and_find_their_claims_again() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "data", "db", stateful(9))
        await world.settle()
        await scale(world, 4)
        assert await running(world) == {0: ["a"], 1: ["a"], 2: ["a"], 3: ["b"]}
        assert await sets(world, "c") == {}
        assert len(await claims(world, "c")) == 3
        (decision,) = await world.decisions()
        blocks = {one["cluster"]: one["ranges"] for one in decision["spec"]["blocks"]}
        assert blocks == {"a": "0-2", "b": "3-5", "c": "6-8"}
        await scale(world, 10)
        assert await running(world) == {
            ordinal: [member] for ordinal, member in enumerate("aaabbbcccc")
        }
        assert len(await claims(world, "c")) == 4

    play(scenario)


def test_a_full_cluster_s_growth_opens_a_block_elsewhere_and_every_name_stays() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        bounded = {"division": {"maxPerCluster": 4}}
        await world.create(KIND, "data", "db", stateful(9, placement=bounded))
        await world.settle()
        before = {
            pod["metadata"]["uid"]
            for member in "abc"
            for pod in (await world.member(member).list("v1", "pods")).items
        }
        await scale(world, 12)
        assert await sets(world, "c") == {"db-6": (6, 4)}
        both = {**await sets(world, "a"), **await sets(world, "b")}
        assert both == {"db-0": (0, 3), "db-3": (3, 3), "db-10": (10, 1), "db-11": (11, 1)}
        assert {ordinal: len(where) for ordinal, where in (await running(world)).items()} == (
            dict.fromkeys(range(12), 1)
        )
        after = {
            pod["metadata"]["uid"]
            for member in "abc"
            for pod in (await world.member(member).list("v1", "pods")).items
        }
        assert before <= after
        rows = {row["cluster"]: row for row in (await status(world))["clusterStatuses"]}
        assert rows["a"]["ordinals"] == "0-2,10"
        assert [block["ready"] for block in rows["a"]["blocks"]] == [3, 1]

    play(scenario)


def test_a_new_template_begins_with_the_highest_ordinal_and_goes_cluster_by_cluster() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "data", "db", stateful(6))
        await world.settle()
        await world.patch(KIND, "data", "db", {"spec": stateful(6, image="db:2")})
        seen: list[str] = []
        for _ in range(900):
            await asyncio.sleep(0.5)
            images = {}
            for member in "abc":
                for pod in (await world.member(member).list("v1", "pods")).items:
                    ordinal = int(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"])
                    images[ordinal] = pod["spec"]["containers"][0]["image"][-1]
            now = "".join(images.get(ordinal, "-") for ordinal in range(6))
            if not seen or seen[-1] != now:
                seen.append(now)
            if now == "222222":
                break
        whole = [images for images in seen if "-" not in images]
        assert whole == ["111111", "111112", "111122", "111222", "112222", "122222", "222222"]
        await world.settle()
        assert (await status(world))["updatedReplicas"] == 6

    play(scenario)


@pytest.mark.long
def test_a_silent_cluster_and_one_that_is_drained_keep_their_ordinals_and_say_so() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "data", "db", stateful(6))
        await world.settle()
        began = await running(world)
        world.turn_away("b")
        await asyncio.sleep(900)
        told = await status(world)
        assert (told["ready"], told["unknownReplicas"]) == (4, 2)
        assert await running(world) == began
        member = await world.get("MemberCluster", "", "b")
        assert member is not None
        word = member["status"]["lastHeard"]
        await world.patch("MemberCluster", "", "b", {"spec": {"declaredDead": word}})
        await asyncio.sleep(600)
        assert await running(world) == began
        await world.patch("MemberCluster", "", "b", {"spec": {"declaredDead": None}})
        world.clear()
        await asyncio.sleep(60)
        await world.settle()
        await world.patch("MemberCluster", "", "c", {"spec": {"drain": {"force": True}}})
        await asyncio.sleep(300)
        assert await running(world) == began
        (decision,) = await world.decisions()
        assert (
            "ordinals 4-5 stay, although cluster c is being drained" in decision["spec"]["message"]
        )

    play(scenario)


def test_what_a_person_gives_up_begins_anew_elsewhere_once_nothing_is_left() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "data", "db", stateful(6))
        await world.settle()
        await world.patch(KIND, "data", "db", {"spec": {"release": ["b"]}})
        for _ in range(600):
            await asyncio.sleep(0.2)
            assert all(len(where) == 1 for where in (await running(world)).values())
        await world.settle()
        where = await running(world)
        assert sorted(where) == list(range(6))
        assert not any(member == "b" for members in where.values() for member in members)
        assert await claims(world, "b") == ["data-db-2-2", "data-db-2-3"]
        assert (await status(world))["ready"] == 6

    play(scenario)


def test_what_may_not_change_is_refused_and_a_deleted_one_leaves_its_claims() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(KIND, "data", "db", stateful(3))
        await world.settle()
        for spec, why in (
            ({"volumeClaimTemplates": None}, "volumeClaimTemplates are fixed"),
            ({"podManagementPolicy": "Parallel"}, "is fixed once it has been set"),
            ({"placement": {"division": {"strategy": "Duplicate"}}}, "each ordinal runs once"),
        ):
            with pytest.raises(errors.Invalid, match=why):
                await world.patch(KIND, "data", "db", {"spec": spec})
        await world.delete(KIND, "data", "db")
        for _ in range(120):
            await asyncio.sleep(1)
            if not await world.decisions():
                break
        assert await world.decisions() == []
        assert await running(world) == {}
        assert [len(await claims(world, member)) for member in "abc"] == [1, 1, 1]

    play(scenario)
