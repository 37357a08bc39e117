"""Deletions of what has gone from the host: spread when there are many, given up where an operator
says so.
"""

import asyncio
from typing import Any

import pytest

from federator.cli.clusters import joining
from federator.hub.options import HubOptions
from federator.hub.records.deletion_budget import DeletionBudget
from federator.kinds import registry
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


async def slices(world: World) -> int:
    """Slices in all members."""
    found = 0
    for name in world.federation.members:
        found += len(
            (await world.member(name).list("pinterest.com/v1beta1", "pinterestservices")).items
        )
    return found


def test_many_workloads_that_vanish_while_the_hub_is_down_are_removed_a_few_a_minute() -> None:
    async def scenario(world: World) -> None:
        for number in range(6):
            await world.create(PSVC, "feed", f"web-{number}", service(3))
        await world.settle()
        assert await slices(world) == 18
        await world.federation.kill("hub")
        for number in range(6):
            await world.delete(PSVC, "feed", f"web-{number}")
        world.federation.start_hub()

        await asyncio.sleep(15)
        assert await slices(world) == 12
        waiting = [
            one["spec"]["deletion"] for one in await world.decisions() if "deletion" in one["spec"]
        ]
        assert len(waiting) == 4
        assert {one["reason"] for one in waiting} == {"DeletionBudget"}
        assert "at most 6 slices are deleted in a minute" in waiting[0]["message"]

        await asyncio.sleep(60)
        assert 3 <= await slices(world) <= 9
        await asyncio.sleep(120)
        assert await slices(world) == 0
        assert await world.decisions() == []

    play(scenario, options=HubOptions(deletions_floor=6))


def test_a_deletion_that_waits_is_called_off_when_the_workload_is_there_after_all() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.create(PSVC, "feed", "page", service(3))
        await world.settle()
        hub = world.federation.hub
        (key,) = [key for key in hub.state.workloads if key.name == "web"]
        known = hub.state.workloads.pop(key)  # the cache has lost it
        (record,) = hub.state.records_of(key)
        hub.state.deletions.take(3, 6, world.federation.clock.monotonic())
        hub.state.signals.finalize("feed", record.name)
        await asyncio.sleep(5)
        (held,) = [one for one in await world.decisions() if "deletion" in one["spec"]]
        assert held["spec"]["deletion"]["reason"] == "DeletionBudget"

        hub.state.workloads[key] = known
        await asyncio.sleep(60)
        assert [one["spec"].get("deletion") for one in await world.decisions()] == [None, None]
        assert await slices(world) == 6

    play(scenario, options=HubOptions(deletions_floor=3))


def test_a_few_deletions_never_wait() -> None:
    budget = DeletionBudget(floor=100, permille=100)

    assert [budget.take(3, 300, 10.0) for _ in range(33)] == [0.0] * 33
    assert budget.take(3, 300, 10.0) > 0
    assert budget.take(3, 300, 12.0) == 0.0


def test_the_budget_is_a_share_of_everything_and_a_workload_larger_than_it_gets_its_turn() -> None:
    budget = DeletionBudget(floor=10, permille=100)

    assert budget.rate(5000) == 500
    assert budget.take(900, 5000, 0.0) == 0.0
    assert 100 < budget.wait_s(500, 5000, 0.0) <= 120
    assert DeletionBudget(floor=1, permille=1000).take(10**6, 10, 0.0) == 0.0


async def blocked_deletion(world: World) -> dict[str, Any]:
    """Deletes a service while `b` cannot be reached, and returns its decision."""
    await world.create(PSVC, "feed", "web", service(6))
    await world.settle()
    await world.cut("b")
    await asyncio.sleep(60)
    await world.delete(PSVC, "feed", "web")
    await asyncio.sleep(60)
    (decision,) = await world.decisions()
    assert decision["spec"]["deletion"]["waitingFor"] == ["b"]
    return decision


async def forgotten(world: World, name: str) -> list[dict[str, Any]]:
    found = await world.get("MemberCluster", "", name)
    assert found is not None
    listed: list[dict[str, Any]] = found["status"].get("forgotten") or []
    return listed


def test_a_deletion_that_gives_a_cluster_up_ends_and_the_cluster_is_cleaned_on_return() -> None:
    async def scenario(world: World) -> None:
        decision = await blocked_deletion(world)
        told = await joining.forget(world.host, "b")
        assert told == [f"feed/{decision['metadata']['name']}"]
        await asyncio.sleep(30)
        assert await world.decisions() == []
        assert [entry["name"] for entry in await forgotten(world, "b")] == ["web"]

        await world.federation.kill("hub")  # the tombstone outlives the process
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "web", at="b") is not None
        world.heal()
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "web", at="b") is None
        assert await forgotten(world, "b") == []

    play(scenario)


