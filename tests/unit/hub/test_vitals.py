"""What is told of a member beyond Ready: its clock, our watches, our credentials, slices of nobody.
Nothing flaps, and nothing moves for it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.members import member_conditions
from federator.hub.members.contents import TOUCHED_MAX, Contents
from federator.hub.members.member_conditions import ClockWatch, Vitals
from federator.hub.members.reachability import ProbeResult, Reachability, ReachabilityState, after
from federator.hub.status.member_status import LOOK_ALL_S
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.wire.transport import Transport
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service
from tests.unit.kube.test_reflector_pace import Working
from tests.worlds import EPOCH_S

PSVC = "PinterestService"
SECRET = ObjectRef("v1", "secrets", "federator-clusters", "b", "Secret")


async def told(world: World, member: str, kind: str) -> dict[str, Any]:
    """One condition of a MemberCluster; empty when it is not there."""
    found = await world.get("MemberCluster", "", member)
    assert found is not None
    return next((one for one in found["status"].get("conditions") or () if one["type"] == kind), {})


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Thu, 01 Jan 1970 00:16:40 GMT", 0.4),
        ("", None),
        ("yesterday", None),
        ("Thu, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_a_skew_is_read_from_a_date_header_or_not_at_all(date: str, expected: float | None) -> None:
    found = member_conditions.skew_s(date, 1000.0, 1000.2)

    assert found == (pytest.approx(expected) if expected is not None else None)
    assert member_conditions.skew_s(date, 1000.0, 1009.0) is None


def test_a_clock_is_judged_by_several_measurements_and_back_only_when_well_within() -> None:
    watch = ClockWatch(limit_s=5.0)
    said = [
        watch.note(measured)
        for measured in (0.3, 9.0, 9.0, 0.3, 9.0, 9.0, 9.0, 9.4, 4.9, 4.9, 4.9, 3.0, 3.0, 3.0)
    ]

    assert said == [True, *[False] * 5, True, *[False] * 6, True]
    assert watch.condition() is not None
    assert not watch.skewed


def test_a_skew_is_shown_anew_only_when_it_moved_by_more_than_the_limit() -> None:
    watch = ClockWatch(limit_s=5.0)
    said = [watch.note(measured) for measured in (-20.0, -20.0, -20.0, -22.0, -24.0, -31.0)]

    assert said == [False, False, True, False, False, True]
    condition = watch.condition()
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "ClockSkew")
    assert condition.message == "Its clock is 31 s behind the hub's, more than 5 s."


def test_one_look_makes_no_stranger_and_no_failing_watch() -> None:
    state = Vitals()
    state.note_strangers([WorkloadKey(PSVC, "feed", "web")])
    assert not state.note_watches(["pinterestservices"])
    assert state.conditions() == ()

    state.note_strangers([WorkloadKey(PSVC, "feed", "web")])
    assert state.note_watches(["pinterestservices", "deployments"])
    assert [one.reason for one in state.conditions()] == ["WatchFailing", "UnknownSlices"]
    assert state.note_watches([])


def test_a_rejection_is_silence_until_the_grace_is_over() -> None:
    live = ReachabilityState(Reachability.LIVE, 0.0, 0.0)
    suspect = after(live, ProbeResult.REJECTS, "401", 10.0, 40.0)
    assert suspect.state is Reachability.SUSPECT
    assert after(suspect, ProbeResult.REJECTS, "401", 39.0, 40.0).state is Reachability.SUSPECT
    assert after(suspect, ProbeResult.REJECTS, "401", 40.0, 40.0).state is Reachability.REFUSED
    assert after(live, ProbeResult.REJECTS, "401", 300.0, 40.0).state is Reachability.SUSPECT


def test_a_member_whose_clock_is_off_is_told_and_keeps_its_work() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        world.federation.metrics = Metrics()
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()
        before = await world.shares("feed", "web")
        assert (await told(world, "b", "ClockSynced"))["status"] == "True"
        world.federation.members["b"].context.clock = Clock(EPOCH_S + 90)
        await asyncio.sleep(60)
        skew = await told(world, "b", "ClockSynced")

        assert (skew["status"], skew["reason"]) == ("False", "ClockSkew")
        assert "90 s ahead of the hub's" in skew["message"]
        shown = dict(
            line.rsplit(" ", 1) for line in world.federation.metrics.render().decode().splitlines()
        )
        skews = {
            name: float(shown[f'federator_member_clock_skew_seconds{{cluster="{name}"}}'])
            for name in "abc"
        }
        assert skews["b"] == pytest.approx(90, abs=1)
        assert max(abs(skews["a"]), abs(skews["c"])) <= 1
        assert (await told(world, "b", "Ready"))["status"] == "True"
        assert await world.shares("feed", "web") == before
        world.writes.clear()
        await asyncio.sleep(300)
        assert not world.writes["hub", "host", "PATCH", "memberclusters/status"]

        world.federation.members["b"].context.clock = Clock(EPOCH_S)
        await asyncio.sleep(60)
        assert (await told(world, "b", "ClockSynced"))["reason"] == "Synced"

    play(scenario)


@pytest.mark.long
def test_watches_that_end_at_once_are_told_and_cost_little() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        world.close_watches("b")
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(120)
        failing = await told(world, "b", "Watching")
        assert (failing["status"], failing["reason"]) == ("False", "WatchFailing")
        assert "pinterestservices" in failing["message"]
        assert (await told(world, "b", "Ready"))["status"] == "True"
        world.answered.clear()
        await asyncio.sleep(600)
        assert world.answered["watch"] < 4 * 80  # four collections, each at most every 30 s or so

        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await asyncio.sleep(150)
        await world.settle()
        world.clear()
        await asyncio.sleep(120)
        assert await told(world, "b", "Watching") == {}

    play(scenario)


def test_credentials_that_are_not_accepted_for_a_while_move_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await world.shares("feed", "web")
        world.deny("b")
        await asyncio.sleep(25)
        auth = await told(world, "b", "Authenticated")
        assert (auth["status"], auth["reason"]) == ("False", "AuthFailed")
        assert (await told(world, "b", "Ready"))["status"] == "True"
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

        world.clear()
        await asyncio.sleep(15)
        assert await told(world, "b", "Authenticated") == {}

        world.deny("b")
        await asyncio.sleep(90)
        ready = await told(world, "b", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "AuthFailed")
        assert await world.shares("feed", "web") == before
        world.clear()
        await asyncio.sleep(30)
        assert (await told(world, "b", "Ready"))["status"] == "True"

    play(scenario)


def test_a_secret_that_is_replaced_is_read_again_while_the_old_one_is_refused() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        hub = world.federation.hub

        async def connect(obj: Mapping[str, Any], secret: Mapping[str, Any]) -> Transport:
            renewed = "kubeconfig" in (secret.get("data") or {})
            return world.federation._transport(
                "renewed" if renewed else "hub", obj["metadata"]["name"]
            )

        hub._members_connect = connect
        world.deny("b")
        found = await world.host.get(SECRET)
        await world.host.delete(SECRET, uid=found["metadata"]["uid"])
        await asyncio.sleep(20)
        assert (await told(world, "b", "Authenticated"))["status"] == "False"
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "b", "namespace": SECRET.namespace},
        }
        await world.host.create(SECRET, {**body, "stringData": {"kubeconfig": "new"}})
        await asyncio.sleep(19)

        assert await told(world, "b", "Authenticated") == {}
        assert (await told(world, "b", "Ready"))["status"] == "True"
        assert hub.state.members["b"].link.reachability.state is Reachability.LIVE
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await world.settle()
        assert world.writes["renewed", "b", "PATCH", "pinterestservices"] == 1

    play(scenario)


@pytest.mark.parametrize("how", ["unreachable", "no Secret"])
def test_a_hub_that_starts_while_a_member_cannot_be_reached_flips_nothing_before_the_grace_is_over(
    how: str,
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await asyncio.sleep(60)
        await world.federation.kill("hub")
        if how == "unreachable":
            await world.cut("b")
        else:
            found = await world.host.get(SECRET)
            await world.host.delete(SECRET, uid=found["metadata"]["uid"])
        world.federation.start_hub()
        await asyncio.sleep(30)
        assert (await told(world, "b", "Ready"))["status"] == "True"
        await asyncio.sleep(40)
        assert (await told(world, "b", "Ready"))["status"] != "True"

    play(scenario)


def test_slices_of_nobody_are_counted_and_left_alone() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        found = await world.get(PSVC, "feed", "web", at="a")
        assert found is not None
        spec = found["spec"] | {
            "slice": found["spec"]["slice"] | {"workloadUID": "of-a-host-that-was"}
        }
        meta = {"name": "old", "namespace": "feed", "labels": found["metadata"]["labels"]}
        body = {"apiVersion": found["apiVersion"], "kind": PSVC, "metadata": meta, "spec": spec}
        ref = ObjectRef("pinterest.com/v1beta1", "pinterestservices", "feed", "old", PSVC)
        await world.member("a").create(ref, body)
        await asyncio.sleep(200)
        known = await told(world, "a", "SlicesKnown")
        cluster = await world.get("MemberCluster", "", "a")

        assert (known["status"], known["reason"]) == ("False", "UnknownSlices")
        assert f"{PSVC}/feed/old" in known["message"]
        assert cluster is not None
        assert cluster["status"]["unknownSlices"] == 1
        assert await world.get(PSVC, "feed", "old", at="a") is not None

        made = await world.member("a").get(ref)
        await world.member("a").delete(ref, uid=made["metadata"]["uid"])
        await asyncio.sleep(120)
        assert await told(world, "a", "SlicesKnown") == {}

    play(scenario)


@pytest.mark.parametrize("told_of", [True, False])
def test_slices_that_lose_their_workload_are_found_and_at_rest_none_is_searched(
    told_of: bool,
) -> None:
    """Where the change was missed, the search through all slices finds them."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await asyncio.sleep(90)
        state, key = world.federation.hub.state, WorkloadKey(PSVC, "feed", "web")
        members = [state.members[name] for name in state.holders[key]]
        assert [member.contents.take_touched() for member in members] == [set() for _ in members]

        (record,) = state.records_of(key)
        state.forget_workload(key)
        state.forget_decision("feed", record.name, record.uid)
        if not told_of:
            for member in members:
                member.contents.take_touched()
        await asyncio.sleep(130)
        found = {member.name for member in members if await told(world, member.name, "SlicesKnown")}
        assert found == ({member.name for member in members} if told_of else set())
        await asyncio.sleep(LOOK_ALL_S)
        for member in members:
            assert (await told(world, member.name, "SlicesKnown"))["reason"] == "UnknownSlices"

    play(scenario)


