"""What runs as it was before an edit is charged until members report that it is gone."""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.test_rollouts import BROKEN, plain
from tests.unit.hub.test_statefulsets import stateful
from tests.unit.hub.world import World, play, service

LIMITS = {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": "4"}}}}
PSVC = "PinterestService"


def spec(kind: str, cpu: str, image: str, annotations: dict[str, str]) -> dict[str, Any]:
    """Six copies; a daemon has one on each node."""
    if kind == "Deployment":
        made = plain(6, image, annotations)
    elif kind == "PinterestStatefulSet":
        made = stateful(6, image, volumeClaimTemplates=[])
    else:
        made = service(6)
    made["template"].setdefault("metadata", {})["annotations"] = annotations
    container = {"name": "app", "image": image, "resources": {"requests": {"cpu": cpu}}}
    made["template"]["spec"]["containers"] = [container]
    if kind == "PinterestDaemon":
        del made["replicas"]
    return made


async def running(world: World) -> int:
    """Thousandths of a cpu that all pods in members request together."""
    total = 0
    for member in world.federation.members:
        for pod in (await world.member(member).list("v1", "pods")).items:
            for container in pod["spec"]["containers"]:
                total += int(container["resources"]["requests"]["cpu"].removesuffix("m"))
    return total


async def charged(world: World, name: str = "web") -> str:
    """The cpu of each copy, by the decision."""
    every = [one["spec"] for one in await world.decisions()]
    (spec_,) = [one for one in every if one["workload"]["name"] == name]
    return str(spec_["charge"]["shape"]["requests"]["cpu"])


@pytest.mark.parametrize("restart", [False, True])
def test_lowered_requests_free_quota_only_when_no_old_pod_is_left(restart: bool) -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", LIMITS)
        first = spec(PSVC, "600m", "app:1", {}) | {"project": "feed"}
        await world.create(PSVC, "feed", "web", first)
        await world.settle()
        stuck = spec(PSVC, "1m", "app:bad", BROKEN)["template"]
        await world.patch(PSVC, "feed", "web", {"spec": {"template": stuck}})
        await asyncio.sleep(20)
        if restart:
            await world.federation.kill("hub")
            world.federation.start_hub()
        await world.create(PSVC, "feed", "next", first | {"placement": {"partial": "RequireAll"}})
        await asyncio.sleep(60)
        assert await charged(world) == "600m"
        placed = await world.condition(PSVC, "feed", "next", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "QuotaExceeded")
        assert await running(world) <= 4000

        whole = spec(PSVC, "1m", "app:2", {})["template"]
        whole["metadata"] = {"annotations": dict.fromkeys(BROKEN)}
        await world.patch(PSVC, "feed", "web", {"spec": {"template": whole}})
        await world.settle()
        await asyncio.sleep(5)  # until the old pods have ended
        assert await charged(world) == "1m"
        assert (await world.condition(PSVC, "feed", "next", "Placed"))["status"] == "True"
        assert await running(world) == 6 * 600 + 6

    play(scenario)


@pytest.mark.parametrize("restart", [False, True])
def test_lowered_requests_are_free_while_a_later_edit_is_held_back(restart: bool) -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "feed", LIMITS)
        first = spec(PSVC, "600m", "app:1", {}) | {"project": "feed"}
        await world.create(PSVC, "feed", "web", first)
        await world.settle()
        slow = {"embedded.federator/ready-delay-seconds": "60"}
        lowered = spec(PSVC, "100m", "app:2", slow)["template"]
        await world.patch(PSVC, "feed", "web", {"spec": {"template": lowered}})
        await asyncio.sleep(20)
        raised = spec(PSVC, "2", "app:3", {})["template"]
        await world.patch(PSVC, "feed", "web", {"spec": {"template": raised}})
        await asyncio.sleep(20)
        assert await charged(world) == "600m"

        if restart:
            await world.federation.kill("hub")
            world.federation.start_hub()
        await asyncio.sleep(600)
        assert await charged(world) == "100m"
        placed = await world.condition(PSVC, "feed", "web", "Placed")
        assert "the edit of generation 3 asks for 12 cpu" in placed["message"]

        other = spec(PSVC, "500m", "app:1", {}) | {"project": "feed"}
        await world.create(PSVC, "feed", "next", other)
        await world.settle()
        assert (await world.condition(PSVC, "feed", "next", "Placed"))["status"] == "True"
        assert await running(world) == 6 * 100 + 6 * 500

    play(scenario)


@pytest.mark.parametrize("kind", ["Deployment", "PinterestStatefulSet", "PinterestDaemon"])
def test_every_kind_is_charged_for_old_pods(kind: str) -> None:
    async def scenario(world: World) -> None:
        await world.create(kind, "feed", "web", spec(kind, "500m", "app:1", {}))
        await world.settle()
        stuck = spec(kind, "1m", "app:bad", BROKEN)["template"]
        await world.patch(kind, "feed", "web", {"spec": {"template": stuck}})
        await asyncio.sleep(60)
        assert await charged(world) == "500m"

    play(scenario)