def test_what_was_given_up_is_removed_before_a_workload_of_the_same_name_runs_there() -> None:
    async def scenario(world: World) -> None:
        await blocked_deletion(world)
        await joining.forget(world.host, "b")
        await asyncio.sleep(30)
        await world.create(PSVC, "feed", "web", service(4))
        await asyncio.sleep(10)
        world.heal()
        await asyncio.sleep(90)
        await world.settle()
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        for name in world.federation.members:
            held = await world.get(PSVC, "feed", "web", at=name)
            assert held is None or held["spec"]["slice"]["workloadUID"] == found["metadata"]["uid"]
        assert await forgotten(world, "b") == []

    play(scenario)


def test_a_deletion_waits_for_a_cluster_that_does_not_serve_the_kind_for_a_while() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.federation.kill("hub")
        await world.delete(PSVC, "feed", "web")
        world.serve_no_longer("b", "PinterestService")
        world.federation.start_hub()
        await asyncio.sleep(120)
        (decision,) = await world.decisions()
        told = decision["spec"]["deletion"]
        assert (told["reason"], told["waitingFor"]) == ("DeletionBlocked", ["b"])
        assert "do not serve PinterestService: b" in told["message"]
        assert await slices(world) == 1

        world.clear()
        await asyncio.sleep(120)
        assert await slices(world) == 0
        assert await world.decisions() == []

    play(scenario)


def test_what_was_given_up_is_remembered_until_the_kind_is_served_again() -> None:
    async def scenario(world: World) -> None:
        await blocked_deletion(world)
        world.serve_no_longer("b", "PinterestService")
        await joining.forget(world.host, "b")
        await asyncio.sleep(30)
        await world.federation.kill("hub")
        world.federation.start_hub()
        world.heal()
        await asyncio.sleep(60)
        assert [entry["name"] for entry in await forgotten(world, "b")] == ["web"]

        world.clear()
        await asyncio.sleep(120)
        assert await slices(world) == 0
        assert await forgotten(world, "b") == []

    play(scenario)


def test_nothing_is_given_up_for_a_cluster_that_is_not_named() -> None:
    async def scenario(world: World) -> None:
        decision = await blocked_deletion(world)
        meta = decision["metadata"]
        mark = {"annotations": {"federation.pinterest.com/force-forget": "a, c"}}
        await world.patch("PlacementDecision", meta["namespace"], meta["name"], {"metadata": mark})
        await asyncio.sleep(60)

        assert len(await world.decisions()) == 1
        assert await forgotten(world, "b") == []

    play(scenario)


def test_a_workload_that_goes_while_its_decision_is_being_written_leaves_none() -> None:
    async def scenario(world: World) -> None:
        async def goes() -> None:
            await world.delete(PSVC, "feed", "web")
            await asyncio.sleep(0.1)  # the hub hears of it

        sent = world.meanwhile("host", "POST", "placementdecisions", goes)
        await world.create(PSVC, "feed", "web", service(3))
        await asyncio.sleep(30)
        assert sent.is_set()
        assert await world.decisions() == []
        assert await slices(world) == 0

    play(scenario)


def test_a_decision_is_deleted_once_although_its_watch_tells_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        await world.federation.kill("hub")
        await world.delete(PSVC, "feed", "web")
        world.close_watches("host")
        world.federation.start_hub()
        await asyncio.sleep(0.5)
        world.answer("host", "/placementdecisions", 503, b"")
        await asyncio.sleep(20)
        assert await world.decisions() == []
        assert world.writes["hub", "host", "DELETE", "placementdecisions"] == 1

    play(scenario, host_controllers=False)


def test_a_slice_whose_watch_tells_nothing_is_deleted_less_and_less_often() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        await world.federation.kill("hub")
        world.close_watches("b")
        world.federation.start_hub()
        await asyncio.sleep(0.5)
        world.answer("b", "/pinterestservices", 503, b"")
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(60)
        assert await world.get(PSVC, "feed", "web", at="b") is None
        assert 2 <= world.writes["hub", "b", "DELETE", "pinterestservices"] <= 20

        world.clear()
        await asyncio.sleep(60)
        assert await world.decisions() == []

    play(scenario)


def test_a_member_whose_watch_fell_silent_early_is_asked_before_the_decision_goes() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        hub = world.federation.hub
        unseen = hub.state.members["b"]
        (key,) = hub.state.workloads
        unseen.contents.own_writes.pop(key, None)
        unseen.contents.stores[PSVC].drop(
            (key.namespace, key.name)
        )  # an earlier leader made it, and nothing came of it here
        hub.state.holders[key] = tuple(name for name in hub.state.holders[key] if name != "b")
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(30)

        assert await slices(world) == 0
        assert await world.decisions() == []

    play(scenario)


def test_a_decision_stays_while_a_member_never_seen_to_hold_anything_fails_its_probes() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        hub = world.federation.hub
        (key,) = hub.state.workloads
        hub.state.members["b"].contents.own_writes.pop(key, None)
        hub.state.members["b"].contents.stores[PSVC].drop((key.namespace, key.name))
        hub.state.holders[key] = tuple(name for name in hub.state.holders[key] if name != "b")
        await world.cut("b")
        await asyncio.sleep(15)
        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(60)
        assert len(await world.decisions()) == 1
        assert await world.get(PSVC, "feed", "web", at="b") is not None

        world.heal()
        await asyncio.sleep(60)
        assert await slices(world) == 0
        assert await world.decisions() == []

    play(scenario)


