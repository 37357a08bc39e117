"""A cluster that falls silent: its work gets another place by itself, within the brake and the pace, and comes home."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.faults import boxes
from tests.faults.links import Cut
from tests.unit.hub.world import World, jobset, play, service, small_fleet

PSVC, PJS, CLUSTER, POLICY = (
    "PinterestService",
    "PinterestJobSet",
    "MemberCluster",
    "PlacementPolicy",
)


async def silence(world: World, name: str, seconds: float = 0.0) -> None:
    """Nothing is heard of it any more: no answer, and no news on what is open."""
    await world.cut(name)
    await asyncio.sleep(seconds)


async def said(world: World, name: str, which: str = "FailingOver") -> Mapping[str, Any]:
    return await world.condition(CLUSTER, "", name, which)


async def events(world: World, kind: str, name: str = "") -> list[str]:
    found = (await world.host.list("events.k8s.io/v1", "events")).items
    told = [one for one in found if one["regarding"]["kind"] == kind]
    return [one["reason"] for one in told if not name or one["regarding"]["name"] == name]


async def taints(world: World, name: str) -> list[str]:
    found = await world.get(CLUSTER, "", name)
    assert found is not None
    return [f"{one['key']}:{one['effect']}" for one in found["status"].get("taints") or ()]


def inline(**failover: Any) -> dict[str, Any]:
    return {"placement": {"failover": failover}}


def test_work_of_a_cluster_that_is_lost_for_300_s_runs_elsewhere_by_itself() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        at_first = await world.shares("feed", "web")
        assert at_first["a"] > 0
        await silence(world, "a", 60)
        assert await taints(world, "a") == ["federation.pinterest.com/unreachable:NoExecute"]
        assert (await said(world, "a"))["reason"] == "Waiting"
        assert "failover.afterSeconds" in (await said(world, "a"))["message"]
        await asyncio.sleep(260)  # 320 s of silence, less than 300 s of being unreachable
        assert await world.shares("feed", "web") == at_first
        await asyncio.sleep(60)
        then = await world.shares("feed", "web")
        assert "a" not in then
        assert sum(then.values()) == 12
        assert (await said(world, "a"))["reason"] == "Moved"
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["ready"] == 12
        (decision,) = await world.decisions()
        assert decision["spec"]["causes"][-1].startswith("failover from a, not heard since 20")
        (left,) = decision["spec"]["failovers"]
        assert (left["cluster"], left["copies"]) == ("a", at_first["a"])
        assert "FailedOver" in await events(world, PSVC)
        assert {"FailingOver", "Moved"} <= set(await events(world, CLUSTER, "a"))

    play(scenario)


def test_while_a_move_is_being_written_no_second_one_is_granted() -> None:
    """Its copies still seem to be in the lost cluster: each move of many was decided twice."""

    async def scenario(world: World) -> None:
        for number in range(4):
            await world.create(PSVC, "feed", f"web-{number}", service(6, **inline(afterSeconds=0)))
        await world.settle()
        world.put(
            boxes.holding_up(
                lambda sending: (
                    "placementdecisions" in sending.request.path
                    and sending.request.method == "PATCH"
                ),
                lambda _: asyncio.sleep(4),
            )
        )
        await silence(world, "a")
        while not await taints(world, "a"):  # noqa: ASYNC110 - of virtual time
            await asyncio.sleep(0.05)
        placing = world.federation.hub.controllers.placing
        for _ in range(60):  # three looks of the governor
            await asyncio.sleep(0.05)
            running = [key for key in placing.state.workloads if placing.queue.runs(key)]
            assert not any(placing.moves.granted(key) for key in running)
        assert len(running) == 4
        assert (await said(world, "a"))["reason"] == "Moving"
        await asyncio.sleep(30)
        assert (await said(world, "a"))["reason"] == "Moved"

    play(scenario)


@pytest.mark.long
def test_a_cluster_that_comes_back_loses_nothing_that_is_decided_there_and_its_work_comes_home() -> (
    None
):
    """karmada #5150: what may run in one cluster only was deleted there when it was heard again."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "moves", service(12))
        await world.create(
            PSVC, "feed", "stays", service(4, placement={"clusters": {"names": ["a"]}})
        )
        await world.settle()
        at_first = await world.shares("feed", "moves")
        await silence(world, "a", 600)
        assert "a" not in await world.shares("feed", "moves")
        assert await world.shares("feed", "stays") == {"a": 4}  # nobody leaves for nowhere
        uid = (await world.get("Deployment", "feed", "stays", at="a") or {})["metadata"]["uid"]
        world.heal()
        await asyncio.sleep(60)
        kept = await world.get("Deployment", "feed", "stays", at="a")
        assert kept is not None
        assert (kept["metadata"]["uid"], kept["spec"]["replicas"]) == (uid, 4)
        assert await world.get(PSVC, "feed", "moves", at="a") is None
        assert await taints(world, "a") == []
        assert await said(world, "a") == {}
        assert "HeardAgain" in await events(world, CLUSTER, "a")
        await asyncio.sleep(1600)  # 1660 s: not yet
        assert "a" not in await world.shares("feed", "moves")
        await asyncio.sleep(260)
        assert await world.shares("feed", "moves") == at_first
        assert "FailedBack" in await events(world, PSVC, "moves")
        decided = {one["spec"]["workload"]["name"]: one["spec"] for one in await world.decisions()}
        (left,) = decided["moves"]["failovers"]
        assert (left["copies"], decided["moves"]["causes"][-1]) == (0, "failback to a")
        assert left["backAt"] > left["at"]
        seq = decided["moves"]["seq"]
        await asyncio.sleep(3600)  # and that is the end of it
        assert {one["spec"]["seq"] for one in await world.decisions()} == {
            seq,
            decided["stays"]["seq"],
        }

    play(scenario)


