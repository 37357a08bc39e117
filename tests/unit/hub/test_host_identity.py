"""Another host, or this one as it was some time ago: nothing is deleted on doubt, and nothing is
stuck for ever.
"""

import asyncio
from typing import Any

from federator.cli.clusters import joining
from federator.hub.members import claims
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.client import Client
from federator.model.names import DECISION_FINALIZER
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, jobset, play, service, small_fleet

PSVC = "PinterestService"
PD = registry.KINDS["PlacementDecision"]


async def replaced_host(world: World, seed: int = 2) -> World:
    """Another host over the same members; the first one's hub is gone."""
    await world.federation.kill("hub")
    other = World(small_fleet(), HubOptions(), seed)
    other.federation.clock = world.federation.clock
    other.federation.members = world.federation.members
    await other.federation.install()
    other.federation.start_hub()
    return other


async def identity(client: Client) -> str:
    return await client.kube_system_uid()


async def ready_of(world: World, member: str) -> dict[str, Any]:
    found = await world.get("MemberCluster", "", member)
    assert found is not None
    return next((one for one in found["status"]["conditions"] if one["type"] == "Ready"), {})


def test_a_member_remembers_the_host_that_it_belongs_to() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        uid = await identity(world.host)

        for name in world.federation.members:
            found = await world.get("ClusterCapacity", "", "cluster", at=name)
            assert found is not None
            assert found["metadata"]["annotations"][claims.annotation("federator")] == uid

    play(scenario)


def test_a_wrong_host_writes_and_deletes_nothing_and_says_what_to_do() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        slices = {
            name: await world.get(PSVC, "feed", "web", at=name) for name in world.federation.members
        }
        other = await replaced_host(world)
        try:
            await other.create(PSVC, "feed", "web", service(9))
            await other.create(PSVC, "feed", "page", service(3))
            await asyncio.sleep(200)

            for name, before in slices.items():
                assert before is not None
                now = await world.get(PSVC, "feed", "web", at=name)
                assert now is not None
                assert now["metadata"]["uid"] == before["metadata"]["uid"]
                assert now["spec"] == before["spec"]
                assert await world.get(PSVC, "feed", "page", at=name) is None
                ready = await ready_of(other, name)
                assert (ready["status"], ready["reason"]) == ("False", "HostIdentityChanged")
                assert await identity(world.host) in ready["message"]
                cluster = await other.get("MemberCluster", "", name)
                assert cluster is not None
                assert joining.other_host(cluster) == await identity(world.host)
                assert await identity(other.host) in ready["message"]
                assert f"federator cluster take-over {name}" in ready["message"]
            writes = [key for key in other.writes if key[0] == "hub" and key[1] != "host"]
            assert writes == []

            await other.delete(PSVC, "feed", "web")
            await asyncio.sleep(60)
            assert all([await world.get(PSVC, "feed", "web", at=name) for name in slices])
        finally:
            await other.federation.stop()

    play(scenario)


def test_an_operator_gives_a_member_to_the_new_host_and_work_goes_there_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        old = await identity(world.host)
        other = await replaced_host(world)
        try:
            await asyncio.sleep(60)
            await other.patch(
                "MemberCluster", "", "a", {"spec": {"takeOverFrom": "some-other-host"}}
            )
            await asyncio.sleep(30)
            assert (await ready_of(other, "a"))["reason"] == "HostIdentityChanged"

            await other.patch("MemberCluster", "", "a", {"spec": {"takeOverFrom": old}})
            await asyncio.sleep(10)
            assert (await ready_of(other, "a"))["status"] == "True"
            await other.create(PSVC, "feed", "page", service(3))
            await asyncio.sleep(20)

            assert await world.get(PSVC, "feed", "page", at="a") is not None
            assert await world.get(PSVC, "feed", "page", at="b") is None
            # What the host before it left is of workloads that this one does not know.
            assert await world.get(PSVC, "feed", "web", at="a") is not None
        finally:
            await other.federation.stop()

    play(scenario)


