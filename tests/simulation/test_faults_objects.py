"""What the rows about objects in members promise: ours are restored, somebody else's are left
alone, nobody fights.
"""

import asyncio

import pytest

from federator.model.steps import ObjectRef
from tests.faults.episodes import objects
from tests.simulation import solo
from tests.simulation.invariants import Obj, all_of
from tests.simulation.script import SERVICE
from tests.simulation.world import World

pytestmark = pytest.mark.long


def test_a_rival_s_annotations_stay_and_our_writes_come_through() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "rival-writes"):
            await world.host.patch(_web(), {"spec": {"replicas": 6}})
            await asyncio.sleep(30)
            assert sum(solo.shares(world)["web"].values()) == 6
            marked = [
                obj
                for name in world.members
                for obj in all_of(world.clusters[name], SERVICE)
                if _rival(obj)
            ]
            assert all(int(_rival(obj)) > 20 for obj in marked)
            assert marked

    solo.tell(story)


def test_what_a_hand_deleted_or_changed_is_as_it_was_again() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "deleted-by-hand"):
            await asyncio.sleep(10)
        async with solo.happening(world, "edited-by-hand"):
            await asyncio.sleep(10)
        await solo.settled(world)
        assert solo.shares(world) == before

    solo.tell(story)


def test_what_a_slice_left_behind_is_taken_over_by_its_successor() -> None:
    async def story(world: World) -> None:
        native = ObjectRef("apps/v1", "deployments", "feed", "web", "Deployment")
        uid = (await world.user("a").get(native))["metadata"]["uid"]
        live = await world.user("a").get(_web())
        await world.user("a").delete(_web(), uid=live["metadata"]["uid"], propagation="Orphan")
        await asyncio.sleep(5)
        await solo.settled(world)
        found = (await world.user("a").get(native))["metadata"]
        slice_ = (await world.user("a").get(_web()))["metadata"]
        assert found["uid"] == uid
        assert [owner["uid"] for owner in found["ownerReferences"]] == [slice_["uid"]]

    solo.tell(story)


def test_somebody_s_object_under_our_name_is_a_conflict_and_is_left_alone() -> None:
    async def story(world: World) -> None:
        for draw in (0, 1, 2):
            async with solo.happening(world, "namesake-appears", draw=draw):
                await asyncio.sleep(10)
                stalled = solo.conditions(solo.one_of(world, SERVICE, "guest"))["Stalled"]
                assert stalled == ("True", "Conflict")
            await asyncio.sleep(5)

    solo.tell(story)


def test_owners_and_finalizers_of_the_user_s_object_do_not_reach_members() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "private-fields"):
            found = [
                obj["metadata"]
                for name in world.members
                for obj in all_of(world.clusters[name], SERVICE)
                if obj["metadata"]["name"] == "guest"
            ]
            assert found
            assert not any(meta.keys() & {"ownerReferences", "finalizers"} for meta in found)

    solo.tell(story)


def test_a_finalizer_of_somebody_is_waited_for() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "finalizer-by-hand"):
            await asyncio.sleep(10)
        await asyncio.sleep(20)
        assert "guest" not in solo.shares(world)

    solo.tell(story)


def test_a_policy_that_goes_to_and_fro_ends_where_it_began_without_stray_copies() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "policy-to-and-fro"):
            await solo.settled(world)
            assert solo.shares(world)["guest"] == {"a": 3}

    solo.tell(story)


def _web() -> ObjectRef:
    return ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "web", SERVICE)


def _rival(obj: Obj) -> str:
    found = (obj["metadata"].get("annotations") or {}).get(objects.RIVAL, "")
    return str(found)