@pytest.mark.long
def test_nothing_goes_home_while_a_probe_of_another_part_fails() -> None:
    """Found by seed 27 of the campaign of failovers: by the word of a cluster that had been silent
    for 24 s, a copy went home that was needed."""
    back = inline(afterSeconds=30, cooldownSeconds=120, failbackAfterSeconds=60)
    came_s: list[float] = []

    async def is_home(world: World) -> bool:
        return "a" in await world.shares("feed", "web")

    async def lost(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **back))
        await world.settle()
        await silence(world, "a", 150)
        assert not await is_home(world)
        world.heal()

    async def undisturbed(world: World) -> None:
        await lost(world)
        for _ in range(600):
            if await is_home(world):
                break
            await asyncio.sleep(1)
        came_s.append(world.federation.clock.monotonic())

    async def disturbed(world: World) -> None:
        await lost(world)
        await asyncio.sleep(came_s[0] - 25 - world.federation.clock.monotonic())
        await silence(world, "b", 30)  # less than the grace period
        assert not await is_home(world)
        world.heal()
        await asyncio.sleep(30)
        assert await is_home(world)

    play(undisturbed)
    play(disturbed)


def test_stale_copies_go_only_when_their_replacements_are_ready() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **inline(afterSeconds=0)))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        await world.cut("b", "c")  # nothing can be made ready anywhere else
        await silence(world, "a", 5)
        world.heal("b", "c")
        for name in ("b", "c"):
            await world.federation.kill(f"member {name}")  # they take slices, and nobody runs them
        await asyncio.sleep(50)
        world.heal()
        await asyncio.sleep(40)
        there = await world.get("Deployment", "feed", "web", at="a")
        assert there is not None
        assert there["spec"]["replicas"] == held

    play(scenario)


@pytest.mark.long
def test_a_cluster_that_flaps_for_an_hour_moves_nothing() -> None:
    """F24, and what makes people switch failover off: ten seconds there, twenty gone."""

    async def scenario(world: World) -> None:
        often = inline(afterSeconds=30, cooldownSeconds=900, failbackAfterSeconds=60)
        await world.create(PSVC, "feed", "web", service(8, **often))
        await world.settle()
        at_first = await world.shares("feed", "web")
        for _ in range(120):
            await silence(world, "a", 20)
            world.heal()
            await asyncio.sleep(10)
        assert await world.shares("feed", "web") == at_first

    play(scenario, fleet=small_fleet(2))


@pytest.mark.long
def test_a_cluster_that_is_lost_again_and_again_is_left_once_a_cooldown() -> None:
    async def scenario(world: World) -> None:
        often = inline(afterSeconds=30, cooldownSeconds=900, failbackAfterSeconds=60)
        await world.create(PSVC, "feed", "web", service(8, **often))
        await world.settle()
        moves = list[float]()
        seen = (await world.decisions())[0]["spec"]["seq"]
        for step in range(150):  # 100 s gone, 80 s there
            if step % 9 == 0:
                await silence(world, "a")
            elif step % 9 == 5:
                world.heal()
            await asyncio.sleep(20)
            spec = (await world.decisions())[0]["spec"]
            if spec["seq"] != seen and spec["causes"][-1].startswith("fail"):
                moves.append(world.federation.clock.monotonic())
            seen = spec["seq"]
        assert len(moves) > 1
        assert all(later - before >= 880 for before, later in itertools.pairwise(moves)), moves

    play(scenario, fleet=small_fleet(2))


