"""What the rows about reads and watches promise: nothing is deleted on doubt, and whatever was
missed is caught up.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from federator.embedded.storage.revisions import DELETED, Event
from federator.kinds import registry
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.simulation import solo
from tests.simulation.story import Sent
from tests.simulation.world import World

pytestmark = pytest.mark.long

SCALED = 6


async def scale(world: World, name: str = "web", replicas: int = SCALED) -> None:
    ref = registry.KINDS["PinterestService"].ref("feed", name)
    await world.user("host").patch(ref, {"spec": {"replicas": replicas}})


def copies(world: World, name: str = "web") -> int:
    return sum(solo.shares(world)[name].values())


def deletions(world: World) -> Counter[str]:
    """Objects of ours that are deleted in members from now on, by kind and name."""
    found: Counter[str] = Counter()

    def note(event: Event) -> None:
        obj = event.current.obj
        if event.type is DELETED and (
            obj["kind"] in registry.WORKLOADS or obj["kind"] in ("Service", "ConfigMap")
        ):
            found[f"{obj['kind']} {obj['metadata']['name']}"] += 1

    for name in world.members:
        world.clusters[name].store.subscribe_all(note)
    return found


def during(
    name: str, for_s: float, *, draws: tuple[int, ...] = (0, 1)
) -> Callable[[World], Awaitable[None]]:
    """A story: while the episode lasts the user scales; nothing of ours is deleted, and in the end
    all is as asked. Several draws: they befall different clusters.
    """

    async def story(world: World) -> None:
        gone = deletions(world)
        for draw in draws:
            async with solo.happening(world, name, draw=draw):
                await scale(world, replicas=SCALED + draw)
                await asyncio.sleep(for_s)
            await solo.settled(world, 120.0)
            assert copies(world) == SCALED + draw
        assert not gone

    return story


def test_a_list_from_the_past_deletes_nothing_of_a_service_made_anew() -> None:
    async def story(world: World) -> None:
        ref = registry.KINDS["PinterestService"].ref("feed", "web")
        old = await world.user("host").get(ref)
        await world.user("host").delete(ref, uid=old["metadata"]["uid"])
        await asyncio.sleep(5)
        again = {name: old[name] for name in ("apiVersion", "kind", "spec")}
        await world.user("host").create(
            ref, {**again, "metadata": {"name": "web", "namespace": "feed"}}
        )
        await solo.settled(world)
        gone = deletions(world)
        async with solo.befalling(world, "stale-list"):
            for _ in range(6):
                for cluster in world.clusters:
                    await world.links.end_streams(cluster)
                async with solo.befalling(world, "expired-watch", 500):
                    await asyncio.sleep(5)
                world.rescheduled(solo.only("stale-list"))
                await asyncio.sleep(5)
        await solo.settled(world, 120.0)
        assert not gone

    solo.tell(story)


@pytest.mark.parametrize(
    ("name", "for_s"), [("missed-events", 20.0), ("pages-expire", 20.0), ("watches-close", 40.0)]
)
def test_what_a_cluster_does_not_tell_is_caught_up_and_nothing_is_deleted_for_it(
    name: str, for_s: float
) -> None:
    solo.tell(during(name, for_s))


@pytest.mark.parametrize(
    "name",
    ["expired-event", "expired-watch", "nonsense-event", "repeated-events", "shuffled-events"],
)
def test_streams_that_break_off_or_lie_delete_nothing_and_hide_nothing(name: str) -> None:
    async def story(world: World) -> None:
        gone = deletions(world)
        async with solo.befalling(world, name, 600):
            for cluster in world.clusters:
                await world.links.end_streams(cluster)
            await scale(world)
            await asyncio.sleep(40)
        await solo.settled(world, 120.0)
        assert copies(world) == SCALED
        assert not gone

    solo.tell(story)


def test_streams_that_were_forgotten_are_given_up_after_three_bookmarks_without_healing() -> None:
    async def story(world: World) -> None:
        for draw in (0, 3):
            async with solo.happening(world, "streams-forgotten", draw=draw):
                await scale(world, replicas=SCALED + draw)
                await asyncio.sleep(220)
                assert world.unsettled() == []
                assert copies(world) == SCALED + draw

    solo.tell(story)


def test_after_long_without_bookmarks_each_collection_is_listed_once_and_not_all_at_once() -> None:
    async def story(world: World) -> None:
        found: list[Sent] = []
        async with solo.happening(world, "no-bookmarks"):
            await asyncio.sleep(600)
            world.listeners.append(found.append)
        await asyncio.sleep(15)
        world.listeners.remove(found.append)
        lists = [
            sent for sent in found if ("limit", "500") in sent.request.query and not sent.watches
        ]
        # The runs of one cron job are listed by their label before it acts: that is no reflector's
        # list.
        lists = [
            sent
            for sent in lists
            if not any("pinterest.com/cronjob" in value for _, value in sent.request.query)
            # Kinds that are not served are asked for again and again.
            and not sent.request.path.startswith(("/apis/jobset.", "/apis/trainer."))
            and not sent.request.path.endswith("/podgroups")
        ]
        once = Counter((sent.process, sent.cluster, sent.request.path) for sent in lists)
        assert lists
        # Native cron jobs are workloads, and the leader hands cron jobs over with them: a second
        # reflector.
        handed = {where for where in once if where[2].endswith("/pinterestnativecronjobs")}
        assert max(once[where] for where in handed) <= 2, once
        assert {once[where] for where in once.keys() - handed} == {1}, once
        assert len({sent.at_s for sent in lists}) > len(lists) // 2

    solo.tell(story)


def test_watches_that_end_at_once_are_opened_ever_more_seldom_and_the_member_says_so() -> None:
    async def story(world: World) -> None:
        begun: Counter[tuple[str, str]] = Counter()

        def count(life: Life, sending: Sending) -> None:
            if sending.watches and sending.cluster == "a":
                begun[life.process, sending.request.path] += 1

        async with solo.happening(world, "watches-close"):
            await asyncio.sleep(90)
            seen = solo.conditions(solo.one_of(world, "MemberCluster", "a"))
            assert seen["Watching"] == ("False", "WatchFailing")
            assert seen["Ready"] == ("True", "Ready")
            world.senders.append(count)
            await asyncio.sleep(60)
            world.senders.remove(count)
        assert len(begun) > 10
        assert begun.total() <= 5 * len(begun), begun.most_common(3)
        assert begun.most_common(1)[0][1] <= 12  # waits are drawn from 3 to 30 s by then
        await asyncio.sleep(60)
        assert "Watching" not in solo.conditions(solo.one_of(world, "MemberCluster", "a"))

    solo.tell(story)


def test_a_flood_of_events_in_one_member_costs_the_others_nothing() -> None:
    async def story(world: World) -> None:
        leader = world.leader()
        async with solo.happening(world, "event-flood"):
            await scale(world)
            await solo.settled(world, 15.0)
        assert world.leader() == leader

    solo.tell(story)
