"""How long copies have waited for a node is measured by the hub, whatever the members' clocks
say.
"""

import asyncio
from typing import Any

import pytest

from federator.kube.clock import Clock
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation, ensure
from tests.unit.hub.taints import taint_all, throw_out
from tests.unit.hub.world import World, play, service, small_fleet
from tests.worlds import EPOCH_S

PSVC = "PinterestService"
PLACEMENT = {"clusters": {"names": ["a", "b"]}}


@pytest.fixture(params=[-300.0, 300.0], ids=["behind", "ahead"])
def skewed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a is five minutes off."""
    made = Federation.__post_init__

    def post_init(self: Federation) -> None:
        self.clock_of = lambda owner: Clock(
            EPOCH_S + (request.param if owner in ("a", "member-a") else 0.0)
        )
        made(self)

    monkeypatch.setattr(Federation, "__post_init__", post_init)


async def turned_away(world: World) -> None:
    """One of three copies in a finds no node any more."""
    await world.create(PSVC, "feed", "web", service(6, cpu="6", placement=PLACEMENT))
    await world.settle()
    assert await world.shares("feed", "web") == {"a": 3, "b": 3}
    await taint_all(world, "a", 8)
    await throw_out(world, "a", 1)


@pytest.mark.usefixtures("skewed")
def test_copies_that_wait_for_a_moment_stay_and_those_that_wait_for_long_move() -> None:
    async def scenario(world: World) -> None:
        await turned_away(world)
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 3, "b": 3}
        await asyncio.sleep(90)
        assert await world.shares("feed", "web") == {"a": 2, "b": 4}

    play(scenario, fleet=small_fleet(2, nodes=8))


def test_a_hub_that_restarts_waits_anew_and_then_moves_them() -> None:
    async def scenario(world: World) -> None:
        await turned_away(world)
        await asyncio.sleep(40)
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(40)
        assert await world.shares("feed", "web") == {"a": 3, "b": 3}
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"a": 2, "b": 4}

    play(scenario, fleet=small_fleet(2, nodes=8))


def test_nothing_is_remembered_of_copies_that_found_a_node_or_are_gone() -> None:
    async def scenario(world: World) -> None:
        await turned_away(world)
        await asyncio.sleep(20)
        caps = world.federation.hub.controllers.caps
        assert len(caps._waiting) == 1
        for index in range(8):
            ref = ObjectRef("v1", "nodes", "", f"a-0-{index}", "Node")
            await world.member("a").patch(ref, {"spec": {"taints": None}})
        await asyncio.sleep(20)
        assert not caps._waiting

        await taint_all(world, "a", 8)
        await throw_out(world, "a", 1)
        await asyncio.sleep(20)
        assert len(caps._waiting) == 1
        await world.delete("MemberCluster", "", "a")
        await asyncio.sleep(5)
        assert not caps._waiting

    play(scenario, fleet=small_fleet(2, nodes=8))


FRIEND = {"app": "friend"}
"""Labels of a pod that some pods want beside them: no capacity report knows of that."""


def choosy(replicas: int) -> dict[str, Any]:
    """A service whose pods start only beside a friend."""
    body = service(replicas, cpu="100m")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": FRIEND}}
    body["template"]["spec"]["affinity"] = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    }
    return body


async def befriend(world: World, cluster: str) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "feed"}}
    await ensure(world.member(cluster), space, "namespaces")
    ref = ObjectRef("v1", "pods", "feed", "friend", "Pod")
    meta = {"name": ref.name, "namespace": ref.namespace, "labels": FRIEND}
    spec = {"containers": [{"name": "app", "image": "friend:1"}]}
    await world.member(cluster).create(
        ref, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    )


async def beside_a_friend(world: World) -> None:
    """Four copies that only b can bind have left a."""
    await world.create(PSVC, "feed", "web", choosy(4))
    await asyncio.sleep(20)
    assert await world.shares("feed", "web") == {"a": 2, "b": 2}
    await befriend(world, "b")
    await asyncio.sleep(70)
    assert await world.shares("feed", "web") == {"b": 4}


@pytest.mark.long
def test_copies_that_no_scheduler_can_bind_stay_where_they_are() -> None:
    """They went to and fro between the clusters once a minute (found after simulation seed 831)."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", choosy(3))
        await asyncio.sleep(20)
        before = await world.decisions()
        await asyncio.sleep(1800)
        assert await world.decisions() == before

    play(scenario, fleet=small_fleet(2))


def test_one_cluster_that_cannot_bind_its_copies_keeps_them() -> None:
    """Nobody else can take them, and what makes nodes for pods that wait has to see them."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", choosy(3))
        await asyncio.sleep(200)
        assert await world.shares("feed", "web") == {"a": 3}
        await befriend(world, "a")
        await asyncio.sleep(20)
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 3

    play(scenario, fleet=small_fleet(1))


def test_a_cluster_that_was_left_gets_nothing_new_until_it_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        await beside_a_friend(world)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 6}})
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {"b": 6}
        await asyncio.sleep(600)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 8}})
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {"a": 2, "b": 6}
        await asyncio.sleep(70)
        assert await world.shares("feed", "web") == {"b": 8}

    play(scenario, fleet=small_fleet(2))


def test_pods_of_another_template_are_tried_everywhere_at_once() -> None:
    async def scenario(world: World) -> None:
        await beside_a_friend(world)
        spec = {"replicas": 8, "template": {"spec": {"affinity": None}}}
        await world.patch(PSVC, "feed", "web", {"spec": spec})
        await asyncio.sleep(20)
        assert await world.shares("feed", "web") == {"a": 4, "b": 4}

    play(scenario, fleet=small_fleet(2))


def test_copies_that_stayed_go_where_a_cluster_opens() -> None:
    async def scenario(world: World) -> None:
        await world.patch("MemberCluster", "", "b", {"spec": {"cordoned": True}})
        await world.create(PSVC, "feed", "web", choosy(3))
        await befriend(world, "b")
        await asyncio.sleep(200)
        assert await world.shares("feed", "web") == {"a": 3}
        await world.patch("MemberCluster", "", "b", {"spec": {"cordoned": False}})
        await asyncio.sleep(10)
        assert await world.shares("feed", "web") == {"b": 3}

    play(scenario, fleet=small_fleet(2))
