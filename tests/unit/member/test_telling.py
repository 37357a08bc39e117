"""Events on slices, in their own cluster: troubles, their end, and what was put back."""

import asyncio
from typing import Any

import pytest

from federator.member import telling
from tests.unit.member.memberworld import (
    MemberWorld,
    deployment,
    in_member,
    service,
    template,
)

PSVC = "PinterestService"
Said = tuple[str, str, str]


def conditions(*said: Said) -> list[dict[str, str]]:
    return [
        {"type": kind, "status": status, "reason": reason, "message": f"{reason} it is"}
        for kind, status, reason in said
    ]


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ([("Ready", "False", "Progressing")], [("Ready", "True", "Ready")], []),
        (
            [("Ready", "False", "Progressing")],
            [("Ready", "False", "ImagePullFailed")],
            [("ImagePullFailed", "ImagePullFailed it is", True)],
        ),
        ([("Ready", "False", "CrashLooping")], [("Ready", "False", "CrashLooping")], []),
        (
            [("Ready", "False", "CrashLooping")],
            [("Ready", "True", "Ready")],
            [("Ready", "is ready again, after CrashLooping", False)],
        ),
        (
            [("Ready", "True", "Ready")],
            [("Ready", "True", "Completed")],
            [("Completed", "Completed it is", False)],
        ),
        (
            [("Ready", "True", "Ready")],
            [("Ready", "False", "Conflict"), ("Conflict", "True", "ForeignObject")],
            [("Conflict", "ForeignObject it is", True)],
        ),
        ([], [("DriftRestored", "True", "PutBack")], [("DriftRestored", "PutBack it is", False)]),
    ],
)
def test_transitions_are_told_once_and_what_goes_well_is_not(
    was: list[Said], now: list[Said], told: list[telling.Told]
) -> None:
    trouble = "CrashLooping" if ("Ready", "False", "CrashLooping") in was else ""
    assert list(telling.news(conditions(*was), conditions(*now), trouble)) == told


async def events(world: MemberWorld, kind: str = PSVC) -> list[tuple[str, str]]:
    listed = (await world.client.list("events.k8s.io/v1", "events", namespace="feed")).items
    ours = [one for one in listed if one.get("reportingController", "").endswith("member")]
    about = [one for one in ours if one["regarding"]["kind"] == kind]
    found: list[dict[str, Any]] = sorted(about, key=lambda one: str(one["eventTime"]))
    return [(one["type"], one["reason"]) for one in found]


@in_member()
async def test_people_see_the_trouble_of_a_slice_and_its_end_in_its_cluster(
    world: MemberWorld,
) -> None:
    await world.create(service())
    await world.until_status(PSVC, "web", healthy=True)
    assert ("Normal", "Ready") not in await events(world)

    bad = {"template": {"spec": {"containers": [{"name": "app", "image": "x.invalid/app:1"}]}}}
    await world.patch(PSVC, "web", {"spec": {**bad, "slice": {"seq": 9}}})
    await asyncio.sleep(60)
    assert ("Warning", "ImagePullFailed") in await events(world)
    good = {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}
    await world.patch(PSVC, "web", {"spec": {**good, "slice": {"seq": 10}}})
    await asyncio.sleep(60)
    assert (await events(world))[-1] == ("Normal", "Ready")


@in_member()
async def test_people_see_the_trouble_of_a_carried_deployment_and_its_end(
    world: MemberWorld,
) -> None:
    await world.create(deployment(template("100")))

    async def told() -> bool:
        return bool(await events(world, "Deployment"))

    await world.until(told)
    assert await events(world, "Deployment") == [("Warning", "Unschedulable")]
    fits = template("100m")["spec"]
    await world.patch("Deployment", "plain", {"spec": {"template": {"spec": fits}}})
    await asyncio.sleep(60)
    assert (await events(world, "Deployment"))[-1] == ("Normal", "Ready")
