"""Copies over time, and what the loss of a cluster would come to."""

import asyncio
import tracemalloc

from federator.dashboard.sources.trend import NOTHING, SAMPLES_MAX, Trend
from federator.dashboard.views import overview
from federator.scheduling import drill
from tests.unit.dashboard.asking import CLUSTERS, LIST, dashboard_of, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

FEED, ADS = ("PinterestService", "feed"), ("PinterestService", "ads")


def test_a_series_is_the_sum_of_the_pairs_that_are_asked_for() -> None:
    trend = Trend()
    trend.add(0.0, {FEED: (3, 2, 1)})
    trend.add(60.0, {FEED: (3, 3, 3), ADS: (5, 5, 5)})
    trend.add(120.0, {ADS: (6, 5, 5)})
    assert trend.series([FEED]) == [(0.0, (3, 2, 1)), (60.0, (3, 3, 3)), (120.0, NOTHING)]
    assert trend.series([FEED, ADS])[1:] == [(60.0, (8, 8, 8)), (120.0, (6, 5, 5))]
    assert trend.series([("PinterestService", "nowhere")])[0] == (0.0, NOTHING)


def test_old_samples_are_forgotten_and_quiet_pairs_take_no_room() -> None:
    trend = Trend()
    quiet = {("PinterestService", f"n{number}"): (1, 1, 1) for number in range(2000)}
    tracemalloc.start()
    for minute in range(3 * SAMPLES_MAX):
        trend.add(60.0 * minute, {**quiet, FEED: (minute, 0, 0)})
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 4e6
    series = trend.series([FEED, *quiet])
    assert len(series) == SAMPLES_MAX
    assert series[0] == (60.0 * 2 * SAMPLES_MAX, (2 * SAMPLES_MAX + 2000, 2000, 2000))
    trend.add(1e6, {})
    for minute in range(SAMPLES_MAX):
        trend.add(1e6 + 60.0 * (minute + 1), {})
    assert trend._changes == {}, "what is gone for six hours is forgotten"


def test_lines_have_few_points_and_the_last_sample() -> None:
    series = [(60.0 * n, (n, n, n // 2)) for n in range(SAMPLES_MAX)]
    shown = overview.trend(series)
    assert shown is not None
    assert len(shown["lines"][0]["points"].split()) <= overview.POINTS_MAX + 1
    assert shown["lines"][0]["points"].endswith("600.0,0.0")
    assert shown["table"][-1]["desired"] == SAMPLES_MAX - 1
    assert len(shown["table"]) <= 14
    assert "desired 0 to 359" in shown["label"]
    assert overview.trend(series[:1]) is None
    assert overview.trend([(0.0, NOTHING), (0.0, NOTHING)]) is not None


def test_losses_that_leave_copies_without_a_place_come_first() -> None:
    rows = [
        {"cluster": "a", "missing": {"OnDemand": 0}, "recoverySeconds": 4.2},
        {"cluster": "b", "missing": {"OnDemand": 2, "Reserved": 1}, "recoverySeconds": 312.5},
        {"cluster": "c", "missing": {"Reserved": 9}, "recoverySeconds": float("nan")},
    ]
    shown = overview.drill({"clusters": rows})
    assert [row["cluster"] for row in shown["rows"]] == ["c", "b"]
    assert [row["recovery"] for row in shown["rows"]] == ["0s", "5m"]
    assert shown["covered"] == 1
    assert overview.drill({"clusters": "x"})["rows"] == []


def test_the_first_page_shows_drills_and_counts_only_what_its_reader_lists() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", worlds.service(6))
        only_a = {"clusters": {"names": ["a"]}}
        pinned = worlds.service(4, placement=only_a)
        await world.create("PinterestService", "ads", "secret-of-ads", pinned)
        await world.settle()
        await asking.grant(world, "alice", "feed", LIST)
        await asking.grant(world, "olga", "feed")
        await asking.grant_everywhere(world, "olga", LIST, CLUSTERS)
        hub = world.federation.processes["hub"]
        # a hub without metrics does not begin it
        await hub.controllers.drilling.drill(drill.losses(hub.state.snapshot(hub.clock)))
        async with dashboard_of(world, leader=True) as dashboard:
            await asyncio.sleep(200)
            alice, olga = (
                await reader(world, dashboard, "alice"),
                await reader(world, dashboard, "olga"),
            )
            own, whole = await alice.json("/"), await olga.json("/")
            assert [line["now"] for line in own["trend"]["lines"]] == [6, 6, 6]
            assert [line["now"] for line in whole["trend"]["lines"]] == [10, 10, 10]
            assert own["drill"] is None
            (row,) = whole["drill"]["rows"]
            assert (row["cluster"], row["missing"]) == ("a", {"OnDemand": 4})
            assert whole["drill"]["covered"] == 2
            port = asking.port_of(world)
            refused = await port.answer(asking.request("/v1/drill", user="alice"))
            assert refused.status == 403

    worlds.play(scenario)
