"""Slices that overtake others on their way to a member: what the member then reports does not
include those behind.
"""

import asyncio
import json

from federator.api.placement.decisionfacts import decision_facts
from federator.kinds import registry
from tests.faults import boxes
from tests.faults.rows import Sending
from tests.unit.hub.test_profiles import sidecar
from tests.unit.hub.world import HUB, World, between, jobset, play, service, small_fleet
from tests.worlds import spoken

PSVC, PJOBS = "PinterestService", "PinterestJobSet"
LABELLED = {"labels": {"team": "ads"}}
LONG = {"embedded.federator/run-seconds": "600"}
LARGE = "7500m"
"""One copy fills a node."""


async def given(world: World) -> list[int]:
    """Copies decided on, for each workload."""
    return [await given_to(world, name) for name in ("early", "later", "third")]


async def given_to(world: World, name: str) -> int:
    return sum((await world.shares("feed", name)).values())


def test_room_of_a_slice_that_was_overtaken_is_promised_to_nobody_else() -> None:
    async def scenario(world: World) -> None:
        sent = world.meanwhile("a", "POST", "pinterestservices", lambda: asyncio.sleep(20))
        await world.create(PSVC, "feed", "early", service(3, LARGE))
        await asyncio.sleep(2)
        assert sent.is_set(), "its slice has been sent, and has not arrived"
        await world.create(PSVC, "feed", "later", service(1, "1"))
        await asyncio.sleep(6)
        assert await world.get(PSVC, "feed", "early", at="a") is None
        assert await world.get(PSVC, "feed", "later", at="a") is not None

        await world.create(PSVC, "feed", "third", service(3, LARGE))
        await asyncio.sleep(2)
        assert await given(world) == [3, 1, 0]
        await asyncio.sleep(120)
        assert await given(world) == [3, 1, 0]

    play(scenario, fleet=small_fleet(1))


def test_room_of_a_slice_that_its_member_has_not_seen_yet_is_promised_to_nobody_else() -> None:
    """A member process watches each kind apart: it may have seen a later slice of another kind."""

    async def scenario(world: World) -> None:
        await world.settle()
        world.put(boxes.telling_late(between("member-a", "a", "pinterestservices"), 20))
        await world.federation.kill("member a")
        world.federation.start_member("a")
        await asyncio.sleep(30)
        await world.create(PSVC, "feed", "early", service(3, LARGE))
        await asyncio.sleep(2)
        await world.create(PJOBS, "feed", "later", jobset(1, 1, "1", LONG))
        await asyncio.sleep(6)
        assert await world.get(PSVC, "feed", "early", at="a") is not None
        assert await world.get(PJOBS, "feed", "later", at="a") is not None

        await world.create(PSVC, "feed", "third", service(3, LARGE))
        await asyncio.sleep(2)
        assert [await given_to(world, name) for name in ("early", "third")] == [3, 0]
        await asyncio.sleep(120)
        assert [await given_to(world, name) for name in ("early", "third")] == [3, 0]

    play(scenario, fleet=small_fleet(1))


def test_a_decision_that_is_heard_late_and_made_for_what_has_changed_is_made_again() -> None:
    """Of a write whose answer was lost nobody knows until it is heard of, and by then its policy
    may be gone.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        [decided] = await world.decisions()
        name, made_for = decided["metadata"]["name"], decided["spec"]["inputsHash"]
        await world.patch(
            "PlacementDecision", "feed", name, {"spec": {"inputsHash": "of-another-time"}}
        )
        await asyncio.sleep(2)
        [decided] = await world.decisions()
        assert decided["spec"]["inputsHash"] == made_for
        await world.settle(within_s=10)

    play(scenario)


def test_a_share_that_shrank_while_a_member_was_slow_is_not_written_when_it_has_grown_again() -> (
    None
):
    """The hub reads a slice before it patches it; the answer may take as long as the member
    likes.
    """

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(4))
        await world.settle()
        written: list[int] = []

        def note(sending: Sending) -> bool:
            if spoken(sending) == (HUB, "a", "PATCH", "pinterestservices"):
                written.append(json.loads(sending.request.body or b"{}")["spec"].get("replicas"))
            return False

        async def nothing(_: Sending) -> None: ...

        world.put(boxes.holding_up(note, nothing))

        async def wanted_again() -> None:
            await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 6}})
            await asyncio.sleep(5)

        world.meanwhile("a", "GET", "pinterestservices", wanted_again)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 2}})
        await world.settle(within_s=60)
        assert await given_to(world, "web") == 6
        assert written
        assert 2 not in written

    play(scenario, fleet=small_fleet(1))


def test_no_pod_gets_a_larger_profile_before_its_decision_charges_it() -> None:
    """A RuntimeProfile is heard of while the hub waits for the slice that it is about to patch."""

    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await world.create(PSVC, "feed", "web", service(2, "500m"))
        await world.settle()
        charged: list[int] = []

        def note(sending: Sending) -> bool:
            if spoken(sending) == (HUB, "a", "PATCH", "pinterestservices"):
                body = json.loads(sending.request.body or b"{}")
                if "profile" in body["spec"].get("slice", {}):
                    host = world.federation.host
                    group = registry.KINDS["PlacementDecision"].api_version.split("/")[0]
                    [decided] = host.store.items(host.registry.get(group, "placementdecisions"))
                    terms = decision_facts(decided.obj).terms
                    charged.append(terms.shape.requests["cpu"] if terms.shape is not None else 0)
            return False

        async def nothing(_: Sending) -> None: ...

        world.put(boxes.holding_up(note, nothing))

        async def grows() -> None:
            await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("logs:1", "400m")})
            await asyncio.sleep(3)

        world.meanwhile("a", "GET", "pinterestservices", grows)
        await world.patch(PSVC, "feed", "web", {"spec": {"template": {"metadata": LABELLED}}})
        await world.settle(within_s=60)
        assert charged == [900]

    play(scenario, fleet=small_fleet(1))
