"""A service whose copies an autoscaler chooses: the member process makes it, and does not fight
it.
"""

import asyncio
from typing import Any

from federator.embedded.controllers.workloads.autoscalers import WANTED
from federator.model.steps import ObjectRef
from tests.unit.member.memberworld import MemberWorld, in_member, service

HPA = "HorizontalPodAutoscaler"
BOUNDS = {"min": 4, "max": 20}


async def replicas(world: MemberWorld) -> int:
    return int((await world.get("Deployment", "web"))["spec"]["replicas"])


async def want(world: MemberWorld, copies: int) -> None:
    """The metrics ask for so many."""
    await world.patch(HPA, "web", {"metadata": {"annotations": {WANTED: str(copies)}}})


def applies(world: MemberWorld) -> int:
    return sum(count for what, count in world.writes.items() if "deployments" in str(what))


async def status(world: MemberWorld) -> dict[str, Any]:
    return dict((await world.get("PinterestService", "web"))["status"])


@in_member()
async def test_the_autoscaler_chooses_and_nobody_fights_it(world: MemberWorld) -> None:
    await world.create(service(replicas=10, autoscaling=BOUNDS))
    await world.until_status("PinterestService", "web", healthy=True)
    spec = (await world.get(HPA, "web"))["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 10)
    assert await replicas(world) == 2
    found = await status(world)
    assert (found["desired"], found["ready"], found["summary"]) == (2, 2, "2/2 ready")

    for copies in (7, 3, 10):
        await want(world, copies)
        await world.until_status("PinterestService", "web", ready=copies, desired=copies)
        before = applies(world)
        await asyncio.sleep(300)
        assert await replicas(world) == copies
        assert applies(world) - before == 0
        assert (await status(world))["healthy"]
    await world.restart_member()
    await asyncio.sleep(60)
    assert await replicas(world) == 10
    assert applies(world) <= before + 1

    await world.patch("PinterestService", "web", {"spec": {"replicas": 5, "slice": {"seq": 6}}})
    await world.until_status("PinterestService", "web", ready=5, desired=5)
    spec = (await world.get(HPA, "web"))["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 5)

    edit = {"config": {"a": "b"}, "slice": {"seq": 7}}
    await want(world, 4)
    await world.patch("PinterestService", "web", {"spec": edit})
    await world.until_status("PinterestService", "web", ready=4, updatedReplicas=4)
    assert await replicas(world) == 4


@in_member()
async def test_a_deployment_that_is_scaled_to_none_by_hand_is_brought_back(
    world: MemberWorld,
) -> None:
    """At none its autoscaler is switched off, and would never bring a copy back."""
    await world.create(service(replicas=10, autoscaling=BOUNDS))
    await world.until_status("PinterestService", "web", healthy=True)
    await want(world, 6)
    await world.until_status("PinterestService", "web", ready=6, desired=6)
    await world.patch("Deployment", "web", {"spec": {"replicas": 0}})
    await asyncio.sleep(60)
    await world.until_status("PinterestService", "web", ready=6, desired=6)

    assert await replicas(world) == 6


@in_member()
async def test_a_service_that_runs_keeps_its_copies_when_it_gets_an_autoscaler_and_loses_it(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=8))
    await world.until_status("PinterestService", "web", ready=8)
    least: list[int] = []

    async def watch() -> None:
        while True:
            least.append(await replicas(world))
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    more = {"autoscaling": BOUNDS, "replicas": 20, "slice": {"seq": 6}}
    await world.patch("PinterestService", "web", {"spec": more})
    await world.until_status("PinterestService", "web", observedGeneration=2, desired=8)
    await asyncio.sleep(30)
    assert set(least) == {8}
    await world.patch(
        "Deployment", "web", {"metadata": {"labels": {"pinterest.com/service": None}}}
    )
    await asyncio.sleep(30)
    assert set(least) == {8}

    await want(world, 15)
    await world.until_status("PinterestService", "web", ready=15)
    await world.patch(
        "Deployment", "web", {"metadata": {"labels": {"pinterest.com/service": None}}}
    )
    await asyncio.sleep(30)
    assert set(least) == {8, 15}

    less = {"autoscaling": None, "replicas": 15, "slice": {"seq": 7}}
    await world.patch("PinterestService", "web", {"spec": less})

    async def gone() -> bool:
        return await world.find(HPA, "web") is None

    await world.until(gone)
    await world.patch("PinterestService", "web", {"spec": {"replicas": 6, "slice": {"seq": 8}}})
    await world.until_status("PinterestService", "web", ready=6)
    watching.cancel()
    assert set(least) == {8, 15, 6}


@in_member()
async def test_an_autoscaler_of_the_members_own_is_left_alone(world: MemberWorld) -> None:
    await world.create(service(replicas=10, autoscaling={**BOUNDS, "owner": "Member"}))
    await world.until_status("PinterestService", "web", ready=2, desired=2)
    assert await world.find(HPA, "web") is None
    scale = {"spec": {"replicas": 9}}
    ref = ObjectRef("apps/v1", "deployments", "feed", "web", "Deployment")
    await world.client.patch(ref, scale)
    await world.until_status("PinterestService", "web", ready=9, desired=9)
    await asyncio.sleep(120)
    assert await replicas(world) == 9
