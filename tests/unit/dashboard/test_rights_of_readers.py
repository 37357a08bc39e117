"""Readers see what the host's RBAC shows them: in lists, counts, facets, searches and single pages."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from federator.dashboard.routes import gathering
from federator.dashboard.sources import rights
from federator.dashboard.sources.fleet import FleetCache
from federator.dashboard.sources.rows import WorkloadRow
from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.unit.dashboard.asking import (
    CLUSTERS,
    LIST,
    Browser,
    at_once,
    dashboard_of,
    play,
    reader,
    report,
)
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

SHORT = {
    "type": "Placed",
    "status": "False",
    "reason": "InsufficientCapacity",
    "message": "secret-of-ads lacks room",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def tenants(world: World) -> None:
    """Two namespaces with a workload each; that of ads lacks copies."""
    for namespace, name in (("feed", "web"), ("ads", "secret-of-ads")):
        await world.create("PinterestService", namespace, name, worlds.service(3))
    await report(world, "PinterestService", "ads", "secret-of-ads", conditions=[SHORT], desired=3)
    await asking.grant(world, "alice", "feed", LIST)
    await asking.grant(world, "olga", "feed")
    await asking.grant_everywhere(world, "olga", LIST, CLUSTERS)


async def counts_the_own(world: World) -> None:
    """The rule: a reader sees, counts and searches the own namespaces only."""
    await tenants(world)
    async with dashboard_of(world) as dashboard:
        alice, olga = (
            await reader(world, dashboard, "alice"),
            await reader(world, dashboard, "olga"),
        )
        seen = await alice.json("/workloads")
        assert [row["name"] for row in seen["rows"]] == ["web"]
        assert seen["paging"]["total"] == 1
        options = {each["name"]: each["options"] for each in seen["filters"]}
        assert options["namespace"] == [{"value": "feed", "count": 1}]
        assert [option["value"] for option in options["health"]] == ["Pending"]
        for path in (
            "/workloads?q=secret",
            "/workloads?namespace=ads",
            "/workloads?health=Short",
        ):
            assert (await alice.json(path))["paging"]["total"] == 0, path
            assert (await olga.json(path))["paging"]["total"] == 1, path
        overview = await alice.json("/")
        assert (overview["workloads"], overview["needs"]) == (1, [])
        assert overview["clusters"] is None
        assert overview["heat"] is None
        assert (await olga.json("/"))["workloads"] == 2
        assert (await alice.json("/quota"))["waitingCount"] == 0
        assert (await olga.json("/quota"))["waitingCount"] == 1
        await nothing_of_ads(alice)


def test_a_reader_sees_and_counts_the_own_namespaces_only() -> None:
    play(counts_the_own)


def everything(fleet: FleetCache, _: rights.Scope) -> Iterable[WorkloadRow]:
    return fleet.workloads()


@pytest.mark.parametrize(
    ("where", "name", "plant"),
    [
        (gathering, "visible", everything),
        (rights.Scope, "shows", lambda *_: True),
        (gathering, "clusters", lambda sources, _: at_once(sources.fleet.clusters)),
    ],
    ids=["lists", "scopes", "clusters"],
)
def test_a_planted_page_that_shows_the_counts_of_another_tenant_is_caught(
    where: Any, name: str, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, plant)

    with pytest.raises(AssertionError):
        play(counts_the_own)


async def nothing_of_ads(alice: Browser) -> None:
    """No page says that the workload is there."""
    for path in ("/", "/workloads", "/workloads?q=secret", "/quota", "/clusters", "/clusters/a"):
        for page in (path, f"{path}{'&' if '?' in path else '?'}format=json"):
            shown = (await alice.get(page)).body.decode()
            assert "secret-of-ads" not in shown.replace("/workloads?q=secret", ""), page
    for name in ("secret-of-ads", "not-there"):
        for part in ("", "/why", "/objects", "/runtime"):
            answer = await alice.get(f"/workloads/PinterestService/ads/{name}{part}?format=json")
            assert answer.status == 403, (name, part)
            assert b"You may not get pinterestservices.pinterest.com" in answer.body


def test_clusters_and_accounts_are_for_readers_with_that_right() -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice, olga = (
                await reader(world, dashboard, "alice"),
                await reader(world, dashboard, "olga"),
            )
            for path in ("/clusters", "/clusters/a", "/quota/ads"):
                assert (await alice.get(path)).status == 403, path
            assert (await olga.get("/clusters")).status == 200
            assert (await olga.get("/clusters/a")).status == 200
            assert (await olga.get("/clusters/z")).status == 404
            assert (await olga.get("/quota/ads")).status == 404
            assert b"You may not list memberclusters" in (await alice.get("/")).body
            assert b"You may not list federatedquotas" in (await alice.get("/quota")).body

    play(scenario)


def test_decisions_and_events_need_their_own_rights() -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        events = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
        decided = {
            "apiGroups": ["federation.pinterest.com"],
            "resources": ["placementdecisions"],
            "verbs": ["list"],
        }
        await asking.grant(world, "bob", "feed", LIST, events, decided)
        async with dashboard_of(world) as dashboard:
            path = "/workloads/PinterestService/feed/web"
            alice = await (await reader(world, dashboard, "alice")).json(path)
            assert (alice["decisions"], alice["events"]) == (None, None)
            bob = await (await reader(world, dashboard, "bob")).json(path)
            assert (bob["decisions"], bob["events"]) == ([], [])

    play(scenario)


def test_a_right_that_is_taken_away_counts_within_ten_seconds() -> None:
    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            assert (await alice.json("/workloads"))["paging"]["total"] == 1
            ref = ObjectRef(asking.RBAC, "rolebindings", "feed", "alice", "RoleBinding")
            await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
            await asyncio.sleep(rights.KEPT_S + 0.1)
            assert (await alice.json("/workloads"))["paging"]["total"] == 0

    play(scenario)


def test_namespaces_beyond_the_bound_are_said_to_be_unchecked(monkeypatch: Any) -> None:
    monkeypatch.setattr(rights, "CHECKED_MAX", 1)

    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            alice = await reader(world, dashboard, "alice")
            page = (await alice.get("/workloads")).body.decode()
            assert "Your rights in 1 namespaces were not checked" in page
            named = await alice.json("/workloads?namespace=feed")
            assert named["paging"]["total"] == 1

    play(scenario)


def test_a_host_that_does_not_answer_shows_nothing() -> None:
    """What is remembered of the host is shown to readers with rights only, and rights cannot be
    checked.
    """

    async def scenario(world: World) -> None:
        await tenants(world)
        async with dashboard_of(world) as dashboard:
            olga = await reader(world, dashboard, "olga")
            await world.cut("host", process="dashboard")
            await asyncio.sleep(rights.KEPT_S + 0.1)
            answer = await olga.get("/workloads")
            assert answer.status == 503
            assert b"secret-of-ads" not in answer.body

    play(scenario)


def test_every_kind_of_workload_is_listed() -> None:
    """A kind that is added to the registry is on the page, with a row of its own."""

    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(3))
        await world.create("PinterestJobSet", "feed", "index", worlds.jobset(8, 4))
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            rows = (await admin.json("/workloads"))["rows"]
            assert {(row["kind"], row["desired"]) for row in rows} == {
                ("PinterestService", 3),
                ("PinterestJobSet", 8),
            }
            watched = {reflector.plural for reflector in dashboard.fleet.reflectors}
            assert watched >= {kind.plural for kind in registry.WORKLOADS.values()}

    play(scenario)
