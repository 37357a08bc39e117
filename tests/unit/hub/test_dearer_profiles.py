"""A RuntimeProfile whose containers come to ask for more is an edit of each workload that uses it."""

import asyncio
from typing import Any

import pytest

from federator.api import runtimeprofile
from federator.hub.metering import figures
from federator.model.kubernetes.quantity import vector
from tests.unit.hub.test_former_charges import charged, spec
from tests.unit.hub.test_metric_labels import Metered, labels
from tests.unit.hub.test_profiles import PSVC, current, pins, sidecar
from tests.unit.hub.test_training_jobs import training
from tests.unit.hub.world import World, jobset, play


async def begun(world: World, *names: str, cpu: str = "500m", limit: str = "8") -> None:
    """Services of six copies, each with a sidecar of 100m. Within the usual limit two of them have
    600m for each copy, and one may have 700m."""
    limits = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": limit}}}}
    await world.create("FederatedQuota", "", "feed", limits)
    await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
    await asyncio.sleep(2)
    for name in names or ("web",):
        await world.create(PSVC, "feed", name, spec(PSVC, cpu, "app:1", {}) | {"project": "feed"})
        await asyncio.sleep(5)
    await world.settle()


async def dearer(world: World, cpu: str = "400m", image: str = "logs:2") -> None:
    await world.patch("RuntimeProfile", "", "default", {"spec": sidecar(image, cpu)})
    await asyncio.sleep(60)


async def requested(world: World) -> int:
    """Thousandths of a cpu that all pods in members request together, sidecars included."""
    total = 0
    for member in world.federation.members:
        for pod in (await world.member(member).list("v1", "pods")).items:
            every = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
            total += sum(
                vector(container["resources"]["requests"])["cpu"]
                for container in every
                if "resources" in container
            )
    return total


async def held(world: World, name: str = "web", kind: str = PSVC) -> dict[str, Any]:
    return await world.condition(kind, "feed", name, "ProfileHeldBack")


def test_a_dearer_profile_is_admitted_in_order_while_quota_allows() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        await begun(world, "web", "other")
        before = await pins(world)
        await dearer(world, "200m")
        web, other = await pins(world), await pins(world, "other")
        assert web == {await current(world)}
        assert other == before, "it keeps the former version"
        assert await requested(world) == 6 * 700 + 6 * 600
        condition = await held(world, "other")
        assert (condition["status"], condition["reason"]) == ("True", "QuotaExceeded")
        for part in ("RuntimeProfile default", "6 running copies of 700m", "FederatedQuota feed"):
            assert part in condition["message"]
        assert "raise the quota" in condition["message"]
        ready = await world.condition(PSVC, "feed", "other", "Ready")
        assert ready["status"] == "True"
        profile = await world.get("RuntimeProfile", "", "default")
        assert profile is not None
        assert profile["status"]["heldBack"] == 1
        (admitted,) = profile["status"]["conditions"]
        assert (admitted["type"], admitted["status"]) == ("Admitted", "False")
        assert "PinterestService/feed/other" in admitted["message"]
        await asyncio.sleep(figures.PASS_S + 15)
        counted = {labels(profile="default"): 1.0}
        assert world.family("federator_profile_held_back") == counted

        more = {"spec": {"tiers": {"OnDemand": {"max": {"cpu": "9"}}}}}
        await world.patch("FederatedQuota", "", "feed", more)
        await asyncio.sleep(60)
        assert await pins(world, "other") == {await current(world)}
        profile = await world.get("RuntimeProfile", "", "default")
        assert profile is not None
        assert profile["status"]["heldBack"] == 0
        await world.settle()

    play(scenario, world_of=Metered)


@pytest.mark.parametrize("edited_while", ["running", "down"])
def test_a_hub_that_starts_later_makes_new_pods_from_the_former_version(edited_while: str) -> None:
    async def scenario(world: World) -> None:
        await begun(world, limit="5")
        before = await pins(world)
        if edited_while == "running":
            await dearer(world)
        await world.federation.kill("hub")
        if edited_while == "down":
            await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("logs:2", "400m")})
        world.federation.start_hub()
        await asyncio.sleep(60)
        edit = spec(PSVC, "500m", "app:2", {}) | {"replicas": 8}
        await world.patch(PSVC, "feed", "web", {"spec": edit})
        await asyncio.sleep(60)
        assert await pins(world) == before
        assert await requested(world) == 8 * 600, "the user's own edit is not held back"
        assert (await held(world))["status"] == "True"
        for cluster in "abc":
            found = await world.get("Deployment", "feed", "web", at=cluster)
            if found is not None:
                images = [one["image"] for one in found["spec"]["template"]["spec"]["containers"]]
                assert images == ["app:2", "logs:1"]

    play(scenario)


