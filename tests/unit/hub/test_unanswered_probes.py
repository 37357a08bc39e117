"""A cluster that has missed its probes for less than the grace: nobody takes it for lost, and no copy goes elsewhere by
what it said before.
"""

import asyncio
from typing import Any

import msgspec
import pytest

from federator.scheduling.rollout import ActionKind
from tests.faults import boxes
from tests.unit.hub.test_rollout import observed, plan
from tests.unit.hub.world import World, between, play, service

PSVC = "PinterestService"


def where(*clusters: str) -> dict[str, Any]:
    return {"clusters": {"names": list(clusters)}}


async def image(world: World, cluster: str) -> str:
    found = await world.get(PSVC, "feed", "web", at=cluster)
    assert found is not None
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def test_no_copy_moves_by_the_figures_of_a_cluster_whose_probes_fail() -> None:
    """Of a 3, b 3 the three of a move to c while b is not heard: if b's had gone with it, c's three would have been all
    that there were.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=where("a", "b")))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 3, "b": 3}
        await world.cut("b")
        await asyncio.sleep(15)
        await world.patch(PSVC, "feed", "web", {"spec": {"placement": where("b", "c")}})
        await asyncio.sleep(15)
        assert await world.shares("feed", "web") == {"b": 3, "c": 3}
        moved, left = [await world.get(PSVC, "feed", "web", at=name) for name in "ca"]
        assert moved is not None
        assert moved["status"]["ready"] == 3
        assert left is not None
        assert left["spec"]["replicas"] == 3, "those of b may be missing"
        assert (await world.condition("MemberCluster", "", "b", "Ready"))["status"] == "True"

        world.heal()
        await asyncio.sleep(20)
        assert await world.get(PSVC, "feed", "web", at="a") is None

    play(scenario)


def test_a_cluster_that_returns_keeps_what_became_ready_while_it_was_silent() -> None:
    """Its probe is answered before its slices are read again: the 0 ready copies of before are no
    reason to remove the slice at once.
    """

    async def scenario(world: World) -> None:
        spec = service(6, placement=where("b"))
        spec["template"]["metadata"] = {
            "annotations": {"embedded.federator/start-delay-seconds": "60"}
        }
        await world.create(PSVC, "feed", "web", spec)
        await asyncio.sleep(10)
        await world.cut("b")
        await asyncio.sleep(60)
        await world.patch(PSVC, "feed", "web", {"spec": {"placement": where("a")}})
        await asyncio.sleep(5)
        assert await world.shares("feed", "web") == {"a": 6}
        world.heal()
        for _ in range(150):
            await asyncio.sleep(0.2)
            old, new = [await world.get(PSVC, "feed", "web", at=name) for name in "ba"]
            ready = [obj.get("status", {}).get("ready", 0) for obj in (old, new) if obj is not None]
            assert sum(ready) == 6
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "web", at="b") is None

    play(scenario)


def slow(delay_s: int, **more: Any) -> dict[str, Any]:
    """The spec of six copies that take so long to start."""
    spec = service(6, **more)
    annotations = {"embedded.federator/start-delay-seconds": str(delay_s)}
    spec["template"]["metadata"] = {"annotations": annotations}
    return spec


async def move_to_a(world: World, within_s: float) -> None:
    """Moves the six copies of b to a; six are ready at every moment until b has lost its slice."""
    await world.patch(PSVC, "feed", "web", {"spec": {"placement": where("a")}})
    for _ in range(int(within_s * 5)):
        await asyncio.sleep(0.2)
        assert await world.ready_replicas("feed", "web") >= 6
    assert await world.get(PSVC, "feed", "web", at="b") is None


@pytest.mark.parametrize("listed", ["apps", ""])
def test_a_move_keeps_the_copies_of_a_cluster_whose_discovery_leaves_their_kind_out(
    listed: str,
) -> None:
    """Without a watch nothing shows that the copies have become ready. An empty discovery cannot be
    true, so the watches go on.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", slow(100, placement=where("b")))
        await asyncio.sleep(10)
        versions = [{"groupVersion": f"{listed}/v1", "version": "v1"}]
        groups = [{"name": listed, "versions": versions}] if listed else []
        body = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        world.answer("b", "/apis", 200, msgspec.json.encode(body))
        await asyncio.sleep(120)
        assert world.answered["/apis"] > 0
        assert await world.ready_replicas("feed", "web") == 6
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == (0 if listed else 6)
        await move_to_a(world, 150)

    play(scenario)


def test_a_move_keeps_copies_whose_status_their_member_process_cannot_write() -> None:
    async def scenario(world: World) -> None:
        refused = between("member-b", "b", "/pinterestservices/web/status")
        world.put(boxes.answering(refused, boxes.forbidden))
        await world.create(PSVC, "feed", "web", slow(20, placement=where("b")))
        await asyncio.sleep(60)
        assert await world.ready_replicas("feed", "web") == 6
        await move_to_a(world, 60)

    play(scenario)


def test_a_move_keeps_copies_that_became_ready_while_their_member_process_is_dead() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", slow(60, placement=where("b")))
        await asyncio.sleep(10)
        await world.federation.kill("member b")
        await asyncio.sleep(90)
        assert await world.ready_replicas("feed", "web") == 6
        await move_to_a(world, 100)

    play(scenario)


def test_no_rollout_goes_on_while_the_probes_of_a_cluster_that_it_has_reached_fail() -> None:
    async def scenario(world: World) -> None:
        spec = service(6, placement={"rollout": {"maxClustersAtOnce": 1}})
        spec["template"]["metadata"] = {
            "annotations": {"embedded.federator/start-delay-seconds": "30"}
        }
        await world.create(PSVC, "feed", "web", spec)
        await asyncio.sleep(60)
        spec["template"]["spec"]["containers"][0]["image"] = "app:2"
        await world.patch(PSVC, "feed", "web", {"spec": {"template": spec["template"]}})
        while await image(world, "b") == "app:1":  # noqa: ASYNC110 - of virtual time
            await asyncio.sleep(0.1)
        await asyncio.sleep(15)
        await world.cut("a")
        await asyncio.sleep(30)
        reached = await world.get(PSVC, "feed", "web", at="b")
        assert reached is not None
        assert reached["status"]["updatedReplicas"] == reached["status"]["ready"] == 2
        assert await image(world, "c") == "app:1"

        world.heal()
        await asyncio.sleep(20)
        assert await image(world, "c") == "app:2"

    play(scenario)


def test_a_shrink_held_by_a_reset_watch_goes_on_when_the_watch_recovers() -> None:
    """The watch of b ends with an error between two probes, so that no probe finds anything. It
    counts as recovered after it has stood for 5 s.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, placement=where("a", "b")))
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(0.01)
        world.heal()
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(3)
        held = (await world.condition(PSVC, "feed", "web", "Reconciling"))["message"]
        assert "shrinks when the copies elsewhere are ready" in held
        assert "b: its watch of pinterestservices has not recovered yet" in held
        await asyncio.sleep(6)
        slices = [await world.get(PSVC, "feed", "web", at=name) for name in "ab"]
        assert [one["spec"]["replicas"] for one in slices if one is not None] == [2, 2]

    play(scenario)


def test_a_cluster_that_is_to_shrink_itself_is_waited_for_too_while_it_is_not_heard() -> None:
    others = (observed("a", 3), observed("c", 3, current=True))

    assert plan({"b": 2, "c": 3}, *others, observed("b", 4))["a"].kind is ActionKind.DELETE
    silent = observed("b", 4, reported=False)
    assert plan({"b": 2, "c": 3}, *others, silent)["a"].count == 2
