"""What the rows about partitions promise: each kind of link, each way to cut it, and servers that
are down.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from federator.hub.members.connecting.connection import LISTS_MAX
from tests.faults.episodes.partitions import severed
from tests.faults.episodes.processes import a_list
from tests.faults.links import Cut
from tests.faults.lives import Life
from tests.faults.rows import Sending, is_hub
from tests.simulation import solo
from tests.simulation.script import perform
from tests.simulation.story import Sent
from tests.simulation.world import World

pytestmark = pytest.mark.long

NOT_READY_S = 40.0
"""Silence longer than this makes a member NotReady."""
PROBE_S = 16.0
"""A probe and its time-out: so much later it may be said."""
LINKS = [
    f"{link}-{how}"
    for link in ("hub-member", "hub-host", "member-own-api")
    for how in ("silent", "mute", "deaf")
]


def ready(world: World, member: str) -> str:
    return solo.conditions(solo.one_of(world, "MemberCluster", member))["Ready"][0]


def since(world: World, member: str) -> str:
    """When the condition Ready of a member last changed."""
    found = solo.one_of(world, "MemberCluster", member)["status"]["conditions"]
    return next(str(one["lastTransitionTime"]) for one in found if one["type"] == "Ready")


def natives(world: World) -> dict[str, tuple[str, int]]:
    """uid and generation of every Deployment in members: what changes when somebody touches running
    work.
    """
    found = {}
    for name in world.members:
        cluster = world.clusters[name]
        for one in cluster.store.items(cluster.registry.get("apps", "deployments")):
            meta = one.obj["metadata"]
            found[f"{name}/{meta['namespace']}/{meta['name']}"] = (meta["uid"], meta["generation"])
    return found


@contextlib.asynccontextmanager
async def down(world: World, member: str) -> AsyncIterator[None]:
    """The API server of one member refuses everybody."""
    pairs = [(process, member) for process in (*world.hubs, f"member-{member}")]
    async with severed(world, "member-down-long", pairs, Cut.REFUSED):
        yield


@pytest.mark.parametrize("name", LINKS)
def test_a_link_that_fails_in_one_or_both_directions_moves_nothing_and_work_goes_on_after_it(
    name: str,
) -> None:
    async def story(world: World) -> None:
        before, running = solo.shares(world), natives(world)
        async with solo.happening(world, name):
            await asyncio.sleep(90)
            assert solo.shares(world) == before
            assert natives(world) == running
        await perform(solo.service("new", 2), world.host)
        await asyncio.sleep(40)
        await solo.settled(world)
        assert sum(solo.shares(world)["new"].values()) == 2
        assert {**solo.shares(world), "new": {}} == {**before, "new": {}}

    solo.tell(story)


def test_a_hub_short_of_descriptors_calls_no_member_unreachable_and_moves_nothing() -> None:
    async def story(world: World) -> None:
        before, running = solo.shares(world), natives(world)
        async with solo.happening(world, "hub-short-of-descriptors"):
            await asyncio.sleep(30)
            assert [ready(world, name) for name in world.members] == ["True"] * len(world.members)
            await asyncio.sleep(90)
            found = {
                solo.conditions(solo.one_of(world, "MemberCluster", name))["Ready"]
                for name in world.members
            }
            assert found == {("Unknown", "NotAsked")}
            assert solo.shares(world) == before
            assert natives(world) == running
        await asyncio.sleep(40)
        await solo.settled(world)
        assert [ready(world, name) for name in world.members] == ["True"] * len(world.members)
        assert (solo.shares(world), natives(world)) == (before, running)

    solo.tell(story)


@pytest.mark.parametrize("name", ["hub-member-late", "hub-host-late", "member-own-api-late"])
@pytest.mark.parametrize("replicas", [0, 5])
def test_writes_that_arrive_after_their_sender_has_given_up_are_refused_or_cleaned_up(
    name: str, replicas: int
) -> None:
    """A workload is made, and removed or changed, while what was sent about it is still on
    its way.
    """

    async def story(world: World) -> None:
        async with solo.happening(world, name):
            await perform(solo.service("new", 3), world.host)
            await perform(solo.scaled("shop", 4), world.host)
            await asyncio.sleep(45)
            if replicas:
                await perform(solo.scaled("new", replicas), world.host)
            else:
                await perform(solo.deleted("new"), world.host)
            await asyncio.sleep(40)
        await asyncio.sleep(40)
        await solo.settled(world)
        assert sum(solo.shares(world).get("new", {}).values()) == replicas
        assert sum(solo.shares(world)["shop"].values()) == 4

    solo.tell(story)


@pytest.mark.parametrize("lasts_s", [1, 5, 20])
def test_a_member_s_api_that_is_down_for_a_moment_flips_no_condition_and_moves_nothing(
    lasts_s: int,
) -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        begun = since(world, "a")
        async with down(world, "a"):
            await asyncio.sleep(lasts_s)
        await asyncio.sleep(60)
        assert ready(world, "a") == "True"
        assert since(world, "a") == begun, "it was not ready in between"
        assert solo.shares(world) == before

    solo.tell(story)


@pytest.mark.parametrize("lasts_s", [60, 300])
def test_a_member_that_is_down_for_long_is_not_ready_within_forty_seconds_and_comes_back_as_it_was(
    lasts_s: int,
) -> None:
    """For longer than a policy waits its copies get another place: see test_failovers."""

    async def story(world: World) -> None:
        before, running = solo.shares(world), natives(world)
        async with down(world, "a"):
            await asyncio.sleep(NOT_READY_S - PROBE_S)
            assert ready(world, "a") == "True"
            await asyncio.sleep(2 * PROBE_S)
            assert ready(world, "a") == "Unknown"
            await asyncio.sleep(lasts_s - NOT_READY_S - PROBE_S)
            assert solo.shares(world) == before
        await asyncio.sleep(15)
        assert ready(world, "a") == "True"
        await solo.settled(world)
        assert solo.shares(world) == before
        assert natives(world) == running

    solo.tell(story)


def test_ten_minutes_without_the_host_change_nothing_in_members() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(30)
        running = natives(world)
        async with severed(
            world, "host-refused", [(hub, "host") for hub in world.hubs], Cut.REFUSED
        ):
            await asyncio.sleep(600)
            assert natives(world) == running
        await asyncio.sleep(30)
        await solo.settled(world)
        assert natives(world) == running

    solo.tell(story)


def test_ten_minutes_without_any_hub_change_nothing_in_members() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(30)
        running = natives(world)
        for hub in world.hubs:
            world.hold_down(hub)
        await asyncio.sleep(600)
        assert natives(world) == running
        for hub in world.hubs:
            world.let_up(hub)
        await asyncio.sleep(30)
        await solo.settled(world)
        assert natives(world) == running

    solo.tell(story)


class Lists:
    """Lists of members that a life of a hub has under way."""

    def __init__(self, world: World) -> None:
        self.most = 0
        self._going: Counter[str] = Counter()
        world.senders.append(self._begins)
        world.listeners.append(self._ends)

    def _begins(self, life: Life, sending: Sending) -> None:
        if self._counts(sending):
            self._going[life.name] += 1
            self.most = max(self.most, self._going[life.name])

    def _ends(self, sent: Sent) -> None:
        if self._counts(Sending(sent.process, sent.cluster, sent.request)):
            self._going[sent.life.name] -= 1

    def _counts(self, sending: Sending) -> bool:
        return is_hub(sending.process) and sending.cluster != "host" and a_list(sending)


def test_twenty_members_that_come_back_at_once_are_listed_a_few_at_a_time() -> None:
    async def story(world: World) -> None:
        before, lists = solo.shares(world), Lists(world)
        pairs = [(hub, member) for hub in world.hubs for member in world.members]
        async with solo.happening(world, "members-back-at-once"):
            for hub in world.hubs:
                world.kill(hub)
            await asyncio.sleep(60)
            for pair in pairs:
                world.links.slow(*pair, 0.5)
        await asyncio.sleep(60)
        assert 1 < lists.most <= LISTS_MAX
        for pair in pairs:
            world.links.slow(*pair, 0.0)
        await solo.settled(world)
        assert solo.shares(world) == before
        assert all(ready(world, member) == "True" for member in world.members)

    solo.tell(story, solo.world(members=20, nodes=1))