KINDS = [
    "PinterestService",
    "PinterestStatefulSet",
    "PinterestDaemon",
    "PinterestJobSet",
    "PinterestTrainingJob",
]
"""Those whose pods get a profile; runs of cron jobs are job sets, and a Deployment has none."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_the_former_version(kind: str) -> None:
    async def scenario(world: World) -> None:
        limits = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "6"}}}}
        await world.create("FederatedQuota", "", "feed", limits)
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await asyncio.sleep(2)
        if kind == "PinterestJobSet":
            run = {"embedded.federator/run-seconds": "600"}
            made = jobset(6, 6, annotations=run)
            requests = {"requests": {"cpu": "500m"}}
            made["template"]["spec"]["containers"][0]["resources"] = requests
            made["tier"] = "OnDemand"
        elif kind == "PinterestTrainingJob":
            made = training(3, "500m", 600, tier="OnDemand")
        else:
            made = spec(kind, "500m", "app:1", {})
        await world.create(kind, "feed", "web", made | {"project": "feed"})
        await asyncio.sleep(60)
        before, ran = await pins(world, kind=kind), await requested(world)
        assert ran > 0
        await dearer(world, "4")
        assert await pins(world, kind=kind) == before
        assert await requested(world) == ran
        assert "RuntimeProfile default" in (await held(world, kind=kind))["message"]

    play(scenario)


def test_a_profile_that_is_new_is_held_back_too() -> None:
    async def scenario(world: World) -> None:
        limits = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "3"}}}}
        await world.create("FederatedQuota", "", "feed", limits)
        made = spec(PSVC, "500m", "app:1", {}) | {"project": "feed"}
        await world.create(PSVC, "feed", "web", made)
        await world.settle()
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await asyncio.sleep(60)
        assert await pins(world) == {""}
        assert (await held(world))["status"] == "True"
        assert await requested(world) == 3000

    play(scenario)


@pytest.mark.parametrize("kind", [PSVC, "PinterestStatefulSet", "PinterestDaemon"])
def test_a_new_profile_comes_on_top_of_what_a_quota_charges_by_default(kind: str) -> None:
    """Its containers request as much as the default for pods without requests, and no less is
    charged for the pods themselves (seed 20260 of the campaign)."""

    async def scenario(world: World) -> None:
        limits = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "1"}}}}
        await world.create("FederatedQuota", "", "feed", limits)
        made = spec(kind, "500m", "app:1", {}) | {"project": "feed"}
        del made["template"]["spec"]["containers"][0]["resources"]
        await world.create(kind, "feed", "web", made)
        await world.settle()
        before = await charged(world)
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await asyncio.sleep(60)
        assert await charged(world) == before == "100m"
        assert await pins(world, kind=kind) == {""}
        assert (await held(world, kind=kind))["status"] == "True"
        raised = {"spec": {"tiers": {"OnDemand": {"max": {"cpu": "2"}}}}}
        await world.patch("FederatedQuota", "", "feed", raised)
        await asyncio.sleep(60)
        assert await charged(world) == "200m"
        assert await pins(world, kind=kind) == {await current(world)}

    play(scenario)


def test_a_later_version_that_asks_for_no_more_is_taken() -> None:
    async def scenario(world: World) -> None:
        await begun(world, limit="4")
        await dearer(world)
        assert (await held(world))["status"] == "True"
        await dearer(world, "100m", "logs:3")
        assert await pins(world) == {await current(world)}
        profile = await world.get("RuntimeProfile", "", "default")
        assert profile is not None
        assert profile["status"]["heldBack"] == 0
        kept = list(runtimeprofile.versions(profile))
        assert kept[0] == await current(world)

    play(scenario)


def test_a_workload_that_grows_does_not_get_a_former_version_in_exchange() -> None:
    """Its pods have the present version, and the former one asked for less."""

    async def scenario(world: World) -> None:
        await begun(world, limit="5")
        await dearer(world, "200m")
        assert await pins(world) == {await current(world)}
        edit = spec(PSVC, "600m", "app:2", {})["template"]
        limits = {"spec": {"tiers": {"OnDemand": {"max": {"cpu": "4200m"}}}}}
        await world.patch("FederatedQuota", "", "feed", limits)
        await world.patch(PSVC, "feed", "web", {"spec": {"template": edit}})
        await asyncio.sleep(60)
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "QuotaExceeded")
        assert await pins(world) == {await current(world)}

    play(scenario)
