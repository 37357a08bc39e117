"""Events: what people are told, once, and with which weight."""

import asyncio
from typing import Any

import pytest

from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


async def events(world: World, name: str) -> list[tuple[str, str, str]]:
    """(type, reason, note) of the Events on one object."""
    found = await world.host.list("events.k8s.io/v1", "events", "")
    return [
        (one["type"], one["reason"], one.get("note", ""))
        for one in sorted(found.items, key=lambda one: int(one["metadata"]["resourceVersion"]))
        if (one.get("regarding") or {}).get("name") == name
    ]


def test_a_scale_is_scaled_and_no_warning_and_an_edit_of_a_policy_rebalances_and_says_so() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        first = len(await events(world, "web"))
        assert first == 0  # its decision and its conditions say where it was placed, and is ready
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await world.settle()
        told = (await events(world, "web"))[first:]
        assert [one for one in told if one[0] != "Normal"] == []
        assert [
            reason for _, reason, _ in told if reason in ("Placed", "Scaled", "Rebalanced")
        ] == ["Scaled"]

        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": ["c"]}}}}
        )
        await world.settle()
        (note,) = [note for _, reason, note in await events(world, "web") if reason == "Rebalanced"]
        assert "policy" in note

    play(scenario)


def test_a_cluster_that_is_lost_and_one_that_is_back_are_told_once_each() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(120)
        assert [(kind, reason) for kind, reason, _ in await events(world, "b")] == [
            ("Warning", "Unreachable")
        ]

        world.heal()
        await asyncio.sleep(60)
        assert [(kind, reason) for kind, reason, _ in await events(world, "b")][1:] == [
            ("Normal", "Ready")
        ]

    play(scenario)


def test_a_trouble_of_pods_is_told_once_with_its_cluster_and_again_only_after_a_while() -> None:
    async def scenario(world: World) -> None:
        spec: dict[str, Any] = service(3)
        spec["template"]["metadata"] = {
            "annotations": {"embedded.federator/image-pull-error": "true"}
        }
        await world.create(PSVC, "feed", "web", spec)
        await asyncio.sleep(120)
        told = [
            note
            for kind, reason, note in await events(world, "web")
            if (kind, reason) == ("Warning", "ImagePullFailed")
        ]
        assert len(told) == 1
        assert told[0].startswith("a")
        assert "app:1" in told[0]

    play(scenario)


def test_copies_that_are_lost_without_an_edit_are_a_warning() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        pods = (await world.member("a").list("v1", "pods", "feed")).items
        for pod in pods:
            meta = pod["metadata"]
            await world.member("a").delete(
                ObjectRef("v1", "pods", "feed", meta["name"], "Pod"), uid=meta["uid"]
            )
        await asyncio.sleep(20)
        assert ("Warning", "NotReady") in [
            (kind, reason) for kind, reason, _ in await events(world, "web")
        ]

    play(scenario)


async def drifts(world: World, name: str = "web") -> list[str]:
    """Notes of what was put back."""
    told = [one for one in await events(world, name) if one[1] == "DriftRestored"]
    assert {kind for kind, _, _ in told} <= {"Warning"}
    return [note for _, _, note in told]


def test_a_slice_that_somebody_changed_or_deleted_is_told_with_cluster_and_difference() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await asyncio.sleep(30)
        assert await drifts(world) == []

        await world.patch(
            PSVC, "feed", "web", {"spec": {"replicas": 1, "minReadySeconds": 3}}, at="a"
        )
        await asyncio.sleep(30)
        (changed,) = await drifts(world)
        assert changed.startswith("a: its slice was changed there (spec.")
        assert "spec.replicas" in changed

        ref = registry.KINDS[PSVC].ref("feed", "web")
        await world.member("b").delete(
            ref, uid=(await world.member("b").get(ref))["metadata"]["uid"]
        )
        await asyncio.sleep(30)
        assert (await drifts(world))[1:] == [
            "b: its slice was deleted there and made anew; edit the workload on the host instead"
        ]
        assert (await world.member("b").get(ref))["spec"]["replicas"] == 2

    play(scenario)


@pytest.mark.long
def test_drift_that_comes_again_is_told_again_after_ten_minutes_at_the_earliest() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        for number in range(12):
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 5 + number}}, at="a")
            await asyncio.sleep(130)
        assert len(await drifts(world)) == 3  # at 0, 650 and 1300 s

    play(scenario)


def test_what_the_hub_itself_writes_is_no_drift() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        for edit in (
            {"replicas": 12},
            {"replicas": 6},
            {"placement": {"clusters": {"exclude": ["c"]}}},
            {"placement": None},
            {"suspend": True},
            {"suspend": False},
        ):
            await world.patch(PSVC, "feed", "web", {"spec": edit})
            await world.settle()
        for image in ("app:2", "app:1"):  # undone before it has reached every cluster
            template = service(6)["template"]
            template["spec"]["containers"][0]["image"] = image
            await world.patch(PSVC, "feed", "web", {"spec": {"template": template}})
            await asyncio.sleep(0.2)
        await world.settle()
        await world.federation.kill("hub")
        world.federation.start_hub()
        await world.settle()
        assert await drifts(world) == []

        await asyncio.sleep(10)  # until pods have ended, which slices report
        writes = +world.writes
        await asyncio.sleep(60)
        about = {resource for _, _, _, resource in world.writes - writes}
        assert not [
            one
            for one in about
            if one.startswith(("events", "pinterest", "placementdecisions", "deployments"))
        ]

    play(scenario)


def test_drift_after_a_restart_of_the_hub_is_told() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.federation.kill("hub")
        world.federation.start_hub()
        await world.settle()
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 1}}, at="c")
        await asyncio.sleep(30)
        (told,) = await drifts(world)
        assert told.startswith("c: its slice was changed there (spec.replicas)")

    play(scenario)


def test_a_native_object_that_somebody_changed_is_told_once_also_when_hubs_change() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.member("b").patch(
            registry.KINDS["Deployment"].ref("feed", "web"), {"spec": {"replicas": 9}}
        )
        await asyncio.sleep(60)
        (told,) = await drifts(world)
        assert told.startswith("b: Deployment feed/web was changed (spec.replicas); put back at 20")

        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(120)
        assert await drifts(world) == [told]

    play(scenario)
