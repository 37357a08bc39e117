"""Pauses: nothing is placed, written or deleted during one, and nothing is forgotten over one."""

import asyncio
import heapq

from federator.cli.clusters import joining
from federator.hub.cache.state import HubState
from federator.hub.options import HubOptions
from federator.hub.records import workloads
from federator.hub.records.pauses import Pause
from federator.hub.records.workloads import Workload
from federator.hub.status import pacing
from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.unit.hub.test_returning import buried, comes_back, slice_in, spread
from tests.unit.hub.world import World, jobset, play

PSVC = "PinterestService"
SWITCH = ObjectRef("v1", "configmaps", "federator-system", "federator", "ConfigMap")


async def pause(world: World, paused: bool = True) -> None:
    text = "true" if paused else "false"
    try:
        await world.host.patch(SWITCH, {"data": {"paused": text}})
    except errors.NotFound:
        meta = {"name": SWITCH.name, "namespace": SWITCH.namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"paused": text}}
        await world.host.create(SWITCH, body)
    await asyncio.sleep(2)


async def resume(world: World) -> None:
    await pause(world, paused=False)


def test_a_hub_that_starts_during_a_pause_writes_nothing_however_late_it_hears_of_it() -> None:
    async def scenario(world: World) -> None:
        await spread(world, "web")
        await world.settle()
        await pause(world)
        await world.federation.kill("hub")
        await world.delete(PSVC, "feed", "web")
        world.hold_up("host", "/configmaps", 5)
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert world.federation.hub.state.ready
        assert await slice_in(world, "b", "web") is not None

        await resume(world)
        await asyncio.sleep(30)
        assert await slice_in(world, "b", "web") is None

    play(scenario)


def test_a_deletion_given_up_in_a_member_is_finished_after_a_pause_in_which_it_came_back() -> None:
    async def scenario(world: World) -> None:
        await spread(world, "web")
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(60)
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(30)
        await joining.forget(world.host, "b")
        await asyncio.sleep(60)
        await pause(world)
        world.heal()
        await asyncio.sleep(60)
        assert await slice_in(world, "b", "web") is not None

        await resume(world)
        await asyncio.sleep(30)
        assert await slice_in(world, "b", "web") is None
        member = await world.get("MemberCluster", "", "b")
        assert member is not None
        assert not member["status"].get("forgotten")

    play(scenario)


def test_a_slice_that_came_back_during_a_pause_is_removed_after_it() -> None:
    async def scenario(world: World) -> None:
        before = await buried(world)
        await pause(world)
        await comes_back(world, before, "b")
        await asyncio.sleep(30)
        assert await slice_in(world, "b", "web") is not None

        await resume(world)
        await asyncio.sleep(10)
        assert await slice_in(world, "b", "web") is None

    play(scenario)


def test_every_workload_says_that_it_is_paused_and_since_when_until_that_is_over() -> None:
    async def scenario(world: World) -> None:
        await spread(world, "web")
        await world.settle()
        await pause(world)
        await world.host.patch(
            SWITCH, {"data": {"since": "2026-09-21T14:00:00Z", "by": "ann", "reason": "upgrade"}}
        )
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(5)
        paused = await world.condition(PSVC, "feed", "web", "Paused")
        reconciling = await world.condition(PSVC, "feed", "web", "Reconciling")
        assert (paused["status"], paused["reason"]) == ("True", "Paused")
        assert "since 2026-09-21T14:00:00Z by ann (upgrade)" in paused["message"]
        assert (reconciling["status"], reconciling["reason"]) == ("True", "Paused")
        assert "being placed again" not in reconciling["message"]

        await resume(world)
        await world.settle()
        assert await world.condition(PSVC, "feed", "web", "Paused") == {}
        assert (await world.condition(PSVC, "feed", "web", "Reconciling"))["status"] == "False"

    play(scenario)


def test_first_statuses_during_a_pause_have_a_rate_and_decisions_are_told_without_it() -> None:
    async def scenario(world: World) -> None:
        await world.namespace("feed")
        await pause(world)
        for at in range(60):
            await world.create("PinterestJobSet", "feed", f"job{at}", jobset(1, 1, "1m"))
        # An unsettled first status waits a second in any case, and these are a burst of a second.
        await asyncio.sleep(3)

        async def told() -> int:
            jobs = [await world.get("PinterestJobSet", "feed", f"job{at}") for at in range(60)]
            return sum(bool(job and job.get("status")) for job in jobs)

        some = await told()
        assert 10 < some < 45  # 20 a second
        await asyncio.sleep(3)
        assert await told() == 60

        for at in range(60, 120):
            await world.create("PinterestJobSet", "feed", f"job{at}", jobset(1, 1, "1m"))
        await resume(world)
        late = await world.get("PinterestJobSet", "feed", "job119")
        assert late is not None
        assert late["status"]["clusterStatuses"]

    play(scenario)


def arriving(name: str) -> Workload:
    meta = {"name": name, "namespace": "feed", "uid": f"uid-{name}", "resourceVersion": "1"}
    obj = {"metadata": meta, "spec": jobset(1, 1, "1m")}
    return workloads.summarise("PinterestJobSet", obj, None)


def test_turns_of_workloads_that_are_gone_are_given_to_others() -> None:
    state = HubState(HubOptions())
    state.observe_pause(Pause(""))
    turns = pacing.FirstStatuses(state)
    many = [arriving(f"job{at}") for at in range(2_000)]
    waits_s = [turns.wait_s(each, {}, 0.0) for each in many]
    assert waits_s[:3] == [0.0, 0.05, 0.1]
    assert max(waits_s) == pacing.LOOK_S
    for each in many[10:-1]:
        turns.forget(each.key)
    assert turns.wait_s(arriving("later"), {}, 1.0) < 0.1
    assert turns.wait_s(many[-1], {}, 1.0) < 0.2
    for each in (*many, arriving("later")):
        turns.forget(each.key)
    assert turns.wait_s(arriving("last"), {}, 1.0) < 1.5 * pacing.FIRST_S
    assert turns.wait_s(arriving("last but one"), {}, 1.0) < 2.5 * pacing.FIRST_S


def test_first_statuses_nearly_stand_still_during_a_burst() -> None:
    """While 100 workloads a second come, and at the usual pace as soon as they end."""
    state = HubState(HubOptions())
    state.observe_pause(Pause(""))
    turns = pacing.FirstStatuses(state)
    asks_s = [(at / 100, at, arriving(f"job{at}")) for at in range(1_000)]  # for ten seconds
    told_s: list[float] = []
    asked = 0
    heapq.heapify(asks_s)
    while asks_s:
        now_s, at, each = heapq.heappop(asks_s)
        asked += 1
        if wait_s := turns.wait_s(each, {}, now_s):
            heapq.heappush(asks_s, (now_s + wait_s, at, each))
        else:
            told_s.append(now_s)
            turns.forget(each.key)

    during = sum(each_s < 10.0 for each_s in told_s)
    assert 10.0 * pacing.BURST_PACE / pacing.FIRST_S <= during <= 60
    assert len(told_s) == 1_000
    assert max(told_s) < 10.0 + 1_000 * pacing.FIRST_S + pacing.LOOK_S
    assert asked < 10 * 1_000
