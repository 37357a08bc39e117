"""Decisions that no hub wrote are not obeyed: nothing runs by them, nothing goes by them, and they
are written over.
"""

import asyncio
import base64
import copy
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.hub.records import seals
from federator.hub.records.seals import Seals
from federator.kinds import registry
from federator.kube import errors
from federator.model import names
from federator.model import seq as seqs
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, play, service

PSVC, DECISION = "PinterestService", "PlacementDecision"
FOREVER = seqs.MAX
SYSTEM = HubOptions().system_namespace
SECRET = ObjectRef("v1", "secrets", SYSTEM, seals.SECRET, "Secret")


async def the_decision(world: World) -> dict[str, Any]:
    (found,) = await world.decisions()
    return found


async def forge(world: World, **spec: Any) -> dict[str, Any]:
    """What a person with every right in the namespace makes of the one decision."""
    name = (await the_decision(world))["metadata"]["name"]
    await world.patch(DECISION, "feed", name, {"spec": spec})
    return await the_decision(world)


async def running(world: World) -> dict[str, int]:
    """Copies that the slices ask for, by member."""
    found = {}
    for name in world.federation.members:
        for obj in (
            await world.member(name).list("pinterest.com/v1beta1", "pinterestservices")
        ).items:
            found[name] = obj["spec"]["replicas"]
    return found


async def noted(world: World, reason: str) -> list[str]:
    events = (await world.host.list("events.k8s.io/v1", "events")).items
    return [event["note"] for event in events if event["reason"] == reason]


def shares(**replicas: int) -> list[dict[str, Any]]:
    return [{"cluster": name, "seq": 99, "replicas": count} for name, count in replicas.items()]


@pytest.mark.parametrize("number", [0, FOREVER], ids=["our own seq", "the highest seq there is"])
def test_a_forged_decision_is_not_obeyed_but_written_over(number: int) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await world.shares("feed", "web")
        seq = number or (await the_decision(world))["spec"]["seq"]
        await forge(world, seq=seq, shares=shares(a=500), placed=500, wanted=500, charge=None)
        deadline = asyncio.get_running_loop().time() + 30
        while await world.shares("feed", "web") != before:
            assert asyncio.get_running_loop().time() < deadline
            assert sum((await running(world)).values()) == 6
            await asyncio.sleep(0.1)
        await world.settle()
        assert await running(world) == before
        notes = await noted(world, "ForeignDecision")
        assert notes
        assert all(
            ("is none that this host has issued" if number else "was written by kubectl") in one
            for one in notes
        )
        decision = await the_decision(world)
        assert decision["spec"]["seq"] < FOREVER
        assert decision["spec"]["charge"]["project"]
        assert decision["metadata"]["finalizers"] == [names.DECISION_FINALIZER]
        assert await world.condition(PSVC, "feed", "web", "DecisionRefused") == {}

    play(scenario)


def test_one_with_our_seal_that_is_heard_of_late_is_obeyed_and_numbers_go_on_above_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        ours = Seals()
        await ours.load(world.host, SYSTEM, make=False)
        decision = await the_decision(world)
        spec, name = decision["spec"], decision["metadata"]["name"]
        spec["seq"] = seqs.make(seqs.term(spec["seq"]) + 3, 8)
        spec["seal"] = ours.of("feed", name, spec)
        await world.patch(DECISION, "feed", name, {"spec": spec})
        await world.settle()
        assert await noted(world, "ForeignDecision") == []
        assert (await the_decision(world))["metadata"]["uid"] == decision["metadata"]["uid"]
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 7}})
        await world.settle()
        assert (await the_decision(world))["spec"]["seq"] > spec["seq"]
        assert sum((await running(world)).values()) == 7

    play(scenario)


def test_what_was_forged_while_no_hub_ran_takes_no_copy_down_and_hands_out_no_room() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await world.shares("feed", "web")
        while seals.ALL_SEALED not in str(await world.host.get(SECRET)):  # noqa: ASYNC110 - another object says it
            await asyncio.sleep(1)
        await world.federation.kill("hub")
        await forge(world, seq=FOREVER, shares=shares(a=1), placed=1)
        world.federation.start_hub()
        for _ in range(300):
            assert await running(world) == before
            await asyncio.sleep(0.1)
        await world.settle()
        assert await world.shares("feed", "web") == before
        assert (await the_decision(world))["spec"]["seq"] < FOREVER

    play(scenario)


def test_a_decision_made_up_for_a_workload_that_is_not_there_goes_again() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        made_up = copy.deepcopy(await the_decision(world))
        made_up["spec"] |= {
            "workload": {"kind": PSVC, "name": "ghost", "uid": "u-0"},
            "seq": FOREVER,
        }
        name = names.decision_name("psvc", "ghost", "u-0")
        made_up["metadata"] = {"name": name, "namespace": "feed"}
        await world.host.create(registry.KINDS[DECISION].ref("feed", name), made_up)
        await asyncio.sleep(30)
        assert len(await world.decisions()) == 1
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await world.settle()
        assert (await the_decision(world))["spec"]["seq"] < FOREVER

    play(scenario)


