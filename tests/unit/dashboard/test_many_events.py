"""A workload with far more Events than a page shows."""

import asyncio
import tracemalloc
from typing import Any

from federator.kube import clock as clocks
from tests.faults import boxes
from tests.unit.dashboard.asking import dashboard_of, play, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World, between

COUNT = 6000
WEB = "/workloads/PinterestService/feed/web"


def event(number: int) -> dict[str, Any]:
    """The name of an Event begins with that of its object, and says nothing about its age."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"web.{number * 7919 % COUNT:06d}", "namespace": "feed"},
        "involvedObject": {"kind": "PinterestService", "name": "web", "namespace": "feed"},
        "type": "Normal",
        "reason": "Placed",
        "message": f"number {number} {'x' * 800}",
        "lastTimestamp": clocks.stamp(number),
    }


async def crowded(world: World) -> None:
    await world.create("PinterestService", "feed", "web", worlds.service(3))
    host = world.federation.host
    resource = host.registry.get("", "events")
    for number in range(COUNT):
        host.store.create(resource, event(number))


def test_the_newest_events_are_shown_and_the_others_take_no_memory() -> None:
    async def scenario(world: World) -> None:
        await crowded(world)
        async with dashboard_of(world) as dashboard:
            browser = await reader(world, dashboard)
            await browser.get(WEB)
            tracemalloc.start()
            shown = (await browser.json(WEB))["events"]
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert [each["message"].split()[1] for each in shown[:2]] == ["5999", "5998"]
            assert len(shown) == 100
            assert peak < 12_000_000, "all Events at once take more than 15 MB"

    play(scenario)


def test_a_page_says_when_not_all_events_could_be_read() -> None:
    async def scenario(world: World) -> None:
        await crowded(world)
        async with dashboard_of(world) as dashboard:
            browser = await reader(world, dashboard)
            late = boxes.holding_up(
                between("dashboard", "host", "/events"), lambda sending: asyncio.sleep(2)
            )
            world.put(late)
            page = await browser.get(WEB)
            assert b"newer ones may be" in page.body

    play(scenario)
