"""Edits of what a decision gives and no member has got: nothing runs that an edit could be held
back for.
"""

import asyncio

import pytest

from federator.kube import errors
from tests.unit.hub.test_edits import KIND, cpu_in_members, limits, template
from tests.unit.hub.world import World, play, service


def test_an_edit_of_what_never_reached_a_member_is_no_edit_of_what_runs() -> None:
    """The hub died between its decision and the first slice: the generation that it kept in force
    was nobody's any more, and neither that nor the edit ran (simulation, seed 4338).
    """

    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")}
        )
        await world.settle()
        for cluster in world.federation.members:
            world.refuse_writes(cluster, "/pinterestservices")
        await world.create(KIND, "feed", "web", service(4, "500m", project="feed"))
        await asyncio.sleep(5)
        await world.federation.kill("hub")
        await world.patch(KIND, "feed", "web", template("2"))
        world.clear()
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()

        cpus = [
            cpu for copies, cpu in (await cpu_in_members(world)).values() for _ in range(copies)
        ]
        assert set(cpus) <= {"2"}
        assert len(cpus) <= 2, "the quota holds"
        placed = await world.condition(KIND, "feed", "web", "Placed")
        assert (placed["reason"], placed["observedGeneration"]) == ("ExceedsMaxQuota", 2)
        assert "stays in force" not in placed["message"]
        (decision,) = await world.decisions()
        assert "inForce" not in decision["spec"]
        await world.patch("FederatedQuota", "", "feed", {"spec": {"tiers": limits("8")}})
        await asyncio.sleep(20)
        await world.settle()
        assert sum(copies for copies, _ in (await cpu_in_members(world)).values()) == 4

    play(scenario)


def test_a_profile_that_adds_more_before_the_first_slice_holds_nothing_back() -> None:
    """The same with a new RuntimeProfile and an edit that asks for nothing more: no slice was ever
    made, because what had been admitted could not be made any more (simulation, seeds 4122 and
    4821).
    """

    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")}
        )
        await world.settle()
        for cluster in world.federation.members:
            world.refuse_writes(cluster, "/pinterestservices")
        await world.create(KIND, "feed", "web", service(4, "500m", project="feed"))
        await asyncio.sleep(5)
        await world.federation.kill("hub")
        container = {"image": "logs:1", "resources": {"requests": {"cpu": "800m"}}}
        await world.create(
            "RuntimeProfile",
            "",
            "default",
            {"sidecars": [{"name": "logs", "container": container}]},
        )
        await world.patch(
            KIND, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": ["none"]}}}}
        )
        world.clear()
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()

        assert sum(copies for copies, _ in (await cpu_in_members(world)).values()) == 3
        (decision,) = await world.decisions()
        assert decision["spec"]["charge"]["shape"]["requests"]["cpu"] == "1300m"
        assert "inForce" not in decision["spec"]

    play(scenario)


@pytest.mark.parametrize("accepted", [True, False])
def test_edits_wait_while_the_first_slice_is_being_created(accepted: bool) -> None:
    """Two edits and an uncordon arrive before the member answers the creation of the first slice.
    Its copies stay there if the member accepts the slice. If the member does not get it, the hub
    decides as if nothing was placed.
    """

    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")}
        )
        first, *others = sorted(world.federation.members)
        for cluster in others:
            await world.patch("MemberCluster", "", cluster, {"spec": {"cordoned": True}})
        await world.settle()

        async def slowly() -> None:
            await asyncio.sleep(10)
            if not accepted:
                world.refuse_writes(first, "/pinterestservices")
                raise errors.Unreachable(f"{first} resets the connection")

        world.meanwhile(first, "POST", "pinterestservices", slowly)
        await world.create(KIND, "feed", "web", service(8, "500m", project="feed"))
        await asyncio.sleep(2)
        assert await world.shares("feed", "web") == {first: 8}
        await world.patch(KIND, "feed", "web", {"spec": {"replicas": 11}})
        for note in ("one", "two"):
            annotated = {"metadata": {"annotations": {"example.com/note": note}}}
            await world.patch(KIND, "feed", "web", {"spec": {"template": annotated}})
        for cluster in others:
            await world.patch("MemberCluster", "", cluster, {"spec": {"cordoned": False}})
        await asyncio.sleep(30)
        shares = await world.shares("feed", "web")
        assert sum(shares.values()) == 8, "the quota holds"
        assert (shares == {first: 8}) == accepted

    play(scenario)


def test_no_first_slice_is_created_from_a_decision_that_is_being_replaced() -> None:
    """The member accepts slices again while the host is slow to answer the new decision: the slice
    of the former decision started eight copies, of which the new one moved five (simulation, seed
    9171).
    """

    async def scenario(world: World) -> None:
        first, *others = sorted(world.federation.members)
        for cluster in others:
            await world.patch("MemberCluster", "", cluster, {"spec": {"cordoned": True}})
        await world.settle()
        world.refuse_writes(first, "/pinterestservices")
        await world.create(KIND, "feed", "web", service(8, "500m"))
        await asyncio.sleep(2)
        for cluster in others:
            await world.patch("MemberCluster", "", cluster, {"spec": {"cordoned": False}})
        there: list[object] = []

        async def slowly() -> None:
            world.clear()
            await asyncio.sleep(20)
            there.append(await world.get(KIND, "feed", "web", at=first))

        world.meanwhile("host", "PATCH", "placementdecisions", slowly)
        for note, copies in (("one", 8), ("two", 11)):
            annotated = {"metadata": {"annotations": {"example.com/note": note}}}
            edit = {"spec": {"replicas": copies, "template": annotated}}
            await world.patch(KIND, "feed", "web", edit)
        await asyncio.sleep(60)
        assert there == [None]
        shares = await world.shares("feed", "web")
        assert sum(shares.values()) == 11
        assert len(shares) > 1

    play(scenario)