async def _slices(world: World) -> dict[str, tuple[str, int]]:
    """cluster -> (uid, copies) of what members hold of web."""
    found = {
        name: await world.get("PinterestService", "feed", "web", at=name)
        for name in world.federation.members
    }
    return {
        name: (obj["metadata"]["uid"], obj["spec"]["replicas"])
        for name, obj in found.items()
        if obj is not None
    }


@pytest.mark.parametrize(
    "whose", ["the hub's", "without a finalizer", "while no hub runs", "twice"]
)
def test_a_decision_that_is_deleted_by_hand_takes_nothing_down_and_is_written_anew(
    whose: str,
) -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(6))
        await world.settle()
        (before,) = await world.decisions()
        slices, name = await _slices(world), before["metadata"]["name"]
        deletes = {key: count for key, count in world.writes.items() if key[2] == "DELETE"}
        if whose == "while no hub runs":
            await world.federation.kill("hub")
        if whose == "without a finalizer":
            await world.patch("PlacementDecision", "feed", name, {"metadata": {"finalizers": []}})
        for _ in range(2 if whose == "twice" else 1):
            await world.delete("PlacementDecision", "feed", name)
            if whose == "while no hub runs":
                world.federation.start_hub()
            for _ in range(40):
                await asyncio.sleep(0.5)
                assert await _slices(world) == slices
        await world.settle()
        (after,) = await world.decisions()
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["metadata"]["finalizers"] == before["metadata"]["finalizers"]
        assert _counts(after) == _counts(before)
        gone = {
            key: count
            for key, count in world.writes.items()
            if key[2] == "DELETE" and key[1] != "host"
        }
        assert gone == {key: count for key, count in deletes.items() if key[1] != "host"}

    play(scenario)


def _counts(decision: dict[str, Any]) -> dict[str, int]:
    return {share["cluster"]: share["replicas"] for share in decision["spec"]["shares"]}


def test_a_decision_deleted_by_hand_stays_guarded_while_its_workload_s_end_is_unheard() -> None:
    """Let go by memory alone nothing would be left that says what its members hold (seeds 2026 and
    2090).
    """

    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(6))
        await world.settle()
        hub, (decision,) = world.federation.hub, await world.decisions()
        name = decision["metadata"]["name"]
        world.mute("host")
        await world.delete("PinterestService", "feed", "web")
        await world.delete("PlacementDecision", "feed", name)
        deleting = await world.get("PlacementDecision", "feed", name)
        assert deleting is not None
        hub.state.observe_decision(
            "feed", hub.state.read_record(deleting)
        )  # of the decision the watch is in time
        hub.state.signals.finalize("feed", name)
        await asyncio.sleep(5)
        assert [one["metadata"]["uid"] for one in await world.decisions()] == [
            decision["metadata"]["uid"]
        ]
        await world.unmute()
        await asyncio.sleep(60)
        assert await _slices(world) == {}
        assert await world.decisions() == []

    play(scenario)


def test_what_a_decision_left_that_went_and_was_never_rewritten_goes_with_its_workload() -> None:
    """The leader dies in between, and the next one finds neither decision nor workload (seed
    2090).
    """

    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(6))
        await world.settle()
        (decision,) = await world.decisions()
        world.refuse_writes("host", "placementdecisions")
        await world.delete("PlacementDecision", "feed", decision["metadata"]["name"])
        await asyncio.sleep(5)
        assert await world.decisions() == []
        await world.federation.kill("hub")
        await world.delete("PinterestService", "feed", "web")
        world.clear()
        assert len(await _slices(world)) == 3
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert await _slices(world) == {}

    play(scenario, election=True)


def test_a_decision_deleted_by_hand_ends_with_its_workload_all_the_same() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(6))
        await world.settle()
        (decision,) = await world.decisions()
        await world.delete("PlacementDecision", "feed", decision["metadata"]["name"])
        await world.delete("PinterestService", "feed", "web")
        await asyncio.sleep(60)
        assert await _slices(world) == {}
        assert await world.decisions() == []
        assert len(world.federation.hub.state.commitments) == 0

    play(scenario)


def test_a_slice_that_its_member_deletes_and_holds_is_told_and_stops_nobody_else() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        hold = {"metadata": {"finalizers": ["elsewhere.example/hold"]}}
        await world.patch(PSVC, "feed", "web", hold, at="a")
        ref = registry.KINDS[PSVC].ref("feed", "web")
        await world.member("a").delete(
            ref, uid=(await world.member("a").get(ref))["metadata"]["uid"]
        )
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(30)
        told = await world.condition(PSVC, "feed", "web", "Reconciling")
        assert told["message"].startswith("a: its slice is being deleted there")
        for cluster in ("b", "c"):
            seen = await world.get(PSVC, "feed", "web", at=cluster)
            assert seen is not None
            assert seen["spec"]["replicas"] == seen["status"]["ready"] == 3
        await world.patch(PSVC, "feed", "web", {"metadata": {"finalizers": None}}, at="a")
        await world.settle()
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

    play(scenario)
