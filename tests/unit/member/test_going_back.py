"""A member process whose cluster is restored from a backup: it ends, and its next life begins with
nothing known.
"""

import asyncio

import pytest

from federator.kube import errors
from federator.member.heartbeat import LEASE
from federator.model.steps import ObjectRef
from tests.unit.member.memberworld import MemberWorld, in_member, service


@in_member()
async def test_a_process_whose_cluster_went_back_in_time_ends_and_the_next_life_goes_on(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=2))
    await world.until_status("PinterestService", "web", healthy=True)
    ended = world.tasks.pop()
    pods = world.process.caches.pods
    # The pods as a cluster has them that was put back before all of this: an older list, four times
    # in a row.
    reflector = world.process.caches.reflectors["Pod"]
    reflector._number = 1_000_000
    reflector._stale = True
    restarted = asyncio.create_task(reflector.run())
    with pytest.raises(errors.WentBack, match="m1: the API server shows an older state"):
        await asyncio.wait_for(ended, 60)
    restarted.cancel()
    assert pods.rewinds == 1
    world.process = world._process()
    world.tasks.append(asyncio.create_task(world.process.run(), name="member"))
    await world.patch("PinterestService", "web", {"spec": {"replicas": 3, "slice": {"seq": 6}}})
    await world.until_status("PinterestService", "web", healthy=True, ready=3)


@in_member()
async def test_a_lease_that_is_older_than_answered_tells_of_it_however_much_was_written_since(
    world: MemberWorld,
) -> None:
    """A restored server may be past all versions that this process knows before it is asked
    again.
    """
    await world.create(service(replicas=2))
    await world.until_status("PinterestService", "web", healthy=True)
    ended = world.tasks.pop()
    world.process.heartbeat._version = "1000000"
    with pytest.raises(errors.WentBack, match="m1: the API server shows an older state"):
        await asyncio.wait_for(ended, 60)


@in_member()
async def test_somebody_who_writes_into_the_lease_neither_stops_the_heartbeat_nor_is_a_restored_server(
    world: MemberWorld,
) -> None:
    await world.create(service(replicas=2))
    await world.until_status("PinterestService", "web", healthy=True)
    beats = world.process.heartbeat.renewed
    ref = ObjectRef("coordination.k8s.io/v1", "leases", "federator-system", LEASE, "Lease")
    for number in range(4):
        await world.client.patch(ref, {"metadata": {"annotations": {"seen": str(number)}}})
        await asyncio.sleep(10)
    assert world.process.heartbeat.renewed >= beats + 4
    assert not world.tasks[-1].done()
    found = await world.client.get(ref)
    assert found["metadata"]["annotations"]["seen"] == "3"
