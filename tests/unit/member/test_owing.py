"""What slices may take beyond their bound pods: what is kept slice by slice equals what a fresh
look at every slice gives, whatever came first.
"""

import asyncio

import pytest

from federator.api import runtimeprofile
from federator.member.capacity.entitlements import Entitlements
from federator.member.capacity.owing import Owed, Owing
from federator.model.names import WorkloadKey
from tests.unit.member.memberworld import (
    FLEET,
    MemberWorld,
    block,
    deployment,
    in_member,
    jobset,
    service,
    template,
)


def _owed(world: MemberWorld) -> tuple[list[Owed], list[Owed]]:
    """As the running report has it, and as it is computed from nothing."""
    process = world.process
    fresh = Owing(process.caches, Entitlements(process.caches, process.expander))
    return list(process.reporter.owing.of_slices()), list(fresh.of_slices())


async def _through(world: MemberWorld) -> list[Owed]:
    """Twenty seconds, with a look at every quarter of one; returns the last."""
    now: list[Owed] = []
    for _ in range(80):
        await asyncio.sleep(0.25)
        now, fresh = _owed(world)
        assert now == fresh
    return now


@pytest.mark.parametrize("late", ["", "replicasets", "deployments", "pods", "jobs"])
def test_what_is_owed_follows_slices_pods_and_controllers_in_any_order(late: str) -> None:
    @in_member()
    async def story(world: MemberWorld) -> None:
        await asyncio.sleep(2)
        if late:
            await world.hear_late(f"/{late}", 3.0)
        await world.create(service())
        await world.create(deployment(template()))
        await world.create(jobset())
        await _through(world)
        await world.patch("PinterestService", "web", {"spec": {"replicas": 500}})
        owed = await _through(world)
        assert 500 - _bound(world) in [one.copies for one in owed]
        await world.delete("PinterestService", "web")
        await _through(world)

    story()


def _bound(world: MemberWorld) -> int:
    caches = world.process.caches
    row = caches.slices["PinterestService"].get(("feed", "web"))
    assert row is not None
    return sum(caches.commitments.bound(crew) for crew in caches.crews_of(row))


@in_member()
async def test_a_profile_that_comes_late_changes_what_is_owed(world: MemberWorld) -> None:
    logs = {"image": "registry/logs:1", "resources": {"requests": {"cpu": "1"}}}
    profile = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "RuntimeProfile",
        "metadata": {"name": "default"},
        "spec": {"sidecars": [{"name": "logs", "container": logs}]},
    }
    pinned = {"name": "default", "hash": runtimeprofile.content_hash(profile)}
    await world.create(service(replicas=900, slice=block(profile=pinned)))
    without = await _through(world)
    await world.create(runtimeprofile.member_copy(profile, FLEET))
    with_it = await _through(world)
    assert (without[0].shape.requests["cpu"], with_it[0].shape.requests["cpu"]) == (500, 1500)


@in_member()
async def test_one_watch_of_deployments_serves_natives_and_carried_slices(
    world: MemberWorld,
) -> None:
    await asyncio.sleep(2)
    process = world.process
    of_deployments = [
        reflector
        for reflector in process.caches.reflectors.values()
        if reflector.plural == "deployments"
    ]
    assert len(of_deployments) == 1
    await world.create(service())
    await world.create(deployment(template()))
    await world.until_status("PinterestService", "web", healthy=True)
    carried = process.caches.slices["Deployment"]
    assert list(carried.items()) == [("feed", "plain")]
    await world.delete("Deployment", "plain")
    await asyncio.sleep(2)
    assert not carried.items()


@in_member()
async def test_of_what_others_made_only_the_identity_is_kept(world: MemberWorld) -> None:
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": "feed"},
        "data": {"large": "x" * 100_000},
    }
    await world.create(settings)
    await asyncio.sleep(2)
    row = world.process.caches.native(("ConfigMap", "feed", "theirs"))
    assert row is not None
    assert (row.document, row.managed) == (None, False)


@in_member()
async def test_a_turn_with_the_same_inputs_makes_no_natives_again(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    await asyncio.sleep(60)
    assert _remembered(world)
    await world.patch("Deployment", "web", {"spec": {"replicas": 9}})
    await world.until(lambda: _has_copies(world, 3))
    await asyncio.sleep(60)
    assert _remembered(world)
    await world.patch("PinterestService", "web", {"spec": {"replicas": 4}})
    await world.until_status("PinterestService", "web", ready=4)


async def _has_copies(world: MemberWorld, copies: int) -> bool:
    return bool((await world.get("Deployment", "web"))["spec"]["replicas"] == copies)


def _remembered(world: MemberWorld) -> bool:
    """Whether the next turn of the slice has nothing to make."""
    process = world.process
    row = process.caches.slice(WorkloadKey("PinterestService", "feed", "web"))
    assert row is not None
    inputs = process.expander.memory.inputs(row, None)
    return process.expander.memory.still(row, inputs, world.clock.monotonic()) is not None
