"""Edits of what a decision gives and no member has got: nothing runs that an edit could be held
back for.
"""

import asyncio

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
