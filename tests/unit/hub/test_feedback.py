"""How long copies have waited for a node is measured by the hub, whatever the members' clocks say."""

import asyncio

import pytest

from federator.embedded.federation import Federation
from federator.kube.clock import Clock
from federator.model.steps import ObjectRef
from tests.unit.hub.taints import taint_all, throw_out
from tests.unit.hub.world import EPOCH_S, World, play, service, small_fleet

PSVC = "PinterestService"
PLACEMENT = {"clusters": {"names": ["a", "b"]}}


@pytest.fixture(params=[-300.0, 300.0], ids=["behind", "ahead"])
def skewed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a is five minutes off."""
    made = Federation.__post_init__

    def post_init(self: Federation) -> None:
        self.clock_of = lambda owner: Clock(EPOCH_S + (request.param if owner in ("a", "member-a") else 0.0))
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
        feedback = world.federation.hub.feedback
        assert len(feedback._waiting) == 1
        for index in range(8):
            ref = ObjectRef("v1", "nodes", "", f"a-0-{index}", "Node")
            await world.member("a").patch(ref, {"spec": {"taints": None}})
        await asyncio.sleep(20)
        assert not feedback._waiting

        await taint_all(world, "a", 8)
        await throw_out(world, "a", 1)
        await asyncio.sleep(20)
        assert len(feedback._waiting) == 1
        await world.delete("MemberCluster", "", "a")
        await asyncio.sleep(5)
        assert not feedback._waiting

    play(scenario, fleet=small_fleet(2, nodes=8))
