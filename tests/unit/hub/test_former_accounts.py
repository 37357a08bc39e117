"""An edit of tier or project charges the former account too until no copy runs in it."""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.test_former_charges import PSVC, running, spec
from tests.unit.hub.test_rollouts import BROKEN
from tests.unit.hub.test_training_jobs import training
from tests.unit.hub.world import World, jobset, play

TIERS = {tier: {"max": {"cpu": "4"}} for tier in ("OnDemand", "Reserved")}
TIER = "federation.pinterest.com/tier"
KINDS = [PSVC, "Deployment", "PinterestStatefulSet", "PinterestDaemon"]


async def charge(world: World, name: str = "web") -> dict[str, Any]:
    """What the decision on a workload charges."""
    every = [one["spec"] for one in await world.decisions()]
    (found,) = [one for one in every if one["workload"]["name"] == name]
    return dict(found["charge"])


async def former(world: World, name: str = "web") -> list[tuple[str, str, int]]:
    """(project, tier, copies) of the accounts that are charged in addition."""
    return [
        (one["project"], one["tier"], sum(there["copies"] for there in one["clusters"]))
        for one in (await charge(world, name)).get("former", ())
    ]


async def quotas(world: World) -> None:
    """Accounts feed and ads with 4 cpu in each of two tiers."""
    for name in ("feed", "ads"):
        await world.create("FederatedQuota", "", name, {"projects": [name], "tiers": TIERS})


async def to_tier(world: World, kind: str, tier: str, cpu: str, image: str) -> None:
    """Edits tier and image; image `app:bad` cannot be pulled."""
    annotations = BROKEN if image == "app:bad" else dict.fromkeys(BROKEN)
    made = spec(kind, cpu, image, {})
    made["template"].setdefault("metadata", {})["annotations"] = annotations
    if kind == "Deployment":
        await world.patch(kind, "feed", "web", {"metadata": {"annotations": {TIER: tier}}})
        await world.patch(kind, "feed", "web", {"spec": {"template": made["template"]}})
    else:
        patch = {"spec": {"tier": tier, "template": made["template"]}}
        await world.patch(kind, "feed", "web", patch)


@pytest.mark.parametrize("restart", [False, True])
def test_left_tier_is_charged_until_no_copy_runs_in_it(restart: bool) -> None:
    async def scenario(world: World) -> None:
        await quotas(world)
        first = spec(PSVC, "600m", "app:1", {}) | {"project": "feed"}
        await world.create(PSVC, "feed", "web", first)
        await world.settle()
        await to_tier(world, PSVC, "Reserved", "600m", "app:bad")
        await asyncio.sleep(20)
        if restart:
            await world.federation.kill("hub")
            world.federation.start_hub()
        await world.create(PSVC, "feed", "next", first | {"placement": {"partial": "RequireAll"}})
        await asyncio.sleep(60)
        assert (await charge(world))["tier"] == "Reserved"
        assert await former(world) == [("feed", "OnDemand", 6)]
        placed = await world.condition(PSVC, "feed", "next", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "QuotaExceeded")
        quota = await world.get("FederatedQuota", "", "feed")
        assert quota is not None
        used = {one["tier"]: one["used"]["cpu"] for one in quota["status"]["usage"]}
        assert used == {"OnDemand": "3600m", "Reserved": "3600m"}

        await to_tier(world, PSVC, "Reserved", "600m", "app:2")
        await world.settle()
        await asyncio.sleep(5)  # until the old pods have ended
        assert await former(world) == []
        assert (await world.condition(PSVC, "feed", "next", "Placed"))["status"] == "True"

    play(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_charges_the_left_tier(kind: str) -> None:
    async def scenario(world: World) -> None:
        for name in ("feed", "all"):
            tiers = {tier: {"max": {"cpu": "20"}} for tier in TIERS}
            quota = {"projects": [name], "tiers": tiers}
            await world.create("FederatedQuota", "", name, quota)
        await world.create(kind, "feed", "web", spec(kind, "100m", "app:1", {}))
        await world.settle()
        copies = await running(world) // 100
        await to_tier(world, kind, "Reserved", "100m", "app:bad")
        await asyncio.sleep(60)
        assert await former(world) == [("feed", "OnDemand", copies)]
        if kind == "PinterestStatefulSet":
            return  # it waits for a person to delete the pod that cannot start
        await to_tier(world, kind, "Reserved", "100m", "app:2")
        await asyncio.sleep(120)
        assert await former(world) == []

    play(scenario)


@pytest.mark.parametrize("kind", ["PinterestJobSet", "PinterestTrainingJob"])
def test_shards_are_charged_to_the_tier_in_which_they_began(kind: str) -> None:
    async def scenario(world: World) -> None:
        await quotas(world)
        made = jobset(4, 2, "1", {"embedded.federator/run-seconds": "40"})
        if kind == "PinterestTrainingJob":
            made = training(1, "1", run_s=80)
        await world.create(kind, "feed", "job", made | {"project": "feed"})
        await asyncio.sleep(20)
        copies = sum(one[2] for one in await former(world, "job")) or await running_now(world)
        assert copies == 2
        await world.patch(kind, "feed", "job", {"spec": {"tier": "Reserved"}})
        await asyncio.sleep(15)
        held = 1 if kind == "PinterestTrainingJob" else 2
        assert await former(world, "job") == [("feed", "OnDemand", held)]
        await asyncio.sleep(120)
        ended = await world.condition(kind, "feed", "job", "Complete")
        assert ended["status"] == "True"
        quota = await world.get("FederatedQuota", "", "feed")
        assert quota is not None
        assert not any(one.get("used") for one in quota["status"].get("usage", ()))

    play(scenario)


async def running_now(world: World) -> int:
    """Pods in all members."""
    return sum(
        [
            len((await world.member(name).list("v1", "pods")).items)
            for name in world.federation.members
        ]
    )


def test_edit_back_to_the_former_project_is_admitted() -> None:
    async def scenario(world: World) -> None:
        await quotas(world)
        await world.create(PSVC, "feed", "web", spec(PSVC, "600m", "app:1", {}))
        await world.settle()
        bad = spec(PSVC, "600m", "app:bad", BROKEN)["template"]
        await world.patch(PSVC, "feed", "web", {"spec": {"project": "ads", "template": bad}})
        await asyncio.sleep(30)
        assert await former(world) == [("feed", "OnDemand", 6)]
        whole = spec(PSVC, "600m", "app:1", {})["template"]
        whole["metadata"] = {"annotations": dict.fromkeys(BROKEN)}
        await world.patch(PSVC, "feed", "web", {"spec": {"project": "feed", "template": whole}})
        await asyncio.sleep(1)
        assert await former(world) in ([("ads", "OnDemand", 6)], [])
        assert (await charge(world))["project"] == "feed"
        await world.settle()
        await asyncio.sleep(5)  # until the old pods have ended
        assert await former(world) == []
        assert (await world.condition(PSVC, "feed", "web", "Placed"))["status"] == "True"

    play(scenario)


def test_account_of_both_projects_is_charged_once() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "all", {"projects": ["feed", "ads"], "tiers": TIERS}
        )
        await world.create(PSVC, "feed", "web", spec(PSVC, "600m", "app:1", {}))
        await world.settle()
        bad = spec(PSVC, "600m", "app:bad", BROKEN)["template"]
        await world.patch(PSVC, "feed", "web", {"spec": {"project": "ads", "template": bad}})
        await asyncio.sleep(30)
        assert await former(world) == []
        assert (await charge(world))["project"] == "ads"

    play(scenario)
