"""Jobs: the list, the shards of one and where they are, and what runs on a schedule."""

import asyncio
from typing import Any

from federator.dashboard.views import jobs
from federator.kinds import registry
from tests.unit.dashboard.asking import LIST, dashboard_of, play, reader, report
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

INDEX = "/workloads/PinterestJobSet/feed/index"
CRONS = {"apiGroups": ["pinterest.com"], "resources": ["pinterestcronjobs"], "verbs": ["*"]}


def job(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "index", "namespace": "feed", "uid": "u"},
        "spec": {"shards": 10},
        "status": {"shards": 10, **status},
    }


def decision(**ranges: str) -> dict[str, Any]:
    shares = [{"cluster": name, "ranges": text} for name, text in ranges.items()]
    return {"spec": {"workload": {"uid": "u"}, "shares": shares}}


KIND = registry.WORKLOADS["PinterestJobSet"]


def test_every_shard_is_in_one_state_and_in_its_cluster() -> None:
    rows = [{"cluster": "a", "running": 2}, {"cluster": "b", "running": 1, "known": False}]
    obj = job(completedIndexes="0-3", failedIndexes="4", clusterStatuses=rows)

    shown = jobs.parts(KIND, obj, [decision(a="0-5", b="6")])

    assert {row["state"]: row["shards"] for row in shown["states"]} == {
        "Done": "0-3",
        "Failed": "4",
        "Placed": "5-6",
        "Waiting": "7-9",
    }
    assert [(row["cluster"], row["done"], row["failed"]) for row in shown["where"]] == [
        ("a", 4, 1),
        ("b", 0, 0),
    ]
    assert [row["known"] for row in shown["where"]] == [True, False]
    states = [cell["state"] for cell in shown["strip"]["cells"]]
    assert states == ["Done"] * 4 + ["Failed"] + ["Placed"] * 2 + ["Waiting"] * 3
    assert shown["strip"]["label"] == "10 shards: 4 done, 2 placed, 3 waiting, 1 failed"
    assert (
        len({cell["height"] for cell in shown["strip"]["cells"] if cell["state"] != "Failed"}) == 3
    )


def test_a_strip_of_many_shards_shows_what_needs_a_look() -> None:
    states = {"Failed": ((5000, 5000),), "Waiting": (), "Placed": (), "Done": ()}
    states["Done"] = ((0, 4999), (5001, 99_999))

    shown = jobs.strip(states)

    assert len(shown["cells"]) <= jobs.CELLS
    assert [cell["state"] for cell in shown["cells"]].count("Failed") == 1
    assert shown["label"].startswith("100000 shards: 99999 done")


def test_shards_beyond_the_job_and_ranges_that_are_none_are_left_out() -> None:
    obj = job(completedIndexes="8-20", failedIndexes="x,1-")
    shown = jobs.parts(KIND, obj, None)
    assert {row["state"]: row["count"] for row in shown["states"]} == {"Done": 2, "Waiting": 8}
    assert jobs.parts(KIND, {"metadata": {}, "spec": {}}, None)["strip"] is not None


def test_jobs_of_a_federation_and_their_shards() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestJobSet", "feed", "index", worlds.jobset(8, 4))
        await world.create("PinterestService", "feed", "web", worlds.service(2))
        await world.settle()
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            (row,) = (await admin.json("/jobs"))["rows"]
            assert (row["name"], row["done"], row["shards"]) == ("index", 8, 8)
            shown = await admin.json(f"{INDEX}/shards")
            assert shown["states"] == [{"state": "Done", "count": 8, "shards": "0-7"}]
            page = (await admin.get(f"{INDEX}/shards")).body.decode()
            assert 'aria-label="8 shards: 8 done, 0 placed, 0 waiting, 0 failed"' in page
            web = await admin.get("/workloads/PinterestService/feed/web/shards")
            assert web.status == 404

    worlds.play(scenario)


def test_readers_see_jobs_and_cron_jobs_of_their_namespaces_only() -> None:
    async def scenario(world: World) -> None:
        schedule = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": worlds.jobset(2, 2)}}
        for namespace in ("feed", "ads"):
            await world.create(
                "PinterestJobSet", namespace, f"index-of-{namespace}", worlds.jobset(2, 2)
            )
            await world.create("PinterestCronJob", namespace, f"nightly-of-{namespace}", schedule)
            await report(
                world, "PinterestCronJob", namespace, f"nightly-of-{namespace}", missedRuns=3
            )
        await asking.grant(world, "alice", "feed", LIST, CRONS)
        await asking.grant(world, "bob", "feed", LIST)
        async with dashboard_of(world) as dashboard:
            alice, bob = (
                await reader(world, dashboard, "alice"),
                await reader(world, dashboard, "bob"),
            )
            assert [row["name"] for row in (await alice.json("/jobs"))["rows"]] == ["index-of-feed"]
            assert [row["name"] for row in (await alice.json("/cronjobs"))["rows"]] == [
                "nightly-of-feed"
            ]
            assert (await bob.json("/cronjobs"))["paging"]["total"] == 0
            assert (await alice.json("/cronjobs?namespace=ads"))["paging"]["total"] == 0
            own = await alice.json("/cronjobs/feed/nightly-of-feed")
            assert own["facts"]["missed"] == 3
            assert len(own["facts"]["next"]) > 1
            assert (await bob.get("/cronjobs/feed/nightly-of-feed")).status == 403
            for name in ("nightly-of-ads", "not-there"):
                assert (await alice.get(f"/cronjobs/ads/{name}")).status == 403
            shards = await alice.get("/workloads/PinterestJobSet/ads/index-of-ads/shards")
            assert shards.status == 403
            seen = await alice.json("/workloads/PinterestJobSet/feed/index-of-feed/shards")
            assert not seen["located"], "she may not list decisions"

    play(scenario)


def test_a_cron_job_shows_its_last_runs() -> None:
    async def scenario(world: World) -> None:
        schedule = {"schedule": "* * * * *", "jobTemplate": {"spec": worlds.jobset(2, 2)}}
        await world.create("PinterestCronJob", "feed", "often", schedule)
        await asyncio.sleep(200)
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            shown = await admin.json("/cronjobs/feed/often")
            dues = [run["due"] for run in shown["runs"]]
            assert len(dues) >= 2
            assert dues == sorted(dues, reverse=True)
            assert shown["runs"][0]["href"].startswith("/workloads/PinterestJobSet/feed/often-")
            (row,) = (await admin.json("/cronjobs"))["rows"]
            assert row["last"] == dues[0]

    worlds.play(scenario)
