"""Decisions of releases that hashed their inputs otherwise: an upgrade writes none of them, and
what changes later is decided on as ever.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from federator.model.ask import Ask
from federator.model.fleet import FleetSnapshot
from federator.placement import inputs
from tests.unit.hub.world import World, play, service

KIND = "PinterestService"


def whole(
    ask: Ask, snapshot: FleetSnapshot, memo: MutableMapping[Any, Any] | None = None
) -> inputs.Texts:
    """As older releases: the text of the fleet itself is hashed for every ask."""
    return inputs.policy_text(inputs.normal(ask.policy)), inputs.fleet_text(ask, snapshot)


def test_a_decision_with_a_former_hash_is_not_written_again_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(world: World) -> None:
        with monkeypatch.context() as older:
            older.setattr(inputs, "texts", whole)
            await world.create(KIND, "feed", "web", service(4))
            await world.settle()
            await world.federation.kill("hub")
        (before,) = await world.decisions()
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()
        assert await world.decisions() == [before]

        await world.patch(KIND, "feed", "web", {"spec": {"replicas": 6}})
        await asyncio.sleep(10)
        await world.settle()
        (after,) = await world.decisions()
        assert after["spec"]["inputsHash"] != before["spec"]["inputsHash"]
        assert sum((await world.shares("feed", "web")).values()) == 6
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(30)
        assert await world.decisions() == [after]

    play(scenario)
