"""Foreground and orphan deletion of every kind, on a host with a garbage collector and on one
without.
"""

import asyncio
from typing import Any

import pytest

from federator.api import raw
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.model import names
from federator.model.steps import ObjectRef
from tests.e2e import workloads
from tests.unit.hub.world import World, play

SPACE = "feed"
IN_AB = {"placement": {"clusters": {"names": ["a", "b"]}}}
LASTING = {"embedded.federator/run-seconds": "3600"}
HOSTS = pytest.mark.parametrize(
    "collects", [True, False], ids=["garbage collector", "no garbage collector"]
)


def lasting(obj: dict[str, Any]) -> dict[str, Any]:
    """The same with pods that run for an hour."""
    obj["spec"]["template"]["metadata"].setdefault("annotations", {}).update(LASTING)
    return obj


def native_cron() -> dict[str, Any]:
    run = workloads.jobset("tick", SPACE, 1, 1)["spec"]
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestNativeCronJob",
        "metadata": {"name": "tick", "namespace": SPACE},
        "spec": {
            **run,
            **IN_AB,
            "cron": {"schedule": "0 0 31 2 *", "after": "2026-01-01T00:00:00Z"},
        },
    }


KINDS = {
    "PinterestService": workloads.service("web", SPACE, 4),
    "PinterestJobSet": lasting(workloads.jobset("crunch", SPACE, 4, 4)),
    "PinterestDaemon": workloads.daemon("agent", SPACE),
    "PinterestStatefulSet": workloads.stateful("kv", SPACE, 3),
    "PinterestTrainingJob": workloads.training("ranker", SPACE),
    "PinterestNativeCronJob": native_cron(),
    "Deployment": workloads.deployment("plain", SPACE, 4),
}


async def held(world: World, kind: str) -> dict[str, dict[str, Any]]:
    """What each member holds of the workload of this kind."""
    name = KINDS[kind]["metadata"]["name"]
    found = {}
    for member in world.federation.members:
        obj = await world.get(kind, SPACE, name, at=member)
        if obj is not None:
            found[member] = obj
    return found


async def pods(world: World) -> set[str]:
    """The uids of all pods in members that do not end."""
    found: set[str] = set()
    for member in world.federation.members:
        listing = await world.member(member).list("v1", "pods", SPACE)
        found |= {
            obj["metadata"]["uid"]
            for obj in listing.items
            if "deletionTimestamp" not in obj["metadata"]
        }
    return found


async def placed(world: World) -> None:
    """Creates a workload of every kind and waits until its pods run."""
    await world.namespace(SPACE)
    for kind, obj in KINDS.items():
        await world.host.create(registry.KINDS[kind].ref(SPACE, obj["metadata"]["name"]), obj)
    await asyncio.sleep(60)
    for kind in KINDS:
        assert await held(world, kind), kind


async def delete(world: World, kind: str, propagation: str) -> None:
    """As `kubectl delete --cascade`."""
    ref = registry.KINDS[kind].ref(SPACE, KINDS[kind]["metadata"]["name"])
    live = await world.host.get(ref)
    await world.host.delete(ref, uid=live["metadata"]["uid"], propagation=propagation)


async def on_host(world: World, kind: str) -> dict[str, Any] | None:
    return await world.get(kind, SPACE, KINDS[kind]["metadata"]["name"])


def test_the_table_has_every_kind() -> None:
    assert set(KINDS) == set(registry.WORKLOADS)


@HOSTS
def test_foreground_deletion_ends_when_the_members_are_empty(collects: bool) -> None:
    async def scenario(world: World) -> None:
        await placed(world)
        for kind in KINDS:
            await delete(world, kind, "Foreground")
        for _ in range(240):
            left = {kind for kind in KINDS if await held(world, kind)}
            there = {kind for kind in KINDS if await on_host(world, kind)}
            assert left <= there, "a workload is gone, and members hold something of it"
            if not there:
                break
            await asyncio.sleep(0.5)
        assert not there
        assert await pods(world) == set()
        assert await world.decisions() == []

    play(scenario, host_controllers=collects)


@HOSTS
def test_foreground_deletion_waits_for_a_member_that_is_not_heard(collects: bool) -> None:
    async def scenario(world: World) -> None:
        await world.namespace(SPACE)
        await world.create("PinterestService", SPACE, "web", KINDS["PinterestService"]["spec"])
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(60)
        await delete(world, "PinterestService", "Foreground")
        await asyncio.sleep(120)
        assert set(await held(world, "PinterestService")) == {"b"}
        assert await on_host(world, "PinterestService") is not None
        (decision,) = await world.decisions()
        assert decision["spec"]["deletion"]["waitingFor"] == ["b"]
        world.heal("b")
        await asyncio.sleep(120)
        assert await held(world, "PinterestService") == {}
        assert await on_host(world, "PinterestService") is None

    play(scenario, host_controllers=collects)


@HOSTS
def test_orphan_deletion_releases_what_members_hold(collects: bool) -> None:
    async def scenario(world: World) -> None:
        await placed(world)
        before = {kind: await held(world, kind) for kind in KINDS}
        ran = await pods(world)
        for kind in KINDS:
            await delete(world, kind, "Orphan")
        await asyncio.sleep(180)
        for kind in KINDS:
            assert await on_host(world, kind) is None, kind
            now = await held(world, kind)
            assert set(now) == set(before[kind]), kind
            for member, obj in now.items():
                meta = obj["metadata"]
                assert meta["uid"] == before[kind][member]["metadata"]["uid"]
                assert not {names.FLEET_LABEL, names.WORKLOAD_UID_LABEL} & set(
                    meta.get("labels") or {}
                )
                assert "slice" not in obj["spec"]
                assert names.SLICE_ANNOTATION not in (meta.get("annotations") or {})
                assert not meta.get("finalizers")
        assert await world.decisions() == []
        assert await pods(world) == ran

    play(scenario, host_controllers=collects)