@pytest.mark.long
def test_fifteen_workloads_over_ten_and_five_places_are_ten_and_five() -> None:
    """karmada #6518: all fifteen were sent to the larger cluster, which had room for ten."""

    async def scenario(world: World) -> None:
        for number in range(15):
            name, where = f"app-{number:02}", {"clusters": {"names": ["a"]}}
            await world.create(PSVC, "feed", name, service(1, cpu="3", placement=where))
        await world.settle()
        for number in range(15):
            await world.patch(PSVC, "feed", f"app-{number:02}", {"spec": {"placement": None}})
        await world.settle()
        assert all(
            [await world.shares("feed", f"app-{number:02}") == {"a": 1} for number in range(15)]
        )
        await silence(world, "a", 500)
        places = [await world.shares("feed", f"app-{number:02}") for number in range(15)]
        assert [places.count({name: 1}) for name in ("a", "b", "c")] == [0, 10, 5]
        await asyncio.sleep(60)
        for number in range(15):
            found = await world.get(PSVC, "feed", f"app-{number:02}")
            assert found is not None
            assert found["status"]["ready"] == 1

    pools = {
        "a": [Pool(count=8, cpu="8", memory="32Gi")],
        "b": [Pool(count=5, cpu="8", memory="32Gi")],
        "c": [Pool(count=2, cpu="8", memory="32Gi"), Pool(count=1, cpu="4", memory="32Gi")],
    }
    fleet = FleetSpec(members=[MemberSpec(name=name, nodes=nodes) for name, nodes in pools.items()])
    play(scenario, fleet=fleet)


def test_quota_that_is_full_does_not_hold_a_failover() -> None:
    """What is lost is not counted twice."""

    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"guaranteed": {"cpu": "6"}}}
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": tiers})
        await world.create(PSVC, "feed", "web", service(12, project="feed"))
        await world.settle()
        await silence(world, "a", 420)
        then = await world.shares("feed", "web")
        assert ("a" in then, sum(then.values())) == (False, 12)

    play(scenario)


def test_who_scales_up_while_a_cluster_is_silent_keeps_its_copies_there() -> None:
    """karmada #1640: the scheduler took them away, although nothing may have been wrong with them."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6, **inline(when="Dead")))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        await silence(world, "a", 100)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 20}})
        await asyncio.sleep(20)
        then = await world.shares("feed", "web")
        assert (then["a"], sum(then.values())) == (held, 20)
        await asyncio.sleep(600)
        assert (await world.shares("feed", "web"))["a"] == held
        assert "failover.when" in (await said(world, "a"))["message"]

    play(scenario)


@pytest.mark.parametrize("seconds", [5, 20, 35])
def test_a_blip_leaves_no_trace(seconds: int) -> None:
    """F22."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **inline(afterSeconds=0)))
        await world.settle()
        at_first = await world.shares("feed", "web")
        await silence(world, "a", seconds)
        world.heal()
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == at_first
        assert await taints(world, "a") == []
        assert await events(world, CLUSTER, "a") == []

    play(scenario)


@pytest.mark.parametrize("process", ["hub", "silent process", "refused"])
def test_what_is_no_silence_of_the_cluster_moves_nothing(process: str) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **inline(afterSeconds=0)))
        await world.settle()
        at_first = await world.shares("feed", "web")
        if process == "hub":
            await world.cut("a", how=Cut.SHORT)
        elif process == "refused":
            world.deny("a")
        else:
            await world.federation.kill("member a")
        await asyncio.sleep(600)
        assert await world.shares("feed", "web") == at_first
        assert await taints(world, "a") == []

    play(scenario)


