"""What counts against a member when a probe fails: not what the host keeps to itself, and not a
part of its answers.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.members.reachability import Reachability
from federator.kube.watch.reflector import HEALTHY_S
from federator.kube.wire.transport import Request, Response, Transport
from federator.sandbox.federation import Federation
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
AWAY = (
    503,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}',
)
BUSY = (
    429,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}',
)


async def status_of(world: World, member: str) -> dict[str, Any]:
    found = await world.get("MemberCluster", "", member)
    assert found is not None
    status = found["status"]
    assert isinstance(status, dict)
    return status


async def readiness(world: World, member: str) -> tuple[str, str, str]:
    """Status, reason and time of the last change of a member's Ready."""
    conditions = (await status_of(world, member))["conditions"]
    return next(
        (one["status"], one["reason"], one["lastTransitionTime"])
        for one in conditions
        if one["type"] == "Ready"
    )


async def restart(world: World) -> None:
    await world.federation.kill("hub")
    world.federation.start_hub()


def test_a_host_that_is_silent_when_a_hub_starts_costs_no_member_its_grace() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before, shares = await readiness(world, "b"), await world.shares("feed", "web")
        for ending in ("/secrets/a", "/secrets/b", "/secrets/c", "/readyz"):
            world.answer("host", ending, *AWAY)
        await restart(world)
        await asyncio.sleep(1)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(100)
        assert (
            world.federation.hub.state.members["b"].link.reachability.state is Reachability.UNKNOWN
        )
        assert await readiness(world, "b") == before

        world.clear()
        await world.settle()
        assert await readiness(world, "b") == before
        assert {
            name: grown - shares[name]
            for name, grown in (await world.shares("feed", "web")).items()
        } == {
            "a": 1,
            "b": 1,
            "c": 1,
        }

    play(scenario)


def test_a_host_that_answers_but_gives_no_secret_makes_the_member_not_ready_in_the_end() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        world.answer("host", "/secrets/b", *AWAY)
        await restart(world)
        await asyncio.sleep(30)
        assert (await readiness(world, "b"))[0] == "True"
        await asyncio.sleep(40)
        assert (await readiness(world, "b"))[0] != "True"
        assert (await readiness(world, "a"))[0] == "True"

    play(scenario)


def test_what_a_member_that_is_back_holds_is_known_as_soon_as_a_probe_is_answered() -> None:
    """And not when each of its watches has waited half a minute: it was away for long."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        await world.cut("b")
        await asyncio.sleep(600)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await asyncio.sleep(60)
        world.heal()
        member = world.federation.hub.state.members["b"]
        while member.link.reachability.state is not Reachability.LIVE:  # noqa: ASYNC110 - nothing tells the test
            await asyncio.sleep(0.1)
        await asyncio.sleep(HEALTHY_S + 1)
        assert [
            name for name, reflector in member.contents.reflectors.items() if reflector.trouble
        ] == []

    play(scenario)


@pytest.mark.parametrize(
    "fails", ["discovery", "discovery of a hub that has just started", "identity"]
)
def test_a_member_that_says_it_is_ready_is_heard_though_it_does_not_answer_the_rest_of_a_probe(
    fails: str,
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await readiness(world, "b")
        if fails == "identity":
            world.answer("b", "/namespaces/kube-system", *BUSY)
        else:
            world.answer("b", "/api", *AWAY)
            world.answer("b", "/apis", *AWAY)
        if "started" in fails:
            await restart(world)
        await asyncio.sleep(75)
        assert world.federation.hub.state.members["b"].link.reachability.state is Reachability.LIVE
        assert await readiness(world, "b") == before
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await world.settle()
        assert (await world.shares("feed", "web"))["b"] == 3

    play(scenario)


def test_a_member_that_never_says_again_who_it_is_is_given_up_in_the_end() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        world.answer("b", "/namespaces/kube-system", *BUSY)
        await asyncio.sleep(240)
        lost = world.federation.hub.state.members["b"].link.reachability.state
        assert lost is Reachability.UNREACHABLE
        world.clear()
        await asyncio.sleep(15)
        assert world.federation.hub.state.members["b"].link.reachability.state is Reachability.LIVE

    play(scenario)


def test_a_version_that_could_not_be_read_is_read_by_the_next_probe_and_told_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        version = (await status_of(world, "b"))["version"]
        assert version
        found = await world.get("MemberCluster", "", "b")
        assert found is not None
        world.answer("b", "/version", 200, b"{}")
        await world.delete("MemberCluster", "", "b")
        await asyncio.sleep(1)
        await world.create(
            "MemberCluster", "", "b", found["spec"], labels=found["metadata"]["labels"]
        )
        await asyncio.sleep(15)
        assert (await readiness(world, "b"))[0] == "True"
        assert (await status_of(world, "b"))["version"] == ""
        world.clear()
        await asyncio.sleep(15)
        assert (await status_of(world, "b"))["version"] == version

    play(scenario)


def test_a_kind_that_is_served_anew_is_used_as_soon_as_discovery_tells() -> None:
    async def scenario(world: World) -> None:
        world.serve_no_longer("b", "PinterestService")
        await asyncio.sleep(70)
        only_b = service(2) | {"placement": {"clusters": {"names": ["b"]}}}
        await world.create("PinterestService", "feed", "web", only_b)
        await asyncio.sleep(5)
        world.clear()
        while (
            "PinterestService.pinterest.com"
            not in (await world.get("MemberCluster", "", "b") or {})["status"]["apis"]
        ):
            assert await world.get("PinterestService", "feed", "web", at="b") is None
            await asyncio.sleep(0.5)
        await asyncio.sleep(1)
        assert await world.get("PinterestService", "feed", "web", at="b") is not None

    play(scenario)


class Mute:
    """A transport to a cluster that takes connections and never answers."""

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(1e6)
        raise AssertionError

    async def close(self) -> None:
        """There is nothing to close."""


def test_hundreds_of_silent_members_do_not_keep_a_hub_that_starts_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = Federation.connect

    async def connected(
        self: Federation, obj: Mapping[str, Any], *given: Any, **more: Any
    ) -> Transport:
        return (
            Mute()
            if obj["metadata"]["name"].startswith("0-")
            else await connect(self, obj, *given, **more)
        )

    async def scenario(world: World) -> None:
        await world.settle()
        await world.federation.kill("hub")
        for number in range(400):
            await world.create("MemberCluster", "", f"0-{number}", {})
        world.federation.start_hub()
        begun_s = asyncio.get_running_loop().time()
        members = world.federation.hub.state.members
        while any(
            name not in members or members[name].link.reachability.state is not Reachability.LIVE
            for name in "abc"
        ):
            await asyncio.sleep(1)
            members = world.federation.hub.state.members
        waited_s = asyncio.get_running_loop().time() - begun_s
        assert waited_s < 40

    monkeypatch.setattr(Federation, "connect", connected)
    play(scenario)
