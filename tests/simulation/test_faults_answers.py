"""What the rows about answers, credentials and gates promise: a cluster's trouble is told and stays
that cluster's.
"""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from federator.embedded.storage.revisions import DELETED, Event
from federator.kinds import registry
from federator.kube.wire.transport import Response, Transport
from tests.faults.episodes import admission
from tests.faults.lives import Life
from tests.faults.requests import refusal
from tests.faults.rows import Box, Sending, is_hub
from tests.simulation import script, solo
from tests.simulation.drawing import generator
from tests.simulation.invariants import Obj, all_of
from tests.simulation.script import JOBSET, SERVICE
from tests.simulation.setting import FUTILE_PAUSE_S
from tests.simulation.world import World

pytestmark = pytest.mark.long

REFUSED_401, REFUSED_403 = 0, 1
"""Draws of credentials-refused."""
OURS = frozenset({*registry.WORKLOADS, "Deployment", "Service"})


def struck(name: str, draw: int) -> str:
    """The member that an episode befalls: the first thing that each of these draws."""
    return generator(draw, name).choice(["a", "b"])


def other(member: str) -> str:
    return "b" if member == "a" else "a"


def deleted(world: World) -> list[str]:
    """What of ours is deleted in members from now on."""
    found: list[str] = []

    def note(event: Event) -> None:
        if event.type is DELETED and event.current.obj["kind"] in OURS:
            found.append(f"{event.current.obj['kind']} {event.current.obj['metadata']['name']}")

    for name in world.members:
        world.clusters[name].store.subscribe_all(note)
    return found


def copies(world: World, name: str = "web") -> int:
    return sum(solo.shares(world)[name].values())


def told(world: World, member: str) -> dict[str, tuple[str, str]]:
    return dict(solo.conditions(solo.one_of(world, "MemberCluster", member)))


async def until_running(world: World, name: str, cluster: str) -> float:
    """Seconds until the copies of a new service run in a cluster."""
    begun = asyncio.get_running_loop().time()
    await script.perform(solo.service(name, 2), world.host)
    while asyncio.get_running_loop().time() < begun + 100:
        if _ready_copies(world, name, cluster):
            return asyncio.get_running_loop().time() - begun
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} never ran in {cluster}: {solo.shares(world)}")


@pytest.mark.parametrize("draw", [0, 2])
def test_a_slow_member_holds_up_nobody_else(draw: int) -> None:
    spared = other(struck("slow-member", draw))

    async def story(world: World) -> None:
        calm_s = await until_running(world, "early", spared)
        await solo.settled(world)
        async with solo.happening(world, "slow-member", draw=draw):
            assert await until_running(world, "late", spared) <= calm_s * 1.2
            await asyncio.sleep(30)

    solo.tell(story)


@pytest.mark.parametrize("draw", range(4))
def test_something_else_that_answers_in_a_member_s_place_is_not_believed_and_gets_nothing(
    draw: int,
) -> None:
    member = struck("captive-portal", draw)

    async def story(world: World) -> None:
        gone, before = deleted(world), solo.shares(world)
        async with solo.happening(world, "captive-portal", draw=draw):
            await asyncio.sleep(75)
            assert told(world, member)["Ready"] == ("Unknown", "Unreachable")
            assert told(world, other(member))["Ready"] == ("True", "Ready")
            assert solo.shares(world) == before
        await solo.settled(world, 120.0)
        assert told(world, member)["Ready"] == ("True", "Ready")
        assert not gone

    solo.tell(story)


@pytest.mark.parametrize("name", ["broken-answer", "throttled", "server-trouble", "late-trouble"])
def test_answers_of_trouble_move_nothing_and_are_asked_again(name: str) -> None:
    async def story(world: World) -> None:
        gone = deleted(world)
        async with solo.befalling(world, name, 300):
            await script.perform(solo.scaled("web", 6), world.host)
            await asyncio.sleep(60)
        await solo.settled(world, 120.0)
        assert copies(world) == 6
        assert not gone

    solo.tell(story)


def test_who_is_told_to_come_back_in_half_a_minute_does_not_come_sooner() -> None:
    asked: dict[tuple[str, str, str], list[float]] = {}

    async def busy(sending: Sending, inner: Transport) -> Response:
        return refusal(429, "TooManyRequests", "too many requests", {"retry-after": "30"})

    async def story(world: World) -> None:
        def note(life: Life, sending: Sending) -> None:
            if sending.cluster == "a" and sending.writes and is_hub(sending.process):
                key = life.name, sending.request.method, sending.request.path
                asked.setdefault(key, []).append(world.federation.clock.monotonic())

        world.senders.append(note)
        box = Box(
            lambda sending: sending.cluster == "a" and sending.writes and is_hub(sending.process),
            busy,
        )
        with world.boxes.standing(box):
            await script.perform(solo.scaled("web", 8), world.host)
            await asyncio.sleep(100)
        world.senders.remove(note)
        assert asked
        gaps = [later - sooner for times in asked.values() for sooner, later in pairwise(times)]
        assert gaps
        assert min(gaps) >= 30, asked
        await solo.settled(world, 120.0)
        assert copies(world) == 8

    solo.tell(story)


