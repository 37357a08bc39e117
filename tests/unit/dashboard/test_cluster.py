"""A single cluster: what runs there page by page, its probe, capacity after a scale-up, and what a
drain would move."""

from typing import Any

from federator.dashboard import listing
from federator.dashboard.listing import Query
from federator.dashboard.sources import rows
from federator.dashboard.views import clusters
from tests.unit.dashboard.asking import CLUSTERS, LIST, dashboard_of, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking


def shown(obj: dict[str, Any]) -> dict[str, Any]:
    row = rows.cluster(obj)
    page = listing.select(Query("/clusters/a"), clusters.HOLDERS, [])
    return clusters.single(row, obj, page, 0, 0.0)


def test_capacity_after_a_scale_up_counts_nodes_that_can_still_be_added() -> None:
    whole = {"cpu": "8", "memory": "32Gi"}
    capacity = {
        "nodes": [{"count": 2, "allocatable": whole, "free": {"cpu": "4"}}],
        "machines": {"m6i": 2},
    }
    obj = {
        "metadata": {"name": "a"},
        "spec": {
            "scaleUp": [{"name": "m6i", "shape": {"cpu": "16", "gpu": "1"}, "max": 5, "minutes": 4}]
        },
        "status": {"capacity": capacity},
    }
    after = {row["resource"]: row["afterScaleUp"] for row in shown(obj)["capacity"]}
    assert (after["cpu"], after["memory"], after["gpu"]) == ("64", "64Gi", "3")
    full = {**obj, "status": {"capacity": {**capacity, "machines": {"m6i": 9}}}}
    assert {row["resource"]: row["afterScaleUp"] for row in shown(full)["capacity"]}["cpu"] == "16"


def test_probe_success_rate_and_drain_are_shown_when_they_are_reported() -> None:
    bare = shown({"metadata": {"name": "a"}})
    assert (bare["probe"], bare["success"], bare["drain"]) == (None, None, None)
    status = {
        "success": {"percent": 41, "avoided": True},
        "probe": {
            "result": "Failed",
            "stage": "Ready",
            "message": "no pod became ready",
            "gateSince": "2026-01-01T00:00:00Z",
            "tiers": [{"tier": "OnDemand", "result": "Failed", "stage": "Ready"}],
        },
        "drain": {"copies": 10, "left": 4, "underWay": 2},
    }
    seen = shown({"metadata": {"name": "a"}, "status": status})
    assert (seen["probe"]["tone"], seen["probe"]["gated"]) == ("bad", True)
    assert [row["tier"] for row in seen["probe"]["tiers"]] == ["OnDemand"]
    assert seen["success"] == {"percent": 41, "avoided": True, "tone": "bad"}
    assert seen["drain"]["left"] == 4
    busy = {"metadata": {"name": "a"}, "status": {"probe": {"result": "Busy"}}}
    assert shown(busy)["probe"]["tone"] == "warn"


async def several(world: World) -> None:
    for number in range(27):
        await world.create(
            "PinterestService", "feed", f"web-{number:02d}", worlds.service(3, "100m")
        )
    await world.create("PinterestService", "ads", "secret-of-ads", worlds.service(3))
    await world.settle()
    await asking.grant(world, "alice", "feed", LIST)
    await asking.grant_everywhere(world, "alice", CLUSTERS)


def test_what_runs_there_has_pages_and_shows_nothing_of_others() -> None:
    async def scenario(world: World) -> None:
        await several(world)
        async with dashboard_of(world) as dashboard:
            admin, alice = await reader(world, dashboard), await reader(world, dashboard, "alice")
            first = await admin.json("/clusters/a")
            assert (len(first["holders"]), first["paging"]["total"]) == (25, 28)
            second = await admin.json(first["paging"]["next"])
            names = {row["name"] for row in first["holders"] + second["holders"]}
            assert len(names) == 28
            assert (await admin.json("/clusters/a?namespace=ads"))["paging"]["total"] == 1
            own = await alice.json("/clusters/a")
            assert (own["paging"]["total"], own["copies"]) == (27, first["copies"] - 1)
            assert "secret-of-ads" not in (await alice.get("/clusters/a?q=secret")).body.decode()
            assert (await alice.json("/clusters/a?namespace=ads"))["paging"]["total"] == 0
            assert (await admin.get("/clusters/a?colour=red")).status == 400

    worlds.play(scenario)


def test_a_drain_forecast_says_what_moves_and_what_has_no_place() -> None:
    async def scenario(world: World) -> None:
        await several(world)
        only_a = {"clusters": {"names": ["a"]}}
        await world.create(
            "PinterestService", "feed", "pinned", worlds.service(2, placement=only_a)
        )
        await world.settle()
        async with dashboard_of(world, leader=True) as dashboard:
            admin, alice = await reader(world, dashboard), await reader(world, dashboard, "alice")
            plan = (await admin.json("/clusters/a/drain"))["plan"]
            changed = {row["workload"]: row for row in plan["document"]["workloads"]}
            assert changed["PinterestService/feed/web-00"]["leaves"] == {"a": 1}
            pinned = changed["PinterestService/feed/pinned"]
            assert (pinned["waiting"], pinned["after"]) == (2, {"a": 2})
            assert "2 copies wait for a place." in plan["head"]
            refused = await alice.get("/clusters/a/drain")
            assert refused.status == 403
            assert b"you cannot update memberclusters" in refused.body
            assert (await admin.get("/clusters/nope/drain")).status == 404

    worlds.play(scenario)