def test_the_host_that_was_replaced_stops_at_once_when_it_runs_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        uid = claims.annotation("federator")
        await world.patch(
            "ClusterCapacity", "", "cluster", {"metadata": {"annotations": {uid: "newer"}}}, at="a"
        )
        await asyncio.sleep(1)
        world.writes.clear()
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 30}})
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(60)

        assert not [key for key in world.writes if key[:2] == ("hub", "a")]
        assert await world.get(PSVC, "feed", "web", at="a") is not None
        (blocked,) = await world.decisions()
        assert blocked["spec"]["deletion"]["waitingFor"] == ["a"]

    play(scenario)


async def backup(world: World) -> list[dict[str, Any]]:
    return await world.decisions()


async def restore(
    world: World, decisions: list[dict[str, Any]], workloads: dict[str, dict[str, Any]]
) -> None:
    """The host as it was: its decisions, and the specs of its workloads by name."""
    await world.federation.kill("hub")
    for obj in await world.decisions():
        meta = obj["metadata"]
        ref = PD.ref(meta["namespace"], meta["name"])
        await world.host.patch(ref, {"metadata": {"finalizers": []}})
        await world.host.delete(ref, uid=meta["uid"])
    for obj in decisions:
        meta = {
            name: obj["metadata"][name]
            for name in ("name", "namespace", "labels")
            if name in obj["metadata"]
        }
        body = {**obj, "metadata": {**meta, "finalizers": [DECISION_FINALIZER]}}
        await world.host.create(PD.ref(meta["namespace"], meta["name"]), body)
    for name, spec in workloads.items():
        await world.patch(PSVC, "feed", name, {"spec": spec})
    world.federation.start_hub()


def test_a_restored_host_keeps_what_runs_where_it_runs_and_can_change_it_again() -> None:
    async def scenario(world: World) -> None:
        place: dict[str, Any] = {"placement": {"clusters": {"exclude": ["a"]}}}
        await world.create(PSVC, "feed", "web", service(6, **place))
        await world.settle()
        saved = await backup(world)
        # Everything after this is lost with the host: it moves, and it is decided anew several
        # times.
        for replicas in (7, 8, 9):
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": replicas}})
            await asyncio.sleep(3)
            await world.settle()
        shares = await world.shares("feed", "web")
        world.writes.clear()
        await restore(world, saved, {"web": {"replicas": 9}})
        await world.settle()

        assert await world.shares("feed", "web") == shares
        deletes = [key for key in world.writes if key[0] == "hub" and key[2] == "DELETE"]
        assert deletes == []

        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 4
        assert (await world.condition(PSVC, "feed", "web", "Applied"))["status"] == "True"

    play(scenario)


def test_a_restored_host_that_wants_less_takes_from_no_cluster_what_it_had_decided_itself() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        saved, shares = await backup(world), await world.shares("feed", "web")
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await asyncio.sleep(5)
        await world.settle()
        await restore(world, saved, {"web": {"replicas": 6}})
        await asyncio.sleep(10)
        await world.settle()

        assert await world.shares("feed", "web") == shares

    play(scenario)


def test_a_share_that_a_foreign_object_kept_from_being_made_is_not_taken_for_moved() -> None:
    async def scenario(world: World) -> None:
        foreign = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await world.member("a").create(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"), foreign
        )
        body = {
            "apiVersion": "pinterest.com/v1beta1",
            "kind": PSVC,
            "metadata": {"name": "web", "namespace": "feed"},
        }
        await world.member("a").create(
            registry.KINDS[PSVC].ref("feed", "web"), {**body, "spec": service(1)}
        )
        await world.create(PSVC, "feed", "web", service(6))
        await asyncio.sleep(10)
        saved, shares = await backup(world), await world.shares("feed", "web")
        assert shares["a"]
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(10)
        await restore(world, saved, {"web": {"replicas": 6}})
        await asyncio.sleep(30)

        assert (await world.shares("feed", "web"))["a"] == shares["a"]

    play(scenario)


