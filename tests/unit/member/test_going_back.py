"""A member process whose cluster is restored from a backup: it ends, and its next life begins with nothing known."""

import asyncio

import pytest

from federator.kube import errors
from tests.unit.member.memberworld import MemberWorld, in_member, service


@in_member()
async def test_a_process_whose_cluster_went_back_in_time_ends_and_the_next_life_goes_on(world: MemberWorld) -> None:
    await world.create(service(replicas=2))
    await world.until_status("PinterestService", "web", healthy=True)
    ended = world.tasks.pop()
    pods = world.process.caches.pods
    # The pods as a cluster has them that was put back before all of this: an older list, four times in a row.
    reflector = world.process.caches.reflectors["Pod"]
    reflector._number = 1_000_000
    reflector._stale = True
    restarted = asyncio.create_task(reflector.run())
    with pytest.raises(errors.WentBack, match="m1: the API server tells of an older state"):
        await asyncio.wait_for(ended, 60)
    restarted.cancel()
    assert pods.rewinds == 1
    world.process = world._process()
    world.tasks.append(asyncio.create_task(world.process.run(), name="member"))
    await world.patch("PinterestService", "web", {"spec": {"replicas": 3, "slice": {"seq": 6}}})
    await world.until_status("PinterestService", "web", healthy=True, ready=3)
