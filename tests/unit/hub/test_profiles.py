"""RuntimeProfiles: what one says now is what pods get, wherever they run and whatever else
goes on.
"""

import asyncio
from typing import Any

import pytest

from federator.api import runtimeprofile
from federator.hub.options import HubOptions
from federator.kinds import registry
from tests.unit.hub.world import World, jobset, play, service

PSVC = "PinterestService"


def sidecar(image: str, cpu: str = "100m") -> dict[str, Any]:
    """The spec of a RuntimeProfile."""
    container = {"image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"sidecars": [{"name": "logs", "container": container}]}


async def pins(world: World, name: str = "web", *, kind: str = PSVC) -> set[str]:
    """The versions of the profile that a workload's slices pin, "" for none."""
    found = [await world.get(kind, "feed", name, at=cluster) for cluster in "abc"]
    return {
        one["spec"]["slice"].get("profile", {}).get("hash", "") for one in found if one is not None
    }


async def current(world: World) -> str:
    found = await world.get("RuntimeProfile", "", "default")
    assert found is not None
    return runtimeprofile.content_hash(found)


async def profiled(world: World, *names: str) -> None:
    """Services whose pods have a sidecar."""
    await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
    await asyncio.sleep(2)
    for name in names or ("web",):
        await world.create(PSVC, "feed", name, service(6))
    await world.settle()


def test_a_new_image_of_a_sidecar_reaches_workloads_at_rest() -> None:
    """Although they ask for just as much as before."""

    async def scenario(world: World) -> None:
        await profiled(world)
        await asyncio.sleep(60)
        before = await pins(world)
        await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("logs:2")})
        await asyncio.sleep(60)
        assert await pins(world) == {await current(world)} != before
        await world.settle()

    play(scenario)


def test_a_profile_whose_content_stays_costs_nothing_when_it_is_touched() -> None:
    async def scenario(world: World) -> None:
        await profiled(world)
        await asyncio.sleep(60)
        world.writes.clear()
        await world.patch(
            "RuntimeProfile", "", "default", {"metadata": {"annotations": {"note": "reviewed"}}}
        )
        await asyncio.sleep(60)
        assert world.count() == 0

    play(scenario)


def test_statuses_that_are_written_while_workloads_are_read_again_do_not_keep_a_new_profile_from_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(world: World) -> None:
        await profiled(world, "web", "other")
        hub = world.federation.hub
        fetch = hub.controllers.hosting.documents.fetch

        async def slowly(*args: Any) -> Any:
            await asyncio.sleep(3)
            return await fetch(*args)

        monkeypatch.setattr(hub.controllers.hosting.documents, "fetch", slowly)
        for name in ("web", "other"):
            await world.patch(PSVC, "feed", name, {"spec": {"replicas": 9}})
        await asyncio.sleep(4)  # the slices are written: pods come up and statuses follow
        await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("logs:1", cpu="200m")})
        await asyncio.sleep(120)
        for key, workload in hub.state.workloads.items():
            assert workload.ask is not None
            assert workload.ask.shape.requests["cpu"] == 700
            assert await pins(world, key.name) == {await current(world)}

    play(scenario, options=HubOptions(document_cache=1))


@pytest.mark.parametrize(
    "restarted", [False, True], ids=["by a hub that saw it", "by a hub that starts afterwards"]
)
def test_a_profile_that_is_deleted_is_taken_from_the_pods(restarted: bool) -> None:
    async def scenario(world: World) -> None:
        await profiled(world)
        if restarted:
            await world.federation.kill("hub")
        await world.delete("RuntimeProfile", "", "default")
        if restarted:
            world.federation.start_hub()
        await asyncio.sleep(60)
        assert await pins(world) == {""}
        await world.settle()

    play(scenario)


