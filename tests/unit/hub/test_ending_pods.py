"""Pods that are ending are charged to their account, and a project bounds how long they may take."""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.test_former_charges import PSVC, spec
from tests.unit.hub.test_training_jobs import training
from tests.unit.hub.world import World, jobset, play

STOP = "embedded.federator/stop-seconds"
KINDS = [
    *(PSVC, "Deployment", "PinterestStatefulSet", "PinterestDaemon"),
    *("PinterestJobSet", "PinterestTrainingJob"),
]


def slow(kind: str, grace_s: int, image: str = "app:1") -> dict[str, Any]:
    """A workload of one or more copies whose pods take the whole grace period to end."""
    annotations = {STOP: str(grace_s), "embedded.federator/run-seconds": "3600"}
    if kind == "PinterestJobSet":
        made = jobset(6, 6, "600m", annotations)
    elif kind == "PinterestTrainingJob":
        made = training(2, "600m", run_s=3600)
        made["template"]["metadata"]["annotations"] |= annotations
    else:
        made = spec(kind, "600m", image, {STOP: str(grace_s)})
    made["template"]["spec"]["terminationGracePeriodSeconds"] = grace_s
    return made


async def used(world: World) -> int:
    """Thousandths of a cpu that account feed is charged."""
    found = await world.get("FederatedQuota", "", "feed")
    assert found is not None
    rows = found["status"].get("usage", ())
    texts = [row["used"]["cpu"] for row in rows if row.get("used", {}).get("cpu")]
    return sum(
        int(text[:-1]) if text.endswith("m") else 1000 * int(text) for text in map(str, texts)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_workload_is_charged_until_its_pods_end(kind: str) -> None:
    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"max": {"cpu": "20"}}}
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": tiers})
        await world.create(kind, "feed", "web", slow(kind, 300) | ours(kind))
        await asyncio.sleep(30)
        held = await used(world)
        assert held >= 1800
        await world.delete(kind, "feed", "web")
        await asyncio.sleep(200)
        assert await used(world) == held
        await asyncio.sleep(200)
        assert await used(world) == 0

    play(scenario)


def ours(kind: str) -> dict[str, Any]:
    """The project, where it is a field; a Deployment has that of its namespace."""
    return {} if kind == "Deployment" else {"project": "feed"}


def test_workloads_deleted_with_long_grace_do_not_exceed_the_quota() -> None:
    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"max": {"cpu": "4"}}}
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": tiers})
        for round_ in range(4):
            await world.create(PSVC, "feed", f"web{round_}", slow(PSVC, 600))
            await asyncio.sleep(20)
            await world.delete(PSVC, "feed", f"web{round_}")
            await asyncio.sleep(10)
        pods = [
            pod
            for member in world.federation.members
            for pod in (await world.member(member).list("v1", "pods")).items
        ]
        assert 0 < len(pods) <= 6, "6 pods of 600m are as many as 4 cpu admit"

    play(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_account_bounds_the_grace_period_of_its_pods(kind: str) -> None:
    async def scenario(world: World) -> None:
        account = {"projects": ["feed"], "maxTerminationGracePeriodSeconds": 120}
        await world.create("FederatedQuota", "", "feed", account)
        await asyncio.sleep(2)
        await world.create(kind, "feed", "good", slow(kind, 120) | ours(kind))
        await world.create(kind, "feed", "bad", slow(kind, 121) | ours(kind))
        await asyncio.sleep(30)
        assert (await world.condition(kind, "feed", "good", "Placed"))["status"] == "True"
        placed = await world.condition(kind, "feed", "bad", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "IdentityNotAllowed")
        assert placed["message"].startswith(
            "spec.template.spec.terminationGracePeriodSeconds: is 121; FederatedQuota feed allows"
            " its projects at most 120 seconds (spec.maxTerminationGracePeriodSeconds)"
        )

        longer = {"template": {"spec": {"terminationGracePeriodSeconds": 300}}}
        await world.patch(kind, "feed", "good", {"spec": longer})
        await asyncio.sleep(30)
        assert (await world.condition(kind, "feed", "good", "Placed"))["status"] == "False"
        slots = await world.slots("feed", "good")
        assert slots or await world.shares("feed", "good"), "what runs stays"

    play(scenario)
