"""Many slices wait for a member whose API server is gone: they do not all try it, each again and
again.
"""

import asyncio
from collections import Counter

import pytest

from federator.kube import errors
from tests.faults import boxes
from tests.faults.rows import Sending
from tests.unit.hub.world import HUB, World, between, play, service, small_fleet

PSVC = "PinterestService"
MANY = 60


@pytest.mark.long
def test_what_waits_for_a_member_that_is_gone_tries_it_one_by_one() -> None:
    async def scenario(world: World) -> None:
        tried: Counter[str] = Counter()
        refused = between(HUB, "a")

        def gone(sending: Sending) -> errors.ApiError:
            tried[sending.request.path] += 1
            return errors.Unreachable("a refuses connections")

        await world.settle()
        world.put(
            boxes.failing(
                lambda sending: (
                    refused(sending)
                    and sending.request.path.startswith(
                        ("/apis/pinterest", "/api/v1/namespaces/feed")
                    )
                    and not sending.watches
                    and not sending.lists
                ),
                gone,
            )
        )
        for number in range(MANY):
            await world.create(PSVC, "feed", f"web-{number:02d}", service(1, "100m"))
        await asyncio.sleep(60)
        assert 3 <= sum(tried.values()) < MANY, tried
        told = await world.condition(PSVC, "feed", f"web-{MANY - 1:02d}", "Applied")
        assert (told["status"], "a refuses connections" in told["message"]) == ("False", True)
        world.clear()
        await world.settle(within_s=30)

    play(scenario, fleet=small_fleet(1))


def test_where_the_kind_is_missing_nobody_looks_for_the_namespace() -> None:
    async def scenario(world: World) -> None:
        tried: Counter[str] = Counter()
        to_a = between(HUB, "a")

        def creates(sending: Sending) -> bool:
            request = sending.request
            about = request.method == "POST" or request.path.endswith("/namespaces/feed")
            return to_a(sending) and about

        def missing(sending: Sending) -> errors.ApiError:
            tried[sending.request.path.rpartition("/")[2]] += 1
            return errors.NotServed("404 page not found")

        await world.create(PSVC, "feed", "first", service(1, "100m"))
        await world.settle()
        world.put(boxes.failing(creates, missing))
        await world.create(PSVC, "feed", "second", service(1, "100m"))
        await asyncio.sleep(20)
        assert tried.keys() == {"pinterestservices"}
        world.clear()
        await world.settle(within_s=60)

    play(scenario, fleet=small_fleet(1))