@HOSTS
def test_orphan_deletion_releases_in_a_member_that_returns(collects: bool) -> None:
    async def scenario(world: World) -> None:
        await world.namespace(SPACE)
        await world.create("PinterestService", SPACE, "web", KINDS["PinterestService"]["spec"])
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(60)
        ran = await pods(world)
        await delete(world, "PinterestService", "Orphan")
        await asyncio.sleep(60)
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(60)
        world.heal("b")
        await asyncio.sleep(120)
        now = await held(world, "PinterestService")
        assert {"slice" in obj["spec"] for obj in now.values()} == {False}
        assert await on_host(world, "PinterestService") is None
        assert await world.decisions() == []
        assert await pods(world) == ran

    play(scenario, host_controllers=collects)


def test_a_decision_of_an_earlier_release_gets_its_owner_reference() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", SPACE, "web", KINDS["PinterestService"]["spec"])
        await world.settle()
        (decision,) = await world.decisions()
        (owner,) = decision["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("PinterestService", "web")
        assert owner["blockOwnerDeletion"] is True
        await world.federation.kill("hub")
        name = decision["metadata"]["name"]
        bare = {"labels": {names.OWNED_LABEL: None}, "ownerReferences": None}
        await world.patch("PlacementDecision", SPACE, name, {"metadata": bare})
        world.federation.start_hub()
        await world.settle()
        (again,) = await world.decisions()
        assert again["metadata"]["ownerReferences"] == [owner]

    play(scenario)


def test_a_decision_without_a_garbage_collector_in_an_earlier_release_is_deleted() -> None:
    """It never had an owner reference, so its absence does not mean Orphan."""

    async def scenario(world: World) -> None:
        await world.create("PinterestService", SPACE, "web", KINDS["PinterestService"]["spec"])
        await world.settle()
        await world.federation.kill("hub")
        (decision,) = await world.decisions()
        bare = {"labels": {names.OWNED_LABEL: None}, "ownerReferences": None}
        name = decision["metadata"]["name"]
        await world.patch("PlacementDecision", SPACE, name, {"metadata": bare})
        await world.delete("PinterestService", SPACE, "web")
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert await held(world, "PinterestService") == {}
        assert await pods(world) == set()

    play(scenario)


async def warnings(world: World, reason: str) -> list[dict[str, Any]]:
    found = (await world.host.list("events.k8s.io/v1", "events", "default")).items
    return [obj for obj in found if obj["reason"] == reason]


@HOSTS
def test_a_host_without_controllers_is_reported(collects: bool) -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", SPACE, "web", KINDS["PinterestService"]["spec"])
        await world.settle()
        await asyncio.sleep(60)
        found = await warnings(world, "NoGarbageCollector")
        assert [raw.text(obj, "regarding", "name") for obj in found] == (
            [] if collects else ["federator-system"]
        )
        ref = ObjectRef("v1", "namespaces", "", SPACE, "Namespace")
        space = await world.host.get(ref)
        await world.host.delete(ref, uid=space["metadata"]["uid"])
        await asyncio.sleep(120)
        found = await warnings(world, "NamespaceNotEmptied")
        if collects:
            assert found == []
            assert await held(world, "PinterestService") == {}
            return
        (event,) = found
        assert raw.text(event, "regarding", "name") == SPACE
        assert "PinterestService/feed/web" in event["note"]
        assert "namespace-controller" in event["note"]

    play(scenario, host_controllers=collects)


def test_a_shared_host_is_not_probed() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await asyncio.sleep(60)
        assert world.writes["hub", "host", "PATCH", "configmaps"] == 0

    play(scenario, options=HubOptions(shared_host=True))


async def runs_on_host(world: World) -> list[dict[str, Any]]:
    found = await world.host.list("pinterest.com/v1beta1", "pinterestjobsets", SPACE)
    return list(found.items)


@HOSTS
@pytest.mark.parametrize("propagation", ["Foreground", "Orphan"])
def test_a_cron_job_takes_its_runs_along_or_leaves_them(collects: bool, propagation: str) -> None:
    async def scenario(world: World) -> None:
        await world.namespace(SPACE)
        run = lasting(workloads.jobset("tick", SPACE, 1, 1))["spec"]
        cron = workloads.cronjob("tick", SPACE, "* * * * *", run, concurrencyPolicy="Forbid")
        ref = registry.KINDS["PinterestCronJob"].ref(SPACE, "tick")
        await world.host.create(ref, cron)
        await asyncio.sleep(90)
        assert len(await runs_on_host(world)) == 1
        live = await world.host.get(ref)
        await world.host.delete(ref, uid=live["metadata"]["uid"], propagation=propagation)
        await asyncio.sleep(90)
        assert await world.get("PinterestCronJob", SPACE, "tick") is None
        left = await runs_on_host(world)
        if propagation == "Foreground":
            assert left == []
            assert await pods(world) == set()
            return
        assert [obj["metadata"].get("ownerReferences") or [] for obj in left] == [[]]
        assert len(await pods(world)) == 1

    play(scenario, host_controllers=collects)