def test_a_slice_of_a_decision_that_the_host_has_lost_is_kept_and_taken_for_decided() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(6, placement={"clusters": {"names": ["a"]}})
        )
        await world.settle()
        saved = await backup(world)
        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"names": ["a", "b"]}}}}
        )
        await asyncio.sleep(2)
        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"names": ["b"]}}}}
        )
        await asyncio.sleep(5)
        await world.settle()
        moved = await world.get(PSVC, "feed", "web", at="b")
        assert moved is not None
        # The backup's policy allows both clusters: nothing asks for a move.
        await restore(world, saved, {"web": {"placement": {"clusters": {"names": ["a", "b"]}}}})
        await asyncio.sleep(5)
        await world.settle()

        assert await world.shares("feed", "web") == {"b": 6}
        now = await world.get(PSVC, "feed", "web", at="b")
        assert now is not None
        assert now["metadata"]["uid"] == moved["metadata"]["uid"]
        assert await world.get(PSVC, "feed", "web", at="a") is None

    play(scenario)


def test_a_member_that_has_obeyed_later_decisions_obeys_the_restored_host_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(6, placement={"clusters": {"names": ["a"]}})
        )
        await world.settle()
        saved = await backup(world)
        for replicas in (7, 8, 0):
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": replicas}})
            await asyncio.sleep(5)
            await world.settle()
        assert await world.get(PSVC, "feed", "web", at="a") is None
        await restore(world, saved, {"web": {"replicas": 6}})
        await asyncio.sleep(10)
        await world.settle()

        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 6
        assert world.writes["hub", "host", "PATCH", "placementdecisions"] < 12

    play(scenario)


def test_a_restored_host_runs_no_shard_twice() -> None:
    async def scenario(world: World) -> None:
        spec = jobset(8, 2, annotations={"embedded.federator/run-seconds": "3600"})
        await world.create("PinterestJobSet", "feed", "index", spec)
        await asyncio.sleep(5)
        saved = await backup(world)
        await world.patch("PinterestJobSet", "feed", "index", {"spec": {"parallelism": 6}})
        await asyncio.sleep(10)
        await restore(world, saved, {})
        await asyncio.sleep(30)
        seen: list[int] = []
        for name in world.federation.members:
            found = await world.get("PinterestJobSet", "feed", "index", at=name)
            for part in (
                (found or {"spec": {"slice": {}}})["spec"]["slice"].get("ranges", "").split(",")
            ):
                low, _, high = part.partition("-")
                seen += range(int(low), int(high or low) + 1) if part else []

        assert sorted(seen) == list(range(8))

    play(scenario)


def test_a_member_that_forges_a_later_slice_takes_nothing_from_the_others() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            PSVC, "feed", "web", service(6, placement={"clusters": {"names": ["b", "c"]}})
        )
        await world.settle()
        before = await world.shares("feed", "web")
        found = await world.get(PSVC, "feed", "web", at="b")
        assert found is not None
        spec = found["spec"] | {"replicas": 30}
        spec["slice"] = found["spec"]["slice"] | {
            "cluster": "a",
            "seq": found["spec"]["slice"]["seq"] + 1000,
        }
        meta = {"name": "web", "namespace": "feed", "labels": found["metadata"]["labels"]}
        body = {"apiVersion": found["apiVersion"], "kind": PSVC, "metadata": meta, "spec": spec}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
        await world.member("a").create(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"), space
        )
        await world.member("a").create(registry.KINDS[PSVC].ref("feed", "web"), body)
        await asyncio.sleep(30)
        await world.settle()

        assert await world.shares("feed", "web") == before

    play(scenario)


def test_a_member_made_anew_is_no_other_host() -> None:
    assert claims.recorded({"metadata": {}}, "federator") == ""
    assert (
        len(
            claims.recorded({"metadata": {"annotations": {claims.annotation("f"): "x" * 999}}}, "f")
        )
        == 64
    )
