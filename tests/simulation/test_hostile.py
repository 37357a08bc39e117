"""Hostile actors: each act has an effect in a small world, which keeps every rule, and heals when
the act has ended.
"""

import asyncio
from pathlib import Path

import pytest

from tests.simulation import hostile, solo
from tests.simulation.acts import TENANT, Actor
from tests.simulation.drawing import draw, generator
from tests.simulation.invariants import all_of
from tests.simulation.script import SERVICE
from tests.simulation.world import World

LASTS_S = 20.0
README = Path(__file__).with_name("README.md")


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(hostile.ACTS))
def test_an_act_has_an_effect_and_the_world_heals(name: str) -> None:
    act = hostile.ACTS[name]

    async def story(world: World) -> None:
        async with act.befall(world, generator(0, name)):
            await asyncio.sleep(LASTS_S)
        assert world.fired[name] > 0
        assert bool(world.liars) == (act.actor is Actor.MEMBER)

    solo.tell(story)


def test_of_a_tenant_nothing_is_left() -> None:
    async def story(world: World) -> None:
        async with hostile.ACTS["charge-edited"].befall(world, generator(0, "")):
            assert any(
                obj["metadata"]["namespace"] == TENANT
                for obj in all_of(world.clusters["host"], SERVICE)
            )
        await solo.settled(world)
        for cluster in world.clusters.values():
            assert all(obj["metadata"]["namespace"] != TENANT for obj in all_of(cluster, SERVICE))

    solo.tell(story)


def test_worlds_without_hostile_actors_are_what_they_are_without_the_table() -> None:
    worlds = [draw(seed) for seed in range(100)]
    calm = [one for one in worlds if not any(turn.fault in hostile.ACTS for turn in one.turns)]

    assert 60 <= len(calm) <= 80
    for one in worlds:
        drawn = [turn for turn in one.turns if turn.fault in hostile.ACTS]
        assert list(one.turns[len(one.turns) - len(drawn) :]) == drawn


def test_every_act_is_a_row_of_the_readme() -> None:
    text = README.read_text(encoding="utf-8")

    assert not [
        name
        for name, act in hostile.ACTS.items()
        if f"| `{name}` | {act.actor.value} | {act.number}:" not in text
    ]