@pytest.mark.parametrize(
    ("name", "draw", "for_s"),
    [
        ("credentials-refused", REFUSED_401, 75.0),
        ("credentials-refused", REFUSED_403, 75.0),
        ("secret-absent", 0, 40.0),
    ],
)
def test_a_member_that_does_not_know_us_is_reported_and_keeps_its_work(
    name: str, draw: int, for_s: float
) -> None:
    member = struck(name, draw)

    async def story(world: World) -> None:
        gone, before = deleted(world), solo.shares(world)
        async with solo.happening(world, name, draw=draw):
            await asyncio.sleep(for_s)
            assert told(world, member)["Authenticated"] == ("False", "AuthFailed")
            assert "Authenticated" not in told(world, other(member))
            assert solo.shares(world) == before
        await asyncio.sleep(45)
        assert "Authenticated" not in told(world, member)
        assert told(world, member)["Ready"] == ("True", "Ready")
        assert solo.shares(world) == before
        assert not gone

    solo.tell(story)


@pytest.mark.parametrize(("draw", "condition"), [(0, "Applied"), (1, "Ready")])
def test_a_webhook_that_refuses_in_one_member_is_told_of_that_member_and_the_others_are_served(
    draw: int, condition: str
) -> None:
    """It refuses slices in the first case, and what is made of them in the second."""
    member = struck("webhook-refuses", draw)

    async def story(world: World) -> None:
        async with solo.happening(world, "webhook-refuses", draw=draw):
            await script.perform(solo.service("late", 4), world.host)
            await asyncio.sleep(25)
            ready = {name: _ready_copies(world, "late", name) for name in world.members}
            assert ready == {member: 0, other(member): 2}
            found = _condition(solo.one_of(world, SERVICE, "late"), condition)
            assert found["status"] == "False"
            assert f"{member}: " in found["message"]
            assert "images must come from the mirror" in found["message"]
        await solo.settled(world, 120.0)
        assert copies(world, "late") == 4

    solo.tell(story)


@pytest.mark.parametrize(
    ("change", "plural", "stalled", "most"),
    [
        ("annotates", "pinterestservices", ("False", "NotStalled"), 1),
        ("labels pods", "deployments", ("False", "NotStalled"), 2),
        ("mirrors images", "pinterestservices", ("True", "CannotConverge"), 6),
        ("prunes resources", "pinterestservices", ("True", "CannotConverge"), 6),
        ("mirrors images", "deployments", ("False", "NotStalled"), 6),
    ],
)
def test_a_webhook_that_changes_what_we_write_is_not_fought(
    change: str, plural: str, stalled: tuple[str, str], most: int
) -> None:
    """What it adds is none of our business. Where a slice does not keep what is ours, that is told;
    what a cluster made of a native is what the wish leads to there. Either is written once more
    after each pause, in case it is gone. (The label on pods comes in our name here, so that there
    is one attempt to take it off. A real server gives to nobody what a webhook adds to an apply.)
    """
    written: Counter[str] = Counter()

    async def story(world: World) -> None:
        def note(life: Life, sending: Sending) -> None:
            if sending.cluster == "a" and admission.puts(sending, frozenset({plural})):
                written[sending.request.path] += 1

        changed: Counter[str] = Counter()
        box = admission.changing(
            "a", admission.CHANGES[change], frozenset({plural}), lambda: changed.update([change])
        )
        world.senders.append(note)
        with world.boxes.standing(box):
            await script.perform(solo.service("late", 4), world.host)
            await asyncio.sleep(100)
            assert solo.conditions(solo.one_of(world, SERVICE, "late"))["Stalled"] == stalled
        world.senders.remove(note)
        assert changed[change]
        assert written.most_common(1)[0][1] <= most
        await asyncio.sleep(FUTILE_PAUSE_S)
        await solo.settled(world)

    solo.tell(story)


@pytest.mark.parametrize("draw", [0, 2])
def test_a_kind_that_a_member_does_not_serve_is_not_sent_there_and_its_copies_stay(
    draw: int,
) -> None:
    rng = generator(draw, "kind-not-served")
    member, kind = (
        rng.choice(["a", "b"]),
        rng.choice([one for one in registry.WORKLOADS.values() if one.model]).kind,
    )

    async def story(world: World) -> None:
        gone, before = deleted(world), solo.shares(world)
        async with solo.happening(world, "kind-not-served", draw=draw):
            await asyncio.sleep(75)
            assert solo.shares(world) == before
            await script.perform(solo.service("late", 4), world.host)
            await script.perform(solo.jobset("more", 2, 60), world.host)
            await asyncio.sleep(20)
            named = {obj["metadata"]["name"] for obj in all_of(world.clusters[member], kind)}
            assert not named & {"late", "more"}
            assert solo.conditions(solo.one_of(world, SERVICE, "late"))["Ready"] == (
                "True",
                "Ready",
            )
            assert solo.conditions(solo.one_of(world, JOBSET, "more"))["Placed"] == (
                "True",
                "Placed",
            )
        assert not gone

    solo.tell(story)


@pytest.mark.parametrize("draw", [0, 1])
def test_discovery_that_flaps_costs_no_copy(draw: int) -> None:
    async def story(world: World) -> None:
        gone, before = deleted(world), solo.shares(world)
        async with solo.happening(world, "discovery-flaps", draw=draw):
            await asyncio.sleep(90)
            assert solo.shares(world) == before
        await script.perform(solo.service("late", 4), world.host)
        await solo.settled(world)
        assert copies(world, "late") == 4
        assert not gone

    solo.tell(story)


def _ready_copies(world: World, name: str, cluster: str) -> int:
    found = [
        obj
        for obj in all_of(world.clusters[cluster], "Deployment")
        if obj["metadata"]["name"] == name
    ]
    return sum((obj.get("status") or {}).get("readyReplicas", 0) for obj in found)


def _condition(obj: Obj, name: str) -> dict[str, str]:
    return next(one for one in obj["status"]["conditions"] if one["type"] == name)
