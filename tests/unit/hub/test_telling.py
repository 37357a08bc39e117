"""Events: what people are told, once, and with which weight."""

import asyncio
from typing import Any

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
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        first = len(await events(world, "web"))
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await world.settle()
        told = (await events(world, "web"))[first:]
        assert [one for one in told if one[0] != "Normal"] == []
        assert [reason for _, reason, _ in told if reason in ("Placed", "Scaled", "Rebalanced")] == ["Scaled"]

        await world.patch(PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": ["c"]}}}})
        await world.settle()
        (note,) = [note for _, reason, note in await events(world, "web") if reason == "Rebalanced"]
        assert "policy" in note

    play(scenario)


def test_a_cluster_that_is_lost_and_one_that_is_back_are_told_once_each() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        world.cut.add(("hub", "b"))
        await asyncio.sleep(120)
        assert [(kind, reason) for kind, reason, _ in await events(world, "b")] == [("Warning", "Unreachable")]

        world.cut.clear()
        await asyncio.sleep(60)
        assert [(kind, reason) for kind, reason, _ in await events(world, "b")][1:] == [("Normal", "Ready")]

    play(scenario)


def test_a_trouble_of_pods_is_told_once_with_its_cluster_and_again_only_after_a_while() -> None:
    async def scenario(world: World) -> None:
        spec: dict[str, Any] = service(3)
        spec["template"]["metadata"] = {"annotations": {"embedded.federator/image-pull-error": "true"}}
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
            await world.member("a").delete(ObjectRef("v1", "pods", "feed", meta["name"], "Pod"), uid=meta["uid"])
        await asyncio.sleep(20)
        assert ("Warning", "NotReady") in [(kind, reason) for kind, reason, _ in await events(world, "web")]

    play(scenario)