def test_a_cluster_whose_watches_still_tell_news_is_not_lost() -> None:
    """Its load balancer turns new connections away; what is open goes on."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **inline(afterSeconds=60)))
        await world.settle()
        at_first = await world.shares("feed", "web")
        world.turn_away("a")
        await asyncio.sleep(240)
        assert (await world.condition(CLUSTER, "", "a", "Ready"))["reason"] == "Unreachable"
        assert await world.shares("feed", "web") == at_first

    play(scenario)


@pytest.mark.long
def test_when_all_fall_silent_nothing_moves_and_the_first_that_is_heard_starts_the_clocks_anew() -> (
    None
):
    """F26: then our own network is the fault."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12))
        await world.settle()
        at_first = await world.shares("feed", "web")
        for name in "abc":
            await silence(world, name)
        await asyncio.sleep(3600)
        assert await world.shares("feed", "web") == at_first
        assert (await said(world, "a"))["reason"] == "Held"
        assert "FullDisruption" in (await said(world, "a"))["message"]
        assert "FailoverHeld" in await events(world, CLUSTER, "a")
        world.heal("b", "c")
        await asyncio.sleep(250)
        assert await world.shares("feed", "web") == at_first
        assert "FailoverReleased" in await events(world, CLUSTER, "a")
        await asyncio.sleep(150)
        assert "a" not in await world.shares("feed", "web")

    play(scenario)


@pytest.mark.long
def test_most_of_a_small_fleet_gone_holds_everything() -> None:
    """F25."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(20, cpu="100m"))
        await world.settle()
        at_first = await world.shares("feed", "web")
        for name in "abc":
            await silence(world, name)
        await asyncio.sleep(900)
        assert await world.shares("feed", "web") == at_first
        assert "PartialDisruption: 3 of 5" in (await said(world, "a"))["message"]

    play(scenario, fleet=small_fleet(5, nodes=1))


@pytest.mark.long
def test_a_hub_that_begins_while_a_cluster_is_silent_gives_it_the_whole_time() -> None:
    """F27; and what moved before a change of leader rests after it."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **inline(cooldownSeconds=3600)))
        await world.settle()
        at_first = await world.shares("feed", "web")
        await silence(world, "a", 250)
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(280)
        assert await world.shares("feed", "web") == at_first
        await asyncio.sleep(120)
        assert "a" not in await world.shares("feed", "web")
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(60)
        then = await world.shares("feed", "web")
        await silence(world, "b", 600)
        assert await world.shares("feed", "web") == then
        assert "failover.cooldownSeconds" in (await said(world, "b"))["message"]

    play(scenario, fleet=small_fleet(5))


def test_tolerations_of_the_taint_end_or_last_for_ever() -> None:
    async def scenario(world: World) -> None:
        key = "federation.pinterest.com/unreachable"
        ever = {"key": key, "operator": "Exists"}
        for name, toleration in (("soon", {**ever, "tolerationSeconds": 20}), ("never", ever)):
            placement = {"tolerations": [toleration]}
            await world.create(PSVC, "feed", name, service(6, placement=placement))
        await world.settle()
        await silence(world, "a", 120)
        assert "a" not in await world.shares("feed", "soon")
        await asyncio.sleep(600)
        assert "a" in await world.shares("feed", "never")

    play(scenario)


def test_a_pause_holds_a_failover_and_a_slow_pace_is_kept() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(60, cpu="100m", **inline(afterSeconds=0)))
        await world.settle()
        held = (await world.shares("feed", "web"))["a"]
        await silence(world, "a", 70)
        left = (await world.shares("feed", "web"))["a"]
        assert held - 12 <= left < held  # twelve a minute

    play(scenario, options=HubOptions(evacuated_copies_a_minute=12))


@pytest.mark.long
def test_shards_that_may_overlap_are_restarted_elsewhere() -> None:
    async def scenario(world: World) -> None:
        long = {"embedded.federator/run-seconds": "900"}
        await world.create(PJS, "feed", "run", jobset(24, 12, annotations=long))
        await asyncio.sleep(20)
        first = min(await world.slots("feed", "run"))
        await silence(world, first, 420)
        assert first not in await world.slots("feed", "run")
        await asyncio.sleep(3000)
        assert (await world.condition(PJS, "feed", "run", "Complete"))["status"] == "True"

    play(scenario)


def test_a_grace_shorter_than_a_round_of_probes_is_still_over_one_day() -> None:
    """A probe that nobody answers takes 8 s here, and the next one begins 10 s later: no two end
    within the grace. The same becomes of a hub that is as slow.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(12, **inline(afterSeconds=30)))
        await world.settle()
        await world.cut("a", how=Cut.SILENT)
        await asyncio.sleep(40)
        assert await taints(world, "a") == [], "two failed probes prove nothing"
        await asyncio.sleep(200)
        assert await taints(world, "a") == ["federation.pinterest.com/unreachable:NoExecute"]
        assert "a" not in await world.shares("feed", "web")

    options = HubOptions(probe_interval_s=10.0, probe_timeout_s=8.0, unready_after_s=12.0)
    play(scenario, options=options)
