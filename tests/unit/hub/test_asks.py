"""The remembered asks of workloads: never another one than would be made now."""

import asyncio

from federator.hub.cache import policying
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


def test_an_ask_is_made_anew_when_workload_policies_or_quotas_change() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        state, placing = world.federation.hub.state, world.federation.hub.controllers.placing
        (key,) = state.workloads

        def same() -> bool:
            workload = state.workloads[key]
            asked = placing.asked(workload)
            assert asked == policying.asked(workload, state.rules, state.bindings())
            return asked is placing.asked(workload)

        assert same()
        before = placing.asked(state.workloads[key])
        rule = {"selector": {"kinds": [PSVC]}, "division": {"strategy": "Capacity"}}
        await world.create("PlacementPolicy", "feed", "all", rule)
        await asyncio.sleep(5)
        assert same()
        chosen = placing.asked(state.workloads[key])
        assert before is not None
        assert chosen is not None
        assert chosen.policy.name == "all" != before.policy.name
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(5)
        assert same()

    play(scenario)


def test_only_so_many_are_remembered() -> None:
    async def scenario(world: World) -> None:
        for number in range(5):
            await world.create(PSVC, "feed", f"web-{number}", service(1))
        await world.settle()
        state, asks = world.federation.hub.state, policying.Asks(most=2)
        for _ in range(2):
            for workload in state.workloads.values():
                ask = asks.of(workload, state.rules, state.bindings())
                assert ask == policying.asked(workload, state.rules, state.bindings())
                assert len(asks._made) <= 2

    play(scenario)