def test_an_older_decision_of_our_own_that_is_put_back_is_not_obeyed() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        old = await the_decision(world)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 3}})
        await world.settle()
        ref = registry.KINDS[DECISION].ref("feed", old["metadata"]["name"])
        world.federation.hub.state.ready = False  # so that it is not made anew in between
        await world.host.patch(ref, {"metadata": {"finalizers": []}})
        live = await world.host.get(ref)
        meta = {key: old["metadata"][key] for key in ("name", "namespace", "labels", "finalizers")}
        await world.host.delete(ref, uid=live["metadata"]["uid"])
        await world.host.create(ref, {**old, "metadata": meta})
        world.federation.hub.state.ready = True
        await asyncio.sleep(20)
        assert sum((await running(world)).values()) <= 9
        await world.settle()
        assert sum((await world.shares("feed", "web")).values()) == 3

    play(scenario)


def test_decisions_of_a_release_without_seals_are_obeyed_and_sealed_unheard_by_members() -> None:
    async def scenario(world: World) -> None:
        for name in ("web", "page"):
            await world.create(PSVC, "feed", name, service(3))
        await world.settle()
        await world.federation.kill("hub")
        secret = await world.host.get(SECRET)
        await world.host.delete(SECRET, uid=secret["metadata"]["uid"])
        for found in await world.decisions():
            await world.patch(DECISION, "feed", found["metadata"]["name"], {"spec": {"seal": None}})
        before = [(one["spec"]["shares"], one["spec"]["seq"]) for one in await world.decisions()]
        world.writes.clear()
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert [
            (one["spec"]["shares"], one["spec"]["seq"]) for one in await world.decisions()
        ] == before
        assert all(one["spec"]["seal"] for one in await world.decisions())
        assert seals.ALL_SEALED in (await world.host.get(SECRET))["metadata"]["annotations"]
        members = {
            key: count
            for key, count in world.writes.items()
            if key[0] == "hub" and key[1] != "host"
        }
        assert members == {}
        assert await noted(world, "ForeignDecision") == []

    play(scenario)


def test_a_host_whose_crd_keeps_no_seal_is_served_as_before() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        hub = world.federation.hub
        hub.state.seals.kept({"spec": {}})
        assert "older than this hub" in hub.state.seals.off
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await world.settle()
        assert "seal" not in (await the_decision(world))["spec"]
        assert sum((await running(world)).values()) == 4

    play(scenario)


def test_a_host_whose_crd_prunes_what_a_seal_covers_is_served_as_before() -> None:
    """Else the hub would take each of its own decisions for a forgery, and write it anew for
    ever.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        hub = world.federation.hub
        answer = copy.deepcopy(await the_decision(world))
        hub.state.seals.kept(answer)
        assert not hub.state.seals.off
        del answer["spec"]["charge"]["content"]
        hub.state.seals.kept(answer)
        assert "keeps not all that it seals" in hub.state.seals.off
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await world.settle()
        assert sum((await running(world)).values()) == 4

    play(scenario)


def test_a_seal_covers_what_is_obeyed_and_is_worth_nothing_elsewhere() -> None:
    one = Seals()
    one._take({"metadata": {}, "data": {"key": base64.b64encode(b"k" * 32).decode()}})
    spec: dict[str, Any] = {
        "seq": 1,
        "shares": [{"cluster": "a", "replicas": 2}],
        "verdicts": {"x": 1},
    }
    sealed = {**spec, "seal": one.of("feed", "d", spec)}
    obj: dict[str, Any] = {"metadata": {"namespace": "feed", "name": "d"}, "spec": sealed}
    assert one.is_ours(obj)
    assert one.is_ours(
        {**obj, "spec": {**sealed, "verdicts": {}, "deletion": {"reason": "Emptying"}}}
    )
    for changed in (
        {**obj, "metadata": {"namespace": "feed", "name": "e"}},
        {**obj, "metadata": {"namespace": "food", "name": "d"}},
        {**obj, "spec": {**sealed, "seq": 2}},
        {**obj, "spec": {**sealed, "leaving": ["b"]}},
        {**obj, "spec": {**sealed, "seal": ""}},
        {**obj, "spec": {**sealed, "seal": "\udcff"}},
        {**obj, "spec": {**sealed, "reason": "\udcff"}},
    ):
        assert not one.is_ours(changed)
    other = Seals()
    other._take({"metadata": {}, "data": {"key": base64.b64encode(b"j" * 32).decode()}})
    assert not other.is_ours(obj)


@pytest.mark.parametrize("data", ["", "no base64!", base64.b64encode(b"short").decode()])
def test_a_key_that_is_none_is_made_anew(data: str) -> None:
    found = Seals()
    found._take({"metadata": {"annotations": {seals.ALL_SEALED: "t"}}, "data": {"key": data}})
    assert not found.usable
    assert not found.complete


def test_a_hub_that_may_not_read_the_key_says_so_and_goes_on() -> None:
    class Kept:
        async def get(self, ref: ObjectRef) -> dict[str, Any]:
            raise errors.Denied("secrets is forbidden")

    found = Seals()
    asyncio.run(found.load(Kept(), SYSTEM, make=True))  # type: ignore[arg-type]
    assert "cannot be had" in found.off
    assert found.of("feed", "d", {}) == ""


@pytest.mark.parametrize("path", ["/secrets/federator-decisions", "/configmaps/federator-departed"])
def test_a_host_that_refuses_what_a_hub_begins_with_is_not_asked_more_than_once_a_second(
    path: str,
) -> None:
    """Simulation, seed 4071: 80 times a minute."""

    async def scenario(world: World) -> None:
        await world.settle()
        await world.federation.kill("hub")
        world.answer("host", path, 500, b"{}")
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert 10 <= world.answered[path] <= 60

        world.clear()
        await world.settle()

    play(scenario)