def test_of_too_many_touched_slices_all_are_searched() -> None:
    contents = Contents()
    assert contents.take_touched() is None
    for number in range(TOUCHED_MAX):
        contents.touch(WorkloadKey(PSVC, "feed", f"w-{number}"))
    assert len(contents.touched or ()) == TOUCHED_MAX
    contents.touch(WorkloadKey(PSVC, "feed", "one more"))
    assert contents.take_touched() is None
    assert contents.take_touched() == set()


def test_a_status_is_written_though_the_watch_of_the_clusters_has_missed_a_change() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        hub = world.federation.hub
        known = hub.state.members["b"].obj
        await world.patch("MemberCluster", "", "b", {"metadata": {"labels": {"zone": "z-9"}}})
        await asyncio.sleep(5)
        hub.state.members["b"].obj = known  # as if that event had been lost
        await world.create(PSVC, "feed", "web", service(6))
        await asyncio.sleep(40)
        found = await world.get("MemberCluster", "", "b")

        assert found is not None
        assert found["status"]["slices"] == 1

    play(scenario)


def test_lists_that_are_not_read_to_their_end_are_a_condition_that_names_them() -> None:
    vitals = Vitals()
    assert not vitals.note_lists({})
    endless = {"pinterestservices": errors.Endless("b: the list of pinterestservices has no end.")}
    assert vitals.note_lists(endless)
    assert not vitals.note_lists(endless)
    (found,) = vitals.conditions()
    assert (found.type, found.status, found.reason) == ("Listing", "False", "EndlessList")
    assert "pinterestservices: b: the list of pinterestservices has no end" in found.message
    assert vitals.note_lists({"deployments": errors.OverBudget("b: 30 s of processor time")})
    assert vitals.conditions()[0].reason == "ProcessorBudget"
    assert vitals.note_lists({})
    assert vitals.conditions() == ()


