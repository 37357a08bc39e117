"""A resync gives everybody a turn, in parts that leave others room."""

import asyncio
import random
from typing import Any, cast

from federator.hub.cache.router import SliceTurn
from federator.hub.cache.state import HubState
from federator.hub.leading.resync import AT_ONCE, Resync
from federator.hub.members.reachability import Reachability
from federator.hub.options import HubOptions
from federator.hub.records.decisions import summarise
from federator.hub.records.workloads import Workload
from federator.kube.control.work_queue import WorkQueue
from federator.model.names import WorkloadKey
from tests.unit.hub.world import World, play, service
from tests.unit.kube.scripted import on_virtual_time

PSVC = "PinterestService"


def key(number: int) -> WorkloadKey:
    return WorkloadKey(PSVC, "feed", f"web-{number:05}")


def hub_of(workloads: int) -> tuple[HubState, WorkQueue[WorkloadKey]]:
    """A hub that knows so many workloads, and the queue into which a resync puts them for
    placing.
    """
    state, turns = HubState(HubOptions()), WorkQueue[WorkloadKey]("placing", rng=random.Random(1))
    state.workloads.update((key(number), cast("Workload", None)) for number in range(workloads))
    state.signals.place.append(turns.add)
    state.signals.heeded = True
    return state, turns


@on_virtual_time
async def test_a_first_survey_leaves_room_for_what_comes_meanwhile() -> None:
    state, turns = hub_of(5 * AT_ONCE)
    resyncing = asyncio.create_task(Resync(state, (turns,), rng=random.Random(2)).run())
    await asyncio.sleep(1)
    assert len(turns) == AT_ONCE
    seen: list[WorkloadKey] = []
    while len(seen) < 5 * AT_ONCE:
        async with asyncio.timeout(5):
            seen.append(await turns.get())
        turns.done(seen[-1])
        assert len(turns) <= AT_ONCE
    assert seen == [key(number) for number in range(5 * AT_ONCE)]
    resyncing.cancel()
    await asyncio.wait([resyncing])


@on_virtual_time
async def test_what_is_left_of_a_workload_that_is_gone_gets_its_turn() -> None:
    state, turns = hub_of(0)
    spec: dict[str, Any] = {"workload": {"kind": PSVC, "name": "gone", "uid": "u"}}
    state.observe_decision(
        "feed",
        summarise(
            {"metadata": {"name": "psvc-gone", "namespace": "feed", "uid": "d"}, "spec": spec}
        ),
    )
    finalized: list[tuple[str, str]] = []
    state.signals.finalize.append(lambda namespace, name: finalized.append((namespace, name)))
    resyncing = asyncio.create_task(Resync(state, (turns,), rng=random.Random(2)).run())
    await asyncio.sleep(1)
    assert finalized == [("feed", "psvc-gone")]
    assert await turns.get() == WorkloadKey(PSVC, "feed", "gone")
    resyncing.cancel()
    await asyncio.wait([resyncing])


async def folded(world: World) -> list[WorkloadKey]:
    """A service in every member, settled; and a list that gets the key of every workload that is to
    be folded again.
    """
    await world.create(PSVC, "feed", "web", service(9))
    await world.settle()
    touched: list[WorkloadKey] = []
    world.federation.hub.state.signals.aggregate.append(touched.append)
    return touched


def test_all_that_a_member_holds_is_told_anew_when_it_falls_silent_and_when_it_is_back() -> None:

    async def scenario(world: World) -> None:
        touched = await folded(world)
        await asyncio.sleep(60)
        for falls_silent in (True, False):
            touched.clear()
            if falls_silent:
                await world.cut("b")
            else:
                world.heal()
            await asyncio.sleep(30)
            assert WorkloadKey(PSVC, "feed", "web") in touched

    play(scenario)


def test_a_workload_that_a_member_holds_by_decision_is_told_once_in_its_survey() -> None:

    async def scenario(world: World) -> None:
        touched = await folded(world)
        world.federation.hub.controllers.resync.members.add("b")
        await asyncio.sleep(1)
        assert touched == [WorkloadKey(PSVC, "feed", "web")]

    play(scenario)


async def taken_over(world: World) -> None:
    """A service in every member, settled; and a hub that has just listed all."""
    await world.create(PSVC, "feed", "web", service(9))
    await world.settle()
    await world.federation.kill("hub")
    world.federation.start_hub()
    await asyncio.sleep(5)


def test_first_news_of_a_member_after_a_restart_give_no_workload_a_turn_of_placing() -> None:

    async def scenario(world: World) -> None:
        await taken_over(world)
        hub = world.federation.hub
        placed: list[WorkloadKey] = []
        hub.state.signals.place.append(placed.append)
        await world.cut("b")
        await asyncio.sleep(30)
        assert hub.state.members["b"].link.reachability.state is not Reachability.LIVE
        assert placed == []

    play(scenario)


def test_news_of_a_member_are_acted_on_there_alone() -> None:

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        state, looked_at = world.federation.hub.state, list[tuple[str, WorkloadKey]]()
        everywhere: list[WorkloadKey] = []
        state.signals.dispatch.append(everywhere.append)
        state.signals.on_slice(
            SliceTurn.DISPATCH, lambda member, key: looked_at.append((member.name, key))
        )
        resync = Resync(state, (), rng=random.Random(2))
        resyncing = asyncio.create_task(resync.members.run(resync.member))
        resync.members.add("b")
        await asyncio.sleep(1)
        assert looked_at == [("b", WorkloadKey(PSVC, "feed", "web"))]
        assert everywhere == []
        resyncing.cancel()
        await asyncio.wait([resyncing])

    play(scenario)


def test_a_member_whose_lists_were_told_of_is_no_news_again_at_its_next_probe() -> None:

    async def scenario(world: World) -> None:
        await taken_over(world)
        touched: list[WorkloadKey] = []
        world.federation.hub.state.signals.aggregate.append(touched.append)
        await asyncio.sleep(60)
        assert touched == []

    play(scenario)