def test_an_edit_to_a_profile_that_does_not_exist_is_refused_and_the_former_one_stays() -> None:
    async def scenario(world: World) -> None:
        await profiled(world)
        pinned = await pins(world)
        await world.patch(PSVC, "feed", "web", {"spec": {"runtimeProfile": "defualt"}})
        await world.create(PSVC, "feed", "new", {**service(3), "runtimeProfile": "defualt"})
        await asyncio.sleep(60)
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "Misconfigured")
        assert placed["message"].startswith(
            "spec.runtimeProfile: there is no RuntimeProfile 'defualt'; name one that"
        )
        assert await pins(world) == pinned != {""}
        assert await pins(world, "new") == set()

        await world.create("RuntimeProfile", "", "defualt", sidecar("logs:3"))
        await asyncio.sleep(60)
        await world.settle()
        found = await world.get("RuntimeProfile", "", "defualt")
        assert found is not None
        assert await pins(world, "new") == {runtimeprofile.content_hash(found)}

        await world.delete("RuntimeProfile", "", "defualt")
        await asyncio.sleep(60)
        assert await pins(world) == {runtimeprofile.content_hash(found)}, "its pods keep it"

    play(scenario)


async def copies_deleted(world: World, member: str) -> None:
    """Somebody deletes the copies of profiles there."""
    client, kind = world.member(member), registry.KINDS["RuntimeProfile"]
    for found in (await client.list(kind.api_version, kind.plural)).items:
        meta = found["metadata"]
        await client.delete(kind.ref("", meta["name"]), uid=meta["uid"])


async def copies(world: World, member: str) -> int:
    kind = registry.KINDS["RuntimeProfile"]
    return len((await world.member(member).list(kind.api_version, kind.plural)).items)


@pytest.mark.parametrize(
    "restarted", [False, True], ids=["by the hub that made it", "by a hub that starts afterwards"]
)
def test_a_copy_of_a_profile_that_is_deleted_in_a_member_is_put_back_when_it_is_missed(
    restarted: bool,
) -> None:
    async def scenario(world: World) -> None:
        await profiled(world)
        await asyncio.sleep(60)
        if restarted:
            await world.federation.kill("hub")
        await copies_deleted(world, "a")
        if restarted:
            await asyncio.sleep(30)
            world.federation.start_hub()
            await asyncio.sleep(30)
        await world.create(PSVC, "feed", "new", service(6))
        await world.settle()
        assert await copies(world, "a") == 1
        for name in ("web", "new"):
            found = await world.get(PSVC, "feed", name, at="a")
            assert found is not None
            assert found["status"]["summary"] == "2/2 ready"

    play(scenario)


def test_a_slice_that_misses_something_else_costs_no_write() -> None:
    async def scenario(world: World) -> None:
        await profiled(world)
        template = service(6)["template"]
        template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "absent"}}]
        await world.create(PSVC, "feed", "lacking", service(6, template=template))
        await asyncio.sleep(60)
        found = await world.get(PSVC, "feed", "lacking", at="a")
        assert found is not None
        assert found["status"]["reason"] == "MissingDependency"
        assert world.writes["hub", "a", "POST", "runtimeprofiles"] == 1

    play(scenario)


@pytest.mark.parametrize(
    ("run_s", "slots"),
    [(2, 12), (600, 6)],
    ids=["whose shards are done", "that has fewer slots than shards"],
)
def test_a_new_profile_reaches_the_slices_of_a_job_set_one_cluster_after_the_other(
    run_s: int, slots: int
) -> None:
    """Nobody is ready of shards that are done, or wait for a slot: the rollout waits for
    neither.
    """

    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await asyncio.sleep(2)
        said = {"division": {"strategy": "Spread"}, "rollout": {"maxClustersAtOnce": 1}}
        spec = jobset(12, slots, annotations={"embedded.federator/run-seconds": str(run_s)})
        await world.create("PinterestJobSet", "feed", "index", {**spec, "placement": said})
        await asyncio.sleep(60)
        before = await pins(world, "index", kind="PinterestJobSet")
        await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("logs:2")})
        await asyncio.sleep(60)
        assert (
            await pins(world, "index", kind="PinterestJobSet") == {await current(world)} != before
        )

    play(scenario)