def test_a_member_that_floods_the_hub_with_events_is_held_at_its_budget_and_says_so() -> None:
    """Each batch of its events takes two seconds of processor time."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        budgets = world.federation.processes["hub"].membership._limits.budgets
        budgets["b"]._clock = Working(2.0)
        for number in range(25):
            note = {"metadata": {"annotations": {"number": str(number)}}}
            await world.patch(PSVC, "feed", "web", note, at="b")
            await asyncio.sleep(1)
        spent_s = budgets["b"]._clock.processor() / 2
        assert 30 < spent_s < 40
        await asyncio.sleep(15)
        found = await told(world, "b", "Listing")
        assert (found["status"], found["reason"]) == ("False", "ProcessorBudget")
        assert "pinterestservices: b: the " in found["message"]
        assert await told(world, "a", "Listing") == {}
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 6}})
        await asyncio.sleep(20)
        shares = await world.shares("feed", "web")
        ready = {at: await world.get("Deployment", "feed", "web", at=at) for at in "ac"}
        for at, deployment in ready.items():
            assert deployment is not None
            assert deployment["status"]["readyReplicas"] == shares[at]

        budgets["b"]._clock = world.federation.clock
        await asyncio.sleep(500)
        assert await told(world, "b", "Listing") == {}
        assert await world.ready_replicas("feed", "web") == 6

    play(scenario)
