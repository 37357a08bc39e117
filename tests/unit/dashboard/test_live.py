"""Server-sent events of open pages: what they tell to whom, how many there are, and that they end."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from federator.dashboard import live
from federator.dashboard.live import CHANGED
from federator.dashboard.server import Dashboard
from federator.hub.query.access import REMEMBERED_S
from federator.kube.tlsserver import ANSWER_S, Outgoing
from federator.model.steps import ObjectRef
from tests.unit.dashboard.asking import LIST, dashboard_of, play, reader, report
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

WEB = "/live?of=%2Fworkloads%2FPinterestService%2Ffeed%2Fweb"


async def begun(answer: Outgoing) -> AsyncGenerator[bytes, None]:
    """The stream of an answer, after its beginning."""
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    assert answer.stream is not None
    assert await anext(answer.stream) == live.BEGIN
    return answer.stream


async def tenants(world: World) -> None:
    for namespace in ("feed", "ads"):
        await world.create("PinterestService", namespace, "web", worlds.service(3))
    await asking.grant(world, "alice", "feed", LIST)


def held(dashboard: Dashboard) -> int:
    return len(dashboard.fleet.changes._waiting)


def test_a_page_is_told_of_its_own_changes_only() -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            for page in (WEB, "/live?of=%2F", "/live?of=%2Fworkloads%3Fhealth%3DShort"):
                events = await begun(await alice.get(page))
                await report(world, "PinterestService", "ads", "web", summary=page)
                assert await anext(events) == b":\n\n", "another tenant's change"
                await report(world, "PinterestService", "feed", "web", summary=page)
                assert await anext(events) == CHANGED
                await events.aclose()
            assert held(dashboard) == 0

    play(scenario)


def test_many_changes_are_one_event() -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            events = await begun(await alice.get(WEB))
            for number in range(20):
                await report(world, "PinterestService", "feed", "web", summary=str(number))
            assert await anext(events) == CHANGED
            assert await anext(events) in (CHANGED, b":\n\n")
            assert await anext(events) == b":\n\n"
            await events.aclose()

    play(scenario)


def test_a_stream_ends_in_time_and_gives_its_place_back(monkeypatch: Any) -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            loop = asyncio.get_running_loop()
            begin_s, events = loop.time(), await begun(await alice.get(WEB))
            assert [each async for each in events][-1] == b":\n\n"
            assert live.STREAM_S <= loop.time() - begin_s < ANSWER_S
            assert held(dashboard) == 0
            several = [await begun(await alice.get(WEB)) for _ in range(live.OF_ONE_SESSION)]
            assert (await alice.get(WEB)).status == 204
            other = await reader(world, dashboard, "alice")
            more = await begun(await other.get(WEB))
            monkeypatch.setattr(live, "STREAMS_MAX", live.OF_ONE_SESSION + 1)
            assert (await other.get(WEB)).status == 204
            for events in (*several, more):
                await events.aclose()
            last = await begun(await alice.get(WEB))
            await last.aclose()
            assert held(dashboard) == 0

    play(scenario)


def test_one_user_leaves_streams_to_others(monkeypatch: Any) -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        await asking.grant(world, "bob", "feed", LIST)
        monkeypatch.setattr(live, "OF_ONE_USER", live.OF_ONE_SESSION + 1)
        async with dashboard_of(world) as dashboard:
            first = await reader(world, dashboard, "alice")
            second = await reader(world, dashboard, "alice")
            taken = [await begun(await first.get(WEB)) for _ in range(live.OF_ONE_SESSION)]
            taken.append(await begun(await second.get(WEB)))

            assert (await second.get(WEB)).status == 204
            bob = await reader(world, dashboard, "bob")
            taken.append(await begun(await bob.get(WEB)))
            for events in taken:
                await events.aclose()
            last = await begun(await second.get(WEB))
            await last.aclose()

    play(scenario)


@pytest.mark.parametrize("way", ["signed out", "token", "right"])
def test_a_stream_ends_with_the_session_the_token_and_the_right(way: str) -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            events = await begun(await alice.get(WEB))
            if way == "signed out":
                assert (await alice.send("/signout", {})).status == 303
            elif way == "token":
                del world.federation.host.tokens.admins[asking.token("alice")]
            else:
                ref = ObjectRef(asking.RBAC, "rolebindings", "feed", "alice", "RoleBinding")
                await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
            await asyncio.sleep(REMEMBERED_S + 1)
            await report(world, "PinterestService", "feed", "web", summary="later")

            assert CHANGED not in [each async for each in events]
            assert held(dashboard) == 0

    play(scenario)


@pytest.mark.parametrize(
    ("of", "status"),
    [
        ("%2Fclusters", 404),
        ("%2Fnowhere", 404),
        ("", 404),
        ("%2Fworkloads%2FPinterestService%2Fads%2Fweb", 403),
    ],
)
def test_there_are_no_events_of_other_pages(of: str, status: int) -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            assert (await alice.get(f"/live?of={of}")).status == status
            assert (await alice.post("/live?of=%2F", {})).status == 405
            alice.cookies.clear()
            assert (await alice.get("/live?of=%2F")).status == 401

    play(scenario)


def test_an_open_page_that_is_told_of_changes_names_its_stream() -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            page = (await alice.get("/workloads?health=Short")).body.decode()
            assert 'data-live="/live?of=%2Fworkloads%3Fhealth%3DShort"' in page
            assert "live.js" in page
            assert "live.js" not in (await alice.get("/?live=off")).body.decode()
            assert "live.js" not in (await alice.get("/quota")).body.decode()

    play(scenario)
